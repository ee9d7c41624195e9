// SPDX-License-Identifier: BSD-3-Clause
#include <reel/device.hpp>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/gate.hpp"

namespace reel {
bool cuda_available() { return false; }

DeviceScope::DeviceScope(Device device, Caller caller) try : device_(device) {
  if (device.kind == Device::Kind::cuda && !cuda_available())
    fail<DeviceError>(caller, "DeviceScope", "device", "a device of this machine",
                      "cuda:" + std::to_string(device.index),
                      "This build of reel has no CUDA kernels.");
  Context& context = open_scope(*this, &Context::device_scopes);
  context.device = device;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "DeviceScope");
}
DeviceScope::~DeviceScope() {
  close_scope(*this, &Context::device_scopes, [](Context& context, OpenScope* innermost) {
    context.device = innermost ? static_cast<DeviceScope*>(innermost)->device_ : Device{};
  });
}
}  // namespace reel
