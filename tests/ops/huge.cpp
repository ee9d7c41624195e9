// SPDX-License-Identifier: BSD-3-Clause
// R10: a size that cannot be is an error of the library, whichever function computes it.
#include <cstdint>
#include <limits>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
struct Case {
  const char* name;
  void (*call)(std::int64_t huge);
};
/// An element with strides of 0: it has any length and needs no memory.
Tensor longest(std::int64_t length) { return broadcast_to(ones({1}), {length}); }
Tensor places(std::int64_t length) {
  return broadcast_to(zeros({1}, {.dtype = DType::int64}), {length});
}
Tensor two() { return tensor({{0.25, -0.5}, {1.0, 2.0}}); }

// `n` is so large that n elements of 2 axes, or n * n elements, overflow or have no memory.
const Case cases[] = {
    {"zeros",
     [](std::int64_t n) {
       zeros({n, n});
     }},
    {"full",
     [](std::int64_t n) {
       full({n, n}, 2);
     }},
    {"arange", [](std::int64_t n) { arange(0, n, 1, {.dtype = DType::float32}); }},
    {"linspace", [](std::int64_t n) { linspace(0, 1, n); }},
    {"eye", [](std::int64_t n) { eye(n); }},
    {"sequence_mask",
     [](std::int64_t n) {
       sequence_mask(tensor({1, 2}), n);
     }},
    {"meshgrid",
     [](std::int64_t n) {
       for (const Tensor& x : meshgrid({longest(n), longest(n)})) x + 1;
     }},
    {"one_hot",
     [](std::int64_t n) {
       one_hot(tensor({0, 1}), n);
     }},
    {"bincount",
     [](std::int64_t n) {
       bincount(tensor({0, 1}), n);
     }},
    {"histogram", [](std::int64_t n) { histogram(two(), n, 0, 1); }},
    {"segment_sum",
     [](std::int64_t n) {
       segment_sum(two(), tensor({0, 1}), n);
     }},
    {"segment_mean",
     [](std::int64_t n) {
       segment_mean(two(), tensor({0, 1}), n);
     }},
    {"segment_max",
     [](std::int64_t n) {
       segment_max(two(), tensor({0, 1}), n);
     }},
    {"segment_min",
     [](std::int64_t n) {
       segment_min(two(), tensor({0, 1}), n);
     }},
    {"segment_softmax",
     [](std::int64_t n) {
       segment_softmax(two(), tensor({0, 1}), n);
     }},
    {"tile",
     [](std::int64_t n) {
       tile(two(), {n, n});
     }},
    {"repeat", [](std::int64_t n) { repeat(two(), n, 0); }},
    {"repeat by counts",
     [](std::int64_t n) {
       repeat(two(), {n, n}, 0);
     }},
    {"pad",
     [](std::int64_t n) {
       pad(two(), {{n, n}, {0, 0}});
     }},
    {"concat",
     [](std::int64_t n) {
       concat({longest(n), longest(n)}, 0);
     }},
    {"stack",
     [](std::int64_t n) {
       stack({longest(n), longest(n)});
     }},
    {"take", [](std::int64_t n) { take(two(), places(n)); }},
    {"gather",
     [](std::int64_t n) {
       gather(two(), broadcast_to(places(1), {2, n}), 1);
     }},
    {"x(positions, positions)", [](std::int64_t n) { two()(places(n), places(n)); }},
    {"scatter_add", [](std::int64_t n) { scatter_add(longest(n), tensor({0}), tensor({1.0})); }},
    {"matmul",
     [](std::int64_t n) { matmul(expand_dims(longest(n), 1), expand_dims(longest(n), 0)); }},
    {"broadcast", [](std::int64_t n) { longest(n) + expand_dims(longest(n), 1); }},
    {"sort", [](std::int64_t n) { sort(longest(n)); }},
    {"cumsum", [](std::int64_t n) { cumsum(longest(n)); }},
    {"flip", [](std::int64_t n) { flip(longest(n)) + 1; }},
    {"roll", [](std::int64_t n) { roll(longest(n), 1, 0); }},
    {"tril",
     [](std::int64_t n) {
       tril(broadcast_to(longest(n), {n, n}));
     }},
    {"cast", [](std::int64_t n) { longest(n).to(DType::float64); }},
    {"softmax", [](std::int64_t n) { softmax(longest(n)); }},
    {"normal",
     [](std::int64_t n) {
       random::normal({n, n});
     }},
    {"uniform",
     [](std::int64_t n) {
       random::uniform({n, n});
     }},
    {"integers",
     [](std::int64_t n) {
       random::integers(0, 3, {n, n});
     }},
    {"permutation", [](std::int64_t n) { random::permutation(n); }},
    {"gamma",
     [](std::int64_t n) {
       random::gamma(1.0, {n, n});
     }},
    {"categorical", [](std::int64_t n) { random::categorical(two(), n); }},
    {"choice", [](std::int64_t n) { random::choice(two(), n); }},
    {"shuffle", [](std::int64_t n) { random::shuffle(longest(n)); }},
    {"linear layer", [](std::int64_t n) { nn::Linear(n, n); }},
    {"embedding", [](std::int64_t n) { nn::Embedding(n, n); }},
    {"reshape",
     [](std::int64_t n) {
       reshape(two(), {n, n, n, -1});
     }},
    {"confusion matrix",
     [](std::int64_t n) {
       metrics::confusion_matrix(tensor({0, 1}), tensor({1, 0}), n);
     }},
};
}  // namespace

TEST_CASE("sizes that cannot be are errors of every function that takes or makes one") {
  for (const Case& each : cases)
    for (const std::int64_t n :
         {std::int64_t{1} << 57, (std::int64_t{1} << 58) - 1, std::int64_t{1} << 60,
          (std::int64_t{1} << 62) + 1, std::numeric_limits<std::int64_t>::max()}) {
      INFO(each.name << " with " << n);
      // AddressSanitizer ends a program whose operator new has no memory.
      if (sanitized && each.name == std::string("repeat by counts")) continue;
      CHECK_THROWS_AS(each.call(n), Error);
    }
}
}  // namespace reel::tests
