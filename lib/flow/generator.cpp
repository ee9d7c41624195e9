// SPDX-License-Identifier: BSD-3-Clause
// The generator of random numbers that a thread draws from.
#include <reel/random.hpp>

#include <new>
#include <utility>

#include "lib/flow/interceptor.hpp"
#include "lib/pool/process.hpp"

namespace reel {
struct Generator::State {
  std::uint32_t references = 1;
  std::uint64_t seed = 0, position = 0;
};

Generator::Generator(std::uint64_t seed) try : state_(new State{1, seed, 0}) {
} catch (const std::bad_alloc&) {
  fail_memory({}, "Generator");
}
Generator::Generator(const Generator& other) : state_(other.state_) {
  detail::add_reference(state_->references);
}
Generator& Generator::operator=(const Generator& other) {
  Generator copy(other);
  std::swap(state_, copy.state_);
  return *this;
}
Generator::~Generator() {
  if (detail::drop_reference(state_->references)) delete state_;
}
std::uint64_t seed_of(const Generator& generator) { return generator.state_->seed; }
std::uint64_t position_of(const Generator& generator) { return generator.state_->position; }
std::uint64_t Generator::seed() const {
  tell_interceptors("it reads the seed of a generator of random numbers");
  return state_->seed;
}
std::uint64_t Generator::position() const {
  tell_interceptors("it reads the position of a generator of random numbers");
  return state_->position;
}
void Generator::set_position(std::uint64_t position) { state_->position = position; }
void Generator::restore(std::uint64_t seed, std::uint64_t position) {
  tell_interceptors("it restores a generator of random numbers");
  state_->seed = seed;
  state_->position = position;
}
Generator Generator::clone() const {
  Generator copy(seed());
  copy.set_position(position());
  return copy;
}

namespace {
/// The first thread that draws has seed 0, each later one a seed of its own.
std::uint64_t seed_of_thread() {
  static constinit std::uint64_t threads = 0;
  static constinit thread_local std::uint64_t number = 0;
  if (!number) number = __atomic_add_fetch(&threads, 1u, __ATOMIC_RELAXED);
  return (number - 1) * 0x9e3779b97f4a7c15u;
}
struct ThreadGenerator : Generator {
  ThreadGenerator() : Generator(seed_of_thread()) {}
};
constinit thread_local OfThread<ThreadGenerator> own_generator;
}  // namespace

Generator& current_generator() {
  Generator* chosen = Context::here().generator;
  return chosen ? *chosen : own_generator.get();
}
Generator thread_generator() {
  tell_interceptors("it asks for the generator of random numbers");
  return current_generator();
}

void seed(std::uint64_t seed) try {
  own_generator.get().Generator::operator=(Generator(seed));
} catch (const std::bad_alloc&) {
  fail_memory({}, "seed");
}

GeneratorScope::GeneratorScope(const Generator& generator) : generator_(generator) {
  open_scope(*this, &Context::generator_scopes).generator = &generator_;
}
GeneratorScope::~GeneratorScope() {
  close_scope(*this, &Context::generator_scopes, [](Context& context, OpenScope* innermost) {
    context.generator = innermost ? &static_cast<GeneratorScope*>(innermost)->generator_ : nullptr;
  });
}
}  // namespace reel
