// SPDX-License-Identifier: BSD-3-Clause
// Budgets of launches, waits and allocations for each op, after a first call.
#include <reel/reel.hpp>

#include "cuda/emulated.hpp"

namespace reel::tests {
namespace {
struct Budget {
  std::string name;
  std::uint64_t launches;
  std::function<void()> run;
  std::uint64_t copies = 0;
};
void check(const Budget& budget) {
  INFO(budget.name);
  const emulate::Counts counts = counts_of(budget.run);
  CHECK(counts.launches + counts.products <= budget.launches);
  CHECK(counts.synchronizations == 0);
  CHECK(counts.allocations == 0);
  CHECK(counts.copies <= budget.copies);
}
}  // namespace

TEST_CASE("an eager op is one launch, without a wait or an allocation") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({40, 50}), row = ones({50}), number = ones({1}), wide = ones({64, 32});
  const Tensor weight = ones({50, 32}), bias = ones({32});
  const Tensor places = zeros({40}, {.dtype = DType::int64}), square_x = ones({32, 32});
  const std::vector<Budget> budgets = {
      {"add", 1, [&] { x + x; }},
      {"add a row", 1, [&] { x + row; }},
      {"multiply by a number", 1, [&] { x * 2; }, 1},  // the number is copied to the device
      {"add a transposed matrix", 1, [&] { square_x + transpose(square_x); }},
      {"tanh", 1, [&] { tanh(x); }},
      {"compare", 1, [&] { x > row; }},
      {"cast", 1, [&] { x.to(DType::float64); }},
      {"sum of rows", 1, [&] { sum(x, {1}); }},
      {"sum of columns", 2, [&] { sum(x, {0}); }},
      {"sum of all", 2, [&] { sum(x); }},
      {"softmax", 1, [&] { softmax(x); }},
      {"cross entropy", 2, [&] { cross_entropy(x, places); }},
      {"layer norm", 1, [&] { layer_norm(x, row, row); }},
      {"take", 1, [&] { take(x, places); }},
      {"concat", 2,
       [&] {
         concat({x, x}, 0);
       }},
      {"product", 1, [&] { matmul(x, transpose(x)); }},
      {"dense", 2, [&] { dense(x, weight, bias, Activation::tanh); }},
  };
  for (const Budget& budget : budgets) check(budget);
}

#ifdef REEL_COUNTS_ACCESSES  // in a build without a sanitizer
TEST_CASE("softmax, layer norm and Adam read and write each element once") {
  const DeviceScope scope(cuda(0));
  const std::uint64_t rows = 20, columns = 100, bytes = rows * columns * sizeof(float);
  const Tensor x = random::normal({20, 100}), row = ones({100}), tall = ones({2, 250, 40});
  Variable w("w", x), m("m", zeros({20, 100})), v("v", zeros({20, 100}));
  const Tensor rate = tensor(0.1).to(DType::float64), step = tensor(1);
  struct Case {
    std::string name;
    std::uint64_t read, written;
    std::function<void()> run;
  };
  const std::vector<Case> cases = {
      {"softmax", bytes, bytes, [&] { softmax(x); }},
      {"log_softmax", bytes, bytes, [&] { log_softmax(x); }},
      {"softmax of columns", bytes, bytes, [&] { softmax(x, 0); }},
      {"log_softmax of columns", bytes, bytes, [&] { log_softmax(x, 0); }},
      {"softmax of long columns", 2 * 250 * 40 * 4, 2 * 250 * 40 * 4, [&] { softmax(tall, 1); }},
      // The scale and the shift are read for each row, from the cache.
      {"layer_norm", 3 * bytes, bytes, [&] { layer_norm(x, row, row); }},
      // Each of the two blocks reads the sums of both shares.
      {"limit_norm", 4 * bytes + 4 * sizeof(double), 2 * bytes + 2 * sizeof(double),
       [&] {
         limit_norm({x, x}, 1);
       }},
      // The rate is read twice and the count of steps once, by each of the blocks.
      {"adam_update", 4 * bytes + 24, 3 * bytes, [&] { adam_update(w, m, v, x, rate, step); }},
  };
  for (const Case& each : cases) {
    INFO(each.name);
    synchronize(cuda(0));
    emulate::reset_counts();
    each.run();
    synchronize(cuda(0));
    const emulate::Counts counts = emulate::counts();
    CHECK(counts.read_bytes == each.read);
    CHECK(counts.written_bytes == each.written);
  }
}
#endif

TEST_CASE("gradients, updates and layers make few launches, without a wait or an allocation") {
  const DeviceScope scope(cuda(0));
  const Tensor x = random::normal({40, 50}), y = random::normal({40, 50}), row = ones({50});
  const Tensor weight = random::normal({50, 32}), bias = ones({32});
  const Tensor labels = zeros({40}, {.dtype = DType::int64}), steps = random::normal({7, 4, 5});
  // The launches of f() and of its gradient.
  const auto both_ways = [](const std::vector<Tensor>& sources, const std::function<Tensor()>& f) {
    return [=] {
      GradientTape tape;
      for (const Tensor& each : sources) tape.watch(each);
      tape.gradient(f(), sources);
    };
  };
  std::vector<Variable> many;
  std::vector<Tensor> gradients;
  for (int i = 0; i < 20; ++i) {
    many.emplace_back("w", ones({30, i + 1}));
    gradients.push_back(ones({30, i + 1}));
  }
  std::vector<Variable> very_many;
  for (int i = 0; i < 300; ++i) very_many.emplace_back("w", ones({2}));
  const std::vector<Tensor> ups(300, ones({2}));
  optim::Adam adam(many), large_adam(very_many);
  optim::SGD sgd(many);
  const nn::LSTM lstm(5, 8);
  const std::vector<Budget> budgets = {
      {"tanh", 4, both_ways({x}, [=] { return sum(tanh(x)); })},
      {"multiply", 5, both_ways({x, y}, [=] { return sum(x * y); })},
      {"multiply a row", 7, both_ways({x, row}, [=] { return sum(x * row); })},
      {"softmax", 6, both_ways({x}, [=] { return sum(softmax(x) * y); })},
      {"cross entropy", 6, both_ways({x}, [=] { return cross_entropy(x, labels); }), 1},
      {"layer norm", 7, both_ways({x, row}, [=] { return sum(layer_norm(x, row, row)); })},
      {"take", 7, both_ways({x}, [=] { return sum(take(x, labels)); })},
      {"product", 7, both_ways({x, weight}, [=] { return sum(matmul(x, weight)); })},
      {"dense", 10,
       both_ways({x, weight, bias}, [=] { return sum(dense(x, weight, bias, Activation::tanh)); }),
       1},
      {"SGD of 20 Variables", 1, [&] { sgd.step(gradients); }, 1},
      {"Adam of 20 Variables", 3, [&] { adam.step(gradients); }, 2},
      {"Adam of 300 Variables", 3, [&] { large_adam.step(ups); }, 2},
      {"clip_by_global_norm of 20 tensors", 2, [&] { optim::clip_by_global_norm(gradients, 1); }},
      {"lstm of 7 steps", 16, [&] { lstm(steps); }, 2},
      {"lstm of 7 steps, both ways", 33,
       both_ways({steps}, [&] { return sum(lstm(steps).outputs); }), 2},
  };
  for (const Budget& budget : budgets) check(budget);
}
}  // namespace reel::tests
