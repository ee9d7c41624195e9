// SPDX-License-Identifier: BSD-3-Clause
// A traced function as a list of instructions. Backends execute the calls of kernels.
#pragma once
#include <span>
#include <vector>

#include "lib/table/op.hpp"
#include "lib/table/options/random.hpp"
#include "lib/table/stages.hpp"

namespace reel {
/// Where the elements of a value are.
struct ValuePlace {
  enum class Kind : std::uint8_t {
    given,    // of an argument, a Variable or a constant: somewhere else
    scratch,  // at an offset of the frame's memory
    fresh,    // in a tensor of its own, as a result that outlives the call
    block,    // at an offset of the buffer that passes share which run block by block
    result,   // in the tensor of a result that a later pass of the group computes
    stage,    // in a register or a slot of a program of stages
    variable  // in the Variable's buffer, or a new one for it
  };
  Kind kind = Kind::given;
  std::size_t offset = 0;
};

struct Instruction {
  enum class Kind : std::uint8_t {
    // Of backends:
    blocks,  // the instructions that follow, over a block of contiguous elements at a time
    stages,  // the passes that follow, as one program of stages
    spread,  // of a group of blocks: copies a value that its passes read
    pass,    // a pass of a pointwise op over contiguous elements
    kernel,  // a kernel as it is
    // Of the replay:
    elsewhere,  // a kernel on another device than the plan's, or a copy from there
    allocate,   // a fresh value; of an input, a Variable's value, it may take the memory
    view,       // of something that is not in the frame's memory
    random,     // random numbers; a backend executes them, unless it is the CPU's
    update,
    numbers,  // before the first update in place: a number that updates take may fail them
    user,     // a user's function or kernel
    loop      // whose trips have a plan of their own
  };
  Kind kind;
  bool rest_cannot_fail = false;               // nothing that follows can fail or ask
  bool shares = false;                         // an update: the Variable shares the fresh input 1
  Part part = Part::value;                     // of its op
  unsigned input_count = 0, output_count = 0;  // of blocks: instructions that follow; bytes of
                                               // buffer; of stages: passes that follow; 0
  unsigned block = 0;    // of blocks: how many elements the passes process at a time
  unsigned columns = 0;  // of blocks: the elements of a row, if kernels among them compute rows; of
                         // such a kernel, and of a pass over the results of a reduction
  unsigned spread = 0;   // of a spread, and of a pass that reads one row by row: its number + 1
  unsigned first = 0;    // of its values: inputs, then outputs; then the Variables of an update: v,
                         // or ~v if it may not be written in place; of stages: their program
  unsigned how = 0;      // of a pass, as it takes it; the outputs that a kernel adds to; of a
                         // spread: 1 if one copy serves all blocks
  unsigned planned = 0;  // so many instructions from here on are a backend's to execute at once
  Op* op = nullptr;
  const Passes* passes = nullptr;  // of its op
  PassFunction function = nullptr;
  const void* loop = nullptr;
  OptionsView options = {};
  std::int64_t elements = 0;  // of the result of a pass, of random numbers, and of all rows
  Caller caller = {};
};

/// Whether an instruction says how those that follow it run.
inline bool is_header(const Instruction& instruction) {
  return instruction.kind <= Instruction::Kind::stages;
}

/// The most elements of a value that the passes of Kind::blocks process at a time. Several such
/// blocks fit into the L1 cache. Beside kernels that compute rows, blocks are longer, and several
/// fit into the L2 cache, as a call of a kernel takes longer than that of a pass.
inline constexpr std::int64_t block_elements = 2048, row_block_elements = 32768;

/// A program of stages, of a plan.
struct StageProgram {
  enum class Operand : std::uint8_t {
    memory,  // of a value
    number,  // the same of a single element
    slot,    // a tile between two stages
    filled   // a tile that is filled with a value's single element
  };
  struct Place {
    Operand kind;
    int number;  // of the value, or of the slot
    bool written = false;
    friend bool operator==(const Place&, const Place&) = default;
  };
  const StageMachine* machine = nullptr;
  std::vector<Stage> stages;
  std::vector<Place> operands;
  std::vector<LinkedStage> linked;
};

/// Calls that follow each other. A value is a number in `operands`; -1 stands for none. The copies
/// of spreads have places, too: their numbers follow those of the values.
struct PlannedGraph {
  std::span<const Instruction> calls;
  const int* operands;       // of all instructions
  Body* const* values;       // their headers
  const ValuePlace* places;  // of the values
  const Body** memory;       // for the operands of one call
  Device device;
  const StageProgram* programs;
  const Spread* spreads;
  int value_count;
  std::uint64_t plan;                    // a number that no other plan of the process has
  std::uint64_t seed = 0, position = 0;  // of the first random number of the calls

  Body* value(int number) const { return number < 0 ? nullptr : values[number]; }
};

/// How many blocks of random numbers a call draws.
inline std::uint64_t blocks_of(const Instruction& call) {
  if (call.kind != Instruction::Kind::random) return 0;
  return static_cast<const RandomOptions*>(call.options.data)->blocks(call.elements);
}
inline std::uint64_t blocks_of(std::span<const Instruction> calls) {
  std::uint64_t blocks = 0;
  for (const Instruction& call : calls) blocks += blocks_of(call);
  return blocks;
}
}  // namespace reel
