// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/flow/context.hpp"

namespace reel::tests {
/// If the tests run on another device than the CPU, waits for its kernels and throws their errors.
inline void await_errors() { synchronize(Context::here().device); }
}  // namespace reel::tests
