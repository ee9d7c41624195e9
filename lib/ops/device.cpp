// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>

#include "lib/body/live.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/device.hpp"

namespace reel {
namespace {
void to_device_shape(Inference& call) { call.output(call.input(0).dtype, call.input(0).shape); }

const char* devices_fit(const Inference& call) {
  const auto& [device, from] = call.option<DeviceOptions>();
  return device == call.device && from == device_of(call.input(0)) ? nullptr
                                                                   : "the devices of its values";
}

void to_device_samples(SampleList out) {
  samples_of(out, 0, [](const std::vector<Tensor>& x) {
    return run(to_device_op, x[0], DeviceOptions{.device = x[0].device(), .from = x[0].device()});
  });
}
}  // namespace

constinit Op to_device_op{.name = "to_device",
                          .shape = to_device_shape,
                          .options = &options_type<DeviceOptions>,
                          .check = devices_fit,
                          .moves = true,
                          .internal = true,
                          .changes_device = true,
                          .samples = to_device_samples};

const Entry device_ops[] = {&to_device_op, nullptr};
}  // namespace reel
