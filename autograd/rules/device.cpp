// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/options/device.hpp"
#include "autograd/install.hpp"

namespace reel {
namespace {
// y = x on another device        dx = dy on x's
void to_device_rule(GradientCall& call) {
  call.give(0, call.dy().to(call.option<DeviceOptions>().from));
}
}  // namespace

const NamedRule device_rules[] = {{"to_device", to_device_rule}, {nullptr, nullptr}};
}  // namespace reel
