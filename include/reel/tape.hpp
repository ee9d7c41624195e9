// SPDX-License-Identifier: BSD-3-Clause
// GradientTape: records ops while they run, and computes gradients from the records.
#pragma once  // defined in autograd
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/function.hpp>
#include <reel/op.hpp>
#include <reel/row_gradient.hpp>
#include <reel/signature.hpp>
#include <reel/variable.hpp>

namespace reel {
namespace detail {
class Lookups;
}
/// What gradient() does for a source that the target does not depend on: throw, return zeros, or
/// return an undefined Tensor.
enum class Unconnected { error, zero, none };

/// Options of a GradientTape.
struct TapeOptions {
  bool persistent = false;      // gradient() may be called more than once
  bool watch_variables = true;  // Variables are watched when they are read
};
/// Options of GradientTape::gradient() and row_gradients().
struct GradientOptions {
  Tensor upstream = {};  // gradient of the target; ones by default
  Unconnected unconnected = Unconnected::error;
  /// Is called once for each source, on the calling thread, as soon as the gradient of this source
  /// is complete; the backward pass then goes on. Its arguments are the position of the source in
  /// the list and the gradient. What it returns is the result for this source: a tensor of the same
  /// shape, dtype and device. The gradients of other sources do not change. The function may run
  /// ops: outer tapes record them, a trace captures them. An exception that it throws leaves
  /// gradient(); a persistent tape can be used again, another one is spent.
  detail::Function<Tensor(std::size_t source, Tensor gradient)> on_complete = {};
  /// Called after the pass for each source whose gradient row_gradients() gives as rows.
  detail::Function<RowGradient(std::size_t source, RowGradient gradient)> on_rows_complete = {};
};

/// The Tensor or Variable with respect to which a gradient is computed.
class GradientSource {
 public:
  GradientSource(const Tensor& x) : tensor_(&x) {}
  GradientSource(const Variable& x) : variable_(&x) {}
  const Tensor* tensor() const { return tensor_; }
  const Variable* variable() const { return variable_; }

 private:
  const Tensor* tensor_ = nullptr;
  const Variable* variable_ = nullptr;
};
template <class T>
concept SourceLike = std::is_same_v<T, Tensor> || std::is_same_v<T, Variable>;

/// Several sources: a braced list, or a vector of Tensors, of Variables or of both that outlives
/// the call.
class REEL_API GradientSources {
 public:
  GradientSources(std::initializer_list<GradientSource> sources) : count_(sources.size()) {
    list_ = sources.begin();
  }
  GradientSources(const std::vector<GradientSource>& sources)
      : list_(sources.data()), count_(sources.size()) {}
  GradientSources(const std::vector<Tensor>& tensors)
      : tensors_(tensors.data()), count_(tensors.size()) {}
  GradientSources(const std::vector<Variable>& variables)
      : variables_(variables.data()), count_(variables.size()) {}
  std::size_t size() const { return count_; }
  GradientSource operator[](std::size_t i) const {
    if (list_) return list_[i];
    return tensors_ ? GradientSource(tensors_[i]) : GradientSource(variables_[i]);
  }

 private:
  friend class GradientTape;
  explicit GradientSources(const GradientSource& one) : list_(&one), count_(1) {}
  const GradientSource* list_ = nullptr;
  const Tensor* tensors_ = nullptr;
  const Variable* variables_ = nullptr;
  std::size_t count_ = 0;
};

/// An op that a tape has recorded, with the line of the call.
struct RecordedOp {
  std::string name;
  std::string file;
  unsigned line = 0;
  std::vector<Shape> inputs, outputs;
  std::string options;
};

/// The tensors that a tape keeps alive for the gradients of an op at one line.
struct KeptTensors {
  std::string op, file;
  unsigned line = 0;
  std::int64_t tensors = 0, bytes = 0;
};
/// What a tape keeps alive. A tensor that several ops need counts for the first of them. Not
/// counted are values of Variables, tensors that the tape watches, and what your own gradient
/// functions hold.
struct TapeMemory {
  std::int64_t bytes = 0;
  std::vector<KeptTensors> ops;  // the largest first
};
/// A table: bytes, tensors, op and line.
REEL_API std::string to_string(const TapeMemory& memory);
REEL_API std::ostream& operator<<(std::ostream& out, const TapeMemory& memory);

/// While a tape exists, it records the ops of its thread that depend on watched Variables and
/// tensors. A Variable is watched when it is read; a tensor is watched after watch(x). Several
/// tapes may exist at once, nested or not, and they may end in any order. A tape does not record
/// the ops of its own gradient(); an outer tape records them.
///
/// A tape belongs to the thread that made it. Another thread may destroy the tape; any other use
/// there throws a TapeError. If another thread computes a value from a tensor of the tape, using
/// that value under the tape throws a TapeError; stop_gradient() makes a constant of it. There is
/// an exception: if a tape of the other thread watches the tensor too, its values are constants
/// here, without an error.
class REEL_API GradientTape {
 public:
  [[nodiscard]] explicit GradientTape(TapeOptions options = {}, Caller caller = Caller::here());
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// Records ops on x from now on. Throws DTypeError unless x is floating.
  void watch(const Tensor& x, Caller caller = Caller::here());
  void watch(const Variable& x, Caller caller = Caller::here());

  /// While a Pause exists, the tape records nothing. Pauses may overlap, and may exist longer than
  /// their tape. If the last one ends on another thread, gradient() throws a TapeError, because it
  /// is unknown which ops the tape has missed.
  class REEL_API Pause {
   public:
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    friend class GradientTape;
    Pause(GradientTape& tape, Caller caller);
    GradientTape* tape_;
    Pause* next_;
  };
  [[nodiscard]] Pause pause(Caller caller = Caller::here());

  /// Begins a time step, for truncated backpropagation through time. From now on a gradient goes
  /// back through this step and the `steps` - 1 before it. What the tape has recorded earlier is
  /// dropped, and its values are constants, also those of Variables; a Variable that is read
  /// again and a tensor that the tape watches stay sources. Throws Error unless `steps` is 1 or
  /// more, and TapeError in gradient() of this tape.
  ///
  ///     GradientTape tape({.persistent = true});
  ///     for (std::int64_t t = 0; t < steps; ++t) {
  ///       tape.truncate(20);
  ///       h = cell(x(t), h);
  ///       Tensor slope = tape.gradient(loss(h), cell.weight);
  ///     }
  void truncate(std::int64_t steps, Caller caller = Caller::here());

  /// d target / d source, with the shape and dtype of the source. If the target has several
  /// elements, it is the gradient of their sum, weighted by `upstream` if that is given. Throws
  /// TapeError if the target does not depend on the source. If an op cut the path, the error names
  /// it. Throws TapeError at the second call, unless the tape is persistent; a call whose arguments
  /// do not fit does not count. While a persistent tape runs a gradient function of yours, this
  /// function may call gradient() of the same tape. If your function destroys the tape, the
  /// gradient() that called it throws a TapeError.
  Tensor gradient(Operand target, GradientSource source, GradientOptions options = {});
  Tensor gradient(Operand target, GradientSource source, Unconnected unconnected);
  std::vector<Tensor> gradient(Operand target, GradientSources sources,
                               GradientOptions options = {});
  std::vector<Tensor> gradient(Operand target, GradientSources sources, Unconnected unconnected);
  // For a braced list of one source, which would be ambiguous between the overloads above.
  std::vector<Tensor> gradient(Operand target, std::initializer_list<GradientSource> sources,
                               GradientOptions options = {}) {
    return gradient(target, GradientSources(sources), options);
  }
  std::vector<Tensor> gradient(Operand target, std::initializer_list<GradientSource> sources,
                               Unconnected unconnected) {
    return gradient(target, GradientSources(sources), unconnected);
  }
  template <SourceLike A, SourceLike B, SourceLike... Rest>
  std::array<Tensor, 2 + sizeof...(Rest)> gradient(Operand target, const A& a, const B& b,
                                                   const Rest&... rest) {
    std::array<Tensor, 2 + sizeof...(Rest)> out;
    gradients(target, GradientSources({a, b, rest...}), {}, out.data());
    return out;
  }
  /// The gradients of Variables in one pass, for the step() of an optimizer. If lookup() or a
  /// sparse nn::Embedding reads a Variable, outside of checkpoint(), its gradient is the rows that
  /// were read; no tensor of the Variable's size is made. Gradients of other Variables are dense,
  /// as gradient() makes them. A position that was read k times has one row with the sum of its
  /// gradients, and k - 1 unused rows at the end, whose position is -1. Throws TapeError like
  /// gradient(), and if another op reads a Variable that lookup() reads.
  std::vector<RowGradient> row_gradients(Operand target, const std::vector<Variable>& sources,
                                         GradientOptions options = {});
  /// d target / d source for every element of the target. The shape is target.shape() followed by
  /// source.shape(). The dtype is that of the source.
  Tensor jacobian(Operand target, GradientSource source,
                  Unconnected unconnected = Unconnected::error);
  /// d target(i) / d source(i) for each position i of the first axis, the batch. The shape is
  /// target.shape() followed by source.shape() without its first axis: [batch, out, in] for rows.
  /// target(i) must depend on source(i) only; derivatives for other parts of the source would be
  /// added to the result. The cost is one pass over the tape for each element of target(0). Throws
  /// ShapeError unless both have a first axis of the same length. The dtype is that of the source.
  Tensor batch_jacobian(Operand target, GradientSource source,
                        Unconnected unconnected = Unconnected::error);

  /// The ops that this tape has recorded, in order, with the lines of the calls.
  std::vector<RecordedOp> ops(Caller caller = Caller::here()) const;
  /// Says in words what the gradient of `target` for `source` is like, with ops and lines: why it
  /// is missing (no path, an op without a gradient, a pause, an integer source, a tensor that is
  /// not watched), which op makes it zero everywhere, which op makes the first NaN or infinity, or
  /// how large it is. It runs the gradient and reads each step: for debugging. The tape can be used
  /// afterwards.
  std::string explain(Operand target, GradientSource source);
  /// What the tape keeps alive for its gradients, by op and line, the largest first.
  TapeMemory memory(Caller caller = Caller::here()) const;

 private:
  friend struct TapeAccess;
  std::vector<Tensor> rows(const Tensor& y, GradientSource source, Unconnected unconnected,
                           std::int64_t parts, Caller caller);
  Tensor jacobian_target(const Operand& target, GradientSource source, std::string_view name);
  void gradients(const Operand& target, const GradientSources& sources,
                 const GradientOptions& options, Tensor* out, bool may_miss = false,
                 detail::Lookups* lookups = nullptr);
  void require_unspent(std::string_view what, Caller caller) const;
  void end_pause(Pause& pause);
  void spend();
  std::uint64_t bit_ = 0;
  bool pause_ended_elsewhere_ = false;
  Pause* pauses_ = nullptr;
  void* reel_ = nullptr;
  TapeOptions options_;
  bool spent_ = false;
};

namespace detail {
/// The base of functions that grad() and others return. Their first argument stores the line of the
/// call.
struct TakesLine {};
template <class F, class... Rest>
Tensor call_at(Caller caller, const F& f, Tensor& x, const Rest&... rest) {
  if constexpr (std::is_base_of_v<TakesLine, F> || std::is_same_v<F, Tensor (*)(Operand)>)
    return f(Operand(x, caller), rest...);
  else
    return f(x, rest...);
}

/// The argument of f in grad() and its like: a tensor of its own, so that an equal tensor that f
/// captures is a constant.
REEL_API Tensor own_argument(const Tensor& x, Caller caller);

template <class F>
struct ValueAndGradient : TakesLine {
  F f;
  explicit ValueAndGradient(F function) : f(static_cast<F&&>(function)) {}
  template <class... Rest>
  std::pair<Tensor, Tensor> operator()(Operand at, const Rest&... rest) const {
    Tensor x = own_argument(at.value(), at.caller());
    GradientTape tape({}, at.caller());
    tape.watch(x, at.caller());
    Tensor y = call_at(at.caller(), f, x, rest...);
    Tensor slope = tape.gradient({y, at.caller()}, x);
    return {static_cast<Tensor&&>(y), static_cast<Tensor&&>(slope)};
  }
};
template <class F>
struct Gradient : ValueAndGradient<F> {
  using ValueAndGradient<F>::ValueAndGradient;
  template <class... Rest>
  Tensor operator()(Operand at, const Rest&... rest) const {
    return ValueAndGradient<F>::operator()(at, rest...).second;
  }
};
}  // namespace detail

/// Returns a function that computes the gradient of f with respect to its first argument. If f's
/// result has several elements, it is the gradient of their sum. A tensor that f captures is a
/// constant, even if it is the argument too; this holds for all functions of functions here and in
/// transform.hpp.
template <class F>
auto grad(F f) {
  return detail::Gradient<F>(static_cast<F&&>(f));
}
/// Returns a function that computes the value of f and its gradient with respect to the first
/// argument.
template <class F>
auto value_and_grad(F f) {
  return detail::ValueAndGradient<F>(static_cast<F&&>(f));
}
/// All derivatives of f at x. The shape is that of f(x) followed by that of x.
template <class F>
Tensor jacobian(F f, Tensor x, Caller caller = Caller::here()) {
  x = detail::own_argument(x, caller);
  GradientTape tape({.persistent = true}, caller);
  tape.watch(x, caller);
  return tape.jacobian({detail::call_at(caller, f, x), caller}, x);
}

namespace detail {
/// The values of a function, and the function from their gradients to those of its inputs.
using ValuesAndGradient = std::pair<Tensors, Function<Tensors(const Tensors&)>>;
/// Calls `f`, and records one op for it with the gradient function that it returned. The inputs of
/// this op are `inputs` and `variables`.
REEL_API Tensors run_custom(Operands inputs, const std::vector<Variable>& variables,
                            const Function<ValuesAndGradient(const OpCall&)>& f);

template <class F>
struct CustomGradient : TakesLine {
  F f;
  std::vector<Variable> variables;
  CustomGradient(F function, std::vector<Variable> captured)
      : f(static_cast<F&&>(function)), variables(static_cast<std::vector<Variable>&&>(captured)) {}
  auto operator()(Operand a) const { return run<0>({{a}, a.caller()}); }
  auto operator()(Operand a, Operand b) const { return run<0, 1>({{a, b}, a.caller()}); }
  auto operator()(Operand a, Operand b, Operand c) const {
    return run<0, 1, 2>({{a, b, c}, a.caller()});
  }
  auto operator()(Operand a, Operand b, Operand c, Operand d) const {
    return run<0, 1, 2, 3>({{a, b, c, d}, a.caller()});
  }
  // For a braced list of one, which would be ambiguous.
  auto operator()(std::initializer_list<Operand> list) const {
    return operator()(Operands(list, list.size() ? list.begin()->caller() : Caller()));
  }
  /// A list of any length, which f takes as Tensors.
  auto operator()(Operands list) const {
    const std::size_t count = list.size();
    return run(list, [this, count](const OpCall& call) {
      std::vector<Tensor> all;
      for (std::size_t i = 0; i < count; ++i) all.push_back(call.input(i));
      return f(Tensors(static_cast<std::vector<Tensor>&&>(all)));
    });
  }

 private:
  template <std::size_t... K>
  auto run(Operands inputs) const {
    return run(inputs, [this](const OpCall& call) { return f(call.input(K)...); });
  }
  template <class Call>
  auto run(Operands inputs, const Call& call_f) const {
    using Result = decltype(call_f(std::declval<const OpCall&>()));
    using IsSingle = std::is_convertible<decltype(Result::first), Tensor>;
    Tensors values = run_custom(inputs, variables, [&](const OpCall& call) -> ValuesAndGradient {
      auto made = call_f(call);
      const std::conditional_t<IsSingle::value, Tensor, Tensors> all = made.first;
      return {Tensors(all),
              [gradient = std::move(made.second)](const Tensors& upstream) mutable -> Tensors {
                if constexpr (IsSingle::value)
                  return gradient(upstream[0]);
                else
                  return gradient(upstream);
              }};
    });
    if constexpr (IsSingle::value)
      return Tensor(values[0]);
    else
      return values;
  }
};
}  // namespace detail

/// Returns a function with your own gradient. f takes one to four Tensors, or one list of type
/// Tensors. It returns a pair of the value (a Tensor or Tensors) and a gradient function. The
/// gradient function takes the gradient of the value, in the same form. It returns the gradients of
/// the arguments: a Tensor for one argument, Tensors for several. An undefined Tensor stands for no
/// gradient.
///
/// A Variable that f captures has a gradient only if it is listed in `variables`, also where no
/// argument has a gradient. The gradient function then also returns the gradients of these
/// Variables, after those of the arguments. gradient() of a tape throws TapeError where a source
/// leads to the value through a Variable or tensor that f reads and that is neither listed nor an
/// argument; stop_gradient(x) inside f makes a constant of x.
template <class F>
auto custom_gradient(F f, std::vector<Variable> variables = {}) {
  return detail::CustomGradient<F>(static_cast<F&&>(f),
                                   static_cast<std::vector<Variable>&&>(variables));
}
}  // namespace reel
