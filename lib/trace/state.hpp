// SPDX-License-Identifier: BSD-3-Clause
// What a function keeps outside of tensors: whether a run changed it.
#pragma once
#include <cstdint>
#include <map>
#include <memory_resource>
#include <string>
#include <vector>

#include <reel/trace.hpp>

#include "lib/body/access.hpp"
#include "lib/trace/memory.hpp"

namespace reel::tracing {
/// What malloc_usable_size() says of a Variable's cell: blocks are multiples of 16, and one word of
/// them is the size.
constexpr std::size_t cell_block_bytes = (sizeof(Cell) + word + 15) / 16 * 16 - word;

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
  /// The byte that is different now; empty if none is.
  std::string change();
  /// The same as a user may know it: the captured pointer that leads there, and the values.
  const std::string& change_in_words() const { return words_; }
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
  /// How much there is behind a pointer that a function object holds (level 1), or that was found
  /// behind one; 0 if the trace looks after it, or nothing tells. Behind change().
  std::size_t captured_bytes(Memory& memory, std::uintptr_t at, int level) const;
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
  std::string describe(Memory& memory, const Region& region, std::size_t offset, std::uint64_t now);
  std::string name_in_words(Memory& memory, const Region& region, std::size_t offset) const;
  std::string compare(Memory& memory, const Region& region, const std::byte* now);
  bool is_reused(Memory& memory, const Region& region, std::size_t start,
                 const std::byte* now) const;

  MappedMemory mapped_;
  std::pmr::unsynchronized_pool_resource own_{&mapped_};
  std::vector<Doubtful> doubtful_;
  std::string words_;
  std::pmr::vector<Range> excluded_{&own_};
  std::pmr::vector<Region> regions_{&own_};
  std::pmr::map<std::uintptr_t, std::uintptr_t> followed_{&own_};  // where pointers have been: to
  std::pmr::vector<std::byte> copies_{&own_}, now_{&own_};
};
}  // namespace reel::tracing
