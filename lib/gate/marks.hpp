// SPDX-License-Identifier: BSD-3-Clause
// Marks for values that a thread computes from tensors that a tape of another thread watches. This
// is a taint analysis.
#pragma once
#include <string_view>

#include "lib/body/access.hpp"
#include "lib/body/small_vector.hpp"
#include "lib/body/text.hpp"
#include "lib/flow/context.hpp"

namespace reel {
// Note [Marks]
// A tape sees the ops of its own thread. When thread B reads a tensor that a tape of thread A
// follows, A would take the result for a constant. So B marks the result: its id names the record
// of A's tensor and the line of B's op. Ops of any thread pass marks on. A tape of A that follows
// the named record must not record an op on a marked value: that is a TapeError. After the tape
// has ended, its marks mean nothing.
// A mark is in Body::id. Where that names a record of the thread itself, the body is a view, and
// the mark is in the body that owns its memory.
// A value with marks of several reels has the number of a set of marks instead. Sets are listed in
// marks.cpp as long as a reel of theirs has a tape.
// A tensor that tapes of both threads follow is marked for each of them by the other. Ops look at
// ids only where Context::watchful is set: another thread has a tape, or has marked something.

/// Whether a tape of any thread may watch x.
inline bool may_be_watched(const Body& x) {
  return __atomic_load_n(&x.leaf, __ATOMIC_RELAXED) != no_record;
}
/// Whether x may have a mark or belong to a tape of another thread.
inline bool may_give_marks(const Context& context, const Body& x) {
  if (x.owner && is_mark(*x.owner)) return true;
  const std::uint64_t reel = id_of(x).reel;
  return reel && (reel != context.reel->uid() || may_be_watched(x));
}
/// Whether an interceptor needs a call, or an input has marks.
bool needs_slow_path(const Context& context, const Body* const* inputs, int count);

/// The marks that a result gets from its inputs.
class ResultMarks {
 public:
  explicit operator bool() const { return marks_.size(); }
  /// Adds the marks of a value that an op at the line `caller` reads, and a mark for another
  /// thread's tape that watches it.
  void read(Context& context, const Body& x, std::string_view op, Caller caller);
  /// Throws TapeError if one of `tapes` watches a tensor that a mark names.
  void check(const Context& context, std::uint64_t tapes, std::string_view op,
             std::string_view argument, Caller caller) const;
  /// read() and check() for the tapes that record now.
  void use(Context& context, const Op& op, int argument, const Body* x, Caller caller);
  /// Marks a result, which may get another header.
  void mark(Context& context, Tensor& result, Caller caller) const;
  /// A mark that stands for all marks; no id where there is no mark.
  RecordId together() const;

 private:
  /// The number of a mark that one of `tapes` follows, or -1.
  int followed(const Context& context, std::uint64_t tapes) const;
  void add(RecordId mark);
  /// Adds the mark, or the marks of its set, whose tapes still live. Lock::contexts must be held.
  void add_live(RecordId mark);
  SmallVector<RecordId, 2> marks_;  // one of each reel
};
/// How many sets of marks are listed.
std::size_t listed_mark_sets();
/// A result without the marks of the body that it views.
void unmark(Tensor& result);
}  // namespace reel
