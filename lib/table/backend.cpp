// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/backend.hpp"

namespace reel {
Backend* backend_of(Device::Kind kind) {
  return static_cast<Backend*>(device_memories[static_cast<int>(kind)]);
}
void register_backend(Device::Kind kind, Backend& backend) {
  device_memories[static_cast<int>(kind)] = &backend;
}
}  // namespace reel
