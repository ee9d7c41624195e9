// SPDX-License-Identifier: BSD-3-Clause
// What a function has captured, compared at every replay with what it was when its trace was
// written down.
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

/// The first bytes behind each pointer of a function object, and behind pointers found there. They
/// are few, as each replay reads them, and it reads them without a system call: only memory that
/// stays mapped is taken (see Mapped).
class CapturedWords {
 public:
  /// A word that changed without a difference. Where that is often, halves that did are not
  /// compared.
  struct Ignored {
    std::uintptr_t at;
    std::uint64_t any, all;  // halves that changed at some time; bytes that did each time
    int times;
    bool often;
  };
  /// `known` tells which memory the trace looks after. A trace of many steps compares more.
  CapturedWords(const void* object, std::size_t bytes, const StateWatch& known, std::size_t steps,
                const std::vector<Ignored>& ignored);
  bool empty() const { return all_.empty(); }
  /// For the thread of this number.
  bool changed(std::uint64_t thread) const noexcept;
  /// The words that changed() found.
  std::vector<ChangedWord> changes() const;
  /// Which pointer of the function object leads to the first byte of what changed each time: that
  /// is surely what was captured. Empty if there is none, or if it leads to a large object.
  std::string name_of(const Ignored& changed) const;

  /// Memory as it was, and the bits of it that are compared.
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
    std::size_t offset;  // of the pointer in the function object
    int number;          // among the pointers there
  };
  struct Selection;
  static Find fastest();
  bool is_unmapped() const noexcept;

  Find find_ = fastest();
  const Line *lines_, *end_, *end_of_shared_;  // shared: not behind the stack of `thread_`
  std::vector<Line> all_;
  std::vector<Named> named_;
  std::uintptr_t break_ = 0;  // the memory behind the program ended at this or behind it
  std::uint64_t thread_;
};

/// The captured words of a path through a function, renewed where they changed and nothing else
/// did.
class CapturedWatch {
 public:
  bool changed(std::uint64_t thread) const noexcept {
    const CapturedWords* const now = now_.load(std::memory_order_acquire);
    return now && now->changed(thread);
  }
  std::vector<ChangedWord> changes() const;
  /// From now on these are compared.
  void set(std::unique_ptr<CapturedWords> words);
  /// A check has found that these changes made no difference. What changes often is no longer
  /// compared; if it is surely what the function has captured, the result says where it is.
  std::string tolerate(const std::vector<ChangedWord>& changes);
  const std::vector<CapturedWords::Ignored>& ignored() const { return ignored_; }

 private:
  std::atomic<const CapturedWords*> now_ = nullptr;
  std::vector<std::unique_ptr<CapturedWords>> all_;  // other threads may still read an older one
  std::vector<CapturedWords::Ignored> ignored_;
  int changes_ = 0;
};
}  // namespace reel::tracing
