// SPDX-License-Identifier: BSD-3-Clause
// Layers, cells and models. A model is a struct that lists its parts: REEL_FIELDS or fields().
#pragma once
#include <reel/nn/attention.hpp>
#include <reel/nn/check.hpp>
#include <reel/nn/convolution.hpp>
#include <reel/nn/initialize.hpp>
#include <reel/nn/layers.hpp>
#include <reel/nn/model.hpp>
#include <reel/nn/normalize.hpp>
#include <reel/nn/recurrence.hpp>
#include <reel/nn/recurrent.hpp>
#include <reel/nn/search.hpp>
#include <reel/nn/select.hpp>
#include <reel/nn/sequence.hpp>
#include <reel/nn/sequential.hpp>
#include <reel/nn/tree.hpp>
