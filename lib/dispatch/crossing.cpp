// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dispatch/crossing.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/dispatch/call_kernel.hpp"
#include "lib/dispatch/gate.hpp"
#include "lib/dispatch/process.hpp"

namespace reel {
namespace {
/// A line that read a tensor of another thread's tape. Marks have its number.
struct Reader {
  std::string op;
  Caller site;
};
/// Behind Lock::contexts. As many as the program has lines that read such tensors.
std::vector<Reader>& readers() {
  static constinit std::vector<Reader>* all = nullptr;  // outlives every static
  if (!all) all = new std::vector<Reader>;
  return *all;
}
std::uint32_t number_of(std::string_view op, Caller site) try {
  std::vector<Reader>& all = readers();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Reader& reader) {
    return reader.site.file == site.file && reader.site.line == site.line && reader.op == op;
  });
  if (found != all.rend()) return static_cast<std::uint32_t>(all.rend() - found - 1);
  all.push_back({std::string(op), site});
  return static_cast<std::uint32_t>(all.size() - 1);
} catch (const std::bad_alloc&) {
  fail_memory(site, op);
}

std::string text_of(std::uint32_t number) {
  const Locked held(Lock::contexts);
  const Reader& reader = readers()[number];
  if (!reader.site.file) return reader.op;
  const std::string_view file(reader.site.file);
  return reader.op + " (" + std::string(file.substr(file.rfind('/') + 1)) + ":" +
         std::to_string(reader.site.line) + ")";
}

RecordId without_flags(RecordId mark) {
  mark.reel &= ~(crossed | and_before);
  return mark;
}
/// Whether a tape may follow what the mark names; behind Lock::contexts.
bool is_live(const Context& own, RecordId mark) {
  const RecordId id = without_flags(mark);
  const std::uint64_t number = Reel::number_of(id.reel);
  if (number && number == own.reel.live_number())
    return mark.reel & and_before || own.reel.made(id);
  for (const Context* context = first_context(); context; context = context->next)
    if (number ? context->reel.live_number() == number : context->reel.was_live(id.record))
      return true;
  return false;
}
}  // namespace

bool detours(const Context& context, const Body* const* inputs, int count) {
  bool more = context.mode & ~recording;
  for (int i = 0; i < count; ++i) more = more || may_cross(context, *inputs[i]);
  return more;
}

RecordId Crossings::together() const {
  if (count_ == 1) return marks_[0];
  return {crossed | and_before, Reel::openings(), marks_[0].output};
}

void Crossings::add(RecordId mark) {
  const RecordId b = without_flags(mark);
  for (int i = 0; i < count_; ++i) {
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
  if (count_ < 2) {
    marks_[count_++] = mark;
    return;
  }
  marks_[0] = together();
  count_ = 1;
}

void Crossings::read(Context& context, const Body& x, std::string_view op, Caller site) {
  if (!is_floating(x.dtype) || !may_cross(context, x)) return;
  const Locked held(Lock::contexts);
  const RecordId id = id_of(x);
  if (x.owner && is_mark(*x.owner) && is_live(context, x.owner->id)) add(x.owner->id);
  if (is_mark(x)) {
    if (is_live(context, id)) add(id);
  } else if (id.reel) {
    const bool is_own = context.reel.leaf_of(x) != no_record;
    for (Context* other = first_context(); other; other = other->next) {
      const std::uint64_t number = other->reel.live_number();
      if (other == &context || !number) continue;
      if (number == Reel::number_of(id.reel))
        add({id.reel | crossed, id.record, number_of(op, site)});
      for (const Reel::Watched& watched : other->reel.watched_tensors())
        if (watched.body == &x && !is_own)
          add({watched.reel | crossed, watched.record, number_of(op, site)});
    }
  }
  if (count_ == 0) return;
  ++context.crossings;
  for (Context* each = first_context(); each; each = each->next) each->set_watchful();
}

void Crossings::check(const Context& context, std::uint64_t tapes, std::string_view op,
                      const std::string& argument, Caller site) const try {
  if (!tapes) return;
  for (int i = 0; i < count_; ++i) {
    const bool before = marks_[i].reel & and_before;
    if (!context.reel.is_followed(without_flags(marks_[i]), before, tapes)) continue;
    fail<TapeError>(site, op, argument, "a value that this thread computed",
                    "one that another thread computed from a tensor of the tape, by " +
                        text_of(marks_[i].output),
                    "stop_gradient(x) makes a constant of it.");
  }
} catch (const std::bad_alloc&) {
  fail_memory(site, op);
}

void Crossings::use(Context& context, const Op& op, int argument, const Body* x, Caller site) {
  read(context, *x, op.name, site);
  if (count_) check(context, context.reel.active, op.name, argument_name(op, argument), site);
}

void Crossings::mark(Context& context, Tensor& result, Caller site) const {
  Body* body = Access::body(result);
  if (!count_ || !is_floating(body->dtype)) return;
  const RecordId own = id_of(*body);
  const bool recorded = context.reel.made(own);
  const RecordId first = recorded ? together() : marks_[0];
  const bool two = !recorded && count_ == 2;
  if (body->owner && is_mark(*body->owner) && !two && body->owner->id.reel == first.reel &&
      body->owner->id.record == first.record)
    return;  // a view of a value with this mark
  if (!recorded && !two && references(*body) == 1) {
    body->id = first;
    return;
  }
  if (body->owner || references(*body) > 1) {
    result = contiguous_copy(*body);
    body = Access::body(result);
  }
  body->id = first;
  if (!recorded && !two) return;
  Body* const header = allocate_view(context, body);
  if (!header)
    fail<MemoryError>(site, "view", "result", "memory for a header", "none from the system");
  header->id = recorded ? own : marks_[1];
  result = Access::adopt(header);
}

void Crossings::mark_value(Body& value) const { value.id = count_ ? together() : RecordId{}; }

void unmark(Tensor& result) {
  const Body& body = *Access::body(result);
  if (body.owner && is_mark(*body.owner)) result = contiguous_copy(body);
}
}  // namespace reel
