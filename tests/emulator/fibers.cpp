// SPDX-License-Identifier: BSD-3-Clause
// A program without Catch2: fibers keep their registers while others run. './dev check arm' runs
// it, too.
#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "cuda/emulate/context.hpp"

namespace {
using reel::emulate::Fiber;
constexpr int turns = 5000, numbers = 10;

/// Adds in several variables at once, so that the compiler keeps them in registers across pauses.
template <class T>
bool count_up(Fiber& self, int seed) {
  std::array<T, numbers> sums = {};
  for (int turn = 0; turn < turns; ++turn) {
    for (int i = 0; i < numbers; ++i) sums[std::size_t(i)] += T(seed + i);
    self.pause();
  }
  bool right = true;
  for (int i = 0; i < numbers; ++i) right = right && sums[std::size_t(i)] == T(turns) * T(seed + i);
  return right;
}
}  // namespace

int main() {
  constexpr int count = 16;
  std::vector<std::unique_ptr<Fiber>> fibers;
  int right = 0;
  for (int lap = 0; lap < 2; ++lap) {  // a fiber starts again after its end
    for (int i = 0; i < count; ++i) {
      if (lap == 0) fibers.push_back(std::make_unique<Fiber>());
      Fiber& fiber = *fibers[std::size_t(i)];
      fiber.start([&fiber, &right, i] {
        right += i % 2 ? count_up<double>(fiber, i + 1) : count_up<long>(fiber, i + 1);
      });
    }
    for (bool runs = true; runs;) {
      runs = false;
      for (const auto& fiber : fibers)
        if (!fiber->ended()) fiber->resume(), runs = true;
    }
  }
  std::printf("%d of %d fibers kept their registers\n", right, 2 * count);
  const bool all = right == 2 * count;
  std::printf("%d passed, %d failed, 0 skipped\n", all, !all);
  return !all;
}
