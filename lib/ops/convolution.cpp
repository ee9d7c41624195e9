// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/convolution.hpp>

#include <algorithm>

#include <reel/ops/reshape.hpp>

#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/ops/spatial.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel {
extern Op convolution_dense_op, convolution_data_op, convolution_weights_op;
namespace {
Shape shape_with(std::int64_t first, const Shape& middle, std::int64_t last) {
  Shape shape;
  shape.resize(middle.rank() + 2);
  shape.data()[0] = first;
  std::copy(middle.begin(), middle.end(), shape.data() + 1);
  shape.data()[middle.rank() + 1] = last;
  return shape;
}
void require_axes(const Inference& call, int i, const char* lengths) {
  const std::size_t axes = call.option<ConvolutionGeometry>().stride.rank();
  const Shape& shape = call.input(i).shape;
  if (shape.rank() != axes + 2)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                     to_text(axes + 2) + " axes: " + lengths, to_text(shape));
}
void require_window(const Inference& call, const char* lengths) {
  require_axes(call, 1, lengths);
  const Shape& weight = call.input(1).shape;
  for (std::size_t a = 0; a + 2 < weight.rank(); ++a)
    if (weight.data()[a] < 1)
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                       "a window of one element or more", to_text(weight));
}
[[noreturn]] void fail_channels(const Inference& call, int i, std::int64_t expected,
                                const char* axis, const Text& reason) {
  fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i),
                   to_text(expected) + " channels in " + axis + reason,
                   to_text(call.input(i).shape),
                   i == 0 ? "If axis 1 has the channels, say .channels = Channels::first." : "");
}

// x [batch, sizes, in], weight [taps, in / groups, out], bias [out]: [batch, sizes, out]
void convolution_shape(Inference& call) {
  const auto& options = call.option<ConvolutionGeometry>();
  for (int i = 0; i < call.input_count; ++i) require_floating(call, i);
  require_axes(call, 0, "the batch, the spatial axes and the channels");
  require_window(call, "the window, the input channels of a group and the output channels");
  const Shape &x = call.input(0).shape, &weight = call.input(1).shape;
  const std::int64_t in = weight.end()[-2] * options.groups, out = weight.end()[-1];
  if (out % options.groups != 0)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "output channels that " + to_text(options.groups) + " groups divide",
                     to_text(weight));
  if (x.end()[-1] != in)
    fail_channels(call, 0, in, "the last axis",
                  ", as the weight is " + to_text(weight) + " with " + to_text(options.groups) +
                      (options.groups == 1 ? " group" : " groups"));
  if (call.input_count > 2 && !(call.input(2).shape == Shape({out})))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 2),
                     "shape " + to_text(Shape({out})), to_text(call.input(2).shape));
  call.output(call.input(0).dtype, shape_with(x.data()[0], options.sizes, out));
}
// dy [batch, sizes, out], weight [taps, in / groups, out]: [batch, sizes, in]
void data_shape(Inference& call) {
  const auto& options = call.option<ConvolutionGeometry>();
  for (int i : {0, 1}) require_floating(call, i);
  require_axes(call, 0, "the batch, the spatial axes and the channels");
  require_window(call, "the window, the output channels of a group and the input channels");
  const Shape &dy = call.input(0).shape, &weight = call.input(1).shape;
  if (weight.end()[-1] % options.groups != 0)
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "input channels that " + to_text(options.groups) + " groups divide",
                     to_text(weight));
  if (dy.end()[-1] != weight.end()[-1])
    fail_channels(call, 0, weight.end()[-1], "the last axis",
                  ", as the weight is " + to_text(weight));
  call.output(call.input(0).dtype,
              shape_with(dy.data()[0], options.sizes, weight.end()[-2] * options.groups));
}
// x [batch, sizes, in], dy [batch, sizes, out]: [taps, in / groups, out]
void weights_shape(Inference& call) {
  const auto& options = call.option<ConvolutionGeometry>();
  for (int i : {0, 1}) {
    require_floating(call, i);
    require_axes(call, i, "the batch, the spatial axes and the channels");
  }
  const Shape &x = call.input(0).shape, &dy = call.input(1).shape;
  if (x.data()[0] != dy.data()[0])
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                     "a batch of " + to_text(x.data()[0]), to_text(dy));
  Shape shape = options.sizes;
  shape.resize(options.sizes.rank() + 2);
  shape.data()[options.sizes.rank()] = x.end()[-1] / options.groups;
  shape.data()[options.sizes.rank() + 1] = dy.end()[-1];
  call.output(call.input(0).dtype, shape);
}

const char* geometry_fits(const Inference& call) {
  const auto& o = call.option<ConvolutionGeometry>();
  const Shape& x = call.input(0).shape;
  const std::size_t axes = o.stride.rank();
  bool fits = axes >= 1 && axes <= 3 && x.rank() == axes + 2 && all_from(1, o.stride, axes) &&
              all_from(1, o.dilation, axes) && all_from(0, o.before, axes) &&
              all_from(0, o.sizes, axes) && o.groups >= 1 && o.groups < 1 << 20 &&
              call.input(1).shape.rank() == x.rank();
  const bool has_activation = &call.op == &convolution_dense_op;
  fits &= o.activation >= Activation::none &&
          o.activation <= (has_activation ? Activation::tanh : Activation::none);
  for (const std::int64_t length : call.input(1).shape) fits &= length >> 40 == 0;
  if (!fits) return "a geometry";
  const bool of_weights = &call.op == &convolution_weights_op,
             of_data = &call.op == &convolution_data_op;
  const Shape &y = of_weights ? call.input(1).shape : x, &window = call.input(1).shape;
  if (of_weights && (x.end()[-1] % o.groups || y.end()[-1] % o.groups)) return "a number of groups";
  double padded = 1, given = 1;  // elements as far as windows reach, which kernels copy
  for (const int i : {0, 1}) given += static_cast<double>(call.input(i).elements);
  for (const std::int64_t length : {x.data()[0], x.end()[-1]})
    padded *= static_cast<double>(length);
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t taps = of_weights ? o.sizes.data()[a] : window.data()[a];
    const std::int64_t out = of_weights || of_data ? y.data()[a + 1] : o.sizes.data()[a];
    const std::int64_t in = of_data ? o.sizes.data()[a] : x.data()[a + 1];
    if (taps < 1) return "a window";
    const auto reach = static_cast<double>((taps - 1) * o.dilation.data()[a]);
    padded *= std::max(static_cast<double>(in + o.before.data()[a]),
                       static_cast<double>((out - 1) * o.stride.data()[a])) +
              reach + 1;
  }
  return padded < std::max(0x1p24, 64 * given) ? nullptr : "windows near to the image";
}

using Convolution = Tensor (*)(Operand, Operand, Operand, const ConvolutionOptions&);
using Transposed = Tensor (*)(Operand, Operand, Operand, const TransposedConvolutionOptions&);
struct Case {
  Shape x, weight;
  ConvolutionOptions options;
};
std::vector<Case> cases() {
  return {
      {{2, 5, 3}, {2, 3, 4}, {}},
      {{1, 7, 4}, {3, 2, 2}, {.stride = 2, .padding = 1, .groups = 2}},
      {{2, 4, 5, 3}, {3, 2, 3, 2}, {.padding = {1, 0}}},
      {{1, 6, 5, 2}, {2, 3, 2, 3}, {.stride = {2, 3}, .dilation = {2, 1}, .padding = same}},
      {{1, 5, 4, 3}, {2, 2, 1, 3}, {.padding = {{0, 1}, {1, 2}}, .groups = 3}},
      {{1, 7, 3, 2}, {2, 1, 2, 2}, {.stride = {3, 1}, .dilation = {2, 1}}},
      {{1, 3, 4, 3, 2}, {2, 2, 3, 2, 2}, {.stride = {1, 2, 1}, .padding = 1}},
      {{0, 4, 3}, {2, 3, 2}, {}},
      {{1, 4, 0}, {2, 0, 2}, {}},
  };
}
Tensor convolved(std::size_t rank, const Tensor& x, const Tensor& weight,
                 const ConvolutionOptions& options) {
  return rank == 3   ? conv1d(x, weight, options)
         : rank == 4 ? conv2d(x, weight, options)
                     : conv3d(x, weight, options);
}
Tensor convolved(std::size_t rank, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const ConvolutionOptions& options) {
  return rank == 3   ? conv1d(x, weight, bias, options)
         : rank == 4 ? conv2d(x, weight, bias, options)
                     : conv3d(x, weight, bias, options);
}
constexpr Layout layouts[] = {Layout::plain, Layout::transposed, Layout::reversed, Layout::repeated,
                              Layout::stepped};
void convolution_samples(SampleList out) {
  for (const Layout layout : layouts)
    for (const Case& each : cases())
      if (layout == Layout::plain || each.x.rank() == 3)
        sample(out, {drawn(each.x, layout), drawn(each.weight, layout, {}, 3)},
               [each](const std::vector<Tensor>& in) {
                 return convolved(each.x.rank(), in[0], in[1], each.options);
               });
  sample(out, {drawn({1, 3, 5, 2}, Layout::transposed), drawn({2, 2, 2, 2}, Layout::reversed)},
         [](const std::vector<Tensor>& in) {
           return conv2d(transpose(in[0], {0, 2, 1, 3}), in[1], {.padding = 1});
         });
  sample(out, {drawn({1, 2, 4, 3}), drawn({2, 2, 2, 2}, {}, 3)}, [](const std::vector<Tensor>& in) {
    return conv2d(in[0], in[1], {.channels = Channels::first});
  });
}
void dense_samples(SampleList out, Activation activation) {
  for (const Layout layout : layouts)
    for (const Case& each : cases())
      if (layout == Layout::plain || each.x.rank() == 3)
        sample(out,
               {drawn(each.x, layout), drawn(each.weight, layout, {}, 3),
                drawn({each.weight.end()[-1]}, {}, 5)},
               [each, activation](const std::vector<Tensor>& in) {
                 ConvolutionOptions options = each.options;
                 options.activation = activation;
                 return convolved(each.x.rank(), in[0], in[1], in[2], options);
               });
}
void transposed_samples(SampleList out) {
  struct Transposed {
    Shape x, weight;
    TransposedConvolutionOptions options;
  };
  const Transposed all[] = {
      {{2, 3, 4}, {2, 3, 4}, {}},
      {{1, 3, 2, 4}, {3, 2, 1, 4}, {.stride = {2, 1}, .padding = 1, .groups = 2}},
      {{1, 3, 2, 2}, {2, 2, 3, 2}, {.stride = 3, .dilation = 2, .output_padding = {2, 1}}},
      {{1, 2, 2, 2, 3}, {2, 1, 2, 2, 3}, {.stride = 2, .padding = same}},
      {{1, 4, 3, 3}, {2, 2, 1, 3}, {.stride = {2, 3}, .groups = 3}},
      {{0, 4, 3}, {2, 2, 3}, {}},
      {{1, 4, 0}, {2, 2, 0}, {}}};
  for (const Layout layout : layouts)
    for (const Transposed& each : all)
      if (layout == Layout::plain || each.x.rank() == 3)
        sample(out, {drawn(each.x, layout), drawn(each.weight, layout, {}, 3)},
               [each](const std::vector<Tensor>& in) {
                 const std::size_t rank = each.x.rank();
                 return rank == 3   ? conv_transpose1d(in[0], in[1], each.options)
                        : rank == 4 ? conv_transpose2d(in[0], in[1], each.options)
                                    : conv_transpose3d(in[0], in[1], each.options);
               });
}
void weights_samples(SampleList out) {
  for (const auto& [groups, stride] : {std::pair{1, 1}, {2, 2}}) {
    const ConvolutionGeometry options{.stride = {stride, 1},
                                      .dilation = {1, 2},
                                      .before = {1, 0},
                                      .sizes = {2, 2},
                                      .groups = groups};
    sample(out, {drawn({2, 4, 5, 4}), drawn({2, stride == 1 ? 5 : 3, 3, 2}, {}, 3)},
           [options](const std::vector<Tensor>& in) {
             return run(convolution_weights_op, {in[0], in[1]}, options);
           });
  }
  const ConvolutionGeometry line{.stride = {1}, .dilation = {1}, .before = {0}, .sizes = {2}};
  for (const Layout layout : layouts)
    for (const std::int64_t batch : {0, 1, 2})
      sample(out, {drawn({batch, 4, 1}, layout), drawn({batch, 3, 2}, layout, {}, 3)},
             [line](const std::vector<Tensor>& in) {
               return run(convolution_weights_op, {in[0], in[1]}, line);
             });
}
bool reads(Part, const KernelCall&) { return true; }
}  // namespace

constinit Op convolution_op{.name = "convolution",
                            .arity = 2,
                            .shape = convolution_shape,
                            .promote = Promote::numeric,
                            .options = &options_type<ConvolutionGeometry>,
                            .check = geometry_fits,
                            .needs = {{need_input(1), need_input(0)}},
                            .contiguous_inputs = true,
                            .takes_all_values = true,
                            .autocast = Autocast::low,
                            .reads_halves = reads,
                            .samples = convolution_samples,
                            .argument_names = "x, weight"};
constinit Op convolution_add_op{
    .name = "convolution_add",
    .arity = 3,
    .shape = convolution_shape,
    .promote = Promote::numeric,
    .options = &options_type<ConvolutionGeometry>,
    .check = geometry_fits,
    .needs = {{need_input(1), need_input(0), 0}},
    .contiguous_inputs = true,
    .takes_all_values = true,
    .autocast = Autocast::low,
    .reads_halves = reads,
    .samples = [](SampleList out) { dense_samples(out, Activation::none); },
    .argument_names = "x, weight, bias"};
constinit Op convolution_dense_op{
    .name = "convolution_dense",
    .arity = 3,
    .shape = convolution_shape,
    .promote = Promote::numeric,
    .options = &options_type<ConvolutionGeometry>,
    .check = geometry_fits,
    .needs = {{need_input(1) | need_output(), need_input(0) | need_output(), need_output()}},
    .contiguous_inputs = true,
    .takes_all_values = true,
    .autocast = Autocast::low,
    .reads_halves = reads,
    .samples = [](SampleList out) { dense_samples(out, Activation::tanh); },
    .argument_names = "x, weight, bias"};
constinit Op convolution_data_op{.name = "convolution_data",
                                 .arity = 2,
                                 .shape = data_shape,
                                 .promote = Promote::numeric,
                                 .options = &options_type<ConvolutionGeometry>,
                                 .check = geometry_fits,
                                 .needs = {{need_input(1), need_input(0)}},
                                 .contiguous_inputs = true,
                                 .takes_all_values = true,
                                 .autocast = Autocast::low,
                                 .reads_halves = reads,
                                 .samples = transposed_samples,
                                 .argument_names = "x, weight"};
constinit Op convolution_weights_op{.name = "convolution_weights",
                                    .arity = 2,
                                    .shape = weights_shape,
                                    .promote = Promote::numeric,
                                    .options = &options_type<ConvolutionGeometry>,
                                    .check = geometry_fits,
                                    .needs = {{need_input(1), need_input(0)}},
                                    .contiguous_inputs = true,
                                    .takes_all_values = true,
                                    .internal = true,
                                    .autocast = Autocast::low,
                                    .reads_halves = reads,
                                    .samples = weights_samples};

namespace {
/// The reach of a window: the length of what it reads.
std::int64_t reach(std::int64_t window, const ConvolutionGeometry& geometry, int axis) {
  return geometry.dilation.data()[axis] * (window - 1) + 1;
}
/// The geometry of a convolution; the places and lengths are still to be set.
ConvolutionGeometry geometry_of(const Images& given, const Steps& stride, const Steps& dilation,
                                std::int64_t groups) {
  if (groups < 1)
    fail<ShapeError>(given.caller(), given.name(), "groups", "1 or more", to_text(groups));
  ConvolutionGeometry geometry;
  geometry.stride = geometry.before = geometry.sizes = given.numbers("stride", stride, 1);
  geometry.dilation = given.numbers("dilation", dilation, 1);
  geometry.groups = groups;
  return geometry;
}
/// The weight's shape, which has as many axes as x.
const Shape& window_of(const Images& given, const Operand& weight) {
  const Shape& shape = shape_of(convolution_op, weight, 1);
  given.require_rank("weight", shape);
  return shape;
}

Tensor convolve(const char* name, int axes, const Operand& x, const Operand& weight,
                const Operand* bias, const ConvolutionOptions& options) {
  const FunctionScope scope(x.caller(), name);
  const Images given(name, axes, convolution_op, x, options.channels);
  const Shape& window = window_of(given, weight);
  given.require_padding(options.padding);
  Op* const activating = core_ops.of(options.activation);
  if (!activating && options.activation != Activation::none)
    fail<Error>(x.caller(), name, "activation", "none, relu, sigmoid or tanh",
                to_text(static_cast<int>(options.activation)));
  ConvolutionGeometry geometry =
      geometry_of(given, options.stride, options.dilation, options.groups);
  for (int a = 0; a < axes; ++a) {
    const std::int64_t length = given.length(a), stride = geometry.stride.data()[a];
    const std::int64_t wide = reach(window.data()[a], geometry, a);
    std::int64_t before = options.padding.before(a), after = options.padding.after(a);
    if (options.padding.is_same()) {
      const std::int64_t all =
          std::max<std::int64_t>(0, ((length + stride - 1) / stride - 1) * stride + wide - length);
      before = all / 2;
      after = all - before;
    }
    const std::int64_t left = length + before + after - wide;
    if (window.data()[a] < 1 || left < 0)
      given.fail_window("weight", a, wide, length + before + after);
    geometry.before.data()[a] = before;
    geometry.sizes.data()[a] = left / stride + 1;
  }
  const Operand image(given.x(), x.caller());
  const auto is_own = [](const Op& op) { return !op.composite && op.gradient.fused; };
  if (bias && activating && is_own(*activating)) {
    geometry.activation = options.activation;
    return given.result(run(convolution_dense_op, {image, weight, *bias}, geometry));
  }
  Tensor y = bias ? run(convolution_add_op, {image, weight, *bias}, geometry)
                  : run(convolution_op, {image, weight}, geometry);
  return given.result(activating ? run_unary(*activating, std::move(y)) : std::move(y));
}

Tensor convolve_transposed(const char* name, int axes, const Operand& x, const Operand& weight,
                           const Operand* bias, const TransposedConvolutionOptions& options) {
  const FunctionScope scope(x.caller(), name);
  const Images given(name, axes, convolution_op, x, options.channels);
  const Shape& window = window_of(given, weight);
  given.require_padding(options.padding);
  ConvolutionGeometry geometry =
      geometry_of(given, options.stride, options.dilation, options.groups);
  const Shape more = given.numbers("output_padding", options.output_padding, 0);
  for (int a = 0; a < axes; ++a) {
    const std::int64_t stride = geometry.stride.data()[a],
                       wide = reach(window.data()[a], geometry, a);
    const std::int64_t most = std::max(stride, geometry.dilation.data()[a]);
    if (more.data()[a] >= most)
      fail<ShapeError>(x.caller(), name, "output_padding",
                       "less than the larger one of stride and dilation, " + to_text(most),
                       to_text(more.data()[a]));
    const std::int64_t all = (given.length(a) - 1) * stride + wide + more.data()[a];
    std::int64_t before = options.padding.before(a), size = all - before - options.padding.after(a);
    if (options.padding.is_same()) {
      size = given.length(a) * stride;
      before = std::max<std::int64_t>(0, all - size) / 2;
    }
    if (window.data()[a] < 1 || size < 1)
      fail<ShapeError>(x.caller(), name, "padding",
                       "less than the length " + to_text(all) + " of axis " + to_text(a + 1) +
                           " without padding",
                       to_text(all - size));
    geometry.before.data()[a] = before;
    geometry.sizes.data()[a] = size;
  }
  const Operand image(given.x(), x.caller());
  Tensor y = run(convolution_data_op, {image, weight}, geometry);
  if (bias) {
    const Shape &shape = shape_of(convolution_add_op, *bias, 2), channels{y.shape().end()[-1]};
    if (!(shape == channels))
      fail<ShapeError>(x.caller(), name, "bias", "shape " + to_text(channels), to_text(shape));
    y = run_binary(add_op, std::move(y), *bias);
  }
  return given.result(std::move(y));
}
}  // namespace

#define REEL_CONVOLUTIONS(axes)                                                                \
  Tensor conv##axes##d(Operand x, Operand weight, const ConvolutionOptions& options) {         \
    return convolve("conv" #axes "d", axes, x, weight, nullptr, options);                      \
  }                                                                                            \
  Tensor conv##axes##d(Operand x, Operand weight, Operand bias,                                \
                       const ConvolutionOptions& options) {                                    \
    return convolve("conv" #axes "d", axes, x, weight, &bias, options);                        \
  }                                                                                            \
  Tensor conv_transpose##axes##d(Operand x, Operand weight,                                    \
                                 const TransposedConvolutionOptions& options) {                \
    return convolve_transposed("conv_transpose" #axes "d", axes, x, weight, nullptr, options); \
  }                                                                                            \
  Tensor conv_transpose##axes##d(Operand x, Operand weight, Operand bias,                      \
                                 const TransposedConvolutionOptions& options) {                \
    return convolve_transposed("conv_transpose" #axes "d", axes, x, weight, &bias, options);   \
  }
REEL_CONVOLUTIONS(1)
REEL_CONVOLUTIONS(2)
REEL_CONVOLUTIONS(3)
#undef REEL_CONVOLUTIONS

const Entry convolution_ops[] = {&convolution_op,         &convolution_add_op,
                                 &convolution_dense_op,   &convolution_data_op,
                                 &convolution_weights_op, nullptr};
}  // namespace reel
