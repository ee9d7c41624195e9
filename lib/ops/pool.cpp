// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/pool.hpp>

#include <algorithm>
#include <cmath>
#include <new>
#include <vector>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/create.hpp>
#include <reel/ops/gather.hpp>
#include <reel/ops/matmul.hpp>
#include <reel/ops/reduce.hpp>

#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/ops/spatial.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel {
namespace {
Shape pooled(const Inference& call) {
  const auto& options = call.option<PoolGeometry>();
  require_floating(call, 0);
  Shape shape = call.input(0).shape;
  if (shape.rank() != options.window.rank() + 2)
    fail<ShapeError>(call.caller, call.op.name, "x", to_text(options.window.rank() + 2) + " axes",
                     to_text(shape));
  for (std::size_t a = 0; a < options.sizes.rank(); ++a)
    shape.data()[a + 1] = options.sizes.data()[a];
  return shape;
}
void max_pool_shape(Inference& call) { call.output(call.input(0).dtype, pooled(call)); }
void places_shape(Inference& call) { call.output(DType::int64, pooled(call)); }

bool has_empty_window(const PoolGeometry& g, int a, std::int64_t length);
const char* windows_fit(const Inference& call) {
  const auto& g = call.option<PoolGeometry>();
  const Shape& x = call.input(0).shape;
  const std::size_t axes = g.window.rank();
  if (axes < 1 || axes > 3 || x.rank() != axes + 2 || !all_from(1, g.window, axes) ||
      !all_from(1, g.stride, axes) || !all_from(1, g.dilation, axes) ||
      !all_from(0, g.before, axes) || !all_from(0, g.sizes, axes))
    return "a geometry";
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t out = g.sizes.data()[a], before = g.before.data()[a];
    const std::int64_t length = x.data()[a + 1];
    const bool one_sees = before <= (g.window.data()[a] - 1) * g.dilation.data()[a] &&
                          (out - 1) * g.stride.data()[a] < length + before;
    if (out && (!one_sees || (g.dilation.data()[a] > 1 && out > 1 << 20) ||
                has_empty_window(g, static_cast<int>(a), length)))
      return "windows with an element of the image";
  }
  return nullptr;
}
struct Case {
  Shape x;
  Steps window;
  PoolOptions options;
};
Tensor max_pooled(const Tensor& x, const Steps& window, const PoolOptions& options) {
  return x.rank() == 3   ? max_pool1d(x, window, options)
         : x.rank() == 4 ? max_pool2d(x, window, options)
                         : max_pool3d(x, window, options);
}
void max_pool_samples(SampleList out) {
  const Case cases[] = {{{2, 6, 3}, 2, {}},
                        {{1, 7, 5, 2}, {3, 2}, {.stride = 2, .padding = 1, .ceil = true}},
                        {{1, 5, 6, 17}, 2, {.stride = {1, 2}, .dilation = {2, 1}}},
                        {{1, 3, 4, 5, 2}, 2, {.padding = {{0, 1}, {1, 0}, {0, 0}}}},
                        {{0, 4, 3}, 2, {}},
                        {{2, 4, 0}, 2, {}}};
  for (const Layout layout : {Layout::plain, Layout::transposed, Layout::reversed, Layout::stepped})
    for (const Case& each : cases)
      sample(out, {drawn(each.x, layout)}, [each](const std::vector<Tensor>& in) {
        return max_pooled(in[0], each.window, each.options);
      });
}
void places_samples(SampleList out) {
  const PoolGeometry geometry{
      .window = {2, 3}, .stride = {2, 1}, .dilation = {1, 1}, .before = {1, 1}, .sizes = {2, 4}};
  for (const Shape& shape : {Shape({2, 3, 4, 5}), Shape({1, 3, 4, 1}), Shape({0, 3, 4, 2})})
    sample(out, {drawn(shape)}, [geometry](const std::vector<Tensor>& in) {
      return run(max_pool_places_op, {in[0]}, geometry);
    });
}
}  // namespace

constinit Op max_pool_op{.name = "max_pool",
                         .shape = max_pool_shape,
                         .options = &options_type<PoolGeometry>,
                         .check = windows_fit,
                         .needs = {{need_input(0)}},
                         .contiguous_inputs = true,
                         .samples = max_pool_samples};
constinit Op max_pool_places_op{.name = "max_pool_places",
                                .shape = places_shape,
                                .options = &options_type<PoolGeometry>,
                                .check = windows_fit,
                                .differentiable = false,
                                .contiguous_inputs = true,
                                .internal = true,
                                .samples = places_samples};

namespace {
/// The windows of a pooling function, before it is known where the padding counts.
struct Windows {
  PoolGeometry geometry;
  Shape padded;  // the lengths with padding

  Windows(const Images& given, const Steps& window, const Steps& stride, const Steps& dilation,
          const Paddings& padding, bool ceil) {
    given.require_padding(padding);
    geometry.window = given.numbers("window", window, 1);
    geometry.dilation = given.numbers("dilation", dilation, 1);
    geometry.stride = given.numbers("stride", stride, 0);
    geometry.before = geometry.sizes = padded = geometry.window;
    for (int a = 0; a < given.axes(); ++a) {
      const std::int64_t wide = geometry.dilation.data()[a] * (geometry.window.data()[a] - 1) + 1;
      std::int64_t& step = geometry.stride.data()[a];
      if (step == 0) step = geometry.window.data()[a];
      const std::int64_t length = given.length(a);
      std::int64_t before = padding.before(a), after = padding.after(a);
      if (padding.is_same()) {
        const std::int64_t all =
            std::max<std::int64_t>(0, ((length + step - 1) / step - 1) * step + wide - length);
        before = all / 2;
        after = all - before;
      } else if (2 * std::max(before, after) > wide) {
        fail<ShapeError>(given.caller(), given.name(), "padding",
                         "at most half a window, " + to_text(wide / 2),
                         to_text(std::max(before, after)));
      }
      const std::int64_t left = length + before + after - wide;
      if (left < 0 || length == 0) given.fail_window("window", a, wide, length + before + after);
      std::int64_t size = (left + (ceil ? step - 1 : 0)) / step + 1;
      if ((size - 1) * step >= length + before) --size;
      geometry.before.data()[a] = before;
      geometry.sizes.data()[a] = size;
      padded.data()[a] = length + before + after;
    }
  }
};
/// Whether a window along this axis has no element: one between two elements of its dilation.
bool has_empty_window(const PoolGeometry& g, int a, std::int64_t length) {
  const std::int64_t dilation = g.dilation.data()[a];
  for (std::int64_t o = 0; dilation > 1 && o < g.sizes.data()[a]; ++o) {
    const std::int64_t start = o * g.stride.data()[a] - g.before.data()[a];
    const std::int64_t skipped = start < 0 ? (-start + dilation - 1) / dilation : 0;
    if (skipped >= g.window.data()[a] || start + skipped * dilation >= length) return true;
  }
  return false;
}

Tensor max_pool(const char* name, int axes, const Operand& x, const Steps& window,
                const PoolOptions& options) {
  const FunctionScope scope(x.caller(), name);
  const Images given(name, axes, max_pool_op, x, options.channels);
  const Windows windows(given, window, options.stride, options.dilation, options.padding,
                        options.ceil);
  for (int a = 0; a < axes; ++a)
    if (has_empty_window(windows.geometry, a, given.length(a)))
      fail<ShapeError>(x.caller(), name, "dilation", "windows with an element of the image",
                       to_text(windows.geometry.dilation.data()[a]));
  return given.result(run(max_pool_op, given.operand(), windows.geometry));
}

/// A tensor of this value with the spatial lengths between two others.
Tensor constant(std::int64_t first, const Shape& middle, std::int64_t last, double value,
                const Tensor& like) {
  Shape shape;
  shape.resize(middle.rank() + 2);
  shape.data()[0] = first;
  std::copy(middle.begin(), middle.end(), shape.data() + 1);
  shape.data()[middle.rank() + 1] = last;
  return full(shape, value, {.dtype = like.dtype()}).to(like.device());
}
/// Sums over windows: a convolution of each channel with weights of `value`.
Tensor window_sums(const Tensor& x, const PoolGeometry& g, const Shape& before, double value,
                   Caller caller) {
  const std::int64_t channels = x.shape().end()[-1];
  Shape weight = g.window;
  weight.resize(weight.rank() + 2);
  weight.data()[g.window.rank()] = 1;
  weight.data()[g.window.rank() + 1] = channels;
  const ConvolutionGeometry geometry{.stride = g.stride,
                                     .dilation = g.dilation,
                                     .before = before,
                                     .sizes = g.sizes,
                                     .groups = std::max<std::int64_t>(channels, 1)};
  const Tensor weights = full(weight, value, {.dtype = x.dtype()}).to(x.device());
  return run(convolution_op, {Operand(x, caller), Operand(weights, caller)}, geometry);
}

Tensor mean_pool(const char* name, int axes, const Operand& x, const Steps& window,
                 const MeanPoolOptions& options) {
  const FunctionScope scope(x.caller(), name);
  if (const DType dtype = dtype_of(max_pool_op, x); is_half(dtype))
    return cast(mean_pool(name, axes, cast(x, DType::float32), window, options), dtype);
  const Images given(name, axes, max_pool_op, x, options.channels);
  if (!is_floating(given.x().dtype()))
    fail<DTypeError>(x.caller(), name, "x", "a floating dtype", name_of(given.x().dtype()));
  const Windows windows(given, window, options.stride, 1, options.padding, options.ceil);
  const PoolGeometry& g = windows.geometry;
  bool whole = true;  // whether all elements of all windows count
  Shape lengths = g.window, none = g.before;
  for (int a = 0; a < axes; ++a) {
    const std::int64_t counted = options.count_padding ? windows.padded.data()[a] : given.length(a);
    const std::int64_t reach = (g.sizes.data()[a] - 1) * g.stride.data()[a] + g.window.data()[a];
    const std::int64_t before = options.count_padding ? 0 : g.before.data()[a];
    whole = whole && before == 0 && reach <= counted;
    lengths.data()[a] = counted;
    none.data()[a] = before;
  }
  const double all = static_cast<double>(g.window.elements());
  if (whole) return given.result(window_sums(given.x(), g, g.before, 1 / all, x.caller()));
  const Tensor counts = window_sums(constant(1, lengths, 1, 1, given.x()), g, none, 1, x.caller());
  return given.result(window_sums(given.x(), g, g.before, 1, x.caller()) / counts);
}

/// x [.., n, ..] times a matrix [m, n] along one axis.
Tensor times_along(const Tensor& x, int axis, const Tensor& matrix, Caller caller) {
  const Shape& shape = x.shape();
  std::int64_t outer = 1, inner = 1;
  for (int a = 0; a < axis; ++a) outer *= shape.data()[a];
  for (int a = axis + 1; a < static_cast<int>(shape.rank()); ++a) inner *= shape.data()[a];
  const Tensor lines = reshape(Operand(x, caller), {outer, shape.data()[axis], inner});
  Shape result = shape;
  result.data()[axis] = matrix.shape().data()[0];
  return reshape(Operand(matmul(Operand(matrix, caller), Operand(lines, caller)), caller), result);
}
Shape sizes_of(const Images& given, const Steps& size) {
  const Shape sizes = given.numbers("size", size, 1);
  if (!is_floating(given.x().dtype()))
    fail<DTypeError>(given.caller(), given.name(), "x", "a floating dtype",
                     name_of(given.x().dtype()));
  for (int a = 0; a < given.axes(); ++a)
    if (given.length(a) == 0)
      fail<ShapeError>(given.caller(), given.name(), "x", "spatial axes with elements",
                       to_text(given.x().shape()));
  return sizes;
}
Tensor matrix_of(const std::vector<double>& values, std::int64_t rows, const Tensor& like,
                 Caller caller) {
  const Tensor made = tensor(values, caller).reshape({rows, -1}, caller);
  return made.to(like.dtype(), caller).to(like.device(), caller);
}

Tensor adaptive_pool(const char* name, int axes, const Operand& x, const Steps& size, bool largest,
                     Channels channels) try {
  const FunctionScope scope(x.caller(), name);
  if (const DType dtype = dtype_of(max_pool_op, x); is_half(dtype))
    return cast(adaptive_pool(name, axes, cast(x, DType::float32), size, largest, channels), dtype);
  const Images given(name, axes, max_pool_op, x, channels);
  const Shape sizes = sizes_of(given, size);
  Tensor y = given.x();
  for (int a = 0; a < axes; ++a) {
    const std::int64_t n = given.length(a), m = sizes.data()[a];
    if (m == n) continue;
    const auto begin = [&](std::int64_t i) { return i * n / m; };
    const auto end = [&](std::int64_t i) { return ((i + 1) * n + m - 1) / m; };
    if (n % m == 0) {  // windows side by side
      PoolGeometry g;
      g.window = g.stride = g.dilation = g.before = g.sizes = sizes;
      for (int b = 0; b < axes; ++b) {
        g.window.data()[b] = g.stride.data()[b] = b == a ? n / m : 1;
        g.dilation.data()[b] = 1;
        g.before.data()[b] = 0;
        g.sizes.data()[b] = b == a ? m : y.shape().data()[b + 1];
      }
      y = largest ? run(max_pool_op, Operand(y, x.caller()), g)
                  : window_sums(y, g, g.before, static_cast<double>(m) / static_cast<double>(n),
                                x.caller());
    } else if (largest) {
      std::vector<Tensor> parts;
      for (std::int64_t i = 0; i < m; ++i)
        parts.push_back(
            max(take(Operand(y, x.caller()), arange(begin(i), end(i)).to(y.device()), a + 1), a + 1,
                keepdims));
      y = concat(Operands(parts, x.caller()), a + 1);
    } else {
      std::vector<double> weights(static_cast<std::size_t>(m * n));
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t k = begin(i); k < end(i); ++k)
          weights[static_cast<std::size_t>(i * n + k)] =
              1.0 / static_cast<double>(end(i) - begin(i));
      y = times_along(y, a + 1, matrix_of(weights, m, y, x.caller()), x.caller());
    }
  }
  return given.result(std::move(y));
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), name);
}

/// The weights of the elements near a point at distance t, 0 <= t < 1, behind element 0.
struct Taps {
  int first, count;
  double weight[4];

  Taps(Resize method, double t) : first(0), count(1), weight{1, 0, 0, 0} {
    constexpr double a = -0.75;
    if (method == Resize::linear) {
      count = 2;
      weight[0] = 1 - t;
      weight[1] = t;
    } else if (method == Resize::cubic) {
      first = -1;
      count = 4;
      const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
      const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
      weight[0] = far(t + 1);
      weight[1] = near(t);
      weight[2] = near(1 - t);
      weight[3] = far(2 - t);
    }
  }
};
}  // namespace

Tensor resize(Operand x, Steps size, const ResizeOptions& options) try {
  const FunctionScope scope(x.caller(), "resize");
  if (const DType dtype = dtype_of(max_pool_op, x); is_half(dtype))
    return cast(resize(cast(x, DType::float32), size, options), dtype);
  const int rank = static_cast<int>(shape_of(max_pool_op, x).rank());
  if (rank < 3 || rank > 5)
    fail<ShapeError>(x.caller(), "resize", "x", "3 to 5 axes", to_text(x.shape()));
  const Images given("resize", rank - 2, max_pool_op, x, options.channels);
  const Shape sizes = sizes_of(given, size);
  Tensor y = given.x();
  for (int a = 0; a < given.axes(); ++a) {
    const std::int64_t n = given.length(a), m = sizes.data()[a];
    if (m == n && options.method != Resize::cubic) continue;
    const bool corners = options.align_corners && options.method != Resize::nearest;
    std::vector<std::int64_t> places[4];
    std::vector<double> weights[4];
    int count = 1;
    for (std::int64_t i = 0; i < m; ++i) {
      const double at = static_cast<double>(i),
                   ratio = static_cast<double>(n) / static_cast<double>(m);
      double from = options.method == Resize::nearest ? static_cast<double>(i * n / m)
                    : !corners                        ? (at + 0.5) * ratio - 0.5
                    : m == 1                          ? 0
                             : at * static_cast<double>(n - 1) / static_cast<double>(m - 1);
      if (options.method == Resize::linear) from = std::max(from, 0.0);
      const double whole = std::floor(from);
      const Taps taps(options.method, from - whole);
      count = taps.count;
      for (int t = 0; t < count; ++t) {
        places[t].push_back(
            std::clamp<std::int64_t>(static_cast<std::int64_t>(whole) + taps.first + t, 0, n - 1));
        weights[t].push_back(taps.weight[t]);
      }
    }
    Tensor sum;
    Shape along = y.shape();
    for (std::size_t b = 0; b < along.rank(); ++b)
      along.data()[b] = static_cast<int>(b) == a + 1 ? m : 1;
    for (int t = 0; t < count; ++t) {
      Tensor part =
          take(Operand(y, x.caller()), tensor(places[t], x.caller()).to(y.device()), a + 1);
      if (count > 1)
        part = part * matrix_of(weights[t], m, y, x.caller()).reshape(along, x.caller());
      sum = sum.defined() ? sum + part : part;
    }
    y = sum;
  }
  return given.result(std::move(y));
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "resize");
}

#define REEL_POOLS(axes)                                                                  \
  Tensor max_pool##axes##d(Operand x, Steps window, const PoolOptions& options) {         \
    return max_pool("max_pool" #axes "d", axes, x, window, options);                      \
  }                                                                                       \
  Tensor mean_pool##axes##d(Operand x, Steps window, const MeanPoolOptions& options) {    \
    return mean_pool("mean_pool" #axes "d", axes, x, window, options);                    \
  }                                                                                       \
  Tensor adaptive_mean_pool##axes##d(Operand x, Steps size, Channels channels) {          \
    return adaptive_pool("adaptive_mean_pool" #axes "d", axes, x, size, false, channels); \
  }                                                                                       \
  Tensor adaptive_max_pool##axes##d(Operand x, Steps size, Channels channels) {           \
    return adaptive_pool("adaptive_max_pool" #axes "d", axes, x, size, true, channels);   \
  }
REEL_POOLS(1)
REEL_POOLS(2)
REEL_POOLS(3)
#undef REEL_POOLS

const Entry pool_ops[] = {&max_pool_op, &max_pool_places_op, nullptr};
}  // namespace reel
