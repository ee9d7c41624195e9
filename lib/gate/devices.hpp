// SPDX-License-Identifier: BSD-3-Clause
// Copies of tensors between devices.
#pragma once
#include "lib/body/access.hpp"
#include "lib/body/live.hpp"
#include "lib/gate/gate.hpp"
#include "lib/table/backend.hpp"

namespace reel {
/// The output of an op that changes the device is its input there.
void copy_to_output(const KernelCall& call);
/// x itself on the CPU; else a copy there, for which all work of its device is waited for.
Tensor on_host(const Tensor& x);
/// A row-major copy of a body on another device, or from there on the CPU.
Tensor copy_to(const Body& x, Device device, Caller caller);
/// New tensors of this thread are made on the device while it lives.
class PlaceScope {
 public:
  PlaceScope(Context& context, Device device) : context_(context), before_(context.device) {
    context.device = device;
  }
  /// The device of a tensor.
  PlaceScope(Context& context, const Operand& like) : PlaceScope(context, context.device) {
    if (const Body* body = body_of(like)) context.device = device_of(*body);
  }
  ~PlaceScope() { context_.device = before_; }
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;

 private:
  Context& context_;
  Device before_;
};
}  // namespace reel
