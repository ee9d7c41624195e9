// SPDX-License-Identifier: BSD-3-Clause
// What a gradient rule sees of a record, and where it leaves its results.
#pragma once
#include <initializer_list>
#include <utility>

#include "lib/gate/gate.hpp"
#include "lib/reel/reel.hpp"

namespace reel {
enum class Transposed : bool { no, yes };

class GradientCall {
 public:
  /// Whether the gradient of this input is asked for.
  bool wants(int input) const;
  /// The gradient of an output; zeros where none came.
  const Tensor& dy(int output = 0);
  bool has_dy(int output) const;
  /// Saved values; throw TapeError for what the op's needs do not name.
  const Tensor& input(int i);
  const Tensor& output(int i = 0);
  const Shape& input_shape(int i) const;
  DType input_dtype(int i) const;
  int input_count() const { return record_.input_count; }
  template <class T>
  const T& option() const {
    return *static_cast<const T*>(record_.options);
  }

  /// dx of the input's shape.
  void give(int input, Tensor dx);
  /// dx of a shape that the input was broadcast to: summed over the axes that were added.
  void give_sum(int input, Tensor dx);
  /// dx as the result of an op, which adds straight into the gradient where it can.
  void give(int input, Op& op, std::initializer_list<Operand> inputs, OptionsView options = {});
  /// dx = a b, or with the last axes swapped, straight from the matrices as they lie. False where
  /// they are more than matrices, or ops have to be seen.
  bool give_product(int input, const Tensor& a, Transposed a_transposed, const Tensor& b,
                    Transposed b_transposed);
  /// For z = x y (+ bias): puts the gradients of y and bias off, to be made with those of other
  /// products by y. False if they are to be given now.
  bool defer_product();
  /// From now on dy is the gradient in front of a pointwise op whose result output 0 is: by its
  /// pass. False where ops have to be seen.
  bool step_before(const Op& op);
  /// The same as somebody else has found it.
  void set_dy(Tensor dy) { own_dy_ = std::move(dy); }
  /// What the rule that a user registered says.
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
