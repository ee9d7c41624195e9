// SPDX-License-Identifier: BSD-3-Clause
// A kernel of tanh with a fault that only a sanitizer finds, for tests/cuda/planted.cpp. A module
// of its own: ThreadSanitizer's build has the plugin and this, but not the test program.
#include <cstdlib>
#include <cstring>

#include "cuda/queue.hpp"

namespace reel::gpu {
namespace {
enum class Planted { nothing, behind_input, behind_local, behind_shared, no_barrier, one_place };

__global__ void copy(std::int64_t n, const float* x, float* y, Planted planted) {
  const auto at = [=](Planted one) { return static_cast<std::int64_t>(planted == one); };
  // Through pointers, as UBSan checks an index of an array before AddressSanitizer can.
  REEL_SHARED(float, shared_array, 32);
  float local_array[4] = {};
  float *const shared = shared_array, *const local = local_array;
  for (std::int64_t i = first_index(); i < n; i += grid_step())
    local[i % (4 + at(Planted::behind_local))] = x[i + at(Planted::behind_input)];
  const unsigned lane = threadIdx.x;
  shared[lane + at(Planted::behind_shared)] = local[first_index() % 4];
  if (planted != Planted::no_barrier) __syncthreads();
  const float turned = shared[(lane + 1) % 32];
  for (std::int64_t i = first_index(); i < n; i += grid_step()) y[i] = turned;
  if (planted == Planted::one_place && lane == 0) y[0] = turned;
}

Planted chosen() {
  constexpr const char* names[] = {"nothing",       "behind_input", "behind_local",
                                   "behind_shared", "no_barrier",   "one_place"};
  const char* const name = std::getenv("REEL_TEST_PLANTED");
  int i = 0;
  while (name && std::strcmp(names[i], name) != 0) ++i;
  return static_cast<Planted>(i);
}

KernelResult run_copy(const Call& call) {
  const std::int64_t n = call.input(0).elements;
  const auto blocks = static_cast<unsigned>((n + 31) / 32);
  launch(copy, dim3(blocks), dim3(32), 0, call.queue.stream, n, call.input(0).as<float>(),
         call.output().as<float>(), chosen());
  return {};
}
}  // namespace
}  // namespace reel::gpu

extern "C" {
__attribute__((visibility("default"))) reel::gpu::Kernel reel_planted = reel::gpu::run_copy;
}
