// SPDX-License-Identifier: BSD-3-Clause
#include "peers/deviations.hpp"

#include <vector>

namespace reel::tests::peers {
namespace {
using Deviations = std::map<std::string, std::string>;

/// Adds one reason for several parts of a row.
void add(Deviations& to, const std::string& row, const std::vector<std::string>& parts,
         const std::string& reason) {
  for (const std::string& part : parts) to[row + ": " + part] = reason;
}
/// Of float64 and float32.
void add_both(Deviations& to, const std::string& row, const std::vector<std::string>& parts,
              const std::string& reason) {
  add(to, row, parts, reason);
  for (const std::string& part : parts) to[row + ": float32 " + part] = reason;
}
void add_of_ties(Deviations& to) {
  const char* const ties =
      "of equal elements another one has the gradient: the first in x has it here";
  for (const char* const row :
       {"median, ties", "median last, ties", "quantile, ties", "quantile last, ties", "topk, ties"})
    add_both(to, row, {"gradient", "second gradient"}, ties);
  add_both(to, "topk positions, ties", {"value"},
           "sorting is stable here: the first of equal elements comes first");
}
void add_of_infinities(Deviations& to) {
  const char* const others =
      "the gradient is the product of the other elements; LibTorch divides by the element";
  for (const char* const row : {"prod, special", "prod last, special", "cumprod, special"})
    add_both(to, row, {"gradient"}, others);
  for (const char* const row : {"prod last, special", "cumprod, special"})
    add_both(to, row, {"second gradient"}, others);
  for (const char* const row : {"logcumsumexp, special", "logsumexp last, special"})
    add_both(to, row, {"gradient", "second gradient"},
             "the gradient of -inf is 0 here, and NaN there");
  add_both(to, "norm last, special", {"second gradient"},
           "a finite element beside an infinite one has the gradient 0, not NaN");
  add_both(to, "norm inf, special", {"gradient", "second gradient"},
           "if an element is NaN all gradients are NaN; there they are 0");
  add_both(to, "var last, special", {"gradient"},
           "the variance of an infinite element is NaN, and so is each gradient");
}
void add_of_accuracy(Deviations& to) {
  const char* const digits = "LibTorch's trigamma function has 9 digits in float64";
  add(to, "digamma", {"gradient", "second gradient", "special gradient"}, digits);
  add(to, "lgamma", {"second gradient"}, digits);
  add(to, "polygamma", {"value", "special value"}, digits);
  const char* const cancels = "1 - y and 1 + y cancel in LibTorch's gradient for large |x|";
  add(to, "sigmoid", {"special gradient"}, cancels);
  add(to, "expm1", {"special gradient"}, cancels);
  const char* const tail =
      "LibTorch's 1 + erf(x) cancels for large negative x; infinities have limits here, and NaN "
      "there";
  add(to, "gelu", {"special value", "special gradient"}, tail);
  add(to, "gelu_tanh", {"special value", "special gradient"}, tail);
  add(to, "silu", {"special value", "special gradient"}, "silu(-inf) is 0 here, and NaN there");
  add(to, "softplus", {"special value", "special gradient"}, "LibTorch returns x above 20");
  const char* const overflow = "a square overflows in LibTorch's float32 gradient";
  add(to, "asinh", {"special gradient"}, overflow);
  add(to, "atan2", {"special gradient"}, overflow);
  const char* const subnormal =
      "subnormal results are rounded once here; LibTorch has 0 or more rounding";
  for (const char* const row : {"power", "power -1"}) add(to, row, {"special gradient"}, subnormal);
  add(to, "logaddexp", {"special gradient"},
      "subnormal results are 0 there, and equal infinities give NaN");
  add(to, "divide", {"special gradient"}, "x = 0 by a subnormal y: dy / y is infinite here");
}
void add_of_zeros_and_nan(Deviations& to) {
  const char* const nan = "NaN beside a number: the number has the gradient 0 here";
  for (const char* const row : {"maximum", "minimum"}) add(to, row, {"special gradient"}, nan);
  for (const char* const row : {"elu", "elu alpha"})
    add(to, row, {"special gradient"}, "NaN has the gradient NaN here; there it passes dy");
  add(to, "relu", {"special value", "special gradient"},
      "relu(-0) is 0, and NaN has the gradient 0");
  add(to, "clip", {"special gradient"},
      "x equal to a bound is not replaced, so it has a gradient; NaN too");
  add(to, "sign", {"special value"}, "sign(-0) is -0, and sign(NaN) is NaN");
  add(to, "rsqrt", {"special gradient"}, "the slope at -0 is that at 0");
  add(to, "power 0.5", {"special value", "special gradient"},
      "power(-0, 0.5) is 0, as std::pow; there it is sqrt");
  const char* const poles =
      "a pole has the sign of its limit from above, also at -0; at negative whole numbers "
      "polygamma(1) is inf";
  add(to, "digamma", {"special value"}, poles);
  add(to, "lgamma", {"special gradient"}, poles);
  add(to, "polygamma", {"special gradient"}, poles);
  add(to, "polygamma 2", {"special value", "special gradient"},
      "below -10,000 it is NaN; at inf it is 0");
  add(to, "acosh", {"special gradient"},
      "outside of its domain, where the value is NaN, the gradient is NaN");
  add_both(to, "stddev", {"second gradient"},
           "the gradient of equal elements is 0 here, and NaN there");
  add_both(to, "stddev last", {"second gradient"},
           "the gradient of equal elements is 0 here, and NaN there");
  add(to, "stddev", {"float32 gradient"}, "the mean of equal elements is exact here");
  add(to, "hypot", {"special gradient"}, "the gradient at x = y = 0 is 0");
  add(to, "remainder", {"special value", "special gradient"},
      "a zero has the sign of the divisor, as in Python; where the value is NaN the gradient is "
      "NaN");
  add(to, "floor_divide", {"special value"},
      "it is the floor of x / y, also where x or y is infinite");
  add(to, "leaky_relu slope", {"special gradient"},
      "the composition for LibTorch multiplies 0 by infinity");
  add_both(to, "integers: relu", {"value"}, "integers become float32, as for every activation");
}
}  // namespace

const Deviations& deviations() {
  static const Deviations found = [] {
    Deviations all;
    add_of_ties(all);
    add_of_infinities(all);
    add_of_accuracy(all);
    add_of_zeros_and_nan(all);
    return all;
  }();
  return found;
}

const Deviations& unmapped_ops() {
  static const char* const rows_of_tables =
      "updates single rows as the dense op does: tests/nn/row_gradients.cpp compares the two";
  static const Deviations found = {
      {"random",
       "each library draws other numbers; tests/kernels/random.cpp checks the distributions"},
      {"attention_dropout",
       "each library draws other numbers; tests/ops/attention.cpp has its formula"},
      {"to_device", "copies between devices; these tests run on the CPU"},
      {"check_rate", "refuses a wrong rate, and computes nothing"},
      {"limit_norm", "works on a list of tensors: tests/nn/optim.cpp compares it with its formula"},
      {"lookup",
       "take() under another name, whose gradient may be rows: tests/nn/row_gradients.cpp"},
      {"adagrad_row_update", rows_of_tables},
      {"adam_row_update", rows_of_tables},
      {"amsgrad_row_update", rows_of_tables},
      {"momentum_row_update", rows_of_tables},
      {"rmsprop_momentum_row_update", rows_of_tables},
      {"rmsprop_row_update", rows_of_tables},
      {"sgd_row_update", rows_of_tables},
  };
  return found;
}
}  // namespace reel::tests::peers
