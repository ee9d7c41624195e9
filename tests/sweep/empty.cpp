// SPDX-License-Identifier: BSD-3-Clause
// Tensors without elements.
#include <algorithm>
#include <cmath>

#include "sweep/table.hpp"

namespace reel::tests {
namespace {
Tensor none() { return zeros({0}); }
float number(const Tensor& x) { return x.item<float>(); }
using Extreme = Tensor (*)(Operand, Axes, Keepdims);
}  // namespace

TEST_CASE("every op of tensors has a sample without elements, or an error for it") {
  for (const Op* op : library_ops()) {
    if (op->updates || op->arity == 0) continue;
    bool empty = false;
    for (const Sample& sample : samples_of(*op))
      for (const Tensor& x : sample.inputs) empty |= x.size() == 0;
    INFO(op->name);
    CHECK(empty != op->needs_elements);
  }
}

TEST_CASE("every op of tensors has a sample with one element along an axis") {
  for (const Op* op : library_ops()) {
    if (op->updates || op->arity == 0) continue;
    bool one = false, floats = false;
    for (const Sample& sample : samples_of(*op))
      for (const Tensor& x : floating(sample.inputs)) {
        one |= std::count(x.shape().begin(), x.shape().end(), 1) > 0;
        floats = true;
      }
    INFO(op->name);
    CHECK(one == floats);
  }
}

TEST_CASE("a sample without elements has finite gradients of the inputs' shapes") {
  for (const Op* op : ops_and_composites()) {
    if (op->updates || !op->gradient.differentiable) continue;
    std::size_t count = 0;
    for (const Sample& sample : samples_of(*op)) {
      bool empty = false;
      for (const Tensor& x : sample.inputs) empty |= x.size() == 0;
      const std::vector<Tensor> sources = floating(sample.inputs);
      INFO(describe(*op, count++, sample));
      if (!empty || sources.empty()) continue;
      GradientTape tape;
      for (const Tensor& x : sources) tape.watch(x);
      const auto slopes = tape.gradient(sum(sample.call(sample.inputs)), GradientSources(sources),
                                        Unconnected::zero);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        CHECK(slopes[i].shape() == sources[i].shape());
        for (double slope : host_of(slopes[i]).values) CHECK(std::isfinite(slope));
      }
    }
  }
}

TEST_CASE("reductions of no elements give the neutral element") {
  CHECK(number(sum(none())) == 0);
  CHECK(std::isnan(number(mean(none()))));
  CHECK_FALSE(any(none()).item<bool>());
  CHECK(all(none()).item<bool>());
  CHECK(equal(sum(zeros({0, 3}), 0), zeros({3})));
  CHECK(sum(zeros({0, 3}), 1).shape() == Shape({0}));
  CHECK(max(zeros({0, 3}), 1).shape() == Shape({0}));
}

TEST_CASE("extremes along an axis of length 0 are refused, also where the result is empty") {
  struct Case {
    Shape shape;
    Axes axes;
    bool refused;
  };
  const Case cases[] = {{{0, 0}, 0, true},
                        {{0, 0}, -1, true},
                        {{0, 0}, {0, 1}, true},
                        {{0, 3}, 0, true},
                        {{0, 3}, 1, false},
                        {{3, 0}, 0, false},
                        {{3, 0}, 1, true},
                        {{2, 0, 0}, 1, true},
                        {{2, 0, 0}, 0, false},
                        {{2, 0, 3}, {0, 2}, false},
                        {{2, 0, 3}, {0, 1}, true},
                        {{0}, 0, true},
                        {{0, 0}, Axes::every(), true},
                        {{1, 0, 1}, {0, 2}, false}};
  for (const DType dtype :
       {DType::boolean, DType::uint8, DType::int32, DType::int64, DType::float32, DType::float64})
    for (const auto& [shape, axes, refused] : cases)
      for (const Keepdims keep : {Keepdims::no, keepdims}) {
        const Tensor x = zeros(shape, {.dtype = dtype});
        INFO(dtype << " " << shape << " of " << axes.count() << " axes");
        const bool one_axis = axes.is_every() || axes.count() == 1;
        for (const Extreme f : {Extreme(max), Extreme(min), Extreme(argmax)}) {
          if (f == Extreme(argmax) && !one_axis) continue;
          const auto traced = trace<Tensor(Tensor)>(
              [&, &axes = axes](const Tensor& t) { return f(t, axes, keep); });
          const auto recorded = [&, &axes = axes] {
            GradientTape tape;
            if (is_floating(dtype)) tape.watch(x);
            return f(x, axes, keep);
          };
          if (refused) {
            CHECK_THROWS_AS(f(x, axes, keep), ShapeError);
            CHECK_THROWS_AS(recorded(), ShapeError);
            for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(traced(x), ShapeError);
          } else {
            CHECK(f(x, axes, keep).shape() == sum(x, axes, keep).shape());
            CHECK(recorded().size() == 0);
            for (int i = 0; i < 3; ++i) CHECK(traced(x).size() == 0);
          }
        }
      }
}

TEST_CASE("a product over no elements is 0") {
  CHECK(equal(matmul(zeros({2, 0}), zeros({0, 3})), zeros({2, 3})));
  CHECK(number(matmul(none(), none())) == 0);
  CHECK(equal(matmul_add(zeros({2, 0}), zeros({0, 2}), tensor({1.0f, 2.0f})),
              tensor({{1.0f, 2.0f}, {1.0f, 2.0f}})));
}

TEST_CASE("of no rows the mean loss is NaN and the sum 0") {
  const Tensor labels = cast(none(), DType::int64);
  CHECK(std::isnan(number(cross_entropy(zeros({0, 3}), labels))));
  CHECK(number(cross_entropy(zeros({0, 3}), labels, Reduction::sum)) == 0);
}

TEST_CASE("nothing equals nothing") {
  CHECK(equal(none(), none()));
  CHECK_FALSE(equal(none(), zeros({0, 1})));
  CHECK(allclose(none(), zeros({1})));
}
}  // namespace reel::tests
