// SPDX-License-Identifier: BSD-3-Clause
// An interceptor at the gate that compares the result of every op with its reference.
#pragma once
#include <cmath>
#include <set>

#include "lib/flow/interceptor.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
/// Exact results as a dtype stores them. Integers wrap around, and their remainder by zero is 0.
inline Host as_stored(Host host, DType dtype) {
  host.dtype = dtype;
  for (double& x : host.values) {
    if (dtype == DType::float64) continue;
    if (dtype == DType::float32)
      x = static_cast<double>(static_cast<float>(x));
    else if (dtype == DType::float16)
      x = static_cast<double>(Float16(x));
    else if (dtype == DType::bfloat16)
      x = static_cast<double>(BFloat16(x));
    else if (dtype == DType::boolean)
      x = x != 0;
    else if (x != x)
      x = 0;
    else if (dtype == DType::uint8)
      x -= 256 * std::floor(x / 256);
    else if (dtype == DType::int32)
      x -= 4294967296.0 * std::floor(x / 4294967296.0 + 0.5);
  }
  return host;
}

class Checker : public Interceptor {
 public:
  explicit Checker(Near near) : near_(near) {}
  void after(const GateCall& call) override {
    seen_.insert(call.op.name);
    const auto reference = references().find(call.op.name);
    INFO(call.op.name << "(" << to_string(call.options) << ")");
    if (call.op.random) return;  // tests/kernels/random.cpp checks random numbers
    if (reference == references().end()) {
      CHECK(std::string(call.op.name) == "an op with a reference");
      return;
    }
    Hosts inputs;
    for (int i = 0; i < call.input_count; ++i) inputs.push_back(host_of(*call.inputs[i]));
    Hosts expected = reference->second(inputs, call.options.data);
    REQUIRE(static_cast<int>(expected.size()) == call.output_count);
    for (int i = 0; i < call.output_count; ++i) {
      if (i == call.op.kept && !is_floating(call.outputs[i]->dtype)) continue;  // of the device
      Host& wanted = expected[static_cast<std::size_t>(i)];
      wanted = as_stored(wanted, call.outputs[i]->dtype);
      CHECK(difference(host_of(*call.outputs[i]), wanted, near_) == "");
    }
  }
  bool saw(const Op& op) const { return seen_.count(op.name) > 0; }

 private:
  Near near_;
  std::set<std::string_view> seen_;
};
}  // namespace reel::tests
