// SPDX-License-Identifier: BSD-3-Clause
// The choice of an instruction set, made once in a process.
#pragma once
#include <span>
#include <string>

#include "lib/cpu/kernels.hpp"

namespace reel::kernels {
struct InstructionSet {
  const char* name;
  bool (*supported)();  // by this machine
  Families families;
  /// Whether the machine is faster with this set than with the set before; null: always.
  bool (*pays)() = nullptr;
};
/// The instruction sets that were compiled, the widest last.
std::span<const InstructionSet> instruction_sets();

/// "sse4", "avx2", ...: the widest that pays on this machine, or the one that the environment
/// variable REEL_ISA names. Null if this machine has no such set.
const char* isa_name();
/// The kernels of this set. If there is none, the result is null, and `error` gets the reason.
Families active_families(std::string* error);
}  // namespace reel::kernels
