// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/backend.hpp"

namespace reel {
void register_backend(Device::Kind kind, Backend& backend) {
  device_memories[static_cast<int>(kind)] = &backend;
}
}  // namespace reel
