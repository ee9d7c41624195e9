// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/ops/activation.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/compare.hpp>
#include <reel/ops/create.hpp>
#include <reel/ops/gather.hpp>
#include <reel/ops/math.hpp>
#include <reel/ops/matmul.hpp>
#include <reel/ops/normalize.hpp>
#include <reel/ops/recurrent.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/ops/softmax.hpp>
