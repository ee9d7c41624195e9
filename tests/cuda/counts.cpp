// SPDX-License-Identifier: BSD-3-Clause
// Budgets of launches, waits and allocations for each op, after a first call.
#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "support/short.hpp"

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
      {"multiply by a number", 1, [&] { x * 2; }},
      {"maximum with a number", 1, [&] { maximum(x, 0.5); }},
      {"clip", 2, [&] { clip(x, -1, 1); }},
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

TEST_CASE("a number that is used again is not copied to the device; its values are right") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({3}), wide = ones({3}, {.dtype = DType::float64});
  const Tensor whole = ones({3}, {.dtype = DType::int64});
  const int most = is_short() ? 100 : 1500;  // 4,500 numbers are more than the device keeps
  for (int i = -5; i < most; ++i)
    for (int time = 0; time < 3; ++time) {
      const Tensor sums = x * i + wide * (0.5 * i) + whole * i;
      if (i % 100 == 0 || i < 100) REQUIRE(sums[2].item<double>() == 2.5 * i);
    }
  emulate::reset_counts();
  for (int i = 0; i < 20; ++i) multiply(x, i);
  CHECK(emulate::counts().copies == 0);
  // A tape and a graph keep a number as long as they need it.
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * 3;
  CHECK(equal(tape.gradient(y, x), full({3}, 3)));
  const auto traced = trace([](Tensor z) { return z * 7 + 1; });
  for (int i = 0; i < 5; ++i) CHECK(equal(traced(x * i), full({3}, 7.0f * float(i) + 1)));
}

#ifdef REEL_COUNTS_ACCESSES  // in a build without a sanitizer
namespace {
/// Checks the bytes of device memory that the kernels of f() read and write.
template <class F>
void check_bytes(const std::string& name, std::uint64_t read, std::uint64_t written, const F& f) {
  INFO(name);
  synchronize(cuda(0));
  emulate::reset_counts();
  f();
  synchronize(cuda(0));
  const emulate::Counts counts = emulate::counts();
  CHECK(counts.read_bytes == read);
  CHECK(counts.written_bytes == written);
}
/// Checks the bytes of the gradient of y = f(sources).
template <class F>
void check_gradient_bytes(const std::string& name, std::uint64_t read, std::uint64_t written,
                          const std::vector<Tensor>& sources, const F& f) {
  GradientTape tape;
  for (const Tensor& each : sources) tape.watch(each);
  const Tensor y = f(), up = random::normal(y.shape());
  check_bytes(name + ".d", read, written,
              [&] { tape.gradient(y, sources, GradientOptions{.upstream = up}); });
}
std::uint64_t bytes_of(const Tensor& x) {
  return static_cast<std::uint64_t>(x.size()) * sizeof(float);
}

/// The elements of x are read `reads` times: once if a thread can keep its elements of a line.
void check_softmax_bytes(const Tensor& x, int axis, std::uint64_t reads) {
  const std::uint64_t bytes = bytes_of(x);
  check_bytes("softmax", reads * bytes, bytes, [&] { softmax(x, axis); });
  check_bytes("log_softmax", reads * bytes, bytes, [&] { log_softmax(x, axis); });
  check_gradient_bytes("softmax", 2 * reads * bytes, bytes, {x}, [&] { return softmax(x, axis); });
  // y is needed for the result only.
  check_gradient_bytes("log_softmax", (1 + reads) * bytes, bytes, {x},
                       [&] { return log_softmax(x, axis); });
}
/// `threads`: of a row.
void check_row_bytes(std::int64_t n, std::uint64_t reads, std::uint64_t threads) {
  INFO("rows of " << n);
  const std::int64_t rows = 3;
  const Tensor x = random::normal({rows, n}), gain = random::normal({n}), shift = ones({n});
  const Tensor labels = tensor({7, 0, 99});
  const std::uint64_t bytes = bytes_of(x), row = bytes / rows;
  check_softmax_bytes(x, 1, reads);
  // The label and its score are read once for each row, or by each thread with the upstream.
  const auto loss = [&] { return cross_entropy(x, labels, Reduction::none); };
  check_bytes("cross_entropy", bytes + rows * 8, rows * 4, loss);
  check_gradient_bytes("cross_entropy", reads * bytes + rows * threads * 8, bytes, {x}, loss);
  // The gain and the shift are read for each row, from the cache.
  check_bytes("layer_norm", (reads + 2) * bytes, bytes, [&] { layer_norm(x, gain, shift); });
  // Sums for gain and shift: one of each strip, and here a strip is a row.
  const std::uint64_t again = n <= 8192 ? 1 : 2;
  check_gradient_bytes("layer_norm", 3 * again * bytes + 2 * bytes, 3 * bytes + 2 * row,
                       {x, gain, shift}, [&] { return layer_norm(x, gain, shift); });
}
}  // namespace

TEST_CASE("softmax, layer norm and losses read a line once, or twice if it is long") {
  const DeviceScope scope(cuda(0));
  if (!counts_bytes()) return skip("the kernels of this plugin do not count");
  check_row_bytes(100, 1, 32);
  check_row_bytes(999, 1, 32);
  check_row_bytes(8192, 1, 256);
  check_row_bytes(16'384, 1, 512);
  check_row_bytes(16'385, 2, 1024);
  check_row_bytes(20'000, 2, 1024);
  for (const std::int64_t length : {20, 250, 500, 1024, 1025}) {
    INFO("columns of " << length);
    check_softmax_bytes(random::normal({2, length, 40}), 1, length <= 1024 ? 1 : 2);
  }
}

TEST_CASE("optimizers and limit_norm read and write each element once") {
  const DeviceScope scope(cuda(0));
  if (!counts_bytes()) return skip("the kernels of this plugin do not count");
  for (const std::int64_t n : {2000, 5001}) {
    INFO(n << " elements");
    const std::uint64_t bytes = static_cast<std::uint64_t>(n) * 4, blocks = n == 2000 ? 1 : 3;
    const std::vector<Tensor> g{random::normal({n})};
    using Variables = std::vector<Variable>;
    const Variables w{{"w", g[0]}}, a{{"a", zeros({n})}}, b{{"b", zeros({n})}},
        c{{"c", zeros({n})}};
    const Tensor rate = tensor(0.1).to(DType::float64), step = tensor(1);
    // Each block reads the rate twice and the count of steps once.
    const std::uint64_t numbers = 16 * blocks, counted = 24 * blocks;
    const auto check_update = [&](const std::string& name, std::uint64_t variables,
                                  std::uint64_t more, const auto& f) {
      check_bytes(name, (variables + 1) * bytes + more, variables * bytes, f);
    };
    check_update("sgd_update", 1, numbers, [&] { sgd_update(w, g, rate); });
    check_update("momentum_update", 2, numbers, [&] { momentum_update(w, a, g, rate); });
    check_update("adam_update", 3, counted, [&] { adam_update(w, a, b, g, rate, step); });
    check_update("amsgrad_update", 4, counted, [&] { amsgrad_update(w, a, b, c, g, rate, step); });
    check_update("rmsprop_update", 2, numbers, [&] { rmsprop_update(w, a, g, rate); });
    check_update("rmsprop_momentum_update", 3, numbers, [&] { rmsprop_update(w, a, b, g, rate); });
    check_update("adagrad_update", 2, numbers, [&] { adagrad_update(w, a, g, rate); });
    check_update("average_update", 1, numbers, [&] { average_update(w, g, rate); });
    // Each of the two blocks reads the sums of both shares.
    check_bytes("limit_norm", 4 * bytes + 4 * sizeof(double), 2 * bytes + 2 * sizeof(double), [&] {
      limit_norm({g[0], g[0]}, 1);
    });
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
      {"cross entropy", 6, both_ways({x}, [=] { return cross_entropy(x, labels); })},
      {"layer norm", 7, both_ways({x, row}, [=] { return sum(layer_norm(x, row, row)); })},
      {"take", 7, both_ways({x}, [=] { return sum(take(x, labels)); })},
      {"product", 7, both_ways({x, weight}, [=] { return sum(matmul(x, weight)); })},
      {"dense", 10,
       both_ways({x, weight, bias}, [=] { return sum(dense(x, weight, bias, Activation::tanh)); })},
      {"SGD of 20 Variables", 1, [&] { sgd.step(gradients); }, 1},
      {"Adam of 20 Variables", 3, [&] { adam.step(gradients); }, 1},
      {"Adam of 300 Variables", 3, [&] { large_adam.step(ups); }, 1},
      {"clip_by_global_norm of 20 tensors", 2, [&] { optim::clip_by_global_norm(gradients, 1); }},
      {"lstm of 7 steps", 16, [&] { lstm(steps); }, 2},
      {"lstm of 7 steps, both ways", 33,
       both_ways({steps}, [&] { return sum(lstm(steps).outputs); }), 2},
  };
  for (const Budget& budget : budgets) check(budget);
}
}  // namespace reel::tests
