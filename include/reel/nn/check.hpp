// SPDX-License-Identifier: BSD-3-Clause
// A check that a model lists all Variables that it uses.
#pragma once  // defined in lib/flow
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/random.hpp>

namespace reel {
namespace detail {
/// The Variables that this thread reads while it lives.
class REEL_API VariableReads {
 public:
  VariableReads();
  ~VariableReads();
  VariableReads(const VariableReads&) = delete;
  VariableReads& operator=(const VariableReads&) = delete;
  /// Throws Error for one that is not among these.
  void require_listed(const std::vector<Variable>& listed, Caller caller) const;

 private:
  struct Listener;
  Listener* listener_;
};
[[noreturn]] REEL_API void fail_input_count(std::size_t count, Caller caller);

/// Gives Variables and generators back the state that they have now.
class REEL_API StateGuard {
 public:
  explicit StateGuard(const std::vector<Variable>& variables);
  ~StateGuard();
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;
  void add(const Generator& generator);

 private:
  std::vector<Variable> variables_;
  std::vector<Tensor> values_;
  std::vector<Generator> generators_;
  std::vector<std::uint64_t> places_;  // the seed and position of each
};
struct GeneratorVisitor {
  StateGuard& guard;
  void operator()(std::string_view, const auto& leaf) const {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Generator>) guard.add(leaf);
  }
};
template <class Model>
void add_generators(StateGuard& guard, const Model& model) try {
  visit_leaves("", model, GeneratorVisitor{guard});
} catch (const std::bad_alloc&) {
  fail_memory({}, "check");
}

template <class Model, class Call>
void check_reads(const Model& model, Caller caller, const Call& call) {
  const std::vector<Variable> listed = all_variables(model, "check");
  StateGuard guard(listed);
  guard.add(thread_generator());
  add_generators(guard, model);
  const VariableReads reads;
  call();
  reads.require_listed(listed, caller);
}
}  // namespace detail

namespace nn {
/// Runs f(inputs...) once. Throws Error if f reads Variables that the model does not list among its
/// members; the error names them. Such Variables would be neither trained nor saved, and clone()
/// would share them. Afterwards the model's Variables and generators, and the generator of the
/// thread, are as they were: running means do not move. Only reads on the calling thread are seen:
/// a Variable that f reads on another thread is not found.
///
///     nn::check(model, [&](const Tensor& x) { return model(x); }, ones({1, 784}));
template <class Model, class F>
requires std::is_invocable_v<F&>
void check(const Model& model, F&& f, Caller caller = Caller::here()) {
  detail::require_fields("", model);
  detail::check_reads(model, caller, [&] { static_cast<void>(f()); });
}
template <class Model, class F, class A>
requires std::is_invocable_v<F&, const A&>
void check(const Model& model, F&& f, const A& a, Caller caller = Caller::here()) {
  detail::require_fields("", model);
  detail::check_reads(model, caller, [&] { static_cast<void>(f(a)); });
}
template <class Model, class F, class A, class B>
requires std::is_invocable_v<F&, const A&, const B&>
void check(const Model& model, F&& f, const A& a, const B& b, Caller caller = Caller::here()) {
  detail::require_fields("", model);
  detail::check_reads(model, caller, [&] { static_cast<void>(f(a, b)); });
}
template <class Model, class F, class A, class B, class C>
requires std::is_invocable_v<F&, const A&, const B&, const C&>
void check(const Model& model, F&& f, const A& a, const B& b, const C& c,
           Caller caller = Caller::here()) {
  detail::require_fields("", model);
  detail::check_reads(model, caller, [&] { static_cast<void>(f(a, b, c)); });
}
/// check() with the inputs in a list: as many tensors as f takes, up to four.
template <class Model, class F>
requires(!std::is_invocable_v<F&, const std::vector<Tensor>&>) void check(
    const Model& model, F&& f, const std::vector<Tensor>& inputs, Caller caller = Caller::here()) {
  detail::require_fields("", model);
  using T = const Tensor&;
  const std::vector<Tensor>& x = inputs;
  detail::check_reads(model, caller, [&] {
    if constexpr (std::is_invocable_v<F&, T>)
      if (x.size() == 1) return static_cast<void>(f(x[0]));
    if constexpr (std::is_invocable_v<F&, T, T>)
      if (x.size() == 2) return static_cast<void>(f(x[0], x[1]));
    if constexpr (std::is_invocable_v<F&, T, T, T>)
      if (x.size() == 3) return static_cast<void>(f(x[0], x[1], x[2]));
    if constexpr (std::is_invocable_v<F&, T, T, T, T>)
      if (x.size() == 4) return static_cast<void>(f(x[0], x[1], x[2], x[3]));
    detail::fail_input_count(x.size(), caller);
  });
}
}  // namespace nn
}  // namespace reel
