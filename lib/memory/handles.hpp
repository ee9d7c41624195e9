// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/body/access.hpp"

namespace reel {
/// Drops a reference. The last one deletes the cell.
void release(Cell* cell);
}  // namespace reel
