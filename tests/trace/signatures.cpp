// SPDX-License-Identifier: BSD-3-Clause
// Calls with the same signature share a trace. Other calls do not.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/flow/context.hpp"
#include "support/catch.hpp"
#include "support/main_heap.hpp"
#include "support/resident.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
struct Options {
  std::optional<Tensor> a, b, c, d, ab, ba;
  template <class Field>
  void fields(Field field) {
    field("a", a), field("b", b), field("c", c), field("d", d), field("ab", ab), field("ba", ba);
  }
};
/// Lists its one member.
template <class T>
struct Either {
  int has;
  T value;
  template <class Field>
  void fields(Field field) {
    if (has == 1) field("one", value);
    if (has == 2) field("two", value);
  }
};
struct Lists {
  std::vector<Tensor> first, second;
  template <class Field>
  void fields(Field field) {
    field("first", first), field("second", second);
  }
};
}  // namespace

TEST_CASE("a function that keeps state runs eagerly with signatures that come later") {
  int calls = 0;
  const auto counted = trace([&calls](Tensor x) { return x * static_cast<float>(++calls); });
  for (int i = 0; i < 6; ++i) counted(ones({3}));
  CHECK(counted.explain().find("runs eagerly: it changes its own state") != std::string::npos);
  CHECK(equal(counted(ones({4})), full({4}, 7.0f)));
  std::thread([&] { CHECK(equal(counted(ones({2, 2})), full({2, 2}, 8.0f))); }).join();
  {
    const TrainScope evaluation(false);
    CHECK(equal(counted(ones({3})), full({3}, 9.0f)));
  }
  for (int i = 10; i < 20; ++i) CHECK(equal(counted(ones({4})), full({4}, static_cast<float>(i))));
}

TEST_CASE("members that are there are told apart by their names") {
  const auto number = [](const Options& o) {
    float sum = 0, weight = 1;
    for (const auto* member : {&o.a, &o.b, &o.c, &o.d, &o.ab, &o.ba}) {
      if (*member) sum += weight;
      weight *= 2;
    }
    return sum;
  };
  const auto traced = trace([&](Tensor x, Options o) { return x * number(o); });
  for (int round = 0; round < 2; ++round)
    for (const int members : {0, 1, 2, 4, 8, 16, 32, 3, 5, 10, 48}) {
      Options o;
      int bit = 0;
      for (auto* member : {&o.a, &o.b, &o.c, &o.d, &o.ab, &o.ba})
        if (members >> bit++ & 1) *member = ones({2});
      CHECK(traced(ones({}), o).item<float>() == static_cast<float>(members));
    }
  CHECK(traced.trace_count() == 11);

  const auto lists = trace([](Lists l) {
    return zeros({}) + static_cast<float>(l.first.size()) * 100.0f +
           static_cast<float>(l.second.size());
  });
  for (int round = 0; round < 2; ++round)
    for (const int i : {0, 1, 5, 2, 6, 10, 7, 11}) {
      const Lists l = {std::vector<Tensor>(static_cast<std::size_t>(i / 5), ones({2})),
                       std::vector<Tensor>(static_cast<std::size_t>(i % 5), zeros({2}))};
      CHECK(lists(l).item<float>() == static_cast<float>(i / 5 * 100 + i % 5));
    }
}

TEST_CASE("members that are listed in turn are told apart by their names and places") {
  const auto tensors = trace([](Tensor x, Either<Tensor> a, Either<Tensor> b) {
    return x + static_cast<float>(3 * a.has + b.has);
  });
  Variable w("w", zeros({2}));
  const auto variables =
      trace([](Tensor x, Either<Variable> v) { return x + static_cast<float>(v.has); });
  for (int round = 0; round < 2; ++round)
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) {
        const Tensor x = ones({2});
        CHECK(tensors(zeros({}), {a, x}, {b, x}).item<float>() == static_cast<float>(3 * a + b));
        CHECK(tensors(zeros({}), {a, x}, {b, ones({2})}).item<float>() ==
              static_cast<float>(3 * a + b));
        CHECK(tensors(zeros({}), {a, Tensor()}, {b, x}).item<float>() ==
              static_cast<float>(3 * a + b));
        CHECK(variables(zeros({}), {a, w}).item<float>() == static_cast<float>(a));
      }
  CHECK(variables.trace_count() == 3);
}

TEST_CASE("tensors that come again are told from those that are not there") {
  const auto traced = trace([](Tensor a, Tensor b, Tensor c, Tensor d) {
    Tensor sum = a * 1.0f + b * 10.0f;
    if (c.defined()) sum = sum + c * 100.0f;
    if (d.defined()) sum = sum + d * 1000.0f;
    return sum;
  });
  const Tensor x = tensor(1.0f), y = tensor(2.0f), z = tensor(3.0f);
  for (int i = 0; i < 4; ++i) {
    CHECK(traced(x, y, Tensor(), x).item<float>() == 1021);
    CHECK(traced(x, x, z, Tensor()).item<float>() == 311);
    CHECK(traced(x, y, z, Tensor()).item<float>() == 321);
    CHECK(traced(x, y, x, z).item<float>() == 3121);
  }
  CHECK(traced.trace_count() == 4);
}

TEST_CASE("parts of an argument are the same in whatever order it lies") {
  const auto traced = trace([](Tensor x) {
    return std::vector<Tensor>{x(1) * 2.0f, x(0, range(1, 3)) + 1.0f, tanh(x * 3.0f), x(2)};
  });
  for (int i = 0; i < 6; ++i) {
    const Tensor wide = random::normal({4, 6}),
                 x = i % 3 ? wide(range(1, 4), range(0, 4)) : transpose(wide(all, range(0, 3)));
    const std::vector<Tensor> got = traced(x);
    CHECK(equal(got[0], x(1) * 2.0f));
    CHECK(equal(got[1], x(0, range(1, 3)) + 1.0f));
    CHECK(equal(got[2], tanh(x * 3.0f)));
    CHECK(equal(got[3], x(2)));
  }
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

TEST_CASE("shapes are told apart even where a length is the number of a dtype") {
  const auto traced =
      trace([](Tensor a, Tensor b) { return (sum(a) * 1000.0f + sum(b)).to(DType::float64); });
  for (const DType dtype :
       {DType::uint8, DType::int32, DType::int64, DType::float32, DType::float64}) {
    const auto length = static_cast<std::int64_t>(dtype);
    const TensorOptions options{.dtype = dtype};
    const Tensor short_one = ones({2}, options), long_one = ones({5, length, 3}, options),
                 joined = ones({2, length, 5}, options), last = ones({3}, options);
    for (int round = 0; round < 3; ++round) {
      CHECK(traced(short_one, long_one).item<double>() ==
            2000 + static_cast<double>(long_one.size()));
      CHECK(traced(joined, last).item<double>() == 1000 * static_cast<double>(joined.size()) + 3);
    }
  }
  CHECK(traced.trace_count() == 10);
}

TEST_CASE("a text counts to its end and no further, with all of its bytes") {
  const auto traced = trace([](Tensor x, std::string_view text) {
    float sum = 0;
    for (const char c : text) sum = 3 * sum + static_cast<float>(c);
    return x + sum;
  });
  std::size_t texts = 0;
  for (std::size_t length = 0; length <= 20; ++length, ++texts)
    for (const char behind : {'x', 'y', '\0'}) {
      const std::string buffer = std::string(length, 'a') + std::string(24, behind);
      float sum = 0;
      for (std::size_t i = 0; i < length; ++i) sum = 3 * sum + static_cast<float>('a');
      CHECK(traced(zeros({}), std::string_view(buffer).substr(0, length)).item<float>() == sum);
      CHECK(traced.trace_count() == texts + 1);
    }
  for (std::size_t at = 0; at < 17; ++at, ++texts) {
    std::string text(17, 'a');
    text[at] = 'b';
    for (int time = 0; time < 2; ++time) traced(zeros({}), text);
    CHECK(traced.trace_count() == texts + 1);
  }
}

TEST_CASE("after many signatures that were called once, a new one is captured at its second call") {
  // A square root of the length: no signature is made from others.
  const auto f = [](Tensor x) { return x * std::sqrt(static_cast<double>(x.shape()[0])); };
  const auto traced = trace(f);
  const auto call = [&](std::int64_t length) {
    CHECK(equal(traced(ones({length})), f(ones({length}))));
  };
  const std::string said = on_stderr([&] {
    for (std::int64_t length = 1; length <= 40; ++length) call(length);
  });
  CHECK(said.find("signatures.cpp:") != std::string::npos);
  CHECK(said.find("is captured at its second call") != std::string::npos);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(traced.trace_count() == 16);
  call(30);
  CHECK(traced.trace_count() == 17);
  // Signatures that come again make room for new ones.
  call(30);
  call(1);
  call(100);
  CHECK(traced.trace_count() == 18);
}

TEST_CASE("lists of different lengths are different signatures") {
  const auto traced = trace([](std::vector<Tensor> a, std::vector<Tensor> b) {
    Tensor y = zeros({2});
    for (const Tensor& x : a) y = y + x;
    for (const Tensor& x : b) y = y * x;
    return y;
  });
  const Tensor x = full({2}, 3);
  for (int time = 0; time < 2; ++time) {
    CHECK(equal(traced({x}, {x + 0, x + 1}), full({2}, 36)));
    CHECK(equal(traced({x, x + 0}, {x + 1}), full({2}, 24)));
    CHECK(equal(traced({}, {x, x + 0, x + 1}), zeros({2})));
  }
  CHECK(traced.trace_count() == 3);
}

TEST_CASE("of many arguments some may be the same tensor") {
  const auto traced = trace([](std::vector<Tensor> all_of) {
    Tensor y = zeros({2});
    for (std::size_t i = 0; i < all_of.size(); ++i) y = y + all_of[i] * static_cast<float>(i + 1);
    return y;
  });
  for (const std::size_t count : {15u, 16u, 17u, 40u})
    for (const std::size_t apart : {1u, 14u, 16u, 19u}) {
      for (int round = 0; round < 4; ++round) {
        std::vector<Tensor> all_of;
        float wanted = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const auto value = static_cast<float>(round + 1 + static_cast<int>(i % (apart + 1)));
          all_of.push_back(i > apart ? all_of[i - apart - 1] : full({2}, value));
          wanted += value * static_cast<float>(i + 1);
        }
        CHECK(equal(traced(all_of), full({2}, wanted)));
        // The same number of tensors, all of them different.
        for (Tensor& x : all_of) x = x * 1.0f;
        CHECK(equal(traced(all_of), full({2}, wanted)));
      }
    }
}

TEST_CASE("a Variable that is an argument is no other one that has its address") {
  const auto traced = trace([](const Variable& v) { return v * 2; });
  for (int i = 0; i < 30; ++i) {
    const Variable v("v", full({1 + i % 3}, static_cast<float>(i)));
    for (int time = 0; time < 2; ++time)
      CHECK(equal(traced(v), full({1 + i % 3}, static_cast<float>(2 * i))));
  }
  CHECK(traced.trace_count() <= 8);  // of Variables that only the trace holds, most are dropped
  // The same for an argument that the function does not use.
  const auto unused = trace([](const Variable&, Tensor x) { return x * 2; });
  for (const std::string name : {"first", "second", "third"}) {
    const Variable v(name, ones({3}));
    CHECK(equal(unused(v, ones({2})), full({2}, 2.0f)));
    CHECK(unused.explain().find("(" + name + ", float32(2,)), training") != std::string::npos);
  }
}

TEST_CASE("a function is captured anew after each registration of an op") {
  for (const std::string name : {"signed_a", "signed_b", "signed_c"})
    register_op(name, [](const OpCall& call) { return call.input(0) * 2.0f; });
  const auto traced = trace([](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = call_op("signed_a", {x}) + call_op("signed_b", {x}) + call_op("signed_c", {x});
    return tape.gradient(y, x);
  });
  float wanted = 6;
  for (const std::string name : {"", "signed_a", "signed_b", "signed_c"}) {
    if (!name.empty()) {
      register_gradient(name, [](const OpCall&, Tensor dy) { return dy * 10.0f; });
      wanted += 8;
    }
    for (int i = 0; i < 3; ++i) CHECK(equal(traced(ones({2})), full({2}, wanted)));
  }
}

TEST_CASE("calls are replayed beside tapes of other threads, if their tensors are not theirs",
          "[cpu]") {
  static int runs = 0;
  const Variable w("w", ones({2}));
  const Tensor constant = full({2}, 5.0f);
  const auto traced = trace(
      [w, constant](Tensor x) {
        ++runs;
        return x * w + constant;
      },
      {.verify = 0});
  const Tensor x = ones({2});
  const auto run_of = [&](const Tensor& v) {
    const int before = runs;
    CHECK(equal(traced(v), v * w + constant));
    return runs > before;
  };
  CHECK(run_of(x));
  CHECK_FALSE(run_of(x));
  std::thread([&] {
    GradientTape tape({.watch_variables = false});
    const Tensor watched = ones({2});
    tape.watch(watched);
    const Tensor made = watched * 2.0f;
    std::thread([&] {
      CHECK_FALSE(run_of(x));  // no tape watches these
      CHECK(run_of(watched));
      CHECK(run_of(made));
      CHECK_FALSE(run_of(ones({2})));
    }).join();
    tape.watch(w);  // w is a constant for other threads
    std::thread([&] { CHECK_FALSE(run_of(x)); }).join();
  }).join();
  std::thread([&] {
    GradientTape tape({.watch_variables = false});
    tape.watch(constant);
    std::thread([&] { CHECK(run_of(x)); }).join();
  }).join();
}

TEST_CASE("paths may meet Variables and constants in another order") {
  Variable a("a", full({2}, 2.0f)), b("b", full({2}, 3.0f)), c("c", full({2}, 5.0f));
  const auto f = [&](Tensor x) {
    if (x(0) > 0.0f) return x * a - b;
    const Tensor y = (x - c) * b;
    a.assign_add(1.0f);
    return y * a;
  };
  const auto traced = trace(f);
  for (int i = 0; i < 8; ++i) {
    const Tensor x = full({2}, i % 2 ? -1.0f : 4.0f);
    const float was = 2.0f + static_cast<float>(i / 2), now = was + static_cast<float>(i % 2);
    CHECK(equal(traced(x), full({2}, i % 2 ? -18.0f * now : 4.0f * was - 3.0f)));
    CHECK(equal(a, full({2}, now)));
  }
  CHECK(traced.trace_count() == 2);
  INFO(traced.explain());
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

TEST_CASE("kernels get values in order though the first value of a trace is strided") {
  const Tensor table = arange(0.0f, 12.0f).reshape({3, 4}), transposed = transpose(table);
  const Variable positions("positions", tensor({3, 0}));
  const auto traced = trace([&] { return take(transposed, positions, 0) * 1.0f; });
  for (int i = 0; i < 4; ++i)
    CHECK(equal(traced(), tensor({{3.0f, 7.0f, 11.0f}, {0.0f, 4.0f, 8.0f}})));
}

TEST_CASE("a traced function that is assigned shares what the other has captured") {
  const auto times = [](float number) { return trace([number](Tensor x) { return x * number; }); };
  auto first = times(2);
  const auto second = times(3);
  CHECK(equal(first(ones({2})), full({2}, 2.0f)));
  CHECK(equal(second(ones({2})), full({2}, 3.0f)));
  first = second;
  CHECK(equal(first(ones({2})), full({2}, 3.0f)));
  first(ones({3}));
  CHECK(second.trace_count() == 2);
}

TEST_CASE("a trace takes as many tensors and Variables as memory holds", "[cpu]") {
  constexpr int tensors = 70'000, variables = 5'000;
  std::vector<Tensor> parts;
  for (int i = 0; i < tensors; ++i) parts.push_back(full({1}, i % 7));
  std::vector<Variable> weights;
  for (int i = 0; i < variables; ++i) weights.emplace_back("w" + std::to_string(i), full({1}, 1));
  const auto total = trace([&](const std::vector<Tensor>& all) {
    Tensor product = ones({1});
    for (const Variable& w : weights) product = product * w;
    return sum(concat(all, 0)) * product;
  });
  double expected = 0;
  for (int i = 0; i < tensors; ++i) expected += i % 7;
  for (int call = 0; call < 4; ++call) CHECK(total(parts).item<float>() == expected);
  weights.back().assign(full({1}, 2));
  CHECK(total(parts).item<float>() == 2 * expected);
}

TEST_CASE("a function that can only be moved is traced, and its state is watched", "[proc]") {
  const MainHeap main_heap;
  auto owned = std::make_unique<float>(2.0f);
  float* const scale = owned.get();
  const auto scaled = trace([owned = std::move(owned)](Tensor x) { return x * *owned; });
  for (int i = 0; i < 12; ++i) {
    if (i == 7 && !sanitized) *scale = 3;  // AddressSanitizer's blocks are not compared
    CHECK(equal(scaled(ones({3})), full({3}, *scale)));
  }
  const auto counts = trace<Tensor(Tensor)>(
      [n = std::make_unique<int>(0)](auto x) { return x * static_cast<float>(++*n); });
  for (int i = 1; i < 9; ++i) CHECK(equal(counts(ones({2})), full({2}, static_cast<float>(i))));
  CHECK(counts.explain().find("runs eagerly: it changes its own state") != std::string::npos);
  const auto held = std::make_shared<int>(0);
  {
    const auto traced =
        trace([held, one = std::make_unique<int>(1)](Tensor x) { return x * *one; });
    const auto copy = traced;
    CHECK(equal(copy(ones({2})), ones({2})));
    CHECK(held.use_count() == 2);
  }
  CHECK(held.use_count() == 1);
}

TEST_CASE("a trace that a traced function captures is no state of it") {
  const auto inner = trace([](Tensor x) { return x * 2; });
  const auto outer = trace([inner](Tensor x) { return inner(x) + 1; });
  for (int i = 0; i < 12; ++i) {
    CHECK(equal(outer(ones({3})), full({3}, 3.0f)));
    if (i % 3 == 2) CHECK(equal(inner(ones({3})), full({3}, 2.0f)));
  }
  INFO(outer.explain());
  CHECK(outer.trace_count() == 1);
  CHECK(outer.explain().find("agerly") == std::string::npos);
}

TEST_CASE("functions that say noexcept have a signature") {
  const auto twice = trace([factor = 2](Tensor x) mutable noexcept { return x * factor; });
  const auto thrice = trace(+[](Tensor x) noexcept { return x * 3; });
  for (int i = 0; i < 4; ++i) {
    CHECK(equal(twice(ones({2})), full({2}, 2.0f)));
    CHECK(equal(thrice(ones({2})), full({2}, 3.0f)));
  }
}
}  // namespace reel::tests
