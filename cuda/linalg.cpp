// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra by the kernels of the CPU. A call waits for the device, copies the inputs to the
// host and the results back.
#include "cuda/gpu.hpp"
#include "lib/body/small_vector.hpp"

namespace reel::gpu {
namespace {
/// A body of the host with the shape of a row-major one.
struct HostCopy {
  explicit HostCopy(const Body& of) : body(of), elements(static_cast<std::size_t>(of.bytes())) {
    body.device_kind = static_cast<std::uint8_t>(Device::Kind::cpu);
    body.device_index = 0;
    body.data = elements.data();
  }
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  Body body;
  OwnVector<std::byte> elements;
};

KernelResult on_host(const Call& call) {
  const Queue& queue = call.queue;
  if (Capture::current())
    queue.refuse("a call outside of a CUDA graph", "one in a graph", "Do not trace the call.");
  OwnList<HostCopy> copies;
  SmallVector<const Body*, 4> inputs;
  SmallVector<Body*, 4> outputs;
  for (int i = 0; i < call.input_count; ++i) {
    const Body& x = call.input(i);
    HostCopy& copy = copies.emplace_back(x);
    if (x.elements > 0) queue.gpu->download(copy.body.data, x.data, copy.elements.size());
    inputs.push_back(&copy.body);
  }
  for (int i = 0; i < call.output_count; ++i)
    outputs.push_back(call.outputs[i] ? &copies.emplace_back(call.output(i)).body : nullptr);
  const KernelResult result = queue.call->op.on_cpu().of(queue.call->part)(
      {inputs.data(), outputs.data(), call.options, call.input_count, call.output_count});
  for (int i = 0; i < call.output_count && !result.failure; ++i)
    if (const Body* const y = outputs[static_cast<std::size_t>(i)]; y && y->elements > 0)
      queue.check(queue.gpu->streams.mine().staging.upload(call.output(i).data, y->data,
                                                           static_cast<std::size_t>(y->bytes())));
  return result;
}
}  // namespace

bool runs_on_host(const Instruction& call) {
  return call.kind == Instruction::Kind::kernel &&
         call.op->on(Device::Kind::cuda).of<Queue>(call.part) == on_host;
}

extern const NamedKernel linalg_kernels[];
const NamedKernel linalg_kernels[] = {{"cholesky", on_host},
                                      {"cofactors", on_host},
                                      {"det", on_host},
                                      {"eigh", on_host},
                                      {"eigvalsh", on_host},
                                      {"function_curve", on_host},
                                      {"function_slope", on_host},
                                      {"inverse", on_host},
                                      {"matrix_function", on_host},
                                      {"qr", on_host},
                                      {"slogdet", on_host},
                                      {"solve", on_host},
                                      {"svd", on_host},
                                      {"triangular_solve", on_host},
                                      {nullptr, nullptr}};
}  // namespace reel::gpu
