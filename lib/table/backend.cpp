// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/backend.hpp"

#include <string_view>

#include "lib/body/text.hpp"

namespace reel {
Device::Kind register_backend(const char* name, Backend& backend) {
  int kind = 0;
  while (kind < device_kinds && device_names[kind] && device_names[kind] != std::string_view(name))
    ++kind;
  if (kind == device_kinds)
    fail<DeviceError>({}, "register_backend", "name", "at most 4 kinds of devices", name);
  device_names[kind] = name;
  device_memories[kind] = &backend;
  return static_cast<Device::Kind>(kind);
}
}  // namespace reel
