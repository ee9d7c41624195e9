// SPDX-License-Identifier: BSD-3-Clause
// Exceptions in the middle of streams, with buffers, threads and resumes; and extreme arguments.
#include <reel/reel.hpp>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Numbers = std::vector<std::int64_t>;
using Line = data::Pipeline<std::int64_t>;

Line stream_of(std::int64_t n) {
  return data::generate<std::int64_t>([n] {
    return [n, i = std::int64_t{0}](std::int64_t& x) mutable {
      return i < n ? (x = i++, true) : false;
    };
  });
}
/// Throws for these numbers.
auto bad(Numbers numbers) {
  return [numbers](std::int64_t i) {
    for (const std::int64_t each : numbers)
      if (i == each) throw std::runtime_error("bad " + std::to_string(i));
    return i;
  };
}
template <class T>
void append(Numbers& all, const T& x) {
  if constexpr (std::is_same_v<T, std::int64_t>)
    all.push_back(x);
  else if constexpr (std::is_same_v<T, Tensor>)
    for (const std::int64_t each : x.template values<std::int64_t>()) all.push_back(each);
  else
    append(all, reshape(x.batch, {x.batch.shape(0), -1})(reel::all, 0));
}
/// What all loops over a pipeline give, -1 for each exception.
template <class T>
Numbers everything(data::Pipeline<T> line, std::string* text = nullptr) {
  Numbers all;
  for (int loop = 0; loop < 20 && line.epoch() == 0; ++loop) try {
      for (const T& x : line) append(all, x);
    } catch (const Error& error) {
      all.push_back(-1);
      if (text) *text += error.what();
    }
  return all;
}
/// The same, but after `stop` elements another pipeline goes on from the state.
template <class T>
Numbers resumed(const data::Pipeline<T>& whole, std::size_t stop) {
  data::Pipeline<T> line = whole;
  std::size_t seen = 0;
  Numbers all;
  while (seen < stop && line.epoch() == 0) try {
      for (const T& x : line) {
        append(all, x);
        if (++seen == stop) break;
      }
    } catch (const Error&) {
      all.push_back(-1);
      ++seen;
    }
  const data::Pipeline<T> copy = line;  // opens its own pass at the state
  if (line.epoch() == 0)
    for (const std::int64_t x : everything(copy)) all.push_back(x);
  return all;
}
}  // namespace

TEST_CASE("an exception does not take the place of an element", "[cpu][data][threads]") {
  for (const int threads : {0, 2}) {
    const Line mapped = stream_of(10).map(bad({4}), {.threads = threads});
    CHECK(everything(mapped.take(4)) == Numbers{0, 1, 2, 3});
    CHECK(everything(mapped.batch(4)) == Numbers{0, 1, 2, 3, -1, 5, 6, 7, 8, 9});
    const Numbers all = {0, 1, 2, 3, -1, 5, 6, 7, 8, 9};
    CHECK(everything(mapped) == all);
    for (std::size_t stop = 0; stop < all.size(); ++stop) {
      INFO(threads << " threads, stop at " << stop);
      CHECK(resumed(mapped, stop) == all);
      CHECK(resumed(mapped.filter([](std::int64_t) { return true; }), stop) == all);
      CHECK(resumed(mapped.repeat(1), stop) == all);
    }
  }
}

TEST_CASE("an exception behind threads names its own item", "[cpu][data][threads]") {
  std::string text;
  everything(stream_of(100)
                 .map([](std::int64_t i) { return i; }, {.threads = 2})
                 .filter([](std::int64_t i) {
                   if (i == 40) throw std::runtime_error("here");
                   return true;
                 }),
             &text);
  INFO(text);
  CHECK(text.find("filter: item 40 ") != text.npos);
}

TEST_CASE("buffers keep elements around exceptions", "[cpu][data]") {
  const auto length = [](const Tensor& x) { return x.shape()[0]; };
  const auto sized = [](std::int64_t i) { return full({1 + i % 2, i == 6 ? 2 : 1}, i); };
  // Element 6 cannot be stacked with 4: both are lost, nothing else.
  const auto buckets =
      stream_of(12).map(sized).bucket_by_length(length, {.bounds = {1}, .batch = 2});
  const Numbers got = everything(buckets);
  CHECK(std::count(got.begin(), got.end(), -1) == 1);
  for (const std::int64_t i : {0, 1, 2, 3, 5, 7, 8, 9, 10, 11})
    CHECK(std::count(got.begin(), got.end(), i) > 0);
  // Each exception of a shuffled stream arrives.
  Numbers shuffled = everything(stream_of(10).map(bad({4, 5})).shuffle({.buffer = 3}));
  CHECK(std::count(shuffled.begin(), shuffled.end(), -1) == 2);
  CHECK(shuffled.size() == 10);
}

TEST_CASE("buckets go on behind each exception of their source", "[cpu][data]") {
  const auto parity = [](std::int64_t i) { return full({1 + i % 2}, i); };
  const auto length = [](const Tensor& x) { return x.shape()[0]; };
  const data::BucketOptions two = {.bounds = {1}, .batch = 2};
  // 3 follows a batch that is full, 6 and 7 follow each other, 11 is the last.
  const auto torn = stream_of(12).map(bad({3, 6, 7, 11})).map(parity).bucket_by_length(length, two);
  const Numbers all = everything(torn);
  CHECK(std::count(all.begin(), all.end(), -1) == 4);
  CHECK(all.size() == 12);
  for (int stop = 0; stop < 9; ++stop) {
    INFO("stop at " << stop);
    CHECK(resumed(torn, stop) == all);
  }
}

TEST_CASE("an element that buckets held may throw at a resume", "[cpu][data]") {
  std::vector<std::int64_t> now_bad, no_length;
  const auto length = [&](const Tensor& x) {
    for (const std::int64_t i : no_length)
      if (x(0).item<std::int64_t>() == i) throw std::runtime_error("no length");
    return x.shape()[0];
  };
  const auto buckets = stream_of(12)
                           .map([&](std::int64_t i) { return bad(now_bad)(i); })
                           .map([](std::int64_t i) { return full({1 + i % 3}, i); })
                           .bucket_by_length(length, {.bounds = {1, 2}, .batch = 3});
  auto line = buckets;
  for ([[maybe_unused]] const auto& x : line) break;  // 0, 3, 6; 1, 4, 2, 5 are held
  now_bad = {3, 4};                                   // 3 was given
  no_length = {2, 6};                                 // 6 was given
  auto rest = line;
  std::string text;
  Numbers got = everything(rest, &text);
  INFO(text);
  CHECK(text.find("bucket_by_length: item 2 ") != text.npos);
  CHECK(text.find("map: item 4 ") != text.npos);
  CHECK(std::count(got.begin(), got.end(), -1) == 2);
  std::erase(got, -1);
  std::sort(got.begin(), got.end());
  CHECK(got == Numbers{1, 5, 7, 8, 9, 10, 11});
}

TEST_CASE("a buffer refuses a source that is shorter at a resume", "[cpu][data]") {
  std::int64_t size = 0;
  const auto stream = data::generate<std::int64_t>([&size] {
    return [&size, i = std::int64_t{0}](std::int64_t& x) mutable {
      return i < size ? (x = i++, true) : false;
    };
  });
  const auto text_of_resume = [&](auto line) {
    size = 500;
    int seen = 0;
    for ([[maybe_unused]] const auto& x : line)
      if (++seen == 100) break;
    auto rest = line;
    size = 2;
    std::string text;
    everything(rest, &text);
    return text;
  };
  for (const std::string& text :
       {text_of_resume(stream.shuffle({.buffer = 6})),
        text_of_resume(
            stream.map([](std::int64_t i) { return full({1}, i); })
                .bucket_by_length([](const Tensor&) { return 1; }, {.bounds = {1}, .batch = 4}))}) {
    INFO(text);
    CHECK(text.find("state: expected a position of at most ") != text.npos);
  }
}

TEST_CASE("a generating function that throws is called once for each element", "[cpu][data]") {
  const Line line = data::generate<std::int64_t>([] {
    return [i = std::int64_t{0}](std::int64_t& x) mutable {
      x = i++;
      if (x == 2) throw std::runtime_error("two");
      return x < 200;
    };
  });
  std::string text;
  const Numbers all = everything(line, &text);
  CHECK(all.size() == 200);
  CHECK(text.find("item 2 ") != text.npos);
  for (const std::size_t stop : {1, 2, 3, 4, 10, 150}) CHECK(resumed(line, stop) == all);
}

TEST_CASE("a pipeline without end stops while its threads work", "[cpu][data][threads]") {
  for (int round = 0; round < 50; ++round) {
    auto line =
        stream_of(5).map([](std::int64_t i) { return i; }, {.threads = 2}).repeat().prefetch();
    int count = 0;
    for ([[maybe_unused]] const std::int64_t x : line)
      if (++count > round) break;
  }
}

TEST_CASE("a function that blocks holds back only what comes behind it", "[cpu][data][threads]") {
  std::atomic<bool> open = false, leaves = false;
  std::atomic<int> calls = 0;
  // A thread makes up to 64 elements at once, and is at most 4 times as many ahead.
  auto line = data::range(100'000).map(
      [&](std::int64_t i) {
        ++calls;
        while (i == 5000 && !open) std::this_thread::yield();
        return i == 3 ? throw std::runtime_error("a bad file") : i;
      },
      {.threads = 2});
  auto ended = line;
  std::int64_t sum = 0;
  const auto take_up_to = [&sum](Line& from, std::int64_t last) {
    for (const std::int64_t x : from)
      if (sum += x; x == last) break;
  };
  CHECK_THROWS_AS(take_up_to(line, 4000), data::ItemError);
  take_up_to(line, 4000);  // while a thread waits, or will wait
  CHECK(sum == 4000 * 4001 / 2 - 3);
  open = true;
  take_up_to(line, 9000);
  CHECK(sum == 9000 * 9001 / 2 - 3);

  open = false, calls = 0;
  CHECK_THROWS_AS(take_up_to(ended, 4000), data::ItemError);
  take_up_to(ended, 4000);
  std::thread opener([&] {
    while (!leaves) std::this_thread::yield();
    open = true;
  });
  leaves = true;
  ended = data::range(1);  // waits for its threads, which begin little more
  opener.join();
  CHECK(calls < 10'000);
}

TEST_CASE("names of sources have no control characters in errors", "[cpu][data]") {
  const auto fails = [](std::int64_t) -> std::int64_t { throw std::runtime_error("a bad file"); };
  const auto number = [](std::int64_t i) { return i; };
  auto named = data::from(3, number, "a\nb\x1b[31m").map(fails);
  std::string text;
  everything(named, &text);
  CHECK(text.find("map: item 0 of a\\x0ab\\x1b[31m(3): a bad file") != text.npos);
  CHECK(named.explain().starts_with("a\\x0ab\\x1b[31m(3)"));
  const std::string path = "names\n\x1b[31m.txt";
  std::ofstream(path) << "one\n";
  auto lines = data::lines({path}).map(
      [](const std::string&) -> std::int64_t { throw std::runtime_error("a bad file"); });
  everything(lines, &text);
  CHECK(text.find("map: item 0 (names\\x0a\\x1b[31m.txt: line 1): a bad file") != text.npos);
  std::remove(path.c_str());
}

TEST_CASE("extreme arguments of pipelines", "[cpu][data]") {
  const Line line = data::range(10);
  CHECK(everything(stream_of(10).batch(INT64_MAX)).size() == 10);
  CHECK(everything(line.batch(INT64_MAX / 2).map([](const Tensor& x) { return x.size(); })) ==
        Numbers{10});
  CHECK(everything(line.batch(std::int64_t{1} << 32)
                       .batch(std::int64_t{1} << 32, [](const std::vector<Tensor>& x) {
                         return static_cast<std::int64_t>(x.size());
                       })) == Numbers{1});
  CHECK(everything(stream_of(10).skip(INT64_MAX)).empty());
  auto endless = line.repeat().cache().take(5);
  CHECK_THROWS_AS(endless.begin(), Error);
  // The states of other shards, of an inner prefetch, and damaged ones are refused.
  auto first = line.shard(0, 4), second = line.shard(0, 2);
  auto inner = line.prefetch().batch(2), plain = line.batch(2);
  for ([[maybe_unused]] auto& x : first) break;
  for ([[maybe_unused]] auto& x : inner) break;
  const auto state_of = [](auto& from) {
    Tensor state;
    from.fields([&](std::string_view, Tensor& own) { state = own; });
    return state;
  };
  const auto load = [](auto& to, const Tensor& state) {
    to.fields([&](std::string_view, Tensor& own) { own = state; });
  };
  load(second, state_of(first));
  CHECK_THROWS_AS(second.begin(), Error);
  load(plain, state_of(inner));
  CHECK_THROWS_AS(plain.begin(), Error);
  auto whole = line;
  load(whole, state_of(whole) + tensor({std::int64_t{0}, std::int64_t{5000}}));
  CHECK_THROWS_AS(whole.begin(), Error);
}
}  // namespace reel::tests
