// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/recurrence.hpp>
#include <reel/nn/select.hpp>
#include <reel/random.hpp>
#include <reel/train.hpp>

#include <algorithm>

#include "lib/body/room.hpp"
#include "lib/body/text.hpp"
#include "lib/nn/check.hpp"
#include "lib/ops/check.hpp"

namespace reel {
std::vector<Variable> without(const std::vector<Variable>& all,
                              const std::vector<Variable>& frozen) {
  auto rest = room_for<Variable>(all.size(), {}, "without");
  for (const Variable& x : all)
    if (std::none_of(frozen.begin(), frozen.end(),
                     [&](const Variable& other) { return x.same_cell(other); }))
      rest.push_back(x);
  return rest;
}

namespace detail {
void check_recurrent(std::int64_t in, std::int64_t hidden, const nn::RecurrentOptions& options,
                     Caller caller) {
  checked("Recurrent", "in", in, caller);
  checked("Recurrent", "hidden", hidden, caller);
  checked("Recurrent", "layers", options.layers, caller);
  check_number(options.dropout >= 0 && options.dropout < 1, "Recurrent", "dropout",
               "0 or more and below 1", options.dropout, caller);
  if (options.layers == 1 && options.dropout > 0)
    fail<Error>(caller, "Recurrent", "dropout", "0, as one layer has nothing between layers",
                error_text("{}", options.dropout), "nn::Dropout drops elements of the outputs.");
}

void check_recurrent(const Operand& x, std::size_t cells, std::size_t states,
                     const Tensor& lengths) {
  const Shape* const shape = shape_of_input("Recurrent", "x", x);
  if (!shape || shape->rank() != 3)
    fail<ShapeError>(x.caller(), "Recurrent", "x", "shape (time, batch, in)",
                     shape ? to_text(*shape) : "a number");
  if (states != 0 && states != cells)
    fail<ShapeError>(x.caller(), "Recurrent", "states", error_text("{}, one for each cell", cells),
                     to_text(states));
  if (!lengths.defined()) return;
  if (lengths.shape() != Shape({(*shape)[1]}))
    fail<ShapeError>(x.caller(), "Recurrent", "lengths", error_text("shape ({},)", (*shape)[1]),
                     to_text(lengths.shape()));
  checked_integers("Recurrent", "lengths", lengths, 0, (*shape)[0], x.caller());
}

Tensor dropped(const Tensor& x, double probability) {
  return probability > 0 && training() ? reel::dropout(x, probability) : x;
}
}  // namespace detail

namespace nn {

PaddedSequences pad_sequences(const std::vector<Tensor>& sequences, Scalar padding, Caller caller) {
  constexpr std::string_view name = "pad_sequences";
  const CallerScope here(caller, name);
  if (sequences.empty()) fail<ShapeError>(caller, name, "sequences", "at least one", "none");
  auto lengths = room_for<std::int64_t>(sequences.size(), caller, name);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Text argument = error_text("sequence {}", i);
    if (!sequences[i].defined()) fail<Error>(caller, name, argument, "a tensor", "nothing");
    const Shape &shape = sequences[i].shape(), &first = sequences[0].shape();
    if (shape.rank() == 0 || shape.rank() != first.rank() ||
        !std::equal(shape.begin() + 1, shape.end(), first.begin() + 1))
      fail<ShapeError>(caller, name, argument,
                       i == 0 ? "at least one axis"
                              : error_text("the shape of the first, {}, but for axis 0", first),
                       to_text(shape));
    lengths.push_back(shape[0]);
  }
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  auto filled = room_for<Tensor>(sequences.size(), caller, name);
  for (const Tensor& x : sequences) {
    Shape rest = x.shape();
    rest.data()[0] = longest - x.shape()[0];
    filled.push_back(concat({x, full(rest, padding, {x.dtype()}).to(x.device())}));
  }
  return {stack(filled, 1), tensor(lengths, caller)};
}

std::vector<Tensor> unpad_sequences(Operand values, const Tensor& lengths) {
  constexpr std::string_view name = "unpad_sequences";
  const Caller caller = values.caller();
  const CallerScope here(caller, name);
  const Shape* const shape = shape_of_input(name, "values", values);
  if (!shape || shape->rank() < 2)
    fail<ShapeError>(caller, name, "values", "shape (time, batch, ...)",
                     shape ? to_text(*shape) : "a number");
  const std::int64_t time = (*shape)[0], batch = (*shape)[1];
  if (!lengths.defined()) fail<Error>(caller, name, "lengths", "a tensor", "an undefined Tensor");
  if (is_floating(lengths.dtype()) || lengths.dtype() == DType::boolean)
    fail<DTypeError>(caller, name, "lengths", "uint8, int32 or int64", name_of(lengths.dtype()));
  if (lengths.shape() != Shape({batch}))
    fail<ShapeError>(caller, name, "lengths", error_text("({},), one for each sequence", batch),
                     to_text(lengths.shape()));
  const Tensor padded = values.value();
  auto sequences = room_for<Tensor>(static_cast<std::size_t>(batch), caller, name);
  for (const std::int64_t length : lengths.to(DType::int64).values<std::int64_t>(caller)) {
    if (length < 0 || length > time)
      fail<IndexError>(caller, name, "lengths", error_text("0 to {}", time),
                       to_text(length) + place_text(lengths.shape(), std::ssize(sequences)));
    sequences.push_back(padded(range(0, length), std::ssize(sequences)));
  }
  return sequences;
}
}  // namespace nn
}  // namespace reel
