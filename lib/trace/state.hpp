// SPDX-License-Identifier: BSD-3-Clause
// What a function keeps outside of tensors: whether a run changed it.
#pragma once
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <reel/trace.hpp>

#include "lib/tensor/body.hpp"

namespace reel {
class Variable;
}

namespace reel::tracing {
/// Copies memory of this process; false, without a fault, if some of it cannot be read.
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes);

/// Memory of its own, outside of malloc()'s: blocks that the watch itself takes and gives back
/// would look like state of the function where a stale pointer leads to them.
class MappedMemory : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* first, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

/// Memory of this process as it was when it was read first.
class Memory {
 public:
  bool read(std::uintptr_t from, void* to, std::size_t bytes);
  /// Whether it is a static, of a program or a library, that can be written.
  bool is_static(std::uintptr_t at);
  struct Block {
    std::uintptr_t first, end, size_word;  // empty if nobody uses it
  };
  /// The block of malloc() that an address is in; none outside of the memory behind the program.
  std::optional<Block> block_around(std::uintptr_t at);

 private:
  void find_blocks();
  bool blocks_known_ = false;
  MappedMemory mapped_;
  std::pmr::monotonic_buffer_resource own_{std::size_t{1} << 18, &mapped_};
  std::pmr::vector<std::uintptr_t> blocks_{&own_};  // all between heap_ and heap_end_
  std::uintptr_t heap_ = 0, heap_end_ = 0;
  std::pmr::unordered_map<std::uintptr_t, bool> static_{&own_};
  std::pmr::unordered_map<std::uintptr_t, std::byte*> pages_{&own_};  // null: not mapped
};

/// A copy of the bytes of a function object and of what its pointers lead to. The types behind
/// captured pointers are not known, so they are followed as far as they look like pointers, and
/// read by the system, which reports an address that is not mapped instead of faulting.
class StateWatch : public detail::StateList {
 public:
  void add(const void* first, std::size_t bytes) override;
  /// Memory that a run may change: arguments, results, Variables and tensors that the trace knows.
  void exclude(const void* first, std::size_t bytes);
  void exclude(const Body& body);
  void exclude(const Variable& variable);
  /// Copies all that was added, and what it leads to.
  void begin();
  /// Where it is different now, in words; empty if nothing is.
  std::string change();
  /// A word that change() found changed behind two or more pointers, and what the run left in it.
  /// One of the pointers may be a stale one between the members of an object: memory of something
  /// else.
  struct Doubtful {
    std::uintptr_t at = 0;
    std::size_t bytes = 0;
    std::uint64_t value = 0;
  };
  /// Empty where what change() found is certain.
  std::vector<Doubtful>& doubtful() { return doubtful_; }
  void clear();

 private:
  struct Range {
    std::uintptr_t first, end;
  };
  struct Region {
    std::uintptr_t at;
    std::size_t bytes, copy;  // how many, and where the copy starts
    std::size_t leads;        // of the first bytes, pointers are followed
    int level, from;          // steps from the function object; the region that led here, or -1
    std::size_t offset;       // of the pointer in that region
    bool beside = false;      // perhaps led to by something beside a captured object
    std::uintptr_t size_word = 0;  // what was in front of it
  };
  void follow(Memory& memory, std::size_t region);
  void lead_to(Memory& memory, std::uintptr_t at, std::size_t most, std::size_t from,
               std::size_t offset);
  void copy(Memory& memory, Region region);
  void exclude_free_blocks();
  void merge_excluded();
  bool excluded(std::uintptr_t at) const;
  bool led_by_known(const Region& region) const;
  static bool was_freed(Memory& memory, const Region& region);
  std::string describe(const Region& region, std::size_t offset, std::uint64_t now) const;
  std::string compare(Memory& memory, const Region& region, const std::byte* now);
  bool is_reused(Memory& memory, const Region& region, std::size_t start,
                 const std::byte* now) const;

  MappedMemory mapped_;
  std::pmr::unsynchronized_pool_resource own_{&mapped_};
  std::vector<Doubtful> doubtful_;
  std::pmr::vector<Range> excluded_{&own_};
  std::pmr::vector<Region> regions_{&own_};
  std::pmr::map<std::uintptr_t, std::uintptr_t> followed_{&own_};  // where pointers have been: to
  std::pmr::vector<std::byte> copies_{&own_}, now_{&own_};
};
}  // namespace reel::tracing
