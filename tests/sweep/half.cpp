// SPDX-License-Identifier: BSD-3-Clause
// Ops of float16 and bfloat16: each result has the bits of the float32 op on widened inputs,
// rounded once. Products of pairs of bfloat16 add in another order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "lib/body/access.hpp"
#include "lib/cpu/install.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "support/short.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
/// By the scalar conversions of half.hpp.
Tensor widened(const Body& x) {
  const Host host = host_of(x);
  const std::vector<float> values(host.values.begin(), host.values.end());
  return from_span(std::span<const float>(values), host.shape);
}
double rounded(float x, DType dtype) {
  return dtype == float16 ? static_cast<float>(Float16(x)) : static_cast<float>(BFloat16(x));
}

/// Whether the CPU computes this product by instructions for pairs of bfloat16.
bool adds_pairs(const Op& op, DType dtype) {
  const std::string_view isa = kernels::isa_name(), name = op.name;
  return dtype == bfloat16 && (isa == "bf16" || isa == "amx") &&
         (name == "matmul" || name == "matmul_add" || name == "dense");
}

/// Computes each op of 16 bits again in float32. Kernels that draw or move elements are left out.
class Widener : public Observer {
 public:
  int compared = 0;

  void op_begins(const GateCall& call) override {
    if (call.op.moves || call.op.random || call.op.updates || !call.op.on_cpu().computes()) return;
    std::vector<Tensor> inputs;
    bool any = false;
    for (int i = 0; i < call.input_count; ++i) {
      const Body& x = *call.inputs[i];
      any |= is_half(x.dtype);
      inputs.push_back(is_half(x.dtype) ? widened(x) : Access::share(const_cast<Body*>(&x)));
    }
    if (any) inputs_ = std::move(inputs);
  }
  void op_ends(const GateCall& call) override {
    if (!inputs_) return;
    const ObserverPause pause(Context::here());
    const std::vector<Tensor> inputs = *std::exchange(inputs_, std::nullopt);
    std::vector<const Body*> bodies;
    for (const Tensor& x : inputs) bodies.push_back(Access::body(x));
    std::vector<Tensor> wide;
    std::vector<Body*> outputs;
    for (int i = 0; i < call.output_count; ++i) {
      const Body& y = *call.outputs[i];
      wide.push_back(zeros(y.shape, is_half(y.dtype) ? float32 : y.dtype));
      outputs.push_back(Access::body(wide.back()));
    }
    run_kernel(
        call.op, call.options,
        {bodies.data(), outputs.data(), call.options.data, call.input_count, call.output_count},
        {});
    for (int i = 0; i < call.output_count; ++i) {
      const Body& y = *call.outputs[i];
      if (i == call.op.kept && !is_floating(y.dtype)) continue;  // of the device
      const Host got = host_of(y);
      Host expected = host_of(wide[static_cast<std::size_t>(i)]);
      if (is_half(y.dtype))
        for (double& value : expected.values) value = rounded(static_cast<float>(value), y.dtype);
      INFO("op " << call.op.name << ", output " << i);
      const Near near = adds_pairs(call.op, y.dtype) ? Near{0x1p-7, 1e-5} : Near();
      CHECK(difference(got, {y.dtype, expected.shape, expected.values}, near) == "");
    }
    ++compared;
  }

 private:
  std::optional<std::vector<Tensor>> inputs_;
};

/// LAPACK's ops refuse 16 bits.
bool refuses(const Op& op) {
  static constexpr std::string_view names[] = {"cholesky",
                                               "cofactors",
                                               "det",
                                               "eigh",
                                               "eigvalsh",
                                               "function_curve",
                                               "function_slope",
                                               "inverse",
                                               "matrix_function",
                                               "qr",
                                               "slogdet",
                                               "solve",
                                               "svd",
                                               "triangular_solve"};
  return std::binary_search(std::begin(names), std::end(names), op.name);
}
std::vector<Tensor> in_dtype(const Sample& sample, DType dtype) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : sample.inputs)
    inputs.push_back(is_floating(x.dtype()) ? cast(x, dtype) : x);
  return inputs;
}
}  // namespace

TEST_CASE("ops of 16 bits compute in float32 and round once") {
  int compared = 0;
  for (const Op* op : ops_and_composites())
    for (const DType dtype : {float16, bfloat16}) {
      Widener widener;
      std::size_t number = 0;
      for (const Sample& sample : samples_of(*op)) {
        INFO(describe(*op, number++, sample) << " of " << name_of(dtype));
        const std::vector<Tensor> inputs = in_dtype(sample, dtype);
        if (refuses(*op)) {
          CHECK_THROWS_AS(sample.call(inputs), DTypeError);
          continue;
        }
        const Tensor y = sample.call(inputs);
        const ObserverScope scope(widener);
        CHECK(difference(host_of(sample.call(inputs)), host_of(y), {}) == "");
      }
      compared += widener.compared;
    }
  CHECK(compared > 1000);
}

TEST_CASE("gradients of 16 bits are those of float32, rounded") {
  for (const Op* op : ops_and_composites()) {
    if (!op->gradient.differentiable || refuses(*op)) continue;
    std::size_t number = 0;
    for (const Sample& sample : some_samples_of(*op, 4)) {
      INFO(describe(*op, number++, sample));
      const std::vector<Tensor> halves = in_dtype(sample, bfloat16);
      const auto gradients_of = [&](DType dtype) {
        std::vector<Tensor> inputs;
        GradientTape tape;
        std::vector<Tensor> watched;
        for (const Tensor& x : halves) {
          inputs.push_back(is_floating(x.dtype()) ? cast(x, dtype) : x);
          if (is_floating(x.dtype())) {
            tape.watch(inputs.back());
            watched.push_back(inputs.back());
          }
        }
        const Tensor y = sample.call(inputs);
        if (watched.empty() || !is_floating(y.dtype())) return std::vector<Tensor>();
        return tape.gradient(y, GradientSources(watched),
                             {cast(weights_like(y), y.dtype()), Unconnected::zero});
      };
      const std::vector<Tensor> half = gradients_of(bfloat16), wide = gradients_of(float32);
      REQUIRE(half.size() == wide.size());
      for (std::size_t i = 0; i < half.size(); ++i) {
        CHECK(half[i].dtype() == bfloat16);
        const Host expected = host_of(wide[i]);
        double largest = 0;
        for (const double value : expected.values)
          if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
        Host got = host_of(half[i]);
        got.dtype = expected.dtype;
        // y is rounded, and sums of a gradient cancel.
        CHECK(difference(got, expected, {0.2, 0.01 + 0.03 * largest}) == "");
      }
    }
  }
}
}  // namespace reel::tests
