// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/matmul.hpp>

#include <algorithm>

#include <reel/ops/reshape.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/gate.hpp"
#include "lib/gate/observed_call.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/matmul.hpp"

namespace reel {
namespace {
[[noreturn]] void fail_inner(Caller caller, const Op& op, const Shape& x, const Shape& y) {
  const Text name = argument_name(op, 1);
  fail<ShapeError>(
      caller, op.name, name,
      "length " + to_text(x.end()[-1]) + (y.rank() == 1 ? "" : " in the second to last axis") +
          ", as x is " + to_text(x),
      to_text(y), y.end()[-1] == x.end()[-1] && y.rank() >= 2 ? "Transpose " + name + "?" : "");
}

// [..., n, k] by [..., k, m]. Vectors have been expanded to matrices before.
void matmul_shape(Inference& call) {
  for (int i : {0, 1}) {
    require_floating(call, i);
    require_rank(call, i, 2);
  }
  const Shape &x = call.input(0).shape, &y = call.input(1).shape;
  if (x.end()[-1] != y.end()[-2]) fail_inner(call.caller, call.op, x, y);
  Shape out = x.rank() < y.rank() ? y : x;
  const std::size_t rank = out.rank();
  for (std::size_t k = 3; k <= rank; ++k) {  // from the last axis
    const std::int64_t a = k <= x.rank() ? x.data()[x.rank() - k] : 1;
    const std::int64_t b = k <= y.rank() ? y.data()[y.rank() - k] : 1;
    if (a != b && a != 1 && b != 1)
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 1),
                       "leading axes that broadcast with those of x " + to_text(x), to_text(y));
    out.data()[rank - k] = a == 1 ? b : a;
  }
  out.data()[rank - 2] = x.end()[-2];
  out.data()[rank - 1] = y.end()[-1];
  call.output(call.input(0).dtype, out);
}

const char* activation_fits(const Inference& call) {
  const Activation activation = call.option<ActivationOptions>().activation;
  return activation >= Activation::none && activation <= Activation::tanh ? nullptr
                                                                          : "an activation";
}
void matmul_add_shape(Inference& call) {
  for (int i : {0, 1})
    if (call.input(i).rank() != 2)
      fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i), "a matrix",
                       to_text(call.input(i).shape));
  matmul_shape(call);
  const Shape &out = call.made(0).shape, &z = call.input(2).shape;
  if (!broadcasts_to(z, out))
    fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, 2),
                     "a shape that broadcasts to " + to_text(out), to_text(z));
}

// A vector counts as a row on the left and as a column on the right. The result does not have its
// axis.
Tensor vector_product(const Operand& x, const Operand& y, const Shape& x_shape,
                      const Shape& y_shape) {
  for (const Operand* operand : {&x, &y})
    if (shape_of(matmul_op, *operand).rank() == 0)
      fail<ShapeError>(x.caller(), matmul_op.name, operand == &x ? "x" : "y", "at least 1 axis",
                       "()", "To scale by a number use *.");
  const bool row = x_shape.rank() == 1, column = y_shape.rank() == 1;
  if (x_shape.end()[-1] != y_shape.end()[column ? -1 : -2])
    fail_inner(x.caller(), matmul_op, x_shape, y_shape);
  const FunctionScope scope(x.caller(), "matmul");
  const Tensor left = row ? expand_dims(x, 0) : Tensor();
  const Tensor right = column ? expand_dims(y, 1) : Tensor();
  const Tensor product = run(matmul_op, {row ? Operand(left) : x, column ? Operand(right) : y});
  if (row && column) return squeeze(product, {-2, -1});
  return squeeze(product, row ? -2 : -1);
}

[[gnu::cold]] void matmul_samples(SampleList out) {
  using enum Layout;
  const std::pair<ShapeAndLayout, ShapeAndLayout> cases[] = {
      {{{3}}, {{3}}},
      {{{3}}, {{3, 2}}},
      {{{2, 3}}, {{3}}},
      {{{2, 3, 4}}, {{4}}},
      {{{3}}, {{2, 3, 2}}},
      {{{1, 1}}, {{1, 1}}},
      {{{2, 3}}, {{3, 4}}},
      {{{2, 0}}, {{0, 3}}},
      {{{0, 2}}, {{2, 3}}},
      {{{3, 2}, transposed}, {{2, 4}}},
      {{{3, 2}}, {{2, 4}, transposed}},
      {{{3, 4}, transposed}, {{4, 2}, transposed}},
      {{{3, 4}, reversed}, {{4, 3}, repeated}},
      {{{3, 4}, stepped}, {{4, 3}, reversed}},
      {{{2, 3, 4}}, {{2, 4, 2}}},
      {{{2, 3, 4}}, {{4, 2}}},
      {{{3, 4}}, {{2, 4, 2}}},
      {{{2, 1, 3, 2}}, {{3, 2, 2}}},
      {{{2, 3, 4}, transposed}, {{2, 4, 2}, repeated}},
      {{{0, 2, 3}}, {{3, 2}}},
      {{{9, 17}}, {{17, 18}}}};
  unsigned seed = 0;
  for (const auto& [x, y] : cases) {
    sample(out, {drawn(x.shape, x.layout, {}, seed), drawn(y.shape, y.layout, {}, seed + 3)},
           [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
    ++seed;
  }
}

/// Calls of f on x, y and z in all layouts, with z in all shapes.
template <class F>
[[gnu::cold]] void add_samples(SampleList out, const F& f) {
  using enum Layout;
  const ShapeAndLayout cases[][3] = {{{{2, 3}}, {{3, 4}}, {{4}}},
                                     {{{2, 3}}, {{3, 4}}, {{2, 4}}},
                                     {{{2, 3}}, {{3, 4}}, {{}}},
                                     {{{2, 3}}, {{3, 4}}, {{2, 1}}},
                                     {{{2, 3}}, {{3, 4}}, {{1, 4}}},
                                     {{{1, 1}}, {{1, 1}}, {{1}}},
                                     {{{1, 5}}, {{5, 20}}, {{20}}},
                                     {{{2, 0}}, {{0, 3}}, {{3}}},
                                     {{{0, 2}}, {{2, 3}}, {{3}}},
                                     {{{3, 2}, transposed}, {{2, 4}, transposed}, {{4}, reversed}},
                                     {{{3, 4}, reversed}, {{4, 3}, repeated}, {{3, 3}, transposed}},
                                     {{{3, 4}, stepped}, {{4, 3}, reversed}, {{3}, stepped}},
                                     {{{9, 17}}, {{17, 18}}, {{18}, repeated}}};
  for (const auto& [x, y, z] : cases)
    sample(out,
           {drawn(x.shape, x.layout), drawn(y.shape, y.layout, {}, 3),
            drawn(z.shape, z.layout, {}, 5)},
           [f](const std::vector<Tensor>& in) { return f(in[0], in[1], in[2]); });
}
[[gnu::cold]] void matmul_add_samples(SampleList out) { add_samples(out, matmul_add); }
[[gnu::cold]] void dense_samples(SampleList out) {
  for (const Activation activation :
       {Activation::relu, Activation::sigmoid, Activation::tanh, Activation::none})
    add_samples(out, [activation](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return dense(x, weight, bias, activation);
    });
}
}  // namespace

constinit Op matmul_op{.name = "matmul",
                       .arity = 2,
                       .shape = matmul_shape,
                       .promote = Promote::numeric,
                       .needs = {{need_input(1), need_input(0)}},
                       .accumulates = true,
                       .takes_all_values = true,
                       .autocast = Autocast::low,
                       .samples = matmul_samples};
constinit Op matmul_add_op{.name = "matmul_add",
                           .arity = 3,
                           .shape = matmul_add_shape,
                           .promote = Promote::numeric,
                           .needs = {{need_input(1), need_input(0), 0}},
                           .takes_all_values = true,
                           .autocast = Autocast::low,
                           .samples = matmul_add_samples};
constinit Op dense_op{
    .name = "dense",
    .arity = 3,
    .shape = matmul_add_shape,
    .promote = Promote::numeric,
    .options = &options_type<ActivationOptions>,
    .check = activation_fits,
    .needs = {{need_input(1) | need_output(), need_input(0) | need_output(), need_output()}},
    .takes_all_values = true,
    .autocast = Autocast::low,
    .samples = dense_samples,
    .argument_names = "x, weight, bias"};

namespace {
/// The fast path, for two matrices that need no conversion. Undefined if it cannot handle the call.
template <class Begin>
Tensor fast_product(Context& context, const Body& a, const Body& b, Caller caller,
                    const Begin& begin) {
  const Body* inputs[] = {&a, &b};
  if (a.device_kind | b.device_kind) [[unlikely]]
    return {};
  if (!matmul_op.on_cpu().computes() || matmul_op.composite || a.dtype != b.dtype ||
      !is_floating(a.dtype)) [[unlikely]]
    return {};
  const std::int64_t rows = a.shape.data()[0], columns = b.shape.data()[1];
  if (a.shape.data()[1] != b.shape.data()[0] || (rows | columns) >> 29) [[unlikely]]
    return {};
  Tensor product = Access::adopt(allocate(context, a.dtype, a.shape, rows * columns));
  Body* out = Access::body(product);
  if (!out) [[unlikely]]
    return {};
  out->shape.data()[1] = out->strides[0] = columns;
  begin();
  run_on_host(matmul_op, {}, {inputs, &out, nullptr, 2, 1}, caller);
  return product;
}
}  // namespace

Tensor matmul(Operand x, Operand y) {
  const Body *a = body_of(x), *b = body_of(y);
  if (a && b && a->rank() == 2 && b->rank() == 2) {
    Context& context = Context::here();
    const auto at_once = [&context, &x, a, b](const auto& begin) {
      return fast_product(context, *a, *b, x.caller(), begin);
    };
    Tensor product = short_cut(context, matmul_op, at_once, x, y);
    if (product.defined()) [[likely]]
      return product;
  }
  if (a && b && a->rank() >= 2 && b->rank() >= 2) return run(matmul_op, x, y);
  return vector_product(x, y, shape_of(matmul_op, x), shape_of(matmul_op, y, 1));
}

Tensor matmul_add(Operand x, Operand y, Operand z) { return run(matmul_add_op, {x, y, z}); }

Tensor dense(Operand x, Operand weight, Operand bias, Activation activation) {
  Op* const activating = core_ops.of(activation);
  if (!activating && activation != Activation::none)
    fail<Error>(x.caller(), dense_op.name, "activation", "none, relu, sigmoid or tanh",
                to_text(static_cast<int>(activation)));
  const Shape &from = shape_of(dense_op, x), &by = shape_of(dense_op, weight, 1);
  if (by.rank() != 2)
    fail<ShapeError>(x.caller(), dense_op.name, "weight", "a matrix", to_text(by));
  if (from.rank() > 0 && from.end()[-1] != by.data()[0]) fail_inner(x.caller(), dense_op, from, by);
  const bool matrix = from.rank() == 2;
  // Kernels that a user has registered for one of the two ops are used here too.
  const auto is_own = [](const Op& op) { return !op.composite && op.gradient.fused; };
  if (matrix && activating && is_own(*activating) && is_own(matmul_add_op))
    return run(dense_op, {x, weight, bias}, ActivationOptions{activation});
  const FunctionScope scope(x.caller(), "dense");
  Tensor y = matrix ? matmul_add(x, weight, bias) : matmul(x, weight);
  if (!matrix) {  // inside an AutocastScope, y may have 16 bits beside a bias of float32
    const bool casts = is_half(y.dtype()) && dtype_of(dense_op, bias, 2) == DType::float32;
    y = casts ? run_binary(add_op, std::move(y), cast(bias, y.dtype()))
              : run_binary(add_op, std::move(y), bias);
  }
  return activating ? run_unary(*activating, std::move(y)) : y;
}

const Entry matmul_ops[] = {&matmul_op, &matmul_add_op, &dense_op, nullptr};
}  // namespace reel
