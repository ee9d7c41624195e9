// SPDX-License-Identifier: BSD-3-Clause
// Pooling, windows of images, and images of another size.
#pragma once  // defined in lib/ops
#include <reel/ops/convolution.hpp>

namespace reel {
/// Options of max_pool1d(), max_pool2d() and max_pool3d().
struct PoolOptions {
  Steps stride = 0;      ///< from one window to the next; 0 stands for the window
  Steps dilation = 1;    ///< from one element of a window to the next
  Paddings padding = 0;  ///< elements that are never the largest; at most half a window
  bool ceil = false;     ///< whether a last window may end behind the padded image
  Channels channels = {};
};
/// The largest element of each window, for each channel. x is [batch, width, channels]; the result
/// has ceil or floor((length + before + after - dilation (window - 1) - 1) / stride) + 1 elements
/// along the axis. With `ceil`, a window must begin in the image or in the padding before it. NaN
/// wins. The gradient goes to the largest element; of equal ones to the first. x is floating.
/// Throws ShapeError for other shapes, a window that does not fit, and padding of more than half a
/// window.
///
///     max_pool1d(tensor({{{1.f}, {3.f}, {2.f}, {0.f}}}), 2)   // [[[3.], [2.]]]
REEL_API Tensor max_pool1d(Operand x, Steps window, const PoolOptions& options = {});
/// See max_pool1d(): x is [batch, height, width, channels]. x is floating, and the result has its
/// dtype.
REEL_API Tensor max_pool2d(Operand x, Steps window, const PoolOptions& options = {});
/// See max_pool1d(): x is [batch, depth, height, width, channels]. x is floating, and the result
/// has its dtype.
REEL_API Tensor max_pool3d(Operand x, Steps window, const PoolOptions& options = {});

/// Options of mean_pool1d(), mean_pool2d() and mean_pool3d().
struct MeanPoolOptions {
  Steps stride = 0;  ///< from one window to the next; 0 stands for the window
  Paddings padding = 0;
  bool ceil = false;           ///< whether a last window may end behind the padded image
  bool count_padding = false;  ///< whether zeros of the padding count; true in PyTorch
  Channels channels = {};
};
/// The mean of the elements of each window, for each channel. Shapes, dtypes and errors are those
/// of max_pool1d(). What `ceil` adds is never counted.
///
///     mean_pool1d(tensor({{{1.f}, {3.f}, {2.f}, {0.f}}}), 2)  // [[[2.], [1.]]]
REEL_API Tensor mean_pool1d(Operand x, Steps window, const MeanPoolOptions& options = {});
/// See mean_pool1d(): x is [batch, height, width, channels]. x is floating, and the result has its
/// dtype.
REEL_API Tensor mean_pool2d(Operand x, Steps window, const MeanPoolOptions& options = {});
/// See mean_pool1d(): x is [batch, depth, height, width, channels]. x is floating, and the result
/// has its dtype.
REEL_API Tensor mean_pool3d(Operand x, Steps window, const MeanPoolOptions& options = {});

/// The mean of each of `size` windows, for each channel. Of a length n, window i of m goes from
/// floor(i n / m) to ceil((i + 1) n / m), as in PyTorch. x is [batch, width, channels] and
/// floating. Throws ShapeError for other shapes, an empty axis, and a size below 1.
REEL_API Tensor adaptive_mean_pool1d(Operand x, Steps size, Channels channels = {});
/// See adaptive_mean_pool1d(): x is [batch, height, width, channels]. x is floating, and the result
/// has its dtype.
REEL_API Tensor adaptive_mean_pool2d(Operand x, Steps size, Channels channels = {});
/// See adaptive_mean_pool1d(): x is [batch, depth, height, width, channels]. x is floating, and the
/// result has its dtype.
REEL_API Tensor adaptive_mean_pool3d(Operand x, Steps size, Channels channels = {});
/// The largest element of each of `size` windows; see adaptive_mean_pool1d(). x is floating, and
/// the result has its dtype.
REEL_API Tensor adaptive_max_pool1d(Operand x, Steps size, Channels channels = {});
/// See adaptive_max_pool1d(): x is [batch, height, width, channels]. x is floating, and the result
/// has its dtype.
REEL_API Tensor adaptive_max_pool2d(Operand x, Steps size, Channels channels = {});
/// See adaptive_max_pool1d(): x is [batch, depth, height, width, channels]. x is floating, and the
/// result has its dtype.
REEL_API Tensor adaptive_max_pool3d(Operand x, Steps size, Channels channels = {});

/// Options of unfold() and fold().
struct WindowOptions {
  Steps stride = 1;      ///< from one window to the next
  Steps dilation = 1;    ///< from one element of a window to the next
  Paddings padding = 0;  ///< zeros around the images
  Channels channels = {};
};
/// The windows of images as rows: x is [batch, one to three spatial axes, channels]; the result is
/// [batch, positions, window elements * channels], where positions and the elements of a window are
/// in row-major order and channels come last. A convolution is unfold(x, window) times its weight
/// as a matrix. Lengths and errors are those of conv1d(). The result has the dtype of x.
///
///     unfold(tensor({{{1.f}, {3.f}, {2.f}}}), 2)              // [[[1., 3.], [3., 2.]]]
REEL_API Tensor unfold(Operand x, Steps window, const WindowOptions& options = {});
/// The sum of windows at their places: the inverse of unfold(), where elements of several windows
/// are added. columns is [batch, positions, window elements * channels]; `image` has the spatial
/// lengths of the result, [batch, image..., channels]. Throws ShapeError if there are other
/// positions. The result has the dtype of the columns.
///
///     fold(tensor({{{1.f, 3.f}, {3.f, 2.f}}}), {3}, 2)        // [[[1.], [6.], [2.]]]
REEL_API Tensor fold(Operand columns, Shape image, Steps window, const WindowOptions& options = {});

/// How resize() finds an element between those of x: the nearest one, or a polynomial of degree 1
/// between two of them, or of degree 3 between four of them (Keys 1981, with a = -0.75).
enum class Resize : std::int64_t { nearest, linear, cubic };
/// Options of resize().
struct ResizeOptions {
  Resize method = {};
  bool align_corners = false;  ///< first and last elements keep their places, not the image's edges
  Channels channels = {};
};
/// Images of another size: x is [batch, one to three spatial axes, channels]; `size` has the new
/// lengths. Without align_corners, element i lies at (i + 0.5) length / size - 0.5, or `nearest`
/// takes floor(i length / size), as in PyTorch. x is floating. Throws ShapeError for other shapes,
/// a size below 1, and an empty axis.
///
///     resize(tensor({{{1.f}, {3.f}}}), 4, {.method = Resize::linear})
///     // [[[1.0], [1.5], [2.5], [3.0]]]
REEL_API Tensor resize(Operand x, Steps size, const ResizeOptions& options = {});
}  // namespace reel
