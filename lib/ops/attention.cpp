// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops/attention.hpp>

#include <algorithm>
#include <cmath>

#include <reel/ops.hpp>
#include <reel/random.hpp>

#include "lib/body/dtypes.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/ops/ops.hpp"
#include "lib/ops/samples.hpp"
#include "lib/table/option_checks.hpp"
#include "lib/table/options/attention.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/promotion.hpp"

namespace reel {
namespace {
/// The first axes of a shape, as text without the brackets, then `rest`.
Text axes_text(const Shape& shape, std::size_t count, const Text& rest) {
  Text text = "[";
  for (std::size_t i = 0; i < count; ++i) text += to_text(shape.data()[i]) + ", ";
  return text + rest + "]";
}
Shape without_last(const Shape& shape, std::size_t axes) {
  Shape first = shape;
  first.resize(shape.rank() - axes);
  return first;
}

Shape with_last(const Shape& shape, std::int64_t length) {
  Shape other = shape;
  other.data()[shape.rank() - 1] = length;
  return other;
}

[[noreturn]] void fail_shape(const Inference& call, int i, const Text& expected) {
  fail<ShapeError>(call.caller, call.op.name, argument_name(call.op, i), expected,
                   to_text(call.input(i).shape));
}
/// q [..., heads, queries, width], k [..., kv_heads, keys, width], v [..., kv_heads, keys, value
/// width]
void require_heads(const Inference& call) {
  const Shape &q = call.input(0).shape, &k = call.input(1).shape, &v = call.input(2).shape;
  const std::size_t rank = q.rank(), batch = rank - 3;
  const Text as_q = ", as q is " + to_text(q);
  const std::int64_t heads = q.end()[-3], width = q.end()[-1];
  if (k.rank() != rank || !(without_last(k, 3) == without_last(q, 3)) || k.end()[-1] != width)
    fail_shape(call, 1, axes_text(q, batch, "kv_heads, keys, " + to_text(width)) + as_q);
  const std::int64_t shared = k.end()[-3];
  if (shared == 0 ? heads != 0 : heads % shared != 0)
    fail_shape(call, 1, "a number of heads that divides " + to_text(heads) + as_q);
  if (v.rank() != rank || !(without_last(v, 1) == without_last(k, 1)))
    fail_shape(call, 2, axes_text(k, rank - 1, "value_width") + ", as k is " + to_text(k));
}
void require_seed(const Inference& call, int i) {
  const Body& seed = call.input(i);
  if (seed.elements != 1 || seed.dtype != DType::int64)
    fail<ShapeError>(call.caller, call.op.name, "seed", "one int64 number",
                     Text(name_of(seed.dtype)) + " of shape " + to_text(seed.shape));
}
void attention_shape(Inference& call) {
  const auto& options = call.option<AttentionSettings>();
  for (int i = 0; i < 3; ++i) require_floating(call, i);
  const Shape& q = call.input(0).shape;
  if (q.rank() < 3) fail_shape(call, 0, "[..., heads, queries, width]");
  require_heads(call);
  const Shape scores = with_last(q, call.input(1).shape.end()[-2]);
  const DType dtype = call.input(0).dtype, wide = computed(dtype);
  if (options.has_mask) {
    const Body& mask = call.input(options.mask());
    if (!broadcasts_to(mask.shape, scores))
      fail<ShapeError>(call.caller, call.op.name, "mask",
                       "a shape that broadcasts to [..., heads, queries, keys], " + to_text(scores),
                       to_text(mask.shape));
    if (mask.dtype != DType::boolean && mask.dtype != wide)
      fail<DTypeError>(call.caller, call.op.name, "mask", "bool, float32 or float64",
                       name_of(mask.dtype),
                       "In a mask of bool, true marks the keys that are seen: mask != 0.");
  }
  if (options.has_lengths) {
    const Body& lengths = call.input(options.lengths());
    if (!(lengths.shape == without_last(q, 3)))
      fail<ShapeError>(call.caller, call.op.name, "key_lengths",
                       to_text(without_last(q, 3)) + ", as q is " + to_text(q),
                       to_text(lengths.shape));
  }
  if (options.dropout > 0) require_seed(call, options.seed());
  call.output(dtype, with_last(q, call.input(2).shape.end()[-1]));
  call.output(wide, without_last(q, 1));
}
void attention_dropout_shape(Inference& call) {
  const auto& options = call.option<AttentionDropoutOptions>();
  if (options.shape.elements()) require_seed(call, 0);
  call.output(options.dtype, options.shape);
}

const char* settings_fit(const Inference& call) {
  const auto& o = call.option<AttentionSettings>();
  if (o.has_lengths) return "no lengths of keys, which its kernel believes";
  return call.input_count == o.inputs() && o.dropout >= 0 && o.dropout < 1 && o.window >= 0 &&
                 std::isfinite(o.scale)
             ? nullptr
             : "settings";
}
const char* scores_fit(const Inference& call) {
  const auto& [dropout, shape, dtype] = call.option<AttentionDropoutOptions>();
  return dropout >= 0 && dropout < 1 && is_shape(shape) && shape.rank() >= 2 && is_floating(dtype)
             ? nullptr
             : "the shape of scores";
}

struct Case {
  Shape q, k, v;
  AttentionOptions options = {};
  Shape mask = {};  // of a floating mask, if it has axes
};
std::vector<Case> cases() {
  const Tensor seen = tensor({{1, 0, 1, 1}, {0, 0, 0, 0}, {1, 1, 0, 1}}) != 0;
  return {
      {{2, 3, 2}, {2, 4, 2}, {2, 4, 3}},
      {{1, 3, 4}, {1, 3, 4}, {1, 3, 1}, {.causal = true}},
      {{1, 2, 3, 2}, {1, 2, 4, 2}, {1, 2, 4, 2}, {.mask = seen}},
      {{2, 2, 3, 1}, {2, 1, 4, 1}, {2, 1, 4, 2}, {.causal = true, .window = 2, .scale = 0.7}},
      {{2, 4, 2, 2}, {2, 2, 3, 2}, {2, 2, 3, 1}, {.key_lengths = tensor({2, 0})}},
      {{2, 2, 3, 2}, {2, 2, 2, 2}, {2, 2, 2, 1}, {.window = 1}, {3, 2}},
      {{1, 2, 2, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}, {.key_lengths = tensor({2})}, {2, 1, 3}},
      {{2, 1, 2, 1}, {2, 1, 3, 1}, {2, 1, 3, 1}, {.causal = true}, {2, 1, 2, 1}},
      {{1, 9, 2}, {1, 5, 2}, {1, 5, 2}, {.causal = true}, {1}},
      {{1, 2, 2}, {1, 0, 2}, {1, 0, 3}},
      {{1, 0, 2}, {1, 3, 2}, {1, 3, 2}},
      {{0, 2, 2}, {0, 3, 2}, {0, 3, 1}},
      {{1, 2, 0}, {1, 3, 0}, {1, 3, 2}},
  };
}
constexpr Layout layouts[] = {Layout::plain, Layout::transposed, Layout::reversed, Layout::repeated,
                              Layout::stepped};
void attention_samples(SampleList out) {
  const auto add = [&](const Case& each, Layout layout) {
    std::vector<Tensor> inputs = {drawn(each.q, layout), drawn(each.k, layout, {}, 3),
                                  drawn(each.v, layout, {}, 5)};
    if (each.mask.rank()) inputs.push_back(drawn(each.mask, layout, {}, 7));
    sample(out, inputs, [options = each.options](const std::vector<Tensor>& in) {
      AttentionOptions given = options;
      if (in.size() > 3) given.mask = in[3];
      return attention(in[0], in[1], in[2], given);
    });
  };
  const std::vector<Case> all = cases();
  for (const Case& each : all) add(each, Layout::plain);
  for (const Layout layout : layouts) {
    add(all[1], layout);
    add(all[5], layout);
  }
  for (const double dropout : {0.3, 0.5})
    sample(out,
           {drawn({2, 3, 2}), drawn({2, 4, 2}, {}, 3), drawn({2, 4, 3}, {}, 5),
            full({1}, 9, DType::int64)},
           [dropout](const std::vector<Tensor>& in) {
             return run(attention_op, Operands(in), AttentionSettings{.dropout = dropout});
           });
}
void attention_dropout_samples(SampleList out) {
  for (const Shape& shape :
       {Shape({2, 3, 7}), Shape({1, 1, 130}), Shape({1, 2, 0}), Shape({2, 1, 64})})
    for (const double dropout : {0.25, 0.5, 0.9})
      sample(out, {full({std::min<std::int64_t>(1, shape.elements())}, 5, DType::int64)},
             [=](const std::vector<Tensor>& in) {
               return run(attention_dropout_op, {in[0]},
                          AttentionDropoutOptions{dropout, shape, DType::float64});
             });
}
constexpr std::uint16_t attention_needs = 0x3f | need_output(0) | need_output(1);
}  // namespace

constinit Op attention_op{
    .name = "attention",
    .arity = -1,
    .shape = attention_shape,
    .promote = Promote::numeric,
    .promoted = 7,
    .options = &options_type<AttentionSettings>,
    .check = settings_fit,
    .needs = {{attention_needs, attention_needs, attention_needs, attention_needs}},
    .contiguous_inputs = true,
    .autocast = Autocast::low,
    .reads_halves = [](Part, const KernelCall&) { return true; },
    .kept = 1,
    .samples = attention_samples,
    .argument_names = "q, k, v"};
constinit Op attention_dropout_op{.name = "attention_dropout",
                                  .shape = attention_dropout_shape,
                                  .options = &options_type<AttentionDropoutOptions>,
                                  .check = scores_fit,
                                  .differentiable = false,
                                  .contiguous_inputs = true,
                                  .internal = true,
                                  .samples = attention_dropout_samples,
                                  .argument_names = "seed"};

namespace {
/// A floating mask in the dtype in which the scores are computed.
Tensor mask_of(const AttentionOptions& options, DType result) {
  const DType dtype = options.mask.dtype(), scores = computed(result);
  const bool converts = is_floating(dtype) && is_floating(result) && dtype != scores;
  return converts ? cast(options.mask, scores) : options.mask;
}
void require_options(const AttentionOptions& options, Caller caller) {
  constexpr std::string_view name = "attention";
  if (!(options.dropout >= 0 && options.dropout < 1))
    fail<Error>(caller, name, "dropout", "a number in [0, 1)", to_text(options.dropout));
  if (options.window < 0) fail<Error>(caller, name, "window", "0 or more", to_text(options.window));
  if (!std::isfinite(options.scale))
    fail<Error>(caller, name, "scale", "a finite number", to_text(options.scale));
}
}  // namespace

Tensor attention(Operand q, Operand k, Operand v, const AttentionOptions& options) {
  const Caller caller = q.caller();
  const FunctionScope scope(caller, "attention");
  require_options(options, caller);
  const Shape& shape = shape_of(attention_op, q);
  const std::int64_t width = shape.rank() ? shape.end()[-1] : 1;
  const std::int64_t keys =
      shape_of(attention_op, k, 1).rank() > 1 ? shape_of(attention_op, k, 1).end()[-2] : 0;
  SmallVector<Operand, 6> inputs;
  for (const Operand& x : {q, k, v}) inputs.push_back(x);
  AttentionSettings settings{.scale = options.scale != 0 ? options.scale
                                      : width            ? 1 / std::sqrt(double(width))
                                                         : 1,
                             .dropout = options.dropout,
                             .window = options.window,
                             .causal = options.causal,
                             .has_mask = options.mask.defined(),
                             .has_lengths = options.key_lengths.defined()};
  Tensor mask, lengths, seed;
  Generator& generator = current_generator();
  const std::uint64_t before = position_of(generator);
  if (settings.has_mask) {
    const DType result = promoted(promoted(dtype_of(attention_op, q), dtype_of(attention_op, k, 1)),
                                  dtype_of(attention_op, v, 2));
    mask = mask_of(options, result);
    inputs.push_back(Operand(mask, caller));
  }
  if (settings.has_lengths) {
    lengths = run(check_range_op, {Operand(options.key_lengths, caller)},
                  RangeOptions{0, keys, "key_lengths"});
    inputs.push_back(Operand(lengths, caller));
  }
  if (settings.dropout > 0) {
    const PlaceScope place(Context::here(), q);
    seed = random::integers(0, std::int64_t{1} << 53, {1}, caller);
    inputs.push_back(Operand(seed, caller));
  }
  SmallVector<Tensor, 2> made;
  try {
    run(attention_op, {inputs.data(), inputs.size()}, settings, caller, made);
  } catch (...) {  // arguments that do not fit draw no random number
    if (seed.defined()) generator.set_position(before);
    throw;
  }
  return std::move(made[0]);
}

const Entry attention_ops[] = {&attention_op, &attention_dropout_op, nullptr};
}  // namespace reel
