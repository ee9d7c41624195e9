// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string_view>

#include <reel/device.hpp>

namespace reel {
/// Null if the process has a CUDA backend, else the reason why not. Opens it at the first call. Set
/// by assemble().
using OpenDevices = const char* (*)();
extern constinit OpenDevices open_cuda;
/// Throws DeviceError unless this machine has the device.
void check_device(Device device, std::string_view op, Caller caller);
}  // namespace reel
