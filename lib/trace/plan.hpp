// SPDX-License-Identifier: BSD-3-Clause
// A tree made ready to run: instructions in a row, and a place for every value.
#pragma once
#include <array>
#include <atomic>
#include <vector>

#include "lib/trace/tree.hpp"

namespace reel::tracing {
/// Where the elements of a value are.
struct ValuePlace {
  enum class Kind : std::uint8_t {
    given,    // of an argument, a Variable or a constant: somewhere else
    scratch,  // at an offset of the frame's memory
    fresh,    // in a tensor of its own, as a result that outlives the call
    block,    // at an offset of the buffer that passes share which run block by block
    variable  // in the Variable's buffer, or a new one for it
  };
  Kind kind = Kind::given;
  std::size_t offset = 0;
};

struct Instruction {
  enum class Kind : std::uint8_t {
    allocate,  // a fresh value
    blocks,    // the passes that follow, over a block of neighbours at a time
    view,      // of something that is not in the frame's memory
    pass,      // a pass of a pointwise op over neighbours
    kernel,    // a kernel as it is
    call,      // a kernel by way of the gate, which brings inputs into order
    random,
    update,
    numbers,  // before the first update in place: a number that updates take may fail them
    user      // a user's function or kernel
  };
  Kind kind;
  bool settled = false;                        // nothing that follows can fail or ask
  Part part = Part::value;                     // of its op
  unsigned input_count = 0, output_count = 0;  // of blocks: passes; bytes of buffer
  unsigned first = 0;  // of its values: inputs, then outputs; then the Variables of an update: v,
                       // or ~v if it may not be written in place
  unsigned how = 0;    // of a pass, as it takes it; the outputs that a kernel adds to
  Op* op = nullptr;
  Kernel kernel = nullptr;  // null for a fused gradient of another device than the CPU
  Tile tile = nullptr;
  OptionsView options = {};
  std::int64_t elements = 0;
  Caller site = {};
};

struct Frame;

/// How many elements of a value the passes of Kind::blocks take at a time: several fit the first
/// cache.
inline constexpr std::int64_t block_elements = 2048;

struct Plan {
  struct PlannedSegment {
    unsigned first = 0, end = 0;  // instructions
    int asked = -1;
    HostRead read = HostRead::values;
    std::vector<Branch> branches;
    std::shared_ptr<Ending> ending;
  };
  explicit Plan(const Tree& tree);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// A frame that nobody else uses.
  Frame* take_frame();
  void give_back(Frame* frame);
  /// There is a newer plan: frames that nobody uses go, and others when they are given back.
  void retire();

  Tree tree;
  std::vector<ValuePlace> places;    // of the tree's values
  std::vector<int> variable_values;  // what each Variable holds when a call starts; -1 if unused
  std::vector<int> argument_values;
  std::vector<Instruction> instructions;
  std::vector<int> operands;
  std::vector<PlannedSegment> segments;
  Device device;  // where scratch memory is
  std::size_t scratch_bytes = 0;
  std::size_t most_operands = 0;  // of an instruction

 private:
  std::array<std::atomic<Frame*>, 4> frames_ = {};
  std::atomic<bool> retired_ = false;
};
}  // namespace reel::tracing
