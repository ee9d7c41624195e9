// SPDX-License-Identifier: BSD-3-Clause
// References of convolutions and pooling: loops over output positions, taps and channels.
#include <cmath>
#include <limits>

#include "lib/table/options/convolution.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
namespace {
using Position = std::vector<std::int64_t>;

std::int64_t flat_of(const Shape& shape, const Position& at) {
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < at.size(); ++i) flat = flat * shape.data()[i] + at[i];
  return flat;
}
/// Calls f(element of x, element of the weight, element of y) for each product of a convolution
/// from x [batch, sizes, in] to y [batch, sizes, out].
template <class F>
void each_product(const Shape& x, const Shape& weight, const Shape& y,
                  const ConvolutionGeometry& options, const F& f) {
  const std::size_t axes = options.stride.rank();
  Shape taps = weight;
  taps.resize(axes);
  const std::int64_t of_group = y.end()[-1] / options.groups;
  each_position(y, [&](const Position& at, std::size_t flat) {
    each_position(taps, [&](const Position& tap, std::size_t) {
      Position from{at[0]}, by = tap;
      for (std::size_t a = 0; a < axes; ++a) {
        from.push_back(at[a + 1] * options.stride.data()[a] + tap[a] * options.dilation.data()[a] -
                       options.before.data()[a]);
        if (from.back() < 0 || from.back() >= x.data()[a + 1]) return;
      }
      const std::int64_t out = at[axes + 1], in = weight.data()[axes];
      for (std::int64_t c = 0; c < in; ++c) {
        Position source = from, factor = by;
        source.push_back(out / of_group * in + c);
        factor.insert(factor.end(), {c, out});
        f(static_cast<std::size_t>(flat_of(x, source)),
          static_cast<std::size_t>(flat_of(weight, factor)), flat);
      }
    });
  });
}
Shape result(const Shape& x, const ConvolutionGeometry& options, std::int64_t channels) {
  std::vector<std::int64_t> lengths{x.data()[0]};
  lengths.insert(lengths.end(), options.sizes.begin(), options.sizes.end());
  lengths.push_back(channels);
  return Shape(lengths);
}
Host zero(const Shape& shape) {
  return filled(shape, [](const Position&) { return 0.0; });
}

Hosts convolution(const Hosts& in, const void* given) {
  const auto& options = as<ConvolutionGeometry>(given);
  Host y = zero(result(in[0].shape, options, in[1].shape[-1]));
  each_product(in[0].shape, in[1].shape, y.shape, options,
               [&](std::size_t a, std::size_t b, std::size_t c) {
                 y.values[c] += in[0].values[a] * in[1].values[b];
               });
  if (in.size() > 2)
    for (std::size_t i = 0; i < y.values.size(); ++i)
      y.values[i] += in[2].values[i % in[2].values.size()];
  if (options.activation == Activation::tanh)
    for (double& value : y.values) value = std::tanh(value);
  return {y};
}
Hosts data(const Hosts& in, const void* given) {
  const auto& options = as<ConvolutionGeometry>(given);
  Host x = zero(result(in[0].shape, options, in[1].shape[-2] * options.groups));
  each_product(x.shape, in[1].shape, in[0].shape, options,
               [&](std::size_t a, std::size_t b, std::size_t c) {
                 x.values[a] += in[0].values[c] * in[1].values[b];
               });
  return {x};
}
Hosts weights(const Hosts& in, const void* given) {
  const auto& options = as<ConvolutionGeometry>(given);
  std::vector<std::int64_t> lengths(options.sizes.begin(), options.sizes.end());
  lengths.insert(lengths.end(), {in[0].shape[-1] / options.groups, in[1].shape[-1]});
  Host weight = zero(Shape(lengths));
  each_product(in[0].shape, weight.shape, in[1].shape, options,
               [&](std::size_t a, std::size_t b, std::size_t c) {
                 weight.values[b] += in[0].values[a] * in[1].values[c];
               });
  return {weight};
}
/// The largest element of each window, or its place in the image.
Hosts largest(const Hosts& in, const void* given, bool place) {
  const auto& options = as<PoolGeometry>(given);
  const std::size_t axes = options.window.rank();
  Shape shape = in[0].shape;
  for (std::size_t a = 0; a < axes; ++a) shape.data()[a + 1] = options.sizes.data()[a];
  return {filled(shape, [&](const Position& at) {
    double best = -std::numeric_limits<double>::infinity(), found = 0;
    bool any = false;
    each_position(options.window, [&](const Position& tap, std::size_t) {
      Position from = at;
      std::int64_t pixel = 0;
      for (std::size_t a = 0; a < axes; ++a) {
        const std::int64_t length = in[0].shape.data()[a + 1];
        const std::int64_t p = at[a + 1] * options.stride.data()[a] +
                               tap[a] * options.dilation.data()[a] - options.before.data()[a];
        if (p < 0 || p >= length) return;
        from[a + 1] = p;
        pixel = pixel * length + p;
      }
      const double x = in[0].values[static_cast<std::size_t>(flat_of(in[0].shape, from))];
      if (any && !(x > best || (std::isnan(x) && !std::isnan(best)))) return;
      best = x;
      found = static_cast<double>(pixel);
      any = true;
    });
    return place ? found : best;
  })};
}
}  // namespace

void add_convolution_references(References& table) {
  table["convolution"] = table["convolution_add"] = table["convolution_dense"] = convolution;
  table["convolution_data"] = data;
  table["convolution_weights"] = weights;
  table["max_pool"] = [](const Hosts& in, const void* given) { return largest(in, given, false); };
  table["max_pool_places"] = [](const Hosts& in, const void* given) {
    return largest(in, given, true);
  };
}
}  // namespace reel::tests
