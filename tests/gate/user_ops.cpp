// SPDX-License-Identifier: BSD-3-Clause
// Ops, gradients and kernels that a user registers.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/table/op.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
Tensor numbers() { return tensor({1.0f, -2.0f, 3.0f}); }
Tensor slope(const std::string& op, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(call_op(op, {x}), x);
}
}  // namespace

TEST_CASE("an op without a gradient of its own has that of the ops inside, to any order") {
  register_op("cube", [](const OpCall& call) {
    const Tensor& x = call.input(0);
    return x * x * x;
  });
  const Tensor x = numbers();
  CHECK(equal(call_op("cube", {x}), tensor({1.0f, -8.0f, 27.0f})));
  GradientTape outer;
  outer.watch(x);
  const Tensor first = slope("cube", x);
  CHECK(equal(first, tensor({3.0f, 12.0f, 27.0f})));
  CHECK(equal(outer.gradient(first, x), 6.0f * x));
}

TEST_CASE("a registered gradient stands for the ops inside, which are not recorded") {
  register_op("odd_square", [](const OpCall& call) { return call.input(0) * call.input(0); });
  register_gradient("odd_square", [](const OpCall& call, Tensor upstream) {
    CHECK(equal(call.output(0), square(call.input(0))));
    return upstream * 100.0f;
  });
  const Tensor x = numbers();
  GradientTape tape;
  tape.watch(x);
  const Tensor y = call_op("odd_square", {x});
  REQUIRE(tape.ops().size() == 1);
  CHECK(tape.ops()[0].name == "odd_square");
  CHECK(equal(tape.gradient(y, x), full({3}, 100.0f)));
}

TEST_CASE("an op gives and takes several tensors, and attributes") {
  register_op("scaled", [](const OpCall& call) {
    const auto by = static_cast<float>(call.real("by"));
    const std::int64_t times = call.integer("times", 1);
    return Tensors{call.input(0) * by, call.input(1) * static_cast<float>(times)};
  });
  register_gradients("scaled", [](const OpCall& call, const Tensors& upstream) {
    return Tensors{upstream[0] * static_cast<float>(call.real("by")), Tensor()};
  });
  const Tensor x = numbers(), y = numbers();
  GradientTape tape({.persistent = true});
  tape.watch(x);
  tape.watch(y);
  const Tensors both = call_op_all("scaled", {x, y}, {{"by", 2.0}, {"times", 3}});
  CHECK(equal(both[0], 2.0f * x));
  CHECK(equal(both[1], 3.0f * y));
  CHECK(equal(tape.gradient(both[0], x), full({3}, 2.0f)));
  check_refused<TapeError>([&] { tape.gradient(both[1], y); }, "gradient");
  check_refused<Error>([&] { call_op("scaled", {x, y}); }, "by");
  check_refused<Error>([&] { call_op("scaled", {x, y}, {{"by", "two"}}); }, "by");
  check_refused<IndexError>([&] { call_op("scaled", {x}, {{"by", 2}}); }, "input");
}

TEST_CASE("a registered kernel computes what the op's rule promises", "[cpu]") {
  int calls = 0;
  register_kernel("square", [&](const OpCall& call) {
    ++calls;
    return call.input(0) * call.input(0);
  });
  const Tensor x = numbers();
  CHECK(equal(square(x), tensor({1.0f, 4.0f, 9.0f})));
  CHECK(calls == 1);
  CHECK(equal(slope("square", x), 2.0f * x));
  CHECK(calls == 2);
  register_kernel("square", [](const OpCall&) { return tensor({1.0f}); });
  check_refused<ShapeError>([&] { square(x); }, "square");
  register_kernel("square", [](const OpCall& call) { return call.input(0) > 0; });
  check_refused<DTypeError>([&] { square(x); }, "square");
  register_kernel("square", [](const OpCall& call) { return call.input(0) * call.input(0); });
}

TEST_CASE("an op that keeps its input leaves it to the other parts of a split") {
  register_gradient("slice", [](const OpCall& call, Tensor) { return ones_like(call.input(0)); });
  const Tensor x = arange(0.0f, 4.0f);
  for (const bool by_lengths : {false, true}) {
    GradientTape tape;
    tape.watch(x);
    const std::vector<Tensor> parts =
        by_lengths ? split(x * 2.0f, std::vector<std::int64_t>{1, 3}, 0) : split(x * 2.0f, 2, 0);
    CHECK(equal(concat(parts, 0), x * 2.0f));
    CHECK(equal(tape.gradient(sum(parts[0]) + sum(parts[1]), x), full({4}, 4.0f)));
  }
}

TEST_CASE("a gradient and a kernel of the user's count in the layers that fuse the op", "[cpu]") {
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  const nn::Linear layer(2, 2, Activation::sigmoid);
  Tensor dense_result = layer(x);
  register_kernel("dense",
                  [&](const OpCall&) { return transpose(transpose(dense_result) + 0.0f); });
  const auto gradient = [&] {
    GradientTape tape;
    const Tensor y = layer(x);
    return tape.gradient(sum(y), layer.weight);
  };
  const Tensor strided = gradient();  // the result of the kernel is column-major
  register_gradient("sigmoid", [](const OpCall& call, Tensor upstream) {
    const Tensor y = sigmoid(call.input(0));
    return upstream * y * (1.0f - y);
  });
  const Op& op = *OpTable::the().find("sigmoid");
  CHECK(op.needs.of[0] == need_output());  // the entry stays as it is
  CHECK(op.gradient.needs.of[0] == 0xffff);
  CHECK_FALSE(op.gradient.fused);
  const Tensor own = gradient();
  CHECK(max(abs(strided - own)).item<float>() < 1e-5f);
  register_kernel("sigmoid", [](const OpCall& call) { return zeros_like(call.input(0)); });
  CHECK(max(layer(x)).item<float>() == 0.0f);
  register_kernel("sigmoid",
                  [](const OpCall& call) { return 1.0f / (1.0f + exp(-call.input(0))); });
}

TEST_CASE("what cannot be registered or called is refused") {
  register_op("bad_gradient", [](const OpCall& call) { return call.input(0) + 1; });
  register_gradient("bad_gradient", [](const OpCall&, Tensor) { return tensor({1.0f}); });
  const Tensor x = numbers();
  check_refused<ShapeError>([&] { slope("bad_gradient", x); }, "bad_gradient", {__FILE__, 19});
  register_gradients("bad_gradient", [](const OpCall&, const Tensors&) { return Tensors(); });
  check_refused<TapeError>([&] { slope("bad_gradient", x); }, "bad_gradient", {__FILE__, 19});
  register_op("nothing", [](const OpCall&) { return Tensor(); });
  check_refused<Error>([&] { call_op("nothing", {x}); }, "nothing");
  const auto same = [](const OpCall& call) { return call.input(0); };
  check_refused<Error>([&] { register_op("nothing", same); }, "nothing");
  check_refused<Error>([&] { register_op("", same); }, "register_op");
  check_refused<Error>([&] { register_op("no_function", {}); }, "a name and a function");
  check_refused<Error>([&] { register_kernel("missing", same); }, "missing");
  check_refused<Error>([&] { register_kernel("assign", same); }, "assign");
  check_refused<Error>([&] { call_op("missing", {x}); }, "missing");
  const auto advice = [&](const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(text.find('\n') + 1, text.rfind('\n') - text.find('\n') - 1);
    }
    return std::string();
  };
  CHECK(advice([&] { call_op("matmull", {x, x}); }) == "  Did you mean \"matmul\"?");
  CHECK(advice([&] { register_kernel("sigmoyd", same); }) == "  Did you mean \"sigmoid\"?");
  CHECK(advice([&] {
          register_gradient("Softmax", [](const OpCall&, Tensor up) { return up; });
        }) == "  Did you mean \"softmax\"?");
  CHECK(advice([&] { call_op("nothin", {x}); }) == "  Did you mean \"nothing\"?");
  // Two letters that were swapped count as one mistake. A name of three letters allows one.
  CHECK(advice([&] { call_op("epx", {x}); }) == "  Did you mean \"exp\"?");
  CHECK(advice([&] { call_op("xep", {x}); }) == "  Did you mean \"exp\"?");
  register_op("pqrstuvw", same);
  CHECK(advice([&] { call_op("pqrstxwv", {x}); }) == "  Did you mean \"pqrstuvw\"?");
  for (const char* far : {"fourier", "check_rat", "linear_sca"})  // internal ops are not named
    CHECK(advice([&] { call_op(far, {x}); }) == "  op_names() lists all names.");
  check_refused<Error>([&] { call_op("add", {x}); }, "add");
  check_refused<Error>([&] { call_op("add", {x, x}, {{"by", 2}}); }, "by");
}

TEST_CASE("an op whose result is its input leaves that input as it was") {
  register_op("same", [](const OpCall& call) { return call.input(0); });
  register_gradient("same", [](const OpCall&, Tensor upstream) { return upstream * 5.0f; });
  const Tensor x = numbers();
  CHECK(equal(slope("same", x), full({3}, 5.0f)));
}

TEST_CASE("an op of the library can be called by name before any other has run") {
  CHECK(equal(call_op("add", {tensor({1.0f}), tensor({2.0f})}), tensor({3.0f})));
  const Variable w("w", tensor({1.0f}));
  const GradientTape tape;
  call_op("add", {w, w});
  REQUIRE(tape.ops().size() == 1);
  CHECK(tape.ops()[0].options.empty());
}

TEST_CASE("all ops are listed, in the order of their names") {
  const std::vector<std::string> before = op_names();
  register_op("zz_listed", [](const OpCall& call) { return call.input(0); });
  const std::vector<std::string> names = op_names();
  CHECK(names.size() == before.size() + 1);
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"add", "matmul", "lstm", "zz_listed"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
}

TEST_CASE("attributes are read by name and kind") {
  std::vector<double> seen;
  register_op("reads", [&](const OpCall& call) {
    seen = {static_cast<double>(call.integer("i")),       call.real("r"),     call.real("i"),
            static_cast<double>(call.integer("j", 5)),    call.real("s", .5), call.real("r", 9),
            static_cast<double>(call.integers("list")[1])};
    CHECK(call.name() == "reads");
    CHECK(call.text("word") == "two");
    CHECK(call.attribute("i").integer() == 3);
    CHECK(call.input_count() == 1);
    check_refused<IndexError>([&] { call.input(1); }, "reads: inputs: expected at least 2, got 1",
                              call.caller());
    const auto refuse = [&](auto read, const char* part) {
      check_refused<Error>([&] { read(); }, part, call.caller());
    };
    refuse([&] { call.integer("r"); }, "attribute \"r\": expected an integer, got a real number");
    refuse([&] { call.integer("r", 2); }, "attribute \"r\": expected an integer");
    refuse([&] { call.integer("missing"); }, "attribute: expected \"missing\", got none");
    refuse([&] { call.real("word"); }, "attribute \"word\": expected a real number");
    refuse([&] { call.real("list", 2.0); }, "attribute \"list\": expected a real number");
    refuse([&] { call.text("i"); }, "attribute \"i\": expected a text");
    refuse([&] { call.integers("i"); }, "attribute \"i\": expected a list of integers");
    refuse([&] { call.text("r"); }, "attribute \"r\": expected a text");
    return call.input(0);
  });
  const std::vector<std::int64_t> list{7, 8};
  const Tensor x = numbers();
  const Tensor y = call_op("reads", {x}, {{"r", 2.5}, {"i", 3}, {"word", "two"}, {"list", list}});
  CHECK(equal(y, x));
  CHECK(seen == std::vector<double>{3, 2.5, 3, 5, .5, 2.5, 8});
  register_op("unread", [](const OpCall& call) {
    if (call.integer("width", 0)) call.text("kind");
    return Tensors{call.input(0), call.input(0)};
  });
  check_refused<Error>([&] { call_op("unread", {x}); }, "unread: call: expected an op with one");
  CHECK(call_op_all("unread", {x}).size() == 2);
  register_gradients("unread", [&](const OpCall& call, const Tensors& upstream) {
    CHECK(call.output_count() == 2);
    CHECK(equal(call.output(1), x));
    call.integer("shown", 0);
    check_refused<IndexError>([&] { call.output(2); },
                              "outputs of unread: expected at least 3, got 2", call.caller());
    return upstream[1];
  });
  GradientTape tape;
  tape.watch(x);
  CHECK(equal(tape.gradient(call_op_all("unread", {x}, {{"shown", 4}})[1] * 3.0f, x),
              full({3}, 3.0f)));
  GradientTape shown;
  shown.watch(x);
  call_op_all("unread", {x}, {{"width", 4}, {"kind", "wide"}});
  REQUIRE(shown.ops().size() == 1);
  CHECK(shown.ops()[0].options.find("width") != std::string::npos);
  CHECK(shown.ops()[0].options.find("wide") != std::string::npos);
}

TEST_CASE("an op keeps its newest gradient and its newest kernel", "[cpu]") {
  const Tensor x = numbers();
  const auto gradient_of = [](float by) {
    return [by](const OpCall&, Tensor upstream) { return upstream * by; };
  };
  int calls = 0;
  register_gradient("negative", gradient_of(2));
  register_kernel("negative", [&](const OpCall& call) {
    ++calls;
    return call.input(0) * -1.0f;
  });
  CHECK(equal(slope("negative", x), full({3}, 2.0f)));
  register_gradient("negative", gradient_of(3));
  CHECK(equal(slope("negative", x), full({3}, 3.0f)));
  CHECK(calls == 2);
  register_kernel("negative", [&](const OpCall& call) {
    calls += 10;
    return call.input(0) * -1.0f;
  });
  CHECK(equal(slope("negative", x), full({3}, 3.0f)));
  CHECK(calls == 12);
  // A traced function uses what is registered after its capture.
  auto f = trace([](Tensor v) { return -v; });
  for (int i = 0; i < 3; ++i) CHECK(equal(f(x), -x));
  register_kernel("negative", [](const OpCall& call) { return call.input(0) * -7.0f; });
  CHECK(equal(f(x), x * -7.0f));
  register_kernel("negative", [](const OpCall& call) { return call.input(0) * -1.0f; });
  CHECK(equal(f(x), -1.0f * x));
}

TEST_CASE("a gradient reads each of many inputs and outputs") {
  constexpr std::size_t count = 12;
  register_op("many", [](const OpCall& call) {
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < call.input_count(); ++i)
      results.push_back(call.input(i) * static_cast<float>(i + 1));
    return Tensors(results);
  });
  register_gradients("many", [](const OpCall& call, const Tensors& upstream) {
    std::vector<Tensor> slopes;
    for (std::size_t i = 0; i < call.input_count(); ++i)
      slopes.push_back(upstream[i] * (call.output(i) + call.input(i)));
    return Tensors(slopes);
  });
  std::vector<Tensor> inputs;
  GradientTape tape({.persistent = true});
  for (std::size_t i = 0; i < count; ++i) {
    inputs.push_back(full({2}, static_cast<float>(i + 1)));
    tape.watch(inputs.back());
  }
  Tensors outputs = call_op_all("many", inputs);
  Tensor total = tensor(0.0f);
  for (const Tensor& each : outputs) total = total + sum(each);
  outputs = {};
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>(i + 1);
    CHECK(equal(tape.gradient(total, inputs[i]), full({2}, x * x + x)));
  }
}

TEST_CASE("a user's kernel of slice makes the parts of a split, and what indices name",
          "[cpu][fork]") {
  // the kernel, which ignores the arguments of slice, ends with the child
  const pid_t child = fork();
  if (child == 0) {
    Tensor made = tensor({7.0f, 8.0f});
    register_kernel("slice", [&](const OpCall&) { return made; });
    const std::vector<float> expected = {7, 8};
    const Tensor x = arange(0.0f, 4.0f);
    bool right = x(range(1, 3)).to_vector<float>() == expected;
    for (const Tensor& part : split(x, 2, 0)) right &= part.to_vector<float>() == expected;
    for (const Tensor& part : split(x, std::vector<std::int64_t>{2, 2}, 0))
      right &= part.to_vector<float>() == expected;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("an input that no function of an op reads is refused") {
  register_op("half", [](const OpCall& call) { return call.input(0) / 2; });
  const Tensor x = tensor({1.0f, 2.0f});
  CHECK(equal(call_op("half", {x}), x / 2));
  check_refused<Error>(
      [&] {
        call_op("half", {x, x});
      },
      "half: input 1: expected an input that its functions read, got one that none reads");
  CHECK(equal(call_op("half", {x}), x / 2));
  // An input that only the gradient reads is accepted, and an input of an op that counts inputs.
  register_op("shown", [](const OpCall& call) { return call.input(0) + 0; });
  register_gradient("shown", [](const OpCall& call, Tensor up) {
    return Tensors{up * call.input(1), Tensor()};
  });
  Variable w("w", x);
  GradientTape tape({.persistent = true});
  const Tensor y = call_op("shown", {w, x});
  CHECK(equal(tape.gradient(y, w), x));
  check_refused<Error>([&] { call_op("shown", {w, x, x}); }, "shown: input 2");
  register_op("maybe", [](const OpCall& call) {
    return call.input_count() > 5 ? call.input(5) : call.input(0) * 3;
  });
  CHECK(equal(call_op("maybe", {x, x}), 3 * x));
  register_op("second", [](const OpCall& call) {
    return call.input(1) * static_cast<float>(call.input_count());
  });
  CHECK(equal(call_op("second", {zeros({2}), x}), 2 * x));
  // A function may read an input in some calls only.
  register_op("chosen", [](const OpCall& call) {
    return any(call.input(0) > 1) ? call.input(0) * 1 : call.input(1) * 1;
  });
  CHECK(equal(call_op("chosen", {zeros({2}), x}), x));
  CHECK(equal(call_op("chosen", {x, zeros({2})}), x));
}

TEST_CASE("an attribute that no function of an op reads is refused") {
  register_op("scales", [](const OpCall& call) { return call.input(0) * call.real("by", 2); });
  const Tensor x = tensor({1.0f, 2.0f});
  CHECK(equal(call_op("scales", {x}, {{"by", 3}}), 3 * x));
  const auto misspelt = [&] { call_op("scales", {x}, {{"b", 3}}); };
  check_refused<Error>(misspelt,
                       "scales: attributes: expected what its functions read, \"by\", got \"b\"");
  // An attribute that only the gradient reads is accepted.
  register_op("cut", [](const OpCall& call) { return call.input(0) + 0; });
  register_gradient("cut", [](const OpCall& call, Tensor up) { return up * call.real("share"); });
  Variable w("w", x);
  GradientTape tape({.persistent = true});
  const Tensor y = call_op("cut", {w}, {{"share", 0.5}});
  CHECK(equal(tape.gradient(y, w), tensor({0.5f, 0.5f})));
  check_refused<Error>(
      [&] {
        call_op("cut", {w}, {{"share", 0.5}, {"part", 1}});
      },
      "cut: attributes: expected what its functions read, \"share\", got \"part\"");
  check_refused<Error>(
      [&] {
        call_op("scales", {x}, {{"by", 3}, {"by", 4}});
      },
      "each name once, got \"by\" twice");
}

TEST_CASE("an undefined input has a name, or a number behind the last name") {
  register_op("of_four", [](const OpCall& call) { return call.input(0) * 2.0f; });
  const Tensor x = ones({2});
  check_refused<Error>(
      [&] {
        call_op("of_four", {x, x, x, Tensor()});
      },
      "of_four: input 3: expected a tensor");
  check_refused<Error>(
      [&] {
        call_op("of_four", {x, x, Tensor(), x});
      },
      "of_four: z: expected a tensor");
}

TEST_CASE("of many inputs, the first 63 must be read") {
  register_op("of_63", [](const OpCall& call) {
    Tensor sum = call.input(0);
    for (std::size_t i = 1; i < 63; ++i) sum = sum + call.input(i);
    return sum;
  });
  register_op("of_62", [](const OpCall& call) {
    Tensor sum = call.input(0);
    for (std::size_t i = 1; i < 62; ++i) sum = sum + call.input(i);
    return sum;
  });
  const std::vector<Tensor> inputs(64, ones({2}));
  CHECK(equal(call_op("of_63", inputs), full({2}, 63.0f)));
  CHECK_THROWS_WITH(call_op("of_62", inputs), Catch::Contains("input 62"));
}

TEST_CASE("a number stays on its side of a tensor where an op has a kernel of a user", "[cpu]") {
  // with this kernel float32 has no fast path
  register_kernel("floor_divide",
                  [](const OpCall& call) { return floor(call.input(0) / call.input(1)); });
  const Tensor x = tensor({7.0f, -7.0f});
  CHECK(equal(floor_divide(x, 2.0f), tensor({3.0f, -4.0f})));
  CHECK(equal(floor_divide(2.0f, x), tensor({0.0f, -1.0f})));
}

TEST_CASE("the ops inside of a user's function are steps of a trace") {
  register_op("draws", [](const OpCall& call) { return call.input(0) + random::uniform({2}); });
  const auto traced = trace([](const Tensor& x) { return call_op("draws", {x}); });
  for (int i = 0; i < 6; ++i) traced(ones({2}));
  const std::string text = traced.explain();
  INFO(text);
  CHECK(text.find("runs eagerly") == std::string::npos);
}
}  // namespace reel::tests
