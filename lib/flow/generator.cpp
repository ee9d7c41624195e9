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
/// The first flow that draws has seed 0, each later one a seed of its own.
std::uint64_t next_seed() {
  static constinit std::uint64_t flows = 0;
  return (__atomic_add_fetch(&flows, 1u, __ATOMIC_RELAXED) - 1) * 0x9e3779b97f4a7c15u;
}
std::uint64_t seed_of_thread() {
  static constinit thread_local std::uint64_t own = 0;
  static constinit thread_local bool known = false;
  if (!std::exchange(known, true)) own = next_seed();
  return own;
}
struct ThreadGenerator : Generator {
  ThreadGenerator() : Generator(seed_of_thread()) {}
};
constinit thread_local OfThread<ThreadGenerator> generator_of_thread;

/// Without a scope.
Generator& own_generator(const Flow& flow) try {
  return flow.own_generator ? *flow.own_generator : generator_of_thread.get();
} catch (const std::bad_alloc&) {
  fail_memory({}, "Generator");
}
}  // namespace

Generator new_generator() { return Generator(next_seed()); }

Generator& current_generator() {
  const Flow& flow = Context::here();
  return flow.generator ? *flow.generator : own_generator(flow);
}
Generator thread_generator() {
  tell_interceptors("it asks for the generator of random numbers");
  return current_generator();
}

void seed(std::uint64_t seed) {
  const Flow& flow = Context::here();
  if (flow.generator) return flow.generator->restore(seed, 0);
  own_generator(flow).Generator::operator=(Generator(seed));
}

GeneratorScope::GeneratorScope(const Generator& generator) : generator_(generator) {
  open_scope(*this, &Flow::generator_scopes).generator = &generator_;
}
GeneratorScope::~GeneratorScope() {
  close_scope(*this, &Flow::generator_scopes, [](Flow& flow, OpenScope* innermost) {
    flow.generator = innermost ? &static_cast<GeneratorScope*>(innermost)->generator_ : nullptr;
  });
}
}  // namespace reel
