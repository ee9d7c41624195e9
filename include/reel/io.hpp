// SPDX-License-Identifier: BSD-3-Clause
// Tensors, models and events in files.
#pragma once
#include <reel/io/checkpoints.hpp>
#include <reel/io/formats.hpp>
#include <reel/io/graph.hpp>
#include <reel/io/save.hpp>
#include <reel/io/summary_writer.hpp>
#include <reel/io/torch.hpp>
