// SPDX-License-Identifier: BSD-3-Clause
// The smallest ops, called N times, for instructions.py to count: `instructions add 1000`.
#include <reel/reel.hpp>

#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace reel;

namespace {

template <class Call>
void repeat(long times, Call call) {
  for (long i = 0; i < times; ++i) {
    const Tensor y = call();
    asm volatile("" : : "r"(&y) : "memory");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: instructions add|add_recorded|product|product_recorded|transpose|square N\n",
               stderr);
    return 2;
  }
  const std::string_view what = arguments[1];
  const long times = std::atol(arguments[2]);
  const Tensor x = ones({16}), y = ones({16}), matrix = ones({8, 8});
  if (what == "add") {
    repeat(times, [&] { return x + y; });
  } else if (what == "add_recorded") {
    GradientTape tape;
    tape.watch(x);
    repeat(times, [&] { return x + y; });
  } else if (what == "product") {
    repeat(times, [&] { return matmul(matrix, matrix); });
  } else if (what == "product_recorded") {
    GradientTape tape;
    tape.watch(matrix);
    repeat(times, [&] { return matmul(matrix, matrix); });
  } else if (what == "transpose") {
    repeat(times, [&] { return transpose(matrix); });
  } else if (what == "square") {
    const Variable w("w", x);
    repeat(times, [&] {
      GradientTape tape;
      return tape.gradient(w * w, w);
    });
  } else {
    std::fprintf(stderr, "instructions: no such work: %s\n", arguments[1]);
    return 2;
  }
  return 0;
}
