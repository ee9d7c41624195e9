// SPDX-License-Identifier: BSD-3-Clause
// What higher modules do when a thread begins and ends to use the library, and for the debugger.
#pragma once  // defined in lib/assemble.cpp
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reel {
struct Context;
class Observer;
/// A profile from when it is made until end().
class MeasuredRun {
 public:
  virtual ~MeasuredRun() = default;
  virtual void end() = 0;
  /// "1.2 ms on 1 thread: ..."
  virtual std::string title() const = 0;
  using Rows = std::vector<std::vector<std::string>>;
  /// A row of headings, then a row for each op, or for each line.
  virtual Rows rows(bool by_line) const = 0;
  /// Bytes, op and line of tensors that were alive at the peak of memory.
  virtual Rows memory() const = 0;
  /// Writes the timeline. Throws IoError.
  virtual void write(std::string_view path) const = 0;
};
struct ContextHooks {
  /// On this thread, whose first context it is.
  void (*made)(Context& context) noexcept;
  /// Before its flow ends.
  void (*ended)(Context& context) noexcept;
  /// A profile that an observer of this thread begins, and ends before it is destroyed.
  std::unique_ptr<MeasuredRun> (*measure)(Observer& observer);
};
extern const ContextHooks context_hooks;
}  // namespace reel
