// SPDX-License-Identifier: BSD-3-Clause
// What a function keeps outside of tensors: whether a run changed it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <reel/trace.hpp>

#include "lib/tensor/body.hpp"

namespace reel {
class Variable;
}

namespace reel::tracing {
/// Copies memory of this process; false, without a fault, if some of it cannot be read.
bool read_memory(std::uintptr_t from, void* to, std::size_t bytes);

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
  /// What change() found, if it was behind two or more pointers, one of which may be a stale one
  /// between the members of an object: memory of something else. `bytes` is 0 otherwise.
  struct Doubtful {
    std::uintptr_t first = 0;
    std::size_t bytes = 0;
    std::uintptr_t at = 0;  // the word, and what the run left in it
    std::size_t word_bytes = 0;
    std::uint64_t value = 0;
  };
  const Doubtful& doubtful() const { return doubtful_; }
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
  };
  void follow(std::size_t region);
  void lead_to(std::uintptr_t at, std::size_t most, std::size_t from, std::size_t offset);
  void copy(Region region);
  void merge_excluded();
  bool excluded(std::uintptr_t at) const;
  bool led_by_known(const Region& region) const;
  static bool was_freed(const Region& region);
  std::string describe(const Region& region, std::size_t offset, std::uint64_t now) const;

  Doubtful doubtful_;
  std::vector<Range> excluded_;
  std::vector<Region> regions_;
  std::vector<std::byte> copies_;
};
}  // namespace reel::tracing
