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

#include <reel/trace.hpp>

#include "lib/trace/memory.hpp"

namespace reel::tracing {
class StateWatch;

/// A word of captured memory that other code has changed between calls.
struct ChangedWord {
  std::uintptr_t at = 0;
  std::uint64_t before = 0, now = 0;
};

/// The first bytes behind each pointer of a function object, and the fields of the object. A replay
/// reads the bytes without a system call, so only memory that stays mapped is taken (see Mapped).
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
  struct Compares {
    bool pointers, fields;
  };
  /// `known` knows which memory the trace itself handles.
  CapturedWords(const detail::TracedFunction& function, const StateWatch& known,
                const std::vector<Ignored>& ignored, Compares compares);
  /// The number of the first pointer whose memory replays do not read, because it may be unmapped;
  /// 0 if there is none, and -1 if the system refuses to read memory.
  int unread() const { return unread_; }
  bool empty() const { return windows_.empty() && !fields_; }
  /// Whether something has changed that the thread with this number may read.
  bool changed(std::uint64_t thread) const;
  /// The words that changed() found.
  std::vector<ChangedWord> changes() const;
  /// Says that the object behind a pointer of the function object changes between calls. Empty if
  /// no pointer leads to the first byte of what changed each time, or if it leads to a larger
  /// object: `words` changed at once.
  std::string describe(const Ignored& word, const ChangedWord& change, std::size_t words) const;

 private:
  static constexpr std::size_t words = window_bytes / word;
  /// The expected content of memory, and the bits of it that are compared.
  struct alignas(2 * word) Window {
    std::array<std::uint64_t, words> expected, compared;
    std::uintptr_t at;
  };
  struct Named {
    std::uintptr_t at;
    std::size_t offset;  // of the pointer, in the function object
    int number;          // the position of the pointer among the pointers there
    std::size_t words;   // more words of a larger object change at once
  };
  void add(std::uintptr_t at, const std::byte* content, std::size_t bytes,
           std::size_t compared_bytes, const StateWatch& known,
           const std::vector<Ignored>& ignored);
  const Window* first_changed(std::uint64_t thread) const noexcept;
  bool is_unmapped() const noexcept;

  const detail::TracedFunction& function_;
  std::uint64_t fields_ = 0;  // a hash of the fields; 0 if there are none
  std::vector<Window> windows_;
  std::size_t shared_ = 0;  // the first windows are not on the stack of `thread_`
  std::vector<Named> named_;
  std::uintptr_t break_ = 0;  // the least end of the heap that the windows need
  std::uint64_t thread_;
  int unread_ = 0;
};

/// The captured words of a path through a function. They are renewed if they changed and nothing
/// else did.
class CapturedWatch {
 public:
  bool changed(std::uint64_t thread) const {
    const CapturedWords* const now = now_.load(std::memory_order_acquire);
    return now && now->changed(thread);
  }
  std::vector<ChangedWord> changes() const;
  /// Compares these words from now on.
  void set(std::unique_ptr<CapturedWords> words);
  /// Call it if a check found that these changes made no difference. Words that change often are no
  /// longer compared. If a pointer leads directly to such a word, the result says where it is.
  std::string tolerate(const std::vector<ChangedWord>& changes);
  const std::vector<CapturedWords::Ignored>& ignored() const { return ignored_; }
  /// Whether there were many such changes.
  bool tolerates_fields() const;

 private:
  std::atomic<const CapturedWords*> now_ = nullptr;
  // kept, as other threads may still read an older one
  std::vector<std::unique_ptr<CapturedWords>> all_;
  std::vector<CapturedWords::Ignored> ignored_;
  int changes_ = 0;
};
}  // namespace reel::tracing
