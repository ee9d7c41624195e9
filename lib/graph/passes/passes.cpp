// SPDX-License-Identifier: BSD-3-Clause
#include "lib/graph/passes/passes.hpp"

namespace reel::graph {
namespace {
constexpr GraphPass list[] = {{"join_equal_steps", join_equal_steps},
                              {"drop_unread_steps", drop_unread_steps},
                              {"put_assignments_last", put_assignments_last},
                              {"put_updates_last", put_updates_last}};
}  // namespace
std::span<const GraphPass> all_passes() { return list; }
}  // namespace reel::graph
