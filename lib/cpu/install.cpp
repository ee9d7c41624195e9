// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/install.hpp"

#include <cstdlib>
#include <string_view>

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace reel::kernels {
#define REEL_DECLARE(isa)                \
  namespace isa {                        \
  extern const Family* const families[]; \
  }
#ifdef REEL_HAVE_sse4
REEL_DECLARE(sse4)
#endif
#ifdef REEL_HAVE_avx2
REEL_DECLARE(avx2)
#endif
#ifdef REEL_HAVE_avx512
REEL_DECLARE(avx512)
#endif
#ifdef REEL_HAVE_neon
REEL_DECLARE(neon)
#endif
#undef REEL_DECLARE

namespace {
#ifdef REEL_HAVE_avx2
/// Conversions of float16, which clang 14 cannot ask for by name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif
constexpr InstructionSet compiled[] = {
#ifdef REEL_HAVE_sse4
    {"sse4", [] { return __builtin_cpu_supports("sse4.2") != 0; }, sse4::families},
#endif
#ifdef REEL_HAVE_avx2
    {"avx2",
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); },
     avx2::families},
#endif
#ifdef REEL_HAVE_avx512
    {"avx512",
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
     },
     avx512::families},
#endif
#ifdef REEL_HAVE_neon
    {"neon", [] { return true; }, neon::families},
#endif
};

struct Choice {
  const InstructionSet* set = nullptr;
  std::string error;
};

Choice choose() {
#ifdef __x86_64__
  __builtin_cpu_init();
#endif
  const char* const asked = std::getenv("REEL_ISA");
  Choice choice;
  std::string known;
  for (const InstructionSet& set : compiled) {
    if (!set.supported()) continue;
    known.append(known.empty() ? "" : ", ").append(set.name);
    if (!asked || !*asked || std::string_view(asked) == set.name) choice.set = &set;
  }
  if (choice.set) return choice;
  if (asked && *asked && !known.empty())
    choice.error =
        "REEL_ISA: expected one of " + known + ", got \"" + std::string(asked).substr(0, 40) + "\"";
  else
    choice.error = "this machine has none of the instruction sets that reel was compiled for";
  return choice;
}
const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}
}  // namespace

std::span<const InstructionSet> instruction_sets() { return compiled; }

const char* isa_name() { return choice().set ? choice().set->name : nullptr; }

Families active_families(std::string* error) {
  if (choice().set) return choice().set->families;
  if (error) *error = choice().error;
  return nullptr;
}
}  // namespace reel::kernels
