// SPDX-License-Identifier: BSD-3-Clause
// Devices: where tensors are stored and ops run.
#pragma once  // defined in lib/flow, lib/tensor
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/shape.hpp>

namespace reel {
/// A device that holds tensors and runs ops: the CPU, or a GPU by its number.
struct Device {
  enum class Kind : unsigned char { cpu, cuda } kind = Kind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};
/// The CPU.
constexpr Device cpu() { return {}; }
/// The GPU with this number.
constexpr Device cuda(CountNumber index = 0) {
  return {Device::Kind::cuda, detail::axis_of(index.value)};
}
/// Whether this machine has a CUDA device that reel can use.
REEL_API bool cuda_available();
/// The number of CUDA devices that reel can use.
REEL_API int cuda_device_count();
/// "CUDA devices: 2", or the reason why there are none.
REEL_API std::string cuda_status();
REEL_API std::ostream& operator<<(std::ostream& out, Device x);
/// Waits until all work of a device is done. On devices other than the CPU, an op returns before
/// its kernel has run. If the kernel finds an error, such as a position out of range, it is thrown
/// here or where the host next reads a tensor of the device, with the op and its line.
REEL_API void synchronize(Device device, Caller caller = Caller::here());

/// Memory of a device other than the CPU that the library holds, in bytes.
struct DeviceMemoryUse {
  std::size_t live_bytes = 0;    // of tensors, scratch memory and graphs
  std::size_t cached_bytes = 0;  // of released blocks, which trim_memory() gives back
  std::size_t peak_bytes = 0;    // the most that was live so far
};
/// Zeros for the CPU: see memory_statistics(). Throws DeviceError if the device is missing.
REEL_API DeviceMemoryUse device_memory_use(Device device, Caller caller = Caller::here());

/// While it lives, new tensors of this thread are made on `device`. Throws DeviceError if the
/// device is missing. Scopes may end in any order and on any thread, as TrainScope.
class REEL_API DeviceScope : detail::OpenScope {
 public:
  [[nodiscard]] explicit DeviceScope(Device device, Caller caller = Caller::here());
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device device_;
};
}  // namespace reel
