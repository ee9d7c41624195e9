// SPDX-License-Identifier: BSD-3-Clause
#include "lib/smoke.hpp"

namespace smoke {
namespace {
void subtract(int& from, int amount) { from -= amount; }
}  // namespace

int larger(int a, int b) { return a > b ? a : b; }

int sum_to(int n) {
  int sum = 0;
  for (int i = 1; i <= n; ++i) sum += i;
  return sum;
}

int count_down(int n) {
  int steps = 0;
  while (n > 0) {
    --n;
    ++steps;
  }
  return steps;
}

bool is_even(int n) {
  if (n == 0) return true;
  return n % 2 == 0;
}

int difference(int a, int b) {
  int result = a;
  subtract(result, b);
  return result;
}

int last_digit(int n) {
  switch (n % 10) {
    case 9:
      return 9;
    default:
      return n - n / 10 * 10;
  }
}

std::string greeting(const std::string& name) { return "hello, " + name; }

int never_called(int n) { return n + 7; }
}  // namespace smoke
