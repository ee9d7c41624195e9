// SPDX-License-Identifier: BSD-3-Clause
// Ranks that go on without one that has died.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "lib/dist/state.hpp"

namespace reel::dist {
namespace detail {
void Lane::drain() {
  const double end = seconds_now() + world_.timeout;
  for (Pause pause; !requests_.empty(); pause()) {
    bool done = false;
    if (engine_.test(channel_, requests_.front(), &done) || done)
      requests_.erase(requests_.begin());
    else if (seconds_now() > end)
      world_.end_all("MPI does not let go of the memory of a collective");  // MPI may still write
                                                                            // to the buffers
  }
}
std::vector<int> Lane::dead() const {
  constexpr double news = 1;  // seconds until a rank has heard of a death
  std::vector<int> ranks(static_cast<std::size_t>(world_.engine.ranks));
  const double end = seconds_now() + news;
  for (Pause pause;; pause()) {
    const int count =
        world_.survival()->dead(world_.engine.self, ranks.data(), world_.engine.ranks);
    if (count == 0 && seconds_now() < end) continue;
    ranks.resize(static_cast<std::size_t>(count));
    return ranks;
  }
}
bool Lane::agree(bool yes, bool complete, const CallName& name, Caller caller) {
  enter(name, caller);
  const bool all = world_.survival()->agree(world_.engine.self, yes, complete);
  leave();
  return all;
}
void Lane::barrier(Caller caller) {
  const CallName name{"barrier"};
  require_usable(name, caller);
  if (agree(true, true, name, caller)) return;
  world_.disagreed = true;
  fail_engine("not all ranks agree", name, caller);
}
EngineTable Lane::shrink(const CallName& name, Caller caller) {
  EngineTable part = world_.engine;
  enter(name, caller);
  const char* const why = world_.survival()->shrink(world_.engine.self, &part);
  leave();
  if (why) fail_engine(why, name, caller);
  return part;
}
}  // namespace detail

World World::shrink(Caller caller) const try {
  const CallerScope here(caller, "shrink");
  detail::WorldState& old = *state_;
  if (!old.survives || !old.has_failed() || old.shrunk)
    fail<DistError>(caller, "shrink", "world",
                    "one with .survive, in which a collective has failed",
                    old.shrunk     ? "one that was shrunk before"
                    : old.survives ? "one in which none has"
                                   : "one without it");
  const detail::CallName name{"shrink"};
  detail::Lane& main = *old.main;
  // Ranks in barrier() learn that this one has not come. Ranks that know do not ask again.
  if (!std::exchange(old.disagreed, true)) main.agree(false, false, name, caller);
  for (;;) {
    const EngineTable part = main.shrink(name, caller);
    const WorldOptions options{.timeout = old.timeout, .survive = true};
    World made(new detail::WorldState(
        part, std::make_shared<Board>(part.ranks, old.path_of_part(old.splits++, 0)), options));
    bool opened = true;
    try {
      made.state_->main = new detail::Lane(*made.state_, caller);
    } catch (const DistError&) {
      opened = false;
    }
    old.shrunk = main.agree(opened, false, name, caller);
    if (old.shrunk) return made;
    made.state_->board.remove();
    made.state_->shrunk = true;  // another rank has died meanwhile
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "shrink");
}
}  // namespace reel::dist
