// SPDX-License-Identifier: BSD-3-Clause
// Memory of the host that a GPU reads by itself.
#pragma once  // defined in lib/tensor
#include <reel/tensor.hpp>

namespace reel {
/// A copy of x on the CPU, in memory that `device` can read by itself (page-locked memory). Its
/// `.to(device)` then neither waits nor copies on the host. Make it where there is time, such as in
/// a thread that loads data:
///
///     Tensor batch = pinned(load(i), device);
///     Tensor x = batch.to(device);
///
/// The memory is used again when no tensor has it any more and the device has read it;
/// trim_memory() gives the unused part back to the system. For the CPU the result is x itself. No
/// tape records this: gradients do not reach x. Throws DeviceError if the device is missing, and
/// MemoryError if the system gives no such memory.
REEL_API Tensor pinned(const Tensor& x, Device device, Caller caller = Caller::here());
}  // namespace reel
