// SPDX-License-Identifier: BSD-3-Clause
// Watch: where it stops, forward, backward and in replays, and what it notes.
#include <cmath>
#include <regex>
#include <thread>

#include "debug/support.hpp"
#include "lib/flow/observer.hpp"
#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
/// Puts a NaN into result number `at`. It is notified before observers that began earlier.
class Planter : public Observer {
 public:
  explicit Planter(int at) : at_(at) {}
  void op_ends(const GateCall& call) override { plant(call); }
  void gradient_ends(const GateCall& call) override { plant(call); }
  int count = 0, replayed = 0;  // of results, and of those in replays
  std::string name;
  unsigned line = 0;

 private:
  void plant(const GateCall& call) {
    Body* first = nullptr;
    for (int i = 0; i < call.output_count && !first; ++i) first = call.outputs[i];
    if (!first || first->owner || first->dtype != DType::float32 || first->elements == 0) return;
    replayed += call.is_replayed();
    if (count++ != at_) return;
    first->as<float>()[0] = std::nanf("");
    name = call.op.name;
    line = call.caller.line;
  }
  int at_;
};

/// An LSTM of plain ops.
struct Cell {
  Variable w{"w", random::normal({5, 12})}, b{"b", zeros({12})};
  Tensor loss(const Tensor& x, int steps) const {
    Tensor h = zeros({2, 3}), c = zeros({2, 3});
    for (int t = 0; t < steps; ++t) {
      const Tensor z = matmul(concat({x(t), h}, 1), w) + b;
      const Tensor i = sigmoid(z(all, range(0, 3))), f = sigmoid(z(all, range(3, 6)));
      const Tensor o = sigmoid(z(all, range(6, 9))), g = tanh(z(all, range(9, 12)));
      c = f * c + i * g;
      h = o * tanh(c);
    }
    return sum(h * h);
  }
};
}  // namespace

TEST_CASE("a NaN at any op of an LSTM is found with op, number and line, forward and backward") {
  const Cell cell;
  const Tensor x = random::normal({20, 2, 2});
  const auto run = [&] {
    GradientTape tape;
    const Tensor loss = cell.loss(x, 20);
    tape.gradient(loss, {cell.w, cell.b});
  };
  Planter none(-1);
  {
    const ObserverScope scope(none);
    run();
  }
  REQUIRE(none.count > 600);
  int found = 0;
  for (int at = 0; at < none.count; ++at) {
    const debug::Watch watch({.stop = debug::has_nan});
    Planter planter(at);
    const ObserverScope scope(planter);
    const std::string text = error_text(run);
    INFO(at << " " << planter.name << ": " << text);
    found += has(text, "expected no NaN, got nan at [") &&
             has(text, " of " + planter.name + " at this line") &&
             has(text, "watch.cpp:" + std::to_string(planter.line)) && has(text, " of step 0");
    CHECK(found == at + 1);
    if (found != at + 1) break;
  }
}

TEST_CASE("a NaN in any result of a replay of an LSTM is found with op, step and line") {
  const Cell cell;
  auto step = trace([&](Tensor x) {
    GradientTape tape;
    Tensor loss = cell.loss(x, 20);
    const auto [dw, db] = tape.gradient(loss, cell.w, cell.b);
    cell.w.assign_sub(0.01 * dw);
    cell.b.assign_sub(0.01 * db);
    return loss;
  });
  const Tensor x = random::normal({20, 2, 2});
  for (int i = 0; i < 3; ++i) step(x);
  const Tensor w = cell.w * 1.0f, b = cell.b * 1.0f;
  Planter none(-1);
  {
    const debug::Watch watch({.stop = debug::has_nan, .statistics = true});
    const ObserverScope scope(none);
    step(x);
    CHECK(has(watch.answer("tensors op=tanh"), "tanh"));
  }
  REQUIRE(none.count > 500);
  CHECK(none.replayed == none.count);
  int found = 0;
  for (int at = 0; at < none.count; ++at) {
    const debug::Watch watch({.stop = debug::has_nan});
    step(x);
    Planter planter(at);
    const ObserverScope scope(planter);
    const std::string text = error_text([&] { step(x); });
    INFO(at << " " << planter.name << ": " << text);
    found += has(text, "expected no NaN, got nan at [") &&
             has(text, " of " + planter.name + " at this line") &&
             has(text, "watch.cpp:" + std::to_string(planter.line)) && has(text, " of step 1");
    CHECK(planter.replayed == at + 1);
    CHECK(found == at + 1);
    if (found != at + 1) break;
    cell.w.assign(w);
    cell.b.assign(b);
  }
}

TEST_CASE("conditions of a watch") {
  const auto stops = [](debug::WatchOptions options, const auto& f) {
    const debug::Watch watch(options);
    return error_text(f);
  };
  const Tensor x = tensor({0.0f, 3.0f, -4.0f});
  CHECK(has(stops({}, [&] { log(x); }), "log: result: expected finite numbers, got -inf at [0]"));
  CHECK(has(stops({.stop = debug::has_nan}, [&] { log(x); }), "expected no NaN, got"));
  CHECK(has(stops({.stop = "norm(y) > 4.9"}, [&] { x + 0; }), "norm 5"));
  CHECK(stops({.stop = "norm(y) > 5.1"}, [&] { x + 0; }).empty());
  CHECK(has(stops({.stop = "zeros > 0.3"}, [&] { x * 1; }), "multiply"));
  CHECK(has(stops({.stop = "saturated > 0.5"}, [&] { tanh(x); }), "tanh"));
  CHECK(stops({.stop = "saturated > 0.7"}, [&] { tanh(x); }).empty());
  CHECK(has(stops({.stop = "op(\"exp\")"}, [&] { exp(x); }), "exp"));
  CHECK(has(stops({.stop = "any(y < -3) and not backward"}, [&] { x * 1; }), "multiply"));
  CHECK(stops({.stop = "has_inf_or_nan", .except = "log|watch"}, [&] { log(x); }).empty());
  const Variable w("weight", x);
  CHECK(has(stops({.stop = "writes(\"weight\")"}, [&] { w.assign(x * 2); }), "assign"));
  const auto norm_of_dy = [&] {
    GradientTape tape;
    tape.gradient(sum(tanh(w * 100)) * 200, w);
  };
  CHECK(has(stops({.stop = "norm(dy) > 100"}, norm_of_dy), "gradient: "));
  // An infinity that an op was given is a mask.
  CHECK(stops({}, [&] { tensor({-INFINITY, 1.0f}) + x(range(0, 2)); }).empty());
  const auto guard = debug::stop_when([](const debug::Event& e) {
    return e.name == "tanh" && max(e.output).item<float>() > 0.5f && e.statistics.elements == 3 &&
           e.inputs.size() == 1;
  });
  CHECK(has(error_text([&] { tanh(x); }), "tanh: result: expected no result that stops"));
  CHECK(error_text([&] { tanh(x * 0); }).empty());
}

TEST_CASE("wrong options of a watch say what was expected") {
  const auto text = [](debug::WatchOptions options) {
    return error_text([&] { const debug::Watch watch(options); });
  };
  CHECK(has(text({.every = 0}), "Watch: every: expected a number from 1 on, got 0"));
  CHECK(has(text({.keep_steps = -1}), "Watch: keep_steps: expected a number from 1 on, got -1"));
  CHECK(has(text({.bytes = -1}), "Watch: bytes: expected a number from 0 on, got -1"));
  CHECK(has(text({.stop = "norm(y"}), "Watch: stop: expected \",\" or \")\", got the end"));
  CHECK(has(text({.stop = "nrom > 3"}), "expected a name such as y, x, dy"));
  CHECK(has(text({.stop = "frobnicate(y)"}), "expected an op or one of norm"));
  CHECK(has(text({.stop = "name(\"tanh\")"}), "expected op(\"...\"), line(\"...\")"));
  CHECK(has(text({.except = "["}), "expected a regular expression (ECMAScript), got \"[\""));
  CHECK(has(text({.stop = std::string(1000, '(')}), "expected at most 200 nested parts"));
}

TEST_CASE("steps end where a Variable is read after its update") {
  const Variable w("w", ones({4})), v("v", ones({4}));
  const Buffer count("count", zeros({}));
  const debug::Watch watch({.stop = "", .values = true, .keep_steps = 3});
  for (int i = 0; i < 5; ++i) {
    count.assign_add(1);
    GradientTape tape;
    const Tensor loss = sum(w * v);
    const auto [dw, dv] = tape.gradient(loss, w, v);
    w.assign_sub(0.1 * dw);
    v.assign_sub(0.1 * dv);
  }
  const std::string text = watch.answer("history");
  CHECK(has(text, "   2 "));
  CHECK(has(text, "   3 "));
  CHECK(has(text, "   4 "));
  CHECK(!has(text, "   1 "));
  CHECK(has(watch.answer("replay"), "have the same bits again"));
}

TEST_CASE("kept steps are computed again bit for bit, with random numbers and old Variables") {
  const nn::Linear hidden(4, 8, Activation::relu), head(8, 3);
  optim::Adam adam({hidden.weight, hidden.bias, head.weight, head.bias});
  const Tensor x = random::normal({5, 4}), labels = random::integers(0, 3, {5});
  const debug::Watch watch({.stop = "", .values = true, .keep_steps = 3});
  for (int i = 0; i < 5; ++i) {
    GradientTape tape;
    const Tensor noise = random::normal({5, 8});
    adam.step(tape, nn::cross_entropy(head(dropout(hidden(x) + noise, 0.5)), labels));
  }
  for (const std::string step : {"2", "3", "4"}) {
    watch.answer("look " + step);
    const std::string text = watch.answer("replay");
    INFO(text);
    const std::regex all("step " + step + ": ([0-9]+) of \\1 results have the same bits again\n");
    CHECK(std::regex_match(text, all));
  }
}

TEST_CASE("a condition on the share of dead units") {
  const Tensor x = tensor({{1.0f, -1.0f, 0.0f, -2.0f}, {-1.0f, -3.0f, 0.0f, -1.0f}});
  const auto stops = [&](const char* condition) {
    const debug::Watch watch({.stop = condition});
    return error_text([&] { relu(x); });
  };
  CHECK(has(stops("op(\"relu\") and dead > 0.74"), "relu: result: expected no result with"));
  CHECK(stops("dead(y) > 0.76").empty());
  CHECK(!stops("zeros > 0.8").empty());
  CHECK(stops("dead > 1").empty());
}

TEST_CASE("a watch of every third step looks at these only") {
  const Variable w("w", ones({4}));
  const debug::Watch watch({.stop = "", .statistics = true, .every = 3, .keep_steps = 10});
  for (int i = 0; i < 8; ++i) w.assign(w * 1.5);
  const std::string text = watch.answer("history", debug::Form::json);
  CHECK(has(text, "[[0,"));
  CHECK(has(text, "[3,"));
  CHECK(has(text, "[6,"));
  CHECK(!has(text, "[4,"));
}

TEST_CASE("training has the same bits with and without watches") {
  const auto train = [](bool watched) {
    seed(3);
    nn::Linear hidden(4, 8, Activation::tanh), head(8, 3);
    optim::Adam adam({hidden.weight, hidden.bias, head.weight, head.bias});
    const Tensor x = random::normal({5, 4}), labels = random::integers(0, 3, {5});
    for (int i = 0; i < 100; ++i) {
      std::unique_ptr<debug::Watch> watch;
      if (watched && i % 2)
        watch = std::make_unique<debug::Watch>(
            debug::WatchOptions{.stop = "norm > 1e9", .values = i % 3 == 0});
      GradientTape tape;
      const Tensor loss = nn::cross_entropy(head(hidden(x) * random::uniform({5, 8})), labels);
      adam.step(tape, loss);
    }
    return hidden.weight.value();
  };
  CHECK(bool(all(train(false) == train(true))));
}

TEST_CASE("values that do not fit into the bytes of a watch are not kept") {
  Tensor x = random::normal({100});
  const debug::Watch watch({.stop = "", .values = true, .bytes = 300});
  for (int i = 0; i < 5; ++i) x = x + 1;
  CHECK(has(watch.answer("info"), "some did not fit"));
  CHECK(has(watch.answer("print #5"), "expected a value that is kept, got one of step 0"));
}

TEST_CASE("a billion elements of a view are measured without a copy, and not printed") {
  const debug::Watch watch({.stop = debug::has_nan, .values = true});
  const Tensor one = tensor({3.0f, -4.0f});
  const Tensor view = broadcast_to(one * 1.0f, {500'000'000, 2});
  CHECK(has(watch.answer("tensors op=broadcast_to"), "-4    3  1.118e+05"));
  CHECK(has(watch.answer("print broadcast_to"),
            "expected a value that fits into `config bytes`, 268.4 MB, got one of 4.00 GB"));
  const Tensor odd = broadcast_to(tensor({1.0f, INFINITY, 2.0f}), {7, 3});
  CHECK(has(watch.answer("tensors has_inf"), "None"));  // the input has it
  CHECK(has(watch.answer("summary broadcast_to"), "21"));
}

TEST_CASE("each thread has its own watch") {
  const debug::Watch watch({.stop = debug::has_nan});
  std::string elsewhere;
  std::thread([&] { elsewhere = error_text([] { log(tensor({-1.0f})); }); }).join();
  CHECK(elsewhere.empty());
  CHECK(!error_text([] { log(tensor({-1.0f})); }).empty());
}

TEST_CASE("only keeps values of results that match, and eager runs traced functions") {
  auto f = trace([](Tensor x) { return square(x * 2.0f + 1.0f) - x; });
  const Tensor x = ones({300});
  for (int i = 0; i < 5; ++i) f(x);
  const debug::Watch watch({.stop = "", .values = true});
  f(x);
  CHECK(has(watch.answer("print add"), "a value in a block of a replay does not exist alone"));
  CHECK(has(watch.answer("eager"), "run eagerly from their next call on"));
  f(x);
  CHECK(has(watch.answer("print add"), "float32 (300,)"));
  CHECK(has(watch.answer("eager off"), "are replayed again"));
  CHECK(has(watch.answer("eager on"), "expected eager, or eager off"));
  CHECK(has(watch.answer("only op ^sin$"), "results whose op matches ^sin$"));
  const auto kept = [&] {
    const std::string text = watch.answer("info");
    return text.substr(text.find("kept, with"));
  };
  const std::string before = kept();
  const Tensor some = sin(x);
  const std::string after = kept();
  CHECK(after != before);
  const Tensor other = cos(some);
  CHECK(kept() == after);
  CHECK(has(watch.answer("print cos"), "float32 (300,)"));  // computed again
  CHECK(has(watch.answer("print sin"), "float32 (300,)"));
  CHECK(has(watch.answer("only dtype float64"), "dtype matches float64"));
  CHECK(has(watch.answer("only name watch.cpp"), "name matches watch.cpp"));
  CHECK(has(watch.answer("only op"), "expected only op|name|dtype REGEX"));
  CHECK(has(watch.answer("only op ("), "expected a regular expression"));
  CHECK(has(watch.answer("only"), "All results count."));
}

TEST_CASE("only limits where a prompt stops") {
  debug::Watch watch({.stop = "norm(y) > 1"});
  watch.answer("only op tanh");
  const Tensor x = ones({4}) * 3.0f;
  CHECK_THROWS_AS(tanh(x), Error);
}
}  // namespace reel::tests
