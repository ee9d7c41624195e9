// SPDX-License-Identifier: BSD-3-Clause
// Plans of traces with several paths, with updates and with user code, and the frames of their
// calls.
#include <utility>
#include <vector>

#include "lib/trace/cache.hpp"
#include "lib/trace/replay.hpp"
#include "trace/plan_text.hpp"

namespace reel::tests {
TEST_CASE("updates are settled where nothing behind them can fail", "[cpu]") {
  const Tensor x = ones({3});
  Variable w("w", zeros({3})), m("m", zeros({3})), u("u", zeros({3}));
  const auto check = [&](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {x, full({}, 0.5, {.dtype = DType::float64}),
                      ones({}, {.dtype = DType::int64})}) == wanted);
  };
  check([&](const List& v) { return w.assign_add(v[0]), List{}; }, "update assign_add!; 0");
  check([&](const List& v) { return w.assign_add(v[0]), m.assign_sub(v[0] * 2.0f), List{}; },
        "update assign_add!, multiply/2!, update assign_sub!; 64");
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        return List{take(v[0], tensor({1, 0}), 0)};
      },
      "allocate, kernel take, update assign_add!; 0");
  check(
      [&](const List& v) {
        w.assign_add(take(v[0], tensor({1, 0, 2}), 0));
        m.assign(w * 2.0f);
        return List{w.value()};
      },
      "kernel take, update assign_add!, multiply/2!, view, update assign!; 64");
  check(
      [&](const List& v) {
        const Tensor before = w;
        w.assign_add(v[0]);
        w.assign_add(before);
        w(range(0, 2)).assign(before(range(1, 3)));
        return List{};
      },
      "update assign_add!, update assign_add!, view, update assign_slice!; 0");
  const auto slopes = [&](const List& v) {
    GradientTape tape;
    const Tensor squares = sum(w * w * v[0]), rest = sum(u * v[0]);
    return tape.gradient(squares + rest, {w, u});
  };
  optim::SGD sgd({w, u}, {.learning_rate = 0.1}), fast({w, u}, {.momentum = 0.5});
  optim::Adam adam({w, u}, {.learning_rate = 0.1});
  check(
      [&](const List& v) { return sgd.step(slopes(v)), List{}; },
      "multiply/1!, multiply/1!, multiply!, multiply/256!, kernel cast!, update sgd_update!; 192");
  check([&](const List& v) { return fast.step(slopes(v)), List{}; },
        "multiply/1!, multiply/1!, multiply!, multiply/256!, kernel cast!, update "
        "momentum_update!; 192");
  check([&](const List& v) { return adam.step(slopes(v)), List{}; },
        "multiply/1!, multiply/1!, multiply!, multiply/256!, add/3!, kernel cast!, update "
        "adam_update!, update assign!; 256");
  check([&](const List& v) { return adam.step(slopes(v)), sgd.step(slopes(v)), List{}; },
        "multiply/1!, multiply/1!, multiply!, multiply/256!, add/3!, kernel cast!, kernel cast!, "
        "numbers(1), update adam_update!, multiply/1!, multiply/1!, multiply!, multiply/256!, "
        "update sgd_update!, update assign!; 320");
  // Numbers that are known before the first update are checked before it.
  check(
      [&](const List& v) {
        sgd_update(w, v[0], 0.1);
        sgd_update(u, v[0], 0.2);
        return List{};
      },
      "numbers(1), update sgd_update!, update sgd_update!; 0");
  check(
      [&](const List& v) {
        sgd_update(w, v[0], 0.1);
        const Tensor rate = v[1] * 2.0;
        sgd_update(u, v[0], rate);
        return List{};
      },
      "multiply/3!, kernel cast!, numbers(1), update sgd_update!, update sgd_update!; 128");
  Variable first("first", zeros({3})), second("second", zeros({3}));
  check(
      [&](const List& v) {
        sgd_update(u, v[0], 0.1);
        adam_update(w, first, second, v[0], 0.1, v[2]);
        return List{};
      },
      "numbers(2), update sgd_update!, update adam_update!; 0");
  // The first update makes a number of the second, so the number cannot be checked before it.
  Variable steps("steps", tensor(std::int64_t{0}));
  check(
      [&](const List& v) {
        steps.assign_add(1);
        adam_update(w, first, second, v[0], 0.1, steps);
        return List{};
      },
      "update assign_add, update adam_update!; 0");
}

TEST_CASE("what can fail runs before the updates that it does not need", "[cpu]") {
  register_op("ordered_code", [](const OpCall& call) {
    const float first = call.input(0).values<float>()[0];
    return Tensors{call.input(0) * first};
  });
  Variable w("w", zeros({3})), u("u", zeros({3}));
  const Tensor places = tensor({1, 0});
  const auto check = [&](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {ones({3}), full({}, 0.5, {.dtype = DType::float64})}) == wanted);
  };
  // With it moves what it needs, and nothing else.
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        const Tensor rest = v[0] * 3.0f, whole = v[0] * 2.0f;
        u.assign_sub(rest);
        return List{take(whole(range(0, 2)), places, 0)};
      },
      "multiply/2, allocate, kernel take, update assign_add!, multiply/2!, update assign_sub!; "
      "64");
  // What reads a result of an update stays behind that update.
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        u.assign_add(v[0]);
        return List{take(w * 2.0f, places, 0)};
      },
      "update assign_add, multiply/2, allocate, kernel take, update assign_add!; 64");
  check(
      [&](const List&) {
        w.assign_add(1.0f);
        const Tensor part = w(range(0, 2));
        return List{take(part, places, 0)};
      },
      "update assign_add, view, allocate, kernel take; 0");
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        u.assign_add(v[0]);
        const Tensor first = take(w, places, 0), second = take(v[0], places, 0);
        return List{first, second};
      },
      "update assign_add, allocate, kernel take, allocate, kernel take, update assign_add!; 0");
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        sgd_update(u, v[0], cast(sum(w), DType::float64));
        return List{};
      },
      "update assign_add, kernel sum, cast/1, kernel cast, update sgd_update!; 128");
  // User code stays where it is, and so does what is before it.
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        const Tensor before = take(v[0], places, 0), coded = call_op("ordered_code", {v[0]});
        u.assign_add(v[0]);
        const Tensor after = take(coded, places, 0);
        return List{before, after};
      },
      "update assign_add, allocate, kernel take, user ordered_code, allocate, kernel take, "
      "update assign_add!; 0");
  // Random numbers keep their order.
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        const Tensor before = random::uniform({2}), needed = random::normal({3}),
                     after = random::uniform({4});
        return List{before, take(needed, places, 0), after};
      },
      "allocate, random, random, allocate, kernel take, update assign_add!, allocate, random!; "
      "64");
}

TEST_CASE("numbers of updates are looked at first, whatever runs before them", "[cpu]") {
  const Tensor zero = zeros({5'000});
  Variable w("w", zero), u("u", zero), first("first", zero), second("second", zero);
  const auto check = [&](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {line(5'000), tensor(std::int64_t{1})}) == wanted);
  };
  check(
      [&](const List& v) {
        const Tensor y = sigmoid(v[0]) * 2.0f;
        sgd_update(w, y, 0.1);
        sgd_update(u, y, 0.2);
        return List{};
      },
      "blocks(2, 8192), sigmoid!, multiply/2!, numbers(1), update sgd_update!, update sgd_update!; "
      "20032");
  check(
      [&](const List& v) {
        sgd_update(w, v[0], 0.1);
        const Tensor y = sigmoid(v[0]) * 2.0f;
        sgd_update(u, y, 0.2);
        return List{};
      },
      "numbers(1), update sgd_update!, blocks(2, 8192), sigmoid!, multiply/2!, update sgd_update!; "
      "20032");
  check(
      [&](const List& v) {
        sgd_update(u, v[0], 0.1);
        const Tensor twice = v[1] * 2;
        adam_update(w, first, second, v[0], 0.1, v[1]);
        return List{twice};
      },
      "numbers(2), update sgd_update!, allocate, multiply/3!, update adam_update!; 0");
}

TEST_CASE("paths through a function share memory, and give up what they do not need", "[cpu]") {
  const auto check = [](const Traced& f, const std::vector<Tensor>& inputs,
                        const std::string& wanted) {
    tracing::Tree tree;
    for (const Tensor& x : inputs) add_way(tree, f, {x, line(100)});
    CHECK(plan_of(tree) == wanted);
  };
  const Traced either = [](const List& v) {
    const Tensor a = v[1] * 2.0f, b = v[1] * 3.0f, s = sum(v[0]);
    if (s > 0.0f) {
      const Tensor e = sigmoid(a), t = tanh(a);
      return List{sum(e * t)};
    }
    const Tensor e = sigmoid(b), t = tanh(b);
    return List{sum(e - t)};
  };
  check(either, {tensor({1.0f})},
        "multiply/2, kernel sum, greater/3 | sigmoid!, tanh!, multiply!, allocate, kernel sum!; "
        "1024");
  check(either, {tensor({1.0f}), tensor({-1.0f})},
        "multiply/2, multiply/2, kernel sum, greater/3 | sigmoid!, tanh!, multiply!, allocate, "
        "kernel "
        "sum! | sigmoid!, tanh!, subtract!, allocate, kernel sum!; 1024");
  check(either, {tensor({-1.0f}), tensor({1.0f})},
        "multiply/2, multiply/2, kernel sum, greater/3 | sigmoid!, tanh!, subtract!, allocate, "
        "kernel "
        "sum! | sigmoid!, tanh!, multiply!, allocate, kernel sum!; 1024");
  const Traced count = [](const List& v) {
    Tensor y = sigmoid(v[1]);
    const Tensor n = v[0] + 1.0f;
    for (int i = 0; i < static_cast<int>(n.item<float>()); ++i) {
      const Tensor t = tanh(y);
      y = t * y;
    }
    return List{sum(y)};
  };
  check(
      count, {tensor(0.0f), tensor(1.0f), tensor(2.0f)},
      "sigmoid, add/3 | tanh, multiply | allocate, kernel sum! | tanh, multiply | tanh, multiply | "
      "allocate, kernel sum! | tanh, multiply | tanh, multiply | tanh, multiply | allocate, "
      "kernel sum!; 960");
  const Traced twice = [](const List& v) {
    const Tensor a = sigmoid(v[1]), b = a * 2.0f;
    if (sum(v[0]) > 0.0f) return List{sum(tanh(a))};
    if (sum(v[0] * 2.0f) < -4.0f) return List{sum(sigmoid(b) * a)};
    const Tensor s = tanh(b), t = tanh(b);
    return List{s * t};
  };
  check(twice, {tensor(1.0f), tensor(-1.0f), tensor(-3.0f)},
        "sigmoid, multiply/2, kernel sum, greater/3 | tanh!, allocate, kernel sum! | multiply/3, "
        "kernel sum, less/3 | tanh!, allocate, multiply! | sigmoid!, multiply!, allocate, kernel "
        "sum!; 1024");
}

TEST_CASE("random numbers and a user's code have steps of their own", "[cpu]") {
  register_op("planned_kernel", [](const OpCall& call) {
    const float first = call.input(0).values<float>()[0];
    return Tensors{call.input(0) * first};
  });
  const auto check = [](const Traced& f, const std::string& wanted) {
    CHECK(plan_of(f, {line(100)}) == wanted);
  };
  check(
      [](const List& v) {
        const Tensor a = random::uniform({100}), b = random::normal({100}), c = a * v[0];
        return List{c + b};
      },
      "random!, random!, multiply!, allocate, add!; 896");
  check([](const List& v) { return List{call_op("planned_kernel", {v[0] * 2.0f}) + 1.0f}; },
        "multiply/2, user planned_kernel, allocate, add/2!; 448");
  Variable w("w", zeros({100}));
  check(
      [&](const List& v) {
        w.assign_add(v[0]);
        return List{call_op("planned_kernel", {v[0] * 2.0f}) + 1.0f};
      },
      "update assign_add, multiply/2, user planned_kernel, allocate, add/2!; 448");
}

TEST_CASE("a plan whose instructions read what is not made yet is refused") {
  Variable w("w", ones({4})), m("m", zeros({4})), v("v", zeros({4})),
      steps("steps", full({}, std::int64_t{0}));
  const Tensor g = ones({4});
  tracing::Tree tree;
  add_way(tree,
          [&](const List& in) {
            steps.assign_add(1);
            adam_update(w, m, v, in[0], 0.1f, steps);
            return List{};
          },
          {g});
  tracing::Plan plan(tree);
  CHECK(fault_of(plan) == "");
  std::vector<Instruction>& all = plan.instructions;
  const auto update = [&](std::string_view name) {
    return std::find_if(all.begin(), all.end(),
                        [&](const Instruction& each) { return each.op && each.op->name == name; });
  };
  // The number of steps is checked, or read, before the update that makes it.
  std::rotate(update("assign_add"), update("assign_add") + 1, update("adam_update") + 1);
  CHECK(fault_of(plan).find("is read where no instruction has made it") != std::string::npos);
}

TEST_CASE("a plan that overwrites what is read later is refused") {
  tracing::Tree tree;
  add_way(tree,
          [](const List& in) {
            const Tensor a = matmul(in[0], in[0]), b = matmul(a, in[0]), c = matmul(a, b);
            return List{sum(c)};
          },
          {ones({3, 3})});
  tracing::Plan plan(tree);
  CHECK(fault_of(plan) == "");
  std::vector<ValuePlace*> places;
  for (ValuePlace& place : plan.places)
    if (place.kind == ValuePlace::Kind::scratch) places.push_back(&place);
  REQUIRE(places.size() >= 3);
  places[1]->offset = places[0]->offset;  // b takes the memory of a
  CHECK(fault_of(plan).find("matmul: %") == 0);
}

TEST_CASE("a plan that reads a value where its result has taken the memory is refused", "[cpu]") {
  tracing::Tree tree;
  add_way(tree, [](const List& v) { return List{exp(tanh(sigmoid(v[0])))}; }, {line(8192)});
  tracing::Plan plan(tree);
  CHECK(fault_of(plan) == "");
  const auto reads = [&](std::string_view name) -> int& {
    for (const Instruction& each : plan.instructions)
      if (each.op && each.op->name == name) return plan.operands[each.first];
    throw Error("no such op");
  };
  reads("exp") = reads("tanh");
  CHECK(fault_of(plan).find("exp: %") == 0);
}

TEST_CASE("a plan keeps four frames for its calls, and none once there is a newer plan") {
  tracing::Tree tree;
  add_way(tree, [](const List& v) { return List{tanh(v[0] * 2.0f) + 1.0f}; }, {line(100)});
  const auto live = [] { return memory_statistics().live_tensors; };
  const std::int64_t before = live();
  {
    tracing::Plan plan(tree);
    std::vector<tracing::Frame*> frames;
    const auto take = [&](int count) {
      for (int i = 0; i < count; ++i) {
        frames.push_back(plan.take_frame());
        frames.back()->enter(plan);
      }
    };
    const auto give_back = [&] {
      for (tracing::Frame* frame : std::exchange(frames, {})) plan.give_back(frame);
    };
    const std::int64_t base = live();
    take(1);
    CHECK(live() == base + 1);
    tracing::Frame* const first = frames[0];
    give_back();
    CHECK(live() == base + 1);
    take(1);
    CHECK(frames[0] == first);
    take(6);
    CHECK(live() == base + 7);
    give_back();
    CHECK(live() == base + 4);
    take(4);
    CHECK(live() == base + 4);
    plan.retire();
    CHECK(live() == base + 4);
    give_back();
    CHECK(live() == base);
    take(2);
    give_back();
    CHECK(live() == base);
  }
  {
    tracing::Plan plan(tree);
    tracing::Frame* const frame = plan.take_frame();
    frame->enter(plan);
    plan.give_back(frame);
  }
  CHECK(live() == before);
}

TEST_CASE("frames of more than 256 KiB are given back between calls, and laid out anew", "[cpu]") {
  for (const std::int64_t length : {60'000, 65'536, 65'538, 70'000}) {
    const auto traced = trace([](Tensor x) { return sum(concat({x, x}, 0)); }, {.verify = 0});
    const Tensor x = ones({length / 2});
    traced(x);
    const std::int64_t before = memory_statistics().live_bytes;
    std::vector<Tensor> others;
    for (int i = 0; i < 5; ++i) {
      CHECK(traced(x).item<float>() == static_cast<float>(length));
      others.push_back(ones({length}));  // may take the memory of the frame
    }
    others.clear();
    const std::int64_t kept = memory_statistics().live_bytes - before;
    INFO(length << ": " << kept << traced.explain());
    if (length <= 65'536)
      CHECK(kept >= 4 * length);
    else
      CHECK(kept < 1'000);
  }
}

TEST_CASE("a trace keeps the frames of its newest plan only") {
  const auto traced = trace([](Tensor x, Tensor number) {
    const Tensor y = tanh(x * 2.0f) + 1.0f;
    return number.item<float>() > 2.0f ? y * y : y + y;
  });
  const Tensor x = line(100);
  std::vector<Tensor> numbers;
  for (int i = 0; i < 6; ++i) numbers.push_back(tensor(static_cast<float>(i)));
  const auto live = [] { return memory_statistics().live_tensors; };
  std::int64_t first = 0;
  for (const Tensor& number : numbers) {
    for (int i = 0; i < 4; ++i) traced(x, number);
    if (!first) first = live();
    CHECK(live() == first);
  }
  CHECK(traced.trace_count() == 6);
}

TEST_CASE("updates that look at their numbers first are replayed", "[cpu]") {
  static int runs = 0;
  Variable w("w", zeros({3})), m("m", zeros({3})), v("v", zeros({3})), u("u", zeros({3}));
  const auto traced = trace(
      [&](Tensor slope, Tensor steps) {
        ++runs;
        sgd_update(u, slope, 0.5);
        adam_update(w, m, v, slope, 0.1, steps);
      },
      {.verify = 0});
  Variable w_eager("w", zeros({3})), m_eager("m", zeros({3})), v_eager("v", zeros({3}));
  for (std::int64_t i = 1; i <= 6; ++i) {
    traced(ones({3}), tensor(i));
    adam_update(w_eager, m_eager, v_eager, ones({3}), 0.1, tensor(i));
    CHECK(equal(u, full({3}, -0.5f * static_cast<float>(i))));
    CHECK(equal(w, w_eager));
  }
  CHECK(runs == 1);
  // A step that the optimizer refuses fails as it does without a trace.
  CHECK_THROWS_AS(traced(ones({3}), tensor(std::int64_t{0})), Error);
  CHECK(equal(u, full({3}, -3.5f)));
  CHECK(equal(w, w_eager));
  CHECK(equal(m, m_eager));
}

TEST_CASE("the first step of a path may be a product that is added in place", "[cpu]") {
  const Traced f = [](const List& v) {
    const Tensor t = tanh(v[0]);
    if (v[1].item<float>() < 0.0f) return List{sum(t)};
    const Tensor m = matmul(v[0], v[0]), s = t + m;
    return List{tanh(s)};
  };
  tracing::Tree tree;
  add_way(tree, f, {ones({3, 3}), tensor(1.0f)});
  CHECK(plan_of(tree) == "tanh | kernel matmul/1, allocate, tanh!; 64");
}

TEST_CASE("a signature keeps what another thread has decided while this thread ran the function") {
  const Tensor x = tensor({1.0f, 2.0f});
  const auto doubled = capture_of([](const List& in) { return List{in[0] * 2}; }, {x});
  const auto tripled = capture_of([](const List& in) { return List{in[0] * 3}; }, {x});
  detail::TraceEntry eager;
  eager.run_eagerly("it reads a file");
  const std::atomic<bool> alone = false;  // no other thread calls the function
  CHECK_FALSE(eager.publish(doubled, 1, nullptr, false, alone));
  CHECK(eager.trouble == "it reads a file");
  CHECK(eager.plan.load() == nullptr);
  detail::TraceEntry dropped;
  REQUIRE_FALSE(dropped.publish(doubled, 1, nullptr, false, alone));
  CHECK(dropped.difference(tripled));
  dropped.forget("an op was registered");
  CHECK_FALSE(dropped.difference(tripled));
}
}  // namespace reel::tests
