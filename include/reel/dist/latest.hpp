// SPDX-License-Identifier: BSD-3-Clause
// Ranks that go on together from the state of one of them.
#pragma once  // defined in lib/dist
#include <reel/dist/world.hpp>
#include <reel/io/checkpoints.hpp>

namespace reel::dist {
namespace detail {
REEL_API void take_latest(const World& world, const io::StepInto& step, io::detail::State state);
}
/// Gives all ranks the parts and the step of the rank with the most steps; of several such ranks,
/// of the first. The parts are those of io::Checkpoints: models, optimizers, generators, numbers,
/// pipelines. All ranks call it with parts of the same names and shapes. It needs memory for three
/// more copies of the parts. If it throws, a rank has its own parts or the latest ones, never some
/// of each.
///
/// After World::shrink(), a rank may have taken a step that others have not. Make the DataParallel
/// afterwards: it gives all ranks the Variables of rank 0.
///
///     world = world.shrink();
///     dist::take_latest(world, step, model, adam);
///     dist::DataParallel replicas(world, adam);
///
/// Throws DistError, see World, and IoError if the parts of two ranks differ.
template <class... Parts>
void take_latest(const World& world, io::StepInto step, Parts&&... parts) try {
  detail::take_latest(world, step, io::detail::state_of(step.caller, parts...));
} catch (const std::bad_alloc&) {
  fail_memory(step.caller, "take_latest");
}
}  // namespace reel::dist
