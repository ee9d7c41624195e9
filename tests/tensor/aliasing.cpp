// SPDX-License-Identifier: BSD-3-Clause
// R13: values that were read and gradients that were recorded stay right, whatever tensors share
// memory.
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
struct Reader {
  const char* name;
  Tensor (*f)(Tensor x);  // maps (2, 3) to (2, 3), and gives x away at its last use
};
Tensor reversed(const Tensor& x) { return x(all, range({}, {}, -1)); }

const Reader readers[] = {
    {"itself", [](Tensor x) { return x; }},
    {"-x", [](Tensor x) { return -std::move(x); }},
    {"x + 1", [](Tensor x) { return std::move(x) + 1; }},
    {"2 - x", [](Tensor x) { return 2 - std::move(x); }},
    {"x * x", [](Tensor x) { return x * std::move(x); }},
    {"x * x, twice given", [](Tensor x) { return multiply(std::move(x), std::move(x)); }},
    {"x * view of x",
     [](Tensor x) {
       const Tensor view = reversed(x);
       return std::move(x) * view;
     }},
    {"view of x - x",
     [](Tensor x) {
       const Tensor view = reversed(x);
       return view - std::move(x);
     }},
    {"1 / (x * x + 1)", [](Tensor x) { return 1 / (square(std::move(x)) + 1); }},
    {"exp", [](Tensor x) { return exp(std::move(x) * 0.5); }},
    {"tanh", [](Tensor x) { return tanh(std::move(x)); }},
    {"relu", [](Tensor x) { return relu(std::move(x)); }},
    {"sqrt", [](Tensor x) { return sqrt(abs(std::move(x)) + 1); }},
    {"maximum", [](Tensor x) { return maximum(std::move(x), 0.25); }},
    {"where", [](Tensor x) { return where(x > 0, x, -x * x); }},
    {"softmax", [](Tensor x) { return softmax(std::move(x)); }},
    {"less its mean", [](Tensor x) { return x - mean(x, 0); }},
    {"matmul",
     [](Tensor x) { return matmul(std::move(x), eye(3, {.dtype = DType::float64}) * 0.5); }},
    {"gram", [](Tensor x) { return matmul(matmul(x, transpose(x)), x) * 0.1; }},
    {"reversed", [](Tensor x) { return reversed(x); }},
    {"transposed", [](Tensor x) { return transpose(transpose(std::move(x))); }},
    {"reshaped",
     [](Tensor x) {
       return reshape(std::move(x), {6}).reshape({2, 3});
     }},
    {"squeezed", [](Tensor x) { return squeeze(expand_dims(std::move(x), 1), 1); }},
    {"row",
     [](Tensor x) {
       return broadcast_to(x(1), {2, 3});
     }},
    {"column", [](Tensor x) { return x(all, range(0, 1)) * ones_like(x); }},
    {"parts",
     [](Tensor x) {
       const std::vector<Tensor> parts = split(std::move(x), 3, 1);
       return concat({parts[2], parts[0] * parts[1], parts[2]}, 1);
     }},
    {"stacked",
     [](Tensor x) {
       return stack({x(1), x(0) * 2});
     }},
    {"taken",
     [](Tensor x) {
       return take(std::move(x), tensor({1, 1}));
     }},
    {"scattered", [](Tensor x) { return scatter_add(x, tensor({0}), x(range(1, 2))); }}};

struct Cells {
  Variable w, velocity, second;
  explicit Cells(const Tensor& x)
      : w("w", x), velocity("velocity", x * 0.5), second("second", x * x) {}
};
struct Writer {
  const char* name;
  void (*write)(Cells& cells, const Tensor& y);  // y is what was read
};
const Writer writers[] = {
    {"assign a number", [](Cells& c, const Tensor&) { c.w.assign(7); }},
    {"assign what was read", [](Cells& c, const Tensor& y) { c.w.assign(y); }},
    {"assign twice",
     [](Cells& c, const Tensor& y) {
       c.w.assign(y * 3);
       c.w.assign_add(1);
     }},
    {"assign_add", [](Cells& c, const Tensor&) { c.w.assign_add(1); }},
    {"assign_add itself", [](Cells& c, const Tensor&) { c.w.assign_add(c.w); }},
    {"assign_sub what was read", [](Cells& c, const Tensor& y) { c.w.assign_sub(y); }},
    {"a row", [](Cells& c, const Tensor&) { c.w(1).assign(5); }},
    {"a column", [](Cells& c, const Tensor& y) { c.w(all, 0).assign_add(y(all, 1)); }},
    {"sgd", [](Cells& c, const Tensor& y) { sgd_update(c.w, y, 0.5); }},
    {"momentum", [](Cells& c, const Tensor& y) { momentum_update(c.w, c.velocity, y, 0.5); }},
    {"adam", [](Cells& c, const Tensor& y) { adam_update(c.w, c.velocity, c.second, y, 0.5, 1); }}};

Tensor start() { return tensor<double>({{0.5, -1.25, 2.0}, {-0.75, 1.5, 0.3}}); }

bool close(const Tensor& x, const Tensor& y) {
  return allclose(x, y, {.rtol = 1e-14, .atol = 1e-14});
}
}  // namespace

TEST_CASE("a write leaves what was read and recorded as it was") {
  int cases = 0;
  for (const Reader& reader : readers) {
    Variable alone("w", start());
    GradientTape quiet;
    const Tensor expected = reader.f(alone);
    const Tensor slope = quiet.gradient(expected, alone);
    for (const Writer& writer : writers) {
      INFO(reader.name << ", then " << writer.name);
      Cells cells(start());
      GradientTape tape;
      const Tensor y = reader.f(cells.w);
      writer.write(cells, y);
      CHECK(equal(y, expected));
      CHECK(equal(tape.gradient(y, cells.w), slope));
      ++cases;
    }
  }
  CHECK(cases >= 300);
}

TEST_CASE("two reads around a write both count, each with its value") {
  for (const Reader& reader : readers)
    for (const Writer& writer : writers) {
      INFO(reader.name << ", " << writer.name);
      Cells cells(start());
      GradientTape tape;
      const Tensor first = reader.f(cells.w);
      writer.write(cells, first);
      const Tensor now = cells.w, sum_of_both = first + reader.f(cells.w);
      const Tensor slope = tape.gradient(sum_of_both, cells.w);
      const auto slope_at = [&](const Tensor& x) {
        Variable alone("w", x);
        GradientTape quiet;
        return quiet.gradient(reader.f(alone), alone);
      };
      CHECK(close(slope, slope_at(start()) + slope_at(now)));
    }
}

TEST_CASE("temporaries that give their memory away change neither values nor gradients") {
  for (const Reader& inner : readers)
    for (const Reader& outer : readers) {
      INFO(outer.name << " of " << inner.name);
      const Tensor x = start();
      const Tensor between = inner.f(x), kept = between * 1;
      const Tensor expected = outer.f(between);  // `between` is held, so nothing can be reused
      CHECK(equal(between, kept));
      CHECK(equal(outer.f(inner.f(x)), expected));
      CHECK(equal(x, start()));

      const auto slope = [&](bool hold) {
        GradientTape tape;
        tape.watch(x);
        Tensor middle = inner.f(x), held;
        if (hold) held = middle;
        const Tensor y = outer.f(std::move(middle));
        CHECK(equal(y, expected));
        return tape.gradient(y, x);
      };
      CHECK(equal(slope(false), slope(true)));
    }
}

TEST_CASE("a temporary that only the other input's gradient needs keeps its values") {
  const Tensor x = arange(0.0f, 12.0f).reshape({4, 3});
  const Tensor row = tensor({1.0f, -2.0f, 4.0f});
  const Variable w("w", row), matrix("m", x + 2.0f);
  const auto slope = [](const Tensor& y, const Variable& of, GradientTape& tape) {
    return tape.gradient(sum(y), of);
  };
  {
    GradientTape tape;
    CHECK(equal(slope((x + 1.0f) * w, w, tape), sum(x + 1.0f, 0)));
  }
  {
    GradientTape tape;
    CHECK(allclose(slope((x + 1.0f) / w, w, tape), -sum(x + 1.0f, 0) / (row * row)));
  }
  {
    GradientTape tape;
    CHECK(equal(slope((x + 1.0f) * matrix, matrix, tape), x + 1.0f));
  }
  {
    GradientTape tape;
    CHECK(equal(slope(matrix * (x + 1.0f), matrix, tape), x + 1.0f));
  }
}
TEST_CASE("gradients that are one tensor inside are two for the user") {
  const Tensor x = start(), y = start(), upstream = ones_like(x);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  tape.watch(y);
  const Tensor z = x + y;
  auto [dx, dy] = tape.gradient(z, x, y);
  dx += 1;
  dy *= 5;
  CHECK(equal(dx, full_like(x, 2)));
  CHECK(equal(dy, full_like(x, 5)));
  Tensor given = tape.gradient(z, x, {.upstream = upstream});
  given *= 3;
  CHECK(equal(upstream, ones_like(x)));
  CHECK(equal(tape.gradient(z, y, {.upstream = upstream}), ones_like(x)));
  Variable w("w", given);
  w.assign_add(1);
  CHECK(equal(given, full_like(x, 3)));
}

TEST_CASE("compound assignment of a tensor leaves its copies and views") {
  Tensor x = start();
  const Tensor copy = x, view = reversed(x);
  x += 1;
  x *= x;
  x -= view;
  CHECK(equal(copy, start()));
  CHECK(equal(view, reversed(start())));
  CHECK(equal(x, square(start() + 1) - reversed(start())));
}

// A result of 16 MB or more is stored past the caches, but not over an input.
TEST_CASE("a large result that takes over the memory of an operand is computed once") {
  constexpr std::int64_t n = 4'300'003;
  const Tensor x = cast(arange(0, n) % 1000, DType::float32);
  const std::vector<float> from = x.to_vector<float>();
  const auto right = [&](const Tensor& got, float factor, float shift) {
    const std::vector<float> y = got.to_vector<float>();
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) wrong += y[i] != factor * from[i] + shift;
    return y.size() == from.size() && wrong == 0;
  };
  CHECK(right(-(x + 1.0f), -1, -1));
  CHECK(right((x + 1.0f) * 2.0f, 2, 2));
  CHECK(right((x * 2.0f) - x, 1, 0));
  CHECK(right(x - (x * 2.0f), -1, 0));
}
}  // namespace reel::tests
