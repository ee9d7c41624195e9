// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/rules/scan.hpp"

#include <limits>

#include <reel/ops.hpp>
#include <reel/ops/scan.hpp>

#include "autograd/install.hpp"
#include "lib/gate/gate.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/scan.hpp"

namespace reel {
Tensor moved_by_one(const Tensor& x, std::int64_t axis, bool back, double value) {
  const std::int64_t n = x.shape()[axis];
  if (n == 0) return x;
  const int along = static_cast<int>(axis);
  const std::int64_t lengths[] = {back ? 1 : n - 1, back ? n - 1 : 1};
  const std::vector<Tensor> parts = split(x, lengths, along);
  return back ? concat({parts[1], full_like(parts[0], value)}, along)
              : concat({full_like(parts[1], value), parts[0]}, along);
}

namespace {
/// r[i] = a[i] r[i + 1] + b[i] for scans from the beginning; a[i] r[i - 1] + b[i] for others.
Tensor back_through(const Tensor& a, const Tensor& b, const AxisScanOptions& option) {
  return run(core_ops.linear_scan, {a, b}, AxisScanOptions{option.axis, !option.reverse});
}

// y = cumsum x        dx[i] = sum of dy[k] for k >= i
void cumsum_rule(GradientCall& call) {
  const auto& option = call.option<AxisScanOptions>();
  call.give(0, cumsum(call.dy(), static_cast<int>(option.axis), {.reverse = !option.reverse}));
}

// y = cumprod x        dx[i] = y[i - 1] r[i], r[i] = x[i + 1] r[i + 1] + dy[i]
void cumprod_rule(GradientCall& call) {
  const auto& option = call.option<AxisScanOptions>();
  const Tensor next = moved_by_one(call.input(0), option.axis, !option.reverse, 0);
  const Tensor before = moved_by_one(call.output(), option.axis, option.reverse, 1);
  call.give(0, before * back_through(next, call.dy(), option));
}

// y = cummax x        dx[k] = sum of dy[i] where x[k] is the last of the largest up to i
void cummax_rule(GradientCall& call) {
  const auto& option = call.option<AxisScanOptions>();
  const Tensor& x = call.input(0);
  const std::int64_t n = x.shape()[option.axis];
  Shape along;
  along.resize(x.rank());
  along.data()[option.axis] = n;
  const DeviceScope device(x.device());
  const Tensor steps = reshape(option.reverse ? arange(0, -n, -1) : arange(0, n), along);
  const Tensor chosen = (x == call.output()) | (x != x);
  const Tensor last = cummax(where(chosen, steps, option.reverse ? 1 - n : 0),
                             static_cast<int>(option.axis), {option.reverse});
  call.give(0, core_ops.scatter_elements, {call.dy(), option.reverse ? -last : last},
            UnTakeOptions{call.input_shape(0), option.axis});
}

// y = logcumsumexp x        dx[i] = exp(x[i] - y[i]) r[i], r[i] = exp(y[i] - y[i + 1]) r[i + 1] +
// dy[i]
void logcumsumexp_rule(GradientCall& call) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto& option = call.option<AxisScanOptions>();
  const Tensor &x = call.input(0), &y = call.output();
  const Tensor next = moved_by_one(y, option.axis, !option.reverse, infinity);
  const Tensor equal_infinities = (y == next) & (abs(y) == infinity);
  const Tensor r = back_through(exp(where(equal_infinities, 0, y - next)), call.dy(), option);
  call.give(0, r * exp(where(x == -infinity, x, x - y)));
}

// y[i] = a[i] y[i - 1] + b[i]        db[i] = a[i + 1] db[i + 1] + dy[i], da[i] = y[i - 1] db[i]
void linear_scan_rule(GradientCall& call) {
  const auto& option = call.option<AxisScanOptions>();
  const Tensor next = moved_by_one(call.input(0), option.axis, !option.reverse, 0);
  const Tensor db = back_through(next, call.dy(), option);
  if (call.wants(0)) call.give(0, db * moved_by_one(call.output(), option.axis, option.reverse, 0));
  if (call.wants(1)) call.give(1, db);
}
}  // namespace

const NamedRule scan_rules[] = {
    {"cummax", cummax_rule},           {"cumprod", cumprod_rule},           {"cumsum", cumsum_rule},
    {"linear_scan", linear_scan_rule}, {"logcumsumexp", logcumsumexp_rule}, {nullptr, nullptr}};
}  // namespace reel
