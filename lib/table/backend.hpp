// SPDX-License-Identifier: BSD-3-Clause
// What computes on the devices of one kind. The CPU's kernels stand in the op's entry and are
// called there; every other kind of device has a Backend.
#pragma once
#include "lib/memory/device_memory.hpp"
#include "lib/table/op.hpp"

namespace reel {
/// A call of a kernel on a device: inputs and outputs are in its memory, the options are the op's.
/// The backend copies what the kernel reads later: bodies and options live as long as the call.
struct DeviceCall {
  const Op& op;
  OptionsView options;
  KernelCall kernel;
  Device device;
  Caller site;  // whom an error names
};

/// All work of a device runs in the order of its queue, possibly later and on another thread. What
/// a kernel then finds wrong is thrown by the next wait.
class Backend : public DeviceMemory {
 public:
  virtual int device_count() const = 0;
  /// Whether the device can run the op, or its fused gradient kernel, whose inputs are dy..., x...,
  /// y... and whose outputs are dx... (null: not needed, not wanted).
  virtual bool has_kernel(const Op& op) const = 0;
  virtual bool has_gradient(const Op& op) const = 0;
  /// Puts a kernel on the queue. Inputs may be strided, and those of a pointwise op of any shape
  /// that broadcasts to the output's.
  virtual void run(const DeviceCall& call) = 0;
  virtual void run_gradient(const DeviceCall& call) = 0;
  /// From the host's memory, which is read before this returns.
  virtual void upload(int index, std::byte* to, const void* from, std::size_t bytes) = 0;
  /// Waits for all work of the device first.
  virtual void download(int index, void* to, const std::byte* from, std::size_t bytes) = 0;
  /// Between two devices of this kind. What is put on the queue of either later comes after it.
  virtual void copy(int to_index, std::byte* to, int from_index, const std::byte* from,
                    std::size_t bytes) = 0;
  /// Until all work of the device is done.
  virtual void wait(int index) = 0;

 protected:
  ~Backend() = default;
};

/// Null where the process has no such devices, and for the CPU.
Backend* backend_of(Device::Kind kind);
/// Once for each kind, before its first use; the backend lives as long as the process.
void register_backend(Device::Kind kind, Backend& backend);
}  // namespace reel
