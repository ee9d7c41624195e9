// SPDX-License-Identifier: BSD-3-Clause
// vmap(f) beside a loop over rows.
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/table/op.hpp"
#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// Three tensors of x's kind, each with other elements where the op allows it.
Tensor three_of(const Tensor& x) {
  if (!is_floating(x.dtype())) return stack({x, x, x});
  return stack({x, x * 0.75, x * 0.5});
}
bool close(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (!is_floating(a.dtype())) return all(a == b).item<bool>();
  return allclose(a, b, {.rtol = 1e-6, .atol = 1e-9, .equal_nan = true});
}
}  // namespace

TEST_CASE("each op gives the rows that a loop gives") {
  int compared = 0, with_gradient = 0;
  for (Op* const op : OpTable::the().ops()) {
    if (!op->samples || op->updates || op->random) continue;
    std::vector<Sample> samples;
    op->samples(samples);
    for (std::size_t number = 0; number < samples.size(); ++number) {
      const Sample& sample = samples[number];
      INFO(op->name << ", sample " << number << " " << sample.note);
      std::vector<Tensor> all_rows, rows;
      bool fits = !sample.inputs.empty();
      for (const Tensor& x : sample.inputs) fits = fits && x.defined() && x.rank() < 7;
      if (!fits) continue;
      for (const Tensor& x : sample.inputs) all_rows.push_back(three_of(x));
      std::vector<Tensor> expected;
      Tensor found;
      try {
        for (int i = 0; i < 3; ++i) {
          rows.clear();
          for (const Tensor& x : all_rows) rows.push_back(x(i));
          expected.push_back(sample.call(rows));
        }
      } catch (const Error&) {
        continue;  // scaled inputs may be bad ones
      }
      try {
        detail::MapScope scope(Caller::here());
        rows.clear();
        for (const Tensor& x : all_rows) rows.push_back(scope.row(x));
        found = scope.all(sample.call(rows));
      } catch (const Error& error) {
        INFO(error.what());
        const bool reads = std::string(error.what()).find("vmap") != std::string::npos;
        CHECK(reads);  // the function reads elements, which is refused
        continue;
      }
      CHECK(close(found, stack(expected)));
      ++compared;
      if (!is_floating(found.dtype()) || !is_floating(all_rows[0].dtype())) continue;
      // The gradient of one input, of all rows at once.
      const auto slope_of = [&](const auto& run) {
        GradientTape tape;
        tape.watch(all_rows[0]);
        const Tensor y = run();
        return tape.gradient(sum(y * 0.5 + y * y), all_rows[0], Unconnected::zero);
      };
      try {
        const Tensor by_loop = slope_of([&] {
          std::vector<Tensor> made;
          for (int i = 0; i < 3; ++i) {
            std::vector<Tensor> in;
            for (const Tensor& x : all_rows) in.push_back(x(i));
            made.push_back(sample.call(in));
          }
          return stack(made);
        });
        const Tensor at_once = slope_of([&] {
          detail::MapScope scope(Caller::here());
          std::vector<Tensor> in;
          for (const Tensor& x : all_rows) in.push_back(scope.row(x));
          return scope.all(sample.call(in));
        });
        CHECK(allclose(at_once, by_loop, {.rtol = 1e-5, .atol = 1e-7, .equal_nan = true}));
        ++with_gradient;
      } catch (const TapeError&) {
      }
    }
  }
  CHECK(compared > 1000);
  CHECK(with_gradient > 500);
}

TEST_CASE("vmap takes functions of several arguments with structs as results") {
  struct Pair {
    Tensor sum, product;
    REEL_FIELDS(sum, product)
  };
  const Tensor x = random::normal({4, 3}), y = random::normal({4, 3}), w = random::normal({3, 2});
  const auto f = vmap([&](Tensor a, Tensor b) { return Pair{matmul(a + b, w), a * b}; });
  const Pair found = f(x, y);
  CHECK(allclose(found.sum, matmul(x + y, w)));
  CHECK(allclose(found.product, x * y));
  CHECK(allclose(vmap([&](Tensor) { return w; })(x), stack({w, w, w, w})));
}

TEST_CASE("vmap inside of vmap, inside of a trace and under a tape") {
  const Tensor x = random::normal({2, 3, 4});
  const Variable w("w", random::normal({4}));
  const auto inner = [&](Tensor row) { return tanh(sum(row * w)); };
  const auto f = [&](Tensor m) { return vmap(inner)(m); };
  CHECK(allclose(vmap(f)(x), tanh(sum(x * w, 2)), {.atol = 1e-6}));
  auto traced = trace([&](Tensor m) { return vmap(inner)(m); });
  for (int i = 1; i < 5; ++i) {
    const Tensor m = x(0) * i;
    CHECK(allclose(traced(m), tanh(sum(m * w, 1)), {.atol = 1e-6}));
  }
  CHECK(traced.trace_count() == 1);
  GradientTape tape, loop;
  const Tensor a = sum(vmap(inner)(x(0))), b = sum(tanh(sum(x(0) * w, 1)));
  CHECK(allclose(tape.gradient(a, w), loop.gradient(b, w), {.atol = 1e-6}));
}

TEST_CASE("vmap over no rows has the shapes of one row") {
  CHECK(vmap([](Tensor r) { return sort(r * 2.0f); })(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(vmap([](Tensor r) { return sum(r); })(zeros({0, 3})).shape() == Shape{0});
}

TEST_CASE("what f keeps of a row outside of vmap has no elements") {
  Tensor kept;
  vmap([&](Tensor r) { return kept = r * 2.0f, r; })(ones({4, 3}));
  CHECK(all(isnan(kept)).item<bool>());
}

TEST_CASE("vmap refuses what it cannot do for all rows") {
  const Tensor x = ones({3, 2});
  Variable w("w", ones({2}));
  check_refused<Error>([&] { vmap([](Tensor r) { return bool(sum(r) > 0) ? r : r * 2; })(x); },
                       "reads no elements");
  check_refused<ShapeError>([&] { vmap([](Tensor a, Tensor b) { return a + b; })(x, ones({4})); },
                            "3 rows");
  check_refused<ShapeError>([&] { vmap([](Tensor a) { return a; })(ones({})); }, "one axis");
  check_refused<Error>([&] { vmap([&](Tensor a) { return w.assign(a), a; })(x); }, "update");
}
}  // namespace reel::tests
