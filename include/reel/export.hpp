// SPDX-License-Identifier: BSD-3-Clause
// REEL_API marks what the shared library shows; everything else is hidden.
#pragma once
#if __cplusplus < 202002L
#error "reel needs C++20: compile with -std=c++20 or later"
#endif
#define REEL_API __attribute__((visibility("default")))
// A parameter to which the object points: clang warns if the argument ends before the object.
#ifdef __clang__
#define REEL_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define REEL_LIFETIMEBOUND
#endif
