// SPDX-License-Identifier: BSD-3-Clause
// Training on several processes: ranks, collectives, data parallel steps. Not part of reel.hpp.
#pragma once
#include <reel/dist/collectives.hpp>
#include <reel/dist/data_parallel.hpp>
#include <reel/dist/latest.hpp>
#include <reel/dist/mesh.hpp>
#include <reel/dist/world.hpp>
