// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/matmul.hpp"

namespace reel {
namespace {
/// The last two axes swapped: a view.
Tensor transposed(const Tensor& x) {
  int order[Shape::max_rank];
  const int rank = static_cast<int>(x.rank());
  for (int i = 0; i < rank; ++i) order[i] = i;
  std::swap(order[rank - 2], order[rank - 1]);
  return transpose(x, Axes(std::span<const int>(order, static_cast<std::size_t>(rank))));
}

/// x with its leading axes joined to the rows.
Tensor rows(const Tensor& x) {
  const std::int64_t width = x.shape().end()[-1];
  std::int64_t count = 1;
  for (const std::int64_t* length = x.shape().begin(); length < x.shape().end() - 1; ++length)
    count *= *length;
  return reshape(x, {count, width});
}

bool same_batch(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (std::size_t i = 0; i + 2 < a.rank(); ++i)
    if (a.data()[i] != b.data()[i]) return false;
  return true;
}

/// a b, summed over the leading axes along which the input was broadcast.
void give_product(GradientCall& call, int input, const Tensor& a, Transposed a_transposed,
                  const Tensor& b, Transposed b_transposed) {
  if (call.give_product(input, a, a_transposed, b, b_transposed)) return;
  const Shape& wanted = call.input_shape(input);
  const bool direct = same_batch(wanted, call.dy().shape());
  const Tensor x = a_transposed == Transposed::yes ? transposed(a) : a;
  const Tensor y = b_transposed == Transposed::yes ? transposed(b) : b;
  if (direct)
    call.give(input, core_ops.matmul, {x, y});
  else
    call.give_sum(input, matmul(x, y));
}

// z = x y        dx = dz yT        dy = xT dz
void matmul_rule(GradientCall& call) {
  const Tensor& dz = call.dy();
  if (call.wants(0)) give_product(call, 0, dz, Transposed::no, call.input(1), Transposed::yes);
  if (!call.wants(1) || call.defer_product()) return;
  const Tensor& x = call.input(0);
  // If y is one matrix for all of x, one product over all rows replaces a sum of products.
  if (call.input_shape(1).rank() == 2 && x.rank() > 2)
    give_product(call, 1, rows(x), Transposed::yes, rows(dz), Transposed::no);
  else
    give_product(call, 1, x, Transposed::yes, dz, Transposed::no);
}

// r = x y + z        dz = dr
void matmul_add_rule(GradientCall& call) {
  matmul_rule(call);
  call.give_sum(2, call.dy());
}

// r = f(x y + z), and f' is a function of r
void dense_rule(GradientCall& call) {
  const Activation activation = call.option<ActivationOptions>().activation;
  const Op* const activating = core_ops.of(activation);
  if (activating && !call.step_before(*activating))
    call.set_dy(gradient_of(activation)(call.dy(), call.output()));
  matmul_add_rule(call);
}
}  // namespace

const NamedRule matmul_rules[] = {{"matmul", matmul_rule},
                                  {"matmul_add", matmul_add_rule},
                                  {"dense", dense_rule},
                                  {nullptr, nullptr}};
}  // namespace reel
