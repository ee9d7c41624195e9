// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <limits>

#include "sweep/hostile.hpp"

namespace reel::tests {
namespace {
using TensorList = std::vector<Tensor>;

/// Tensors that few ops accept: of every dtype and rank, empty, strided, with NaN, undefined.
TensorList make_pool() {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor matrix = tensor<double>({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  TensorList list = {Tensor(),
                     tensor<double>(0.5),
                     tensor({true, false, true}),
                     tensor({1, 0, -7}),
                     tensor({1.0f, -2.0f, 3.0f}),
                     tensor({std::nan(""), inf, -inf}),
                     tensor({std::int64_t{1} << 62, std::int64_t{-1}, std::int64_t{0}}),
                     matrix,
                     transpose(matrix),
                     matrix(all, range({}, {}, -1)),
                     broadcast_to(tensor({1.0f, 2.0f, 3.0f}), {4, 3}),
                     zeros({0}),
                     zeros({2, 0, 3}, {DType::float64}),
                     ones({1, 1, 1, 1, 1, 1, 1, 1}),
                     cast(tensor({0, 200, 255}), DType::uint8),
                     cast(tensor({0, -128, 2}), DType::int8)};
  return list;
}

/// Calls f with every choice of `count` inputs. If a call succeeds, the gradient is computed too.
template <class F>
void each_choice(int count, F f) {
  const TensorList pool = make_pool();
  std::vector<std::size_t> choice(static_cast<std::size_t>(count));
  for (;;) {
    TensorList inputs;
    for (std::size_t i : choice) inputs.push_back(pool[i]);
    f(inputs);
    std::size_t k = 0;
    while (k < choice.size() && ++choice[k] == pool.size()) choice[k++] = 0;
    if (k == choice.size()) return;
  }
}

template <class Call>
void call_and_play_back(const TensorList& inputs, const Call& call) {
  GradientTape tape;
  TensorList sources;
  for (const Tensor& x : inputs)
    if (x.defined() && is_floating(x.dtype())) sources.push_back(x);
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = call();
  if (sources.empty() || !is_floating(y.dtype())) return;
  const TensorList slopes = tape.gradient(y, GradientSources(sources), Unconnected::zero);
  for (std::size_t i = 0; i < sources.size(); ++i) CHECK(slopes[i].shape() == sources[i].shape());
}

const Caller here{__FILE__, 4242};  // the user's line for the calls of samples
}  // namespace

TEST_CASE("ops by name survive any number of inputs") {
  for (const std::string& name : op_names()) {
    if (!OpTable::the().find(name)->shape) continue;
    for (std::size_t count = 0; count < 6; ++count) {
      INFO(name << " of " << count);
      const TensorList inputs(count, tensor<double>(0.5));
      survives(name, __LINE__, [&] { call_op_all(name, inputs); });
    }
  }
}

TEST_CASE("ops by name survive any inputs, forward and backward") {
  std::size_t calls = 0, answers = 0;
  for (const Op* op : library_ops()) {
    if (op->options || op->updates || op->arity < 1) continue;
    each_choice(op->arity, [&](const TensorList& inputs) {
      INFO(op->name);
      ++calls;
      answers += survives(op->name, __LINE__ + 1, [&] {
        call_and_play_back(inputs, [&] { return call_op_all(op->name, inputs)[0]; });
      });
    });
  }
  CHECK(calls > 10000);
  CHECK(answers > 1000);
}

TEST_CASE("public functions survive any inputs, forward and backward") {
  const TensorList pool = make_pool();
  for (const Op* op : ops_and_composites()) {
    std::size_t number = 0;
    for (const Sample& sample : some_samples_of(*op, 2)) {
      INFO(describe(*op, number++, sample));
      for (std::size_t i = 0; i < sample.inputs.size(); ++i)
        for (const Tensor& x : pool) {
          TensorList inputs = sample.inputs;
          inputs[i] = x;
          // A user cannot call an inner op as its sample does, so the error may name any op.
          survives(op->internal ? ": " : "", here.line, [&] {
            const CallerScope scope(here);
            call_and_play_back(inputs, [&] { return sample.call(inputs); });
          });
        }
    }
  }
}
}  // namespace reel::tests
