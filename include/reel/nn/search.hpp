// SPDX-License-Identifier: BSD-3-Clause
// Sequences of tokens, written step by step by a function that scores the next token.
#pragma once  // defined in lib/nn
#include <type_traits>

#include <reel/function.hpp>
#include <reel/tensor.hpp>

namespace reel::nn {
/// Options of greedy_search().
struct GreedySearchOptions {
  std::int64_t steps = 20;  ///< tokens to add at most
  std::int64_t end = -1;    ///< the token after which a sequence has ended; -1: none
};
/// Options of beam_search().
struct BeamSearchOptions {
  std::int64_t steps = 20;
  std::int64_t beams = 4;  ///< sequences that are kept for each start
  std::int64_t end = -1;
  double length_penalty = 0;  ///< scores are divided by (added tokens)^length_penalty
};
/// What beam_search() returns, the best sequence of each start first.
struct Beams {
  Tensor tokens;  ///< [batch, beams, length], int64
  Tensor scores;  ///< [batch, beams], float64: logarithms of probabilities, see length_penalty
};

namespace detail {
using SearchStep = reel::detail::Function<Tensor(const Tensor& tokens, const Tensor& rows)>;
template <class Step>
SearchStep search_step(Step& step) {
  static_assert(std::is_invocable_r_v<Tensor, Step&, Tensor> ||
                    std::is_invocable_r_v<Tensor, Step&, Tensor, Tensor>,
                "the function takes tokens [rows, length], or tokens and rows, and returns the "
                "scores of the next token, [rows, vocabulary]");
  return [&step](const Tensor& tokens, const Tensor& rows) -> Tensor {
    if constexpr (std::is_invocable_r_v<Tensor, Step&, Tensor, Tensor>)
      return step(tokens, rows);
    else
      return static_cast<void>(rows), step(tokens);
  };
}
REEL_API Tensor greedy_search(const SearchStep& step, const Operand& start,
                              const GreedySearchOptions& options);
REEL_API Beams beam_search(const SearchStep& step, const Operand& start,
                           const BeamSearchOptions& options);
}  // namespace detail

/// Adds the token with the highest score to each sequence, again and again. start [batch, length]
/// holds the first tokens, at least one for each sequence. step(tokens) gets all tokens so far,
/// int64 [batch, length], and returns scores [batch, vocabulary] of the next one: logits, or
/// logarithms of probabilities. The result is int64 [batch, length + steps], or shorter if all
/// sequences have ended. Behind the end of a sequence are more `end`. Throws ShapeError for other
/// shapes.
///
///     auto next = [](Tensor x) { return one_hot(x(all, -1) + 1, 9); };
///     nn::greedy_search(next, tensor({{5}}), {.steps = 2})  // [[5, 6, 7]]
template <class Step>
Tensor greedy_search(Step&& step, Operand start, const GreedySearchOptions& options = {}) {
  return detail::greedy_search(detail::search_step(step), start, options);
}
/// The sequences with the highest sums of log_softmax(scores). In each step, the best `beams`
/// sequences of each start are kept. step() is as for greedy_search(), with batch * beams rows. It
/// may have a second argument: rows [batch * beams], the row of the call before that each row
/// continues. A step with a KeyValueCache passes them to reorder():
///
///     // [&](Tensor tokens, Tensor rows) {
///     //   if (cache.used()) cache.reorder(rows);
///     //   return model(cache.used() ? tokens(all, range(-1, {})) : tokens, cache)(all, -1);
///     // }
///
/// Throws ShapeError for other shapes, and Error for options out of range.
template <class Step>
Beams beam_search(Step&& step, Operand start, const BeamSearchOptions& options = {}) {
  return detail::beam_search(detail::search_step(step), start, options);
}
}  // namespace reel::nn
