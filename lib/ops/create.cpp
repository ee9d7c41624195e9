// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/create.hpp>

#include <algorithm>
#include <cmath>

#include <reel/ops/compare.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/body/room.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/convert.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
void fill_shape(Inference& call) {
  const auto& option = call.option<FillOptions>();
  for (std::int64_t length : option.shape)
    if (length < 0)
      fail<ShapeError>(call.caller, call.op.name, "shape", "lengths of at least 0",
                       to_text(option.shape));
  call.output(option.dtype, option.shape);
}

const char* fill_fits(const Inference& call) {
  using Kind = FillOptions::Kind;
  const auto& o = call.option<FillOptions>();
  const bool known = o.kind >= Kind::constant && o.kind <= Kind::triangle;
  const bool triangle = o.kind == Kind::triangle;
  return known && is_shape(o.shape) &&
                 (!triangle || (o.shape.rank() == 2 && o.dtype == DType::boolean))
             ? nullptr
             : "a way to fill a shape";
}

void require_fit(std::string_view function, Scalar value, DType dtype, Caller caller) {
  if (!fits(value, dtype))
    fail<DTypeError>(caller, function, "value", "a number that fits " + Text(name_of(dtype)),
                     to_text(value));
}

void fill_samples(SampleList out) {
  for (const Shape& shape : {Shape(), Shape({0}), Shape({3}), Shape({2, 3})}) {
    sample(out, {}, [shape](const std::vector<Tensor>&) { return full(shape, 0.5); });
    sample(out, {}, [shape](const std::vector<Tensor>&) {
      return full(shape, 0.1, {.dtype = DType::float64});
    });
    sample(out, {},
           [shape](const std::vector<Tensor>&) { return zeros(shape, {.dtype = DType::float64}); });
  }
  sample(out, {}, [](const std::vector<Tensor>&) { return arange(1.0, 2.0, 0.25); });
  sample(out, {}, [](const std::vector<Tensor>&) { return arange(5, -1, -2); });
  sample(out, {}, [](const std::vector<Tensor>&) { return eye(3); });
  sample(out, {}, [](const std::vector<Tensor>&) {
    return run(fill_op,
               FillOptions{.kind = FillOptions::Kind::triangle,
                           .first = -1,
                           .dtype = DType::boolean,
                           .shape = Shape({4, 5})},
               Caller());
  });
}
}  // namespace

constinit Op fill_op{.name = "fill",
                     .arity = 0,
                     .shape = fill_shape,
                     .options = &options_type<FillOptions>,
                     .check = fill_fits,
                     .differentiable = false,
                     .moves = true,
                     .internal = true,
                     .samples = fill_samples};

Tensor zeros(Shape shape, TensorOptions options, Caller caller) {
  const FunctionScope scope(caller, "zeros");
  return constant(shape, options.dtype, 0, caller);
}
Tensor ones(Shape shape, TensorOptions options, Caller caller) {
  const FunctionScope scope(caller, "ones");
  return constant(shape, options.dtype, 1, caller);
}
Tensor full(Shape shape, Scalar value, Caller caller) {
  return full(shape, value, {value.dtype()}, caller);
}
Tensor full(Shape shape, Scalar value, TensorOptions options, Caller caller) {
  const FunctionScope scope(caller, "full");
  require_fit("full", value, options.dtype, caller);
  return constant(shape, options.dtype, value, caller);
}
Tensor zeros_like(Operand x) {
  const FunctionScope scope(x.caller(), "zeros_like");
  const PlaceScope place(Context::here(), x);
  return constant(shape_of(fill_op, x), dtype_of(fill_op, x), 0, x.caller());
}
Tensor ones_like(Operand x) {
  const FunctionScope scope(x.caller(), "ones_like");
  const PlaceScope place(Context::here(), x);
  return constant(shape_of(fill_op, x), dtype_of(fill_op, x), 1, x.caller());
}
Tensor full_like(Operand x, Scalar value) {
  const FunctionScope scope(x.caller(), "full_like");
  const PlaceScope place(Context::here(), x);
  const DType dtype = dtype_of(fill_op, x);
  require_fit("full_like", value, dtype, x.caller());
  return constant(shape_of(fill_op, x), dtype, value, x.caller());
}

namespace {
/// The number of elements of the range, without `stop`. A double holds any count that is allowed.
double count_range(Scalar start, Scalar stop, Scalar step, bool floating) {
  if (floating) return std::ceil((stop.real() - start.real()) / step.real());
  const __int128 distance = static_cast<__int128>(stop.integer()) - start.integer();
  const __int128 stride = step.integer();
  return static_cast<double>((distance + stride - (stride > 0 ? 1 : -1)) / stride);
}
}  // namespace

namespace {
Tensor arange_of(Scalar start, Scalar stop, Scalar step, bool floating, DType dtype,
                 Caller caller) {
  for (const auto& [name, number] : {std::pair("start", start), {"stop", stop}})
    if (std::isnan(number.real())) fail<Error>(caller, "arange", name, "a number", "nan");
  if (step.real() == 0 || !std::isfinite(step.real()))
    fail<Error>(caller, "arange", "step", "a finite step other than 0", to_text(step));
  const double count = count_range(start, stop, step, floating);
  if (!(count < 0x1p58))
    fail<ShapeError>(caller, "arange", "stop", "a finite range of at most 2^58 elements",
                     to_text(stop));
  FillOptions options{.kind = FillOptions::Kind::range,
                      .dtype = dtype,
                      .shape = Shape({count > 0 ? static_cast<std::int64_t>(count) : 0}, caller)};
  if (is_floating(dtype)) {
    options.start = start.real();
    options.step = step.real();
  } else {
    options.first = start.integer();
    options.stride = step.integer();
  }
  return run(fill_op, options, caller);
}
DType dtype_of_range(Scalar start, Scalar stop, Scalar step) {
  return promoted(promoted(start.dtype(), stop.dtype()), promoted(step.dtype(), DType::int64));
}
}  // namespace

Tensor arange(Scalar start, Scalar stop, Scalar step, Caller caller) {
  const FunctionScope scope(caller, "arange");
  const DType dtype = dtype_of_range(start, stop, step);
  return arange_of(start, stop, step, is_floating(dtype), dtype, caller);
}
Tensor arange(Scalar start, Scalar stop, Scalar step, TensorOptions options, Caller caller) {
  const FunctionScope scope(caller, "arange");
  const bool floating = is_floating(dtype_of_range(start, stop, step));
  if (is_floating(options.dtype))
    return arange_of(start, stop, step, floating, options.dtype, caller);
  if (floating || options.dtype == DType::boolean)
    fail<DTypeError>(
        caller, "arange", "dtype",
        floating ? "a floating dtype, as the numbers are not integers" : "a dtype of numbers",
        name_of(options.dtype));
  const Tensor range = arange_of(start, stop, step, false, DType::int64, caller);
  if (const std::int64_t last = range.size() - 1; last >= 0)
    for (const Scalar end : {start, Scalar(start.integer() + last * step.integer())})
      require_fit("arange", end, options.dtype, caller);
  return range.to(options.dtype, caller);
}

Tensor linspace(Scalar start, Scalar stop, Extent count, TensorOptions options, Caller caller) {
  const FunctionScope scope(caller, "linspace");
  if (!is_floating(options.dtype))
    fail<DTypeError>(caller, "linspace", "dtype", "a floating dtype", name_of(options.dtype),
                     "Convert the result: linspace(0, 10, 5).to(DType::int32).");
  const std::int64_t n = count.value;
  if (n < 0) fail<ShapeError>(caller, "linspace", "count", "a count of at least 0", to_text(n));
  const double first = start.real(), last = stop.real();
  for (const auto& [name, number] : {std::pair("start", start), {"stop", stop}})
    if (!std::isfinite(number.real()))
      fail<Error>(caller, "linspace", name, "a finite number", to_text(number));
  FillOptions range{.kind = FillOptions::Kind::range,
                    .start = first,
                    .step = n > 1 ? (last - first) / static_cast<double>(n - 1) : 0,
                    .dtype = options.dtype,
                    .shape = Shape({n}, caller)};
  if (n < 2 || options.dtype != DType::float64) return run(fill_op, range, caller);
  // The last number is set to `stop`, because rounding may miss it.
  range.shape.data()[0] = n - 1;
  return concat({run(fill_op, range, caller), full({1}, stop, options)});
}

std::vector<Tensor> meshgrid(Operands parts) {
  const FunctionScope scope(parts.caller(), "meshgrid");
  const std::size_t rank = parts.size();
  if (rank > Shape::max_rank)
    fail<ShapeError>(parts.caller(), "meshgrid", "parts", "at most 8", to_text(rank));
  Shape shape;
  shape.resize(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const Shape& part = shape_of(fill_op, parts[i]);
    if (part.rank() != 1)
      fail<ShapeError>(parts.caller(), "meshgrid", "part " + to_text(i), "one axis",
                       "shape " + to_text(part));
    shape.data()[i] = part.data()[0];
  }
  auto grids = room_for<Tensor>(rank, parts.caller(), "meshgrid");
  for (std::size_t i = 0; i < rank; ++i) {
    Shape along;
    along.resize(rank);
    along.data()[i] = shape.data()[i];
    grids.push_back(broadcast_to(reshape(parts[i], along), shape));
  }
  return grids;
}

Tensor sequence_mask(Operand lengths, Extent steps) {
  const FunctionScope scope(lengths.caller(), "sequence_mask");
  const DType dtype = dtype_of(fill_op, lengths);
  if (dtype != DType::uint8 && dtype != DType::int32 && dtype != DType::int64)
    fail<DTypeError>(lengths.caller(), "sequence_mask", "lengths", "uint8, int32 or int64",
                     name_of(dtype));
  if (steps.value < 0)
    fail<ShapeError>(lengths.caller(), "sequence_mask", "steps", "a number of at least 0",
                     to_text(steps.value));
  const PlaceScope place(Context::here(), lengths);
  return arange(0, steps.value) < expand_dims(lengths, -1);
}

Tensor eye(Extent n, TensorOptions options, Caller caller) {
  const FunctionScope scope(caller, "eye");
  return run(fill_op,
             FillOptions{.kind = FillOptions::Kind::identity,
                         .dtype = options.dtype,
                         .shape = Shape({n, n}, caller)},
             caller);
}

const Entry create_ops[] = {&fill_op, nullptr};
}  // namespace reel
