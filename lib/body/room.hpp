// SPDX-License-Identifier: BSD-3-Clause
// Lists that get their memory at once.
#pragma once
#include <new>
#include <vector>

#include <reel/error.hpp>

namespace reel {
/// An empty list with room for `count` elements. Without memory it throws MemoryError.
template <class T>
std::vector<T> room_for(std::size_t count, Caller caller, std::string_view op) try {
  std::vector<T> list;
  list.reserve(count);
  return list;
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
}  // namespace reel
