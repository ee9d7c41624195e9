// SPDX-License-Identifier: BSD-3-Clause
// trace: what a call sees, when a function is captured again, and what a call returns.
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/peak.hpp"
#include "support/resident.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
namespace {
enum class Kind { plain, doubled };

struct Parts {
  Tensor sum, product;
  std::string name;
  int count = 0;
  void fields(auto&& field) {
    field("sum", sum);
    field("product", product);
    field("name", name);
    field("count", count);
  }
};
}  // namespace

TEST_CASE("a traced function gives what the function gives, for new arguments too") {
  static int runs = 0;  // a trace does not watch statics
  auto traced = trace([](Tensor a, Tensor b) {
    ++runs;
    return tanh(a * 2.0f + b) - mean(b, 0, keepdims);
  });
  for (int i = 0; i < 6; ++i) {
    const Tensor a = random::normal({4, 3}), b = random::normal({3});
    CHECK(equal(traced(a, b), tanh(a * 2.0f + b) - mean(b, 0, keepdims)));
  }
  CHECK(runs == 4);  // one capture, and checks of replays 1, 2 and 4
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("a traced function may end after a replay, and another one run under a tape") {
  const Tensor x = ones({3});
  {
    const auto ended = trace([](Tensor y) { return y * 2; });
    for (int i = 0; i < 7; ++i) ended(x);
  }
  GradientTape tape;
  tape.watch(x);
  const auto f = trace([](Tensor y) { return y * 3; });
  CHECK(equal(tape.gradient(sum(f(x)), x), full({3}, 3.0f)));
}

TEST_CASE("each signature has a trace of its own") {
  auto traced = trace([](Tensor x) { return sum(x) * 2; });
  for (int i = 0; i < 4; ++i) {
    CHECK(traced(ones({2})).item<float>() == 4);
    CHECK(traced(ones({3})).item<float>() == 6);
    CHECK(traced(ones({3}, {.dtype = DType::float64})).item<double>() == 6);
    CHECK(traced(ones({1, 3})).item<float>() == 6);
  }
  CHECK(traced.trace_count() == 4);
}

TEST_CASE("plain arguments are part of the signature, train and eval too") {
  auto traced = trace([](Tensor x, int times, bool twice, std::string_view how, Kind kind) {
    Tensor y = how == "add" ? x + times : x * times;
    if (kind == Kind::doubled) y = y * 2;
    if (training()) y = y + 100;
    return twice ? y * 2 : y;
  });
  const Tensor x = full({2}, 3.0f);
  for (int i = 0; i < 4; ++i) {
    const TrainScope evaluating(false);
    CHECK(traced(x, 4, false, "add", Kind::plain)[0].item<float>() == 7);
    CHECK(traced(x, 4, true, "add", Kind::plain)[0].item<float>() == 14);
    CHECK(traced(x, 4, true, "multiply", Kind::plain)[0].item<float>() == 24);
    CHECK(traced(x, 5, true, "multiply", Kind::doubled)[0].item<float>() == 60);
    const TrainScope training(true);
    CHECK(traced(x, 4, false, "add", Kind::plain)[0].item<float>() == 107);
  }
  CHECK(traced.trace_count() == 5);
}

TEST_CASE("arguments and results are structs, lists, pairs and optionals of tensors") {
  auto traced = trace(
      [](std::vector<Tensor> list, std::pair<Tensor, float> pair, std::optional<Tensor> maybe) {
        Tensor sum = pair.first * pair.second, product = pair.first;
        for (const Tensor& x : list) {
          sum = sum + x;
          product = product * x;
        }
        if (maybe) sum = sum + *maybe;
        return Parts{sum, product, "parts", static_cast<int>(list.size())};
      });
  const Tensor two = full({2}, 2.0f), three = full({2}, 3.0f);
  for (int i = 0; i < 4; ++i) {
    const Parts parts = traced({two, three}, {three, 0.5f}, std::nullopt);
    CHECK(parts.sum[0].item<float>() == 6.5f);
    CHECK(parts.product[0].item<float>() == 18);
    CHECK(parts.name == "parts");
    CHECK(parts.count == 2);
    CHECK(traced({two}, {three, 0.5f}, two).sum[0].item<float>() == 5.5f);
  }
  CHECK(traced.trace_count() == 2);

  auto shaped = trace([](Tensor x, Shape shape, std::vector<int> axes) {
    return sum(broadcast_to(x, shape), axes[0]);
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(shaped(two, {3, 2}, {0})[0].item<float>() == 6);
    CHECK(shaped(two, {4, 2}, {1})[0].item<float>() == 4);
    CHECK(shaped(two, {4, 2}, {0})[0].item<float>() == 8);
  }
  CHECK(shaped.trace_count() == 3);

  auto lists = trace([](std::vector<Tensor> a, std::vector<Tensor> b) {
    Tensor y = zeros({2});
    for (const Tensor& x : a) y = y + x;
    for (const Tensor& x : b) y = y - x;
    return y;
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(lists({two}, {})[0].item<float>() == 2);
    CHECK(lists({}, {two})[0].item<float>() == -2);
  }
}

TEST_CASE("results may be arguments, constants, views and nothing") {
  const Tensor constant = full({3}, 7.0f);
  auto traced = trace([&](Tensor x) {
    return std::vector<Tensor>{x, constant, x(0, all), transpose(x * 2), Tensor()};
  });
  std::vector<Tensor> kept;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = random::normal({2, 3});
    const std::vector<Tensor> all_of = traced(x);
    CHECK(equal(all_of[0], x));
    CHECK(equal(all_of[1], constant));
    CHECK(equal(all_of[2], x(0, all)));
    CHECK(equal(all_of[3], transpose(x * 2)));
    CHECK_FALSE(all_of[4].defined());
    if (i == 3) kept = {all_of[3], transpose(x * 2)};
  }
  CHECK(equal(kept[0], kept[1]));  // later calls write to other memory

  static int runs = 0;
  auto nothing = trace([](Tensor) { ++runs; });
  for (int i = 0; i < 4; ++i) nothing(constant);
  CHECK(runs == 3);
}

TEST_CASE("a part of a Variable is a Tensor in the result of a traced function") {
  Variable w("w", tensor({1.0f, 2.0f}));
  const auto f = trace([&](const Tensor& x) {
    w.assign(w + x);
    return w(1);
  });
  for (int call = 1; call < 6; ++call) {
    const Tensor got = f(ones({2}));
    CHECK(got.item<float>() == 2.0f + static_cast<float>(call));
  }
}

TEST_CASE("an argument is live even where it is a captured tensor or comes twice") {
  const Tensor x = full({2}, 3.0f), other = full({2}, 5.0f);
  auto plus = trace([&](Tensor v) { return v + x; });
  plus(x), plus(x);
  CHECK(plus(other)[0].item<float>() == 8);
  auto minus = trace([](Tensor a, Tensor b) { return a - b; });
  minus(x, x), minus(x, x);
  CHECK(minus(other, x)[0].item<float>() == 2);
  Variable w("w", x);
  auto times = trace([&](Tensor v) { return v * w; });
  times(w), times(w);
  CHECK(times(other)[0].item<float>() == 15);
}

TEST_CASE("arguments may lie in any order in memory") {
  auto traced = trace([](Tensor x) { return sum(x * arange(0, 3), 1); });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = random::normal({3, 4}), wide = random::normal({4, 6});
    CHECK(allclose(traced(transpose(x)), sum(transpose(x) * arange(0, 3), 1)));
    CHECK(allclose(traced(wide(all, range(0, {}, 2))),
                   sum(wide(all, range(0, {}, 2)) * arange(0, 3), 1)));
  }
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("passes over values of one size, with views and numbers among them") {
  const auto f = [](Tensor x, Tensor y, Tensor number) {
    const Tensor flat = x.reshape({-1}), twice = x * 2;
    const Tensor line = twice.reshape({-1}) + number;            // a view of the result of a pass
    const Tensor more = exp(line * flat) - tanh(line) * number;  // values that are used again
    const Tensor other = where(more > line, more, -line).reshape({30, 500});
    return std::vector<Tensor>{other + y, line, other * other - twice};
  };
  auto traced = trace(f);
  for (int threads : {1, 2}) {
    const int before = num_threads();
    set_num_threads(threads);
    for (int i = 0; i < 4; ++i) {
      const Tensor x = random::uniform({30, 500}), y = random::normal({30, 500});
      const std::vector<Tensor> got = traced(x, y, tensor(0.5f)), expected = f(x, y, tensor(0.5f));
      for (std::size_t k = 0; k < 3; ++k) CHECK(equal(got[k], expected[k]));
    }
    auto large = trace([](Tensor x) { return (x * 2 + 1) * x - 3; });
    for (int i = 0; i < 4; ++i) {
      const Tensor x = random::normal({300'001});
      CHECK(equal(large(x), (x * 2 + 1) * x - 3));
    }
    set_num_threads(before);
  }
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

TEST_CASE("ordinary control flow: each path is captured when it is first taken") {
  static int runs = 0;
  const auto decay = [](Tensor v) {
    ++runs;
    while (sum(v) > 1.0f) v = v * 0.5f;
    if (max(v) > 0.2f) return v + 1.0f;
    return v;
  };
  auto traced = trace(decay);
  seed(5);
  for (int i = 0; i < 300; ++i) {
    const Tensor x = random::uniform({4}) * static_cast<float>(1 << i % 6);
    CHECK(equal(traced(x), decay(x)));
  }
  const auto paths = traced.trace_count();
  CHECK(paths <= 20);
  runs = 0;
  for (int i = 0; i < 100; ++i) traced(random::uniform({4}));
  CHECK(runs <= 30);
  CHECK(traced.explain().find("branches on a value read at") != std::string::npos);
}

TEST_CASE("numbers read on the host are questions too") {
  static int runs = 0;
  auto traced = trace([](Tensor n, Tensor x) {
    ++runs;
    const auto count = n.item<std::int64_t>();
    for (std::int64_t i = 0; i < count; ++i) x = x * 2;
    const std::vector<std::int64_t> shape = {count, 2};
    return broadcast_to(x, Shape(shape)) + 1;
  });
  for (int i = 0; i < 12; ++i) {
    const Tensor y = traced(tensor(std::int64_t{1 + i % 3}), ones({2}));
    CHECK(y.shape() == Shape({1 + i % 3, 2}));
    CHECK(y(0, 0).item<float>() == static_cast<float>((1 << (1 + i % 3)) + 1));
  }
  CHECK(traced.trace_count() == 3);
  CHECK(runs == 9);
}

TEST_CASE("more than 64 paths, or many elements read, and calls run eagerly") {
  auto by_value = trace([](Tensor x) { return x * x.item<float>(); });
  for (int i = 0; i < 100; ++i)
    CHECK(by_value(tensor(static_cast<float>(i))).item<float>() == static_cast<float>(i * i));
  CHECK(by_value.trace_count() == 64);
  CHECK(by_value.explain().find("more than 64 paths") != std::string::npos);

  auto by_elements = trace([](Tensor x) {
    float total = 0;
    for (const float v : x.values<float>()) total += v;
    return x * total;
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = random::uniform({100});
    CHECK(allclose(by_elements(x), x * sum(x)));
  }
  CHECK(by_elements.trace_count() == 0);
}

TEST_CASE(
    "what has changed behind a trace's back is found beside the next replay that is checked") {
  const auto eager = [](const auto& traced) {
    return traced.explain().find("runs eagerly") != std::string::npos;
  };
  Tensor hidden = full({2}, 1.0f);
  auto traced = trace([&](Tensor x) { return x + hidden; });
  for (int i = 0; i < 10; ++i) {
    hidden = full({2}, static_cast<float>(i));
    CHECK(traced(zeros({2}))[0].item<float>() == static_cast<float>(i));
  }
  CHECK(eager(traced));

  int count = 0;
  auto counted = trace([&](Tensor x) { return std::pair(x, ++count); });
  for (int i = 1; i < 10; ++i) CHECK(counted(hidden).second == i);
  CHECK(eager(counted));

  bool odd = false;
  auto other_way = trace([&](Tensor x) { return (odd = !odd) ? x * 2 : x + 2; });
  for (int i = 0; i < 10; ++i)
    CHECK(other_way(full({}, 3.0f)).item<float>() == (i % 2 ? 5.0f : 6.0f));
  CHECK(eager(other_way));

  // State that the first run makes is found too. The second run is captured instead.
  Variable w("w", ones({}));
  Tensor cache;
  auto lazy = trace([&](Tensor x) {
    if (!cache.defined()) cache = w * 2;
    return x + cache;
  });
  for (int i = 0; i < 6; ++i) {
    CHECK(lazy(ones({})).item<float>() == 3);
    w.assign_add(1);
  }
  CHECK_FALSE(eager(lazy));
  CHECK(lazy.trace_count() == 1);
}

TEST_CASE("a tensor that shares a Variable's value is none, and stays as it is") {
  Variable w("w", zeros({2}));
  const Tensor start = w.value();
  auto distance = trace([&](Tensor x) { return sum(square(w - start)) + sum(x); });
  auto reset = trace([&] { w.assign(start); });
  for (int i = 0; i < 5; ++i) {
    CHECK(distance(ones({2})).item<float>() == 2 + 2 * static_cast<float>(i * i));
    w.assign_add(1.0f);
  }
  for (int i = 0; i < 5; ++i) {
    w.assign_add(1.0f);
    reset();
    CHECK(w.value()[0].item<float>() == 0);
  }
  CHECK(distance.trace_count() + reset.trace_count() == 2);
}

TEST_CASE("a tensor that comes twice is one value to a tape inside") {
  auto traced = trace([](Tensor x, Tensor y) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(x * y), x);
  });
  const Tensor a = full({2}, 2.0f), b = full({2}, 3.0f);
  for (int i = 0; i < 4; ++i) {
    CHECK(traced(a, b)[0].item<float>() == 3);
    CHECK(traced(a, a)[0].item<float>() == 4);
    CHECK(traced(b, b)[0].item<float>() == 6);
  }
  CHECK(traced.trace_count() == 2);
}

TEST_CASE("lists and optionals that hold nothing are part of the signature") {
  auto count = trace([](std::vector<std::optional<Tensor>> list) {
    return full({}, static_cast<float>(list.size()));
  });
  auto nested = trace([](std::vector<std::vector<Tensor>> lists) {
    return full({}, static_cast<float>(lists.size()));
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(count({ones({2})}).item<float>() == 1);
    CHECK(count({ones({2}), std::nullopt}).item<float>() == 2);
    CHECK(nested({{}}).item<float>() == 1);
    CHECK(nested({{}, {}}).item<float>() == 2);
  }
}

TEST_CASE("strides of axes of length 1 make no difference") {
  auto traced = trace([](Tensor x) { return sum(x) > 0.0f ? x * 2 : x - 1; });
  for (int i = 0; i < 3; ++i) {
    CHECK(traced(ones({3, 1}))[0].item<float>() == 2);
    CHECK(traced(transpose(full({1, 3}, -1.0f)))[0].item<float>() == -2);
  }
  CHECK(traced.trace_count() == 2);
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

TEST_CASE("a value is not overwritten while a part of it is read as a number") {
  const auto f = [](Tensor x) {
    const Tensor a = matmul(x, x), p = x * a(0, 0), q = a + 1.0f;
    return p + q * 2 - (a - a(0, 0)) * 3;
  };
  const auto g = [](Tensor x) {
    const Tensor a = matmul(x, x);
    return sum(a - a(0, 0), 0);
  };
  auto traced = trace(f), other = trace(g);
  for (int i = 0; i < 6; ++i) {
    const std::int64_t side = i % 2 ? 64 : 9;
    const Tensor x = i < 4 ? zeros({side, side}) : random::normal({side, side});
    CHECK(equal(traced(x), f(x)));
    CHECK(equal(other(x), g(x)));
  }
}

TEST_CASE("a capture keeps no elements that nothing reads any more", "[cpu][fork]") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  const std::int64_t peak = peak_of([] {
    const auto f = [](Tensor x) {
      for (int i = 0; i < 100; ++i) x = tanh(x * 0.9f);
      return x + reshape(x, {-1, 1024})(0, 0);
    };
    const auto traced = trace(f);
    const Tensor x = random::normal({1 << 20});
    for (int time = 0; time < 2; ++time)
      if (!equal(traced(x), f(x))) throw 1;
  });
  CHECK(peak > 0);
  CHECK(peak < 120 * mebibyte);  // 200 results of 4 MiB, of which few live at a time
}

TEST_CASE("signatures are bounded, and so is what paths and shapes hold", "[slow]") {
  auto numbers = trace([](Tensor x, float rate) { return x * rate; });
  for (int i = 0; i < 1100; ++i)
    for (int time = 0; time < 2; ++time)
      CHECK(numbers(ones({1}), static_cast<float>(i))[0].item<float>() == static_cast<float>(i));
  CHECK(numbers.trace_count() == 1024);
  CHECK(numbers.explain().find("eagerly") == std::string::npos);

  auto paths = trace([](Tensor n, Tensor x) {
    x = matmul(x, x);
    for (std::int64_t i = n.item<std::int64_t>(); i > 0; --i) x = x * 0.5f;
    return sum(x);
  });
  const Tensor x = zeros({300, 300});
  const std::int64_t before = memory_statistics().live_bytes;
  for (int i = 0; i < 60; ++i) paths(tensor(std::int64_t{i % 20}), x);
  for (std::int64_t n = 300; n < 330; ++n)
    for (int i = 0; i < 3; ++i) paths(tensor(std::int64_t{1}), zeros({n, n}));
  CHECK(memory_statistics().live_bytes - before < 400'000);
}

TEST_CASE("an exception leaves everything as it was, and the next call is captured") {
  bool fails = true;
  auto traced = trace([&](Tensor x) {
    const Tensor y = x * 2;
    if (fails) throw std::runtime_error("not yet");
    return y;
  });
  const Tensor x = ones({2});
  const ThreadState before = state();
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(traced(x), std::runtime_error);
  CHECK(state() == before);
  CHECK(traced.trace_count() == 0);
  fails = false;
  for (int i = 0; i < 3; ++i) CHECK(traced(x)[0].item<float>() == 2);
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("an op that fails in a replay fails as it does in a run, with its line", "[cpu]") {
  auto traced = trace([](Tensor table, Tensor at) { return take(table, at) * 2; });
  const Tensor table = random::normal({5, 2});
  for (int i = 0; i < 3; ++i) traced(table, tensor({std::int64_t{1}, std::int64_t{4}}));
  std::string message;
  try {
    traced(table, tensor({std::int64_t{1}, std::int64_t{5}}));
  } catch (const IndexError& error) {
    message = error.what();
  }
  CHECK(message.find("take") != std::string::npos);
  CHECK(message.find("function.cpp") != std::string::npos);
  CHECK(traced(table, tensor({std::int64_t{0}, std::int64_t{0}})).shape() == Shape({2, 2}));
  CHECK_THROWS_AS(traced(table, Tensor()), Error);
}

TEST_CASE("traced functions call each other, and themselves") {
  auto inner = trace([](Tensor x) { return x * 2; });
  auto outer = trace([&](Tensor x) { return inner(x) + inner(x + 1); });
  for (int i = 0; i < 4; ++i)
    CHECK(outer(full({}, 1.0f * static_cast<float>(i))).item<float>() ==
          4.0f * static_cast<float>(i) + 2);

  detail::Function<Tensor(Tensor, int)> halve;
  auto recursive = trace<Tensor(Tensor, int)>(
      [&](Tensor x, int depth) { return depth ? halve(x / 2.0f, depth - 1) + 1.0f : x; });
  halve = recursive;
  for (int i = 0; i < 4; ++i) CHECK(recursive(full({}, 8.0f), 3).item<float>() == 4);
  INFO(recursive.explain());
  CHECK(recursive.explain().find("agerly") == std::string::npos);
  halve = {};
}

TEST_CASE("gradients flow through traced calls") {
  Variable w("w", full({3}, 2.0f));
  auto traced = trace([&](Tensor x) { return sum(x * x * w); });
  const Tensor x = tensor({1.0f, 2.0f, 3.0f});
  for (int i = 0; i < 4; ++i) {
    traced(x);
    GradientTape tape;
    tape.watch(x);
    const auto [dx, dw] = tape.gradient(traced(x), x, w);
    CHECK(equal(dx, 4 * x));
    CHECK(equal(dw, x * x));
  }
}

TEST_CASE("functions, generic lambdas by their signature, and references to const") {
  auto generic = trace<Tensor(Tensor)>([](auto x) { return x + 1; });
  auto references =
      trace([](const Tensor& x, const std::vector<Tensor>& more) { return x + more[0]; });
  auto pointer = trace(+[](Tensor x) { return x * 3; });
  const Tensor one = ones({});
  for (int i = 0; i < 3; ++i) {
    CHECK(generic(one).item<float>() == 2);
    CHECK(references(one, {one}).item<float>() == 2);
    CHECK(pointer(one).item<float>() == 3);
  }
  CHECK(generic.trace_count() + references.trace_count() + pointer.trace_count() == 3);
}

TEST_CASE("explain lists signatures, Variables and constants") {
  Variable w("scale", ones({3}));
  const Tensor bias = zeros({3});
  auto traced = trace([&](Tensor x) { return x * w + bias; });
  CHECK(traced.explain().find("not called yet") != std::string::npos);
  traced(ones({2, 3}));
  const std::string text = traced.explain();
  for (const char* part : {"(float32(2, 3))", "1 path, 2 steps", "scale",
                           "constants (1, 12 bytes):\n    float32(3,) in add at function.cpp:"})
    CHECK(text.find(part) != std::string::npos);
}
}  // namespace reel::tests
