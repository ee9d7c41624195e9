// SPDX-License-Identifier: BSD-3-Clause
// GradientTape: records ops while they run, and plays them backward to compute gradients.
#pragma once  // defined in autograd
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/op.hpp>
#include <reel/signature.hpp>
#include <reel/variable.hpp>

namespace reel {
/// What gradient() does for a source that the target does not depend on: throw, or return zeros.
enum class Unconnected { error, zero };

/// Options of a GradientTape.
struct TapeOptions {
  bool persistent = false;      // gradient() may be called more than once
  bool watch_variables = true;  // Variables are watched when they are read
};
/// Options of GradientTape::gradient().
struct GradientOptions {
  Tensor upstream = {};  // gradient of the target; ones unless given
  Unconnected unconnected = Unconnected::error;
};

/// What a gradient is taken with respect to.
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

/// Several sources: a braced list, or a vector of Tensors or of Variables that outlives the call.
class REEL_API GradientSources {
 public:
  GradientSources(std::initializer_list<GradientSource> sources) : count_(sources.size()) {
    list_ = sources.begin();
  }
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

/// While it lives, records the ops of this thread that depend on what it watches. It watches
/// Variables by itself, and tensors on request. Tapes may nest, exist side by side, pause, and end
/// in any order. A tape does not record its own gradient(); an outer tape does.
///
/// A tape belongs to the thread that made it. Another thread gets a TapeError when it uses the
/// tape, but it may end it. If another thread computes a value from a tensor of the tape, using
/// that value under the tape is a TapeError; stop_gradient() makes a constant of it. If tapes of
/// several threads watch one tensor, each thread differentiates for itself: a value that one thread
/// computes from the tensor is a constant for the others.
class REEL_API GradientTape {
 public:
  explicit GradientTape(TapeOptions options = {}, Caller caller = Caller::here());
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// Records ops on x from now on. Throws DTypeError unless x is floating.
  void watch(const Tensor& x, Caller caller = Caller::here());
  void watch(const Variable& x, Caller caller = Caller::here());

  /// While it lives, the tape records nothing. Pauses may overlap and may outlive their tape. If
  /// the last one ends on another thread, gradient() throws a TapeError, because it is unknown
  /// which ops the tape has missed.
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

  /// d target / d source, of the shape and dtype of the source; a target that is no single number
  /// is summed (or weighted by `upstream`). Throws TapeError where the target does not depend on
  /// the source, naming where the path was cut, and when a tape that is not persistent is asked
  /// twice. A gradient function may ask a persistent tape that plays it; where it destroys the
  /// tape, gradient() throws a TapeError.
  Tensor gradient(Operand target, GradientSource source, GradientOptions options = {});
  Tensor gradient(Operand target, GradientSource source, Unconnected unconnected);
  std::vector<Tensor> gradient(Operand target, GradientSources sources,
                               GradientOptions options = {});
  std::vector<Tensor> gradient(Operand target, GradientSources sources, Unconnected unconnected);
  template <SourceLike A, SourceLike B, SourceLike... Rest>
  std::array<Tensor, 2 + sizeof...(Rest)> gradient(Operand target, const A& a, const B& b,
                                                   const Rest&... rest) {
    std::array<Tensor, 2 + sizeof...(Rest)> out;
    gradients(target, GradientSources({a, b, rest...}), {}, out.data());
    return out;
  }
  /// d target / d source for every element of the target: shape target.shape() + source.shape().
  Tensor jacobian(Operand target, GradientSource source,
                  Unconnected unconnected = Unconnected::error);

  /// The ops that this tape has recorded, in order, with the lines of the calls.
  std::vector<RecordedOp> ops(Caller caller = Caller::here()) const;

 private:
  void gradients(const Operand& target, const GradientSources& sources,
                 const GradientOptions& options, Tensor* out);
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
/// Functions made here: their first argument brings the line of the call.
struct TakesLine {};
template <class F, class... Rest>
Tensor call_at(Caller caller, const F& f, Tensor& x, const Rest&... rest) {
  if constexpr (std::is_base_of_v<TakesLine, F> || std::is_same_v<F, Tensor (*)(Operand)>)
    return f(Operand(x, caller), rest...);
  else
    return f(x, rest...);
}

template <class F>
struct ValueAndGradient : TakesLine {
  F f;
  explicit ValueAndGradient(F function) : f(static_cast<F&&>(function)) {}
  template <class... Rest>
  std::pair<Tensor, Tensor> operator()(Operand at, const Rest&... rest) const {
    Tensor x = tensor_of(at);
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

/// The function that gives the gradient of f with respect to its first argument. f's result is
/// summed.
template <class F>
auto grad(F f) {
  return detail::Gradient<F>(static_cast<F&&>(f));
}
/// The function that gives the value of f and its gradient with respect to the first argument.
template <class F>
auto value_and_grad(F f) {
  return detail::ValueAndGradient<F>(static_cast<F&&>(f));
}
/// All derivatives of f at x. The shape is that of f(x) followed by that of x.
template <class F>
Tensor jacobian(F f, Tensor x, Caller caller = Caller::here()) {
  GradientTape tape({.persistent = true}, caller);
  tape.watch(x, caller);
  return tape.jacobian({detail::call_at(caller, f, x), caller}, x);
}

namespace detail {
/// Runs `f` unrecorded, and records one op for it whose gradient is what `f` gave.
REEL_API Tensor run_custom(Operands inputs,
                           Function<std::pair<Tensor, Function<Tensors(Tensor)>>(const OpCall&)> f);

template <class F>
struct CustomGradient : TakesLine {
  F f;
  explicit CustomGradient(F function) : f(static_cast<F&&>(function)) {}
  Tensor operator()(Operand a) const { return run<0>({{a}, a.caller()}); }
  Tensor operator()(Operand a, Operand b) const { return run<0, 1>({{a, b}, a.caller()}); }
  Tensor operator()(Operand a, Operand b, Operand c) const {
    return run<0, 1, 2>({{a, b, c}, a.caller()});
  }
  Tensor operator()(Operand a, Operand b, Operand c, Operand d) const {
    return run<0, 1, 2, 3>({{a, b, c, d}, a.caller()});
  }

 private:
  template <std::size_t... I>
  Tensor run(Operands inputs) const {
    return run_custom(inputs,
                      [this](const OpCall& call) -> std::pair<Tensor, Function<Tensors(Tensor)>> {
                        auto [value, gradient] = f(call.input(I)...);
                        return {value, Function<Tensors(Tensor)>(gradient)};
                      });
  }
};
}  // namespace detail

/// A function with a gradient of your own. f takes one to four Tensors and returns a pair: the
/// value, and a function from the gradient of the value to the gradient of each argument (a Tensor,
/// or Tensors).
template <class F>
auto custom_gradient(F f) {
  return detail::CustomGradient<F>(static_cast<F&&>(f));
}
}  // namespace reel
