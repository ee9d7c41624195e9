// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/select.hpp>

#include <reel/ops.hpp>
#include <reel/ops/sort.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"

namespace reel {
namespace {
Tensor in_one_axis(const Tensor& x) { return reshape(x, {x.size()}); }
}  // namespace

Index::Index(const Tensor& positions, Caller caller)
    : body_(Access::body(positions)), caller_(caller), kind_(Kind::tensor) {
  if (body_) retain();
}
Index& Index::operator=(const Index& other) noexcept {
  if (other.body_) other.retain();
  if (body_) release();
  range_ = other.range_;
  body_ = other.body_;
  caller_ = other.caller_;
  kind_ = other.kind_;
  return *this;
}
void Index::retain() const noexcept { reel::retain(body_); }
void Index::release() noexcept { (void)Access::adopt(body_); }
Tensor Index::tensor() const { return Access::share(body_); }

Tensor places_of_true(const Tensor& mask) {
  const auto count = sum(mask).item<std::int64_t>();
  return ranks_of(in_one_axis(mask), 0, {.descending = true}, 0, count);
}

Tensor nonzero(Operand x) {
  const FunctionScope scope(x.caller(), "nonzero");
  const Tensor mask = dtype_of(argsort_op, x) == DType::boolean ? x.value() : x != 0;
  const Shape& shape = mask.shape();
  const Tensor places = places_of_true(mask);
  const DeviceScope device(mask.device());
  if (shape.rank() == 0) return zeros({places.size(), 0}, {DType::int64});
  if (shape.rank() == 1) return expand_dims(places, 1);
  Tensor coordinates[Shape::max_rank];
  Tensor rest = places;
  for (std::size_t axis = shape.rank(); --axis > 0;) {
    const std::int64_t length = shape.data()[axis];
    const Tensor rows = floor_divide(rest, length);
    coordinates[axis] = rest - rows * length;
    rest = rows;
  }
  coordinates[0] = rest;
  return stack(std::span<const Tensor>(coordinates, shape.rank()), 1);
}

Tensor masked_select(Operand x, Operand mask) {
  const FunctionScope scope(x.caller(), "masked_select");
  const DType dtype = dtype_of(argsort_op, mask, 1);
  if (dtype != DType::boolean)
    fail<DTypeError>(x.caller(), "masked_select", "mask", "bool", name_of(dtype),
                     "Compare it with something first.");
  const Tensor values = x.value();
  const DeviceScope device(values.device());
  // The mask in the shape that both broadcast to.
  Tensor chosen = mask.value();
  if (!(chosen.shape() == values.shape()))
    chosen = chosen & broadcast_to(full({}, true), values.shape());
  const Tensor every = broadcast_to(values, chosen.shape());
  return take(in_one_axis(every), places_of_true(chosen));
}

Tensor unique(Operand x) {
  const FunctionScope scope(x.caller(), "unique");
  if (dtype_of(argsort_op, x) ==
      DType::uint8)  // counted: to sort bytes takes 19 times their memory
    return cast(places_of_true(histogram(x, 256, 0, 256) > 0), DType::uint8);
  const Tensor sorted = sort(in_one_axis(x.value()));
  if (sorted.size() < 2) return sorted;
  const Tensor before = sorted(range(0, -1)), here = sorted(range(1, {}));
  const Tensor is_new = (before != here) & (before == before);  // behind NaN is only NaN
  const DeviceScope device(sorted.device());
  return take(sorted, places_of_true(concat({full({1}, true), is_new})));
}
}  // namespace reel
