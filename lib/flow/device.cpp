// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/device.hpp"

#include <chrono>
#include <utility>

#include <reel/error.hpp>
#include <reel/event.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/context.hpp"
#include "lib/table/backend.hpp"

namespace reel {
constinit OpenDevices open_cuda = nullptr;

namespace {
const char* why_no_cuda() {
  return open_cuda ? open_cuda() : "The library is not initialised yet.";
}
}  // namespace

int cuda_device_count() {
  return why_no_cuda() ? 0 : backend_of(Device::Kind::cuda)->device_count();
}
bool cuda_available() { return cuda_device_count() > 0; }
std::string cuda_status() {
  if (const char* const reason = why_no_cuda()) return reason;
  const std::string missing = backend_of(Device::Kind::cuda)->missing();
  return "CUDA devices: " + std::to_string(cuda_device_count()) +
         (missing.empty() ? "" : ". " + missing);
}

void check_device(Device device, std::string_view op, Caller caller) {
  if (device == cpu()) return;
  const char* reason = "All cores are cpu().";
  if (device.kind != Device::Kind::cpu) {
    reason = device.kind == Device::Kind::cuda ? why_no_cuda() : nullptr;
    const bool is_kind = static_cast<int>(device.kind) < device_kinds;
    const Backend* const backend = reason || !is_kind ? nullptr : backend_of(device.kind);
    if (backend && device.index >= 0 && device.index < backend->device_count()) return;
    if (!reason) reason = backend ? "This machine has fewer." : "No backend has this kind.";
  }
  fail<DeviceError>(caller, op, "device", "a device of this machine", to_text(device), reason);
}

void synchronize(Device device, Caller caller) {
  check_device(device, "synchronize", caller);
  if (Backend* const backend = backend_of(device.kind)) backend->wait(device.index);
}

DeviceMemoryUse device_memory_use(Device device, Caller caller) {
  check_device(device, "device_memory_use", caller);
  return device == cpu() ? DeviceMemoryUse() : backend_of(device.kind)->use(device.index);
}

// --- events ---
struct Event::Point {
  std::unique_ptr<QueuePoint> queued;
  std::chrono::steady_clock::time_point time = {};  // where there is no point in a queue
};
Event::Event(Device device, Caller caller) try : point_(nullptr), device_(device) {
  const CallerScope here(caller, "Event");
  check_device(device, "Event", caller);
  auto point = std::make_unique<Point>();
  Backend* const backend = backend_of(device.kind);
  if (backend) point->queued = backend->mark(device.index);
  if (backend && !point->queued) backend->wait(device.index);
  point->time = std::chrono::steady_clock::now();
  point_ = point.release();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Event");
}
Event::Event(Event&& other) noexcept
    : point_(std::exchange(other.point_, nullptr)), device_(other.device_) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(point_, other.point_);
  std::swap(device_, other.device_);
  return *this;
}
Event::~Event() { delete point_; }

bool Event::done(Caller caller) const {
  const CallerScope here(caller, "Event");
  return !point_ || !point_->queued || point_->queued->done();
}
void Event::wait(Caller caller) const {
  const CallerScope here(caller, "Event");
  if (point_ && point_->queued) point_->queued->wait();
}
double Event::milliseconds_since(const Event& earlier, Caller caller) const {
  if (!point_ || !earlier.point_)
    fail<Error>(caller, "milliseconds_since", "earlier", "an Event", "one that was moved from");
  if (device_ != earlier.device_)
    fail<DeviceError>(caller, "milliseconds_since", "earlier", "an Event of " + to_text(device_),
                      "one of " + to_text(earlier.device_));
  earlier.wait(caller);
  wait(caller);
  if (point_->queued) return point_->queued->milliseconds_since(*earlier.point_->queued);
  return std::chrono::duration<double, std::milli>(point_->time - earlier.point_->time).count();
}

DeviceScope::DeviceScope(Device device, Caller caller) : device_(device) {
  check_device(device, "DeviceScope", caller);
  Context& context = open_scope(*this, &Flow::device_scopes);
  context.device = device;
}
DeviceScope::~DeviceScope() {
  close_scope(*this, &Flow::device_scopes, [](Flow& flow, OpenScope* innermost) {
    flow.device = innermost ? static_cast<DeviceScope*>(innermost)->device_ : Device{};
  });
}
}  // namespace reel
