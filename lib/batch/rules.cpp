// SPDX-License-Identifier: BSD-3-Clause
#include "lib/batch/rules.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <reel/ops.hpp>

#include "lib/gate/gate.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/join.hpp"
#include "lib/table/options/reduce.hpp"
#include "lib/table/options/reshape.hpp"
#include "lib/table/options/scan.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel::batch {
namespace {
using Lengths = SmallVector<std::int64_t, 2 * Shape::max_rank>;
using Outputs = SmallVector<Tensor, 2>;

Shape shape_of(std::initializer_list<std::int64_t> lengths, Caller caller) {
  return Shape(std::span<const std::int64_t>(lengths.begin(), lengths.size()), caller);
}
Shape shape_of(const Lengths& lengths, Caller caller) {
  return Shape(std::span<const std::int64_t>(lengths.data(), lengths.size()), caller);
}
/// The shape with one more axis in front.
Shape under(std::int64_t count, const Shape& shape, Caller caller) {
  Lengths lengths;
  lengths.push_back(count);
  for (const std::int64_t length : shape) lengths.push_back(length);
  return shape_of(lengths, caller);
}
/// Axes of one call as axes of all of them.
std::vector<int> behind_first(const Axes& axes, int rank) {
  std::vector<int> moved;
  if (axes.is_every())
    for (int i = 0; i < rank; ++i) moved.push_back(i + 1);
  else
    for (int i = 0; i < axes.count(); ++i) moved.push_back(axes[i] < 0 ? axes[i] : axes[i] + 1);
  return moved;
}

class Rule {
 public:
  Rule(const Calls& calls, Outputs& outputs) : calls_(calls), outputs_(outputs) {}

  /// Returns false if there is no rule for the op, or none for these inputs.
  bool run() {
    const OptionsType* const type = calls_.options.type;
    const std::string_view name = calls_.op.name;
    if (calls_.op.random || calls_.op.composite) return false;  // a kernel of the user
    if (calls_.op.fusion == Fusion::pointwise || calls_.op.shape == broadcast ||
        name == "stop_gradient")
      return run_pointwise();
    if (type == &options_type<ReduceOptions>) return run_reduction();
    if (type == &options_type<SliceOptions>) return run_slice();
    if (name == "reshape") return run_with(ShapeOptions{with_count(option<ShapeOptions>().shape)});
    if (name == "broadcast_to") return run_broadcast();
    if (name == "sum_to") return run_sum_to();
    if (name == "transpose") return run_transpose();
    if (name == "squeeze") return run_squeeze();
    if (name == "expand_dims")
      return run_with(AxesOptions{
          Axes(behind_first(option<AxesOptions>().axes, input(0).rank()), calls_.caller)});
    if (name == "concat") return run_concat();
    if (name == "take") return run_take();
    if (name == "lookup") return run_lookup();
    if (name == "one_hot" || name == "cast") return run_as_is();
    if (name == "softmax" || name == "log_softmax")
      return run_with(AxisOptions{option<AxisOptions>().axis + 1});
    if (type == &options_type<AxisScanOptions>) return run_scan();
    if (name == "matmul") return run_matmul();
    if (name == "matmul_add" || name == "dense") return run_dense();
    if (name == "layer_norm") return run_rows(1);
    if (name == "tree_lstm_gates" || name == "tree_lstm_leaf_gates" || name == "lstm_gates" ||
        name == "child_sum_gates")
      return run_rows(static_cast<int>(calls_.inputs.size()));
    return false;
  }

 private:
  const Input& input(std::size_t i) const { return calls_.inputs[i]; }
  template <class T>
  const T& option() const {
    return *static_cast<const T*>(calls_.options.data);
  }
  Shape with_count(const Shape& shape) const { return under(calls_.count, shape, calls_.caller); }

  /// Runs the op with its operands in place of the inputs.
  bool call(const std::vector<Input>& inputs, OptionsView options) {
    SmallVector<Operand, 4> operands;
    for (const Input& each : inputs) operands.push_back(each.operand(calls_.caller));
    reel::run(calls_.op, {operands.data(), operands.size()}, options, calls_.caller, outputs_);
    return true;
  }
  bool run_as_is() { return call(calls_.inputs, calls_.options); }
  template <class T>
  bool run_with(const T& options) {
    return call(calls_.inputs, OptionsView(&options_type<T>, &options));
  }
  Tensor reshaped(const Tensor& x, const Shape& shape) const {
    return x.shape() == shape ? x : reel::reshape(Operand(x, calls_.caller), shape);
  }
  /// With axes of length 1 behind the first one, so that a call's part has this rank.
  Input lifted(const Input& x, int rank) const {
    if (!x.batched || x.rank() >= rank) return x;
    Lengths lengths;
    lengths.push_back(calls_.count);
    const Shape shape = x.shape();
    for (int i = x.rank(); i < rank; ++i) lengths.push_back(1);
    for (const std::int64_t length : shape) lengths.push_back(length);
    return {.tensor = reshaped(x.tensor, shape_of(lengths, calls_.caller)), .batched = true};
  }
  /// As many rows as calls, also of an input that all share.
  Input expanded(const Input& x) const {
    if (x.batched) return x;
    const Tensor one = x.operand(calls_.caller).value();
    return {.tensor = reel::broadcast_to(Operand(one, calls_.caller), with_count(one.shape())),
            .batched = true};
  }
  std::vector<Input> all_expanded() const {
    std::vector<Input> all;
    for (const Input& each : calls_.inputs) all.push_back(expanded(each));
    return all;
  }

  bool run_pointwise() {
    int rank = 0;
    for (const Input& each : calls_.inputs) rank = std::max(rank, each.rank());
    std::vector<Input> all;
    for (const Input& each : calls_.inputs) all.push_back(lifted(each, rank));
    return call(all, calls_.options);
  }
  bool run_reduction() {
    ReduceOptions options = option<ReduceOptions>();
    const int rank = input(0).rank();
    if (rank == 0) return reduce_numbers();
    const bool is_place = calls_.op.name == "argmax" || calls_.op.name == "argmin";
    if (is_place && options.axes.is_every() && rank > 1) return run_place(options);
    options.axes = Axes(behind_first(options.axes, rank), calls_.caller);
    return run_with(options);
  }
  /// The place of an element among all elements of a call: these ops take one axis, or all.
  bool run_place(ReduceOptions options) {
    const Keepdims keep = std::exchange(options.keep, Keepdims::no);
    const Shape shape = input(0).shape();
    Lengths kept;
    kept.push_back(calls_.count);
    for (std::size_t i = 0; i < shape.rank(); ++i) kept.push_back(1);
    const Input flat{.tensor = reshaped(input(0).tensor,
                                        shape_of({calls_.count, shape.elements()}, calls_.caller)),
                     .batched = true};
    options.axes = Axes(1);
    call({flat}, OptionsView(&options_type<ReduceOptions>, &options));
    if (keep == Keepdims::yes) outputs_[0] = reshaped(outputs_[0], shape_of(kept, calls_.caller));
    return true;
  }
  /// A reduction of single numbers: over an axis of length 1.
  bool reduce_numbers() {
    const Input one{.tensor = reshaped(input(0).tensor, shape_of({calls_.count, 1}, calls_.caller)),
                    .batched = true};
    ReduceOptions options = option<ReduceOptions>();
    options.axes = Axes(1);
    options.keep = Keepdims::no;
    return call({one}, OptionsView(&options_type<ReduceOptions>, &options));
  }
  bool run_slice() {
    const SliceOptions& one = option<SliceOptions>();
    if (one.starts.rank() + 1 > Shape::max_rank) return false;
    SliceOptions all = whole_slice(with_count(one.lengths));
    for (std::size_t i = 0; i < one.steps.rank(); ++i) {
      all.starts.data()[i + 1] = one.starts.data()[i];
      all.steps.data()[i + 1] = one.steps.data()[i];
    }
    all.dropped = one.dropped << 1;
    all.added = one.added << 1;
    return run_with(all);
  }
  bool run_broadcast() {
    const Shape& shape = option<ShapeOptions>().shape;
    const ShapeOptions options{with_count(shape)};
    return call({lifted(input(0), static_cast<int>(shape.rank()))},
                OptionsView(&options_type<ShapeOptions>, &options));
  }
  bool run_sum_to() {
    const Shape& shape = option<ShapeOptions>().shape;
    Lengths lengths;
    lengths.push_back(calls_.count);
    for (int i = static_cast<int>(shape.rank()); i < input(0).rank(); ++i) lengths.push_back(1);
    for (const std::int64_t length : shape) lengths.push_back(length);
    run_with(ShapeOptions{shape_of(lengths, calls_.caller)});
    outputs_[0] = reshaped(outputs_[0], with_count(shape));
    return true;
  }
  bool run_transpose() {
    const Axes& axes = option<AxesOptions>().axes;
    const int rank = input(0).rank();
    std::vector<int> order{0};
    if (axes.is_every())
      for (int i = rank; i > 0; --i) order.push_back(i);
    else
      for (const int axis : behind_first(axes, rank)) order.push_back(axis);
    return run_with(AxesOptions{Axes(order, calls_.caller)});
  }
  bool run_squeeze() {
    const Axes& axes = option<AxesOptions>().axes;
    std::vector<int> dropped;
    const Shape shape = input(0).shape();
    if (axes.is_every()) {
      for (int i = 0; i < input(0).rank(); ++i)
        if (shape.data()[i] == 1) dropped.push_back(i + 1);
    } else {
      dropped = behind_first(axes, input(0).rank());
    }
    return dropped.empty() ? (outputs_.push_back(input(0).tensor), true)
                           : run_with(AxesOptions{Axes(dropped, calls_.caller)});
  }
  bool run_concat() {
    const AxisOptions options{option<AxisOptions>().axis + 1};
    return call(all_expanded(), OptionsView(&options_type<AxisOptions>, &options));
  }
  bool run_take() {
    const std::int64_t axis = option<AxisOptions>().axis;
    if (input(0).batched && input(1).batched) return false;
    if (input(0).batched) return run_with(AxisOptions{axis + 1});
    return axis == 0 && run_as_is();
  }
  bool run_lookup() { return !input(0).batched && run_as_is(); }
  bool run_scan() {
    AxisScanOptions options = option<AxisScanOptions>();
    options.axis += 1;
    return run_with(options);
  }

  /// The calls' rows below each other: [count * rows, ...]. Input i is a matrix, or all share it.
  bool run_rows(int matrices) {
    std::vector<Input> all;
    std::int64_t rows = -1;
    for (int i = 0; i < static_cast<int>(calls_.inputs.size()); ++i) {
      const Input& each = input(static_cast<std::size_t>(i));
      if (i >= matrices && each.batched) return false;
      all.push_back(i < matrices ? expanded(each) : each);
      if (i >= matrices) continue;
      const Shape shape = all.back().shape();
      if (shape.rank() < 2) {
        if (shape.rank() == 0 || matrices > 1) return false;
        continue;
      }
      rows = shape.data()[0];
      Lengths merged;
      merged.push_back(calls_.count * rows);
      for (std::size_t k = 1; k < shape.rank(); ++k) merged.push_back(shape.data()[k]);
      all.back().tensor = reshaped(all.back().tensor, shape_of(merged, calls_.caller));
    }
    call(all, calls_.options);
    if (rows < 0) return true;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      Lengths lengths;
      lengths.push_back(calls_.count);
      lengths.push_back(rows);
      const Shape made = outputs_[i].shape();
      for (std::size_t k = 1; k < made.rank(); ++k) lengths.push_back(made.data()[k]);
      outputs_[i] = reshaped(outputs_[i], shape_of(lengths, calls_.caller));
    }
    return true;
  }

  /// x y where all share the matrix y: the rows of all x below each other.
  bool run_with_shared_matrix() {
    std::vector<Input> all = calls_.inputs;
    const Shape x = input(0).shape();
    std::int64_t rows = calls_.count;
    Lengths lengths;
    lengths.push_back(calls_.count);
    for (std::size_t i = 0; i + 1 < x.rank(); ++i) {
      rows *= x.data()[i];
      lengths.push_back(x.data()[i]);
    }
    all[0].tensor =
        reshaped(all[0].tensor, shape_of({rows, x.data()[x.rank() - 1]}, calls_.caller));
    if (all.size() > 2 && all[2].batched) {  // a row of it for each row of x
      lengths.push_back(input(1).shape().data()[1]);
      const Tensor bias = lifted(all[2], static_cast<int>(x.rank())).tensor;
      all[2].tensor = reshaped(
          reel::broadcast_to(Operand(bias, calls_.caller), shape_of(lengths, calls_.caller)),
          shape_of({rows, lengths[lengths.size() - 1]}, calls_.caller));
      call(all, calls_.options);
      outputs_[0] = reshaped(outputs_[0], shape_of(lengths, calls_.caller));
      return true;
    }
    call(all, calls_.options);
    lengths.push_back(outputs_[0].shape().data()[1]);
    outputs_[0] = reshaped(outputs_[0], shape_of(lengths, calls_.caller));
    return true;
  }
  bool run_matmul() {
    const int left = input(0).rank(), right = input(1).rank();
    if (left < 1 || right < 1) return false;  // the op says why
    if (!input(1).batched && right == 2) return run_with_shared_matrix();
    // Vectors as matrices, and as many axes in front of both.
    const int rank = std::max({left, right, 2});
    const auto matrices = [&](const Input& x, bool column) {
      Input given = x;
      if (!x.batched && x.rank() >= 2) return given;
      if (x.rank() == 1) {
        const Tensor one = x.batched ? x.tensor : x.operand(calls_.caller).value();
        const Shape shape = one.shape();
        Lengths lengths;
        if (x.batched) lengths.push_back(calls_.count);
        for (int i = 2; x.batched && i < rank; ++i) lengths.push_back(1);
        const std::int64_t length = shape.data()[shape.rank() - 1];
        lengths.push_back(column ? length : 1);
        lengths.push_back(column ? 1 : length);
        return Input{.tensor = reshaped(one, shape_of(lengths, calls_.caller)),
                     .batched = x.batched};
      }
      return lifted(x, rank);
    };
    call({matrices(input(0), false), matrices(input(1), true)}, calls_.options);
    if (left > 1 && right > 1) return true;
    Lengths lengths;
    const Shape made = outputs_[0].shape();
    for (std::size_t i = 0; i < made.rank(); ++i) {
      const bool drops =
          (left == 1 && i + 2 == made.rank()) || (right == 1 && i + 1 == made.rank());
      if (!drops) lengths.push_back(made.data()[i]);
    }
    outputs_[0] = reshaped(outputs_[0], shape_of(lengths, calls_.caller));
    return true;
  }
  bool run_dense() {
    if (input(1).batched || input(1).rank() != 2 || input(0).rank() < 1) return false;
    if (input(2).batched && (!input(0).batched || input(2).rank() > input(0).rank())) return false;
    return run_with_shared_matrix();
  }

  const Calls& calls_;
  Outputs& outputs_;
};
}  // namespace

Operand Input::operand(Caller caller) const {
  if (variable) return {*variable, caller};
  if (!scalar) return {tensor, caller};
  return is_floating(scalar->dtype())        ? Operand(scalar->real(), caller)
         : scalar->dtype() == DType::boolean ? Operand(scalar->integer() != 0, caller)
         : scalar->dtype() == DType::int64   ? Operand(scalar->integer(), caller)
         : scalar->dtype() == DType::uint8
             ? Operand(static_cast<std::uint8_t>(scalar->integer()), caller)
             : Operand(static_cast<std::int32_t>(scalar->integer()), caller);
}
int Input::rank() const {
  if (scalar) return 0;
  if (variable) return static_cast<int>(variable->shape().rank());
  return static_cast<int>(tensor.shape().rank()) - batched;
}
Shape Input::shape() const {
  if (scalar) return {};
  const Shape all = variable ? variable->shape() : tensor.shape();
  if (!batched) return all;
  return Shape(std::span<const std::int64_t>(all.data() + 1, all.rank() - 1));
}

bool run_together(const Calls& calls, Outputs& outputs) {
  if (Rule(calls, outputs).run()) return true;
  std::vector<std::vector<Tensor>> rows;  // of each output
  // Without calls, one of zeros tells the shapes.
  for (std::int64_t i = 0; i < std::max<std::int64_t>(calls.count, 1); ++i) {
    std::vector<Input> one = calls.inputs;
    for (Input& each : one) {
      if (!each.batched) continue;
      each.tensor =
          calls.count ? each.tensor(i) : zeros(each.shape(), {.dtype = each.tensor.dtype()});
      each.batched = false;
    }
    SmallVector<Operand, 4> operands;
    for (const Input& each : one) operands.push_back(each.operand(calls.caller));
    Outputs made;
    reel::run(calls.op, {operands.data(), operands.size()}, calls.options, calls.caller, made);
    rows.resize(made.size());
    for (std::size_t k = 0; k < made.size(); ++k) rows[k].push_back(std::move(made[k]));
  }
  for (const std::vector<Tensor>& each : rows) {
    outputs.push_back(stack(Operands(each, calls.caller)));
    if (!calls.count) outputs[outputs.size() - 1] = outputs[outputs.size() - 1](range(0, 0));
  }
  return false;
}
}  // namespace reel::batch
