// SPDX-License-Identifier: BSD-3-Clause
// Convolutions along one, two or three spatial axes.
#pragma once  // defined in lib/ops
#include <cstdint>
#include <initializer_list>

#include <reel/activation.hpp>
#include <reel/ops/layout.hpp>
#include <reel/tensor.hpp>

namespace reel {
/// Where the channels of images are: the last axis, as in TensorFlow and JAX, or axis 1, as in
/// PyTorch. `last` is the default and the faster one: `first` moves the channels and back. It has 8
/// bytes, so that options of layers have no padding.
enum class Channels : std::int64_t { last, first };

/// What same() returns.
struct Same {};
/// Padding so that the result has ceil(length / stride) elements along each axis. The odd zero
/// comes after the elements, as in TensorFlow. Its name is enough: `.padding = same`. It is a
/// function, so that a program may have functions of this name too.
constexpr Same same() { return {}; }
/// Stands for no bias: `{}`.
struct NoBias {};

/// A number for each spatial axis, or one number for all of them: `2`, `{2, 1}`.
class Steps {
 public:
  template <WholeNumber... N>
  requires(sizeof...(N) >= 1 && sizeof...(N) <= 3) constexpr Steps(N... n)
      : number_{detail::position_of(n)...}, count_(sizeof...(N)) {}
  std::int64_t count() const { return count_; }
  std::int64_t operator[](int axis) const { return number_[count_ == 1 ? 0 : axis]; }

 private:
  std::int64_t number_[3] = {};
  std::int64_t count_;  // 8 bytes: no padding
};

/// Zeros around an image: a number for both ends of all axes (`1`), a number for both ends of each
/// axis (`{1, 2}`), a pair {before, after} for each axis (`{{1, 2}, {0, 1}}`), or `same`.
class Paddings {
 public:
  template <WholeNumber... N>
  requires(sizeof...(N) >= 1 && sizeof...(N) <= 3) constexpr Paddings(N... n)
      : before_{detail::position_of(n)...},
        after_{detail::position_of(n)...},
        count_(sizeof...(N)) {}
  constexpr Paddings(std::initializer_list<Padding> pairs)
      : count_(static_cast<std::int64_t>(pairs.size())) {
    for (std::int64_t i = 0; i < count_ && i < 3; ++i) {
      before_[i] = pairs.begin()[i].before.value;
      after_[i] = pairs.begin()[i].after.value;
    }
  }
  constexpr Paddings(Same) : count_(0) {}
  constexpr Paddings(Same (*)()) : count_(0) {}
  bool is_same() const { return count_ == 0; }
  std::int64_t count() const { return count_; }
  std::int64_t before(int axis) const { return before_[count_ == 1 ? 0 : axis]; }
  std::int64_t after(int axis) const { return after_[count_ == 1 ? 0 : axis]; }

 private:
  std::int64_t before_[3] = {}, after_[3] = {};
  std::int64_t count_;
};

/// Options of conv1d(), conv2d() and conv3d().
struct ConvolutionOptions {
  Steps stride = 1;    ///< from one window to the next
  Steps dilation = 1;  ///< from one tap of a window to the next
  Paddings padding = 0;
  std::int64_t groups = 1;     ///< each has its own part of the channels
  Channels channels = {};      ///< where x and the result have their channels
  Activation activation = {};  ///< applied to the result, in the same step if there is a bias
};
/// Options of conv_transpose1d(), conv_transpose2d() and conv_transpose3d().
struct TransposedConvolutionOptions {
  Steps stride = 1, dilation = 1;
  Paddings padding = 0;      ///< what the convolution added, and this one takes away
  Steps output_padding = 0;  ///< elements added after the result; less than stride or dilation
  std::int64_t groups = 1;
  Channels channels = {};
};

/// The convolution of images with windows of weights (a cross-correlation, as in all libraries for
/// neural networks): each element of the result is the sum over a window of x times the weight. The
/// last length of each shape is the number of channels:
/// - x is [batch, width, in]; for conv2d [batch, height, width, in]; for conv3d [batch, depth,
///   height, width, in];
/// - the weight is [window width, in / groups, out], and so on;
/// - the bias is [out];
/// - the result is [batch, width, out], and so on. A length is floor((length + before + after -
///   dilation (window - 1) - 1) / stride) + 1.
///
/// x, weight and bias are promoted to one floating dtype, which the result has. Throws ShapeError
/// for other shapes, for groups that do not divide the channels, and for a window that is larger
/// than the padded image. Without input channels the result is the bias, or zeros.
///
///     conv1d(tensor({{{1.f}, {2.f}, {3.f}}}), tensor({{{1.f}}, {{10.f}}}))     // [[[21.], [32.]]]
REEL_API Tensor conv1d(Operand x, Operand weight, const ConvolutionOptions& options = {});
/// conv1d() with a bias [out]. The three come to one floating dtype.
REEL_API Tensor conv1d(Operand x, Operand weight, Operand bias,
                       const ConvolutionOptions& options = {});
/// conv1d() without a bias: conv1d(x, weight, options), with its shapes and dtype.
inline Tensor conv1d(Operand x, Operand weight, NoBias, const ConvolutionOptions& options) {
  return conv1d(x, weight, options);
}
/// See conv1d(): x [batch, height, width, in], weight [window height, window width, in / groups,
/// out], bias [out]; the result is [batch, height, width, out]. The three come to one floating
/// dtype.
REEL_API Tensor conv2d(Operand x, Operand weight, const ConvolutionOptions& options = {});
/// conv2d() with a bias [out]. The three come to one floating dtype.
REEL_API Tensor conv2d(Operand x, Operand weight, Operand bias,
                       const ConvolutionOptions& options = {});
/// conv2d() without a bias: conv2d(x, weight, options), with its shapes and dtype.
inline Tensor conv2d(Operand x, Operand weight, NoBias, const ConvolutionOptions& options) {
  return conv2d(x, weight, options);
}
/// See conv1d(): x [batch, depth, height, width, in], weight [window depth, window height, window
/// width, in / groups, out], bias [out]; the result is [batch, depth, height, width, out]. The
/// three come to one floating dtype.
REEL_API Tensor conv3d(Operand x, Operand weight, const ConvolutionOptions& options = {});
/// conv3d() with a bias [out]. The three come to one floating dtype.
REEL_API Tensor conv3d(Operand x, Operand weight, Operand bias,
                       const ConvolutionOptions& options = {});
/// conv3d() without a bias: conv3d(x, weight, options), with its shapes and dtype.
inline Tensor conv3d(Operand x, Operand weight, NoBias, const ConvolutionOptions& options) {
  return conv3d(x, weight, options);
}

/// The transposed convolution, which is the gradient of conv1d() for its x: each element of x adds
/// the weight times itself to a window of the result. x is [batch, width, in], the weight is
/// [window width, out / groups, in], the bias is [out], the result is [batch, width, out]. A length
/// is (length - 1) stride - before - after + dilation (window - 1) + output_padding + 1. With
/// `padding = same` it is length times stride. Dtypes and errors are those of conv1d().
///
///     conv_transpose1d(ones({1, 2, 1}), ones({2, 1, 1}))  // [[[1.], [2.], [1.]]]
REEL_API Tensor conv_transpose1d(Operand x, Operand weight,
                                 const TransposedConvolutionOptions& options = {});
/// conv_transpose1d() with a bias [out]. The three come to one floating dtype.
REEL_API Tensor conv_transpose1d(Operand x, Operand weight, Operand bias,
                                 const TransposedConvolutionOptions& options = {});
/// conv_transpose1d() without a bias: conv_transpose1d(x, weight, options), with its shapes and
/// dtype.
inline Tensor conv_transpose1d(Operand x, Operand weight, NoBias,
                               const TransposedConvolutionOptions& options) {
  return conv_transpose1d(x, weight, options);
}
/// See conv_transpose1d(): x [batch, height, width, in], weight [window height, window width, out /
/// groups, in], bias [out]; the result is [batch, height, width, out]. The three come to one
/// floating dtype.
REEL_API Tensor conv_transpose2d(Operand x, Operand weight,
                                 const TransposedConvolutionOptions& options = {});
/// conv_transpose2d() with a bias [out]. The three come to one floating dtype.
REEL_API Tensor conv_transpose2d(Operand x, Operand weight, Operand bias,
                                 const TransposedConvolutionOptions& options = {});
/// conv_transpose2d() without a bias: conv_transpose2d(x, weight, options), with its shapes and
/// dtype.
inline Tensor conv_transpose2d(Operand x, Operand weight, NoBias,
                               const TransposedConvolutionOptions& options) {
  return conv_transpose2d(x, weight, options);
}
/// See conv_transpose1d(): x [batch, depth, height, width, in], weight [window depth, window
/// height, window width, out / groups, in], bias [out]; the result is [batch, depth, height, width,
/// out]. The three come to one floating dtype.
REEL_API Tensor conv_transpose3d(Operand x, Operand weight,
                                 const TransposedConvolutionOptions& options = {});
/// conv_transpose3d() with a bias [out]. The three come to one floating dtype.
REEL_API Tensor conv_transpose3d(Operand x, Operand weight, Operand bias,
                                 const TransposedConvolutionOptions& options = {});
/// conv_transpose3d() without a bias: conv_transpose3d(x, weight, options), with its shapes and
/// dtype.
inline Tensor conv_transpose3d(Operand x, Operand weight, NoBias,
                               const TransposedConvolutionOptions& options) {
  return conv_transpose3d(x, weight, options);
}
}  // namespace reel
