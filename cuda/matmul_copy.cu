// SPDX-License-Identifier: BSD-3-Clause
// Copies operands whose layout cuBLASLt does not accept.
#include "cuda/matmul.hpp"

namespace reel::gpu {
namespace {
template <class T>
__global__ void copy(std::int64_t n, Places<1> places, const T* from, T* to) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[1];
    places.find(i, at);
    to[i] = from[at[0]];
  }
}
}  // namespace

void copy_from_places(const Queue& queue, DType dtype, std::int64_t n, const Places<1>& places,
                      const void* from, void* to) {
  const auto copy_as = [&]<class T>(Type<T>) {
    queue.launch_for(n, copy<T>, n, places, static_cast<const T*>(from), static_cast<T*>(to));
  };
  if (is_half(dtype)) return copy_as(Type<std::uint16_t>());
  with_floating(dtype, copy_as);
}
}  // namespace reel::gpu
