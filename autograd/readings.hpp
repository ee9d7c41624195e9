// SPDX-License-Identifier: BSD-3-Clause
// What a function reads of what tapes follow: the inputs of a record that stands for the function.
#pragma once
#include <algorithm>
#include <vector>

#include <reel/tape.hpp>

#include "lib/flow/redirect.hpp"
#include "lib/gate/gate.hpp"

namespace reel {
/// A value that a function reads: input i of its record. A Variable's has the Variable.
struct Reading {
  Tensor value;
  std::vector<Variable> variable;  // one or none
  bool is_own = false;             // the Variable's own value, not one in its place
  int writes = 0;                  // of the Variable before this read
};
inline bool is_of(const Reading& reading, const Variable& variable, int writes) {
  return reading.variable.size() && reading.writes == writes &&
         reading.variable[0].same_cell(variable);
}

/// While it lives, notes the Variables that ops read, and the tensors that the tapes follow which
/// recorded when it was made.
class Readings : public Redirect {
 public:
  Readings(Context& context, std::vector<Reading>& found)
      : context_(context), found_(found), tapes_(context.reel->active) {}
  Operand read(const Operand& x) override try {
    const Operand given = Redirect::read(x);
    if (given.kind() == Operand::Kind::scalar) return given;
    if (x.kind() == Operand::Kind::variable)
      note(x.variable(), given);
    else if (Body* body = body_of(given); body && is_tracked(*body) && !knows(*body))
      add({Access::share(body), {}});
    return given;
  } catch (const std::bad_alloc&) {  // of an op in a user's function
    fail_memory(x.caller(), "gradient");
  }

 protected:
  virtual void add(Reading reading) { found_.push_back(std::move(reading)); }
  /// How often the function has written a Variable so far.
  virtual int written(const Variable&) { return 0; }

 private:
  void note(const Variable& variable, const Operand& given) {
    const int writes = written(variable);
    for (const Reading& reading : found_)
      if (is_of(reading, variable, writes)) return;
    const bool is_own = given.kind() == Operand::Kind::variable;
    add({is_own ? own_value(context_, variable) : given.tensor(), {variable}, is_own, writes});
  }
  bool is_tracked(const Body& body) const {
    Reel& reel = *context_.reel;
    for (const std::uint32_t record : {reel.find(body), reel.find(id_of(body))})
      if (record != no_record && (reel[record].tapes | reel[record].watchers) & tapes_) return true;
    return false;
  }
  bool knows(const Body& body) const {
    return std::any_of(found_.begin(), found_.end(),
                       [&](const Reading& each) { return Access::body(each.value) == &body; });
  }
  Context& context_;
  std::vector<Reading>& found_;
  std::uint64_t tapes_;
};

/// Readings that a tape watches: that of a piece of code which other tapes see as one op.
class WatchedReadings : public Readings {
 public:
  using Readings::Readings;
  void watch_with(GradientTape& tape, Caller caller) {
    tape_ = &tape;
    caller_ = caller;
  }

 private:
  void add(Reading reading) override {
    const Tensor value = reading.value;
    const bool watches = !reading.is_own && is_floating(value.dtype());
    Readings::add(std::move(reading));
    if (watches) tape_->watch(value, caller_);  // which reads it again
  }
  GradientTape* tape_ = nullptr;
  Caller caller_;
};

/// The gradients of several results at once, whose own gradients are `given`; zeros where nothing
/// depends on a source. The tape is persistent.
std::vector<Tensor> gradients_of(GradientTape& tape, const std::vector<Tensor>& results,
                                 const std::vector<Tensor>& given,
                                 const std::vector<GradientSource>& sources, Caller caller);
}  // namespace reel
