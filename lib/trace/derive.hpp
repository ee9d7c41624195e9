// SPDX-License-Identifier: BSD-3-Clause
// Makes the tree of a signature from those of two captured ones that differ in lengths only.
#pragma once
#include <memory>
#include <string>

#include "lib/trace/cache.hpp"

namespace reel::detail {
struct Derived {
  tracing::Tree tree = {};
  std::unique_ptr<tracing::Plan> plan = {};  // null where nothing could be derived
  std::string names = {};                    // of the two signatures
};
/// Each length of tensors that is a in one captured signature and b in another one must be the same
/// number here. Every number that is x there and y in the other tree becomes x + (y - x) * (here -
/// a) / (b - a), or a multiple of 1 / here, and shape rules check the result. Lock::traces must be
/// held.
Derived derive(const TraceCache& cache, const Key& key);
}  // namespace reel::detail
