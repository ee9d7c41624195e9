// SPDX-License-Identifier: BSD-3-Clause
// Executes planned graphs: passes over contiguous elements, blocks of passes, kernels.
#include <algorithm>

#include "lib/cpu/backend.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/entries.hpp"

namespace reel {
namespace {
/// A buffer for each value of a group of blocks, and the memory of its programs behind it.
struct GroupMemory {
  std::byte* blocks;
  float* tiles;  // slots and pads
};
std::size_t tiles_of(const StageProgram& program) {
  return 2 * program.operands.size() * static_cast<std::size_t>(program.machine->tile) *
         sizeof(float);
}

/// The elements of a value from `at` on; in a group of blocks, those of the current block.
std::byte* elements_of(const PlannedGraph& graph, int value, std::int64_t at, std::byte* blocks) {
  const ValuePlace& place = graph.places[value];
  if (place.kind == ValuePlace::Kind::block) return blocks + place.offset;
  const Body& body = *graph.value(value);
  return body.data + at * size_of(body.dtype);
}

/// Runs a program over the n elements from `at` on.
void run_program(const PlannedGraph& graph, const StageProgram& program, std::int64_t at,
                 std::int64_t n, const GroupMemory& memory) {
  using Operand = StageProgram::Operand;
  StageAddress operands[most_stage_operands];
  const std::size_t count = program.operands.size();
  for (std::size_t k = 0; k < count; ++k) {
    const StageProgram::Place& place = program.operands[k];
    float* const tile = memory.tiles + static_cast<std::int64_t>(count + k) * program.machine->tile;
    StageAddress& here = operands[k] = {reinterpret_cast<std::byte*>(tile), 0, place.written};
    if (place.kind == Operand::slot) continue;
    if (place.kind == Operand::memory) {
      here.at = elements_of(graph, place.number, at, memory.blocks);
      here.walk = -1;
    } else if (place.kind == Operand::number) {
      here.at = graph.value(place.number)->data;
    } else {
      program.machine->repeat(graph.value(place.number)->as<float>(), tile);
    }
  }
  program.machine->run({program.linked.data(), operands, static_cast<int>(count), n, memory.tiles});
}
/// Calls run() for several copies of a short row at once.
template <class Run>
void run_by_copies(const Spread& spread, const std::byte* row, std::int64_t at, std::int64_t n,
                   const Run& run) {
  constexpr std::int64_t most = 1024;
  alignas(64) std::byte copies[(most + 64) * sizeof(std::int64_t)];
  const std::int64_t length = spread.lengths[0], first = at % length,
                     each = std::min(n, most / length * length);
  core_ops.add.on_cpu().passes->stages->machine->spread(spread, row, 0, first + each, copies);
  for (std::int64_t done = 0; done < n; done += each)
    run(copies + first * spread.size, std::min(each, n - done));
}
/// A pass over the elements of a block, one of whose inputs is read row by row, where it is: a row,
/// or one number for each row.
void run_by_rows(const PlannedGraph& graph, const Instruction& pass, std::int64_t at,
                 std::int64_t n, std::byte* blocks) {
  const int* const values = graph.operands + pass.first;
  const Spread& spread = graph.spreads[pass.spread - 1];
  const bool in_block = graph.places[spread.value].kind == ValuePlace::Kind::block;
  const std::byte* const source = elements_of(graph, spread.value, 0, blocks);
  const auto size = [&](int value) { return size_of(graph.value(value)->dtype); };
  std::byte* to = elements_of(graph, values[pass.input_count], at, blocks);
  const std::byte* from[3] = {};
  std::int64_t sizes[3] = {};  // 0: a number, or what is read by rows
  unsigned how = pass.how, by_rows = 0;
  for (unsigned i = 0; i < pass.input_count; ++i) {
    if (pass.how >> i & 1) {
      from[i] = graph.value(values[i])->data;
    } else if (values[i] < graph.value_count) {
      from[i] = elements_of(graph, values[i], at, blocks);
      sizes[i] = size(values[i]);
    } else {
      by_rows = i;
      if (!spread.steps[0]) how |= 1u << i;
    }
  }
  const std::int64_t to_size = size(values[pass.input_count]);
  const auto run = [&](const std::byte* row, std::int64_t elements) {
    from[by_rows] = row;
    const void* const inputs[] = {from[0], from[1], from[2]};
    pass.function(elements, inputs, how, to);
    to += elements * to_size;
    for (int i = 0; i < 3; ++i) from[i] += elements * sizes[i];
  };
  if (constexpr std::int64_t short_row = 64; spread.is_one_row() && spread.lengths[0] <= short_row)
    return run_by_copies(spread, source, at, n, run);
  spread.for_each_row(in_block ? 0 : at, n,
                      [&](std::int64_t offset, std::int64_t row) { run(source + offset, row); });
}
/// Some rows of a body, in order: from the row of this element on.
Body rows_of(const Body& whole, std::byte* data, std::int64_t elements, std::int64_t rows) {
  Body some = whole;
  std::int64_t lengths[Shape::max_rank];
  const auto rank = static_cast<std::size_t>(some.rank());
  std::fill_n(lengths, rank, 1);
  const bool has_last = some.shape.data()[rank - 1] * rows == elements;
  if (has_last) lengths[rank - 1] = elements / rows;
  lengths[has_last ? rank - 2 : rank - 1] = rows;
  some.shape = Shape(std::span<const std::int64_t>(lengths, rank));
  some.data = data;
  some.elements = elements;
  set_row_major(some);
  return some;
}
}  // namespace

void CpuBackend::execute(const PlannedGraph& graph) {
  const Instruction* const all = graph.calls.data();
  for (std::size_t i = 0; i < graph.calls.size(); ++i) {
    if (!is_header(all[i])) {
      run_planned(graph, all[i]);
      continue;
    }
    if (all[i].kind == Instruction::Kind::stages)
      run_stages(graph, all[i]);
    else
      run_blocks(graph, all + i);
    i += all[i].input_count;
  }
}

/// Runs a program over all elements.
void CpuBackend::run_stages(const PlannedGraph& graph, const Instruction& stages) {
  const StageProgram& program = graph.programs[stages.first];
  const auto run = [&](std::int64_t first, std::int64_t end) {
    auto* const tiles = static_cast<float*>(kernels::scratch(tiles_of(program)));
    run_program(graph, program, first, end - first, {nullptr, tiles});
  };
  if (stages.elements < least_shared_pass) return run(0, stages.elements);
  kernels::parallel_ranges(stages.elements, std::int64_t{1} << 15, run);
}

void CpuBackend::run_planned(const PlannedGraph& graph, const Instruction& instruction) {
  const int* const values = graph.operands + instruction.first;
  const unsigned inputs = instruction.input_count, outputs = instruction.output_count;
  if (instruction.kind == Instruction::Kind::pass) {
    const void* from[4];
    for (unsigned i = 0; i < inputs; ++i)
      from[i] = values[i] < 0 ? nullptr : graph.value(values[i])->data;
    void* const to = graph.value(values[inputs])->data;
    if (instruction.elements < least_shared_pass) [[likely]]
      return instruction.function(instruction.elements, from, instruction.how, to);
    int sizes[4] = {};
    for (unsigned i = 0; i < inputs; ++i)
      if (values[i] >= 0) sizes[i] = size_of(graph.value(values[i])->dtype);
    return share_pass(*instruction.passes, instruction.function, instruction.elements, from, sizes,
                      static_cast<int>(inputs), instruction.how, to,
                      size_of(graph.value(values[inputs])->dtype));
  }
  for (unsigned i = 0; i < inputs + outputs; ++i) graph.memory[i] = graph.value(values[i]);
  run({*instruction.op,
       instruction.part,
       instruction.options,
       {graph.memory, const_cast<Body**>(graph.memory + inputs), instruction.options.data,
        static_cast<int>(inputs), static_cast<int>(outputs), instruction.how},
       cpu(),
       instruction.caller});
}

/// Runs a kernel on the rows of a block. Its operands have all elements of the rows, or one for
/// each row.
void CpuBackend::run_on_rows(const PlannedGraph& graph, const Instruction& call, std::int64_t at,
                             std::int64_t n, std::byte* blocks) {
  const int* const values = graph.operands + call.first;
  const std::int64_t columns = call.columns, rows = n / columns;
  const unsigned inputs = call.input_count, outputs = call.output_count;
  Body bodies[6];
  Body* operands[6] = {};
  for (unsigned i = 0; i < inputs + outputs; ++i) {
    const Body* const whole = graph.value(values[i]);
    if (!whole) continue;
    const bool is_long = whole->elements == call.elements;
    std::byte* const data = elements_of(graph, values[i], is_long ? at : at / columns, blocks);
    bodies[i] = rows_of(*whole, data, is_long ? n : rows, rows);
    operands[i] = &bodies[i];
  }
  run({*call.op,
       call.part,
       call.options,
       {operands, operands + inputs, call.options.data, static_cast<int>(inputs),
        static_cast<int>(outputs), 0},
       cpu(),
       call.caller});
}

/// Runs the passes, programs and kernels behind `blocks`. All of them run over one block of
/// elements, then over the next block.
void CpuBackend::run_blocks(const PlannedGraph& graph, const Instruction* blocks) {
  const Instruction *const first_call = blocks + 1, *const end_call =
                                                        first_call + blocks->input_count;
  std::size_t tiles = 0;
  for (const Instruction* call = first_call; call < end_call; ++call)
    if (call->kind == Instruction::Kind::stages)
      tiles = std::max(tiles, tiles_of(graph.programs[call->first]));
  const std::int64_t block = blocks->block;
  const StageMachine& machine = *core_ops.add.on_cpu().passes->stages->machine;
  const auto run = [&](std::int64_t first, std::int64_t end) {
    auto* const buffer =
        static_cast<std::byte*>(kernels::lasting_scratch(blocks->output_count + tiles));
    const GroupMemory memory{buffer, reinterpret_cast<float*>(buffer + blocks->output_count)};
    for (std::int64_t at = first; at < end; at += block) {
      const std::int64_t n = std::min(block, end - at);
      for (const Instruction* call = first_call; call < end_call; ++call) {
        if (call->kind == Instruction::Kind::stages) {
          run_program(graph, graph.programs[call->first], at, n, memory);
          call += call->input_count;
          continue;
        }
        const int* const values = graph.operands + call->first;
        if (call->kind == Instruction::Kind::spread) {
          const bool once = call->how;
          const bool in_block = graph.places[values[0]].kind == ValuePlace::Kind::block;
          if (!once || at == first)
            machine.spread(graph.spreads[call->spread - 1],
                           elements_of(graph, values[0], 0, buffer), in_block ? 0 : at, n,
                           elements_of(graph, values[1], at, buffer));
          continue;
        }
        if (call->kind == Instruction::Kind::kernel) {
          run_on_rows(graph, *call, at, n, buffer);
          continue;
        }
        if (call->spread) {
          run_by_rows(graph, *call, at, n, buffer);
          continue;
        }
        const std::int64_t each = call->columns ? call->columns : 1;
        const void* from[4];
        for (unsigned i = 0; i < call->input_count; ++i)
          from[i] = values[i] < 0        ? nullptr
                    : call->how >> i & 1 ? graph.value(values[i])->data
                                         : elements_of(graph, values[i], at / each, buffer);
        call->function(n / each, from, call->how,
                       elements_of(graph, values[call->input_count], at / each, buffer));
      }
    }
  };
  if (blocks->elements < least_shared_pass) return run(0, blocks->elements);
  kernels::parallel_blocks(blocks->elements, std::int64_t{1} << 15, block, run);
}
}  // namespace reel
