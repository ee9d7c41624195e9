// SPDX-License-Identifier: BSD-3-Clause
// The texts of errors: how names, lines and arguments are put together, and where long texts are
// cut.
#include <string>

#include <reel/reel.hpp>

#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr Caller caller{"/home/user/program.cpp", 7};
std::string text_of(Caller caller, std::string_view op, std::string_view argument,
                    std::string_view expected, std::string_view got, std::string_view advice = "") {
  try {
    fail<ShapeError>(caller, op, argument, expected, got, advice);
  } catch (const ShapeError& error) {
    return error.what();
  }
}
std::string memory_text(Caller caller, std::string_view op) {
  try {
    fail_memory(caller, op);
  } catch (const MemoryError& error) {
    return error.what();
  }
}
std::string cut(const std::string& text, std::size_t limit) {
  return text.size() > limit ? text.substr(0, limit - 3) + "..." : text;
}
}  // namespace

TEST_CASE("an error names the line, the op, the argument, and what was wrong") {
  CHECK(text_of(caller, "matmul", "a", "a matrix", "rank 1") ==
        "program.cpp:7: matmul: a: expected a matrix, got rank 1\n  at /home/user/program.cpp:7");
  CHECK(text_of({"program.cpp", 12}, "matmul", "", "a matrix", "rank 1", "Reshape it.") ==
        "program.cpp:12: matmul: expected a matrix, got rank 1\n  Reshape it.\n  at "
        "program.cpp:12");
  CHECK(text_of({}, "sum", "axis", "a\nnumber", "two\nlines\n") ==
        "sum: axis: expected a number, got two lines ");
  // A line of the standard library is not a line of the user.
  CHECK(text_of({"/usr/include/c++/12/bits/stl_function.h", 190}, "add", "b", "x", "y") ==
        "add: b: expected x, got y");
}

TEST_CASE("an error names each argument, by its place") {
  const Tensor x = ones({2, 3}), bytes = tensor({1, 2, 3}).to(DType::uint8), one = tensor(1.0f);
  const auto refused = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(text.find(": ") + 2, text.find('\n') - text.find(": ") - 2);
    }
    return "";
  };
  CHECK(refused([&] { bytes + 300; }) == "add: y: expected a number that fits uint8, got 300");
  CHECK(refused([&] { 300 + bytes; }) == "add: x: expected a number that fits uint8, got 300");
  CHECK(refused([&] { where(bytes > 1, bytes, 300); }) ==
        "where: y: expected a number that fits uint8, got 300");
  CHECK(refused([&] { where(bytes > 1, 300, bytes); }) ==
        "where: x: expected a number that fits uint8, got 300");
  CHECK(refused([&] { x + Tensor(); }) == "add: y: expected a tensor, got an undefined Tensor");
  CHECK(refused([&] { x + ones({4}); }) ==
        "add: y: expected a shape that broadcasts with (2, 3), got (4,)");
  CHECK(refused([&] {
          concat({x, x, Tensor()});
        }) == "concat: part 2: expected a tensor, got an undefined Tensor");
  CHECK(refused([&] { lstm(x, x, x, x, x); }) == "lstm: x: expected [time, batch, in], got (2, 3)");
  CHECK(refused([&] { layer_norm(one, one, one); }) ==
        "layer_norm: x: expected at least 1 axis, got ()");
  CHECK(refused([&] { matmul(one, x); }) == "matmul: x: expected at least 1 axis, got ()");
  CHECK(refused([&] { matmul(x, one); }) == "matmul: y: expected at least 1 axis, got ()");
  CHECK(refused([&] { matmul_add(one, x, x); }) == "matmul_add: x: expected a matrix, got ()");
  CHECK(refused([&] { matmul_add(x, one, x); }) == "matmul_add: y: expected a matrix, got ()");
  CHECK(refused([&] { zeros({2}, {.dtype = static_cast<DType>(dtype_count)}); }) ==
        "zeros: dtype: expected a DType, got 10");
  CHECK(refused([&] { zeros({2}, {.dtype = static_cast<DType>(255)}); }) ==
        "zeros: dtype: expected a DType, got 255");
  CHECK(refused([&] { x.to(static_cast<DType>(dtype_count)); }) ==
        "to: dtype: expected a DType, got 10");
  Variable v("v", x);
  CHECK(refused([&] { v(0).assign(ones({3}, {.dtype = DType::float64})); }) ==
        "assign: value: expected a dtype that promotes to float32, got float64");
  CHECK(refused([&] { v(0).assign(Tensor()); }) ==
        "assign: value: expected a tensor, got an undefined Tensor");
  CHECK(refused([&] { v.assign(Tensor()); }) ==
        "assign: value: expected a tensor, got an undefined Tensor");
  CHECK(refused([&] { v(0).assign(ones({2})); }) ==
        "assign: value: expected shape (3,) or a number, got (2,)");
}

TEST_CASE("an error names the user's function, and the op inside it") {
  {
    const CallerScope scope(caller, "Linear");
    CHECK(text_of({"other.cpp", 3}, "matmul", "a", "x", "y").substr(0, 52) ==
          "program.cpp:7: Linear: a of matmul: expected x, got ");
    CHECK(text_of({}, "matmul", "", "x", "y").substr(0, 48) ==
          "program.cpp:7: Linear: in matmul: expected x, go");
    CHECK(text_of({}, "Linear", "a", "x", "y").substr(0, 44) ==
          "program.cpp:7: Linear: a: expected x, got y\n");
    {
      const CallerScope inner({"inner.cpp", 1}, "Embedding");  // the user did not call this
      CHECK(text_of({}, "take", "x", "p", "q").substr(0, 33) ==
            "program.cpp:7: Linear: x of take:");
    }
    CHECK(text_of({}, "take", "x", "p", "q").substr(0, 33) == "program.cpp:7: Linear: x of take:");
    CHECK(memory_text({"other.cpp", 3}, "take") ==
          "program.cpp:7: Linear: memory: expected some for the call, got none from the system");
  }
  {
    const FunctionScope outer(caller, "layer_norm");
    {
      const FunctionScope inner({"inner.cpp", 1}, "mean");
      CHECK(text_of({}, "sum", "x", "p", "q").substr(0, 31) == "program.cpp:7: layer_norm: x: e");
    }
    CHECK(text_of({}, "sum", "x", "p", "q").substr(0, 31) == "program.cpp:7: layer_norm: x: e");
    CHECK(memory_text({}, "sum").substr(0, 33) == "program.cpp:7: layer_norm: memory");
    const CallerScope named({"inner.cpp", 1}, "LayerNorm");
    CHECK(text_of({}, "sum", "x", "p", "q").substr(0, 30) == "program.cpp:7: LayerNorm: x: e");
  }
  {
    const CallerScope scope(caller, "SumPool");  // another name that begins like that of the op
    CHECK(text_of({}, "sum", "x", "p", "q").substr(0, 28) == "program.cpp:7: SumPool: x of");
  }
  CHECK(text_of({}, "sum", "x", "p", "q") == "sum: x: expected p, got q");
}

TEST_CASE("a long text is cut part by part, and stands in full below") {
  const auto check = [](const std::string& file, const std::string& op, const std::string& argument,
                        const std::string& expected, const std::string& got) {
    const std::string end = ", got " + cut(got, 50);
    const std::string full =
        file + ":7: " + op + ": " + argument + ": expected " + expected + ", got " + got;
    const std::string start =
        cut(file, 50) + ":7: " + cut(op, 25) + ": " + cut(argument, 25) + ": ";
    const std::string first = start + cut("expected " + expected, 200 - start.size() - end.size());
    const std::string wanted = full.size() > 200 ? first + end + "\n  " + full : full;
    const std::string text = text_of({file.c_str(), 7}, op, argument, expected, got);
    CHECK(text == wanted + "\n  at " + file + ":7");
    CHECK(text.find('\n') <= 200);
  };
  const auto letters = [](char c, std::size_t n) { return std::string(n, c); };
  for (const std::size_t n : {20u, 25u, 26u, 49u, 50u, 51u, 100u, 300u}) {
    check(letters('f', n), "op", "x", letters('e', 140), "y");
    check("f.cpp", letters('o', n), "x", letters('e', 140), "y");
    check("f.cpp", "op", letters('a', n), letters('e', 140), "y");
    check("f.cpp", "op", "x", letters('e', 140), letters('g', n));
    check("f.cpp", "op", "x", letters('e', 100 + n), letters('g', 40));
    check(letters('f', n), letters('o', n), letters('a', n), letters('e', n), letters('g', n));
  }
  // The name fits exactly, or has a few characters more or less.
  for (const std::size_t n : {159u, 160u, 161u, 162u, 163u, 164u, 165u})
    check("f.cpp", "op", "x", letters('e', n), "y");
}

TEST_CASE("a text is not cut inside a letter") {
  for (std::size_t before = 0; before < 5; ++before) {
    const std::string op = std::string(before, 'o') + "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" +
                           std::string(8, 'p') + "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac";
    const std::string text = text_of(caller, op, "x", std::string(200, 'e'), "y");
    const std::string name = text.substr(15, text.find("...") - 15);
    INFO(text);
    REQUIRE(text.find("...") != text.npos);
    CHECK(op.substr(0, name.size()) == name);
    CHECK(name.size() <= 22);
    CHECK(name.size() >= 20);
    // A letter of several bytes is not cut: the next byte does not continue it.
    CHECK((static_cast<unsigned char>(op[name.size()]) & 0xc0) != 0x80);
  }
  // A text that has only continuation bytes becomes empty.
  const std::string text =
      text_of(caller, std::string(60, '\x80'), "x", std::string(200, 'e'), "y");
  CHECK(text.substr(0, 19) == "program.cpp:7: ...:");
}

TEST_CASE("a MemoryError has its text without asking for memory") {
  CHECK(memory_text(caller, "add") ==
        "program.cpp:7: add: memory: expected some for the call, got none from the system");
  CHECK(memory_text({}, "add") ==
        "add: memory: expected some for the call, got none from the system");
  CHECK(memory_text({"/usr/include/c++/12/vector", 3}, "add").substr(0, 5) == "add: ");
  const std::string name(70, 'n'), path = "/folder/" + std::string(80, 'p');
  CHECK(memory_text({path.c_str(), 9}, name) ==
        std::string(60, 'p') + ":9: " + std::string(50, 'n') +
            ": memory: expected some for the call, got none from the system");
  try {
    fail<MemoryError>(caller, "add", "x", "p", "q", "");
  } catch (const MemoryError& error) {
    CHECK(std::string(error.what()).substr(0, 30) == "program.cpp:7: add: x: expecte");
  }
}
}  // namespace reel::tests
