// SPDX-License-Identifier: BSD-3-Clause
// Many products use one matrix. Its gradient must be that of the products one after another.
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "autograd/deferred.hpp"
#include "lib/body/access.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

using namespace reel;

namespace {
constexpr int inputs = 5, outputs = 7;

struct Layer {
  Variable w, b;
  explicit Layer(DType dtype = DType::float64)
      : w("w", random::normal({inputs, outputs}).to(dtype)),
        b("b", random::normal({outputs}).to(dtype)) {}
  Tensor x(int rows) const { return random::normal({rows, inputs}).to(w.dtype()); }
};

using Loss = detail::Function<Tensor(const std::vector<Tensor>& x)>;

/// Compares the gradients with those under an outer tape, where no product waits.
void check_alike(const Loss& loss, const std::vector<Tensor>& x, const std::vector<Variable>& of) {
  std::vector<Tensor> found;
  {
    GradientTape earlier;  // its records come before those of the next tape
    const Tensor recorded = of[0] * 2.0;
    const auto pause = earlier.pause();
    GradientTape tape;
    found = tape.gradient(loss(x), of);
  }
  GradientTape outer;
  GradientTape inner;
  const auto expected = inner.gradient(loss(x), of);
  for (std::size_t i = 0; i < of.size(); ++i) {
    const double scale = of[i].dtype() == DType::float64 ? 1e-12 : 1e-4;
    CHECK(found[i].shape() == of[i].shape());
    CHECK(allclose(found[i], expected[i], {.rtol = scale, .atol = scale}));
  }
}
}  // namespace

TEST_CASE("a matrix used once, twice and often has the sum of all products as gradient") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Layer layer(dtype);
    for (const int uses : {1, 2, 3, 40, 300}) {
      for (const int rows : {1, 4, 64, 65}) {
        if (uses * rows > 3000) continue;
        std::vector<Tensor> x;
        for (int i = 0; i < uses; ++i) x.push_back(layer.x(rows));
        const Loss loss = [&](const std::vector<Tensor>& given) {
          Tensor sums = zeros({}, {.dtype = dtype});
          for (const Tensor& each : given) {
            sums = sums + mean(tanh(matmul_add(each, layer.w, layer.b)));
            sums = sums + mean(square(matmul(each, layer.w)));
            sums = sums + mean(dense(each, layer.w, layer.b, Activation::sigmoid));
          }
          return sums;
        };
        check_alike(loss, x, {layer.w, layer.b});
      }
    }
  }
}

TEST_CASE("rows that wait are added up before they are added to a large gradient", "[cpu]") {
  constexpr int uses = 40;  // so many that the library keeps the large gradient apart
  const Variable w("w", zeros({inputs, outputs}));
  const Tensor x = ones({1, inputs}), large = full({1, inputs}, 0x1p24f), up = ones({1, outputs});
  GradientTape tape;
  Tensor y = zeros({});
  for (int i = 0; i < uses; ++i) y = y + sum(matmul(x, w) * up);
  y = y + sum(matmul(large, w) * up);  // the last use is the first to get its gradient
  // 2^24 + 1 is no float32, so each row that is added alone would be lost.
  const Tensor found = tape.gradient(y, w);
  INFO(found);
  CHECK(equal(found, full({inputs, outputs}, 0x1p24f + uses)));
}

TEST_CASE("rows that grow, shrink and lie apart join in one product") {
  const Layer layer;
  std::vector<Tensor> x;
  for (const int rows : {3, 60, 64, 1, 70, 2, 0, 128, 5})
    x.push_back(random::normal({rows, 2 * inputs}).to(DType::float64));
  const Loss loss = [&](const std::vector<Tensor>& given) {
    Tensor sums = zeros({}, {.dtype = DType::float64});
    for (const Tensor& each : given) {
      const Tensor left = each(all, range(0, inputs)), right = each(all, range(inputs, {}));
      const Tensor y = matmul_add(left, layer.w, layer.b);
      sums = sums + sum(matmul(right, layer.w) * y) + sum(y);
    }
    return sums;
  };
  check_alike(loss, x, {layer.w, layer.b});
}

TEST_CASE("rows of any layout, and of no elements, join in one product") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Layer layer(dtype);
    const auto normal = [&](Shape shape) { return random::normal(shape).to(dtype); };
    const std::vector<Tensor> x = {normal({3, inputs}),
                                   normal({4, 2 * inputs})(all, range({}, {}, 2)),
                                   transpose(normal({inputs, 6})),
                                   normal({5, inputs})(all, range({}, {}, -1)),
                                   normal({6, inputs})(range({}, {}, 2)),
                                   normal({4, inputs})(range({}, {}, -1)),
                                   broadcast_to(normal({inputs}), {3, inputs}),
                                   normal({0, inputs}),
                                   normal({2, 3, inputs}),
                                   normal({1, inputs})};
    const Loss loss = [&](const std::vector<Tensor>& given) {
      Tensor sums = zeros({}, {.dtype = dtype});
      for (const Tensor& each : given) {
        const Tensor y = matmul(each, layer.w) + layer.b;
        sums = sums + sum(tanh(y) * y);
        if (each.rank() == 2)
          sums = sums + sum(tanh(transpose(matmul_add(each, layer.w, layer.b))));
      }
      return sums;
    };
    check_alike(loss, x, {layer.w, layer.b});
    // A matrix without inputs, and one without outputs.
    const Variable none("none", zeros({0, outputs}, {.dtype = dtype})),
        nowhere("nowhere", zeros({inputs, 0}, {.dtype = dtype}));
    const Loss empty = [&](const std::vector<Tensor>& given) {
      Tensor sums = sum(layer.b * layer.b);
      for (int i = 0; i < 3; ++i)
        sums = sums + sum(matmul_add(given[0], none, layer.b)) + sum(matmul(given[1], nowhere));
      return sums;
    };
    check_alike(empty, {zeros({3, 0}, {.dtype = dtype}), x[0]}, {none, nowhere, layer.b});
  }
}

TEST_CASE("the rows that a product takes are those that were appended, in their order", "[cpu]") {
  Context& context = Context::here();
  for (const DType dtype : {DType::float32, DType::float64}) {
    DeferredProduct product;
    CHECK(product.empty());
    for (int turn = 0; turn < 2; ++turn) {
      const Tensor a = random::normal({3, 5}).to(dtype), b = random::normal({60, 10}).to(dtype);
      const Tensor x[] = {a, b(all, range(0, 5)), b(range(2, 3), range(5, 10))};
      const Tensor dz[] = {random::normal({3, 7}).to(dtype), random::normal({60, 7}).to(dtype),
                           random::normal({1, 7}).to(dtype)};
      for (int i = 0; i < 3; ++i) {
        CHECK(DeferredProduct::fits(*Access::body(x[i]), *Access::body(dz[i])));
        CHECK(product.has_space(*Access::body(x[i])));
        product.append(context, x[i], dz[i]);
      }
      CHECK(!product.has_space(*Access::body(concat({b, b}, 0))));
      CHECK(!product.empty());
      const DeferredProduct::Rows rows = product.rows();
      product.matrix_done = product.bias_done = true;
      product.clear();
      CHECK(product.empty());
      CHECK(!product.matrix_done);  // the next rows are added to both
      CHECK(!product.bias_done);
      CHECK(rows.x.size() == 64 * 5);
      CHECK(rows.dz.size() == 64 * 7);
      CHECK(equal(rows.x, concat({x[0], x[1], x[2]}, 0)));
      CHECK(equal(rows.dz, concat({dz[0], dz[1], dz[2]}, 0)));
    }
  }
  const auto fits = [](const Tensor& x, const Tensor& dz) {
    return DeferredProduct::fits(*Access::body(x), *Access::body(dz));
  };
  CHECK(fits(zeros({64, 2}), zeros({64, 3})));
  CHECK(!fits(zeros({65, 2}), zeros({65, 3})));
  CHECK(fits(zeros({1, 1}), zeros({1, 1})));
  CHECK(!fits(zeros({0, 2}), zeros({0, 3})));
  CHECK(!fits(zeros({2, 0}), zeros({2, 3})));
  CHECK(!fits(zeros({2, 3}), zeros({2, 0})));
  CHECK(fits(zeros({1, 16384}), zeros({1, 16384})));  // 128 rows of float32 take 16 MB
  CHECK(!fits(zeros({1, 16384}), zeros({1, 16385})));
  CHECK(!fits(zeros({2, 3}), zeros({2, 3}, {.dtype = DType::float64})));
  CHECK(fits(zeros({2, 6})(all, range(0, 3)), zeros({2, 3})));
  CHECK(!fits(zeros({2, 6})(all, range({}, {}, 2)), zeros({2, 3})));
  CHECK(!fits(transpose(zeros({3, 2})), zeros({2, 3})));
}

TEST_CASE("biases of every shape that fits get gradients of that shape") {
  const Layer layer;
  const Tensor x = layer.x(3);
  const auto normal = [&](Shape shape) { return random::normal(shape).to(DType::float64); };
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{outputs}, Shape{1, 1}, Shape{1, outputs},
                             Shape{3, 1}, Shape{3, outputs}}) {
    const Variable bias("bias", normal(shape));
    const Loss loss = [&](const std::vector<Tensor>& given) {
      Tensor sums = zeros({}, {.dtype = DType::float64});
      for (int i = 0; i < 4; ++i)
        sums = sums + sum(square(matmul_add(given[0] * (i + 1.0), layer.w, bias)));
      return sums;
    };
    check_alike(loss, {x}, {layer.w, bias});
    check_alike(loss, {x}, {layer.w});
    check_alike(loss, {x}, {bias});
  }
  // A bias that no tape follows, before and after one that a tape follows.
  const Tensor constant = normal({outputs});
  const Loss mixed = [&](const std::vector<Tensor>& given) {
    Tensor sums = zeros({}, {.dtype = DType::float64});
    for (int i = 0; i < 6; ++i) {
      const Tensor left = given[0] * (i + 1.0);
      sums = sums + sum(square(i % 3 ? matmul_add(left, layer.w, constant)
                                     : matmul_add(left, layer.w, layer.b)));
    }
    return sums;
  };
  check_alike(mixed, {x}, {layer.w, layer.b});
  check_alike(mixed, {x}, {layer.w});
}

TEST_CASE("other uses of a matrix and of a bias add to its products") {
  const Layer layer;
  const Variable wide("wide", ones({1, outputs}, {.dtype = DType::float64}));
  const Variable other("other", random::normal({outputs}).to(DType::float64));
  const Variable out("out", random::normal({outputs, inputs}).to(DType::float64));
  const Loss loss = [&](const std::vector<Tensor>& x) {
    Tensor state = x[0];
    for (int i = 0; i < 6; ++i) {
      Tensor y = matmul_add(state, layer.w, i % 2 ? layer.b : other);
      y = y + matmul_add(x[1], layer.w, wide) + layer.b;
      y = y + matmul_add(state, transpose(out), layer.b);
      state = tanh(matmul(y, transpose(layer.w)) + matmul(y, out));
    }
    return sum(state) + 0.1 * sum(square(layer.w)) + sum(layer.b * other);
  };
  check_alike(loss, {layer.x(2), layer.x(2)}, {layer.w, layer.b, wide, other, out});
}

TEST_CASE("a matrix that was computed waits for its products, and is a source itself") {
  const Layer layer;
  const Tensor x = layer.x(3);
  const auto run = [&] {
    GradientTape tape;
    const Tensor w = layer.w * 2.0, b = layer.b + 1.0, v = layer.w * 0.5;
    Tensor y = zeros({}, {.dtype = DType::float64});
    for (int i = 0; i < 5; ++i)
      y = y + sum(tanh(matmul_add(x, w, b))) + sum(tanh(matmul_add(x, v, b)));
    return tape.gradient(y, {w, layer.w, b, layer.b, v});
  };
  const auto found = run();
  GradientTape outer;
  const auto expected = run();
  for (std::size_t i = 0; i < 5; ++i)
    CHECK(allclose(found[i], expected[i], {.rtol = 1e-12, .atol = 1e-12}));
  CHECK(allclose(found[1], found[0] * 2.0 + found[4] * 0.5));
  CHECK(equal(found[2], found[3]));
}

TEST_CASE("persistent tapes and tapes side by side defer each for itself") {
  const Layer layer;
  const Tensor x = layer.x(2);
  const auto loss = [&] {
    Tensor y = x;
    for (int i = 0; i < 4; ++i)
      y = matmul(tanh(matmul_add(y, layer.w, layer.b)), transpose(layer.w));
    return sum(y);
  };
  GradientTape first({.persistent = true}), second({.persistent = true});
  const Tensor y = loss();
  const auto a = first.gradient(y, layer.w, layer.b), b = second.gradient(y, layer.w, layer.b);
  const auto again = first.gradient(y, layer.w, layer.b);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(allclose(a[i], b[i], {.rtol = 1e-12}));
    CHECK(allclose(a[i], again[i], {.rtol = 1e-12}));
  }
}

TEST_CASE("a gradient that throws amid deferred products leaves nothing behind") {
  const Layer layer;
  const Tensor x = layer.x(2);
  const auto failing = custom_gradient([](Tensor t) {
    return std::pair(t, [](Tensor) -> Tensors { throw std::runtime_error("no"); });
  });
  const MemoryStatistics before = memory_statistics();
  {
    GradientTape tape;
    Tensor y = failing(matmul_add(x, layer.w, layer.b));
    for (int i = 0; i < 4; ++i) y = y + matmul_add(x, layer.w, layer.b);
    CHECK_THROWS_AS(tape.gradient(y, layer.w), std::runtime_error);
  }
  CHECK(memory_statistics().live_tensors == before.live_tensors);
  CHECK(memory_statistics().live_bytes == before.live_bytes);
}

TEST_CASE("a user's kernel computes each sum of a gradient, the second one too", "[cpu][fork]") {
  if (tests::sanitized) SKIP("a sanitizer does not follow a fork of several threads");
  const Tensor x = ones({3, 4}), b = zeros({4});
  // In a child process, because a kernel is replaced for the rest of the program.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int calls = 0;
    bool right = false;
    try {
      register_kernel("sum_to", [&](const OpCall& call) {
        ++calls;
        return sum(call.input(0), 0);
      });
      GradientTape tape;
      tape.watch(b);
      const Tensor y = (x + b) * 2.0f + (x + b) * 3.0f;
      right = equal(tape.gradient(y, b), tensor({15.0, 15.0, 15.0, 15.0}));
    } catch (...) {
      right = false;
    }
    _exit(right && calls == 2 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
