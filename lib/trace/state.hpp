// SPDX-License-Identifier: BSD-3-Clause
// Finds out whether a run changed state that a function keeps outside of tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <reel/trace.hpp>

#include "lib/body/access.hpp"
#include "lib/trace/memory.hpp"

namespace reel::tracing {
/// Whether a tensor is there. Its elements never change; its count of references does.
bool is_tensor(std::uintptr_t at);
/// A word that is different after a run.
struct RunChange {
  std::uintptr_t at = 0;
  std::uint64_t before = 0, now = 0;
  std::uint64_t bytes() const {  // a mask of the bytes that are different
    std::uint64_t mask = 0;
    for (int shift = 0; shift < 64; shift += 8)
      if ((before ^ now) >> shift & 0xff) mask |= std::uint64_t{0xff} << shift;
    return mask;
  }
  std::size_t region = 0, offset = 0;  // where StateWatch found it
  bool behind = false;                 // a pointer of the function object
};

/// A copy of the bytes of a function object, of the first bytes behind each of its pointers, and
/// behind the pointers there. The types of captured pointers are unknown, so every word that could
/// be a pointer is followed.
class StateWatch : public detail::StateList {
 public:
  void add(const void* first, std::size_t bytes) override;
  /// Memory that a run may change: arguments, results, Variables and tensors that the trace knows.
  void exclude(const void* first, std::size_t bytes);
  void exclude(const Body& body);
  void exclude(const Variable& variable);
  bool excluded(std::uintptr_t at) const;
  /// Copies what was added and, if `follows`, what its pointers lead to. The stack below the
  /// address `object` belongs to the call.
  void begin(std::uintptr_t object, bool follows);
  /// The word that is different now and is the nearest to the function object.
  std::optional<RunChange> change();
  /// For the user: names the captured pointer that leads to the word, and the values.
  std::string in_words(const RunChange& change) const;
  /// For the developer: offsets and bits.
  std::string in_bytes(const RunChange& change) const;
  void clear();

 private:
  struct Range {
    std::uintptr_t first, end;
  };
  struct Region {
    std::uintptr_t at;
    std::size_t bytes, copy;  // the size, and the start of the copy
    int from;                 // the region that led here, or -1
    std::size_t offset;       // of the pointer in that region
    int level = 0;            // pointers from the function object
  };
  void merge_excluded();
  void read(std::size_t first_region);
  void read_pieces();
  void follow(int level);
  std::uint64_t word_at(const Region& region, std::size_t offset) const;

  std::uintptr_t object_ = 0;
  std::vector<Range> excluded_;
  std::vector<Region> regions_;
  std::vector<std::byte> copies_, now_;
  std::vector<Piece> pieces_;
};
}  // namespace reel::tracing
