// SPDX-License-Identifier: BSD-3-Clause
// Everything, in the order in which one would learn it.
#pragma once
#include <reel/bench.hpp>
#include <reel/error.hpp>
#include <reel/io.hpp>
#include <reel/live.hpp>
#include <reel/memory.hpp>
#include <reel/nn.hpp>
#include <reel/op.hpp>
#include <reel/ops.hpp>
#include <reel/optim.hpp>
#include <reel/random.hpp>
#include <reel/tape.hpp>
#include <reel/tensor.hpp>
#include <reel/threads.hpp>
#include <reel/trace.hpp>
#include <reel/train.hpp>
#include <reel/variable.hpp>
#if __has_include(<fmt/core.h>)
#include <reel/format.hpp>
#endif
