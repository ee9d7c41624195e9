// SPDX-License-Identifier: BSD-3-Clause
#include "lib/ops/samples.hpp"

#include <cmath>
#include <utility>

#include <reel/ops/reshape.hpp>

namespace reel {
Tensor drawn(const Shape& shape, Draw draw, unsigned seed) {
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  // Multiples of the golden ratio modulo 1. Any number of them is spread evenly.
  double place = 0.5 + 0.381 * seed;
  for (double& value : values) {
    place += 0.6180339887498949;
    value = draw.low + (draw.high - draw.low) * (place - std::floor(place));
    if (draw.grid > 0) value = draw.grid * std::floor(value / draw.grid) + draw.offset;
  }
  return from_span(std::span<const double>(values), shape);
}

Tensor drawn(const Shape& shape, Layout layout, Draw draw, unsigned seed) {
  Shape base = shape;
  const std::size_t rank = shape.rank();
  switch (layout) {
    case Layout::plain:
      return drawn(shape, draw, seed);
    case Layout::transposed:
      for (std::size_t i = 0; i < rank; ++i) base.data()[i] = shape.data()[rank - 1 - i];
      return transpose(drawn(base, draw, seed));
    case Layout::reversed:
      return drawn(shape, draw, seed)(ellipsis, range({}, {}, -1));
    case Layout::repeated:
      base.data()[0] = 1;
      return broadcast_to(drawn(base, draw, seed), shape);
    case Layout::stepped:
      base.data()[rank - 1] *= 2;
      return drawn(base, draw, seed)(ellipsis, range({}, {}, 2));
  }
  return {};
}

std::vector<ShapeAndLayout> varied(std::size_t least_rank) {
  const std::vector<ShapeAndLayout> every = {{{}},
                                             {{1}},
                                             {{5}},
                                             {{0}},
                                             {{70}},
                                             {{7}, Layout::reversed},
                                             {{6}, Layout::repeated},
                                             {{2, 3}},
                                             {{3, 0}},
                                             {{1, 4}},
                                             {{3, 4}, Layout::transposed},
                                             {{4, 3}, Layout::repeated},
                                             {{3, 5}, Layout::stepped},
                                             {{2, 3, 4}},
                                             {{1, 1, 1}},
                                             {{2, 3, 4}, Layout::transposed},
                                             {{2, 0, 3}},
                                             {{3, 2, 2}, Layout::reversed},
                                             {{2, 3, 2}, Layout::repeated}};
  std::vector<ShapeAndLayout> found;
  for (const ShapeAndLayout& one : every)
    if (one.shape.rank() >= least_rank) found.push_back(one);
  return found;
}

void sample(SampleList out, std::vector<Tensor> inputs,
            detail::Function<Tensor(const std::vector<Tensor>&)> call, std::string note) {
  out.push_back({std::move(inputs), std::move(call), std::move(note)});
}

void samples_of(SampleList out, std::size_t least_rank,
                detail::Function<Tensor(const std::vector<Tensor>&)> call, Draw x,
                std::string note) {
  unsigned seed = 0;
  for (const auto& [shape, layout] : varied(least_rank))
    sample(out, {drawn(shape, layout, x, seed++)}, call, note);
}

void unary_samples(SampleList out, Unary f, Draw x) {
  samples_of(
      out, 0, [f](const std::vector<Tensor>& in) { return f(in[0]); }, x);
}

void binary_samples(SampleList out, Binary f, Draw x, Draw y) {
  using enum Layout;
  const std::pair<ShapeAndLayout, ShapeAndLayout> pairs[] = {
      {{{}}, {{}}},
      {{{}}, {{3}}},
      {{{2, 3}}, {{}}},
      {{{1}}, {{1}}},
      {{{3}}, {{2, 3}}},
      {{{2, 1}}, {{1, 3}}},
      {{{2, 1, 2}}, {{3, 1}}},
      {{{0}}, {{1}}},
      {{{2, 0, 3}}, {{3}}},
      {{{19}}, {{19}}},
      {{{2, 3}}, {{2, 3}}},
      {{{3, 4}, transposed}, {{3, 4}}},
      {{{3, 4}, transposed}, {{3, 4}, transposed}},
      {{{5}}, {{5}, reversed}},
      {{{4, 3}, repeated}, {{4, 3}, stepped}},
      {{{2, 3, 4}, reversed}, {{2, 3, 4}, transposed}}};
  const auto call = [f](const std::vector<Tensor>& in) { return f(in[0], in[1]); };
  unsigned seed = 0;
  for (const auto& [a, b] : pairs) {
    sample(out, {drawn(a.shape, a.layout, x, seed), drawn(b.shape, b.layout, y, seed + 7)}, call);
    ++seed;
  }
  const double left = drawn({}, x, 3).item<double>(), right = drawn({}, y, 5).item<double>();
  sample(
      out, {drawn({2, 3}, x, seed)},
      [f, right](const std::vector<Tensor>& in) { return f(in[0], right); }, "with a number");
  sample(
      out, {drawn({4}, y, seed)},
      [f, left](const std::vector<Tensor>& in) { return f(left, in[0]); }, "of a number");
}
}  // namespace reel
