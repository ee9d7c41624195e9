// SPDX-License-Identifier: BSD-3-Clause
// The memory layout of inputs changes neither values nor gradients.
#include <cstring>
#include <memory>

#include <reel/dlpack.hpp>

#include "lib/ops/samples.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
/// The values of x in another layout: axes in reverse order, last axis backward, or every other
/// element.
Tensor laid_out(const Tensor& x, Layout layout) {
  if (x.rank() == 0) return x;
  if (layout == Layout::transposed) return transpose(fresh(transpose(x)));
  const Index last = layout == Layout::reversed ? range({}, {}, -1) : range({}, {}, 2);
  if (layout == Layout::reversed) return fresh(x(ellipsis, last))(ellipsis, last);
  const Tensor pairs = fresh(stack({x, x}, -1));
  Shape doubled = x.shape();
  doubled.data()[x.rank() - 1] *= 2;
  return pairs.reshape(doubled)(ellipsis, last);
}

/// The first row of x repeated with stride 0, if x has axes.
Tensor repeated(const Tensor& x) {
  return x.rank() == 0 ? x : broadcast_to(fresh(x(range(0, 1))), x.shape());
}
bool is_repeatable(const Sample& sample) {
  for (const Tensor& x : sample.inputs)
    if (x.size() == 0) return false;
  return true;
}

/// The values of x in a block that ends with the last value, and begins at an odd multiple of the
/// element size. AddressSanitizer reports reads beyond it.
Tensor elsewhere(const Tensor& x) {
  const Tensor y = fresh(x);
  const auto width = static_cast<std::size_t>(size_of(y.dtype()));
  const auto bytes = static_cast<std::size_t>(y.size()) * width;
  auto block = std::make_unique<std::vector<std::byte>>(bytes + width);
  std::byte* const first = block->data() + width;
  auto* const array = to_dlpack(y);
  std::memcpy(first, array->dl_tensor.data, bytes);
  array->deleter(array);
  return detail::share_owned("elsewhere", {first, y.dtype(), y.shape()}, std::move(block), {});
}

struct Results {
  Host value;
  std::vector<Host> gradients;
};
Results results_of(const Op& op, const Sample& sample, const std::vector<Tensor>& inputs) {
  Results results;
  const std::vector<Tensor> sources = floating(inputs);
  results.value = host_of(sample.call(inputs));  // no tape records: the fast path
  if (!op.gradient.differentiable || sources.empty()) return results;
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(inputs);
  if (!is_floating(y.dtype())) return results;
  for (const Tensor& g :
       tape.gradient(y, GradientSources(sources), {weights_like(y), Unconnected::zero}))
    results.gradients.push_back(host_of(g));
  return results;
}
}  // namespace

TEST_CASE("layouts of inputs change no result") {
  for (const Op* op : ops_and_composites()) {
    if (op->updates) continue;
    // Sums and products may be computed in another order.
    const bool same_bits = op->fusion == Fusion::pointwise || op->fusion == Fusion::layout;
    const Near near = same_bits ? Near{} : Near{1e-12, 1e-13};
    std::size_t number = 0;
    for (const Sample& sample : some_samples_of(*op, 3)) {
      INFO(describe(*op, number++, sample));
      std::vector<Tensor> plain;
      for (const Tensor& x : sample.inputs) plain.push_back(fresh(x));
      const auto check = [&](const std::vector<Tensor>& inputs, const Results& expected) {
        const Results got = results_of(*op, sample, inputs);
        CHECK(difference(got.value, expected.value, near) == "");
        for (std::size_t i = 0; i < got.gradients.size(); ++i)
          CHECK(difference(got.gradients[i], expected.gradients[i], {1e-11, 1e-12}) == "");
      };
      const Results expected = results_of(*op, sample, plain);
      check(sample.inputs, expected);
      for (Layout layout : {Layout::transposed, Layout::reversed, Layout::stepped}) {
        INFO("layout " << static_cast<int>(layout));
        std::vector<Tensor> moved;
        for (const Tensor& x : plain) moved.push_back(laid_out(x, layout));
        check(moved, expected);
      }
      std::vector<Tensor> shared;
      for (const Tensor& x : plain) shared.push_back(elsewhere(x));
      check(shared, expected);
      if (!is_repeatable(sample)) continue;
      std::vector<Tensor> rows, copies;
      for (const Tensor& x : plain) {
        rows.push_back(repeated(x));
        copies.push_back(fresh(rows.back()));
      }
      check(rows, results_of(*op, sample, copies));
    }
  }
}
}  // namespace reel::tests
