// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/devices.hpp"

#include <cstring>

#include "lib/body/text.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/call_kernel.hpp"

namespace reel {
namespace {
std::size_t bytes_of(const Body& x) { return static_cast<std::size_t>(x.bytes()); }

/// Elements in row-major order, from one device to another.
void copy_elements(const Body& from, const Body& to) {
  if (from.elements == 0) return;
  const Device source = device_of(from), target = device_of(to);
  if (source == target && source == cpu())
    std::memcpy(to.data, from.data, bytes_of(from));
  else if (source.kind == Device::Kind::cpu)
    upload(const_cast<Body&>(to), from.data);
  else if (target.kind == Device::Kind::cpu)
    backend_of(source.kind)->download(source.index, to.data, from.data, bytes_of(from));
  else
    backend_of(source.kind)->copy(target.index, to.data, source.index, from.data, bytes_of(from));
}
}  // namespace

void run_on_device(const Op& op, OptionsView options, const KernelCall& call, Caller caller) {
  if (op.changes_device) {
    const Body& x = call.input(0);
    const Tensor ordered = x.contiguous ? Tensor() : contiguous_copy(x);
    return copy_elements(ordered.defined() ? *Access::body(ordered) : x, call.output());
  }
  const Device device = device_of(call.output());
  Backend& backend = *backend_of(device.kind);
  if (!backend.has_kernel(op))
    fail<DeviceError>(caller, op.name, "device", "a device with a kernel for this op",
                      to_text(device), "Compute it on the CPU: x.to(cpu()).");
  backend.run({op, options, call, device, caller});
}

void run_gradient_on_device(const Op& op, OptionsView options, const KernelCall& call,
                            Device device, Caller caller) {
  backend_of(device.kind)->run_gradient({op, options, call, device, caller});
}

void upload(Body& to, const void* from) {
  const Device device = device_of(to);
  backend_of(device.kind)->upload(device.index, to.data, from, bytes_of(to));
}

Tensor copy_to(const Body& x, Device device, Caller caller) {
  Body* made = allocate_on(Context::here(), device, x.dtype, x.shape, x.elements);
  if (!made)
    fail<MemoryError>(caller, "to", "result",
                      "memory for shape " + to_text(x.shape) + " on " + to_text(device), "none");
  Tensor result = Access::adopt(made);
  const Tensor ordered = x.contiguous ? Tensor() : contiguous_copy(x);
  copy_elements(ordered.defined() ? *Access::body(ordered) : x, *made);
  return result;
}

namespace {
/// The memory that the elements of a strided body take, from the first to behind the last.
struct Span {
  std::int64_t first = 0, end = 1;  // in elements, from the body's own first one
  explicit Span(const Body& x) {
    for (int i = 0; i < x.rank(); ++i) {
      const std::int64_t last = (x.shape.data()[i] - 1) * x.strides[i];
      (last < 0 ? first : end) += last;
    }
  }
};
}  // namespace

Tensor on_host(const Tensor& x) {
  const Body& body = *Access::body(x);
  if (on_cpu(body)) return x;
  const Span span(body);
  if (body.elements == 0 || span.end - span.first > body.elements) return copy_to(body, cpu(), {});
  Body whole = body;
  whole.data += span.first * size_of(body.dtype);
  whole.elements = span.end - span.first;
  whole.shape = Shape({whole.elements});
  whole.contiguous = true;
  const Tensor memory = copy_to(whole, cpu(), {});
  Tensor result = Access::adopt(allocate_view(Context::here(), Access::body(memory)));
  if (!result.defined())
    fail<MemoryError>({}, "to", "result", "memory for a header", "none from the system");
  Body& view = *Access::body(result);
  view.data -= span.first * size_of(body.dtype);
  view.elements = body.elements;
  view.contiguous = body.contiguous;
  view.shape = body.shape;
  std::memcpy(view.strides, body.strides, sizeof(Strides));
  return result;
}
}  // namespace reel
