// SPDX-License-Identifier: BSD-3-Clause
#include <reel/caller.hpp>
#include <reel/nn/attention.hpp>
#include <reel/ops.hpp>
#include <reel/random.hpp>
#include <reel/train.hpp>

#include <cmath>
#include <exception>

#include "lib/nn/check.hpp"

namespace reel::nn {
namespace {
/// Of width columns: base^(-2 i / width) for i from 0 to width / 2 - 1, rounded up.
Tensor frequencies(std::int64_t width, double base) {
  const Tensor pair = arange(std::int64_t{0}, (width + 1) / 2).to(DType::float64);
  return exp(pair * (-2 * std::log(base) / static_cast<double>(width)));
}
/// f(x) is added to x, with a norm before f or after the sum.
template <class F>
Tensor added(const Tensor& x, const LayerNorm& norm, bool norm_first, double rate, const F& f) {
  const auto dropped = [&](const Tensor& y) {
    return rate > 0 && training() ? reel::dropout(y, rate) : y;
  };
  return norm_first ? x + dropped(f(norm(x))) : norm(x + dropped(f(x)));
}
Tensor fed_forward(const Linear& expand, const Linear& contract, Tensor (*activation)(Operand),
                   double rate, const Tensor& x) {
  const Tensor hidden = activation(expand(x));
  return contract(rate > 0 && training() ? reel::dropout(hidden, rate) : hidden);
}

/// The parts of both layers of transformers.
MultiHeadAttention attention_of(Extent width, Extent heads, const TransformerOptions& options,
                                double rotary_base, Caller caller) {
  return MultiHeadAttention(width, heads,
                            {.kv_heads = options.kv_heads,
                             .bias = options.bias,
                             .dropout = options.dropout,
                             .rotary_base = rotary_base,
                             .dtype = options.dtype},
                            caller);
}
Linear linear_of(Extent in, Extent out, const TransformerOptions& options, Caller caller) {
  return Linear(in, out, {options.dtype}, Activation::none, caller, options.bias);
}
LayerNorm norm_of(Extent width, const TransformerOptions& options, Caller caller) {
  return LayerNorm(width, {options.epsilon, options.dtype}, caller);
}
Extent hidden_of(const char* layer, Extent width, const TransformerOptions& options,
                 Caller caller) {
  if (!options.activation)
    fail<Error>(caller, layer, "activation", "a function, such as relu", "a null pointer");
  if (options.feed_forward == 0) return 4 * width.value;
  return checked(layer, "feed_forward", options.feed_forward, caller);
}
}  // namespace

Tensor sinusoidal_positions(Extent count, Extent width, TensorOptions options, Caller caller) {
  constexpr const char* name = "sinusoidal_positions";
  const CallerScope here(caller, name);
  const std::int64_t columns = checked(name, "width", width, caller);
  const Tensor angles = expand_dims(arange(std::int64_t{0}, count.value).to(DType::float64), 1) *
                        frequencies(columns, 10000);
  const Tensor pairs = reshape(stack({sin(angles), cos(angles)}, 2), {count, -1});
  return pairs(all, range(0, columns)).to(checked(name, options.dtype, caller));
}

Tensor rotary(Operand x, Operand positions, const RotaryOptions& options) {
  const CallerScope here(x.caller(), "rotary");
  const Shape* const shape = shape_of_input("rotary", "x", x);
  if (!shape || shape->rank() < 2 || shape->end()[-1] % 2 != 0)
    fail<ShapeError>(x.caller(), "rotary", "x", "[..., time, width] with an even width",
                     shape ? to_text(*shape) : "a number");
  check_number(options.base > 0 && std::isfinite(options.base), "rotary", "base",
               "a finite number above 0", options.base, x.caller());
  Tensor from = x.value();
  if (!is_floating(from.dtype())) from = from.to(DType::float32);
  const std::int64_t width = from.shape(-1), half = width / 2;
  const Tensor angles =
      expand_dims(positions.value().to(DType::float64), -1) * frequencies(width, options.base);
  const Tensor c = cos(angles).to(from.dtype()), s = sin(angles).to(from.dtype());
  if (!options.interleaved) {
    const Tensor a = from(ellipsis, range(0, half)), b = from(ellipsis, range(half, width));
    return concat({a * c - b * s, b * c + a * s}, -1);
  }
  const Tensor a = from(ellipsis, range(0, {}, 2)), b = from(ellipsis, range(1, {}, 2));
  return reshape(stack({a * c - b * s, b * c + a * s}, -1), from.shape());
}

KeyValueCache::KeyValueCache(Extent batch, Extent heads, Extent capacity, Extent width,
                             TensorOptions options, Caller caller)
    : keys("keys",
           zeros({checked("KeyValueCache", "batch", batch, caller),
                  checked("KeyValueCache", "heads", heads, caller),
                  checked("KeyValueCache", "capacity", capacity, caller),
                  checked("KeyValueCache", "width", width, caller)},
                 options, caller),
           caller),
      values("values", zeros({batch, heads, capacity, width}, options, caller), caller),
      length("length", zeros({}, DType::int64, caller), caller) {}

std::int64_t KeyValueCache::used() const { return length.value().item<std::int64_t>(); }

void KeyValueCache::append(Operand k, Operand v) const {
  constexpr const char* name = "KeyValueCache";
  const CallerScope here(k.caller(), name);
  const Shape& whole = keys.shape();
  const Shape* const of_k = shape_of_input(name, "k", k);
  const Shape* const of_v = shape_of_input(name, "v", v);
  const std::int64_t before = used(), room = whole[2] - before;
  const bool fits = of_k && of_k->rank() == 4 && (*of_k)[0] == whole[0] && (*of_k)[1] == whole[1] &&
                    (*of_k)[3] == whole[3];
  if (!fits || (*of_k)[2] > room)
    fail<ShapeError>(k.caller(), name, "k",
                     error_text("shape ({}, {}, steps, {}) with {} steps or fewer: {} of {} are in "
                                "use",
                                whole[0], whole[1], whole[3], room, before, whole[2]),
                     of_k ? to_text(*of_k) : "a number",
                     room ? "" : "The cache is full; clear() begins a new sequence.");
  if (!of_v || !(*of_v == *of_k))
    fail<ShapeError>(k.caller(), name, "v", error_text("shape {}, as k has", *of_k),
                     of_v ? to_text(*of_v) : "a number");
  const std::int64_t after = before + (*of_k)[2];
  keys(all, all, range(before, after)).assign(k);
  values(all, all, range(before, after)).assign(v);
  length.assign(after);
}
void KeyValueCache::reorder(Operand rows) const {
  const CallerScope here(rows.caller(), "KeyValueCache");
  const Tensor k = take(keys, rows, 0), v = take(values, rows, 0);
  keys.assign(k);
  values.assign(v);
}
void KeyValueCache::clear() const { length.assign(0); }

namespace {
Linear projection(Extent in, Extent out, const MultiHeadAttentionOptions& options, Caller caller) {
  return Linear(in, out, {options.dtype}, Activation::none, caller, options.bias);
}
/// The columns of keys and values.
std::int64_t shared_width(Extent width, Extent head_count, const MultiHeadAttentionOptions& options,
                          Caller caller) {
  constexpr const char* name = "MultiHeadAttention";
  const std::int64_t columns = checked(name, "width", width, caller);
  const std::int64_t heads = checked(name, "heads", head_count, caller);
  if (columns % heads != 0)
    fail<ShapeError>(caller, name, "heads", error_text("a divisor of the width {}", columns),
                     to_text(heads));
  const std::int64_t shared = options.kv_heads ? options.kv_heads : heads;
  if (shared < 1 || heads % shared != 0)
    fail<ShapeError>(caller, name, "kv_heads", error_text("a divisor of {} heads", heads),
                     to_text(shared));
  return columns / heads * shared;
}
}  // namespace

MultiHeadAttention::MultiHeadAttention(Extent width, Extent head_count,
                                       MultiHeadAttentionOptions options, Caller caller)
    : query(projection(checked("MultiHeadAttention", "width", width, caller), width, options,
                       caller)),
      key(width, shared_width(width, head_count, options, caller), {options.dtype},
          Activation::none, caller, options.rotary_base > 0 ? options.bias : Bias::no),
      value(projection(width, key.weight.shape()[1], options, caller)),
      output(projection(width, width, options, caller)),
      heads(head_count.value),
      kv_heads(options.kv_heads ? options.kv_heads : heads),
      dropout(options.dropout),
      rotary_base(options.rotary_base) {
  constexpr const char* name = "MultiHeadAttention";
  check_number(dropout >= 0 && dropout < 1, name, "dropout", "0 or more and below 1", dropout,
               caller);
  check_number(rotary_base >= 0 && std::isfinite(rotary_base), name, "rotary_base",
               "a finite number of 0 or more", rotary_base, caller);
}

namespace {
/// [batch, time, heads * width] as [batch, heads, time, width].
Tensor divided(const Tensor& x, std::int64_t heads) {
  Shape shape = x.shape();
  const std::size_t rank = shape.rank();
  shape.resize(rank + 1);
  shape.data()[rank - 1] = heads;
  shape.data()[rank] = x.shape(-1) / heads;
  return swap_axes(reshape(x, shape), -2, -3);
}
Tensor joined(const Tensor& x) {
  const Tensor swapped = swap_axes(x, -2, -3);
  Shape shape = swapped.shape();
  shape.resize(shape.rank() - 1);
  shape.data()[shape.rank() - 1] = swapped.shape(-2) * swapped.shape(-1);
  return reshape(swapped, shape);
}
void check_steps(const Operand& x, const char* argument, std::int64_t width) {
  constexpr const char* name = "MultiHeadAttention";
  check_width(name, argument, x, width);
  const Shape* const shape = shape_of_input(name, argument, x);
  if (shape && shape->rank() < 2)
    fail<ShapeError>(x.caller(), name, argument, "[batch, time, width]", to_text(*shape));
}
AttentionOptions with_dropout(const AttentionOptions& options, double dropout) {
  AttentionOptions used = options;
  if (used.dropout == 0 && training()) used.dropout = dropout;
  return used;
}
Tensor rotated(const Tensor& x, std::int64_t first, double base) {
  return base > 0 ? rotary(x, arange(first, first + x.shape(-2)), {.base = base}) : x;
}
}  // namespace

Tensor MultiHeadAttention::operator()(Operand x, const AttentionOptions& options) const {
  const CallerScope here(x.caller(), "MultiHeadAttention");
  check_steps(x, "x", query.weight.shape()[0]);
  const Tensor from = x.value();
  const Tensor q = rotated(divided(query(from), heads), 0, rotary_base);
  const Tensor k = rotated(divided(key(from), kv_heads), 0, rotary_base);
  return output(joined(
      reel::attention(q, k, divided(value(from), kv_heads), with_dropout(options, dropout))));
}
Tensor MultiHeadAttention::operator()(Operand q, Operand kv,
                                      const AttentionOptions& options) const {
  const CallerScope here(q.caller(), "MultiHeadAttention");
  check_steps(q, "q", query.weight.shape()[0]);
  check_steps(kv, "kv", key.weight.shape()[0]);
  const Tensor from = kv.value();
  return output(
      joined(reel::attention(divided(query(q), heads), divided(key(from), kv_heads),
                             divided(value(from), kv_heads), with_dropout(options, dropout))));
}
Tensor MultiHeadAttention::operator()(Operand x, KeyValueCache& cache) const {
  const CallerScope here(x.caller(), "MultiHeadAttention");
  check_steps(x, "x", query.weight.shape()[0]);
  const Tensor from = x.value();
  const std::int64_t before = cache.used();
  const Tensor q = rotated(divided(query(from), heads), before, rotary_base);
  const Tensor k = rotated(divided(key(from), kv_heads), before, rotary_base);
  cache.append(k, divided(value(from), kv_heads));
  const std::int64_t after = before + q.shape(-2);
  // One query reads the cache where it is. For several queries, `causal` counts from the last key.
  if (q.shape(-2) == 1)
    return output(joined(reel::attention(
        q, cache.keys, cache.values,
        with_dropout({.key_lengths = full({q.shape(0)}, after, DType::int64)}, dropout))));
  return output(joined(reel::attention(q, cache.keys(all, all, range(0, after)),
                                       cache.values(all, all, range(0, after)),
                                       with_dropout({.causal = true}, dropout))));
}
KeyValueCache MultiHeadAttention::cache(Extent batch, Extent capacity, Caller caller) const {
  return KeyValueCache(batch, kv_heads, capacity, query.weight.shape()[0] / heads,
                       {query.weight.dtype()}, caller);
}

namespace {
/// A cached step that throws has added nothing to the cache.
class StepScope {
 public:
  explicit StepScope(const KeyValueCache& cache)
      : cache_(cache), before_(cache.length.value()), exceptions_(std::uncaught_exceptions()) {}
  ~StepScope() {
    if (std::uncaught_exceptions() == exceptions_) return;
    try {
      cache_.length.assign(before_);
    } catch (...) {  // no memory: the first exception tells it
    }
  }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  const KeyValueCache& cache_;
  Tensor before_;
  int exceptions_;
};
}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(Extent width, Extent heads,
                                                 TransformerOptions options, Caller caller)
    : attention(attention_of(width, heads, options, options.rotary_base, caller)),
      expand(linear_of(width, hidden_of("TransformerEncoderLayer", width, options, caller), options,
                       caller)),
      contract(linear_of(expand.weight.shape()[1], width, options, caller)),
      attention_norm(norm_of(width, options, caller)),
      feed_forward_norm(norm_of(width, options, caller)),
      activation(options.activation),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

Tensor TransformerEncoderLayer::operator()(Operand x, const AttentionOptions& options) const {
  const CallerScope here(x.caller(), "TransformerEncoderLayer");
  const Tensor y = added(x.value(), attention_norm, norm_first, dropout,
                         [&](const Tensor& from) { return attention(from, options); });
  return added(y, feed_forward_norm, norm_first, dropout, [&](const Tensor& from) {
    return fed_forward(expand, contract, activation, dropout, from);
  });
}
Tensor TransformerEncoderLayer::operator()(Operand x, KeyValueCache& cache) const {
  const CallerScope here(x.caller(), "TransformerEncoderLayer");
  const StepScope step(cache);
  const Tensor y = added(x.value(), attention_norm, norm_first, dropout,
                         [&](const Tensor& from) { return attention(from, cache); });
  return added(y, feed_forward_norm, norm_first, dropout, [&](const Tensor& from) {
    return fed_forward(expand, contract, activation, dropout, from);
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(Extent width, Extent heads,
                                                 TransformerOptions options, Caller caller)
    : attention(attention_of(width, heads, options, options.rotary_base, caller)),
      cross_attention(attention_of(width, heads, options, 0, caller)),
      expand(linear_of(width, hidden_of("TransformerDecoderLayer", width, options, caller), options,
                       caller)),
      contract(linear_of(expand.weight.shape()[1], width, options, caller)),
      attention_norm(norm_of(width, options, caller)),
      cross_norm(norm_of(width, options, caller)),
      feed_forward_norm(norm_of(width, options, caller)),
      activation(options.activation),
      dropout(options.dropout),
      norm_first(options.norm_first) {}

namespace {
/// What follows the self-attention of a decoder.
Tensor decoded(const TransformerDecoderLayer& layer, const Tensor& x, const Operand& memory,
               const AttentionOptions& of_memory) {
  const Tensor y =
      added(x, layer.cross_norm, layer.norm_first, layer.dropout,
            [&](const Tensor& from) { return layer.cross_attention(from, memory, of_memory); });
  return added(
      y, layer.feed_forward_norm, layer.norm_first, layer.dropout, [&](const Tensor& from) {
        return fed_forward(layer.expand, layer.contract, layer.activation, layer.dropout, from);
      });
}
}  // namespace

Tensor TransformerDecoderLayer::operator()(Operand x, Operand memory,
                                           const AttentionOptions& options,
                                           const AttentionOptions& of_memory) const {
  const CallerScope here(x.caller(), "TransformerDecoderLayer");
  return decoded(*this,
                 added(x.value(), attention_norm, norm_first, dropout,
                       [&](const Tensor& from) { return attention(from, options); }),
                 memory, of_memory);
}
Tensor TransformerDecoderLayer::operator()(Operand x, Operand memory, KeyValueCache& cache,
                                           const AttentionOptions& of_memory) const {
  const CallerScope here(x.caller(), "TransformerDecoderLayer");
  const StepScope step(cache);
  return decoded(*this,
                 added(x.value(), attention_norm, norm_first, dropout,
                       [&](const Tensor& from) { return attention(from, cache); }),
                 memory, of_memory);
}
}  // namespace reel::nn
