// SPDX-License-Identifier: BSD-3-Clause
// Memory of tensors: how much each takes, what the caches keep, and what goes back to the system.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "lib/flow/context.hpp"
#include "lib/tensor/raw.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
constexpr std::int64_t header = 192, page = 4 << 10, list = 256 << 10, huge_page = 2 << 20;

/// The size of the block for this many bytes of elements, by the documented rule.
std::int64_t block_of(std::int64_t bytes) {
  if (header + bytes <= 130 * 64) return (header + bytes + 63) / 64 * 64;
  std::int64_t best = 0;
  for (std::int64_t unit = 512; unit < bytes; unit *= 2)
    for (std::int64_t units = 9; units <= 16; ++units)
      if (units * unit >= bytes && (!best || units * unit < best)) best = units * unit;
  return header + (best ? best : 16 * 512);
}
std::int64_t cached() { return memory_statistics().cached_bytes; }
std::uintptr_t address(const Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(Access::body(x)->data);
}
Tensor bytes(std::int64_t count) {
  Context& context = Context::here();
  return Access::adopt(allocate(context, DType::uint8, Shape({count}), count));
}
std::vector<Tensor> many(std::int64_t count, std::int64_t size) {
  std::vector<Tensor> made;
  for (std::int64_t i = 0; i < count; ++i) made.push_back(bytes(size));
  return made;
}
/// The flags of the mapping that holds an address.
std::string mapping_flags(std::uintptr_t wanted) {
  std::ifstream file("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long long first = 0, end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &end) == 2)
      here = first <= wanted && wanted < end;
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return {};
}
}  // namespace

TEST_CASE("memory that readers fill: none if there is too little, and none behind an empty view",
          "[cpu]") {
  const RawTensor none = raw_tensor(DType::float64, {std::int64_t{1} << 50});
  CHECK_FALSE(none.tensor.defined());
  CHECK(none.elements == nullptr);
  const Tensor x = ones({4});
  const std::int64_t steps[] = {1};
  CHECK(address(strided_view(x, {2}, steps, 2)) == address(x) + 8);
  CHECK(address(strided_view(x, {0}, steps, 1 << 20)) == address(x));
}

TEST_CASE("a tensor takes the least block of the sizes that there are") {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 0; size < 700; ++size) sizes.push_back(size);
  for (std::int64_t unit = 512; unit <= (1 << 18); unit *= 2)
    for (std::int64_t units = 8; units <= 16; ++units)
      for (const std::int64_t off : {-129, -128, -65, -64, -63, -1, 0, 1, 63, 64, 65})
        sizes.push_back(units * unit + off);
  for (const std::int64_t size : sizes) {
    const MemoryStatistics before = memory_statistics();
    {
      const Tensor x = bytes(size);
      const MemoryStatistics now = memory_statistics();
      INFO(size);
      CHECK(now.live_tensors == before.live_tensors + 1);
      CHECK(now.live_bytes == before.live_bytes + block_of(size));
      CHECK(address(x) % 64 == 0);
      const Tensor view = x(range(0, 0));  // it has a header, and the elements of x
      CHECK(memory_statistics().live_bytes == now.live_bytes + header);
    }
    CHECK(memory_statistics().live_tensors == before.live_tensors);
    CHECK(memory_statistics().live_bytes == before.live_bytes);
  }
}

TEST_CASE("a view keeps the memory of its base, and no other view") {
  const std::int64_t tensors = memory_statistics().live_tensors;
  Tensor last;
  {
    const Tensor x = arange(0.0f, 6.0f);
    const Tensor first = x(range(1, 6)), second = first(range(1, 5));
    last = second(range(1, 3));
    CHECK(memory_statistics().live_tensors == tensors + 4);
  }
  CHECK(memory_statistics().live_tensors == tensors + 2);
  CHECK(last.to_vector<float>() == std::vector<float>{3, 4});
  last = Tensor();
  CHECK(memory_statistics().live_tensors == tensors);
}

TEST_CASE("tensors in memory that was used before are on the processor") {
  trim_memory();
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> blocks;
    for (int i = 0; i < 400; ++i) {
      blocks.push_back(std::malloc(static_cast<std::size_t>(200 + 40 * (i % 9))));
      std::memset(blocks.back(), 0x7e, static_cast<std::size_t>(200 + 40 * (i % 9)));
    }
    for (void* block : blocks) std::free(block);
    std::vector<Tensor> made = many(200, 8);
    for (int i = 0; i < 200; ++i) made.push_back(made[static_cast<std::size_t>(i)](range(0, 3)));
    for (const Tensor& x : made) CHECK(x.device() == Device());
    made.clear();
    trim_memory();
  }
}

TEST_CASE("blocks do not overlap") {
  std::vector<Tensor> made;
  for (const std::int64_t size :
       {1, 63, 64, 65, 8'128, 8'129, 8'192, 9'216, 9'217, 131'072, 262'145})
    for (int i = 0; i < 3; ++i) {
      made.push_back(bytes(size));
      std::memset(Access::body(made.back())->data, static_cast<int>(made.size()),
                  static_cast<std::size_t>(size));
    }
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Body& x = *Access::body(made[i]);
    std::int64_t wrong = 0;
    for (std::int64_t k = 0; k < x.elements; ++k)
      wrong += x.data[k] != static_cast<std::byte>(i + 1);
    CHECK(wrong == 0);
    CHECK(x.elements == x.shape[0]);
  }
}

TEST_CASE("a thread keeps up to 256 KiB of a size, and gives half to the cache of all threads") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  // Only headers, the largest small size, the smallest large size, others, and the largest size
  // that is kept.
  for (const std::int64_t size : {0, 64, 8'128, 8'192, 10'000, 131'072}) {
    trim_memory();
    REQUIRE(cached() == 0);
    const bool large = header + size > 130 * 64;
    const std::int64_t block = block_of(size) - (large ? header : 0), half = list / block / 2 + 1;
    const std::int64_t count = 3 * list / block + 3;
    INFO(size << ": " << count << " blocks of " << block);
    const std::int64_t asked = memory_statistics().large_blocks;
    std::vector<Tensor> made = many(count, size);
    CHECK(memory_statistics().large_blocks == asked + (large ? count : 0));
    REQUIRE(cached() == 0);
    std::int64_t kept = 0, others = 0;
    while (!made.empty()) {
      made.pop_back();
      if (++kept * block > list) {
        kept -= half;
        others += half;
      }
      REQUIRE(cached() == others * block);
    }
    CHECK(others > 0);
    // Blocks are reused: first the thread's own, then half a list at a time from the other cache.
    for (std::int64_t i = 0; i < count; ++i) {
      made.push_back(bytes(size));
      if (kept == 0) {
        kept = std::min(half, others);
        others -= kept;
      }
      --kept;
      REQUIRE(cached() == others * block);
    }
    CHECK(memory_statistics().large_blocks == asked + (large ? count : 0));
  }
}

TEST_CASE("of three blocks of 128 KiB a thread keeps one, which it uses first") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  constexpr std::int64_t block = 128 << 10;
  trim_memory();
  for (int i = 0; i < 5; ++i) {  // two fit; one at a time is kept however often it is used
    bytes(block);
    CHECK(cached() == 0);
  }
  many(3, block);
  CHECK(cached() == 2 * block);
  const Tensor first = bytes(block);
  CHECK(cached() == 2 * block);
  const Tensor second = bytes(block);  // both of the others come at once
  CHECK(cached() == 0);
}

namespace {
/// The memory of a device that has none.
struct NoMemory final : DeviceMemory {
  bool fails = false;
  std::byte* allocate(int, std::size_t) override {
    if (fails) throw std::runtime_error("the device has failed");
    return nullptr;
  }
  void release(int, std::byte*, std::size_t) noexcept override {}
  std::string largest(int index) override { return "all of " + std::to_string(index); }
};
/// Replaces the memory of devices during its lifetime.
class OnDevice {
 public:
  explicit OnDevice(DeviceMemory& memory) : before_(std::exchange(place(), &memory)) {}
  ~OnDevice() { place() = before_; }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  static DeviceMemory*& place() { return device_memories[static_cast<int>(Device::Kind::cuda)]; }
  DeviceMemory* const before_;
};
}  // namespace

TEST_CASE("a device without memory leaves no tensor, and is asked what takes its memory") {
  NoMemory memory;
  const OnDevice scope(memory);
  const MemoryStatistics before = memory_statistics();
  const auto make = [] {
    return allocate_on(Context::here(), cuda(0), DType::float32, Shape({3}), 3);
  };
  CHECK(make() == nullptr);
  memory.fails = true;
  CHECK_THROWS_AS(make(), std::runtime_error);
  CHECK(memory_statistics().live_tensors == before.live_tensors);
  CHECK(memory_statistics().live_bytes == before.live_bytes);
  CHECK(largest_on(cuda(1)) == "all of 1");
  CHECK(largest_on(cpu()).empty());
}

TEST_CASE("larger blocks go straight to the cache of all threads, and come back one by one") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  trim_memory();
  const std::int64_t size = 131'073, block = 147'456;  // 9 units of 16 KiB
  const std::int64_t asked = memory_statistics().large_blocks;
  std::vector<Tensor> made = many(5, size);
  for (std::int64_t i = 1; i <= 5; ++i) {
    made.pop_back();
    CHECK(cached() == i * block);
  }
  for (std::int64_t i = 4; i >= 0; --i) {
    made.push_back(bytes(block - (i % 2)));
    CHECK(cached() == i * block);
  }
  CHECK(memory_statistics().large_blocks == asked + 5);
  made.clear();
  const Tensor other = bytes(block + 1);  // another size
  CHECK(memory_statistics().large_blocks == asked + 6);
  CHECK(cached() == 5 * block);
  trim_memory();
  CHECK(cached() == 0);
}

TEST_CASE("set_cache_limit holds for blocks from 8 KiB on, at once and later") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  const std::int64_t block = 212'992;
  trim_memory();
  const auto free_three = [&] { many(3, 200'000); };
  set_cache_limit(2 * block);
  free_three();
  CHECK(cached() == 2 * block);
  set_cache_limit(2 * block);  // the cache is within this limit, so nothing is given back
  CHECK(cached() == 2 * block);
  set_cache_limit(2 * block - 1);
  CHECK(cached() == 0);
  free_three();
  CHECK(cached() == block);
  set_cache_limit(0);
  CHECK(cached() == 0);
  free_three();
  many(200, 8'192);
  CHECK(cached() == 0);
  many(200, 8'128);  // a small size
  CHECK(cached() > 0);
  CHECK(cached() % 8'320 == 0);
  trim_memory();
  CHECK(cached() == 0);
  set_cache_limit(std::size_t{1} << 30);
  free_three();
  CHECK(cached() == 3 * block);
  many(9'000, 8'128);  // of small sizes, at most 64 MiB are kept
  CHECK(cached() - 3 * block <= 64 << 20);
  CHECK(cached() - 3 * block > (64 << 20) - 8'320);
  trim_memory();
  CHECK(cached() == 0);
}

TEST_CASE("memory from 4 MiB on may use huge pages, and begins at different sets of the caches",
          "[proc]") {
  const bool has_them =
      std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good() && !sanitized;
  trim_memory();
  for (const std::int64_t size : {2 * huge_page, 2 * huge_page + 1, 8 * huge_page}) {
    const Tensor x = bytes(size);
    INFO(size);
    CHECK(address(x) % huge_page < huge_page / 16);
    CHECK(address(x) % 64 == 0);
    if (has_them) CHECK(mapping_flags(address(x)).find(" hg ") != std::string::npos);
  }
  trim_memory();
  std::vector<Tensor> together;
  std::set<std::uintptr_t> first_lines, second_lines;  // of caches of 64 and of 1,024 sets
  for (int i = 0; i < 16; ++i) {
    const std::uintptr_t line = address(together.emplace_back(bytes(2 * huge_page))) / 64;
    first_lines.insert(line % 64);
    second_lines.insert(line % 1024);
  }
  if (!sanitized) CHECK((first_lines.size() == 16 && second_lines.size() == 16));
  // Smaller tensors are not aligned, as the bytes in front of them would be wasted.
  for (const std::int64_t size : {page, 2 * huge_page - huge_page / 8}) {
    const Tensor x = bytes(size), y = bytes(size);
    CHECK((address(x) % huge_page != 0 || address(y) % huge_page != 0));
  }
}

TEST_CASE("row-major order is what its definition says") {
  const auto row_major = [](const Shape& shape, const Strides& strides) {
    std::int64_t number = 0;  // the number of the element in row-major order
    std::vector<std::int64_t> at(shape.rank(), 0);
    for (bool more = shape.elements() > 0; more; ++number) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < shape.rank(); ++i) offset += at[i] * strides[i];
      if (offset != number) return false;
      more = false;
      for (std::size_t i = shape.rank(); i-- > 0 && !more;) {
        more = ++at[i] < shape[static_cast<int>(i)];
        if (!more) at[i] = 0;
      }
    }
    return true;
  };
  int count = 0, ordered = 0;
  for (std::int64_t a = 0; a < 4; ++a)
    for (std::int64_t b = 0; b < 4; ++b)
      for (std::int64_t x = -1; x < 8; ++x)
        for (std::int64_t y = -1; y < 4; ++y) {
          const Strides strides = {x, y};
          const Shape shape({a, b});
          if (a == 0 && b != 0) continue;  // an empty shape, for which either answer is right
          INFO(shape << " " << x << " " << y);
          CHECK(is_row_major(shape, strides) == row_major(shape, strides));
          ++count;
          ordered += is_row_major(shape, strides);
        }
  CHECK(count == 720 - 3 * 45);
  CHECK(ordered > 200);
  CHECK(ordered < 400);
  const Strides none = {};
  CHECK(is_row_major(Shape(), none));
  // The `contiguous` flag, which every op uses.
  const Tensor x = arange(0.0f, 24.0f).reshape({2, 3, 4});
  for (const Tensor& y : {x, x(1), x(all, range(0, 2)), x(all, 1), x(all, all, range(0, 4, 2)),
                          transpose(x(0)), x(range(0, 1), all, all), x(range(0, 0)),
                          x(all, range(1, 1), range(0, 3)), x(range(0, 1), range(1, 3), all)}) {
    const Body& body = *Access::body(y);
    if (body.elements) CHECK(body.contiguous == row_major(body.shape, body.strides));
  }
}
}  // namespace reel::tests
