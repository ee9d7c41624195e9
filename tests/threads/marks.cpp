// SPDX-License-Identifier: BSD-3-Clause
// Marks of values that a thread computes from tensors that tapes of other threads watch: which
// values have a mark and which do not.
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
Tensor start(DType dtype) { return tensor({{1.0, 2.0}, {3.0, 4.0}}).to(dtype); }
}  // namespace

TEST_CASE("what gives its input back gives that very value, or is refused", "[threads]") {
  register_op("cross_thread_back", [](const OpCall& call) { return Tensors(call.input(0)); });
  const Tensor x = start(DType::float32);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor h = x * 2;
  for (const Tensor& given : {h, x}) {
    const Tensor back = elsewhere([&] { return call_op("cross_thread_back", {given}); });
    const std::string text = refusal([&] {
      CHECK(equal(tape.gradient(back * 3, given), full({2, 2}, 3.0f)));
    });
    INFO(text);
    CHECK((text.empty() || text.find("another thread") != text.npos));
    CHECK(equal(tape.gradient(given * 3, given), full({2, 2}, 3.0f)));
  }
}

TEST_CASE("a view of a marked value shares its memory", "[threads]") {
  const Tensor x = start(DType::float32);
  GradientTape tape;
  tape.watch(x);
  const Tensor r = elsewhere([&] { return x * 2; });
  const Tensor view = elsewhere([&] { return reshape(r, {4}); });
  CHECK(Access::body(view)->data == Access::body(r)->data);
  check_cross_thread([&] { view* sum(x); });
}

TEST_CASE("a value of two tapes of one thread is refused by each of them", "[threads]") {
  const Tensor a = start(DType::float32), b = a * 1;
  for (const bool swapped : {false, true}) {
    GradientTape first({.persistent = true, .watch_variables = false}),
        second({.persistent = true, .watch_variables = false});
    const auto watch = [&](GradientTape& tape, const Tensor& x, GradientTape& other) {
      const auto pause = other.pause();
      tape.watch(x);
    };
    watch(first, a, second);
    watch(second, b, first);
    const Tensor r = elsewhere([&] { return swapped ? b * a : a * b; });
    {
      const auto pause = second.pause();
      check_cross_thread([&] { a + r; });
    }
    const auto pause = first.pause();
    check_cross_thread([&] { b + r; });
  }
}

TEST_CASE("another name of a value of two threads' tapes is refused by both", "[threads]") {
  const Tensor a = start(DType::float32), c = a * 1;
  GradientTape tape;
  tape.watch(a);
  Tensor r, again, read;
  elsewhere([&] {
    GradientTape other;
    other.watch(c);
    r = elsewhere([&] { return a * c; });
    again = elsewhere([&] { return r(ellipsis); });
    read = elsewhere([&] { return Variable("v", r).value(); });
    for (const Tensor& x : {r, again, read}) check_cross_thread([&] { x* c; });
    return c;
  });
  for (const Tensor& x : {r, again, read}) check_cross_thread([&] { x* a; });
}

TEST_CASE("what a tape that has ended watched on this thread is another thread's still",
          "[threads]") {
  const Tensor x = start(DType::float32), z = start(DType::float32) * 1;
  GradientTape tape;
  tape.watch(x);
  const Tensor r = elsewhere([&] {
    GradientTape outer({.persistent = true});
    outer.watch(z);
    Tensor later;
    {
      GradientTape inner;
      inner.watch(x);
      later = z * z;  // keeps the earlier records alive
    }
    const Tensor made = x * 2;
    CHECK(equal(outer.gradient(later, z), 2 * z));
    return made;
  });
  check_cross_thread([&] { r* x; });
}

TEST_CASE("the result of a checkpoint that another thread computed is refused by its name",
          "[threads]") {
  const Tensor x = start(DType::float32);
  GradientTape tape;
  tape.watch(x);
  const auto f = checkpoint([&](Tensor t) { return elsewhere([&] { return t * x; }); });
  const std::string text = refusal([&] { f(ones({2, 2})); });
  INFO("got: " << text);
  CHECK(text.find("checkpoint: x: expected a value that this thread computed") != text.npos);
}

TEST_CASE("a row gradient is marked where its upstream gradient is another thread's", "[threads]") {
  const Tensor x = start(DType::float32);
  GradientTape tape;
  tape.watch(x);
  const Tensor values = elsewhere([&] {
    const Variable table("table", ones({4, 2}));
    GradientTape own;
    const Tensor y = lookup(table, tensor({1, 3})) * 2;
    return own.row_gradients(y, {table}, {.upstream = x})[0].values;
  });
  CHECK(equal(stop_gradient(values), tensor({{2.0, 4.0}, {6.0, 8.0}})));
  check_cross_thread([&] { values* x; });
}

TEST_CASE("a gradient is marked where a gradient function read another thread's tensor",
          "[threads]") {
  const Tensor x = start(DType::float32);
  GradientTape tape;
  tape.watch(x);
  const Tensor slope = elsewhere([&] {
    const Tensor w = ones({2, 2});
    GradientTape own;
    own.watch(w);
    const auto f = custom_gradient([&](Tensor t) {
      return std::pair{t * 1, [&](Tensor up) { return up * x; }};
    });
    const Tensor y = f(w * w);
    return own.gradient(y, w);
  });
  CHECK(equal(stop_gradient(slope), 2 * stop_gradient(x)));
  check_cross_thread([&] { slope* x; });
}
}  // namespace reel::tests
