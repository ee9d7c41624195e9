// SPDX-License-Identifier: BSD-3-Clause
// Loops in replays: each trip is a replay of the loop's own plan.
#include <algorithm>
#include <cstring>

#include "lib/gate/call_kernel.hpp"
#include "lib/trace/loop.hpp"
#include "lib/trace/replay.hpp"

namespace reel::tracing {
class Replay::Trips {
 public:
  Trips(Replay& outer, const Instruction& instruction)
      : outer_(outer),
        planned_(*static_cast<const PlannedLoop*>(instruction.loop)),
        loop_(*planned_.loop),
        inputs_(outer.plan_.operands.data() + instruction.first),
        outputs_(inputs_ + instruction.input_count),
        count_(instruction.input_count),
        rows_(loop_.arrays) {}

  void run() {
    const int* input = inputs_;
    if (loop_.gradient) {
      const auto& stacks = outer_.frame_->stacks;
      stack_ = &*std::find_if(stacks.begin(), stacks.end(),
                              [&](const Frame::LoopStack& each) { return each.count == *input; });
      input += loop_.first_state();
    }
    for (std::size_t i = 0; i < loop_.states; ++i)
      state_.push_back(own(*input++, i < planned_.owned.size() && planned_.owned[i]));
    for (std::size_t i = 0; i < loop_.arrays; ++i) {
      const bool kept = is_kept(loop_.states + i);
      arrays_.push_back(kept ? own(*input) : Tensor());
      array_bodies_.push_back(kept ? Access::body(arrays_[i]) : outer_.slot(*input));
      ++input;
    }
    others_ = input;
    if (loop_.arrays) total_ = array_bodies_[0]->shape.data()[0];
    if (stack_) total_ = static_cast<std::int64_t>(stack_->trips.size());
    if (loop_.once) total_ = 1;
    for (std::size_t i = 0; i < loop_.made; ++i)
      made_.push_back(made_for(outer_.context_, layout(outputs_[loop_.results + i])));
    Frame::LoopStack grown{loop_.counts ? outputs_[loop_.results + loop_.made] : -1, {}};
    bool goes_on = true;
    for (std::int64_t i = 0; goes_on && (total_ < 0 || i < total_); ++i) {
      goes_on = trip(i, grown);
      trips_ += goes_on;
      // The function runs, and throws.
      if (loop_.most && goes_on && total_ < 0 && i == loop_.most) fail_unknown();
    }
    finish(std::move(grown));
  }

 private:
  const Layout& layout(int value) const {
    return outer_.plan_.tree.values[static_cast<std::size_t>(value)].layout;
  }
  bool is_kept(std::size_t argument) const {
    return argument < planned_.kept.size() && planned_.kept[argument];
  }
  /// A value in a tensor that outlives the instruction, and is written by trips where it is
  /// `apart`.
  Tensor own(int value, bool apart = false) const {
    Body* const body = outer_.slot(value);
    if (!apart && body != &outer_.frame_->headers[static_cast<std::size_t>(value)])
      return Access::share(body);
    Tensor copy = contiguous_copy(*body);
    Access::body(copy)->device_kind = body->device_kind;  // it may be a live number
    return copy;
  }
  void set_row(std::size_t array, std::int64_t i) {
    const Body& whole = *array_bodies_[array];
    Body* row = &rows_[array];
    if (arrays_[array].defined()) {
      row_views_.push_back(Access::adopt(allocate_view(outer_.context_, array_bodies_[array])));
      if (!row_views_.back().defined()) fail_memory({}, "trace");
      row = Access::body(row_views_.back());
    } else {
      *row = whole;
      row->references = 1;
    }
    std::int64_t lengths[Shape::max_rank] = {}, elements = 1;
    for (int axis = 1; axis < whole.rank(); ++axis)
      elements *= lengths[axis - 1] = whole.shape.data()[axis];
    row->shape =
        Shape(std::span<const std::int64_t>(lengths, static_cast<std::size_t>(whole.rank() - 1)));
    row->elements = elements;
    set_row_major(*row);
    row->data = whole.data + i * elements * size_of(whole.dtype);
    row_bodies_.push_back(row);
  }

  /// Does trip number i. Gives whether another may follow.
  bool trip(std::int64_t i, Frame::LoopStack& grown) {
    const std::int64_t at = loop_.reverse ? total_ - 1 - i : i;
    const Frame::LoopStack::Trip* const forward =
        stack_ ? &stack_->trips[static_cast<std::size_t>(total_ - 1 - i)] : nullptr;
    Plan* plan = nullptr;
    for (const auto& [segment, each] : planned_.trips)
      if (!forward || segment == forward->segment) plan = each.get();
    if (!plan) fail_unknown();
    Replay replay(outer_.context_, *plan);
    replay.position_ = outer_.position_;
    std::size_t argument = 0;
    for (const Tensor& x : state_) replay.argument(argument++, Access::body(x));
    row_bodies_.clear();
    row_views_.clear();
    for (std::size_t array = 0; array < loop_.arrays; ++array) {
      set_row(array, at);
      replay.argument(argument++, row_bodies_[array]);
    }
    if (forward)
      for (const Tensor& x : forward->kept) replay.argument(argument++, Access::body(x));
    for (const int* other = others_; other < inputs_ + count_; ++other)
      replay.argument(argument, other_body(*other, argument)), ++argument;
    const Ending* const end = replay.run();
    if (!end) fail_unknown();
    outer_.position_ = replay.position_;
    const std::vector<int>& results = plan->tree.segments[end->segment].results;
    const bool stops = !loop_.gradient && loop_.stops[end->segment];
    std::vector<Tensor> next;  // which may be tensors of the state
    std::size_t result = 0;
    for (; result < loop_.results; ++result) next.push_back(replay.result(results[result]));
    state_.swap(next);
    for (std::size_t k = 0; k < loop_.made && !(stops && !loop_.once); ++k)
      put(made_[k], at, replay.result(results[result++]));
    if (loop_.counts && (!stops || loop_.once)) {
      Frame::LoopStack::Trip kept{static_cast<int>(end->segment), {}};
      for (; result < results.size(); ++result) kept.kept.push_back(replay.result(results[result]));
      grown.trips.push_back(std::move(kept));
    }
    return !stops;
  }
  Body* other_body(int value, std::size_t argument) {
    if (!is_kept(argument)) return outer_.slot(value);
    outer_.frame_->kept.push_back(own(value));
    return Access::body(outer_.frame_->kept.back());
  }
  static void put(const Tensor& rows, std::int64_t at, const Tensor& row) {
    const Body& from = *Access::body(row);
    const auto bytes = static_cast<std::size_t>(from.bytes());
    if (bytes)
      std::memcpy(Access::body(rows)->data + static_cast<std::size_t>(at) * bytes, from.data,
                  bytes);
  }
  /// Then the function runs, and the path is captured.
  [[noreturn]] static void fail_unknown() { throw Error("a trip of a loop took another path"); }

  void finish(Frame::LoopStack grown) {
    const auto give = [&](int output, Tensor x) {
      outer_.slot_of(output) = Access::body(x);
      outer_.frame_->kept.push_back(std::move(x));
    };
    for (std::size_t i = 0; i < loop_.results; ++i) give(outputs_[i], std::move(state_[i]));
    for (std::size_t i = 0; i < loop_.made; ++i)
      give(outputs_[loop_.results + i], std::move(made_[i]));
    if (!loop_.counts) return;
    Tensor count = made_for(outer_.context_, layout(grown.count));
    *Access::body(count)->as<std::int64_t>() = trips_;
    give(grown.count, std::move(count));
    outer_.frame_->stacks.push_back(std::move(grown));
  }

  Replay& outer_;
  const PlannedLoop& planned_;
  const Loop& loop_;
  const int *inputs_, *outputs_, *others_ = nullptr;
  std::size_t count_;
  const Frame::LoopStack* stack_ = nullptr;
  std::vector<Tensor> state_, arrays_, made_, row_views_;
  std::vector<Body*> array_bodies_, row_bodies_;
  std::vector<Body> rows_;  // headers of the rows that trips do not keep
  std::int64_t total_ = -1, trips_ = 0;
};

void Replay::loop(const Instruction& instruction) { Trips(*this, instruction).run(); }
}  // namespace reel::tracing
