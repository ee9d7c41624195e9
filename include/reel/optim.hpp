// SPDX-License-Identifier: BSD-3-Clause
// Optimizers: step(gradients) moves Variables against their gradients.
#pragma once
#include <reel/optim/adam.hpp>
#include <reel/optim/average.hpp>
#include <reel/optim/clip.hpp>
#include <reel/optim/lbfgs.hpp>
#include <reel/optim/loss_scaler.hpp>
#include <reel/optim/rmsprop.hpp>
#include <reel/optim/schedule.hpp>
#include <reel/optim/sgd.hpp>
