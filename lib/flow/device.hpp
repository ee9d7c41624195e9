// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string_view>

#include <reel/device.hpp>

namespace reel {
/// Throws DeviceError unless this machine has the device.
void check_device(Device device, std::string_view op, Caller caller);
}  // namespace reel
