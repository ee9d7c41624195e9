// SPDX-License-Identifier: BSD-3-Clause
// int8 and int16 are stored, moved, converted and compared. No op computes in them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <reel/dlpack.hpp>
#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// All numbers of T, in order.
template <class T>
std::vector<T> all_of() {
  std::vector<T> numbers;
  for (int x = std::numeric_limits<T>::min(); x <= std::numeric_limits<T>::max(); ++x)
    numbers.push_back(static_cast<T>(x));
  return numbers;
}
template <class From, class To, class F>
std::vector<To> each(const std::vector<From>& from, const F& f) {
  std::vector<To> to;
  for (const From x : from) to.push_back(static_cast<To>(f(x)));
  return to;
}
/// x as an integer type: floating numbers are cut towards zero and end at the type's ends.
template <class To>
To cut(double x) {
  if (x != x) return 0;
  return static_cast<To>(std::trunc(std::clamp(x, double{std::numeric_limits<To>::min()},
                                               double{std::numeric_limits<To>::max()})));
}

/// The conversions from T, of all numbers, of a strided part and of a transposed matrix.
template <class T>
void check_widening() {
  const std::vector<T> numbers = all_of<T>();
  const Tensor x = tensor(numbers);
  const auto check = [&]<class To>(To, const auto& f) {
    const std::vector<To> wanted = each<T, To>(numbers, f);
    INFO(name_of(x.dtype()) << " to " << name_of(dtype_of<To>()));
    CHECK(x.to(dtype_of<To>()).template to_vector<To>() == wanted);
    std::vector<To> backwards(wanted.rbegin(), wanted.rend());
    CHECK(x(range({}, {}, -1)).to(dtype_of<To>()).template to_vector<To>() == backwards);
    const auto n = static_cast<std::int64_t>(numbers.size());
    const Tensor matrix = transpose(x.reshape({n / 16, 16}));
    CHECK(equal(transpose(matrix.to(dtype_of<To>())).reshape({n}), x.to(dtype_of<To>())));
  };
  const auto same = [](T v) { return v; };
  check(std::uint8_t(), same);
  check(std::int8_t(), same);
  check(std::int16_t(), same);
  check(std::int32_t(), same);
  check(std::int64_t(), same);
  check(float(), same);
  check(double(), same);
  CHECK(x.to(boolean).to_vector<bool>() == each<T, bool>(numbers, [](T v) { return v != 0; }));
  for (const DType half : {float16, bfloat16}) {
    const std::vector<float> got = x.to(half).to(float32).template to_vector<float>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const float wide = numbers[i];
      REQUIRE(got[i] == (half == float16 ? static_cast<float>(Float16(wide))
                                         : static_cast<float>(BFloat16(wide))));
    }
  }
}
/// The conversions to T of more elements than a tile has.
template <class T>
void check_narrowing() {
  constexpr DType dtype = dtype_of<T>();
  const auto check = [&](const auto& numbers, const auto& f) {
    using From = typename std::decay_t<decltype(numbers)>::value_type;
    const Tensor x = tensor(numbers);
    INFO(name_of(x.dtype()) << " to " << name_of(dtype));
    CHECK(x.to(dtype).template to_vector<T>() == each<From, T>(numbers, f));
    std::vector<From> even;
    for (std::size_t i = 0; i < numbers.size(); i += 2) even.push_back(numbers[i]);
    CHECK(x(range({}, {}, 2)).to(dtype).template to_vector<T>() == each<From, T>(even, f));
  };
  std::vector<std::int32_t> words;
  std::vector<std::int64_t> long_words;
  std::vector<float> floats;
  std::vector<double> doubles;
  for (int i = -700; i < 700; ++i) {
    words.push_back(i * 1'000'003);
    long_words.push_back(std::int64_t{i} * 10'000'000'000'033);
    floats.push_back(static_cast<float>(i) * 60.3f);
    doubles.push_back(i * 0.37);
  }
  for (const float x : {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 127.9f, -128.9f, 32767.9f})
    floats.push_back(x);
  doubles.insert(doubles.end(), {NAN, 1e300, -1e300, 2147483648.0, -32768.5, 127.99999});
  const auto wrapped = [](auto x) { return static_cast<T>(x); };
  check(words, wrapped);
  check(long_words, wrapped);
  check(all_of<std::uint8_t>(), wrapped);
  check(floats, cut<T>);
  check(doubles, cut<T>);
  CHECK(equal(tensor({true, false}).to(dtype), tensor({1, 0})));
  for (const DType half : {float16, bfloat16}) {
    const Tensor narrow = tensor(floats).to(half);
    CHECK(narrow.to(dtype).template to_vector<T>() ==
          each<float, T>(narrow.to(float32).to_vector<float>(), cut<T>));
  }
  CHECK(zeros({0, 3}).to(dtype).shape() == Shape({0, 3}));
}
}  // namespace

TEST_CASE("int8 and int16 convert to each dtype and from each dtype as C++ does, floats cut") {
  check_widening<std::int8_t>();
  check_widening<std::int16_t>();
  check_narrowing<std::int8_t>();
  check_narrowing<std::int16_t>();
}

TEST_CASE("C++ numbers of 8 and 16 bits make tensors, and tensors give them back") {
  CHECK(tensor(std::int8_t{-5}).item<std::int8_t>() == -5);
  CHECK(tensor(std::int16_t{-300}).item<std::int16_t>() == -300);
  CHECK(tensor(std::int16_t{-300}).item<std::int64_t>() == -300);
  CHECK(tensor(std::int8_t{-5}).item<double>() == -5);
  const std::vector<std::int16_t> words = {1, -2, 30000};
  CHECK(tensor(words).dtype() == int16);
  CHECK(from_span(words, {3}).to_vector<std::int16_t>() == words);
  CHECK(from_span(words, {3}).values<std::int16_t>()[2] == 30000);
  CHECK(tensor<std::int8_t>({{1, -128}, {127, 0}}).dtype() == int8);
  CHECK(tensor<std::int8_t>(std::vector<int>{-128}).item<std::int8_t>() == -128);
  CHECK(tensor(std::vector<char>{'a'}).dtype() == int64);
  CHECK(full({2}, -7, int8).to_vector<std::int8_t>() == std::vector<std::int8_t>{-7, -7});
  CHECK(full_like(tensor(words), -2).dtype() == int16);
  CHECK(arange(-2, 2, int16).to_vector<std::int16_t>() == std::vector<std::int16_t>{-2, -1, 0, 1});
  CHECK(equal(eye(2, int8), tensor({{1, 0}, {0, 1}})));
  CHECK(to_string(tensor<std::int8_t>({-128, 7})) == "[-128,    7]");
  CHECK(to_string(tensor(words)) == "[    1,    -2, 30000]");
  // A number of 8 or 16 bits beside a tensor counts as an int.
  CHECK((tensor({1, 2}) + std::int16_t{3}).dtype() == int32);
  CHECK((tensor({true}) + std::int8_t{3}).dtype() == int32);
  CHECK((tensor({1.5f}) * std::int16_t{2}).item<float>() == 3);
  check_refused<DTypeError>([] { tensor<std::int8_t>({128}); }, "a number that fits int8, got 128");
  check_refused<DTypeError>([] { full({2}, -32769, int16); }, "a number that fits int16");
  check_refused<DTypeError>([] { arange(0, 129, int8); }, "a number that fits int8, got 128");
  check_refused<DTypeError>([] { tensor(std::int8_t{1}).item<std::int16_t>(); },
                            "the C++ type of the tensor's int8, got int16");
}

TEST_CASE("tensors of 8 and 16 bits are moved by every op that moves") {
  for (const DType dtype : {int8, int16}) {
    INFO(dtype);
    const Tensor wide = arange(-3, 3).reshape({2, 3}) * 40, x = wide.to(dtype);
    const auto check = [&](const auto& f) {
      const Tensor y = f(x);
      CHECK(y.dtype() == dtype);
      CHECK(equal(y.to(int64), f(wide)));
    };
    const Tensor rows = tensor({1, 0, 1}), places = tensor({{2, 0}, {0, 1}});
    check([](const Tensor& t) { return t.reshape({3, 2}); });
    check([](const Tensor& t) { return transpose(t); });
    check([](const Tensor& t) { return t(all, range({}, {}, -2)); });
    check([](const Tensor& t) { return concat({t, transpose(t.reshape({3, 2}))}); });
    check([](const Tensor& t) { return stack({t, t}, 1); });
    check([](const Tensor& t) { return broadcast_to(t(0), {4, 3}); });
    check([](const Tensor& t) { return pad(t, {{1, 2}, {0, 1}}); });
    check([](const Tensor& t) { return flip(t, 1); });
    check([](const Tensor& t) { return roll(t, 1, 1); });
    check([](const Tensor& t) { return repeat(t, 2, 0); });
    check([&](const Tensor& t) { return take(t, rows); });
    check([&](const Tensor& t) { return gather(t, places, 1); });
    check([&](const Tensor& t) { return t(rows, tensor({0, 2, 1})); });
    check([&](const Tensor& t) { return where(tensor({true, false, true}), t, t(0)); });
    check([&](const Tensor& t) { return where(wide > 0, t, 7); });
    check([&](const Tensor& t) { return masked_select(t, wide > 0); });
    check([&](const Tensor& t) { return scatter(t, tensor({1}), t(range(0, 1))); });
    const auto traced = trace([&](Tensor t) {
      return concat({transpose(t), t(all, range(0, 2))});
    });
    for (int turn = 0; turn < 4; ++turn)
      CHECK(equal(traced(x), concat({transpose(x), x(all, range(0, 2))})));
    Variable v("v", zeros({2, 3}, dtype));
    v.assign(x);
    v(0).assign(x(1));
    CHECK(equal(v(0), wide(1)));
    v.assign(5);
    CHECK(equal(v, full({2, 3}, 5)));
    const Tensor large = arange(0, 40'000).reshape({200, 200}) % 100;
    CHECK(equal(transpose(large.to(dtype)).reshape({40'000}), transpose(large).reshape({40'000})));
  }
}

TEST_CASE("tensors of 8 and 16 bits are compared, and take part in ops of another dtype") {
  const Tensor x = tensor<std::int8_t>({-128, 0, 127}), y = tensor<std::int16_t>({-128, 1, 300});
  using Truths = std::vector<bool>;
  CHECK((x == y).to_vector<bool>() == Truths{true, false, false});
  CHECK((x < y).to_vector<bool>() == Truths{false, true, true});
  CHECK((x >= 0).to_vector<bool>() == Truths{false, true, true});
  CHECK((y < 40'000).to_vector<bool>() == Truths{true, true, true});
  CHECK((x > -0.5).to_vector<bool>() == Truths{false, true, true});
  CHECK((x == tensor<std::uint8_t>({128, 0, 127})).to_vector<bool>() == Truths{false, true, true});
  CHECK(equal(x, tensor({-128, 0, 127})));
  CHECK_FALSE(equal(x, y));
  CHECK(allclose(x, x.to(float32)));
  CHECK(static_cast<bool>(tensor(std::int8_t{-1})));
  CHECK(equal(x + tensor({1, 1, 1}), tensor({-127, 1, 128})));
  CHECK(equal(y * tensor({0.5f, 0.5f, 0.5f}), tensor({-64.0f, 0.5f, 150.0f})));
  CHECK(equal(y / 2, tensor({-64.0f, 0.5f, 150.0f})));
  CHECK(equal(mean(y, 0), tensor(173.0f / 3)));
  CHECK(concat({x, y}).dtype() == int16);
  CHECK(concat({x, tensor<std::uint8_t>({255})}).dtype() == int16);
  CHECK(nonzero(x).shape() == Shape({2, 1}));
}

TEST_CASE("an op that would compute in 8 or 16 bits names itself, the dtype and what to do") {
  for (const DType dtype : {int8, int16}) {
    const Tensor x = ones({2, 2}, dtype), truth = tensor({true, true}), rows = zeros({2}, int64);
    const std::string cause = ": expected a dtype with arithmetic, got ";
    const auto refuse = [&](const char* argument, const auto& f, Caller caller = Caller::here()) {
      check_refused<DTypeError>(f, argument + cause + std::string(name_of(dtype)), caller);
      CHECK_THROWS_WITH(f(), Catch::Contains("Convert it first: x.to(DType::int32) or "
                                             "x.to(DType::float32)."));
    };
    refuse("add: x", [&] { x + x; });
    refuse("add: x", [&] { x + 1; });
    refuse("add: x", [&] { x + truth; });
    refuse("negative: x", [&] { -x; });
    refuse("bitwise_and: x", [&] { x& x; });
    refuse("logical_not: x", [&] { logical_not(x); });
    refuse("sum: x", [&] { sum(x); });
    refuse("max: x", [&] { max(x, 0); });
    refuse("argmax: x", [&] { argmax(x); });
    refuse("any: x", [&] { any(x); });
    refuse("cumsum: x", [&] { cumsum(x); });
    refuse("sort: x", [&] { sort(x); });
    refuse("argsort: x", [&] { argsort(x); });
    refuse("unique: x", [&] { unique(x); });
    refuse("histogram: x", [&] { histogram(x, 4, 0, 4); });
    refuse("scatter_add: updates", [&] { scatter_add(x, rows, x); });
    refuse("scatter_max: x", [&] { scatter_max(x, rows, x); });
    refuse("segment_max: x", [&] { segment_max(x, rows, 2); });
    Variable v("v", x);
    refuse("assign_add: variable", [&] { v.assign_add(x); });
    check_refused<DTypeError>([&] { matmul(x, x); }, "matmul: x: expected a floating dtype");
    check_refused<DTypeError>([&] { take(x, x); }, "take: indices: expected uint8, int32 or int64");
    check_refused<DTypeError>([&] { x(ones({2}, dtype)); }, "expected uint8, int32 or int64");
    check_refused<DTypeError>([&] { one_hot(x, 3); }, "one_hot: indices: expected uint8, int32");
    check_refused<DTypeError>(
        [&] {
          cross_entropy(ones({2, 3}), ones({2}, dtype));
        },
        "cross_entropy: labels: expected uint8, int32 or int64");
    GradientTape tape;
    CHECK_THROWS_AS(tape.watch(x), Error);
  }
}

TEST_CASE("arrays of DLPack and saved graphs keep 8 and 16 bits", "[cpu]") {
  const Folder folder;
  for (const DType dtype : {int8, int16}) {
    const Tensor x = (arange(-4, 4) * 30).to(dtype);
    auto* const array = to_dlpack(x);
    CHECK(array->dl_tensor.dtype.code == dlpack::code_int);
    CHECK(array->dl_tensor.dtype.bits == 8 * size_of(dtype));
    const Tensor back = from_dlpack(array);
    CHECK(back.dtype() == dtype);
    CHECK(back.to_vector<std::int64_t>() ==
          std::vector<std::int64_t>{-120, -90, -60, -30, 0, 30, 60, 90});
    const Variable table("table", x);
    auto f = trace([&](Tensor rows) { return named(take(table, rows), "taken"); });
    const Tensor rows = tensor({7, 0});
    const Tensor taken = f(rows);
    io::save_graph(folder.file("g"), f.graph(rows));
    const Graph graph = io::load_graph(folder.file("g"));
    const Tensor again =
        run(graph, {.feed = {{"argument 0", rows}}, .fetch = {"taken"}}).at("taken");
    CHECK(again.dtype() == dtype);
    CHECK(equal(again, taken));
    CHECK(equal(taken, tensor({90, -120})));
  }
}
}  // namespace reel::tests
