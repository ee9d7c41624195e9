// SPDX-License-Identifier: BSD-3-Clause
#include "lib/batch/rows.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <reel/ops.hpp>

#include "autograd/gradient_call.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/passes.hpp"

namespace reel::batch {
namespace {
constexpr std::size_t most_parts = 30;  // a gradient kernel has a bit for each input

// y[k] = parts[part_in(places[k])][row_of(places[k])]
void rows_shape(Inference& call) {
  Shape shape = call.input(1).shape;
  shape.data()[0] = call.input(0).elements;
  call.output(call.input(1).dtype, shape);
}
KernelResult rows(const KernelCall& call) {
  const Body &places = call.input(0), &made = call.output();
  const auto bytes = static_cast<std::size_t>(made.bytes() / places.elements);
  for (std::int64_t k = 0; k < places.elements; ++k) {
    const std::int64_t place = places.as<std::int64_t>()[k];
    const Body& part = call.input(1 + static_cast<int>(part_in(place)));
    std::memcpy(made.data + static_cast<std::size_t>(k) * bytes,
                part.data + row_in(place) * part.strides[0] * size_of(part.dtype), bytes);
  }
  return {};
}
/// Adds each row of dy to its place.
KernelResult rows_gradient(const KernelCall& given) {
  const GradientKernelCall call(given);
  const Body &dy = *call.dy(), &places = *call.x();
  for (int i = 1; i < call.output_count; ++i)
    if (Body* const dx = call.dx(i); dx && !call.adds(i))
      std::memset(dx->data, 0, static_cast<std::size_t>(dx->bytes()));
  const Pass add = pass_of(core_ops.add, dy.dtype);
  const std::int64_t row = dy.elements / places.elements, bytes = dy.bytes() / places.elements;
  for (std::int64_t k = 0; k < places.elements; ++k) {
    const std::int64_t place = places.as<std::int64_t>()[k];
    Body* const dx = call.dx(1 + static_cast<int>(part_in(place)));
    if (!dx) continue;
    std::byte* const sum = dx->data + row_in(place) * bytes;
    const void* const inputs[] = {sum, dy.data + k * bytes};
    run_pass(add, row, inputs, 2, dy.dtype, 0, sum, dy.dtype);
  }
  return {};
}
/// The same in ops, where a tape or a trace must see them.
void rows_rule(GradientCall& call) {
  const Body& places = *Access::body(call.input(0));
  for (int i = 1; i < call.input_count(); ++i) {
    if (!call.wants(i)) continue;
    std::vector<std::int64_t> from, to;
    for (std::int64_t k = 0; k < places.elements; ++k) {
      const std::int64_t place = places.as<std::int64_t>()[k];
      if (part_in(place) + 1 != static_cast<std::size_t>(i)) continue;
      from.push_back(k);
      to.push_back(row_in(place));
    }
    call.give(i, core_ops.scatter, {take(call.dy(), tensor(from)), tensor(to)},
              UnTakeOptions{call.input_shape(i), 0});
  }
}
/// No entry of the op table: only batches call it, on the CPU and for parts with rows in one piece.
constinit Op rows_op{.name = "take_rows",
                     .arity = -1,
                     .shape = rows_shape,
                     .needs = {{0, need_input(0), need_input(0), need_input(0)}},
                     .moves = true,
                     .internal = true,
                     .argument_names = "places, parts"};
[[gnu::constructor]] void fill_rows_op() {
  rows_op.on_cpu().set<>(Part::value, rows);
  rows_op.on_cpu().set<>(Part::gradients, rows_gradient);
  rows_op.gradient.rule = rows_rule;
}

/// Whether the op takes rows of it: each is in one piece.
bool has_whole_rows(const Tensor& part) {
  const Body& body = *Access::body(part);
  std::int64_t step = 1;
  for (int i = body.rank() - 1; i > 0; step *= body.shape.data()[i--])
    if (body.shape.data()[i] != 1 && body.strides[i] != step) return false;
  return on_cpu(body) && !core_ops.add.composite;
}
/// Joins the last parts until there are few enough.
void join_last(std::vector<Tensor>& parts, std::vector<std::int64_t>& places, Caller caller) {
  if (parts.size() <= most_parts) return;
  const auto first = parts.begin() + (most_parts - 1);
  std::vector<std::int64_t> starts;  // of each in the joined one
  std::int64_t rows = 0;
  for (auto each = first; each != parts.end(); ++each) {
    starts.push_back(rows);
    rows += each->shape().data()[0];
  }
  Tensor joined = concat(Operands(std::span<const Tensor>(first, parts.end()), caller));
  parts.erase(first, parts.end());
  parts.push_back(std::move(joined));
  for (std::int64_t& place : places)
    if (part_in(place) >= most_parts - 1)
      place = place_of(most_parts - 1, starts[part_in(place) - (most_parts - 1)] + row_in(place));
}

/// By the ops of the library: rows of each part, joined, and put into order.
Tensor take_by_parts(const std::vector<Tensor>& parts, const std::vector<std::int64_t>& places,
                     Caller caller) {
  std::vector<std::vector<std::int64_t>> rows(parts.size());
  for (const std::int64_t place : places) rows[part_in(place)].push_back(row_in(place));
  std::vector<std::int64_t> next;  // of each part: a row of the joined ones
  std::vector<Tensor> taken;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    taken.push_back(take_rows({parts[i]}, rows[i], false, caller));
    next.push_back(start);
    start += static_cast<std::int64_t>(rows[i].size());
  }
  const Tensor joined = concat(Operands(taken, caller));
  if (std::is_sorted(places.begin(), places.end(),
                     [](auto a, auto b) { return part_in(a) < part_in(b); }))
    return joined;
  std::vector<std::int64_t> order;
  for (const std::int64_t place : places) order.push_back(next[part_in(place)]++);
  return take(Operand(joined, caller), tensor(order));
}
}  // namespace

Tensor take_rows(std::vector<Tensor> parts, std::vector<std::int64_t> places, bool plain,
                 Caller caller) {
  if (parts.size() == 1) {
    const std::int64_t first = row_in(places[0]), count = std::ssize(places);
    std::int64_t k = 0;
    while (k < count && row_in(places[static_cast<std::size_t>(k)]) == first + k) ++k;
    if (k == count && k == parts[0].shape().data()[0]) return parts[0];
    if (k == count) return parts[0](range(first, first + count));
  }
  plain = plain && std::all_of(parts.begin(), parts.end(), has_whole_rows);
  if (parts.size() == 1 && (!plain || Access::body(parts[0])->contiguous)) {
    for (std::int64_t& place : places) place = row_in(place);
    return take(Operand(parts[0], caller), tensor(places));
  }
  if (!plain) return take_by_parts(parts, places, caller);
  join_last(parts, places, caller);
  const Tensor all_places = tensor(places);
  SmallVector<Operand, 8> operands;
  operands.push_back(Operand(all_places, caller));
  for (const Tensor& each : parts) operands.push_back(Operand(each, caller));
  SmallVector<Tensor, 2> made;
  reel::run(rows_op, {operands.data(), operands.size()}, {}, caller, made);
  return made.take_first();
}

Tensor beside_each_other(const std::vector<Tensor>& all, bool plain, Caller caller) {
  const auto is_bytes = [](const Tensor& x) {  // and nothing else
    const Body& body = *Access::body(x);
    return body.contiguous && !body.device_kind && !body.id.reel && body.leaf == no_record;
  };
  const Body& first = *Access::body(all[0]);
  if (!plain || first.rank() == Shape::max_rank || !std::all_of(all.begin(), all.end(), is_bytes))
    return stack(Operands(all, caller));
  Shape shape;
  shape.resize(first.shape.rank() + 1);
  shape.data()[0] = std::ssize(all);
  std::copy(first.shape.begin(), first.shape.end(), shape.data() + 1);
  Tensor made = Access::adopt(
      allocate(Context::here(), first.dtype, shape, first.elements * std::ssize(all)));
  if (!made.defined()) fail<MemoryError>(caller, "stack", "result", "memory", "none");
  std::byte* to = Access::body(made)->data;
  for (const Tensor& each : all) {
    const auto bytes = static_cast<std::size_t>(first.bytes());
    std::memcpy(to, Access::body(each)->data, bytes);
    to += bytes;
  }
  return made;
}
}  // namespace reel::batch
