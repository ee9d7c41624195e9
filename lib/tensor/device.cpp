// SPDX-License-Identifier: BSD-3-Clause
#include <reel/device.hpp>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/gate.hpp"

namespace reel {
bool cuda_available() { return false; }

DeviceScope::DeviceScope(Device device, Caller caller) : before_(Context::here().device) {
  if (device.kind == Device::Kind::cuda && !cuda_available())
    fail<DeviceError>(caller, "DeviceScope", "device", "a device of this machine",
                      "cuda:" + std::to_string(device.index),
                      "This build of reel has no CUDA kernels.");
  Context::here().device = device;
}
DeviceScope::~DeviceScope() { Context::here().device = before_; }
}  // namespace reel
