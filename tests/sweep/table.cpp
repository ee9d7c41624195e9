// SPDX-License-Identifier: BSD-3-Clause
#include "sweep/table.hpp"

#include <algorithm>
#include <cmath>

#include "lib/body/dtypes.hpp"
#include "lib/gate/devices.hpp"
#include "lib/ops/samples.hpp"
#include "support/short.hpp"

namespace reel::tests {
namespace {
double element(const Body& body, std::int64_t offset) {
  return with_element(body.dtype,
                      [&]<class T>(Type<T>) { return static_cast<double>(body.as<T>()[offset]); });
}
}  // namespace

Host host_of(const Body& body) {
  if (!on_cpu(body)) return host_of(copy_to(body, cpu(), {}));
  Host host{body.dtype, body.shape, {}};
  host.values.resize(static_cast<std::size_t>(body.shape.elements()));
  each_position(body.shape, [&](const std::vector<std::int64_t>& index, std::size_t flat) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
      offset += index[axis] * body.strides[axis];
    host.values[flat] = element(body, offset);
  });
  return host;
}
Host host_of(const Tensor& x) { return host_of(*Access::body(x)); }

std::vector<Op*> library_ops() {
  assemble();
  std::vector<Op*> found;
  for (Op* op : OpTable::the().ops())
    if (op->shape || op->updates) found.push_back(op);
  return found;
}

std::vector<Sample> samples_of(const Op& op) {
  std::vector<Sample> samples;
  if (op.samples) op.samples(samples);
  return samples;
}

std::vector<Sample> some_samples_of(const Op& op, std::size_t few) {
  std::vector<Sample> samples = samples_of(op), some;
  if (!is_short()) return samples;
  const std::size_t step = std::max<std::size_t>(1, samples.size() / few);
  for (std::size_t i = op.name.size() % step; i < samples.size(); i += step)
    some.push_back(std::move(samples[i]));
  return some;
}

std::string describe(const Op& op, std::size_t number, const Sample& sample) {
  std::string text = std::string(op.name) + ", sample " + std::to_string(number) + ":";
  for (const Tensor& input : sample.inputs) text += " " + to_text(input.shape());
  return sample.note.empty() ? text : text + " " + sample.note;
}

std::string difference(const Host& got, const Host& expected, Near near) {
  if (got.dtype != expected.dtype)
    return "dtype " + std::string(name_of(got.dtype)) + " instead of " +
           std::string(name_of(expected.dtype));
  if (!(got.shape == expected.shape))
    return "shape " + to_text(got.shape) + " instead of " + to_text(expected.shape);
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double a = got.values[i], b = expected.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::abs(a - b) <= near.absolute + near.relative * std::abs(b)) continue;
    char text[120];
    std::snprintf(text, sizeof text, "element %zu is %.17g instead of %.17g", i, a, b);
    return text;
  }
  return {};
}

Tensor fresh(const Tensor& x) {
  return with_element(x.dtype(), [&]<class T>(Type<T>) {
    if constexpr (std::is_same_v<T, bool>)
      return x.to(DType::uint8) != 0;
    else
      return from_span(x.to_vector<T>(), x.shape());
  });
}

Tensor weights_like(const Tensor& y, unsigned turn) {
  return drawn(y.shape(), {0.5, 1.5}, 11 + turn);
}

std::vector<Tensor> floating(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> found;
  for (const Tensor& x : inputs)
    if (is_floating(x.dtype())) found.push_back(x);
  return found;
}
}  // namespace reel::tests
