// SPDX-License-Identifier: BSD-3-Clause
// Passes of a trace that run block by block.
#include "trace/plan_text.hpp"

namespace reel::tests {
TEST_CASE("long passes over values of one size run in blocks", "[cpu]") {
  const auto check = [](std::int64_t length, const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {line(length), line(length)}) == wanted);
  };
  const Traced chain = [](const List& v) { return List{tanh(v[0] * 2.0f + 1.0f) * v[0]}; };
  check(4'095, chain, "multiply/2!, add/2!, tanh!, allocate, multiply!; 16384");
  check(4'096, chain,
        "allocate, view, view, blocks(5, 0), stages(2), multiply/2!, add/2!, tanh!, multiply!; 0");
  check(
      4'096, [](const List& v) { return List{v[0] * 2.0f}; }, "allocate, multiply/2!; 0");
  check(
      4'096,
      [](const List& v) {
        return List{sigmoid(v[0]), sigmoid(v[1])};
      },
      "allocate, allocate, blocks(2, 0), sigmoid!, sigmoid!; 0");
  check(
      5'000,
      [](const List& v) {
        const Tensor p = sigmoid(v[0]) * 2.0f, q = tanh(p) - p;
        return List{sum(q), p};
      },
      "allocate, view, blocks(4, 8192), sigmoid!, multiply/2!, tanh!, subtract!, allocate, kernel "
      "sum!; 20032");
  // Passes over another size begin another group of blocks.
  check(
      5'000,
      [](const List& v) {
        const Tensor p = sigmoid(v[0]) * 2.0f, q = concat({p, p}, 0) + 1.0f;
        return List{sigmoid(q) * q};
      },
      "blocks(2, 8192), sigmoid, multiply/2, kernel concat, allocate, view, blocks(3, 8192), "
      "add/2!, sigmoid!, multiply!; 60032");
  check(
      5'000,
      [](const List& v) {
        const Tensor p = sigmoid(v[0]) * 2.0f, q = v[1](range(0, 4'500)) * 3.0f;
        return List{sigmoid(q) * 2.0f, sigmoid(p) * p};
      },
      "blocks(2, 8192), sigmoid!, multiply/2!, view, allocate, view, view, blocks(3, 0), "
      "multiply/2!, sigmoid!, multiply/2!, allocate, view, blocks(2, 0), sigmoid!, multiply!; "
      "20032");
  // Views between the passes: of earlier values, and of the result of a pass.
  check(
      5'000,
      [](const List& v) {
        const Tensor p = v[0].reshape({50, 100}) * 2.0f, q = v[1].reshape({50, 100}) + p;
        return List{sum(sigmoid(q) * q, 0)};
      },
      "view, view, blocks(5, 16384), stages(2), multiply/2!, add!, sigmoid!, multiply!, allocate, "
      "kernel sum!; "
      "20032");
  check(
      5'000,
      [](const List& v) {
        const Tensor p = v[0] * 2.0f, q = p.reshape({50, 100}) + 1.0f;
        return List{sum(sigmoid(q) * q, 0)};
      },
      "multiply/2!, blocks(3, 16384), add/2!, sigmoid!, multiply!, allocate, kernel sum!; 40064");
  check(
      5'000,
      [](const List& v) {
        const Tensor p = sum(v[0].reshape({50, 100}), 0), q = v[0].reshape({50, 100}) * p;
        return List{sum(sigmoid(q) * q, 0)};
      },
      "view, kernel sum!, blocks(3, 40064), multiply!, sigmoid!, multiply!, allocate, kernel sum!; "
      "20480");
  check(
      5'000,
      [](const List& v) {
        const Tensor p = sigmoid(v[0]) * 2.0f, first = p(range(0, 1)), q = v[1] * 3.0f;
        return List{sigmoid(q) * q, p * first};
      },
      "blocks(2, 8192), sigmoid!, multiply/2!, allocate, allocate, view, blocks(5, 8192), "
      "stages(2), multiply/2!, multiply/2!, sigmoid!, multiply!; 20032");
  // A sum in place between the passes.
  check(
      4'900,
      [](const List& v) {
        const Tensor m = v[0].reshape({70, 70}), t = tanh(m) * 2.0f, n = matmul(m, m), u = t + n;
        return List{sum(sigmoid(u) * 2.0f)};
      },
      "view, blocks(2, 8192), tanh, multiply/2, kernel matmul/1, blocks(2, 8192), sigmoid!, "
      "multiply/2!, allocate, kernel sum!; 39296");
  // Values that later steps read have their own memory.
  check(
      5'000,
      [](const List& v) {
        const Tensor a = sigmoid(v[0]), b = a * 2.0f, c = b + a, d = c * b, e = sum(d), f = sum(b);
        return List{e + f};
      },
      "blocks(5, 8192), sigmoid!, stages(3), multiply/2!, add!, multiply!, kernel sum!, kernel "
      "sum!, allocate, "
      "add/3!; 40128");
  check(
      5'000,
      [](const List& v) {
        const Tensor a = v[0] * 2.0f, s = sum(a), b = a * s, c = b + a;
        return List{sum(c * b)};
      },
      "multiply/2!, kernel sum!, stages(3), multiply/2!, add!, multiply!, allocate, kernel "
      "sum!; 40128");
  check(
      5'000,
      [](const List& v) {
        const Tensor a = sigmoid(v[0]), first = a(range(0, 1)), s = sum(a), b = v[1] * first,
                     c = b * a;
        return List{sum(tanh(c)) + s};
      },
      "sigmoid!, kernel sum!, blocks(4, 8192), stages(2), multiply/2!, multiply!, tanh!, kernel "
      "sum!, "
      "allocate, "
      "add/3!; 40128");
  const Traced many = [](const List& v) {
    Tensor y = v[0];
    for (int i = 0; i < 300; ++i) y = y + v[1];
    return List{y};
  };
  const std::string text = plan_of(many, {line(5'000), line(5'000)});
  INFO(text);
  CHECK(text.starts_with("allocate, view, view, view, blocks(259, 0), stages(121)"));
  CHECK(text.find(", stages(44)") != text.npos);
  check(
      5'000,
      [](const List& v) {
        const Tensor twice = v[0] * 2.0f, larger = v[0] > v[1];
        return List{where(larger, twice, v[1])};
      },
      "allocate, view, blocks(3, 2048), multiply/2!, greater!, where!; 0");
  check(
      5'000,
      [](const List& v) {
        const Tensor a = sigmoid(v[0]), b = cast(a, DType::float64) * 2.0,
                     c = cast(v[1], DType::float64);
        return List{b + c};
      },
      "allocate, view, view, blocks(5, 24576), sigmoid!, cast!, multiply/2!, cast!, add!; 0");
  // A value that blocks read in parts may be overwritten after the blocks.
  check(
      5'000,
      [](const List& v) {
        const Tensor p = sigmoid(v[0]) * 2.0f, first = p(range(0, 1)), q = v[1] * first, r = q * q,
                     s = sum(p), t = tanh(p), u = sum(t), w = sum(r);
        return List{s + u + w};
      },
      "blocks(2, 8192), sigmoid!, multiply/2!, stages(2), multiply/2!, multiply!, kernel sum!, "
      "tanh!, kernel sum/1!, kernel sum!, allocate, add/3!; 40128");
}

TEST_CASE("reductions of rows run in the blocks of the passes around them", "[cpu]") {
  const auto check = [](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {random::normal({64, 512}), random::normal({64, 512}), line(512)}) == wanted);
  };
  const Traced norm = [](const List& v) {
    const Tensor m = mean(v[0], -1, keepdims), c = v[0] - m, s = square(c),
                 d = mean(s, -1, keepdims), e = d + 1e-5, r = sqrt(e), y = c / r;
    return List{y * v[2]};
  };
  check(norm,
        "allocate, view, view, blocks(8, 131328), kernel mean!, subtract!, square!, kernel mean!, "
        "add/2!, sqrt!, divide!, multiply!; 0");
  check(
      [](const List& v) {
        const Tensor m = max(v[0], -1, keepdims), c = v[0] - m, e = exp(c),
                     s = sum(e, -1, keepdims);
        return List{e / s, m};
      },
      "allocate, allocate, view, view, blocks(5, 256), kernel max!, subtract!, exp!, kernel sum!, "
      "divide!; 0");
  // A reduction may drop its axis. A view of a result ends the group.
  check(
      [](const List& v) {
        const Tensor p = v[0] * 2.0f, s = sum(p, -1);
        return List{p + 1.0f, s * 2.0f};
      },
      "allocate, view, allocate, blocks(4, 256), multiply/2!, kernel sum!, multiply/2!, add/2!; 0");
  check(
      [](const List& v) {
        const Tensor p = v[0] * 2.0f, s = sum(p, -1), r = s.reshape({64, 1}), q = p - r;
        return List{tanh(q) * q};
      },
      "blocks(2, 0), multiply/2!, kernel sum!, allocate, view, blocks(3, 131072), subtract!, "
      "tanh!, multiply!; 131328");
}

TEST_CASE("a view of a sum in place ends its program", "[cpu]") {
  const auto slope = [](const auto& f) {
    return [f](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      return tape.gradient(f(x), x);
    };
  };
  const auto check = [](const auto& f, const Tensor& x) {
    const auto traced = trace<Tensor(Tensor)>(f, {.verify = 0});
    const Tensor wanted = f(x);
    for (int i = 0; i < 3; ++i) CHECK(equal(traced(x), wanted));
  };
  for (const std::int64_t n : {64, 127, 129, 255, 300, 513, 1000, 4000}) {
    INFO(n << " elements");
    check(slope([](const Tensor& x) {
            const Tensor m = reshape(reshape(x, {1, -1}) / 3, {-1});
            return sum(m * m);
          }),
          random::normal({n}));
    check(slope([](const Tensor& x) {
            const Tensor m = mean(x, 0);
            return sum(m * m * x);
          }),
          random::normal({3, n}));
  }
}

TEST_CASE("reductions in blocks have the bits of eager calls", "[cpu]") {
  const auto norm = [](const Tensor& x) {
    const Tensor c = x - mean(x, -1, keepdims);
    return c / sqrt(mean(square(c), -1, keepdims) + 1e-5);
  };
  const auto soft = [](const Tensor& x) {
    const Tensor e = exp(x - max(x, -1, keepdims));
    return e / sum(e, -1, keepdims);
  };
  for (const Shape& shape :
       {Shape{64, 512}, Shape{33, 1000}, Shape{7, 4096}, Shape{5, 4097}, Shape{1000, 33},
        Shape{900, 31}, Shape{3, 70, 129}, Shape{300, 2050}, Shape{2, 1, 20, 999}, Shape{1, 8192},
        Shape{1, 32768}, Shape{3, 32768}, Shape{1, 1, 5000}, Shape{64, 5000}})
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      INFO(shape << " " << dtype);
      const Tensor x = random::normal(shape).to(dtype);
      const auto check = [&](const auto& f, double error = 0) {
        const auto traced = trace(f, {.verify = 1});
        const Tensor expected = f(x);
        for (int i = 0; i < 3; ++i)
          CHECK(allclose(traced(x), expected, {.rtol = error, .atol = error}));
        CHECK(traced.explain().find("agerly") == std::string::npos);
      };
      check(norm);
      check(soft);
      check([&](const Tensor& y) { return soft(norm(y)) * sum(y * 0.5f, -1, keepdims); });
      check([&](const Tensor& y) { return y - cast(argmax(norm(y), -1, keepdims), dtype); });
      const auto slope = [&](const Tensor& y) {
        GradientTape tape;
        tape.watch(y);
        return tape.gradient(sum(square(soft(y))), y);
      };
      check(slope, dtype == DType::bfloat16 ? 1e-2 : 1e-5);
    }
}

TEST_CASE("passes run together over assignments of Variables", "[cpu]") {
  Variable w("w", zeros({5'000})), m("m", zeros({5'000})), u("u", zeros({5'000}));
  const auto check = [](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {line(5'000)}) == wanted);
  };
  check(
      [&](const List& v) {
        m.assign(m * 0.9f + v[0]);
        w.assign(w - m * 0.1f);
        return List{};
      },
      "write over, write over, stages(4), multiply/2!, add!, multiply/2!, subtract!, update "
      "assign!, update assign!; 0");
  // A later update of the Variable reads it, and so does a view.
  check(
      [&](const List& v) {
        m.assign(v[0] * 0.9f);
        m.assign_add(v[0]);
        w.assign(m * 0.1f);
        return List{};
      },
      "write over, multiply/2!, update assign!, update assign_add!, write over, multiply/2!, "
      "update assign!; 0");
  check(
      [&](const List& v) {
        m.assign(v[0] * 0.9f);
        return List{m.value().reshape({50, 100}) * 2.0f};
      },
      "allocate, write over, multiply/2!, update assign!, view, multiply/2!; 0");
}

TEST_CASE("a Variable shares what is assigned to it, and keeps its value in later updates",
          "[cpu]") {
  Variable w("w", zeros({5'000})), u("u", zeros({5'000}));
  const auto f = trace([&](Tensor x) {
    const Tensor y = x * 2.0f + 1.0f, before = w.value();
    w.assign(y);
    u.assign(y);
    w.assign_add(x);
    return std::vector<Tensor>{y, before, w.value()};
  });
  const Tensor x = line(5'000);
  for (int call = 0; call < 6; ++call) {
    const Tensor wanted = x * 2.0f + 1.0f, old = w.value();
    const auto got = f(x);
    CHECK(equal(got[0], wanted));
    CHECK(equal(got[1], old));
    CHECK(equal(got[2], wanted + x));
    CHECK(equal(w.value(), wanted + x));
    CHECK(equal(u.value(), wanted));
    w.assign(x * static_cast<float>(call));
  }
}
}  // namespace reel::tests
