// SPDX-License-Identifier: BSD-3-Clause
// The reel while tapes stay open: unneeded records are removed, and a number never refers to
// another record.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/flow/context.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
void step(Variable w) {
  GradientTape tape;
  const Tensor slope = tape.gradient(sum(tanh(w * 2.0f) * w), w);
  w.assign_sub(slope * 0.01f);
}
}  // namespace

TEST_CASE("tapes that live on keep no records of others") {
  const Variable w("w", ones({4}));
  const Tensor x = ones({4});
  std::vector<std::unique_ptr<GradientTape>> kept;
  const auto check = [&](std::uint32_t most) {
    step(w);
    const std::uint32_t records = Context::here().reel->size();
    CHECK(records <= most);
    const std::int64_t bytes = resident_bytes();
    for (int i = 0; i < (sanitized ? 200 : 5'000); ++i) step(w);
    CHECK(Context::here().reel->size() == records);
    if (!sanitized) CHECK(resident_bytes() - bytes < (1 << 20));
  };
  SECTION("spent") {
    kept.push_back(std::make_unique<GradientTape>());
    kept.back()->gradient(w * w, w);
    check(0);
  }
  SECTION("persistent, of tensors") {
    kept.push_back(
        std::make_unique<GradientTape>(TapeOptions{.persistent = true, .watch_variables = false}));
    kept.back()->watch(x);
    const Tensor y = x * x * x;
    check(3);
    CHECK(equal(kept.back()->gradient(y * x, x), 4.0f * ones({4})));
    check(4);
  }
  SECTION("paused") {
    kept.push_back(std::make_unique<GradientTape>());
    const Tensor y = w * w;
    const auto pause = kept.back()->pause();
    check(2);
  }
  SECTION("paused, beside tapes of a Variable that keeps its value") {
    kept.push_back(std::make_unique<GradientTape>(TapeOptions{.persistent = true}));
    const Tensor y = w * w;
    const auto pause = kept.back()->pause();
    for (int i = 0; i < 1'000; ++i) GradientTape().gradient(w * 2.0f, w);
    CHECK(Context::here().reel->size() == 2);
    CHECK(equal(kept.back()->gradient(y, w), 2.0f * ones({4})));
  }
  SECTION("idle, made after others that have ended") {
    GradientTape first;
    const Tensor y = w * w;
    kept.push_back(std::make_unique<GradientTape>(TapeOptions{.watch_variables = false}));
    first.gradient(y, w);
    check(2);
  }
  SECTION("each made before the last one ends") {
    const bool watch_variables = GENERATE(false, true);
    std::uint32_t most = 0;
    for (int i = 0; i < 1'000; ++i) {
      kept.resize(1);
      kept[0] = std::make_unique<GradientTape>(
          TapeOptions{.persistent = true, .watch_variables = watch_variables});
      kept[0]->watch(x);
      const Tensor y = x * x * x;
      CHECK(equal(kept[0]->gradient(y * w, x), 3.0f * ones({4})));
      CHECK(kept[0]->ops().size() == 3);
      most = std::max(most, Context::here().reel->size());
    }
    CHECK(most <= 5);
    if (!watch_variables) check(4);
  }
  SECTION("of a thread that has ended") {
    std::thread([&] { kept.push_back(std::make_unique<GradientTape>()); }).join();
    check(0);
  }
}

TEST_CASE("a queue of tapes, each begun before the oldest ends, keeps the records of its own",
          "[slow]") {
  const std::size_t length = GENERATE(1, 3, 20);
  const int steps = sanitized ? 300 : 3'000;
  const Tensor x = tensor<double>({3.0, 2.0}), matrix = ones({3, 2}, {.dtype = DType::float64});
  struct Queued {
    std::unique_ptr<GradientTape> tape;
    Tensor source, y;
    double number;
  };
  std::vector<Queued> queue;
  Tensor passed = x;  // one tape passes it to the next; its shape stays
  std::uint32_t most = 0;
  std::int64_t bytes = 0;
  for (int i = 0; i < steps; ++i) {
    auto tape = std::make_unique<GradientTape>(TapeOptions{.persistent = true});
    const double number = 1 + i % 7;
    const Tensor source = x * number;
    const Variable w("w", source);
    tape->watch(source);
    Tensor y = source * source * (w + 0.0);
    for (int k = 0; k < 10; ++k) y = y + source * 0.5 - w * 0.5;
    const Tensor parts =
        concat({transpose(matrix * y),
                matmul(ones({2, 2}).to(y.dtype()), y * matrix(0, all)).reshape({2, 1})},
               1);
    queue.push_back({std::move(tape), source, y + sum(parts * 0.0) + passed * 0.0, number});
    passed = stop_gradient(passed + y * 0.0);
    if (queue.size() <= length) continue;
    Queued& oldest = queue.front();
    const Tensor slope = oldest.tape->gradient(oldest.y, oldest.source);
    // d(s s w + 5 s - 5 w)/ds, where w equals s
    const Tensor expected = 2.0 * x * x * oldest.number * oldest.number + 5.0;
    CHECK(allclose(stop_gradient(slope), stop_gradient(expected)));
    const Tensor newest = queue.back().tape->gradient(queue.back().y, queue.back().source);
    CHECK(allclose(stop_gradient(newest),
                   stop_gradient(2.0 * x * x * queue.back().number * queue.back().number + 5.0)));
    queue.erase(queue.begin());
    most = std::max(most, Context::here().reel->size());
    if (i == steps / 2) bytes = resident_bytes();
  }
  CHECK(most < 400 * (length + 2) * (length + 2));
  if (!sanitized) CHECK(resident_bytes() - bytes < (1 << 20));
}

TEST_CASE("a number that is taken back names no other record") {
  const Tensor x = tensor({3.0}), a = tensor({5.0});
  GradientTape outer({.persistent = true});
  outer.watch(x);
  const Tensor before = x * x;
  Tensor stale, stale_leaf = a * 1.0;
  {
    GradientTape inner;
    inner.watch(a);
    inner.watch(stale_leaf);
    stale = a * stale_leaf;
  }
  const Tensor first = x * 2.0, second = first * 7.0;  // they get the numbers of removed records
  CHECK(equal(outer.gradient(first * stale, x), tensor({50.0})));
  CHECK(equal(outer.gradient(second * stale_leaf * before, x), tensor({5.0 * 14 * 27})));
  CHECK_THROWS_AS(outer.gradient(first * stale, stale), TapeError);
  CHECK_THROWS_AS(outer.gradient(first * stale, a), TapeError);
}

namespace {
/// A number with its derivatives by the source of each tape, computed forward.
struct Dual {
  Tensor value;
  double number;
  std::vector<double> slopes;  // by the serial number of the tape
};
struct OpenTape {
  std::size_t serial;
  std::unique_ptr<GradientTape> tape;
  Tensor source;
};
}  // namespace

TEST_CASE("tapes that come and go in any order give forward derivatives") {
  std::size_t gradients = 0;
  for (unsigned seed = 0; seed < (sanitized ? 60 : 600); ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::vector<Dual> values;
    for (const double number : {0.7, -0.4})
      values.push_back({tensor<double>({number}), number, {}});
    std::vector<OpenTape> tapes;
    std::size_t serials = 0;
    const auto slope = [](const Dual& of, std::size_t serial) {
      return serial < of.slopes.size() ? of.slopes[serial] : 0.0;
    };
    for (int action = 0; action < 80; ++action) {
      const std::size_t what = below(10);
      if (what < 2 && tapes.size() < 6) {
        const std::size_t serial = serials++;
        Dual& source = values[below(values.size())];
        tapes.push_back({serial,
                         std::make_unique<GradientTape>(TapeOptions{.persistent = below(2) == 0}),
                         source.value});
        tapes.back().tape->watch(source.value);
        // For this tape, every value that is the source's tensor is a leaf.
        for (Dual& dual : values)
          if (Access::body(dual.value) == Access::body(source.value)) {
            dual.slopes.resize(serial + 1);
            dual.slopes[serial] = 1;
          }
      } else if (what < 4 && !tapes.empty()) {
        const std::size_t i = below(tapes.size());
        const Dual& target = values[below(values.size())];
        const Tensor got =
            tapes[i].tape->gradient(target.value, tapes[i].source, Unconnected::zero);
        INFO("seed " << seed << ", action " << action);
        CHECK(got.item<double>() ==
              Approx(slope(target, tapes[i].serial)).epsilon(1e-9).margin(1e-12));
        ++gradients;
        tapes.erase(tapes.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        const Dual &a = values[below(values.size())], &b = values[below(values.size())];
        Dual made{tanh(a.value * b.value + a.value), 0, {}};
        made.number = std::tanh(a.number * b.number + a.number);
        for (const OpenTape& tape : tapes) {
          made.slopes.resize(std::max(made.slopes.size(), tape.serial + 1));
          made.slopes[tape.serial] =
              (1 - made.number * made.number) *
              (slope(a, tape.serial) * (b.number + 1) + a.number * slope(b, tape.serial));
        }
        if (values.size() < 12)
          values.push_back(std::move(made));
        else
          values[below(values.size())] = std::move(made);
      }
    }
  }
  CHECK(gradients > 500);
}

namespace {
/// Another thread watches the tensors in this order, then ends its tape.
void watch_elsewhere(const std::vector<Tensor>& tensors) {
  std::thread([&] {
    GradientTape tape({.persistent = true});
    for (const Tensor& x : tensors) tape.watch(x);
    Tensor y = zeros({2});
    for (const Tensor& x : tensors) y = y + x * x;
    CHECK(equal(tape.gradient(y, tensors[0]), 2.0f * tensors[0]));
  }).join();
}
}  // namespace

TEST_CASE("leaves are found though other threads have watched them since", "[cpu]") {
  std::vector<Tensor> leaves;
  for (int i = 0; i < 60; ++i) leaves.push_back(full({2}, static_cast<float>(i + 1)));
  std::vector<Tensor> reversed(leaves.rbegin(), leaves.rend());
  for (int round = 0; round < 3; ++round) {
    GradientTape tape({.persistent = true});
    for (const Tensor& x : leaves) tape.watch(x);
    watch_elsewhere(reversed);
    Tensor y = zeros({2});
    for (std::size_t i = 0; i < leaves.size(); ++i) y = y + leaves[i] * static_cast<float>(i);
    CHECK(tape.ops().size() == 2 * leaves.size());
    watch_elsewhere({reversed.begin(), reversed.begin() + 7});
    for (std::size_t i = 0; i < leaves.size(); ++i)
      CHECK(equal(tape.gradient(y, leaves[i]), full({2}, static_cast<float>(i))));
    // A tensor that only the other thread has watched is not a leaf of this tape.
    const Tensor other = ones({2});
    watch_elsewhere({reversed[0], reversed[1], reversed[2], other});
    const Tensor z = other * leaves[0];
    CHECK(equal(tape.gradient(z, leaves[0]), other));
    CHECK_THROWS_AS(tape.gradient(z, other), TapeError);
  }
}

TEST_CASE("the newest record of a leaf counts, whatever another thread notes on it", "[cpu]") {
  // The record of the other thread has the same number as the first record here, or as the second.
  for (const bool first : {false, true}) {
    const Tensor x = tensor({3.0, 4.0}), filler = tensor({1.0, 1.0});
    GradientTape older({.persistent = true});
    older.watch(x);
    auto newer = std::make_unique<GradientTape>(TapeOptions{.persistent = true});
    newer->watch(x);
    watch_elsewhere(first ? std::vector<Tensor>{x} : std::vector<Tensor>{filler, x});
    const Tensor y = x * x;
    CHECK(equal(older.gradient(y, x), 2.0 * x));
    CHECK(equal(newer->gradient(y, x), 2.0 * x));
    newer.reset();
    watch_elsewhere(first ? std::vector<Tensor>{filler, x} : std::vector<Tensor>{x});
    CHECK(equal(older.gradient(y * x, x), 3.0 * x * x));
    GradientTape last({.persistent = true});
    last.watch(x);
    watch_elsewhere({x});
    CHECK(equal(last.gradient(x * y, x), y));
    CHECK(equal(older.gradient(x * y, x), 3.0 * x * x));
  }
}

TEST_CASE("a user's function may end tapes that its inputs come from") {
  const Tensor x = tensor({3.0}), a = tensor({5.0});
  std::unique_ptr<GradientTape> inner, later;
  const auto end_inner = [&] {
    inner.reset();
    later = std::make_unique<GradientTape>();  // it gets the bit of inner, and its record numbers
    later->watch(a);
    const Tensor first = a * 2.0, second = first * first;
  };
  const auto custom = custom_gradient([&](Tensor u, Tensor v) {
    end_inner();
    return std::pair{u * v, [u, v](Tensor dy) { return Tensors{dy * v, dy * u}; }};
  });
  static detail::Function<void()> end_now;
  end_now = end_inner;
  static const bool registered = [] {
    register_op("ends_a_tape", [](const OpCall& call) {
      end_now();
      return Tensors{call.input(0) * call.input(1)};
    });
    register_gradient("ends_a_tape", [](const OpCall& call, Tensor dy) {
      return Tensors{dy * call.input(1), dy * call.input(0)};
    });
    return true;
  }();
  CHECK(registered);
  for (const bool own_op : {false, true})
    for (const bool swapped : {false, true}) {
      GradientTape outer;
      outer.watch(x);
      const Tensor tracked = x * 2.0;
      inner = std::make_unique<GradientTape>();
      inner->watch(a);
      const Tensor gone = a * a, &u = swapped ? tracked : gone, &v = swapped ? gone : tracked;
      const Tensor y = own_op ? call_op("ends_a_tape", {u, v}) : custom(u, v);
      CHECK(equal(outer.gradient(y * y, x), tensor({2 * 6.0 * 25 * 2 * 25})));
      CHECK_THROWS_AS(later->gradient(y, a), TapeError);
      later.reset();
    }
  end_now = {};
}

TEST_CASE("after millions of threads that had tapes, values of another thread are still known") {
  for (int i = 0; i < 1 << 22; ++i) {
    Reel reel;  // each thread has one, so it stands for a thread
    reel.close_tape(reel.open_tape(true));
  }
  const Tensor x = tensor({3.0});
  std::string refusal;
  std::thread([&] {
    GradientTape tape;
    tape.watch(x);
    const Tensor h = x * x;
    Tensor r;
    std::thread([&] { r = h * x; }).join();
    try {
      h + r;
    } catch (const TapeError& error) {
      refusal = error.what();
    }
    CHECK(tape.gradient(h * h, x).item<float>() == 108);
  }).join();
  CHECK(refusal.find("another thread") != refusal.npos);
}

TEST_CASE("records keep the values that gradients need, and no others") {
  const Tensor x = ones({3}), m = ones({3, 3});
  const auto kept = [&](const auto& f) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = f(x * 2.0f);
    const std::int64_t before = memory_statistics().live_tensors;
    for (int i = 0; i < 20; ++i) y = f(y);
    const std::int64_t more = memory_statistics().live_tensors - before;
    CHECK(tape.gradient(y, x).defined());
    return more;
  };
  CHECK(kept([&](const Tensor& y) { return y + x; }) == 0);
  CHECK(kept([&](const Tensor& y) { return x - y; }) == 0);
  const int tensors =
      x.device() == cpu() ? 1 : 2;  // a device may keep numbers in a table of its own
  CHECK(kept([&](const Tensor& y) { return y * 2.0f; }) <= 20 * tensors);  // the number
  CHECK(kept([&](const Tensor& y) { return y * x; }) == 20);   // y, because the leaf keeps x
  CHECK(kept([&](const Tensor& y) { return exp(y); }) == 20);  // the result
  CHECK(kept([&](const Tensor& y) { return reshape(reshape(y, {1, 3}), {3}); }) == 0);
  CHECK(kept([&](const Tensor& y) { return sum(broadcast_to(y, {2, 3}), 0); }) == 0);
  CHECK(kept([&](const Tensor& y) { return matmul(y, m); }) <= 20);
  CHECK(kept([&](const Tensor& y) { return sum(reshape(concat({y, x}, 0), {2, 3}), 0); }) == 0);
}

TEST_CASE("an op of too many outputs is refused before anything is recorded") {
  Reel reel;
  const Op op{.name = "many"};
  CHECK_NOTHROW(reel.require_values((1 << 30) - 1, op, {}));
  CHECK_THROWS_WITH(reel.require_values(1 << 30, op, {}), Catch::Contains("1073741824 more"));
}

TEST_CASE("a Variable of whole numbers is no source") {
  const Variable n("n", tensor({1, 2})), w("w", ones({2}));
  GradientTape tape({.persistent = true});
  const Tensor y = w * n;
  CHECK(equal(tape.gradient(y, w), tensor({1.0f, 2.0f})));
  CHECK_THROWS_AS(tape.gradient(y, n), Error);
  CHECK(tape.ops().size() == 1);
}

TEST_CASE("trim_memory gives back what a long step took", "[cpu]") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  trim_memory();
  const std::int64_t bytes = resident_bytes();
  {
    const Tensor x = ones({8});
    GradientTape tape;
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < 200'000; ++i) y = y * 1.000001f + x;
    tape.gradient(y, x);
  }
  trim_memory();
  CHECK(resident_bytes() - bytes < (8 << 20));
}

TEST_CASE("a tape keeps shapes and cuts of its own when an older one ends before it") {
  const int count = 1'500, mine = 100;
  const Variable w("w", tensor({1.0f, 2.0f}));
  auto older = std::make_unique<GradientTape>(TapeOptions{.persistent = true});
  std::vector<Tensor> parts;
  for (int i = 0; i < count; ++i) parts.push_back(ones({i % 50 + 1, 2}) * w);
  GradientTape newer({.persistent = true});
  Tensor total = tensor(0.0f);
  std::vector<Tensor> made;
  std::int64_t rows = 0;
  for (int i = 0; i < mine; ++i) {
    made.push_back(parts[static_cast<std::size_t>(i)] * w);
    rows += i % 50 + 1;
  }
  for (const Tensor& each : made) total = total + sum(each);
  const Tensor cut = argmax(w * 3.0f).to(DType::float32);
  const std::uint32_t before = Context::here().reel->size();
  older.reset();
  REQUIRE(Context::here().reel->size() < before - 1'000);
  for (int i = 0; i < 300; ++i) GradientTape().watch(ones({7, 7, 7}));

  const std::vector<RecordedOp> ops = newer.ops();
  REQUIRE(ops.size() >= 3u * mine);
  for (int i = 0; i < mine; ++i) {
    const RecordedOp& op = ops[static_cast<std::size_t>(i)];
    CHECK(op.name == "multiply");
    CHECK(op.inputs[0] == Shape{i % 50 + 1, 2});
    CHECK(op.inputs[1] == Shape{2});
    CHECK(op.outputs[0] == Shape{i % 50 + 1, 2});
  }
  // The newer tape treats the parts as constants. Each row of them is (1, 2).
  CHECK(equal(newer.gradient(total, w), tensor({1.0f, 2.0f}) * static_cast<float>(rows)));
  try {
    newer.gradient(cut, w);
    CHECK(false);
  } catch (const TapeError& error) {
    CHECK(std::string(error.what()).find("argmax") != std::string::npos);
  }
}

TEST_CASE("trim_memory in the middle of a tape leaves its records") {
  const Variable w("w", tensor(2.0f));
  GradientTape tape;
  Tensor y = w * 1.0f;
  for (int i = 0; i < 3'000; ++i) y = y + w;
  trim_memory();
  for (int i = 0; i < 3'000; ++i) y = y + w;
  trim_memory();
  CHECK(equal(tape.gradient(y * w, w), tensor(6001.0f * 4)));
}

TEST_CASE("a tape watches many tensors in time that grows with their number") {
  const std::size_t count = sanitized ? 2'000 : 60'000;
  std::vector<Tensor> sources;
  std::vector<Variable> variables;
  GradientTape tape;
  Tensor y = tensor(0.0f);
  for (std::size_t i = 0; i < count; ++i) {
    sources.push_back(full({}, 1.0f));
    variables.emplace_back("w", full({}, 2.0f));
    tape.watch(sources.back());
    y = y + sources.back() * variables.back();
  }
  const std::vector<Tensor> slopes = tape.gradient(y, variables);
  CHECK(slopes.size() == count);
  CHECK(equal(slopes.back(), tensor(1.0f)));
}

TEST_CASE("a tensor that tapes watch one after the other leaves nothing behind") {
  const Tensor x = ones({2});
  const auto watch = [&](int times) {
    for (int i = 0; i < times; ++i) GradientTape({.watch_variables = false}).watch(x);
  };
  const auto watch_beside = [&](int times) {
    GradientTape lasting({.watch_variables = false});
    lasting.watch(x);
    watch(times);
  };
  watch(1'000);
  watch_beside(1'000);
  const std::int64_t bytes = resident_bytes();
  watch(sanitized ? 1'000 : 300'000);
  watch_beside(sanitized ? 1'000 : 300'000);
  if (!sanitized) CHECK(resident_bytes() - bytes < (2 << 20));
}

TEST_CASE("a gradient stops at values that only another, older tape follows") {
  const Tensor x = tensor({2.0f, 3.0f}), y = tensor({5.0f, 7.0f});
  GradientTape older({.persistent = true, .watch_variables = false});
  older.watch(x);
  const Tensor square_of_x = x * x;
  GradientTape newer({.persistent = true, .watch_variables = false});
  newer.watch(y);
  const Tensor z = square_of_x * y + x;
  CHECK(equal(newer.gradient(z, y), tensor({4.0f, 9.0f})));
  CHECK(equal(older.gradient(z, x), tensor({21.0f, 43.0f})));
  CHECK_THROWS_AS(newer.gradient(z, x), TapeError);
  CHECK_THROWS_AS(older.gradient(z, y), TapeError);
}

TEST_CASE("a record keeps the shapes that it has from records of older tapes") {
  const Tensor s = ones({2, 3}), z = ones({1, 3});
  auto first = std::make_unique<GradientTape>(TapeOptions{.persistent = true});
  first->watch(s);
  const Tensor y = s * 2;
  Tensor rest = s;
  for (int i = 0; i < 4'000; ++i) rest = rest * y;
  GradientTape second({.persistent = true});
  second.watch(z);
  const Tensor both = z * y;
  first.reset();
  CHECK(Context::here().reel->size() < 1'000);
  Tensor more = z;  // the records take the memory of those that have gone
  for (int i = 0; i < 8'000; ++i) more = more * z;
  const std::vector<RecordedOp> ops = second.ops();
  REQUIRE(ops.size() == 8'001);
  CHECK(ops[0].inputs[0] == Shape({1, 3}));
  CHECK(ops[0].inputs[1] == Shape({2, 3}));
  CHECK(ops[0].outputs[0] == Shape({2, 3}));
  CHECK(equal(second.gradient(both, z), full({1, 3}, 4.0f)));
}
}  // namespace reel::tests
