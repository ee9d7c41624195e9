// SPDX-License-Identifier: BSD-3-Clause
// REEL_API marks what the shared library shows; everything else is hidden.
#pragma once
#if __cplusplus < 202002L
#error "reel needs C++20: compile with -std=c++20 or later"
#endif
#ifndef __cpp_exceptions
#error "reel needs exceptions, which report its errors: compile without -fno-exceptions"
#endif
#if (defined(_GLIBCXX_DEBUG) || (defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI)) && \
    !defined(REEL_BUILDING) && !defined(REEL_SAME_STL)
#error \
    "reel needs the std::vector and std::string that it was compiled with: compile without \
_GLIBCXX_DEBUG and _GLIBCXX_USE_CXX11_ABI=0, or compile the library with them too, and define \
REEL_SAME_STL. _GLIBCXX_ASSERTIONS changes no types"
#endif
#define REEL_API __attribute__((visibility("default")))
// A parameter to which the object points: clang warns if the argument ends before the object.
#ifdef __clang__
#define REEL_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define REEL_LIFETIMEBOUND
#endif
