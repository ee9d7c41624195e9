// SPDX-License-Identifier: BSD-3-Clause
// Values that a thread computes from tensors which a tape of another thread follows.
#pragma once
#include <string_view>

#include "lib/dispatch/context.hpp"
#include "lib/tensor/access.hpp"

namespace reel {
// Note [Crossings]
// A tape sees the ops of its own thread. When thread B reads a tensor that a tape of thread A
// follows, A would take the result for a constant. So B marks the result: its id names the record
// of A's tensor and the line of B's op. Ops of any thread pass marks on. A tape of A that follows
// the named record must not record an op on a marked value: that is a TapeError. After the tape
// has ended, its marks mean nothing.
// A mark stands in Body::id. Where that names a record of the thread itself, or another mark, the
// body is a view, and the mark stands in the body that owns its memory.
// Where more marks come together than a result can hold, one stands for all: every tape that was
// alive then counts as followed by it.
// A tensor that a tape of B watches too is B's as much as A's: reading it marks nothing. What a
// tape of A has recorded marks the result, whoever watches it. Ops look at ids only where
// Context::watchful is set: another thread has a tape, or has marked something.

inline constexpr std::uint64_t crossed = std::uint64_t{1} << 63;
/// A mark of several records of one reel: the named one and others before it. With no reel, of
/// several reels, whose first tapes were opened no later than `record` says.
inline constexpr std::uint64_t and_before = std::uint64_t{1} << 62;

inline bool is_mark(const Body& x) { return id_of(x).reel & crossed; }

/// Whether x may have a mark or belong to a tape of another thread.
inline bool may_cross(const Context& context, const Body& x) {
  if (x.owner && is_mark(*x.owner)) return true;
  const std::uint64_t reel = id_of(x).reel;
  return reel && reel != context.reel.uid();
}
/// Whether more than a tape has to hear of a call: a stage, or an input may cross.
bool detours(const Context& context, const Body* const* inputs, int count);
/// Whether nobody listens, and x is not to be looked at either.
inline bool unheard(const Context& context, const Body& x) {
  const Body* const inputs[] = {&x};
  return !context.attention() || (!context.mode && !detours(context, inputs, 1));
}

/// The marks that a result gets from what it was computed from.
class Crossings {
 public:
  explicit operator bool() const { return count_; }
  /// Adds the marks of a value that an op on `site` reads, and one for the tape that follows it.
  void read(Context& context, const Body& x, std::string_view op, Caller site);
  /// Throws TapeError if one of `tapes` follows what a mark names.
  void check(const Context& context, std::uint64_t tapes, std::string_view op,
             const std::string& argument, Caller site) const;
  /// read() and check() of the tapes that record now.
  void use(Context& context, const Op& op, int argument, const Body* x, Caller site);
  /// Marks a result, which may get another header.
  void mark(Context& context, Tensor& result, Caller site) const;
  /// Marks the value of a Variable, which nobody else holds, or takes its mark away.
  void mark_value(Body& value) const;

 private:
  void add(RecordId mark);
  /// One mark for all of them.
  RecordId together() const;
  RecordId marks_[2];
  int count_ = 0;
};
/// A result without the marks of what it views.
void unmark(Tensor& result);
}  // namespace reel
