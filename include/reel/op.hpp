// SPDX-License-Identifier: BSD-3-Clause
// Ops of your own, registered by name at run time: functions, gradients, kernels.
#pragma once  // defined in lib/gate
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reel/function.hpp>
#include <reel/variable.hpp>

namespace reel {
/// One tensor or several tensors.
class Tensors {
 public:
  Tensors() = default;
  Tensors(Tensor one) { values_.push_back(static_cast<Tensor&&>(one)); }
  Tensors(std::vector<Tensor> several) : values_(static_cast<std::vector<Tensor>&&>(several)) {}
  Tensors(std::initializer_list<Tensor> several) : values_(several) {}
  std::size_t size() const { return values_.size(); }
  Tensor& operator[](std::size_t i) { return values_[i]; }
  const Tensor& operator[](std::size_t i) const { return values_[i]; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<Tensor> values_;
};

/// The value of an op's attribute: an integer, a real number, a text or a list of integers.
class REEL_API Attribute {
 public:
  enum class Kind : std::uint8_t { integer, real, text, integers };
  template <Number T>
  Attribute(T value) : kind_(std::is_floating_point_v<T> ? Kind::real : Kind::integer) {
    if constexpr (std::is_floating_point_v<T>)
      real_ = static_cast<double>(value);
    else
      integer_ = static_cast<std::int64_t>(value);
  }
  Attribute(std::string_view text) : kind_(Kind::text), text_(text) {}
  Attribute(const char* text) : Attribute(std::string_view(text)) {}
  Attribute(std::vector<std::int64_t> values)
      : kind_(Kind::integers), integers_(std::move(values)) {}
  Kind kind() const { return kind_; }
  std::int64_t integer() const { return integer_; }
  double real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const std::string& text() const { return text_; }
  const std::vector<std::int64_t>& integers() const { return integers_; }
  friend bool operator==(const Attribute&, const Attribute&) = default;

 private:
  Kind kind_;
  std::int64_t integer_ = 0;
  double real_ = 0;
  std::string text_;
  std::vector<std::int64_t> integers_;
};
/// Attributes and their names.
using Attributes = std::vector<std::pair<std::string, Attribute>>;

struct CallView;  // the library's side of a call

/// A call of an op: what its function, gradient or kernel gets. It is valid during the call only.
class REEL_API OpCall {
 public:
  explicit OpCall(const CallView& call) : call_(&call) {}
  std::string_view name() const;
  std::size_t input_count() const;
  /// Throws IndexError if there is no such input.
  const Tensor& input(std::size_t i) const;
  /// The outputs of the op. Only a gradient function has them.
  std::size_t output_count() const;
  const Tensor& output(std::size_t i) const;
  /// Attributes given to call_op(). Throw Error if one is of another kind, or if it is absent and
  /// the call has no default (`otherwise`).
  const Attribute& attribute(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double real(std::string_view name) const;
  double real(std::string_view name, double otherwise) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  Caller caller() const;

 private:
  const Attribute* find(std::string_view name) const;
  const CallView* call_;
};

// Ops may be registered while other threads run other ops. The program must synchronise a new
// gradient or kernel with threads that run the op.

/// Adds an op. f computes its outputs by public ops, or from numbers that it reads in C++. Without
/// register_gradient(), a tape records the ops inside f, and numbers that f reads are constants.
/// Throws Error if the name is taken.
REEL_API void register_op(std::string_view name, detail::Function<Tensors(const OpCall&)> f,
                          Caller caller = Caller::here());
/// Sets the gradient of an op with one output. f gets the call and the gradient of the output. It
/// returns one tensor for each input, with the shape and dtype of this input; an undefined Tensor
/// stands for no gradient. A gradient that was set before is replaced.
/// gradient() of a tape throws TapeError where a source leads to the result through a tensor that
/// the function of the op reads and that is no input; stop_gradient(x) makes a constant of x.
REEL_API void register_gradient(std::string_view name,
                                detail::Function<Tensors(const OpCall&, Tensor upstream)> f,
                                Caller caller = Caller::here());
/// Sets the gradient of an op with several outputs. f gets an upstream gradient for each output.
REEL_API void register_gradients(
    std::string_view name, detail::Function<Tensors(const OpCall&, const Tensors& upstream)> f,
    Caller caller = Caller::here());
/// Replaces the kernel of an op on the CPU, for the rest of the program and also inside other ops.
/// f computes the outputs from the inputs. All inputs have the same dtype. They are not broadcast:
/// they may have different shapes, and a number is a tensor of rank 0. The results must have the
/// shapes and dtypes of the op that f replaces.
REEL_API void register_kernel(std::string_view name, detail::Function<Tensors(const OpCall&)> f,
                              Caller caller = Caller::here());

/// Calls an op by name: an op of the library or of register_op(). Attributes are for ops of
/// register_op() only. Throws Error for an unknown name, for attributes of an op of the library,
/// and for an attribute or an input that no function of the op reads. A function that calls
/// input_count() counts as reading all inputs.
REEL_API Tensor call_op(std::string_view name, Operands inputs, Attributes attributes = {});
/// Calls an op with several outputs by name.
REEL_API Tensors call_op_all(std::string_view name, Operands inputs, Attributes attributes = {});
/// The names of all ops, sorted.
REEL_API std::vector<std::string> op_names();
}  // namespace reel
