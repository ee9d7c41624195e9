// SPDX-License-Identifier: BSD-3-Clause
// Plays a reel backward for one tape: a loop over records from the target down, no recursion.
#pragma once
#include <span>
#include <vector>

#include <reel/tape.hpp>

#include "autograd/deferred.hpp"
#include "autograd/gradient_call.hpp"
#include "lib/gate/crossing.hpp"

namespace reel {
// Glossary. A *value* is one output of a record, numbered through the reel. Its *slot* gathers the
// gradient of the target with respect to it. A *request* is a source that asks for that gradient.
// *Wanted* inputs of a record are those that the tape follows, leaves only if requested.
class Playback {
 public:
  /// From record `target` down to `start`; `crossings` gets the marks of what gradient functions
  /// give.
  Playback(Context& context, Crossings& crossings, std::uint64_t tape, std::uint32_t start,
           std::uint32_t target, bool keeps_saved);

  /// Before playing: the gradient of this value is to stay in its slot.
  void request(std::uint32_t value) {
    if (Slot* slot = slot_of(value)) ++slot->requests;
  }
  /// Leaves that nobody requested get no gradient.
  void ignore_other_leaves();
  /// `dy` is the gradient that the target's `value` starts with.
  void begin(std::uint32_t value, Tensor dy) { slot_of(value)->gradient = std::move(dy); }
  /// Plays the records that are left, and adds what was put off.
  void play_rest();
  /// Of each value, the record that used it first; no_record where none of the tape did.
  std::vector<std::uint32_t> first_uses() const;
  /// The same for one value, where it takes part; behind the target for the target itself.
  std::uint32_t first_use_of(std::uint32_t value, const std::vector<std::uint32_t>& uses) const;
  /// Plays from the record that is next down to this one.
  void play_down_to(std::uint32_t record);
  /// Adds the products that were put off to the gradient of a value that no record uses which is
  /// left. False where an interceptor is to see them at the end.
  bool add_deferred(std::uint32_t value);
  /// After playing, or where it is complete: adds the requested gradient to `to`, if there is one.
  /// It stays where it `is_needed` to play on.
  void take_requested(std::uint32_t value, Tensor& to, bool is_needed = false);

  Tensor& input_slot(const Record& record, int i) {
    return slots_[record.inputs[i].value - first_value_].gradient;
  }
  bool wants(const Record& record, int i) const {
    return wanted_ >> (i < 63 ? i : 63) & 1 && (i < 63 || follows(record.inputs[i]));
  }
  void add(Tensor& slot, Tensor dx);
  /// Adds the result of an op straight to the slot; false where that cannot be.
  bool add_in_place(Tensor& slot, Op& op, std::initializer_list<Operand> inputs,
                    OptionsView options);
  /// Adds a b, of matrices that may be transposed; false where ops have to be seen.
  bool add_product(Tensor& slot, const Body& a, Transposed a_transposed, const Body& b,
                   Transposed b_transposed);
  /// For z = x y (+ bias): puts the gradients of y and bias off; false if they do not wait.
  bool defer_product(const Record& record, const Tensor& x, const Tensor& dz);
  /// The gradient in front of a pointwise op of one input that made the record's output from
  /// something that was not kept; undefined where ops have to be seen, or its pass does not fit.
  Tensor step_before(const Record& record, const Op& op);
  const Tensor& dy(int output) const { return dy_[output].gradient; }
  /// Whether someone has to see ops: another tape, or an interceptor that does not take gradients.
  bool listened() const { return listened_; }
  /// A gradient function has given x.
  void use(const Record& record, int input, const Tensor& x) {
    if (context_.is_watchful())
      crossings_.use(context_, *record.op, input, Access::body(x), record.site());
  }
  /// Whether x's elements may be overwritten: nobody else has them, and no interceptor has seen
  /// them.
  bool writable(const Tensor& x) const { return owned(x) && !context_.path_mode(); }

 private:
  static bool owned(const Tensor& x) {
    const Body* body = Access::body(x);
    return body && unshared(*body) && body->contiguous;
  }
  /// What the passes of a record's gradient read: dy, inputs and output, as far as they were saved.
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
  /// So many gradients are added to one sum; with the sums of others it is then added in pairs, so
  /// that rounding does not add up.
  static constexpr std::uint32_t most_added = 32;
  /// One more gradient is about to be added to the slot. Whether it has some already.
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
    if (!input.tracked || input.record < start_ || !is_floating(input.dtype)) return false;
    if (input.followed) return true;
    const Record& made = (*context_.reel)[input.record];
    return (made.tapes | made.watchers) & tape_;
  }
  bool add_in_place(Tensor& slot, const Tensor& dx);
  template <bool attended>
  bool add_to(Tensor& slot, const Tensor& dx);
  void play_pass_attended(const Record& record, int i, const Tiles& tiles, Tile tile,
                          const TileValues& values, Tensor& slot, bool last);
  std::uint32_t deferred_bias(const Record& record, std::uint32_t product);
  void run_deferred(DeferredProduct& product);
  void add_to_matrix(const DeferredProduct& product, const DeferredProduct::Rows& rows);
  void add_to_bias(const DeferredProduct& product, const DeferredProduct::Rows& rows);
  bool is_wanted(const InputSlot& input) const {
    return follows(input) && slots_[input.value - first_value_].requests != Slot::ignored;
  }
  void find_wanted(const Record& record);
  void play_records(std::uint32_t end);
  void play_record(Record& record);
  bool play_alike(Record& record);
  void let_go(Record& record);
  void play_pointwise(const Record& record, const Tiles* tiles);
  bool play_neighbours(const Record& record, int i, const Tiles* tiles, TileValues& values,
                       bool last);
  void read_values(const Record& record, const Body& dy, TileValues& values);
  const Body* spread(const Body& body, const Shape& shape);
  const Body* in_order(const Body& body);
  /// A kernel of the record's gradient has run, and somebody listens.
  [[gnu::cold]] void tell_gradient_end(const GateCall& call);
  void play_fused(Record& record, Device device);
  Device device_of_gradient(const Record& record) const;

  Context& context_;
  Crossings& crossings_;
  std::uint64_t tape_;
  std::uint32_t start_, target_, first_value_;
  std::uint32_t played_;  // the last record that was
  bool keeps_saved_, listened_;
  // Inputs of the record being played that are still to do, a bit for each (63: all from there on),
  // and those of them whose slots were empty.
  std::uint64_t wanted_ = 0, fresh_ = 0;
  Slot* dy_ = nullptr;             // slots of that record's outputs
  SmallVector<Tensor, 4> copies_;  // made for that record
  SmallVector<Slot, 16> slots_;
  std::vector<DeferredProduct> deferred_;
  std::vector<std::vector<Tensor>> aside_;  // sums of 2^i times most_added gradients
};
}  // namespace reel
