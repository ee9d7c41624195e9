// SPDX-License-Identifier: BSD-3-Clause
// User ops inside of a trace: which calls become one step, and which cannot be replayed.
#include <cmath>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
/// Reads the tensor on the host.
float first_of(const Tensor& x) { return x.to_vector<float>()[0]; }
int runs = 0;
}  // namespace

TEST_CASE("a function of register_op that reads what no trace follows is one step") {
  register_op("coded_threads",
              [](const OpCall& call) { return call.input(0) * static_cast<float>(num_threads()); });
  const int before = num_threads();
  const auto traced = trace([](Tensor x) { return call_op("coded_threads", {x * 2}) + 1; });
  for (int i = 0; i < 8; ++i) {
    set_num_threads(1 + i % 2);
    CHECK(equal(traced(ones({3})), full({3}, i % 2 ? 5.0f : 3.0f)));
  }
  set_num_threads(before);
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("agerly") == std::string::npos);
}

TEST_CASE("a tape that goes back through a function that reads on the host makes the calls eager") {
  const auto scaled = [](const OpCall& call) {
    return Tensors(call.input(0) / max(abs(call.input(0))).item<float>());
  };
  register_op("coded_peak", scaled);
  register_op("coded_peak_with_gradient", scaled);
  register_gradient("coded_peak_with_gradient",
                    [](const OpCall& call, Tensor dy) { return Tensors(dy * call.output(0)); });
  for (const char* name : {"coded_peak", "coded_peak_with_gradient"}) {
    INFO(name);
    const auto train = [name](Variable w, auto wrap) {
      auto step = wrap([name, w](Tensor x) mutable {
        GradientTape tape;
        const Tensor loss = sum(square(call_op(name, {w * x})));
        w.assign_sub(0.01 * tape.gradient(loss, w));
        return loss;
      });
      for (int i = 0; i < 40; ++i) step(arange(1, 5) * 1.0 + 0.1 * i);
      return step;
    };
    const Variable eager("w", ones({4})), traced("w", ones({4}));
    train(eager, [](auto f) { return f; });
    std::string explained;
    on_stderr(
        [&] { explained = train(traced, [](auto f) { return trace(std::move(f)); }).explain(); });
    CHECK(equal(traced.value(), eager.value()));
    const bool has_gradient = std::string(name) != "coded_peak";
    CHECK((explained.find("a tape follows the ops inside of a user's function") !=
           std::string::npos) != has_gradient);
  }
}

TEST_CASE("an error of a user's code comes out of a replay as out of a run, after one call") {
  struct Refused {
    int call;
  };
  register_op("coded_refuses", [](const OpCall& call) -> Tensors {
    ++runs;
    if (first_of(call.input(0)) > 3) throw Refused{runs};
    return call.input(0) * 2;
  });
  const auto traced = trace([](Tensor x) { return call_op("coded_refuses", {x * 1}) + 1; });
  Variable w("w", zeros({2}));
  const auto writes = trace([&](Tensor x) {
    w.assign_add(x);
    return call_op("coded_refuses", {w * 1});
  });
  const auto catches = trace([](Tensor x) {
    try {
      return call_op("coded_refuses", {x * 1});
    } catch (const Refused&) {
      return x * 5;
    }
  });
  runs = 0;
  for (int i = 1; i < 40; ++i) {
    const Tensor x = full({2}, static_cast<float>(i * 7 % 5));
    const bool refused = i * 7 % 5 > 3;
    INFO(i);
    int thrown = 0;
    try {
      const Tensor got = traced(x);
      CHECK(equal(got, x * 2 + 1));
    } catch (const Refused& error) {
      thrown = error.call;
    }
    CHECK(thrown == (refused ? runs : 0));
    CHECK(runs == 3 * i - 2);
    CHECK(equal(catches(x), refused ? x * 5 : x * 2));
    CHECK(runs == 3 * i - 1);
    w.assign(zeros({2}));
    if (refused)
      CHECK_THROWS_AS(writes(x), Refused);
    else
      CHECK(equal(writes(x), x * 2));
    CHECK(equal(w.value(), x));
    CHECK(runs == 3 * i);
  }
  CHECK(traced.trace_count() == 1);
  CHECK(catches.explain().find("it catches an error of a user's function or kernel") !=
        std::string::npos);
}

TEST_CASE("a kernel that replaces a function of register_op is one step") {
  register_op("coded_replaced", [](const OpCall& call) { return Tensors(call.input(0) * 2); });
  register_kernel("coded_replaced", [](const OpCall& call) {
    return Tensors(call.input(0) * static_cast<float>(++runs));
  });
  for (const double verify : {0.0, 0.01, 1.0}) {
    const auto traced =
        trace([](Tensor x) { return call_op("coded_replaced", {x + 1}) - 1; }, {.verify = verify});
    runs = 0;
    for (int i = 1; i < 20; ++i)
      CHECK(equal(traced(ones({2})), full({2}, 2.0f * static_cast<float>(i) - 1)));
    CHECK(runs == 19);
    INFO(traced.explain());
    CHECK(traced.explain().find("agerly") == std::string::npos);
  }
}

TEST_CASE("a step of a user's code is replayed without the function, with live numbers too") {
  register_op("coded_scaled", [](const OpCall& call) {
    return call.input(0) * call.input(1) * first_of(call.input(0));
  });
  Live<double> rate{0.5};
  runs = 0;
  const auto traced = trace(
      [&](Tensor x) {
        ++runs;
        return call_op("coded_scaled", {x * 2, rate * 3});
      },
      {.verify = 0});
  for (int i = 1; i < 6; ++i) {
    rate = i;
    const Tensor got = traced(full({3}, static_cast<float>(i)));
    CHECK(got.dtype() == DType::float32);
    CHECK(equal(got, full({3}, static_cast<float>(12 * i * i * i))));
  }
  CHECK(runs == 1);
  // If the result is a live number, it stays live.
  const auto doubled = trace([&] { return rate * 2; }, {.verify = 0});
  for (int i = 0; i < 4; ++i) {
    CHECK((ones({3}) * doubled()).dtype() == DType::float32);
    CHECK(doubled().item<double>() == 10);
  }
}

TEST_CASE("what a user's code gives may be a result as it is") {
  register_op("coded_twice", [](const OpCall& call) {
    return call.input(0) * (first_of(call.input(0)) > 0 ? 2.0f : 3.0f);
  });
  register_op("coded_thrice", [](const OpCall& call) {
    return call.input(0) * (first_of(call.input(0)) > 0 ? 3.0f : 2.0f);
  });
  register_gradient("coded_thrice", [](const OpCall&, Tensor upstream) { return upstream * 3; });
  const auto traced = trace([](Tensor x) {
    const Tensor both = call_op("coded_thrice", {x});
    return std::vector<Tensor>{call_op("coded_twice", {x}), both, both, both(0)};
  });
  for (int i = 1; i < 12; ++i) {
    const Tensor x = full({2}, static_cast<float>(i));
    const std::vector<Tensor> got = traced(x);
    CHECK(equal(got[0], x * 2));
    for (const int k : {1, 2}) CHECK(equal(got[static_cast<std::size_t>(k)], x * 3));
    CHECK(equal(got[3], 3 * x[0]));
  }
  CHECK(traced.trace_count() == 1);
  INFO(traced.explain());
  CHECK(traced.explain().find("agerly") == std::string::npos);
  // A tensor that the function also keeps is state.
  static Tensor kept;
  const auto keeps = trace([](Tensor x) { return kept = call_op("coded_twice", {x}); });
  for (int i = 1; i < 6; ++i) keeps(full({2}, static_cast<float>(i)));
  kept = Tensor();
  CHECK(keeps.explain().find("runs eagerly: it keeps a tensor that coded_twice at ") !=
        std::string::npos);
}

TEST_CASE("a step of a user's code that gives something else runs the function") {
  register_op("coded_changing", [](const OpCall& call) -> Tensors {
    const float first = first_of(call.input(0));
    if (first == 3) return {Tensor()};
    if (first == 4) return {ones({2, 2})};
    return {call.input(0) * 2};
  });
  const auto f = [](Tensor x) { return call_op("coded_changing", {x}); };
  const auto traced = trace(f, {.verify = 0});
  const auto outcome = [](const auto& function, float value) {
    try {
      const Tensor result = function(full({2}, value));
      return result.defined() ? to_string(result) : "nothing";
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(0, text.find(" at "));
    }
  };
  for (const float value : {1.0f, 2.0f, 3.0f, 1.0f, 4.0f, 5.0f, 3.0f})
    CHECK(outcome(traced, value) == outcome(f, value));
}

TEST_CASE("a check calls a user's code again where it is not the same call") {
  static bool other;
  register_op("coded_plus",
              [](const OpCall& call) { return call.input(0) + first_of(call.input(0)); });
  register_op("coded_times",
              [](const OpCall& call) { return call.input(0) * (1 + first_of(call.input(0))); });
  const auto check = [](const auto& f) {
    other = false;
    const auto traced = trace(f, {.verify = 1});
    const Tensor x = tensor({3.0f, 4.0f});
    for (int i = 0; i < 3; ++i) CHECK(equal(traced(x), f(x)));
    other = true;
    const std::string said = on_stderr([&] { CHECK(equal(traced(x), f(x))); });
    INFO(said);
    CHECK(said.find("runs eagerly: ") != said.npos);
    CHECK(equal(traced(x), f(x)));
  };
  check([](Tensor x) { return call_op(other ? "coded_times" : "coded_plus", {x}); });
  check([](Tensor x) { return call_op("coded_plus", {x * (other ? 5.0f : 2.0f)}); });
  check([](Tensor x) {
    const Tensor y = call_op(other ? "coded_times" : "coded_plus", {x * 1.0f});
    return call_op("coded_plus", {y});
  });
}

TEST_CASE("a user's function that reads on the host and leaves something behind is not replayed") {
  Variable w("w", zeros({3}));
  register_op("coded_counting", [&](const OpCall& call) {
    w.assign_add(1.0f);
    return call.input(0) * first_of(call.input(0)) + w;
  });
  register_op("coded_drawing", [](const OpCall& call) {
    return call.input(0) * first_of(call.input(0)) + random::uniform({3});
  });
  for (const std::string name : {"coded_counting", "coded_drawing"}) {
    const auto traced = trace([&](Tensor x) { return call_op(name, {x}); });
    const auto run = [&](const auto& f) {
      seed(4);
      w.assign(zeros({3}));
      std::vector<Tensor> given;
      for (int i = 0; i < 6; ++i) given.push_back(f(full({3}, static_cast<float>(i))));
      given.push_back(random::uniform({3}));
      return given;
    };
    const auto expected = run([&](Tensor x) { return call_op(name, {x}); }), got = run(traced);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(equal(got[i], expected[i]));
    INFO(traced.explain());
    CHECK(traced.explain().find("runs eagerly: a user's function that reads on the host also "
                                "writes a Variable or draws random numbers\n") !=
          std::string::npos);
  }
}

TEST_CASE("a user's kernel that leaves something behind is not replayed", "[cpu]") {
  Variable first("first", zeros({3})), second("second", zeros({3}));
  // 1: the op writes to the first, 2: to the second, 3: it draws random numbers
  static int writes = 0;
  register_kernel("bitwise_xor", [&](const OpCall& call) {
    if (writes == 1) first.assign_add(1.0f);
    if (writes == 2) second.assign_add(1.0f);
    if (writes == 3) random::uniform({1});
    std::vector<int> a = call.input(0).to_vector<int>(), b = call.input(1).to_vector<int>();
    for (std::size_t i = 0; i < a.size(); ++i) a[i] ^= b[b.size() == 1 ? 0 : i];
    return from_span(a, call.input(0).shape());
  });
  for (writes = 0; writes < 4; ++writes) {
    const auto traced = trace([&](Tensor x) {
      const Tensor sum = first + second;
      return std::vector<Tensor>{x ^ tensor({1, 2, 3}), sum};
    });
    first.assign(zeros({3})), second.assign(zeros({3}));
    for (int i = 0; i < 6; ++i) {
      const std::vector<Tensor> got = traced(tensor({4, 5, 6}));
      CHECK(equal(got[0], tensor({5, 7, 5})));
      CHECK(got[1][0].item<float>() == static_cast<float>(writes == 1 || writes == 2 ? i : 0));
    }
    INFO(writes << traced.explain());
    const std::string why = writes == 0   ? ""
                            : writes == 3 ? "runs eagerly: a user's kernel draws random numbers\n"
                                          : "runs eagerly: a user's kernel writes a Variable that "
                                            "it uses elsewhere\n";
    CHECK(traced.explain().find(why) != std::string::npos);
    CHECK((traced.explain().find("eagerly") == std::string::npos) == why.empty());
  }
  writes = 0;
}

TEST_CASE("numbers of a generator that is seeded as the thread's are none of the thread's") {
  seed(11);
  const auto traced = trace([] {
    const GeneratorScope scope(Generator(11));
    return random::uniform({2});
  });
  const Tensor first = traced();
  for (int i = 0; i < 4; ++i) CHECK(equal(traced(), first));
  CHECK(equal(random::uniform({2}), first));
  CHECK(
      traced.explain().find("runs eagerly: it draws random numbers from a generator that it seeds "
                            "itself; seed it outside\n") != std::string::npos);
}
}  // namespace reel::tests
