// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/initialize.hpp>
#include <reel/nn/layers.hpp>
#include <reel/nn/sequential.hpp>
#include <reel/ops/activation.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/compare.hpp>
#include <reel/ops/create.hpp>
#include <reel/ops/gather.hpp>
#include <reel/ops/matmul.hpp>
#include <reel/ops/normalize.hpp>
#include <reel/ops/reduce.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/ops/scatter.hpp>
#include <reel/ops/sort.hpp>
#include <reel/random.hpp>
#include <reel/row_gradient.hpp>
#include <reel/train.hpp>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lib/nn/check.hpp"

namespace reel::nn {
namespace {
Tensor activated(Tensor x, Activation activation) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return relu(std::move(x));
    case Activation::sigmoid:
      return sigmoid(std::move(x));
    case Activation::tanh:
      return tanh(std::move(x));
  }
  return x;
}
}  // namespace

Linear::Linear(Extent in, Extent out, TensorOptions options, Caller caller)
    : Linear(in, out, options, Activation::none, caller) {}

Linear::Linear(Extent in, Extent out, TensorOptions options, Activation activation, Caller caller,
               Bias has_bias)
    : weight(parameter("Linear", "weight", caller,
                       [&] {
                         return glorot_uniform({checked("Linear", "in", in, caller),
                                                checked("Linear", "out", out, caller)},
                                               options, caller);
                       })),
      bias(parameter("Linear", "bias", caller,
                     [&] { return zeros({has_bias == Bias::yes ? out : 0}, options, caller); })),
      activation(activation) {}

Tensor Linear::operator()(Operand x) const {
  const CallerScope here(x.caller(), "Linear");
  check_width("Linear", "x", x, weight.shape()[0]);
  if (bias.size() == 0) return activated(matmul(x, weight), activation);
  const bool matrix = (x.kind() == Operand::Kind::tensor || x.kind() == Operand::Kind::temporary) &&
                      x.tensor().defined() && x.tensor().rank() == 2;
  if (activation == Activation::none && matrix) return matmul_add(x, weight, bias);
  return dense(x, weight, bias, activation);
}

Highway::Highway(Extent width, Activation activation, TensorOptions options, Caller caller)
    : transform(checked("Highway", "width", width, caller), width, options, activation, caller),
      gate(width, width, options, Activation::sigmoid, caller) {
  gate.bias.assign(-1);
}

Tensor Highway::operator()(Operand x) const {
  const CallerScope here(x.caller(), "Highway");
  check_width("Highway", "x", x, transform.weight.shape()[0]);
  const Tensor from = x.value();
  return from + gate(from) * (transform(from) - from);
}

Tensor Flatten::operator()(Operand x) const {
  const CallerScope here(x.caller(), "Flatten");
  const Shape* const shape = shape_of_input("Flatten", "x", x);
  const std::int64_t rank = shape ? static_cast<std::int64_t>(shape->rank()) : 0;
  const std::int64_t first = first_axis < 0 ? first_axis + rank : first_axis;
  if (first < 0 || first >= rank)
    fail<IndexError>(x.caller(), "Flatten", "first_axis", error_text("an axis of {} axes", rank),
                     to_text(first_axis));
  std::vector<std::int64_t> lengths(shape->begin(), shape->begin() + first);
  std::int64_t joined = 1;
  for (const std::int64_t* length = shape->begin() + first; length != shape->end(); ++length)
    joined *= *length;
  lengths.push_back(joined);
  return reshape(x, Shape(lengths));
}

Embedding::Embedding(Extent count, Extent width, EmbeddingOptions options, Caller caller)
    : table(parameter("Embedding", "table", caller,
                      [&] {
                        return random::normal({checked("Embedding", "count", count, caller),
                                               checked("Embedding", "width", width, caller)},
                                              {.dtype = options.dtype}, caller);
                      })),
      sparse(options.sparse),
      padding(options.padding) {
  if (padding < -1 || padding >= count.value)
    fail<IndexError>(caller, "Embedding", "padding", error_text("-1 to {}", count.value - 1),
                     to_text(padding));
  if (padding >= 0) table(padding).assign(0);
}

Tensor Embedding::operator()(Operand words) const {
  const CallerScope here(words.caller(), "Embedding");
  Tensor rows = sparse ? lookup(table, words) : take(table, words);
  if (padding < 0) return rows;
  const Tensor pads = (words == padding) | (words == padding - table.shape()[0]);
  return where(expand_dims(pads, -1), stop_gradient(rows), rows);
}

namespace {
/// Which words are not the padding.
Tensor counted_words(const Embedding& rows, const Tensor& words) {
  const std::int64_t padding = rows.padding;
  if (padding < 0) return words == words;
  return (words != padding) & (words != padding - rows.table.shape()[0]);
}
constexpr double infinity = std::numeric_limits<double>::infinity();
}  // namespace
EmbeddingBag::EmbeddingBag(Extent count, Extent width, Bag bag, EmbeddingOptions options,
                           Caller caller)
    : rows(count, width, options, caller), bag(bag) {}
Tensor EmbeddingBag::operator()(Operand words) const {
  const CallerScope here(words.caller(), "EmbeddingBag");
  const Tensor list = words.value();
  if (list.rank() != 2)
    fail<ShapeError>(words.caller(), "EmbeddingBag", "words", "2 axes, [batch, n]",
                     to_text(list.shape()));
  const Tensor counted = expand_dims(counted_words(rows, list), -1), x = rows(words);
  if (bag == Bag::sum) return sum(where(counted, x, 0), 1);
  const Tensor n = sum(counted, 1);
  if (bag == Bag::mean) return sum(where(counted, x, 0), 1) / maximum(n, 1);
  if (x.shape()[1] == 0) return sum(x, 1);
  return where(n == 0, 0, max(where(counted, x, -infinity), 1));
}
Tensor EmbeddingBag::operator()(Operand words, Operand offsets) const {
  const CallerScope here(words.caller(), "EmbeddingBag");
  const Tensor list = words.value(), starts = offsets.value();
  if (list.rank() != 1)
    fail<ShapeError>(words.caller(), "EmbeddingBag", "words", "1 axis beside offsets",
                     to_text(list.shape()));
  if (starts.rank() != 1)
    fail<ShapeError>(words.caller(), "EmbeddingBag", "offsets", "1 axis, [bags]",
                     to_text(starts.shape()));
  const Tensor places = arange(std::int64_t{0}, list.shape()[0]).to(list.device());
  const Tensor ids = searchsorted(starts, places, {.right = true}) - 1;
  const Extent bags(starts.shape()[0]);
  const Tensor counted = counted_words(rows, list), x = rows(words);
  const Tensor n = expand_dims(segment_sum(counted, ids, bags), -1);
  const Tensor real = expand_dims(counted, -1);
  if (bag == Bag::max) return where(n == 0, 0, segment_max(where(real, x, -infinity), ids, bags));
  const Tensor sums = segment_sum(where(real, x, 0), ids, bags);
  return bag == Bag::sum ? sums : sums / maximum(n, 1);
}

LayerNorm::LayerNorm(Extent width, LayerNormOptions options, Caller caller)
    : scale(parameter("LayerNorm", "scale", caller,
                      [&] {
                        return ones({checked("LayerNorm", "width", width, caller)},
                                    {checked("LayerNorm", options.dtype, caller)}, caller);
                      })),
      shift(parameter("LayerNorm", "shift", caller,
                      [&] { return zeros({width}, {options.dtype}, caller); })),
      epsilon(options.epsilon) {
  check_number(std::isfinite(epsilon) && epsilon >= 0, "LayerNorm", "epsilon",
               "finite and 0 or more", epsilon, caller);
}

Tensor LayerNorm::operator()(Operand x) const {
  const CallerScope here(x.caller(), "LayerNorm");
  check_width("LayerNorm", "x", x, scale.shape()[0]);
  return layer_norm(x, scale, shift, epsilon);
}

Dropout::Dropout(double probability, Caller caller) : probability(probability) {
  check_number(probability >= 0 && probability < 1, "Dropout", "probability",
               "0 or more and below 1", probability, caller);
}

Tensor Dropout::operator()(Operand x) const {
  const CallerScope here(x.caller(), "Dropout");
  if (training()) return dropout(x, probability);
  Tensor same = x.value();
  if (!same.defined()) fail<Error>(x.caller(), "Dropout", "x", "a tensor", "an undefined Tensor");
  return same;
}
}  // namespace reel::nn
