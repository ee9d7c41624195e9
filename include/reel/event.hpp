// SPDX-License-Identifier: BSD-3-Clause
// Points in the work of a device: waiting for a part of it, and measuring it.
#pragma once  // defined in lib/flow
#include <reel/caller.hpp>
#include <reel/device.hpp>
#include <reel/export.hpp>

namespace reel {
/// A point in the work of a device: after all that this thread had queued when it made the Event.
/// Making one does not wait.
///
///     const Event start(device);
///     Tensor y = model(x);
///     const Event end(device);
///     double of_the_model = end.milliseconds_since(start);
///
/// The CPU has no queue, so its events are done at once, and are points in the time of the host. A
/// traced function does not make its events again at a replay: make them outside of it.
class REEL_API Event {
 public:
  /// Throws DeviceError if the device is missing.
  explicit Event(Device device, Caller caller = Caller::here());
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// The device whose work it divides.
  Device device() const { return device_; }
  /// Whether the device has done all work before this point.
  bool done(Caller caller = Caller::here()) const;
  /// Waits until the device has done all work before this point, but not for later work. Errors
  /// that kernels have found, such as a wrong index, are thrown by synchronize() and by the next
  /// read on the host, not here.
  void wait(Caller caller = Caller::here()) const;
  /// The device's time between two points of its work. Waits for both. Throws DeviceError if
  /// `earlier` belongs to another device.
  double milliseconds_since(const Event& earlier, Caller caller = Caller::here()) const;

 private:
  struct Point;
  Point* point_;
  Device device_;
};
}  // namespace reel
