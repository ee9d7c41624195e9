// SPDX-License-Identifier: BSD-3-Clause
#include "peers/libtorch.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdio>

#include "lib/body/text.hpp"

namespace reel::tests::peers {
namespace {
at::ScalarType their_dtype(DType dtype) {
  switch (dtype) {
    case boolean:
      return at::kBool;
    case uint8:
      return at::kByte;
    case int32:
      return at::kInt;
    case int64:
      return at::kLong;
    case float32:
      return at::kFloat;
    case float64:
      return at::kDouble;
    default:
      throw std::invalid_argument("no such dtype here");
  }
}
std::string name_of_theirs(at::ScalarType dtype) {
  for (const DType ours : {boolean, uint8, int32, int64, float32, float64})
    if (their_dtype(ours) == dtype) return std::string(name_of(ours));
  return at::toString(dtype);
}
/// Weights of tensor number `turn`: numbers between 0.5 and 1.5 that differ.
Tensor weights(const std::vector<std::int64_t>& shape, DType dtype, unsigned turn) {
  return drawn(Shape(shape), {0.5, 1.5}, 11 + turn).to(dtype);
}
bool floating(const at::Tensor& x) { return x.is_floating_point(); }
DType our_dtype(const at::Tensor& x) { return x.scalar_type() == at::kFloat ? float32 : float64; }

Tensor weighted(const Ours& tensors, const Ours& by) {
  Tensor total = zeros({}, {float64});
  for (std::size_t i = 0; i < tensors.size(); ++i)
    total = total + sum(tensors[i] * by[i]).to(float64);
  return total;
}
}  // namespace

Numbers numbers(const Tensor& x) {
  Numbers found{std::string(name_of(x.dtype())), {}, x.to(float64).to_vector<double>()};
  for (std::size_t i = 0; i < x.rank(); ++i) found.shape.push_back(x.shape(static_cast<int>(i)));
  return found;
}
Numbers numbers(const at::Tensor& x) {
  // Gradients may be tensors of zeros without memory.
  const at::Tensor host = x._is_zerotensor() ? at::zeros(x.sizes(), at::kDouble)
                                             : x.detach().to(at::kDouble).contiguous();
  const double* const first = host.const_data_ptr<double>();
  return {name_of_theirs(x.scalar_type()), x.sizes().vec(), {first, first + host.numel()}};
}

at::Tensor to_theirs(const Tensor& x) {
  const at::Tensor copy = at::empty(numbers(x).shape, their_dtype(x.dtype()));
  const auto fill = [&]<class T>(T* to) {
    const std::vector<T> values = x.to_vector<T>();
    std::copy(values.begin(), values.end(), to);
  };
  switch (x.dtype()) {
    case boolean: {
      const std::vector<double> values = x.to(float64).to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i)
        copy.mutable_data_ptr<bool>()[i] = values[i] != 0;
      break;
    }
    case uint8:
      fill(copy.mutable_data_ptr<std::uint8_t>());
      break;
    case int32:
      fill(copy.mutable_data_ptr<std::int32_t>());
      break;
    case int64:
      fill(copy.mutable_data_ptr<std::int64_t>());
      break;
    case float32:
      fill(copy.mutable_data_ptr<float>());
      break;
    default:
      fill(copy.mutable_data_ptr<double>());
  }
  return copy;
}
Theirs to_theirs(const Ours& x) {
  Theirs found;
  for (const Tensor& one : x) found.push_back(to_theirs(one));
  return found;
}

Outcome run_ours(const Row& row, const Ours& inputs, int orders) {
  Outcome outcome;
  const Ours values = row.ours(inputs);
  Ours sources, upstream;
  for (const Tensor& y : values) outcome.values.push_back(numbers(y));
  if (orders == 0) return outcome;
  for (const Tensor& x : inputs)
    if (is_floating(x.dtype())) sources.push_back(x);
  for (const Tensor& y : values)
    if (is_floating(y.dtype()))
      upstream.push_back(
          weights(numbers(y).shape, y.dtype(), static_cast<unsigned>(upstream.size())));
  const auto gradients = [&] {
    GradientTape tape;
    for (const Tensor& x : sources) tape.watch(x);
    Ours results;
    for (const Tensor& y : row.ours(inputs))
      if (is_floating(y.dtype())) results.push_back(y);
    return tape.gradient(weighted(results, upstream), GradientSources(sources), Unconnected::zero);
  };
  for (const Tensor& g : gradients()) outcome.gradients.push_back(numbers(g));
  if (orders == 1) return outcome;
  GradientTape outer;
  Ours all_sources = sources;
  all_sources.insert(all_sources.end(), upstream.begin(), upstream.end());
  for (const Tensor& x : all_sources) outer.watch(x);
  const Ours firsts = gradients();
  Ours by;
  for (const Tensor& g : firsts)
    by.push_back(weights(numbers(g).shape, g.dtype(), 5 + static_cast<unsigned>(by.size())));
  for (const Tensor& g :
       outer.gradient(weighted(firsts, by), GradientSources(all_sources), Unconnected::zero))
    outcome.second_gradients.push_back(numbers(g));
  return outcome;
}

Outcome run_theirs(const Row& row, const Ours& inputs, int orders) {
  using torch::autograd::grad;
  Outcome outcome;
  Theirs given = to_theirs(inputs), sources, upstream, results;
  for (at::Tensor& x : given)
    if (orders > 0 && floating(x)) sources.push_back(x.set_requires_grad(true));
  for (const at::Tensor& y : row.theirs(given)) {
    outcome.values.push_back(numbers(y));
    if (!floating(y)) continue;
    const Tensor w = weights(y.sizes().vec(), our_dtype(y), static_cast<unsigned>(upstream.size()));
    upstream.push_back(to_theirs(w).set_requires_grad(orders > 1));
    results.push_back(y);
  }
  if (orders == 0) return outcome;
  // Undefined is a gradient of zeros.
  const auto gradients = [](const Theirs& of, const Theirs& with, const Theirs& by, bool again) {
    Theirs connected, their_by, found;
    for (std::size_t i = 0; i < of.size(); ++i)
      if (of[i].requires_grad()) connected.push_back(of[i]), their_by.push_back(by[i]);
    if (connected.empty())
      found.resize(with.size());
    else
      found = grad(connected, with, their_by, again, again, true);
    for (std::size_t i = 0; i < with.size(); ++i)
      if (!found[i].defined()) found[i] = at::zeros_like(with[i]);
    return found;
  };
  const Theirs firsts = gradients(results, sources, upstream, orders > 1);
  for (const at::Tensor& g : firsts) outcome.gradients.push_back(numbers(g));
  if (orders == 1) return outcome;
  Theirs all_sources = sources, by;
  all_sources.insert(all_sources.end(), upstream.begin(), upstream.end());
  for (const at::Tensor& g : firsts)
    by.push_back(
        to_theirs(weights(g.sizes().vec(), our_dtype(g), 5 + static_cast<unsigned>(by.size()))));
  for (const at::Tensor& g : gradients(firsts, all_sources, by, false))
    outcome.second_gradients.push_back(numbers(g));
  return outcome;
}

std::string difference(const Numbers& got, const Numbers& expected, Tolerance tolerance,
                       bool signed_zeros) {
  if (got.dtype != expected.dtype) return "dtype " + got.dtype + " instead of " + expected.dtype;
  if (got.shape != expected.shape)
    return "shape " + to_text(Shape(got.shape)) + " instead of " + to_text(Shape(expected.shape));
  double largest = 1;
  for (const double x : expected.values)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double a = got.values[i], b = expected.values[i];
    const bool zeros_differ =
        signed_zeros && a == 0 && b == 0 && std::signbit(a) != std::signbit(b);
    if ((a == b && !zeros_differ) || (std::isnan(a) && std::isnan(b))) continue;
    if (!zeros_differ && std::isfinite(b) &&
        std::abs(a - b) <= tolerance.relative * std::abs(b) + tolerance.of_largest * largest)
      continue;
    char text[120];
    std::snprintf(text, sizeof text, "element %zu is %.17g instead of %.17g", i, a, b);
    return text;
  }
  return {};
}
std::string difference(const std::vector<Numbers>& got, const std::vector<Numbers>& expected,
                       Tolerance tolerance, bool signed_zeros) {
  if (got.size() != expected.size())
    return std::to_string(got.size()) + " tensors instead of " + std::to_string(expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (const std::string text = difference(got[i], expected[i], tolerance, signed_zeros);
        !text.empty())
      return "tensor " + std::to_string(i) + ": " + text;
  return {};
}
}  // namespace reel::tests::peers
