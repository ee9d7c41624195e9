// SPDX-License-Identifier: BSD-3-Clause
// Programs of stages: chains of pointwise ops of float32 that compute a few vectors at a time, in
// registers. Included by the units that are compiled for each instruction set: no std functions
// with bodies here.
#pragma once
#include <cstddef>
#include <cstdint>

namespace reel {
struct StageMachine;

/// What a stage does with the accumulator (a), with elements in memory (m), and with single numbers
/// in memory (n). The result is the new accumulator.
enum class StageForm : std::uint8_t {
  load,
  store,       // the accumulator stays
  a,           // a formula of one input
  m,           //
  am,          // a formula of two inputs
  ma,          //
  an,          //
  na,          //
  mm,          //
  mn,          //
  nm,          //
  gradient_0,  // dy is the accumulator; x, y and the output, as needed, are in memory
  gradient_1,  //
};

/// The stages of an op for one instruction set. They have the bits of the op's passes.
struct Stages {
  const StageMachine* machine;
  bool value;        // whether there are stages for the value of the op
  bool gradient[2];  // and for the gradients of its inputs
};

/// A stage of a program. `at` are the numbers of its operands: inputs, or the place of a store.
struct Stage {
  StageForm form;
  const Stages* stages = nullptr;  // of its op; null for load and store
  std::uint16_t at[3] = {};
};
/// A Stage with the function of the instruction set.
struct LinkedStage {
  void (*run)();
  std::uint16_t at[4];
};

/// Where an operand is. `walk` has all bits set if the operand has one element for each element of
/// the result, and is 0 if it is a single number or one tile.
struct StageAddress {
  std::byte* at;
  std::int64_t walk;
  bool written;
};
inline constexpr int most_stage_operands = 256;

/// A run of a program over n contiguous elements.
struct StageRun {
  const LinkedStage* program;
  const StageAddress* operands;
  int operand_count;
  std::int64_t n;
  float* pads;  // a tile for each operand, aligned to 64
};

/// How a group reads a value that is not laid out as its results are: one that is broadcast, or a
/// part of another value.
struct Spread {
  static constexpr int most_axes = 8;
  int value;
  int size;      // bytes of an element
  int rank = 0;  // axes of the results, merged where one step works for several
  std::int64_t lengths[most_axes] = {};  // the last axis of the results first
  std::int64_t steps[most_axes] = {};    // bytes
  std::int64_t period = 1;               // the elements repeat after so many
  friend bool operator==(const Spread&, const Spread&) = default;

  /// Whether the results have one row again and again.
  bool is_one_row() const {
    return steps[0] == size && (rank == 1 || (rank == 2 && steps[1] == 0));
  }
  /// Calls f(offset, elements) for the rows, or parts of rows, of the results [first, first + n).
  /// The offset of a part in the value is in bytes.
  template <class F>
  void for_each_row(std::int64_t first, std::int64_t n, const F& f) const {
    std::int64_t position[most_axes] = {}, offset = 0;
    for (int axis = 0; axis < rank; first /= lengths[axis++]) {
      position[axis] = first % lengths[axis];
      offset += position[axis] * steps[axis];
    }
    while (n > 0) {
      const std::int64_t row = lengths[0] - position[0], now = row < n ? row : n;
      f(offset, now);
      n -= now;
      offset -= position[0] * steps[0];
      position[0] = 0;
      for (int axis = 1; axis < rank; ++axis) {
        offset += steps[axis];
        if (++position[axis] < lengths[axis]) break;
        offset -= lengths[axis] * steps[axis];
        position[axis] = 0;
      }
    }
  }
};

/// What runs programs.
struct StageMachine {
  std::int64_t tile;  // how many elements a stage computes
  /// Writes count + 1 linked stages.
  void (*link)(const Stage* stages, std::size_t count, LinkedStage* to);
  void (*run)(const StageRun& run);
  /// Fills a tile with a number.
  void (*repeat)(const float* number, float* tile);
  /// Copies the elements for the results [first, first + n).
  void (*spread)(const Spread& spread, const std::byte* from, std::int64_t first, std::int64_t n,
                 std::byte* to);
};
}  // namespace reel
