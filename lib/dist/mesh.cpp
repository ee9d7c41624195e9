// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dist/mesh.hpp>

#include <reel/dist/collectives.hpp>
#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include <utility>

#include "lib/body/portion.hpp"
#include "lib/body/text.hpp"
#include "lib/dist/state.hpp"
#include "lib/ops/check.hpp"

namespace reel::dist {
Mesh::Mesh(const World& world, MeshOptions options, Caller caller) try
    : axes_(std::move(options.axes)) {
  const CallerScope here(caller, "Mesh");
  std::int64_t ranks = 1, behind = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      if (axes_[k].name == axes_[i].name)
        fail<Error>(caller, "Mesh", "options.axes", "each name once",
                    "\"" + Text(axes_[i].name) + "\" twice");
    if (axes_[i].size < 1)
      fail<Error>(caller, "Mesh", "options.axes", "sizes of 1 or more", to_text(axes_[i].size));
    ranks *= axes_[i].size;
  }
  if (ranks != world.size())
    fail<Error>(caller, "Mesh", "options.axes",
                "sizes whose product is " + to_text(world.size()) + ", the number of ranks",
                to_text(ranks));
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const std::int64_t place = world.rank() / behind % axes_[i].size;
    World along = world.split(world.rank() - place * behind, caller);
    if (along.size() < ranks)
      along.state().parts = std::make_unique<World>(world.split(place, caller));
    worlds_.insert(worlds_.begin(), std::move(along));
    behind *= axes_[i].size;
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Mesh");
}
const World& Mesh::axis(std::string_view name, Caller caller) const {
  std::string names;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return worlds_[i];
    names += (i ? ", \"" : "\"") + axes_[i].name + "\"";
  }
  fail<Error>(caller, "axis", "name", "one of " + names, "\"" + Text(name) + "\"");
}

Tensor copy_to_parts(Operand x, const World& axis) {
  const Caller caller = x.caller();
  if (axis.size() == 1) return x.value();
  return custom_gradient([axis, caller](const Tensor& from) {
    return std::pair{stop_gradient(from), [axis, caller](const Tensor& dy) -> Tensor {
                       return all_reduce({dy, caller}, axis);
                     }};
  })(x);
}
Tensor sum_of_parts(Operand part, const World& axis) {
  const Caller caller = part.caller();
  if (axis.size() == 1) return part.value();
  return custom_gradient([axis, caller](const Tensor& from) {
    return std::pair{all_reduce({stop_gradient(from), caller}, axis),
                     [](const Tensor& dy) -> Tensor { return dy; }};
  })(part);
}

namespace {
void check_share(const char* layer, std::int64_t count, const char* of, const World& axis,
                 Caller caller) {
  if (count % axis.size() != 0)
    fail<ShapeError>(caller, layer, of, "a multiple of " + to_text(axis.size()) + " ranks",
                     to_text(count));
}
}  // namespace

Variable part_of(const Variable& whole, const World& axis, int along, Caller caller) try {
  const CallerScope here(caller, "part_of");
  const std::int64_t length = whole.value().shape(along, caller), share = length / axis.size();
  check_share("part_of", length, "whole", axis, caller);
  std::vector<Index> place(
      static_cast<std::size_t>(along < 0 ? along + static_cast<int>(whole.value().rank()) : along),
      all);
  place.push_back(range(share * axis.rank(), share * (axis.rank() + 1)));
  const Variable part(whole.name(), whole(place, caller), caller);
  const Portion of = portion_of(whole);  // another axis may have divided it before
  set_portion(part, {static_cast<std::uint16_t>(of.index * axis.size() + axis.rank()),
                     static_cast<std::uint16_t>(of.count * axis.size())});
  return part;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "part_of");
}

SplitLinears::SplitLinears(const World& along, const nn::Linear& first_layer,
                           const nn::Linear& second_layer, Caller caller)
    : first(first_layer), second(second_layer), axis(along) {
  const CallerScope here(caller, "SplitLinears");
  const std::int64_t hidden = first.weight.shape()[1];
  if (second.weight.shape()[0] != hidden)
    fail<ShapeError>(caller, "SplitLinears", "second", to_text(hidden) + " numbers in",
                     to_text(second.weight.shape()[0]));
  if (second.activation != Activation::none)
    fail<Error>(caller, "SplitLinears", "second", "a Linear without an activation", "one with it",
                "Apply the activation to the result.");
  check_share("SplitLinears", hidden, "first", axis, caller);
  first.weight = part_of(first.weight, axis, 1, caller);
  if (first.bias.size() > 0) first.bias = part_of(first.bias, axis, 0, caller);
  second.weight = part_of(second.weight, axis, 0, caller);
}
Tensor SplitLinears::operator()(Operand x) const {
  const CallerScope here(x.caller(), "SplitLinears");
  const Tensor parts = copy_to_parts(x, axis), weight = first.weight;
  const Tensor bias = first.bias.size() > 0 ? first.bias.value() : zeros_like(weight(0, all));
  const Tensor between = dense(parts, weight, bias, first.activation);
  const Tensor sum = sum_of_parts(matmul(between, second.weight), axis);
  return second.bias.size() > 0 ? sum + second.bias : sum;
}

SplitEmbedding::SplitEmbedding(const World& along, const nn::Embedding& layer, Caller caller)
    : part(layer), axis(along) {
  const CallerScope here(caller, "SplitEmbedding");
  if (part.sparse)
    fail<Error>(caller, "SplitEmbedding", "layer", "an Embedding without .sparse", "a sparse one");
  check_share("SplitEmbedding", part.table.shape()[0], "layer", axis, caller);
  part.table = part_of(part.table, axis, 0, caller);
}
Tensor SplitEmbedding::operator()(Operand words) const {
  const CallerScope here(words.caller(), "SplitEmbedding");
  const std::int64_t share = part.table.shape()[0], total = share * axis.size();
  const Tensor given = checked_integers("SplitEmbedding", "indices", cast(words, DType::int64),
                                        -total, total - 1, words.caller());
  const Tensor ids = where(given < 0, given + total, given);
  const Tensor own = ids - share * axis.rank();
  const Tensor known = (own >= 0) & (own < share);
  // A word of another rank reads row 0, whose values do not count.
  const Tensor rows = take(part.table, where(known, own, 0));
  const Tensor all = sum_of_parts(where(expand_dims(known, -1), rows, 0), axis);
  if (part.padding < 0) return all;
  return where(expand_dims(ids == part.padding, -1), stop_gradient(all), all);
}
}  // namespace reel::dist
