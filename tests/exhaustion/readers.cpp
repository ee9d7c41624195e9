// SPDX-License-Identifier: BSD-3-Clause
// R16: memory that ends inside of zlib, and while a tensor takes over the memory of others.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reel/reel.hpp>
#include <reel/share.hpp>

#include "exhaustion/allocations.hpp"
#include "io/folder.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
TEST_CASE("a deflated file is read whole, or memory is said to have ended") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  io::save_npz(path, {{"x", arange(0, 100)}}, {.compress = true});
  const auto sum_of_file = [&] { return sum(io::load_npz(path)[0].second).item<std::int64_t>(); };
  for (const Failing failing : {Failing::one, Failing::all_from})
    for (std::int64_t k = 0;; ++k) {
      trim_memory();
      std::int64_t total = 0;
      bool ended = false, other = false;
      {
        const FailingAllocations scope(k, failing);
        try {
          total = sum_of_file();
        } catch (const MemoryError&) {
          ended = true;
        } catch (const std::exception&) {
          other = true;
        }
      }
      INFO("allocation " << k);
      REQUIRE_FALSE(other);
      REQUIRE((ended || total == 4950));
      if (!FailingAllocations::failed()) break;
    }
}

TEST_CASE("a deflated file leaves no memory behind") {
  if (sanitized) SKIP("the sanitizer finds leaks itself");
  const Folder folder;
  const std::string path = folder.file("x.npz");
  io::save_npz(path, {{"x", arange(0, 100)}, {"y", ones({3})}}, {.compress = true});
  io::load_npz(path);
  trim_memory();
  const std::int64_t before = live_allocations();
  for (int i = 0; i < 10; ++i) io::load_npz(path);
  trim_memory();
  CHECK(live_allocations() - before <= 0);
}

TEST_CASE("an owner of shared memory is destroyed once, also if memory ends") {
  int ends = 0;
  for (const Failing failing : {Failing::one, Failing::all_from})
    for (std::int64_t k = 0;; ++k) {
      const auto mine = std::make_shared<std::vector<float>>(6, 1.5f);
      trim_memory();
      bool ended = false;
      {
        const FailingAllocations scope(k, failing);
        try {
          const Tensor x = share(std::span<const float>(*mine), {2, 3}, mine);
        } catch (const MemoryError&) {
          ended = true;
        }
      }
      ends += ended;
      INFO("allocation " << k);
      REQUIRE(mine.use_count() == 1);
      if (!FailingAllocations::failed()) break;
    }
  CHECK(ends > (sanitized ? 1 : 2));  // a sanitizer keeps its own malloc
}
}  // namespace reel::tests
