// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/marks.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "lib/gate/call_kernel.hpp"
#include "lib/gate/gate.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace {
/// A line that read a tensor of another thread's tape. Marks have its number.
struct Reader {
  std::string op;
  Caller caller;
};
/// Behind Lock::contexts. As many as the program has lines that read such tensors.
std::vector<Reader>& readers() {
  static constinit std::vector<Reader>* all = nullptr;  // outlives every static
  if (!all) all = new std::vector<Reader>;
  return *all;
}
std::uint32_t number_of(std::string_view op, Caller caller) {
  std::vector<Reader>& all = readers();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Reader& reader) {
    return reader.caller.file == caller.file && reader.caller.line == caller.line &&
           reader.op == op;
  });
  if (found != all.rend()) return static_cast<std::uint32_t>(all.rend() - found - 1);
  all.push_back({std::string(op), caller});
  return static_cast<std::uint32_t>(all.size() - 1);
}

Text text_of(std::uint32_t number) {
  const Locked held(Lock::contexts);
  const Reader& reader = readers()[number];
  if (!reader.caller.file) return reader.op;
  const std::string_view file(reader.caller.file);
  return reader.op + " (" + Text(file.substr(file.rfind('/') + 1)) + ":" +
         to_text(reader.caller.line) + ")";
}

RecordId without_flags(RecordId mark) {
  mark.reel &= ~(mark_bit | and_before);
  return mark;
}
/// Whether a tape that still exists may watch the record of the mark. Lock::contexts must be held.
bool is_live(RecordId mark) {
  const RecordId id = without_flags(mark);
  for (const FlowReel* reel = first_reel(); reel; reel = reel->next)
    if (reel->live_number() == Reel::number_of(id.reel)) return id.reel >= reel->oldest_uid();
  return false;
}

/// Marks of several reels. The id of a set is never used again.
using Marks = std::vector<RecordId>;
struct MarksOrder {
  bool operator()(const Marks& a, const Marks& b) const {
    const auto key = [](RecordId mark) { return std::tuple(mark.reel, mark.record, mark.output); };
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [&](auto x, auto y) { return key(x) < key(y); });
  }
};
struct MarkSets {
  std::map<Marks, std::uint64_t, MarksOrder> ids;
  std::map<std::uint64_t, const Marks*> sets;
  std::uint64_t last = 0;
  std::size_t most = 64;  // before those without a tape go
};
/// Behind Lock::contexts.
MarkSets& mark_sets() {
  static constinit MarkSets* all = nullptr;  // outlives every static
  if (!all) all = new MarkSets;
  return *all;
}
void forget_ended_sets(MarkSets& all) {
  std::erase_if(all.ids, [&](const auto& entry) {
    for (const RecordId& mark : entry.first)
      if (is_live(mark)) return false;
    all.sets.erase(entry.second);
    return true;
  });
  all.most = 2 * all.ids.size() + 64;
}
/// The id of the set, in the form of a mark without a reel.
RecordId mark_of(std::uint64_t set) {
  return {mark_bit, static_cast<std::uint32_t>(set >> 32), static_cast<std::uint32_t>(set)};
}
bool is_set(RecordId mark) { return mark.reel == mark_bit; }
std::uint64_t set_of(RecordId mark) { return std::uint64_t{mark.record} << 32 | mark.output; }

/// The set with these marks. If it is not listed yet, it is added.
RecordId listed(Marks marks) {
  MarkSets& all = mark_sets();
  const auto found = all.ids.find(marks);
  if (found != all.ids.end()) return mark_of(found->second);
  if (all.ids.size() >= all.most) forget_ended_sets(all);
  const auto made = all.ids.emplace(std::move(marks), all.last + 1).first;
  try {
    all.sets.emplace(all.last + 1, &made->first);
  } catch (const std::bad_alloc&) {
    all.ids.erase(made);
    throw;
  }
  return mark_of(++all.last);
}
}  // namespace

std::size_t listed_mark_sets() {
  const Locked held(Lock::contexts);
  return mark_sets().ids.size();
}

bool needs_slow_path(const Context& context, const Body* const* inputs, int count) {
  if (context.path_mode() & ~recording) return true;
  if (!context.is_watchful()) return false;
  return std::any_of(inputs, inputs + count,
                     [&](const Body* x) { return may_give_marks(context, *x); });
}

RecordId ResultMarks::together() const {
  if (marks_.size() == 0) return {};
  if (marks_.size() == 1) return marks_[0];
  Marks marks(marks_.data(), marks_.data() + marks_.size());
  const auto reel_of = [](RecordId mark) { return without_flags(mark).reel; };
  std::sort(marks.begin(), marks.end(), [&](auto a, auto b) { return reel_of(a) < reel_of(b); });
  const Locked held(Lock::contexts);
  return listed(std::move(marks));
}

void ResultMarks::add(RecordId mark) {
  const RecordId b = without_flags(mark);
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    const RecordId a = without_flags(marks_[i]);
    if (Reel::number_of(a.reel) != Reel::number_of(b.reel)) continue;
    if (a.reel != b.reel || a.record != b.record) {
      // The newest one names those before it too.
      if (a.reel < b.reel || (a.reel == b.reel && a.record < b.record)) marks_[i] = mark;
      marks_[i].reel |= and_before;
    }
    marks_[i].reel |= mark.reel & and_before;
    return;
  }
  marks_.push_back(mark);
}

void ResultMarks::add_live(RecordId mark) {
  if (!is_set(mark)) {
    if (is_live(mark)) add(mark);
    return;
  }
  const auto found = mark_sets().sets.find(set_of(mark));
  if (found == mark_sets().sets.end()) return;  // its tapes have ended
  for (const RecordId each : *found->second)
    if (is_live(each)) add(each);
}

void ResultMarks::read(Context& context, const Body& x, std::string_view op, Caller caller) try {
  if (!is_floating(x.dtype) || !may_give_marks(context, x)) return;
  const Locked held(Lock::contexts);
  const RecordId id = id_of(x);
  if (x.owner && is_mark(*x.owner)) add_live(x.owner->id);
  if (is_mark(x)) add_live(id);
  for (const FlowReel* other = first_reel(); other; other = other->next) {
    const std::uint64_t number = other->live_number();
    if (other == context.reel || !number) continue;
    if (number == Reel::number_of(id.reel))
      add({id.reel | mark_bit, id.record, number_of(op, caller)});
    if (!may_be_watched(x)) continue;
    for (const Reel::Watched& watched : other->watched_tensors())
      if (watched.body == &x) add({watched.reel | mark_bit, watched.record, number_of(op, caller)});
  }
  if (marks_.size() == 0) return;
  ++context.marked_reads;
  for (const FlowReel* each = first_reel(); each; each = each->next)
    if (each->flow) each->flow->set_watchful();
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

int ResultMarks::followed(const Context& context, std::uint64_t tapes) const {
  for (std::size_t i = 0; tapes && i < marks_.size(); ++i) {
    const bool before = marks_[i].reel & and_before;
    if (context.reel->is_followed(without_flags(marks_[i]), before, tapes))
      return static_cast<int>(i);
  }
  return -1;
}
void ResultMarks::check(const Context& context, std::uint64_t tapes, std::string_view op,
                        std::string_view argument, Caller caller) const {
  const int place = followed(context, tapes);
  if (place < 0) return;
  fail<TapeError>(caller, op, argument, "a value that this thread computed",
                  "one that another thread computed from a tensor of the tape, by " +
                      text_of(marks_[static_cast<std::size_t>(place)].output),
                  argument == "x" || argument == "y"
                      ? "stop_gradient(" + Text(argument) + ") makes a constant of it."
                      : "stop_gradient() makes a constant of it.");
}

void ResultMarks::use(Context& context, const Op& op, int argument, const Body* x, Caller caller) {
  read(context, *x, op.name, caller);
  const std::uint64_t tapes = context.reel->active;
  if (*this && followed(context, tapes) >= 0)
    check(context, tapes, op.name, argument_name(op, argument).view(), caller);
}

void ResultMarks::mark(Context& context, Tensor& result, Caller caller) const {
  Body* body = Access::body(result);
  if (!*this || !is_floating(body->dtype)) return;
  const RecordId own = id_of(*body), mark = together();
  const bool recorded = context.reel->made(own);
  if (body->owner && is_mark(*body->owner) && body->owner->id.reel == mark.reel &&
      body->owner->id.record == mark.record &&
      (!is_set(mark) || body->owner->id.output == mark.output))
    return;  // a view of a value with this mark
  if (!recorded && references(*body) == 1) {
    body->id = mark;
    return;
  }
  if (body->owner || references(*body) > 1) {
    result = contiguous_copy(*body, caller);
    body = Access::body(result);
  }
  body->id = mark;
  if (!recorded) return;
  Body* const header = allocate_view(context, body);
  if (!header)
    fail<MemoryError>(caller, "view", "result", "memory for a header", "none from the system");
  header->id = own;
  result = Access::adopt(header);
}

void unmark(Tensor& result) {
  const Body& body = *Access::body(result);
  if (body.owner && is_mark(*body.owner)) result = contiguous_copy(body);
}
}  // namespace reel
