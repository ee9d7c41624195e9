// SPDX-License-Identifier: BSD-3-Clause
// Layers of transformers against their formulas.
#include <cmath>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// Self-attention of x [time, width], head by head.
Tensor by_formula(const nn::MultiHeadAttention& layer, const Tensor& x, bool causal) {
  const Tensor q = layer.query(x), k = layer.key(x), v = layer.value(x);
  const std::int64_t wide = q.shape(1) / layer.heads, group = layer.heads / layer.kv_heads;
  std::vector<Tensor> parts;
  for (std::int64_t h = 0; h < layer.heads; ++h) {
    const auto own = range(h * wide, (h + 1) * wide);
    const auto shared = range(h / group * wide, (h / group + 1) * wide);
    Tensor scores = matmul(q(all, own), transpose(k(all, shared))) / std::sqrt(double(wide));
    if (causal) scores = where(tril(ones(scores.shape())) > 0, scores, -1e30);
    parts.push_back(matmul(softmax(scores, 1), v(all, shared)));
  }
  return layer.output(concat(parts, 1));
}
Tensor normed(const Tensor& x, const nn::LayerNorm& norm) {
  const Tensor middle = mean(x, -1, keepdims);
  const Tensor spread = sqrt(mean(square(x - middle), -1, keepdims) + norm.epsilon);
  return (x - middle) / spread * norm.scale + norm.shift;
}
bool near(const Tensor& x, const Tensor& y, double most = 1e-5) {
  return x.shape() == y.shape() && allclose(x, y, {.rtol = 0, .atol = most});
}
struct Writer {
  nn::Embedding embed{7, 8};
  std::vector<nn::TransformerEncoderLayer> layers;
  nn::Linear head{8, 7};
  explicit Writer(nn::TransformerOptions options = {}) {
    for (int i = 0; i < 2; ++i) layers.emplace_back(8, 4, options);
  }
  Tensor operator()(const Tensor& words) const {
    Tensor x = embed(words);
    for (const auto& layer : layers) x = layer(x, {.causal = true});
    return head(x);
  }
  Tensor operator()(const Tensor& words, std::vector<nn::KeyValueCache>& caches) const {
    Tensor x = embed(words);
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, caches[i]);
    return head(x);
  }
  std::vector<nn::KeyValueCache> caches(std::int64_t batch, std::int64_t capacity) const {
    std::vector<nn::KeyValueCache> made;
    for (const auto& layer : layers) made.push_back(layer.attention.cache(batch, capacity));
    return made;
  }
  REEL_FIELDS(embed, layers, head)
};
}  // namespace

TEST_CASE("multi-head attention is the formula for each head", "[nn]") {
  seed(1);
  const Tensor x = random::normal({2, 9, 12});
  for (const std::int64_t kv_heads : {0, 1, 2})
    for (const nn::Bias bias : {nn::Bias::yes, nn::Bias::no}) {
      const nn::MultiHeadAttention layer(12, 4, {.kv_heads = kv_heads, .bias = bias});
      CHECK(parameters(layer).size() == (bias == nn::Bias::yes ? 7u : 4u));
      CHECK(layer.key.weight.shape() == Shape({12, kv_heads ? 3 * kv_heads : 12}));
      for (const bool causal : {false, true}) {
        const Tensor y = layer(x, {.causal = causal});
        for (int b : {0, 1}) CHECK(near(y[b], by_formula(layer, x[b], causal)));
        CHECK(near(layer(x[0], {.causal = causal}), y[0]));
      }
      CHECK(near(layer(x, x), layer(x)));
      CHECK(layer(x, random::normal({2, 5, 12})).shape() == x.shape());
    }
  CHECK(parameters(nn::MultiHeadAttention(12, 4, {.rotary_base = 100})).size() == 8);
  const nn::MultiHeadAttention dropping(12, 4, {.dropout = 0.5});
  CHECK(!near(dropping(x), dropping(x)));
  const TrainScope evaluating(false);
  CHECK(equal(dropping(x), dropping(x)));
}

TEST_CASE("multi-head attention refuses sizes that do not fit", "[nn]") {
  check_refused<ShapeError>([] { nn::MultiHeadAttention(12, 5); }, "MultiHeadAttention: heads");
  check_refused<ShapeError>([] { nn::MultiHeadAttention(0, 1); }, "MultiHeadAttention: width");
  check_refused<ShapeError>([] { nn::MultiHeadAttention(12, 4, {.kv_heads = 3}); },
                            "MultiHeadAttention: kv_heads");
  check_refused<Error>([] { nn::MultiHeadAttention(12, 4, {.dropout = 1}); },
                       "MultiHeadAttention: dropout");
  const nn::MultiHeadAttention layer(12, 4);
  check_refused<ShapeError>([&] { layer(zeros({2, 3, 8})); }, "MultiHeadAttention: x");
  check_refused<ShapeError>([&] { layer(zeros({12})); }, "MultiHeadAttention: x");
  check_refused<ShapeError>(
      [&] {
        layer(zeros({2, 3, 12}), zeros({2, 3, 8}));
      },
      "MultiHeadAttention: kv");
  check_refused<ShapeError>([] { nn::TransformerEncoderLayer(12, 4, {.feed_forward = -1}); },
                            "TransformerEncoderLayer: feed_forward");
  check_refused<Error>([] { nn::TransformerDecoderLayer(12, 4, {.activation = nullptr}); },
                       "TransformerDecoderLayer: activation");
}

TEST_CASE("layers of transformers are their parts, with norms first or last", "[nn]") {
  seed(2);
  const Tensor x = random::normal({2, 5, 8}), memory = random::normal({2, 6, 8});
  for (const bool first : {true, false}) {
    const nn::TransformerOptions options{
        .feed_forward = 10, .activation = gelu, .norm_first = first, .epsilon = 1e-4};
    const nn::TransformerEncoderLayer layer(8, 2, options);
    const auto fed = [](const auto& of, const Tensor& y) {
      return of.contract(gelu(of.expand(y)));
    };
    Tensor y = first ? x + layer.attention(normed(x, layer.attention_norm))
                     : normed(x + layer.attention(x), layer.attention_norm);
    y = first ? y + fed(layer, normed(y, layer.feed_forward_norm))
              : normed(y + fed(layer, y), layer.feed_forward_norm);
    CHECK(near(layer(x), y));
    const nn::TransformerDecoderLayer decoder(8, 2, options);
    const AttentionOptions causal{.causal = true}, lengths{.key_lengths = tensor({4, 6})};
    y = first ? x + decoder.attention(normed(x, decoder.attention_norm), causal)
              : normed(x + decoder.attention(x, causal), decoder.attention_norm);
    y = first ? y + decoder.cross_attention(normed(y, decoder.cross_norm), memory, lengths)
              : normed(y + decoder.cross_attention(y, memory, lengths), decoder.cross_norm);
    y = first ? y + fed(decoder, normed(y, decoder.feed_forward_norm))
              : normed(y + fed(decoder, y), decoder.feed_forward_norm);
    CHECK(near(decoder(x, memory, {.causal = true}, lengths), y));
  }
  const nn::TransformerEncoderLayer wide(8, 2);
  CHECK(wide.expand.weight.shape() == Shape({8, 32}));
  const nn::TransformerEncoderLayer dropping(8, 2, {.dropout = 0.5});
  CHECK(!near(dropping(x), dropping(x)));
  const TrainScope evaluating(false);
  CHECK(equal(dropping(x), dropping(x)));
}

TEST_CASE("steps with a cache give what the whole sequence gives", "[nn]") {
  seed(3);
  for (const std::int64_t kv_heads : {4, 2})
    for (const double base : {0.0, 100.0}) {
      const Writer writer({.kv_heads = kv_heads, .rotary_base = base});
      const Tensor words = random::integers(0, 7, {3, 9});
      const Tensor whole = writer(words);
      auto caches = writer.caches(3, 9);
      std::vector<Tensor> parts = {writer(words(all, range(0, 4)), caches)};
      for (int t = 4; t < 7; ++t) parts.push_back(writer(words(all, range(t, t + 1)), caches));
      parts.push_back(writer(words(all, range(7, 9)), caches));
      CHECK(near(concat(parts, 1), whole));
      CHECK(caches[0].used() == 9);
      nn::KeyValueCache& full = caches[0];
      const Tensor more = zeros({3, kv_heads, 1, 2});
      check_refused<ShapeError>([&] { full.append(more, more); },
                                "KeyValueCache: k: expected shape (3, " + std::to_string(kv_heads) +
                                    ", steps, 2) with 0 steps or fewer: 9 of 9 are in use");
      caches[0].clear();
      CHECK(caches[0].used() == 0);
    }
  // After a step, the elements of the batch change places.
  const nn::MultiHeadAttention layer(8, 2);
  const Tensor x = random::normal({2, 3, 8}), next = random::normal({2, 1, 8});
  nn::KeyValueCache cache = layer.cache(2, 5);
  layer(x, cache);
  cache.reorder(tensor({1, 1}));
  const Tensor y = layer(next, cache);
  const Tensor whole = layer(concat({take(x, tensor({1, 1}), 0), next}, 1), {.causal = true});
  CHECK(near(y, whole(all, range(3, 4))));
  CHECK(buffers(cache).size() == 3);
  CHECK(parameters(cache).empty());
}

TEST_CASE("a decoder's cache gives what the whole sequence gives", "[nn]") {
  seed(4);
  const nn::TransformerDecoderLayer layer(8, 2, {.rotary_base = 50});
  const Tensor x = random::normal({2, 4, 8}), memory = random::normal({2, 6, 8});
  nn::KeyValueCache cache = layer.attention.cache(2, 4);
  std::vector<Tensor> parts;
  for (int t = 0; t < 4; ++t) parts.push_back(layer(x(all, range(t, t + 1)), memory, cache));
  CHECK(near(concat(parts, 1), layer(x, memory)));
}

TEST_CASE("positions are sines and cosines", "[nn]") {
  const Tensor positions = nn::sinusoidal_positions(6, 5);
  CHECK(positions.shape() == Shape({6, 5}));
  for (int p = 0; p < 6; ++p)
    for (int c = 0; c < 5; ++c) {
      const double angle = p / std::pow(10000.0, (c - c % 2) / 5.0);
      const float expected = static_cast<float>(c % 2 ? std::cos(angle) : std::sin(angle));
      CHECK(std::fabs(positions(p, c).item<float>() - expected) < 1e-6f);
    }
  CHECK(nn::sinusoidal_positions(2, 3, {DType::float64}).dtype() == DType::float64);
  check_refused<ShapeError>([] { nn::sinusoidal_positions(2, 0); }, "sinusoidal_positions: width");
}

TEST_CASE("rotary turns pairs of columns, so that products depend on distances", "[nn]") {
  seed(5);
  const Tensor x = random::normal({2, 3, 6}, {.dtype = DType::float64});
  const Tensor at = tensor({0, 7, 40});
  for (const bool interleaved : {false, true}) {
    const Tensor y = nn::rotary(x, at, {.base = 100, .interleaved = interleaved});
    for (int b = 0; b < 2; ++b)
      for (int t = 0; t < 3; ++t)
        for (int i = 0; i < 3; ++i) {
          const double angle = (t == 0 ? 0 : t == 1 ? 7 : 40) / std::pow(100.0, i / 3.0);
          const int first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + 3;
          const double p = x(b, t, first).item<double>(), q = x(b, t, second).item<double>();
          CHECK(std::fabs(y(b, t, first).item<double>() -
                          (p * std::cos(angle) - q * std::sin(angle))) < 1e-12);
          CHECK(std::fabs(y(b, t, second).item<double>() -
                          (q * std::cos(angle) + p * std::sin(angle))) < 1e-12);
        }
    const Tensor a = random::normal({1, 6}), c = random::normal({1, 6});
    const auto product = [&](int i, int j) {
      return sum(nn::rotary(a, tensor({i}), {.interleaved = interleaved}) *
                 nn::rotary(c, tensor({j}), {.interleaved = interleaved}));
    };
    CHECK(allclose(product(3, 10), product(103, 110), {.atol = 1e-4}));
  }
  CHECK(allclose(nn::rotary(tensor({{1, 0}}), tensor({1})), tensor({{0.5403023f, 0.8414710f}})));
  check_refused<ShapeError>([] { nn::rotary(zeros({3, 5}), tensor({1})); }, "rotary: x");
}

TEST_CASE("a transformer learns, is saved, traced and cloned", "[nn][slow]") {
  seed(6);
  Writer writer({.dropout = 0.1});
  // Each word follows from the word two steps before.
  Tensor words = random::integers(0, 7, {16, 2});
  for (int t = 2; t < 10; ++t)
    words = concat({words, (words(all, range(t - 2, t - 1)) + 3) % 7}, 1);
  optim::Adam adam(parameters(writer), {.learning_rate = 0.01});
  auto step = trace([&](Tensor x) {
    GradientTape tape;
    const Tensor scores = writer(x(all, range(0, 9)))(all, range(1, {}));
    const Tensor loss = cross_entropy(scores.reshape({-1, 7}), x(all, range(2, {})).reshape({-1}));
    adam.step(tape, loss);
    return loss;
  });
  const float first = step(words).item<float>();
  float last = 0;
  for (int i = 0; i < 150; ++i) last = step(words).item<float>();
  CHECK(last < 0.2f * first);
  CHECK(step.trace_count() == 1);
  const TrainScope evaluating(false);
  const Writer copy = clone(writer);
  CHECK(equal(copy(words), writer(words)));
  CHECK(named_parameters(writer)[1].first == "layers.0.attention.query.weight");
}
}  // namespace reel::tests
