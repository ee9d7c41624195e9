// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string>

namespace smoke {
int larger(int a, int b);
int sum_to(int n);
int count_down(int n);
bool is_even(int n);
int difference(int a, int b);
int last_digit(int n);
std::string greeting(const std::string& name);
int never_called(int n);

template <class T>
T half(T x) {
  return x / 2;
}
constexpr int square(int x) { return x * x; }
static_assert(square(3) == 9);
}  // namespace smoke
