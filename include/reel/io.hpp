// SPDX-License-Identifier: BSD-3-Clause
// Tensors and models in files.
#pragma once
#include <reel/io/checkpoints.hpp>
#include <reel/io/formats.hpp>
#include <reel/io/save.hpp>
#include <reel/io/torch.hpp>
