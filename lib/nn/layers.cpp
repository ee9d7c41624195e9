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

#include <utility>

#include "lib/nn/check.hpp"

namespace reel::nn {
Tensor detail::tensor_of(Operand x) {
  switch (x.kind()) {
    case Operand::Kind::variable:
      return x.variable().value();
    case Operand::Kind::scalar:
      return full({}, x.scalar(), x.caller());
    default:
      return x.tensor();
  }
}

Linear::Linear(Extent in, Extent out, TensorOptions options, Caller caller)
    : weight("weight",
             glorot_uniform(
                 {checked("Linear", "in", in, caller), checked("Linear", "out", out, caller)},
                 options, caller),
             caller),
      bias("bias", zeros({out}, options, caller), caller) {}

Tensor Linear::operator()(Operand x) const {
  CallerScope here(x.caller());
  const bool matrix = (x.kind() == Operand::Kind::tensor || x.kind() == Operand::Kind::temporary) &&
                      x.tensor().defined() && x.tensor().rank() == 2;
  return matrix ? matmul_add(x, weight, bias) : matmul(x, weight) + bias;
}

Embedding::Embedding(Extent count, Extent width, TensorOptions options, Caller caller)
    : table("table",
            random::normal({checked("Embedding", "count", count, caller),
                            checked("Embedding", "width", width, caller)},
                           {.dtype = checked("Embedding", options.dtype, caller)}, caller),
            caller) {}

Tensor Embedding::operator()(Operand words) const {
  CallerScope here(words.caller());
  return take(table, words);
}

LayerNorm::LayerNorm(Extent width, LayerNormOptions options, Caller caller)
    : scale("scale",
            ones({checked("LayerNorm", "width", width, caller)},
                 {checked("LayerNorm", options.dtype, caller)}, caller),
            caller),
      shift("shift", zeros({width}, {options.dtype}, caller), caller),
      epsilon(options.epsilon) {
  check_number(epsilon >= 0, "LayerNorm", "epsilon", "0 or more", epsilon, caller);
}

Tensor LayerNorm::operator()(Operand x) const {
  CallerScope here(x.caller());
  return layer_norm(x, scale, shift, epsilon);
}

Dropout::Dropout(double probability, Caller caller) : probability(probability) {
  check_number(probability >= 0 && probability < 1, "Dropout", "probability",
               "0 or more and below 1", probability, caller);
}

Tensor Dropout::operator()(Operand x) const {
  CallerScope here(x.caller());
  return training() ? dropout(x, probability) : detail::tensor_of(x);
}
}  // namespace reel::nn
