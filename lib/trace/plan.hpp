// SPDX-License-Identifier: BSD-3-Clause
// An executable form of a tree of traces: a list of instructions and a memory location for every
// value.
#pragma once
#include <array>
#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "lib/graph/passes/passes.hpp"
#include "lib/table/planned_graph.hpp"
#include "lib/trace/stages.hpp"
#include "lib/trace/tree.hpp"

namespace reel::tracing {
struct Frame;
struct Loop;
struct Plan;
/// The plans of a loop's trips: one, or for a gradient one for each path of the other loop's trips.
struct PlannedLoop {
  const Loop* loop;
  std::vector<std::pair<int, std::unique_ptr<Plan>>> trips;
  std::vector<char> kept;   // whether a result of a trip may be this argument, or a view of it
  std::vector<char> owned;  // whether a trip may write into this argument
};

/// A frame with more scratch memory than this returns it to the cache of blocks after each call.
inline constexpr std::size_t most_kept_bytes = 256 << 10;

/// The bytes of a value with so many elements in the buffer of a group. Its blocks have `block` of
/// the `all` elements of the longest values.
inline std::size_t bytes_in_block(std::int64_t elements, int size, std::int64_t block,
                                  std::int64_t all) {
  constexpr std::size_t alignment = 64;
  const auto bytes = static_cast<std::size_t>((block * elements + all - 1) / all * size);
  return (bytes + alignment - 1) / alignment * alignment;
}

struct Plan {
  struct PlannedSegment {
    unsigned first = 0, end = 0;  // instructions
    unsigned gradient = ~0u;      // the first one of the gradient; `end` if there is none
    int asked = -1;
    HostRead read = HostRead::values;
    std::vector<graph::Branch> branches;
    std::shared_ptr<Ending> ending;
  };
  /// `owned` arguments belong to the caller of a replay, which may write into them.
  explicit Plan(const Tree& tree, const std::vector<char>& owned = {});
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// A frame that is not in use.
  Frame* take_frame();
  void give_back(Frame* frame);
  /// Call it when there is a newer plan, while no mutex is locked. Frees unused frames and what the
  /// backend keeps now, and the other frames when they are given back.
  void retire();
  /// Waits for the devices that a replay waits for, and throws the errors of earlier ops. During
  /// the replay such an error would look like an error of the function.
  void wait_for_earlier() const;

  Tree tree;
  std::vector<ValuePlace> places;    // one for each value of the tree, and one for each spread
  std::vector<int> variable_values;  // what each Variable holds when a call starts; -1 if unused
  std::vector<int> argument_values;
  std::vector<Instruction> instructions;
  std::vector<int> operands;
  std::vector<PlannedSegment> segments;
  std::vector<std::unique_ptr<PlannedLoop>> loops;
  std::vector<StageProgram> programs;
  std::vector<Spread> spreads;
  Device device;              // the device of the scratch memory
  std::vector<Device> waits;  // the devices that a replay waits for
  std::size_t scratch_bytes = 0;
  std::size_t most_operands = 0;   // of an instruction
  bool plans_updates = false;      // some updates are among planned calls
  bool plans_draws = false;        // and so are some random numbers
  const std::uint64_t number;      // of this plan alone
  std::atomic<int> suspended = 0;  // replays that wait for a gradient
  /// Replays that an observer watched.
  struct GroupTime {
    std::atomic<std::int64_t> runs = 0, nanoseconds = 0;
  };
  std::vector<GroupTime> group_times;  // of each header among the instructions, in their order

 private:
  void find_waits();
  std::array<std::atomic<Frame*>, 4> frames_ = {};
  std::atomic<bool> retired_ = false;
};

/// Whether the environment has REEL_VERIFY.
extern const bool verifies;
/// Runs passes over a graph with so many Variables. To `verify`, throws a TraceError that names the
/// first pass after which the graph is wrong.
void run_passes(graph::Graph& graph, std::size_t variables,
                std::span<const graph::GraphPass> passes, bool verify);

/// What is wrong in a plan: "add: %7 is read where no instruction has made it". An instruction
/// reads what a call starts with, and what instructions before it on the same path have made and
/// what none since has overwritten. Empty if nothing is wrong.
std::string fault_of(const Plan& plan);
}  // namespace reel::tracing
