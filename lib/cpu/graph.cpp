// SPDX-License-Identifier: BSD-3-Clause
// Executes planned graphs: passes over contiguous elements, blocks of passes, kernels.
#include <algorithm>

#include "lib/cpu/backend.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"

namespace reel {
void CpuBackend::execute(const PlannedGraph& graph) {
  const Instruction* const all = graph.calls.data();
  for (std::size_t i = 0; i < graph.calls.size(); ++i) {
    if (all[i].kind != Instruction::Kind::blocks) {
      run_planned(graph, all[i]);
      continue;
    }
    run_blocks(graph, all + i);
    i += all[i].input_count;
  }
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
      return instruction.tile(instruction.elements, from, instruction.how, to);
    int sizes[4] = {};
    for (unsigned i = 0; i < inputs; ++i)
      if (values[i] >= 0) sizes[i] = size_of(graph.value(values[i])->dtype);
    return share_pass(*instruction.op->on_cpu().tiles, instruction.tile, instruction.elements, from,
                      sizes, static_cast<int>(inputs), instruction.how, to,
                      size_of(graph.value(values[inputs])->dtype));
  }
  for (unsigned i = 0; i < inputs + outputs; ++i) graph.memory[i] = graph.value(values[i]);
  run({*instruction.op,
       instruction.part,
       instruction.options,
       {graph.memory, const_cast<Body**>(graph.memory + inputs), instruction.options.data,
        static_cast<int>(inputs), static_cast<int>(outputs), instruction.how},
       cpu(),
       instruction.site});
}

/// Runs the passes behind `blocks`. All of them run over one block of elements, then over the next
/// block.
void CpuBackend::run_blocks(const PlannedGraph& graph, const Instruction* blocks) {
  const Instruction *const first_pass = blocks + 1, *const end_pass =
                                                        first_pass + blocks->input_count;
  const auto run = [&](std::int64_t first, std::int64_t end) {
    auto* const buffer = static_cast<std::byte*>(kernels::scratch(blocks->output_count));
    for (std::int64_t at = first; at < end; at += block_elements) {
      const std::int64_t n = std::min(block_elements, end - at);
      for (const Instruction* pass = first_pass; pass < end_pass; ++pass) {
        const int* const values = graph.operands + pass->first;
        const auto place_of = [&](int value) -> std::byte* {
          const ValuePlace& place = graph.places[value];
          if (place.kind == ValuePlace::Kind::block) return buffer + place.offset;
          const Body& body = *graph.value(value);
          return body.data + at * size_of(body.dtype);
        };
        const void* from[4];
        for (unsigned i = 0; i < pass->input_count; ++i)
          from[i] = values[i] < 0        ? nullptr
                    : pass->how >> i & 1 ? graph.value(values[i])->data
                                         : place_of(values[i]);
        pass->tile(n, from, pass->how, place_of(values[pass->input_count]));
      }
    }
  };
  if (blocks->elements < least_shared_pass) return run(0, blocks->elements);
  kernels::parallel_ranges(blocks->elements, std::int64_t{1} << 15, run);
}
}  // namespace reel
