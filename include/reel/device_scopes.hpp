// SPDX-License-Identifier: BSD-3-Clause
// Watching what runs on a device other than the CPU.
#pragma once  // defined in lib/ops
#include <reel/export.hpp>

namespace reel {
/// While it lives, a line on stderr names each op of this thread, its device and your line:
/// "reel: train.cpp:31: matmul on cuda:0". A traced function that makes one inside runs eagerly.
class REEL_API DeviceLogScope {
 public:
  [[nodiscard]] DeviceLogScope();
  ~DeviceLogScope();
  DeviceLogScope(const DeviceLogScope&) = delete;
  DeviceLogScope& operator=(const DeviceLogScope&) = delete;

 private:
  struct Watch;
  Watch* watch_;
};

/// Options of LockstepScope.
struct LockstepOptions {
  /// The largest difference of float32 results, as a share of the largest magnitude in the result;
  /// its square counts for float64. Integers and truth values must be equal.
  double tolerance = 1e-4;
};
/// While it lives, each kernel of this thread on another device runs on the CPU too, with the same
/// inputs. The first one whose result differs throws Error, with the op, the place and your line;
/// so does a gradient, and a step of a trace. A traced function that makes one inside runs eagerly.
/// Each op copies its inputs and results and waits: for debugging only.
///
///     LockstepScope lockstep;
///     adam.step(tape.gradient(loss, parameters(model)));
class REEL_API LockstepScope {
 public:
  [[nodiscard]] explicit LockstepScope(LockstepOptions options = {});
  ~LockstepScope();
  LockstepScope(const LockstepScope&) = delete;
  LockstepScope& operator=(const LockstepScope&) = delete;

 private:
  struct Watch;
  Watch* watch_;
};
}  // namespace reel
