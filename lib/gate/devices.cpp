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
void copy_elements(const Body& from, Body& to) {
  if (from.elements == 0) return;
  const Device source = device_of(from), target = device_of(to);
  Backend &reads = *backend_of(source.kind), &writes = *backend_of(target.kind);
  if (source.kind == Device::Kind::cpu)
    writes.upload(target.index, to.data, from.data, bytes_of(from));
  else if (target.kind == Device::Kind::cpu)
    reads.download(source.index, to.data, from.data, bytes_of(from));
  else if (source.kind == target.kind)
    reads.copy(target.index, to.data, source.index, from.data, bytes_of(from));
  else  // by way of the host
    copy_elements(*Access::body(copy_to(from, cpu(), {})), to);
}
void copy_in_order(const Body& from, Body& to, Caller caller = {}) {
  const Tensor ordered = from.contiguous ? Tensor() : contiguous_copy(from, caller);
  copy_elements(ordered.defined() ? *Access::body(ordered) : from, to);
}
}  // namespace

void copy_to_output(const KernelCall& call) { copy_in_order(call.input(0), call.output()); }

Tensor copy_to(const Body& x, Device device, Caller caller) {
  Body* made = allocate_on(Context::here(), device, x.dtype, x.shape, x.elements);
  if (!made)
    fail<MemoryError>(caller, "to", "result",
                      "memory for shape " + to_text(x.shape) + " on " + to_text(device), "none",
                      largest_on(device));
  Tensor result = Access::adopt(made);
  copy_in_order(x, *made, caller);
  return result;
}

namespace {
/// The memory of a strided body's elements, from the lowest address to the end of the last one.
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
