// SPDX-License-Identifier: BSD-3-Clause
// A watch of state around a run, without a trace.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "lib/trace/state.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
using tracing::StateWatch;
using Run = std::function<void()>;
using Doubtful = std::vector<StateWatch::Doubtful>;

struct Said {
  std::string text;
  Doubtful doubtful;
};
inline Said said;  // not on the stack, because the watch reads the stack

/// What a watch reports of a run of a function with this object. `before` may exclude memory.
[[gnu::noinline]] inline const Said& watched(
    const void* object, std::size_t bytes, const Run& run,
    const std::function<void(StateWatch&)>& before = [](StateWatch&) {}) {
  StateWatch watch;
  watch.add(object, bytes);
  before(watch);
  watch.begin();
  run();
  said.text = watch.change();
  said.doubtful = watch.doubtful();
  return said;
}
template <class T>
const Said& watched(const T& object, const Run& run) {
  return watched(&object, sizeof object, run);
}

/// An object in its own block on the heap, followed by zeros to the end of the block.
template <class T>
struct Kept {
  Kept() : bytes(static_cast<std::byte*>(std::calloc(1, sizeof(T)))) { new (bytes) T(); }
  ~Kept() { std::free(bytes); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  T& operator*() const { return *std::launder(reinterpret_cast<T*>(bytes)); }
  T* operator->() const { return &**this; }
  std::byte* const bytes;
};

struct Node {
  void* next = nullptr;
  std::int64_t n = 0;
};
inline const std::string nothing;
inline std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }
}  // namespace reel::tests
