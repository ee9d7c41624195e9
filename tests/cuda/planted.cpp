// SPDX-License-Identifier: BSD-3-Clause
// A fault in a kernel that runs in place of an op's is found by the sanitizer of this run.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "cuda/queue.hpp"
#include "lib/table/op.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
const char* planted_module() {
  const char* const other = std::getenv("REEL_TEST_PLANTED_MODULE");
  return other ? other : REEL_PLANTED_MODULE;
}
bool has_function(const char* name) { return dlsym(RTLD_DEFAULT, name) != nullptr; }
}  // namespace

TEST_CASE("run a kernel with a fault", "[.][planted]") {
  void* const module = dlopen(planted_module(), RTLD_NOW);
  REQUIRE(module);
  const Tensor x = ones({77}).to(cuda(0));
  auto* const planted = static_cast<gpu::Kernel*>(dlsym(module, "reel_planted"));
  REQUIRE(planted);
  const auto [op, part] = OpTable::the().find_kernel("tanh");
  op->on(Device::Kind::cuda).set(part, *planted);
  tanh(x);
  synchronize(cuda(0));
  std::puts("the kernel ran");
}

TEST_CASE("the sanitizer of this run finds planted faults in a kernel of an op") {
  const bool address = has_function("__asan_poison_memory_region"),
             thread = has_function("__tsan_create_fiber");
  const auto said = [](const std::string& fault) {
    return printed_under("[planted]",
                         "export REEL_CUDA_CACHE=0 TSAN_OPTIONS=halt_on_error=1 "
                         "REEL_TEST_PLANTED=" +
                             fault + ";");
  };
  const auto check = [&](const char* fault, const char* report) {  // the report ends the program
    const std::string text = said(fault);
    INFO(fault << ":\n" << text);
    CHECK(text.find(report) != std::string::npos);
    CHECK(text.find("the kernel ran") == std::string::npos);
  };
  CHECK(said("nothing").find("the kernel ran\n") != std::string::npos);
  if (address) {
    check("behind_input", "AddressSanitizer: ");
    check("behind_local", "AddressSanitizer: ");
    check("behind_shared", "AddressSanitizer: ");
  }
  if (thread) {
    check("no_barrier", "ThreadSanitizer: data race");
    check("one_place", "ThreadSanitizer: data race");
  }
}
}  // namespace reel::tests
