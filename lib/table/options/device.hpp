// SPDX-License-Identifier: BSD-3-Clause
// Options of to_device.
#pragma once
#include <reel/device.hpp>

namespace reel {
struct DeviceOptions {
  Device device = {}, from = {};  // of the result and of the input
  void fields(auto&& field) {
    field("device", device);
    field("from", from);
  }
};
}  // namespace reel
