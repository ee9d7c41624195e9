// SPDX-License-Identifier: BSD-3-Clause
#include <reel/device_scopes.hpp>

#include <cmath>
#include <cstdio>
#include <utility>

#include <reel/error.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/ops/entries.hpp"

namespace reel {
struct DeviceLogScope::Watch : OwnedObserver {
  void op_ends(const GateCall& call) override {
    if (call.output_count == 0 || !call.outputs[0]) return;
    std::fprintf(stderr, "reel: %s:%u: %.*s on %s\n", call.caller.file ? call.caller.file : "?",
                 call.caller.line, static_cast<int>(call.op.name.size()), call.op.name.data(),
                 std::string(to_text(device_of(*call.outputs[0])).view()).c_str());
  }
};
DeviceLogScope::DeviceLogScope() try : watch_(new Watch) {
  start_owned(*watch_, sizeof(Watch));
} catch (const std::bad_alloc&) {
  fail_memory({}, "DeviceLogScope");
}
DeviceLogScope::~DeviceLogScope() { end_observing(watch_); }

struct LockstepScope::Watch : OwnedObserver {
  explicit Watch(LockstepOptions asked) : options(asked) {}

  void kernel_begins(const DeviceCall& call) override {
    // Only row-major copies for another kernel run inside of it. What else is open has thrown.
    if (&call.op != &cast_op) open.clear();
    auto& [inputs, outputs] = open.emplace_back();
    for (int i = 0; i < call.kernel.input_count; ++i)
      inputs.push_back(copy_of(call.kernel.inputs[i]));
    for (int i = 0; i < call.kernel.output_count; ++i)  // the kernel may add to them
      outputs.push_back(copy_of(call.kernel.outputs[i]));
  }
  void kernel_ends(const DeviceCall& call) override {
    auto [inputs, outputs] = std::move(open.back());
    open.pop_back();
    if (call.op.kept >= 0 && call.part == Part::gradients) replace_kept(call, inputs);
    std::vector<const Body*> from;
    std::vector<Body*> to;
    for (const Tensor& each : inputs) from.push_back(Access::body(each));
    for (const Tensor& each : outputs) to.push_back(Access::body(each));
    KernelCall kernel = call.kernel;
    kernel.inputs = from.data();
    kernel.outputs = to.data();
    host_backend().run({call.op, call.part, call.options, kernel, cpu(), call.caller});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (to[i] && !is_kept_by_device(call, static_cast<int>(i)))
        compare(call, outputs[i], copy_of(call.kernel.outputs[i]));
  }

 private:
  /// Whether output i is what only kernels of the device can read.
  static bool is_kept_by_device(const DeviceCall& call, int i) {
    return call.part == Part::value && i == call.op.kept &&
           !is_floating(call.kernel.output(i).dtype);
  }
  /// Replaces what kernels of the device keep for a gradient, if only they can read it, by what the
  /// CPU keeps.
  static void replace_kept(const DeviceCall& call, std::vector<Tensor>& inputs) {
    const int op_inputs = call.kernel.output_count;
    const int op_outputs = GradientKernelCall(call.kernel).op_outputs();
    Tensor& kept = inputs[static_cast<std::size_t>(op_outputs + op_inputs + call.op.kept)];
    if (is_floating(kept.dtype())) return;
    const std::vector<Operand> given(inputs.begin() + op_outputs,
                                     inputs.begin() + op_outputs + op_inputs);
    SmallVector<Tensor, 2> made;
    run(*OpTable::the().find(call.op.name), given, call.options, call.caller, made);
    kept = made[static_cast<std::size_t>(call.op.kept)];
  }
  static Tensor copy_of(const Body* body) { return body ? copy_to(*body, cpu(), {}) : Tensor(); }
  void compare(const DeviceCall& call, const Tensor& expected, const Tensor& got) const {
    const bool exact = !is_floating(expected.dtype());
    const Tensor wide = expected.to(DType::float64), wide_got = got.to(DType::float64);
    const Values<double> wanted = wide.values<double>(), seen = wide_got.values<double>();
    double largest = 0;
    for (const double each : wanted)
      if (std::isfinite(each)) largest = std::max(largest, std::fabs(each));
    const double share = expected.dtype() == DType::float64 ? options.tolerance * options.tolerance
                                                            : options.tolerance;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double a = wanted[i], b = seen[i];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      if (!exact && std::fabs(a - b) <= share * largest) continue;
      fail<Error>(call.caller, call.op.name, call.part == Part::value ? "result" : "gradient",
                  to_text(Scalar(a)) + ", as on the CPU",
                  to_text(Scalar(b)) + place_text(expected.shape(), static_cast<std::int64_t>(i)) +
                      " on " + to_text(call.device));
    }
  }

  const LockstepOptions options;
  /// Of a kernel that has begun, as it found them.
  struct Kept {
    std::vector<Tensor> inputs, outputs;
  };
  std::vector<Kept> open;
};
LockstepScope::LockstepScope(LockstepOptions options) try {
  if (!(options.tolerance >= 0))
    fail<Error>({}, "LockstepScope", "tolerance", "a number of at least 0",
                to_text(Scalar(options.tolerance)));
  watch_ = new Watch(options);
  start_owned(*watch_, sizeof(Watch));
} catch (const std::bad_alloc&) {
  fail_memory({}, "LockstepScope");
}
LockstepScope::~LockstepScope() { end_observing(watch_); }
}  // namespace reel
