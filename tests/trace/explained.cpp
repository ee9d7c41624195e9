// SPDX-License-Identifier: BSD-3-Clause
// What a trace reports: what was captured, what was not, and what a check found.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/environment.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
bool changed = false;  // a trace does not watch globals
Tensor given() { return tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}); }

/// The report of a check for a function that changes its behaviour when `changed` is set.
template <class F>
std::string said_by(F f) {
  const auto traced = trace(f, {.verify = 1});
  changed = false;
  const std::string before = on_stderr([&] {
    for (int i = 0; i < 3; ++i) traced(given());
  });
  CHECK(before.empty());
  changed = true;
  const std::string said = on_stderr([&] { traced(given()); });
  changed = false;
  return said;
}
unsigned lines[2];  // the lines of steps
std::string here(int i) { return "explained.cpp:" + std::to_string(lines[i]); }
void check_says(const std::string& said, const std::string& part) {
  INFO(said);
  CHECK(said.find(part + "; this call, number 4, is right\n") != said.npos);
  CHECK(said.find("a traced function runs eagerly: ") != said.npos);
}
}  // namespace

TEST_CASE("explain counts paths, steps, Variables, constants and answers") {
  for (const int constants : {0, 1, 8, 9}) {
    Variable first("first", ones({3})), second("second", ones({3}));
    std::vector<Tensor> list;
    for (int i = 0; i < constants; ++i) list.push_back(full({3}, static_cast<float>(i)));
    const auto traced = trace([&](Tensor x) {
      Tensor y = x * first + second;
      lines[1] = __LINE__ + 1;
      for (const Tensor& constant : list) y = y + constant;
      lines[0] = __LINE__ + 1;
      const Tensor total = sum(x);
      return total.item<float>() > 0 ? -y : y;
    });
    const auto text = [&](const std::string& paths, int steps, const std::string& answers) {
      std::string shown;
      if (constants)
        shown = "  constants (" + std::to_string(constants) + ", " +
                std::to_string(12 * constants) + " bytes):\n";
      for (int i = 0; i < constants && i < 8; ++i)
        shown += "    float32(3,) in add at " + here(1) + "\n";
      if (constants > 8) shown += "    ...\n";
      return "(float32(3,)), training\n  " + paths + ", " + std::to_string(steps) +
             " steps\n  Variables: first, second\n" + shown + "  branches on a value read at " +
             std::string(Caller::here().file) + ":" + std::to_string(lines[0]) + ": " + answers +
             "\n";
    };
    traced(ones({3}));
    CHECK(traced.explain() == text("1 path", 4 + constants, "1 answer"));
    traced(-ones({3}));
    CHECK(traced.explain() == text("2 paths", 4 + constants, "2 answers"));
    CHECK(traced.trace_count() == 2);
  }
}

TEST_CASE("explain counts replays and checks, and says what single constants are", "[cpu]") {
  const auto traced = trace([](Tensor x) {
    const Tensor y = x * 2.5;
    return y + 1;
  });
  traced(ones({100}));
  CHECK(traced.explain().find("replay") == std::string::npos);
  for (int i = 0; i < 9; ++i) traced(ones({100}));
  const std::string text = traced.explain();
  INFO(text);
  // Replays 1, 2, 4 and 8 are checked.
  CHECK(text.find("  5 replays, 4 checks in ") != text.npos);
  CHECK(text.find(" ms; values of a replay share 448 bytes\n") != text.npos);
  CHECK(text.find("    float32() 2.5 in multiply at ") != text.npos);
}

TEST_CASE("explain says what groups took in replays under a profile", "[cpu]") {
  const auto traced = trace([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = tanh(x * 2.5) + x;
    return repeat(3, y, [](Tensor z, Tensor) { return sin(z) * z; });
  });
  for (int i = 0; i < 9; ++i) traced(ones({5000}));
  CHECK(traced.explain().find("group") == std::string::npos);
  profile([&] { traced(ones({5000})), traced(ones({5000})); });
  const std::string text = traced.explain();
  INFO(text);
  CHECK(text.find(" ms in 2 watched replays: multiply at " + here(0) + ", tanh at " + here(0) +
                  ", add at " + here(0) + "\n") != text.npos);
  CHECK(text.find(" ms in 6 watched replays: sin at ") != text.npos);
}

TEST_CASE("explain names the first op that reads a constant") {
  const Tensor twice = full({2}, 2.0f), back = full({3}, 3.0f);
  const auto traced = trace([&](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = x * twice;
    const Tensor z = exp(twice + y);
    return std::pair(z, back);
  });
  traced(ones({2}));
  const std::string text = traced.explain();
  INFO(text);
  CHECK(text.find("  constants (2, 20 bytes):\n    float32(2,) in multiply at " + here(0) +
                  "\n    float32(3,) in the result\n") != text.npos);
}

TEST_CASE("explain shows what a signature is made of") {
  const auto traced = trace([](Tensor x, std::string_view text, const Variable& w, bool) {
    return x.defined() ? x + static_cast<float>(text.size()) : w * 2;
  });
  const std::string forty(40, 'a'), more(41, 'b');
  const Variable w("weight", ones({2}));
  traced(ones({2}), forty, w, false);
  traced(Tensor(), more, w, true);
  const TrainScope evaluating(false);
  traced(ones({2}), "", w, true);
  const std::string text = traced.explain();
  INFO(text);
  CHECK(text.find("(float32(2,), \"" + forty + "\", weight, 0), training\n") != text.npos);
  CHECK(text.find("(undefined, \"" + more.substr(1) + "...\", weight, 1), training\n") !=
        text.npos);
  CHECK(text.find("(float32(2,), \"\", weight, 1), evaluating\n") != text.npos);
}

TEST_CASE("a check names the step where the path is another") {
  const std::string host = "a step to a value read on the host, of an op at ";
  std::string said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    if (changed) return x + x;
    lines[1] = __LINE__ + 1;
    return x * x;
  });
  check_says(said, "path through it: was a step to multiply at " + here(1) +
                       ", is a step to add at " + here(0));
  said = said_by([](Tensor x) {
    const Tensor y = x * x;
    lines[0] = __LINE__ + 1;
    return changed ? y : y * x;
  });
  check_says(said, "path through it: was a step to multiply at " + here(0) + ", is the end");
  said = said_by([](Tensor x) {
    const Tensor y = x * x;
    lines[0] = __LINE__ + 1;
    return changed ? exp(y) : y;
  });
  check_says(said, "path through it: was the end, is a step to exp at " + here(0));
  said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = sum(x * x);
    return changed && y.item<float>() < 0 ? x : y;
  });
  check_says(said, "path through it: was the end, is " + host + here(0));
  said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = sum(x * x);
    if (!changed && y.item<float>() < 0) return x;
    lines[1] = __LINE__ + 1;
    return exp(y);
  });
  check_says(said, "path through it: was " + host + here(0) + ", is a step to exp at " + here(1));
  said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = sum(x * x);
    if (changed && y.item<float>() < 0) return x;
    lines[1] = __LINE__ + 1;
    return exp(y);
  });
  check_says(said, "path through it: was a step to exp at " + here(1) + ", is " + host + here(0));
}

TEST_CASE("a check names the options that are others") {
  const std::string said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    return sum(x, changed ? 0 : 1);
  });
  INFO(said);
  CHECK(said.find("options of sum at " + here(0) + ": was ") != said.npos);
  CHECK(said.find("this call, number 4, is right") != said.npos);
}

TEST_CASE("a check shows the element of a constant that has changed, of any dtype") {
  const auto said_of = [](const Tensor& before, const Tensor& now) {
    return said_by([before, now](Tensor x) {
      lines[0] = __LINE__ + 1;
      return where(x > 2.0f, changed ? now : before, before);
    });
  };
  const auto constant = [](auto... numbers) { return tensor({{numbers...}, {numbers...}}); };
  struct Case {
    Tensor before, now;
    std::string was, is;
  };
  for (const Case& c :
       {Case{constant(1.0f, 0.1f), constant(1.0f, 0.25f), "0.1", "0.25"},
        Case{tensor<double>({1.0, 0.1}), tensor<double>({1.0, 0.30000000000000004}), "0.1",
             "0.30000000000000004"},
        Case{constant(1, 7), constant(1, -8), "7", "-8"},
        Case{constant(std::int64_t{1}, std::int64_t{7} << 40),
             constant(std::int64_t{1}, std::int64_t{8}), std::to_string(std::int64_t{7} << 40),
             "8"},
        Case{tensor({true, true}), tensor({true, false}), "true", "false"},
        Case{tensor({1, 200}).to(DType::uint8), tensor({1, 100}).to(DType::uint8), "200", "100"}}) {
    const auto check = [&](const Tensor& before, const Tensor& now, const std::string& element) {
      const std::string said = said_of(before, now);
      check_says(said,
                 element + "constant of where at " + here(0) + ": was " + c.was + ", is " + c.is);
    };
    check(c.before, c.now, "element 1 of a ");
    // The same for elements in another memory order, and for a part.
    if (c.before.rank() == 2) check(transpose(c.before), transpose(c.now), "element 2 of a ");
    check(c.before(ellipsis, range(1, 2)), c.now(ellipsis, range(1, 2)),
          c.before.rank() == 2 ? "element 0 of a " : "");
  }
  const std::string said = said_of(ones({2}), ones({1, 2}));
  check_says(said, "constant of where at " + here(0) + ": was float32(2,), is float32(1, 2)");
}

TEST_CASE("a check shows what else of a result has changed") {
  check_says(said_by([](Tensor x) {
               return changed ? std::vector<Tensor>{x, x} : std::vector<Tensor>{x};
             }),
             "plain value in its result: was the captured value, is another value");
  check_says(said_by([](Tensor x) { return std::pair(x * 2, changed ? 3 : 4); }),
             "plain value in its result: was the captured value, is another value");
  check_says(said_by([](Tensor x) { return changed ? Tensor() : x; }),
             "result 0: was float32(2, 2), is undefined");
}

TEST_CASE("what was not captured says why, and how often it is tried") {
  const auto tries = [](const auto& traced) {
    int calls = 0;
    std::string said;
    do {
      CHECK(said.empty());
      if (calls) {
        INFO(traced.explain());
        CHECK(traced.explain().find("\n  a run was not captured: ") != std::string::npos);
      }
      said = on_stderr([&] { traced(given()); });
    } while (++calls < 200 && traced.explain().find("\n  runs eagerly: ") == std::string::npos);
    CHECK(said.find("a traced function runs eagerly: ") != said.npos);
    CHECK(on_stderr([&] { traced(given()); }).empty());
    return std::pair(calls, said + traced.explain());
  };
  const auto check = [&](const auto& traced, int calls, const std::string& why) {
    const auto [tried, said] = tries(traced);
    INFO(said);
    CHECK(tried == calls);
    CHECK(said.find("  runs eagerly: " + why) != said.npos);
  };
  static Tensor kept;
  lines[0] = __LINE__ + 2;
  check(trace([](Tensor x) {
          kept = x * 2;
          return x * 3;
        }),
        3, "it keeps a tensor that multiply at " + here(0) + " made");
  check(trace([](Tensor x) { return kept = x, x * 3; }), 3, "it keeps an argument");
  Variable w("w", ones({2}));
  check(trace([&](Tensor x) { return kept = w, x * 3; }), 3, "it keeps a tensor");
  kept = Tensor();
  check(trace([](Tensor x) { return Variable("made", x).value(); }), 3, "it makes a Variable");
  check(trace([](Tensor x) { return x * static_cast<float>(num_threads()); }), 3,
        "it reads num_threads()");
  const int threads = num_threads();
  check(trace([threads](Tensor x) { return set_num_threads(threads), x * 2; }), 3,
        "it calls set_num_threads()");
  check(trace([](Tensor x) { return std::shared_ptr<Tensor>(new Tensor(x * 2)); }), 3,
        "copies of its result share an object behind a pointer");
  // Another thread that starts meanwhile may not belong to the function.
  check(trace([](Tensor x) {
          std::thread([] { ones({2}); }).join();
          return x * 2;
        }),
        32, "another thread began to use tensors while it ran");
}

TEST_CASE("a warning without a line of the user's says so") {
  const auto traced = trace([](Tensor x) { return Variable("made", x).value(); });
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 4; ++i) traced(given(), Caller());
  });
  CHECK(said ==
        "reel: ?:0: a traced function runs eagerly: it makes a Variable; make it outside of the "
        "function\n");
}

TEST_CASE("too many signatures of a function of several threads are worth one warning", "[cpu]") {
  const auto traced = trace([](Tensor x, const std::string&) { return x * 2; });
  std::thread([&] { traced(given(), "0"); }).join();
  const auto call = [&](int i) {
    return on_stderr([&] { CHECK(equal(traced(given(), std::to_string(i)), given() * 2)); });
  };
  for (int i = 0; i < 1024; ++i)
    for (int time = 0; time < 2; ++time) REQUIRE(call(i).empty());
  CHECK(traced.explain().find("calls of further signatures") != std::string::npos);
  const std::string said = call(1024);
  CHECK(said.find("it has been called with more than 1024 signatures\n") != said.npos);
  CHECK(call(1025).empty());
  CHECK(call(5).empty());
  CHECK(traced.trace_count() == 1024);
}

TEST_CASE("more than 64 paths are said to part at a line") {
  const auto traced = trace([](Tensor x, Tensor number) {
    lines[0] = __LINE__ + 1;
    const Tensor next = number + 1.0f;
    return x * next.item<float>();
  });
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 70; ++i) traced(given(), tensor(static_cast<float>(i)));
  });
  const std::string why = "more than 64 paths through it, which branch on a value read at " +
                          std::string(Caller::here().file) + ":" + std::to_string(lines[0]) +
                          "; compute with tensors there, or read only a comparison of them\n";
  INFO(said);
  CHECK(said.find("runs eagerly: " + why) != said.npos);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(traced.explain().find("  runs eagerly: " + why) != std::string::npos);
  const auto unknown = trace([](Tensor x) { return x * x.item<float>(); });
  const std::string other = on_stderr([&] {
    for (int i = 0; i < 70; ++i) unknown(tensor(static_cast<float>(i)));
  });
  CHECK(other.find("on a value read at an unknown line; compute") != other.npos);
}

TEST_CASE("of many paths that part twice each, the last question is named") {
  const auto traced = trace([](Tensor x) {
    Tensor y = x * 2.0f;
    for (int i = 0; i < 7; ++i) {
      lines[0] = __LINE__ + 1;
      const Tensor positive = x(i) > 0.0f;
      if (positive) y = y + static_cast<float>(1 << i);
    }
    return y;
  });
  std::string said;
  for (int i = 0; i < 80; ++i) {
    std::vector<float> bits;
    for (int k = 0; k < 7; ++k) bits.push_back(i >> k & 1 ? 1.0f : -1.0f);
    said += on_stderr([&] {
      CHECK(traced(tensor(bits))(0).item<float>() == 2 * bits[0] + static_cast<float>(i));
    });
  }
  INFO(said);
  CHECK(said.find("more than 64 paths through it, which branch on a value read at " +
                  std::string(Caller::here().file) + ":" + std::to_string(lines[0]) +
                  "; compute with tensors") != said.npos);
}

TEST_CASE("a check sees that a step takes other values") {
  const std::string said = said_by([](Tensor x) {
    lines[1] = __LINE__ + 1;
    const Tensor a = x * 2.0f, b = x * 3.0f;
    lines[0] = __LINE__ + 1;
    return changed ? a - b : b - a;
  });
  check_says(said, "input 0 of subtract at " + here(0) +
                       ": was the result of step 1, multiply at " + here(1) +
                       ", float32(2, 2), is the result of step 0, multiply at " + here(1) +
                       ", float32(2, 2)");
}

TEST_CASE("a check sees that a step takes another argument, or a Variable for one") {
  const Variable w("w", given());
  std::string said = said_by([&](Tensor x) {
    lines[0] = __LINE__ + 1;
    return changed ? x * x : x * w;
  });
  const std::string argument = "argument 0, float32(2, 2)",
                    weight = "Variable \"w\", float32(2, 2)";
  check_says(said, "input 1 of multiply at " + here(0) + ": was " + weight + ", is " + argument);
  said = said_by([&](Tensor x) {
    lines[0] = __LINE__ + 1;
    return changed ? w * x : x * w;
  });
  check_says(said, "input 0 of multiply at " + here(0) + ": was " + argument + ", is " + weight);
  changed = false;
  const auto two = trace([](Tensor x, Tensor y) { return changed ? x - y : y - x; }, {.verify = 1});
  for (int i = 0; i < 3; ++i) two(given(), given() * 1.0f);
  changed = true;
  said = on_stderr([&] { two(given(), given() * 1.0f); });
  changed = false;
  INFO(said);
  CHECK(said.find("input 0 of subtract at ") != said.npos);
  CHECK(said.find(": was argument 1, float32(2, 2), is argument 0, float32(2, 2)") != said.npos);
}

TEST_CASE("a check says what of a step of the same op and line is another") {
  std::string said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    return x.to(changed ? DType::float64 : DType::int32);
  });
  check_says(said, "options of cast at " + here(0) + ": was dtype=int32, is dtype=float64");
  said = said_by([](Tensor x) {
    std::vector<Tensor> parts = {x, x * 2};
    if (changed) parts.push_back(x);
    lines[0] = __LINE__ + 1;
    return concat(parts);
  });
  check_says(said, "number of inputs of concat at " + here(0) + ": was 2, is 3");
  const Variable a("same", given()), b("same", given());
  Variable first("first", given()), second("second", given());
  const std::string is_first = "Variable \"first\", float32(2, 2)",
                    is_second = "Variable \"second\", float32(2, 2)";
  said = said_by([&](Tensor x) {
    lines[0] = __LINE__ + 1;
    return x * (changed ? b : a);
  });
  check_says(said,
             "input 1 of multiply at " + here(0) +
                 ": was Variable \"same\", float32(2, 2), is another one that looks the same");
  said = said_by([&](Tensor x) {
    lines[0] = __LINE__ + 1;
    (changed ? second : first).assign_add(x);
    return x;
  });
  check_says(said,
             "input 0 of assign_add at " + here(0) + ": was " + is_first + ", is " + is_second);
  said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor p = sum(x), q = mean(x);
    return (changed ? q : p).item<float>() < 0 ? x : x * 2;
  });
  check_says(said, "value read on the host: was the result of step 0, sum at " + here(0) +
                       ", float32(), is the result of step 1, mean at " + here(0) + ", float32()");
  said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = sum(x);
    return (changed ? static_cast<bool>(y) : y.item<float>() != 0) ? x : x * 2;
  });
  check_says(said, "what is read of a value: was its elements, is its truth");
  // If the length of a row differs, the results differ too.
  said = said_by([](Tensor x) {
    const Tensor part = changed ? x(range(0, 1)) : x;
    lines[0] = __LINE__ + 1;
    return exp(part);
  });
  CHECK(said.find(", is ") != said.npos);
}

TEST_CASE("explain counts lines that are alike") {
  const auto traced = trace([](Tensor x, Tensor y) {
    Tensor total = y;
    for (int i = 0; i < 8; ++i) total = total + x.item<float>();
    return total;
  });
  for (int i = 0; i < 3; ++i) traced(tensor(2.0f), ones({2}));
  const std::string text = traced.explain(), part = "branches on a value read at an unknown line";
  INFO(text);
  CHECK(text.find(part) == text.rfind(part));
  CHECK(text.find(part + ": 1 answer, 8 times\n") != text.npos);
}

TEST_CASE("a check sees that a value is read earlier, or no more") {
  const std::string host = "a step to a value read on the host, of sum at ";
  std::string said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = sum(x);
    if (changed && y.item<float>() < 0) return y;
    lines[1] = __LINE__ + 1;
    const Tensor z = exp(x);
    return y.item<float>() < 0 ? y : z;
  });
  INFO(said);
  CHECK(said.find("path through it: was a step to exp at " + here(1) +
                  ", is a step to a value read on the host") != said.npos);
  said = said_by([](Tensor x) {
    lines[0] = __LINE__ + 1;
    const Tensor y = sum(x);
    return !changed && y.item<float>() < 0 ? y : x;
  });
  CHECK(said.find("path through it: was a step to a value read on the host") != said.npos);
  CHECK(said.find(", is the end; this call, number 4, is right\n") != said.npos);
}

TEST_CASE("of several reasons the first is said") {
  const auto traced = trace([](Tensor x) {
    const Variable made("made", x * static_cast<float>(num_threads()));
    return made.value();
  });
  const auto reversed = trace([](Tensor x) {
    const Variable made("made", x);
    return made.value() * static_cast<float>(num_threads());
  });
  for (int i = 0; i < 3; ++i) traced(given()), reversed(given());
  CHECK(traced.explain().find("runs eagerly: it reads num_threads()\n") != std::string::npos);
  CHECK(reversed.explain().find("runs eagerly: it makes a Variable; make it") != std::string::npos);
}

TEST_CASE("what came between two checks may have been wrong") {
  changed = false;
  const auto traced = trace([](Tensor x) { return changed ? x * 3.0f : x * 2.0f; });
  for (int i = 1; i < 5; ++i) traced(given());  // calls 2, 3 and 5 are checked
  changed = true;
  const std::string said = on_stderr([&] { traced(given()); });
  changed = false;
  INFO(said);
  CHECK(said.find("was 2, is 3; calls since number 4 may have been wrong. Pass") != said.npos);
}

TEST_CASE("clear() drops captures and the reasons for eager calls") {
  double factor = 2;
  const auto traced = trace([&](Tensor x) { return x * factor; }, {.verify = 0});
  const auto copy = traced;
  for (int i = 0; i < 3; ++i) CHECK(equal(traced(given()), given() * 2));
  CHECK(traced.trace_count() == 1);
  factor = 3;
  copy.clear();
  CHECK(traced.trace_count() == 0);
  for (int i = 0; i < 3; ++i) CHECK(equal(traced(given()), given() * 3));
  CHECK(traced.trace_count() == 1);
  // A function that keeps state runs eagerly; clear() gives it another chance.
  bool counts = true;
  const auto counted = trace([&counts, calls = 0](Tensor x) mutable {
    calls += counts;
    return calls < 0 ? x : x + 1;
  });
  on_stderr([&] {
    for (int i = 0; i < 8; ++i) counted(given());
  });
  CHECK(counted.explain().find("runs eagerly") != std::string::npos);
  counts = false;
  counted.clear();
  CHECK(counted.explain().find("runs eagerly") == std::string::npos);
}

TEST_CASE("clear() frees the constants of a trace", "[cpu]") {
  Tensor large = ones({1 << 20});
  const auto traced = trace([&large](Tensor x) { return sum(large * x); }, {.verify = 0});
  for (int i = 0; i < 3; ++i) traced(tensor(2.0f));
  large = Tensor();
  const std::int64_t before = memory_statistics().live_bytes;
  traced.clear();
  CHECK(memory_statistics().live_bytes <= before - (4 << 20));
}

TEST_CASE("clear() inside the function itself keeps the call's result") {
  const Traced<Tensor(Tensor)>* self = nullptr;
  const auto traced = trace([&](Tensor x) {
    if (self) self->clear();
    return x * 2;
  });
  CHECK(equal(traced(given()), given() * 2));
  self = &traced;
  for (int i = 0; i < 4; ++i) CHECK(equal(traced(given()), given() * 2));
}

TEST_CASE("with REEL_TRACE=0 every call runs the function") {
  const Environment environment("REEL_TRACE", "0");
  int calls = 0;
  const auto traced = trace([&](Tensor x) {
    ++calls;
    return x * 2;
  });
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 4; ++i) CHECK(equal(traced(given()), given() * 2));
  });
  CHECK(said.empty());
  CHECK(calls == 4);
  CHECK(traced.trace_count() == 0);
  CHECK(traced.explain().find("runs eagerly: REEL_TRACE=0 is set") != std::string::npos);
}
}  // namespace reel::tests
