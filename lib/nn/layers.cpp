// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/initialize.hpp>
#include <reel/nn/layers.hpp>
#include <reel/nn/sequential.hpp>
#include <reel/ops/arithmetic.hpp>
#include <reel/ops/gather.hpp>
#include <reel/ops/matmul.hpp>
#include <reel/ops/normalize.hpp>
#include <reel/random.hpp>
#include <reel/train.hpp>

#include <cmath>
#include <utility>

#include "lib/nn/check.hpp"

namespace reel::nn {
Linear::Linear(Extent in, Extent out, TensorOptions options, Caller caller)
    : Linear(in, out, options, Activation::none, caller) {}

Linear::Linear(Extent in, Extent out, TensorOptions options, Activation activation, Caller caller)
    : weight(parameter("Linear", "weight", caller,
                       [&] {
                         return glorot_uniform({checked("Linear", "in", in, caller),
                                                checked("Linear", "out", out, caller)},
                                               options, caller);
                       })),
      bias(parameter("Linear", "bias", caller, [&] { return zeros({out}, options, caller); })),
      activation(activation) {}

Tensor Linear::operator()(Operand x) const {
  const CallerScope here(x.caller(), "Linear");
  const bool matrix = (x.kind() == Operand::Kind::tensor || x.kind() == Operand::Kind::temporary) &&
                      x.tensor().defined() && x.tensor().rank() == 2;
  if (activation != Activation::none) return dense(x, weight, bias, activation);
  return matrix ? matmul_add(x, weight, bias) : matmul(x, weight) + bias;
}

Embedding::Embedding(Extent count, Extent width, TensorOptions options, Caller caller)
    : table(parameter("Embedding", "table", caller, [&] {
        return random::normal({checked("Embedding", "count", count, caller),
                               checked("Embedding", "width", width, caller)},
                              {.dtype = options.dtype}, caller);
      })) {}

Tensor Embedding::operator()(Operand words) const {
  const CallerScope here(words.caller(), "Embedding");
  return take(table, words);
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
  return layer_norm(x, scale, shift, epsilon);
}

Dropout::Dropout(double probability, Caller caller) : probability(probability) {
  check_number(probability >= 0 && probability < 1, "Dropout", "probability",
               "0 or more and below 1", probability, caller);
}

Tensor Dropout::operator()(Operand x) const {
  const CallerScope here(x.caller(), "Dropout");
  if (training()) return dropout(x, probability);
  Tensor same = reel::detail::tensor_of(x);
  if (!same.defined()) fail<Error>(x.caller(), "Dropout", "x", "a tensor", "an undefined Tensor");
  return same;
}
}  // namespace reel::nn
