// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/device.hpp"

#include <reel/error.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/context.hpp"
#include "lib/table/backend.hpp"

namespace reel {
bool cuda_available() {
  const Backend* backend = backend_of(Device::Kind::cuda);
  return backend && backend->device_count() > 0;
}

void check_device(Device device, std::string_view op, Caller caller) {
  if (device == cpu()) return;
  const Backend* backend = backend_of(device.kind);
  if (backend && device.index >= 0 && device.index < backend->device_count()) return;
  const char* reason = "All cores are cpu().";
  if (device.kind == Device::Kind::cuda)
    reason = backend ? "This machine has fewer." : "This build of reel has no CUDA kernels.";
  fail<DeviceError>(caller, op, "device", "a device of this machine", to_text(device), reason);
}

void synchronize(Device device, Caller caller) try {
  check_device(device, "synchronize", caller);
  if (Backend* const backend = backend_of(device.kind)) backend->wait(device.index);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "synchronize");
}

DeviceScope::DeviceScope(Device device, Caller caller) try : device_(device) {
  check_device(device, "DeviceScope", caller);
  Context& context = open_scope(*this, &Flow::device_scopes);
  context.device = device;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "DeviceScope");
}
DeviceScope::~DeviceScope() {
  close_scope(*this, &Flow::device_scopes, [](Flow& flow, OpenScope* innermost) {
    flow.device = innermost ? static_cast<DeviceScope*>(innermost)->device_ : Device{};
  });
}
}  // namespace reel
