// SPDX-License-Identifier: BSD-3-Clause
// The CTC loss and its gradient: one loop over the steps and states of each sequence.
#include "lib/formulas/ctc.hpp"
#include "lib/cpu/bytes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/ctc.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
namespace ctc = formulas::ctc;
using ctc::Number;
constexpr std::int64_t shared_states = 1 << 11;  // before sequences are shared among threads

/// f(b) for each sequence.
template <class F>
void each(const ctc::Sequences& all, const F& f) {
  parallel_rows(all.batch, all.time * all.most_states() + 1, shared_states,
                [&](std::int64_t b, std::int64_t end) {
                  for (; b < end; ++b) f(b);
                });
}

/// Multiplies the probabilities of states by those of their classes in one step.
template <class T>
void multiply_by_classes(const ctc::States& states, const T* log_probs, Number* at) {
  const Number blank = ctc::exponential(static_cast<double>(log_probs[states.blank]));
  for (std::int64_t s = 0; s < states.count; ++s)
    at[s] = at[s] *
            (s & 1 ? ctc::exponential(static_cast<double>(log_probs[states.class_of(s)])) : blank);
}
void begin(const ctc::States& states, Number* first) {
  for (std::int64_t s = 0; s < states.count; ++s) first[s] = {};
  first[0] = {1, 0};
}

KernelResult ctc_loss(const KernelCall& call) {
  const ctc::Sequences all = ctc::sequences_of(call.input(0), call.input(1), call.input(2),
                                               call.input(3), call.option<BlankOptions>().blank);
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) {
    each(all, [&](std::int64_t b) {
      const ctc::States states = all.states_of(b);
      auto* const paths =
          static_cast<Number*>(scratch(static_cast<std::size_t>(states.count) * sizeof(Number)));
      begin(states, paths);
      for (std::int64_t t = 0; t < all.steps_of(b); ++t) {
        for (std::int64_t s = states.count - 1; s >= 0; --s)
          paths[s] = states.forward_step(paths, s);
        multiply_by_classes(states, call.input(0).as<T>() + all.at(t, b), paths);
      }
      call.output().as<T>()[b] = static_cast<T>(0 - ctc::logarithm(states.total(paths)));
    });
  });
}

/// The gradient of one sequence: for each state, the share of the paths that are in it.
template <class T>
void add_gradient(const ctc::Sequences& all, std::int64_t b, const T* x, double dy, T* dx) {
  const ctc::States states = all.states_of(b);
  const std::int64_t steps = all.steps_of(b), n = states.count;
  // Rows of states: the paths before the first step and after each step. The last row has the ways
  // to go on from each state.
  auto* const paths =
      static_cast<Number*>(scratch(static_cast<std::size_t>((steps + 2) * n) * sizeof(Number)));
  Number* const rest = paths + (steps + 1) * n;
  begin(states, paths);
  for (std::int64_t t = 0; t < steps; ++t) {
    const Number* const before = paths + t * n;
    Number* const after = paths + (t + 1) * n;
    for (std::int64_t s = 0; s < n; ++s) after[s] = states.forward_step(before, s);
    multiply_by_classes(states, x + all.at(t, b), after);
  }
  const Number total = states.total(paths + steps * n);
  if (total.fraction == 0) return;
  for (std::int64_t s = 0; s < n; ++s) rest[s] = states.ends(s) ? Number{1, 0} : Number{};
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    const Number* const after = paths + (t + 1) * n;
    T* const to = dx + all.at(t, b);
    double of_blank = 0;
    for (std::int64_t s = 0; s < n; ++s) {
      const double share = dy * ctc::ratio(after[s], rest[s], total);
      if (s & 1)
        to[states.class_of(s)] -= static_cast<T>(share);
      else
        of_blank += share;
    }
    to[states.blank] -= static_cast<T>(of_blank);
    multiply_by_classes(states, x + all.at(t, b), rest);
    for (std::int64_t s = 0; s < n; ++s) rest[s] = states.backward_step(rest, s);
  }
}
KernelResult ctc_gradient(const KernelCall& given) {
  const GradientKernelCall call(given);
  const ctc::Sequences all = ctc::sequences_of(*call.x(0), *call.x(1), *call.x(2), *call.x(3),
                                               call.option<BlankOptions>().blank);
  if (!call.adds()) clear_bytes(call.dx()->data, call.dx()->bytes());
  return with_floating(call.dx()->dtype, [&]<class T>(Type<T>) {
    each(all, [&](std::int64_t b) {
      add_gradient(all, b, call.x(0)->as<T>(), static_cast<double>(call.dy()->as<T>()[b]),
                   call.dx()->as<T>());
    });
  });
}

constexpr NamedKernel kernels[] = {
    {"ctc_loss", ctc_loss}, {"ctc_loss.d", ctc_gradient}, {nullptr, nullptr}};
}  // namespace
extern const Family ctc_family;
const Family ctc_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
