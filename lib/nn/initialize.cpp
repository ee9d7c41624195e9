// SPDX-License-Identifier: BSD-3-Clause
#include <reel/nn/initialize.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/matmul.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/random.hpp>

#include <algorithm>
#include <cmath>

#include "lib/nn/check.hpp"

namespace reel::nn {
namespace {
struct Fans {
  double in, out;
};
Fans fans(std::string_view name, const Shape& shape, DType dtype, Caller caller) {
  checked(name, dtype, caller);
  if (shape.rank() < 2) {
    fail<ShapeError>(caller, name, "shape", "two axes or more", to_text(shape));
  }
  const auto in = shape[-2], out = shape[-1];
  const std::int64_t others = in * out == 0 ? 0 : shape.elements() / (in * out);
  return {std::max(1.0, static_cast<double>(in * others)),
          std::max(1.0, static_cast<double>(out * others))};
}
Tensor uniform_within(const Shape& shape, double limit, DType dtype, Caller caller) {
  return random::uniform(shape, {.low = -limit, .high = limit, .dtype = dtype}, caller);
}
Tensor normal_around_zero(const Shape& shape, double deviation, DType dtype, Caller caller) {
  return random::normal(shape, {.stddev = deviation, .dtype = dtype}, caller);
}

/// The method of Gram and Schmidt. Each row is made orthogonal twice, because once loses digits if
/// rows are nearly parallel.
Tensor orthogonalised(const Tensor& x) {
  Tensor rows = x(range(0, 0));
  for (std::int64_t i = 0; i < x.shape(0); ++i) {
    Tensor row = x(range(i, i + 1));
    for (int pass = 0; pass < 2; ++pass) {
      row = row - matmul(matmul(row, transpose(rows)), rows);
      row = row / sqrt(sum(square(row)));
    }
    rows = concat({rows, row}, 0);
  }
  return rows;
}
}  // namespace

Tensor glorot_uniform(Shape shape, TensorOptions options, Caller caller) {
  const CallerScope here(caller, "glorot_uniform");
  const auto [in, out] = fans("glorot_uniform", shape, options.dtype, caller);
  return uniform_within(shape, std::sqrt(6 / (in + out)), options.dtype, caller);
}
Tensor glorot_normal(Shape shape, TensorOptions options, Caller caller) {
  const CallerScope here(caller, "glorot_normal");
  const auto [in, out] = fans("glorot_normal", shape, options.dtype, caller);
  return normal_around_zero(shape, std::sqrt(2 / (in + out)), options.dtype, caller);
}
Tensor he_uniform(Shape shape, TensorOptions options, Caller caller) {
  const CallerScope here(caller, "he_uniform");
  const double in = fans("he_uniform", shape, options.dtype, caller).in;
  return uniform_within(shape, std::sqrt(6 / in), options.dtype, caller);
}
Tensor he_normal(Shape shape, TensorOptions options, Caller caller) {
  const CallerScope here(caller, "he_normal");
  const double in = fans("he_normal", shape, options.dtype, caller).in;
  return normal_around_zero(shape, std::sqrt(2 / in), options.dtype, caller);
}

Tensor orthogonal(Shape shape, double gain, TensorOptions options, Caller caller) {
  const CallerScope here(caller, "orthogonal");
  checked("orthogonal", options.dtype, caller);
  if (shape.rank() != 2) {
    fail<ShapeError>(caller, "orthogonal", "shape", "two axes", to_text(shape));
  }
  if (!std::isfinite(gain))
    fail<Error>(caller, "orthogonal", "gain", "a finite number", error_text("{}", gain));
  const std::int64_t height = std::min(shape[0], shape[1]), width = std::max(shape[0], shape[1]);
  if (height == 0) return zeros(shape, options, caller);
  const Tensor drawn = random::normal({height, width}, {.dtype = DType::float64}, caller);
  const Tensor rows = (orthogonalised(drawn) * gain).to(options.dtype, caller);
  return shape[0] == height ? rows : transpose(Operand(rows, caller));
}

Tensor constant(Shape shape, double value, TensorOptions options, Caller caller) {
  const CallerScope here(caller, "constant");
  return full(shape, value, {DType::float64}, caller).to(options.dtype, caller);
}
}  // namespace reel::nn
