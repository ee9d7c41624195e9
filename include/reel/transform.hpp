// SPDX-License-Identifier: BSD-3-Clause
// Functions of functions: checkpoints, a model with other weights, and derivatives along vectors.
#pragma once     // defined in autograd
#include <span>  // std::span
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/tape.hpp>

namespace reel {
namespace detail {
REEL_API Tensors run_checkpoint(Operands inputs, const Function<Tensors(const Tensors&)>& f,
                                Function<Tensors(const Tensors&)> again);

/// Calls visit(tensor) for each Tensor of a result.
template <class R, class Visit>
void visit_tensors(R& result, const Visit& visit) {
  visit_leaves("", result, [&](std::string_view, auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>) visit(leaf);
  });
}
template <class R>
Tensors tensors_of(R& result) {
  std::vector<Tensor> all;
  visit_tensors(result, [&](Tensor& x) { all.push_back(x); });
  return all;
}

template <class F>
struct Checkpoint : TakesLine {
  F f;
  explicit Checkpoint(F function) : f(static_cast<F&&>(function)) {}
  auto operator()(Operand a) const { return run<0>({{a}, a.caller()}); }
  auto operator()(Operand a, Operand b) const { return run<0, 1>({{a, b}, a.caller()}); }
  auto operator()(Operand a, Operand b, Operand c) const {
    return run<0, 1, 2>({{a, b, c}, a.caller()});
  }
  auto operator()(Operand a, Operand b, Operand c, Operand d) const {
    return run<0, 1, 2, 3>({{a, b, c, d}, a.caller()});
  }

 private:
  template <std::size_t... K>
  auto run(Operands inputs) const try {
    using R = std::remove_cvref_t<decltype(f(std::declval<const Tensors&>()[K]...))>;
    std::vector<R> result;  // one, which need not have a default constructor
    const Function<Tensors(const Tensors&)> first = [this, &result](const Tensors& x) {
      result.push_back(f(x[K]...));
      return tensors_of(result[0]);
    };
    const Tensors named = run_checkpoint(inputs, first, [f = f](const Tensors& x) {
      R again = f(x[K]...);
      return tensors_of(again);
    });
    std::size_t i = 0;
    visit_tensors(result[0], [&](Tensor& x) { x = named[i++]; });
    return static_cast<R&&>(result[0]);
  } catch (const std::bad_alloc&) {
    fail_memory(inputs.caller(), "checkpoint");
  }
};
}  // namespace detail

/// Returns a function that computes what f computes, but needs less memory under a tape. The tape
/// keeps only what f reads, not the intermediate values inside f. gradient() runs f again to
/// compute these (Chen et al. 2016). So a chain of checkpoints costs one more run of each f, and
/// the intermediate values of only one f exist at a time.
///
///     checkpoint([](Tensor x) { return tanh(x) * 2; })(tensor({0.0, 1.0}))  // [0.0000, 1.5232]
///
/// f takes one to four Tensors. It returns a Tensor, or a struct, vector or pair of Tensors.
/// Variables, models and Tensors that f captures have gradients too. The second run draws the same
/// random numbers, has the same training() and default device, and reads the values that Variables
/// had in the first run. It does not write Variables, so running statistics change once. First and
/// second derivatives are those without checkpoint().
///
/// f is copied. Objects that f refers to must live until gradient() has returned. Only the result
/// of f has gradients; a tensor that f stores elsewhere is a constant for the tape. Both runs must
/// compute the same ops: results or random numbers of other shapes throw TapeError. In a traced
/// function, the random numbers of the first run are kept in memory.
template <class F>
auto checkpoint(F f) {
  return detail::Checkpoint<F>(static_cast<F&&>(f));
}

/// While it lives, this thread reads the given tensors instead of the values of Variables. The
/// Variables do not change, and other threads read their values as usual. Assigning one of these
/// Variables throws Error. A tape that is made during the scope watches the tensors, and its
/// gradient with respect to a Variable is the one with respect to its tensor. Traced functions that
/// are called during the scope run eagerly. A scope may be inside a traced function. Scopes may be
/// nested; for each Variable, the innermost scope that lists it counts.
class REEL_API WeightScope {
 public:
  /// Throws Error unless there is a weight for each Variable, ShapeError, DTypeError or DeviceError
  /// unless it has the Variable's shape, dtype and device.
  [[nodiscard]] WeightScope(const std::vector<Variable>& variables, Operands weights);
  ~WeightScope();
  WeightScope(const WeightScope&) = delete;
  WeightScope& operator=(const WeightScope&) = delete;

 private:
  struct Weights;
  Weights* weights_;
};

/// Calls model(x...) with other weights: tensors in the order of parameters(model). These may be
/// results of ops, so that a gradient goes through them (MAML, Finn et al. 2017).
///
///     std::vector<Tensor> weights = {full({1, 1}, 5.0), ones({1})};
///     functional_call(nn::Linear(1, 1), weights, tensor({{2.0}}))  // [[11.]]
///
/// The model does not change; see WeightScope, which does the same for any piece of code. Buffers
/// stay the model's own.
template <class Model, class... X>
auto functional_call(Model&& model, Operands weights, X&&... x) {
  detail::require_fields("", model);
  const WeightScope scope(parameters(model), weights);
  return model(static_cast<X&&>(x)...);
}

class LinearMap;
namespace detail {
REEL_API LinearMap linear_map(GradientTape& tape, const Tensor& y, const Tensor& x, Caller caller);
}  // namespace detail
/// The linear function from a change of x to the change of y = f(x), at the x of linearize().
/// Copies share one tape. It may be called on the thread that made it.
class REEL_API LinearMap {
 public:
  LinearMap(const LinearMap& other);
  LinearMap& operator=(const LinearMap& other);
  ~LinearMap();
  /// The derivative of y along `tangent`, which has the shape of x. Throws ShapeError for another
  /// shape.
  Tensor operator()(Operand tangent) const;

 private:
  friend LinearMap detail::linear_map(GradientTape&, const Tensor&, const Tensor&, Caller);
  struct State;
  explicit LinearMap(State* state) : state_(state) {}
  State* state_;
};

namespace detail {
REEL_API std::vector<Tensor> second_along(GradientTape& outer, std::span<const Tensor> slopes,
                                          std::span<const Tensor> along,
                                          const GradientSources& sources, Caller caller);
}  // namespace detail

/// f(x), and its derivative at x as a function of tangents (changes of x). f runs once, and each
/// call of that function costs about as much as one gradient. Method: double backward. The gradient
/// of y for x, weighted by u, is linear in u; its derivative with respect to u, weighted by the
/// tangent, is the derivative of y along the tangent. Throws TapeError if f(x) does not depend on
/// x.
///
///     linearize([](Tensor x) { return x * x; }, tensor({3.0})).second(tensor({2.0}))  // [12.]
template <class F>
std::pair<Tensor, LinearMap> linearize(F f, Tensor x, Caller caller = Caller::here()) {
  x = detail::own_argument(x, caller);
  GradientTape tape({.watch_variables = false}, caller);
  tape.watch(x, caller);
  Tensor y = detail::call_at(caller, f, x);
  LinearMap map = detail::linear_map(tape, y, x, caller);
  return {static_cast<Tensor&&>(y), static_cast<LinearMap&&>(map)};
}
/// f(x), and its derivative at x along `tangent`, which has the shape of x: the product of the
/// Jacobian with a vector. It costs about three times as much as f, whatever the size of y. The
/// method is that of linearize().
///
///     jvp([](Tensor x) { return x * x; }, tensor({3.0}), tensor({2.0})).second  // [12.]
template <class F>
std::pair<Tensor, Tensor> jvp(F f, Tensor x, Operand tangent) {
  auto [y, map] = linearize(static_cast<F&&>(f), static_cast<Tensor&&>(x), tangent.caller());
  return {y, map(tangent)};
}

/// The product of the Hessian of f at x with a vector of the shape of x, as the gradient of the
/// gradient along the vector (Pearlmutter 1994). It costs about two gradients, whatever the size of
/// x. If f(x) has several elements, it is the Hessian of their sum. If f is linear, the result is
/// zeros.
///
///     hvp([](Tensor x) { return sum(x * x * x); }, tensor({1.0}), tensor({2.0}))  // [12.]
template <class F>
Tensor hvp(F f, Tensor x, Tensor v, Caller caller = Caller::here()) {
  x = detail::own_argument(x, caller);
  GradientTape outer({.watch_variables = false}, caller), inner({.watch_variables = false}, caller);
  outer.watch(x, caller);
  inner.watch(x, caller);
  const Tensor slope = inner.gradient({detail::call_at(caller, f, x), caller}, x);
  return detail::second_along(outer, {&slope, 1}, {&v, 1}, {x}, caller)[0];
}
/// hvp() for the Variables that f() reads, such as parameters(model). Returns a vector of tensors
/// like the Variables.
///
///     hvp([&] { return cross_entropy(model(x), labels); }, parameters(model), directions);
template <class F>
std::vector<Tensor> hvp(F f, const std::vector<Variable>& variables, const std::vector<Tensor>& v,
                        Caller caller = Caller::here()) {
  GradientTape outer({}, caller), inner({}, caller);
  const std::vector<Tensor> slopes = inner.gradient({f(), caller}, variables);
  return detail::second_along(outer, slopes, v, variables, caller);
}

/// d f(x)(i) / d x(i) for each position i of the first axis, the batch: [batch, out, in] for f from
/// [batch, in] to [batch, out]. Row i of f(x) must depend on row i of x only. It costs one pass for
/// each element of f(x)(0); see GradientTape::batch_jacobian().
///
///     batch_jacobian([](Tensor x) { return x * x; }, tensor({2.0, 3.0}))  // [4., 6.]
template <class F>
Tensor batch_jacobian(F f, Tensor x, Caller caller = Caller::here()) {
  x = detail::own_argument(x, caller);
  GradientTape tape({.persistent = true}, caller);
  tape.watch(x, caller);
  return tape.batch_jacobian({detail::call_at(caller, f, x), caller}, x);
}
}  // namespace reel
