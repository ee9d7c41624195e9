// SPDX-License-Identifier: BSD-3-Clause
// All headers but those for arrays of other libraries: dlpack.hpp, eigen.hpp, share.hpp,
// xtensor.hpp.
#pragma once
// First, because the compiler prints the includes around a message about a model before it. Each
// of these headers includes none of those below it.
#include <reel/fields.hpp>

#include <reel/nn/model.hpp>

#include <reel/nn/check.hpp>
#include <reel/nn/sequential.hpp>

#include <reel/io/save.hpp>

#include <reel/io/torch.hpp>

#include <reel/autocast.hpp>
#include <reel/batched.hpp>
#include <reel/bench.hpp>
#include <reel/data.hpp>
#include <reel/device_scopes.hpp>
#include <reel/error.hpp>
#include <reel/event.hpp>
#include <reel/finite.hpp>
#include <reel/fit.hpp>
#include <reel/graph.hpp>
#include <reel/io.hpp>
#include <reel/live.hpp>
#include <reel/loops.hpp>
#include <reel/memory.hpp>
#include <reel/metrics.hpp>
#include <reel/nn.hpp>
#include <reel/op.hpp>
#include <reel/ops.hpp>
#include <reel/optim.hpp>
#include <reel/pinned.hpp>
#include <reel/plot.hpp>
#include <reel/profile.hpp>
#include <reel/progress.hpp>
#include <reel/random.hpp>
#include <reel/tape.hpp>
#include <reel/tensor.hpp>
#include <reel/testing.hpp>
#include <reel/threads.hpp>
#include <reel/trace.hpp>
#include <reel/train.hpp>
#include <reel/transform.hpp>
#include <reel/variable.hpp>
#if __has_include(<fmt/core.h>)
#include <reel/format.hpp>
#endif
