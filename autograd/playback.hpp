// SPDX-License-Identifier: BSD-3-Clause
// Goes backward through the records of a reel for one tape ("plays" them): a loop from the target
// down, without recursion.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include <reel/tape.hpp>

#include "autograd/deferred.hpp"
#include "autograd/gradient_call.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/gate/marks.hpp"
#include "lib/table/passes.hpp"

namespace reel {
// Glossary. A *value* is one output of a record, numbered through the reel. Its *slot* gathers the
// gradient of the target with respect to it. A *request* is a source that asks for that gradient.
// *Wanted* inputs of a record are those that the tape follows, leaves only if requested.
class Playback {
 public:
  /// For the records from `target` down to `start`. `marks` gets the marks of tensors that
  /// gradient functions return.
  Playback(Context& context, ResultMarks& marks, std::uint64_t tape, std::uint32_t start,
           std::uint32_t target, bool keeps_saved, Caller caller);

  /// Call it before playing: the gradient of this value must stay in its slot.
  void request(std::uint32_t value) {
    if (Slot* slot = slot_of(value)) ++slot->requests;
  }
  /// Leaves that are not sources get no gradient.
  void ignore_other_leaves();
  /// `dy` is the gradient that the target's `value` starts with.
  void begin(std::uint32_t value, Tensor dy) { slot_of(value)->gradient = std::move(dy); }
  /// Plays the remaining records, and adds the deferred products.
  void play_rest();
  /// For each value, the first record that used it; no_record if none of the tape did.
  std::vector<std::uint32_t> first_uses() const;
  /// The first use of a value that takes part; for the target itself, the number after the target.
  std::uint32_t first_use_of(std::uint32_t value, const std::vector<std::uint32_t>& uses) const;
  /// From now on no product is deferred: each record adds all its gradients when it is played.
  void add_at_once() { at_once_ = true; }
  /// The gradient so far; undefined if there is none, or if it was put aside.
  const Tensor& gradient_of(std::uint32_t value) const {
    return slots_[value - first_value_].gradient;
  }
  /// Plays the records from the next one down to this one.
  void play_down_to(std::uint32_t record);
  /// Adds the deferred products to the gradient of a value that no remaining record uses. Returns
  /// false if an interceptor must see them at the end.
  bool add_deferred(std::uint32_t value);
  /// Call it after playing, or when the gradient is complete: adds the requested gradient, if there
  /// is one, to `to`. The gradient stays in its slot if it `is_needed` by further records.
  void take_requested(std::uint32_t value, Tensor& to, bool is_needed = false);

  Tensor& input_slot(const Record& record, int i) {
    return slots_[record.inputs[i].value - first_value_].gradient;
  }
  bool wants(const Record& record, int i) const {
    return wanted_ >> (i < 63 ? i : 63) & 1 && (i < 63 || follows(record.inputs[i]));
  }
  void add(Tensor& slot, Tensor dx) {
    if (!slot.defined())
      slot = std::move(dx);
    else
      add_another(slot, std::move(dx));
  }
  /// Adds the result of an op directly to the slot. Returns false if that is not possible.
  bool add_in_place(Tensor& slot, Op& op, std::initializer_list<Operand> inputs,
                    OptionsView options);
  /// Adds the product a b of matrices, which may be transposed. Returns false if a tape or an
  /// interceptor must see ops.
  bool add_product(Tensor& slot, const Body& a, Transposed a_transposed, const Body& b,
                   Transposed b_transposed);
  /// For z = x y (+ bias): defers the gradients of y and bias. Returns false if they are not
  /// deferred.
  bool defer_product(const Record& record, const Tensor& x, const Tensor& dz);
  /// The gradient before a pointwise op of one input that made the record's output from a value
  /// that was not kept. Undefined if a tape or an interceptor must see ops, or if the pass of this
  /// op does not fit.
  Tensor step_before(const Record& record, const Op& op);
  /// Throws TapeError if a requested value leads to this input, which the record does not list.
  [[gnu::cold]] void require_no_request(const Record& record, int input);
  const Tensor& dy(int output) const { return dy_[output].gradient; }
  /// Whether another tape, or an interceptor that does not take gradients, must see ops.
  bool listened() const { return watched_ & 1; }
  /// Notes that a gradient function has returned x.
  void use(const Record& record, int input, const Tensor& x) {
    if (context_.is_watchful())
      marks_.use(context_, *record.op, input, Access::body(x), record.caller());
  }
  /// Whether x's elements may be overwritten: nothing else uses them, and no interceptor has seen
  /// them.
  bool writable(const Tensor& x) const { return owned(x) && !context_.path_mode(); }

 private:
  static bool owned(const Tensor& x) {
    const Body* body = Access::body(x);
    return body && unshared(*body) && body->contiguous;
  }
  /// The bodies that the passes of a record's gradient read: dy, and the saved inputs and output.
  struct TileValues {
    const void* of[4] = {};
    const Body* bodies[4] = {};
    unsigned scalars = 0;
  };
  struct Slot {
    Tensor gradient;
    static constexpr std::uint32_t ignored = ~std::uint32_t{0};
    std::uint32_t requests = 0;
    std::uint32_t deferred = 0;  // 1 + the number of the product that is still to be added
    std::uint32_t added = 0;     // to this gradient, since it was last put aside
    std::uint32_t aside = 0;     // 1 + the number of the sums that were put aside
  };
  /// This number of gradients is added to one sum. These sums are then added in pairs, so that
  /// rounding errors stay small.
  static constexpr std::uint32_t most_added = 32;
  /// Call it before one more gradient is added to the slot. Returns whether the slot has a gradient
  /// already.
  [[gnu::always_inline]] bool expect(Slot& slot) {
    if (!slot.gradient.defined()) return false;
    if (++slot.added != most_added) [[likely]]
      return true;
    put_aside(slot);
    return false;
  }
  [[gnu::cold, gnu::noinline]] void put_aside(Slot& slot);
  [[gnu::cold, gnu::noinline]] void take_back(Slot& slot);
  /// Null for a value that came after the target.
  Slot* slot_of(std::uint32_t value) {
    return value - first_value_ < slots_.size() ? &slots_[value - first_value_] : nullptr;
  }
  bool follows(const InputSlot& input) const {
    if (!input.tracked || input.record < start_ || !has_floating_bit(input.dtype)) return false;
    if (input.followed) return true;
    const Record& made = (*context_.reel)[input.record];
    return (made.tapes | made.watchers) & tape_;
  }
  void add_another(Tensor& slot, Tensor dx);
  bool add_in_place(Tensor& slot, const Tensor& dx);
  template <bool hooked>
  bool add_to(Tensor& slot, const Tensor& dx);
  /// Calls the kernel for the gradient of input i alone.
  static Part part_of(int i) { return i == 0 ? Part::gradient_0 : Part::gradient_1; }
  void play_part(const Record& record, int i, const Kernels& kernels, const TileValues& values,
                 Tensor& slot, bool last);
  std::uint32_t deferred_bias(const Record& record, std::uint32_t product);
  void run_deferred(DeferredProduct& product);
  void add_to_matrix(const DeferredProduct& product, const DeferredProduct::Rows& rows);
  void add_to_bias(const DeferredProduct& product, const DeferredProduct::Rows& rows);
  bool is_wanted(const InputSlot& input) const {
    return follows(input) && slots_[input.value - first_value_].requests != Slot::ignored;
  }
  void find_wanted(const Record& record);
  void play_records(std::uint32_t end);
  [[gnu::cold, gnu::noinline]] void tell_record(const Record& record);
  void play_record(Record& record);
  bool play_alike(Record& record);
  void let_go(Record& record);
  static bool has_broadcast_factor(const Record& record);
  void play_pointwise(const Record& record, const Kernels& kernels);
  template <bool hooked>
  bool play_neighbours(const Record& record, int i, const Kernels& kernels, TileValues& values,
                       bool last);
  void read_values(const Record& record, const Body& dy, TileValues& values);
  const Body* spread(const Body& body, const Shape& shape);
  const Body* in_order(const Body& body);
  /// Notifies observers that a kernel of the record's gradient has run.
  void tell_gradient_end(const GateCall& call);
  void play_fused(Record& record, Device device);

  Context& context_;
  ResultMarks& marks_;
  std::uint64_t tape_;
  std::uint32_t start_, target_, first_value_;
  std::uint32_t played_;  // the last record that was
  bool keeps_saved_;
  std::uint8_t watched_;  // 1: listened(); 2: an observer watches records
  bool at_once_ = false;
  bool only_played_ = false;  // no other code has run since an observer was told of a kernel
  Caller caller_;
  // The inputs of the current record whose gradients are still to be computed, a bit for each (bit
  // 63: all from there on); and those of them whose slots were empty.
  std::uint64_t wanted_ = 0, fresh_ = 0;
  Slot* dy_ = nullptr;             // slots of that record's outputs
  SmallVector<Tensor, 4> copies_;  // made for that record
  SmallVector<Slot, 16> slots_;
  std::vector<DeferredProduct> deferred_;
  // Records from start_ on that a requested value leads to; made when it is asked for.
  std::unique_ptr<std::vector<bool>> led_to_;
  std::vector<std::vector<Tensor>> aside_;  // sums of 2^i times most_added gradients
};
}  // namespace reel
