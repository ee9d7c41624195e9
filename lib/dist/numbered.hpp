// SPDX-License-Identifier: BSD-3-Clause
// Objects that steps of a trace name by a number.
#pragma once
#include <cstdint>
#include <utility>

#include "lib/pool/process.hpp"

namespace reel::dist::detail {
template <class T>
class Numbered {
 public:
  Numbered() {
    static constinit std::int64_t last = 0;
    const Locked held(Lock::registration);
    number_ = ++last;
    next_ = std::exchange(first_, this);
  }
  ~Numbered() {
    const Locked held(Lock::registration);
    Numbered** link = &first_;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
  }
  Numbered(const Numbered&) = delete;
  Numbered& operator=(const Numbered&) = delete;
  /// In this process.
  std::int64_t number() const { return number_; }
  /// The object with this number, null if it has ended.
  static T* find(std::int64_t number) {
    const Locked held(Lock::registration);
    Numbered* found = first_;
    while (found && found->number_ != number) found = found->next_;
    return static_cast<T*>(found);
  }

 private:
  static inline constinit Numbered* first_ = nullptr;
  std::int64_t number_;
  Numbered* next_;
};
}  // namespace reel::dist::detail
