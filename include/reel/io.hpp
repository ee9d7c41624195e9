// SPDX-License-Identifier: BSD-3-Clause
// Tensors and models in files.
#pragma once
#include <reel/io/formats.hpp>
