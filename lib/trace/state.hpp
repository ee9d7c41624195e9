// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether a run changed state that a function keeps outside of tensors.
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
/// The result of malloc_usable_size() for a Variable's cell. Blocks are multiples of 16 bytes, and
/// one word of a block is its size.
constexpr std::size_t cell_block_bytes = (sizeof(Cell) + word + 15) / 16 * 16 - word;

/// A copy of the bytes of a function object and of the memory that its pointers lead to. The types
/// of captured pointers are unknown, so every word that could be a pointer is followed. The memory
/// is read by a system call, so an unmapped address is an error code and not a crash.
class StateWatch : public detail::StateList {
 public:
  void add(const void* first, std::size_t bytes) override;
  /// Memory that a run may change: arguments, results, Variables and tensors that the trace knows.
  void exclude(const void* first, std::size_t bytes);
  void exclude(const Body& body);
  void exclude(const Variable& variable);
  /// Copies everything that was added, and the memory that its pointers lead to.
  void begin();
  /// Describes the first byte that is different now; empty if there is none.
  std::string change();
  /// The same for the user: names the captured pointer that leads there, and the values.
  const std::string& change_in_words() const { return words_; }
  /// A changed word that change() found two or more pointers away, and its value after the run. One
  /// of the pointers may be stale, so the memory may belong to something else.
  struct Doubtful {
    std::uintptr_t at = 0;
    std::size_t bytes = 0;
    std::uint64_t value = 0;
  };
  /// Empty if the change that change() found is certain.
  std::vector<Doubtful>& doubtful() { return doubtful_; }
  /// The size of the memory at a pointer of the function object (level 1), or at a pointer found in
  /// such memory (level 2 and so on). 0 if the trace itself handles this memory, or if the size is
  /// unknown. Call it after change().
  std::size_t captured_bytes(Memory& memory, std::uintptr_t at, int level) const;
  void clear();

 private:
  struct Range {
    std::uintptr_t first, end;
  };
  struct Region {
    std::uintptr_t at;
    std::size_t bytes, copy;  // the size, and the start of the copy
    std::size_t leads;        // the number of first bytes in which pointers are followed
    int level, from;          // pointers from the function object; the region that led here, or -1
    std::size_t offset;       // of the pointer in that region
    bool beside = false;      // whether something next to a captured object may have led here
    bool exact = false;       // whether the size is known; the region may start inside of a block
    std::uintptr_t size_word = 0;  // the word in front of the region
  };
  struct DequeWords;
  void follow(Memory& memory, std::size_t region);
  bool lead_to_deque(Memory& memory, const DequeWords& deque, std::size_t from, std::size_t offset);
  /// How many bytes an object has at most, and in how many of them pointers are followed.
  struct Most {
    std::size_t bytes, leads;
  };
  /// `exact`: an object of so many bytes is there.
  void lead_to(Memory& memory, std::uintptr_t at, Most most, std::size_t from, std::size_t offset,
               bool exact = false);
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
  // from the start to the end of each range whose pointers were followed
  std::pmr::map<std::uintptr_t, std::uintptr_t> followed_{&own_};
  std::pmr::vector<std::byte> copies_{&own_}, now_{&own_};
};
}  // namespace reel::tracing
