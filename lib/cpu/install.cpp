// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/install.hpp"

#include <cstdlib>
#include <string_view>

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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
#ifdef REEL_HAVE_bf16
REEL_DECLARE(bf16)
#endif
#ifdef REEL_HAVE_amx
REEL_DECLARE(amx)
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
#ifdef REEL_HAVE_avx512
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
/// Leaf 7 of cpuid, some of whose bits clang 14 cannot ask for by name.
struct Leaf7 {
  unsigned a = 0, b = 0, c = 0, d = 0;

  explicit Leaf7(unsigned part) { __get_cpuid_count(7, part, &a, &b, &c, &d); }
};
#endif
#ifdef REEL_HAVE_bf16
bool has_bf16() { return has_avx512() && Leaf7(1).a >> 5 & 1; }
/// Intel's processors since 2023, which have float16 too, take four times as long for a product of
/// pairs as for one of float32. AMD's, and Intel's Cooper Lake, take as long.
bool has_fast_bf16() { return __builtin_cpu_is("amd") || !(Leaf7(0).d >> 23 & 1); }
#endif
#ifdef REEL_HAVE_amx
/// Whether the system would give the registers of AMX too. The first product asks for them.
bool has_amx() {
  constexpr unsigned bf16 = 1u << 22, tiles = 1u << 24;
  constexpr long get_supported = 0x1021, registers = 18;  // ARCH_GET_XCOMP_SUPP, XTILEDATA
  std::uint64_t has = 0;
  return has_bf16() && (Leaf7(0).d & (bf16 | tiles)) == (bf16 | tiles) &&
         syscall(SYS_arch_prctl, get_supported, &has) == 0 && has >> registers & 1;
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
    {"avx512", has_avx512, avx512::families},
#endif
#ifdef REEL_HAVE_bf16
    {"bf16", has_bf16, bf16::families, has_fast_bf16},
#endif
#ifdef REEL_HAVE_amx
    {"amx", has_amx, amx::families},
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
    const bool any = !asked || !*asked,
               wanted = any ? !set.pays || set.pays() : asked == std::string_view(set.name);
    if (wanted) choice.set = &set;
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
