// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/backend.hpp"

#include <algorithm>
#include <cstring>

#include <reel/error.hpp>

#include "lib/body/dtypes.hpp"
#include "lib/body/text.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/pool/scratch.hpp"

namespace reel {
CpuBackend& CpuBackend::the() {
  static constinit CpuBackend backend;
  return backend;
}

namespace {
constexpr std::align_val_t line{64};

[[noreturn, gnu::noinline]] void fail_scratch(const DeviceCall& call, const NoScratch& none) {
  fail<MemoryError>(call.caller, call.op.name, "scratch",
                    to_text(Scalar(static_cast<std::int64_t>(none.bytes))) + " bytes of memory",
                    "none from the system");
}

/// Sixteen bytes at a time, as std::fill_n() is a loop over elements under -O2.
template <class T>
void fill_elements(T* out, std::int64_t n, T number) {
  constexpr std::int64_t count = 16 / sizeof(T);
  T numbers[count];
  std::fill_n(numbers, count, number);
  std::int64_t i = 0;
  for (; i + count <= n; i += count) std::memcpy(out + i, numbers, sizeof(numbers));
  std::fill_n(out + i, n - i, number);
}
/// Runs a call of 16 bits whose kernel does not take them; else returns false.
[[gnu::noinline]] bool run_halves(CpuBackend& backend, const DeviceCall& call) {
  const TakesHalves takes = call.op.on_cpu().takes_halves;
  const bool reads = call.op.reads_halves && call.op.reads_halves(call.part, call.kernel);
  if (!must_widen(call, reads)) return false;
  if (call.part == Part::value && takes && takes(call.kernel)) return false;
  run_widened(backend, call, reads);
  return true;
}
}  // namespace

// Tensors on the CPU take their memory from the blocks of their thread, see lib/memory.
std::byte* CpuBackend::allocate(int, std::size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, line, std::nothrow));
}
void CpuBackend::release(int, std::byte* block, std::size_t) noexcept {
  ::operator delete(block, line);
}

void CpuBackend::run(const DeviceCall& call) try {
  const Kernels& kernels = call.op.on_cpu();
  if (kernels.passes && call.part == Part::value) return run_pointwise(call.op, call.kernel);
  if (kernels.passes) return run_pointwise_gradient(call);
  const Kernel kernel = kernels.of(call.part);
  if (must_widen(call, false)) [[unlikely]]
    if (run_halves(*this, call)) return;
  if (call.op.contiguous_inputs && call.part == Part::value && !call.kernel.in_order()) [[unlikely]]
    return run_on_copies(*this, call);
  check_kernel(call, kernel(call.kernel));
} catch (const NoScratch& none) {
  fail_scratch(call, none);
}

Pass CpuBackend::pass_of(const Op& op, Part part, DType from, DType to) const {
  static constexpr Passes others = {};  // of what converts
  const Kernels& kernels = op.on_cpu();
  if (part == Part::gradients) return {};
  if (part != Part::value) return gradient_pass_of(kernels, part == Part::gradient_1, from);
  if (kernels.conversion) return {&others, kernels.conversion(from, to)};
  return reel::pass_of(op, from);
}

void CpuBackend::fill(Body& to, double number) {
  with_element(to.dtype, [&]<class T>(Type<T>) {
    fill_elements(to.as<T>(), to.elements, static_cast<T>(number));
  });
}

void CpuBackend::upload(int, std::byte* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
void CpuBackend::download(int, void* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
void CpuBackend::copy(int, std::byte* to, int, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
}  // namespace reel
