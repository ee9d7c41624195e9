// SPDX-License-Identifier: BSD-3-Clause
// The arguments and results of a gradient rule for one record.
#pragma once
#include <initializer_list>
#include <utility>

#include "lib/gate/gate.hpp"
#include "lib/record/record.hpp"

namespace reel {
enum class Transposed : bool { no, yes };

class GradientCall {
 public:
  /// Whether the gradient of this input is wanted.
  bool wants(int input) const;
  /// The gradient of an output; zeros if there is none.
  const Tensor& dy(int output = 0);
  bool has_dy(int output) const;
  /// Saved values. Throws TapeError for a value that the op's `needs` do not name.
  const Tensor& input(int i);
  const Tensor& output(int i = 0);
  const Shape& input_shape(int i) const;
  DType input_dtype(int i) const;
  int input_count() const { return record_.input_count; }
  /// For a user's gradient: the number of the inputs that the op lists. Throws TapeError if a
  /// source leads to a value that the function of the op has read without listing it.
  int listed_inputs() const;
  int output_count() const { return record_.output_count(); }
  template <class T>
  const T& option() const {
    return *static_cast<const T*>(record_.options);
  }

  /// dx of the input's shape.
  void give(int input, Tensor dx);
  /// dx of a shape that the input was broadcast to: summed over the axes that were added.
  void give_sum(int input, Tensor dx);
  /// Sets dx to the result of an op. If possible, the op adds directly into the gradient.
  void give(int input, Op& op, std::initializer_list<Operand> inputs, OptionsView options = {});
  /// dx = a b, or with the last axes swapped, straight from the matrices as they lie. False where
  /// they are more than matrices, or ops have to be seen.
  bool give_product(int input, const Tensor& a, Transposed a_transposed, const Tensor& b,
                    Transposed b_transposed);
  /// For z = x y (+ bias): defers the gradients of y and bias, to compute them together with those
  /// of other products with y. Returns false if they must be given now.
  bool defer_product();
  /// Replaces dy by the gradient before a pointwise op whose result is output 0, computed by a pass
  /// of this op. Returns false if a tape or an interceptor must see ops.
  bool step_before(const Op& op);
  /// Sets a gradient that was computed elsewhere.
  void set_dy(Tensor dy) { own_dy_ = std::move(dy); }
  /// The gradients from the rule that a user has registered.
  void give_from_user();

 private:
  friend class Playback;
  GradientCall(class Playback& playback, const Record& record)
      : playback_(playback), record_(record) {}
  Playback& playback_;
  const Record& record_;
  SmallVector<Tensor, 2> zeros_;
  Tensor own_dy_;
};
}  // namespace reel
