// SPDX-License-Identifier: BSD-3-Clause
// Each replay compares what a function has captured with its content at the time of the capture.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/trace/memory.hpp"

namespace reel::tracing {
class StateWatch;

/// A word of captured memory that other code has changed between calls.
struct ChangedWord {
  std::uintptr_t at = 0;
  std::uint64_t before = 0, now = 0;
};

/// The first bytes behind each pointer of a function object, and behind the pointers found there.
/// Each replay reads these bytes, so there are few of them. A replay reads them without a system
/// call, so only memory that stays mapped is taken (see Mapped).
class CapturedWords {
 public:
  /// A word that changed without a difference in the results. If it changes often, its halves that
  /// changed are no longer compared.
  struct Ignored {
    std::uintptr_t at;
    std::uint64_t any, all;  // halves that changed at least once; bytes that changed each time
    int times;
    bool often;
  };
  /// `known` knows which memory the trace itself handles. A trace of many steps compares more
  /// words.
  CapturedWords(const void* object, std::size_t bytes, const StateWatch& known, std::size_t steps,
                const std::vector<Ignored>& ignored);
  bool empty() const { return all_.empty(); }
  /// Whether a word that the thread with this number may read has changed.
  bool changed(std::uint64_t thread) const noexcept;
  /// The words that changed() found.
  std::vector<ChangedWord> changes() const;
  /// Names the pointer of the function object that leads to the first byte of what changed each
  /// time. Such a byte is certainly captured. Empty if no pointer leads there, or if the pointer
  /// leads to a large object.
  std::string name_of(const Ignored& changed) const;

  /// The expected content of memory, and the bits of it that are compared.
  static constexpr std::size_t words = 8, line_bytes = words * word;
  struct alignas(4 * word) Line {
    std::array<std::uint64_t, words> expected, compared;
    std::uintptr_t at;
  };
  /// The first line that changed; null if none did.
  using Find = const Line* (*)(const Line* line, const Line* end) noexcept;
  static const Line* first_changed(const Line* line, const Line* end) noexcept;
  /// The same with AVX2.
  static const Line* first_changed_wide(const Line* line, const Line* end) noexcept;

 private:
  struct Named {
    std::uintptr_t at;
    std::size_t offset;  // of the pointer, in the function object
    int number;          // the position of the pointer among the pointers there
  };
  struct Selection;
  static Find fastest();
  bool is_unmapped() const noexcept;

  Find find_ = fastest();
  // shared lines are not reached through the stack of `thread_`
  const Line *lines_, *end_, *end_of_shared_;
  std::vector<Line> all_;
  std::vector<Named> named_;
  // the least end of the heap that the lines need; 0 if no line is in the heap
  std::uintptr_t break_ = 0;
  std::uint64_t thread_;
};

/// The captured words of a path through a function. They are renewed if they changed and nothing
/// else did.
class CapturedWatch {
 public:
  bool changed(std::uint64_t thread) const noexcept {
    const CapturedWords* const now = now_.load(std::memory_order_acquire);
    return now && now->changed(thread);
  }
  std::vector<ChangedWord> changes() const;
  /// Compares these words from now on.
  void set(std::unique_ptr<CapturedWords> words);
  /// Call it if a check found that these changes made no difference. Words that change often are no
  /// longer compared. If such a word is certainly captured, the result says where it is.
  std::string tolerate(const std::vector<ChangedWord>& changes);
  const std::vector<CapturedWords::Ignored>& ignored() const { return ignored_; }

 private:
  std::atomic<const CapturedWords*> now_ = nullptr;
  // kept, as other threads may still read an older one
  std::vector<std::unique_ptr<CapturedWords>> all_;
  std::vector<CapturedWords::Ignored> ignored_;
  int changes_ = 0;
};
}  // namespace reel::tracing
