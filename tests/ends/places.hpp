// SPDX-License-Identifier: BSD-3-Clause
// Where an object of the library is stored when a thread or the program ends.
#pragma once
#include <cstdlib>
#include <string_view>

#include "ends/objects.hpp"

namespace reel::tests {
// These are made before the library makes objects, so they are destroyed after those.
inline std::unique_ptr<Subject> early;
inline thread_local std::unique_ptr<Subject> thread_early;
inline Subject* on_heap = nullptr;

inline constexpr std::string_view places[] = {
    "static", "early static", "thread_local", "early thread_local", "heap", "deleted at exit"};

/// Makes one of the subjects at this place. Returns false if there is no such name.
inline bool make(const Subjects& subjects, std::string_view name, std::string_view place) {
  std::unique_ptr<Subject>& touched = thread_early;  // this first use decides when it is destroyed
  std::unique_ptr<Subject> made;
  for (const auto& [known, make_subject] : subjects)
    if (known == name) made = make_subject();
  if (!made) return false;
  if (place == "static") {
    static std::unique_ptr<Subject> late;
    late = std::move(made);
  } else if (place == "early static") {
    early = std::move(made);
  } else if (place == "thread_local") {
    static thread_local std::unique_ptr<Subject> late;
    late = std::move(made);
  } else if (place == "early thread_local") {
    touched = std::move(made);
  } else if (place == "heap" || place == "deleted at exit") {
    on_heap = made.release();
    if (place == "heap") return true;
    std::atexit([] { delete on_heap; });
    std::at_quick_exit([] { delete on_heap; });
  } else {
    return false;
  }
  return true;
}

/// Whether the library still computes right results.
inline bool trains() {
  const Tensor x = arange(0.0f, 50'000.0f) * 1e-5f;
  const Variable w("w", tensor({2.0f}));
  for (int i = 0; i < 2; ++i) {
    GradientTape tape;
    const Tensor slope = tape.gradient(sum(x * w * w), w);
    if (std::abs(slope.item<float>() - 4 * sum(x).item<float>()) > 1.0f) return false;
  }
  return true;
}
}  // namespace reel::tests
