// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/create.hpp>

#include <algorithm>
#include <cmath>

#include "lib/flow/context.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
extern Op fill_op;

namespace {
void fill_shape(Inference& call) {
  const auto& option = call.option<FillOptions>();
  for (std::int64_t length : option.shape)
    if (length < 0)
      fail<ShapeError>(call.caller, call.op.name, "shape", "lengths of at least 0",
                       to_text(option.shape));
  call.output(option.dtype, option.shape);
}

Tensor constant(const Shape& shape, DType dtype, Scalar value, Caller caller) {
  FillOptions options{.dtype = dtype, .shape = shape};
  if (is_floating(dtype))
    options.start = value.real();
  else
    options.first = dtype == DType::boolean ? value.real() != 0 : value.integer();
  return run(fill_op, options, caller);
}

void require_fit(std::string_view function, Scalar value, DType dtype, Caller caller) {
  if (!fits(value, dtype))
    fail<DTypeError>(caller, function, "value", "a number that fits " + std::string(name_of(dtype)),
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
}
}  // namespace

constinit Op fill_op{.name = "fill",
                     .arity = 0,
                     .shape = fill_shape,
                     .options = &options_type<FillOptions>,
                     .differentiable = false,
                     .moves = true,
                     .internal = true,
                     .samples = fill_samples};

Tensor zeros(Shape shape, TensorOptions options, Caller caller) try {
  const FunctionScope scope(caller, "zeros");
  return constant(shape, options.dtype, 0, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "zeros");
}
Tensor ones(Shape shape, TensorOptions options, Caller caller) try {
  const FunctionScope scope(caller, "ones");
  return constant(shape, options.dtype, 1, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "ones");
}
Tensor full(Shape shape, Scalar value, Caller caller) {
  return full(shape, value, {value.dtype()}, caller);
}
Tensor full(Shape shape, Scalar value, TensorOptions options, Caller caller) try {
  const FunctionScope scope(caller, "full");
  require_fit("full", value, options.dtype, caller);
  return constant(shape, options.dtype, value, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "full");
}
Tensor zeros_like(Operand x) try {
  const FunctionScope scope(x.caller(), "zeros_like");
  const PlaceScope place(Context::here(), x);
  return constant(shape_of(fill_op, x), dtype_of(fill_op, x), 0, x.caller());
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "zeros_like");
}
Tensor ones_like(Operand x) try {
  const FunctionScope scope(x.caller(), "ones_like");
  const PlaceScope place(Context::here(), x);
  return constant(shape_of(fill_op, x), dtype_of(fill_op, x), 1, x.caller());
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "ones_like");
}
Tensor full_like(Operand x, Scalar value) try {
  const FunctionScope scope(x.caller(), "full_like");
  const PlaceScope place(Context::here(), x);
  const DType dtype = dtype_of(fill_op, x);
  require_fit("full_like", value, dtype, x.caller());
  return constant(shape_of(fill_op, x), dtype, value, x.caller());
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "full_like");
}

namespace {
/// How many numbers lie from start to before stop; a double holds any count that is allowed.
double count_range(Scalar start, Scalar stop, Scalar step, bool floating) {
  if (floating) return std::ceil((stop.real() - start.real()) / step.real());
  const __int128 distance = static_cast<__int128>(stop.integer()) - start.integer();
  const __int128 stride = step.integer();
  return static_cast<double>((distance + stride - (stride > 0 ? 1 : -1)) / stride);
}
}  // namespace

namespace {
Tensor arange_of(Scalar start, Scalar stop, Scalar step, bool floating, DType dtype,
                 Caller caller) try {
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
} catch (const std::bad_alloc&) {
  fail_memory(caller, "arange");
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
  if (!is_floating(options.dtype))
    fail<DTypeError>(caller, "arange", "dtype", "float32 or float64", name_of(options.dtype),
                     "Integers give int64 without options.");
  const bool floating = is_floating(dtype_of_range(start, stop, step));
  return arange_of(start, stop, step, floating, options.dtype, caller);
}

Tensor eye(Extent n, TensorOptions options, Caller caller) try {
  const FunctionScope scope(caller, "eye");
  return run(fill_op,
             FillOptions{.kind = FillOptions::Kind::identity,
                         .dtype = options.dtype,
                         .shape = Shape({n, n}, caller)},
             caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "eye");
}

const Entry create_ops[] = {&fill_op, nullptr};
}  // namespace reel
