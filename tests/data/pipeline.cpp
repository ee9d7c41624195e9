// SPDX-License-Identifier: BSD-3-Clause
// Pipelines of steps: their order, their state, their threads and their errors.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <reel/data/sources.hpp>
#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// Calls f and finds each of the parts in its error.
template <class E = Error>
void check_error(const auto& f, std::initializer_list<std::string_view> parts) {
  std::string text = "no error";
  try {
    f();
  } catch (const E& error) {
    text = error.what();
  }
  INFO(text);
  for (const std::string_view part : parts) CHECK(text.find(part) != text.npos);
}
using Numbers = std::vector<std::int64_t>;
using Line = data::Pipeline<std::int64_t>;

struct Example {
  Tensor x, y;
  REEL_FIELDS(x, y)
};

template <class T>
std::vector<T> rest_of(data::Pipeline<T>& pipeline) {
  std::vector<T> all;
  for (T& x : pipeline) all.push_back(x);
  return all;
}
/// A stream of the numbers 0 to n - 1.
Line stream_of(std::int64_t n) {
  return data::generate<std::int64_t>([n] {
    return [n, i = std::int64_t{0}](std::int64_t& x) mutable {
      return i < n ? (x = i++, true) : false;
    };
  });
}
Numbers numbers(const Tensor& x) {
  const auto values = x.values<std::int64_t>();
  return {values.begin(), values.end()};
}
/// Saves one pipeline and loads it into another.
template <class T>
void hand_over(const data::Pipeline<T>& from, data::Pipeline<T>& to) {
  const Folder folder;
  io::save(folder.file("state.safetensors"), from);
  io::load(folder.file("state.safetensors"), to);
}
/// Stops after each number of elements; the rest must be that of a pipeline that was not stopped.
template <class T>
void check_every_stop(const std::function<data::Pipeline<T>(int)>& make,
                      const std::function<Numbers(const T&)>& text) {
  auto whole = make(0);
  std::vector<Numbers> all;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const T& x : whole) all.push_back(text(x));
  for (std::size_t stop = 0; stop < all.size(); ++stop) {
    auto stopped = make(static_cast<int>(stop % 3));
    std::size_t seen = 0;
    while (seen < stop)
      for (const T& x : stopped) {
        REQUIRE(text(x) == all[seen]);
        if (++seen == stop) break;
      }
    auto resumed = make(static_cast<int>((stop + 1) % 3));
    hand_over(stopped, resumed);
    for (int loop = 0; loop < 4 && seen < all.size(); ++loop)
      for (const T& x : resumed) {
        REQUIRE(text(x) == all[seen]);
        if (++seen == all.size()) break;
      }
    REQUIRE(seen == all.size());
  }
}
}  // namespace

TEST_CASE("the order and the values of a pipeline do not depend on its threads",
          "[cpu][data][threads]") {
  const auto make = [](int threads) {
    return data::range(1000)
        .shuffle({.seed = 3})
        .map(
            [](std::int64_t i, Generator& own) {
              const GeneratorScope scope(own);
              return Example{random::normal({2}) + static_cast<float>(i), random::uniform({})};
            },
            {.threads = threads, .seed = 5})
        .batch(64)
        .prefetch();
  };
  std::vector<std::vector<float>> first;
  for (const int threads : {0, 1, 2, 7}) {
    seed(static_cast<std::uint64_t>(threads));  // of the thread of the loop: it must not matter
    auto pipeline = make(threads);
    std::vector<std::vector<float>> all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto [x, y] : pipeline) {
        const auto a = x.values<float>(), b = y.values<float>();
        all.emplace_back(a.begin(), a.end());
        all.emplace_back(b.begin(), b.end());
      }
    CHECK(all.size() == 2 * 2 * 16);
    if (first.empty()) first = all;
    CHECK(all == first);
  }
  CHECK(first[0] != first[32]);
}

TEST_CASE("ops in map() draw from the element's own random numbers", "[cpu][data]") {
  auto pipeline = data::range(5).map([](std::int64_t) { return random::normal({}); }, {.seed = 1});
  std::vector<float> first, again;
  for (const Tensor& x : pipeline) first.push_back(x.item<float>());
  auto skipped =
      data::range(5).map([](std::int64_t) { return random::normal({}); }, {.seed = 1}).skip(3);
  for (const Tensor& x : skipped) again.push_back(x.item<float>());
  CHECK(again == std::vector<float>(first.begin() + 3, first.end()));
  CHECK(std::set<float>(first.begin(), first.end()).size() == 5);
}

TEST_CASE("functions of map() see the same on each thread", "[cpu][data][threads]") {
  const TrainScope evaluating(false);
  const AutocastScope autocast;
  for (const int threads : {0, 2}) {
    auto line = data::range(4).map(
        [](std::int64_t) {
          return std::pair(training(), matmul(ones({2, 2}), ones({2, 2})).dtype());
        },
        {.threads = threads});
    for (const auto& [trains, dtype] : line) {
      CHECK(trains);
      CHECK(dtype == float32);
    }
  }
  // Two steps with one seed draw different numbers.
  const auto draw = [](auto&&...) { return random::uniform({}).item<float>(); };
  const auto first = data::range(5).map(draw), second = data::range(5).map(draw).map(draw);
  for (auto& [a, b] : data::zip(first, second)) CHECK(a != b);
}

TEST_CASE("a pipeline stops and resumes at each step", "[cpu][data][threads]") {
  const auto same = [](const Tensor& x) { return numbers(x); };
  SECTION("indexed") {
    check_every_stop<Tensor>(
        [](int threads) {
          return data::range(103)
              .shuffle({.seed = 7})
              .map([](std::int64_t i) { return 3 * i; }, {.threads = threads})
              .batch(5)
              .prefetch();
        },
        same);
  }
  SECTION("a filter, and a batch of a stream") {
    check_every_stop<Tensor>(
        [](int threads) {
          return data::range(200)
              .shuffle({.seed = 7})
              .filter([](std::int64_t i) { return i % 3 != 1; })
              .map([](std::int64_t i) { return 3 * i; }, {.threads = threads})
              .batch(5);
        },
        same);
  }
  SECTION("a stream's buffer") {
    check_every_stop<Tensor>(
        [](int threads) {
          return stream_of(399)
              .shuffle({.seed = 2, .buffer = 16})
              .map([](std::int64_t i) { return 3 * i; }, {.threads = threads})
              .batch(2);
        },
        same);
  }
  SECTION("buckets of a stream's buffer") {
    check_every_stop<data::Padded<Tensor>>(
        [](int threads) {
          return stream_of(150)
              .shuffle({.seed = 2, .buffer = 20})
              .map([](std::int64_t i) { return full({1 + i * i % 11}, i); }, {.threads = threads})
              .bucket_by_length([](const Tensor& x) { return x.shape()[0]; },
                                {.bounds = {2, 5, 9}, .batch = 4});
        },
        [](const data::Padded<Tensor>& x) { return numbers(reshape(x.batch, {-1})); });
  }
  SECTION("zip, interleave, take, repeat") {
    check_every_stop<Tensor>(
        [](int threads) {
          auto odd = stream_of(90).filter([](std::int64_t i) { return i % 2 == 1; });
          auto mixed =
              data::interleave<std::int64_t>({odd, data::range(1000, 1020), stream_of(7)}, 3);
          return data::zip(mixed.repeat(2), stream_of(500).skip(30).shard(1, 3))
              .map(
                  [](std::pair<std::int64_t, std::int64_t> x) {
                    return 10000 * x.first + x.second;
                  },
                  {.threads = threads})
              .take(130)
              .batch(1);
        },
        same);
  }
}

TEST_CASE("random pipelines agree with a model made of lists", "[cpu][data][threads]") {
  std::mt19937_64 random(11);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 1000; ++round) {
    const std::int64_t n = below(4) == 0 ? below(3) : below(300);
    Numbers model(static_cast<std::size_t>(n));
    std::iota(model.begin(), model.end(), 0);
    Line line = below(2) ? data::range(n) : stream_of(n);
    std::string text = std::to_string(n);
    const std::int64_t steps = below(6);
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t a = below(30), b = 1 + below(4);
      const auto threads = static_cast<int>(below(8) == 0 ? 2 : 0);
      Numbers next;
      const std::int64_t kind = below(11);
      text += " " + std::to_string(kind) + "(" + std::to_string(a) + "," + std::to_string(b) + ")";
      switch (kind) {
        case 0:
          line = line.map([a](std::int64_t x) { return 7 * x + a; }, {.threads = threads});
          for (const std::int64_t x : model) next.push_back(7 * x + a);
          break;
        case 1:
          line = line.filter([b](std::int64_t x) { return x % (b + 1) != 0; });
          for (const std::int64_t x : model)
            if (x % (b + 1) != 0) next.push_back(x);
          break;
        case 2:
          line = line.take(a);
          next.assign(model.begin(), model.begin() + std::min<std::int64_t>(a, std::ssize(model)));
          break;
        case 3:
          line = line.skip(a);
          next.assign(model.begin() + std::min<std::int64_t>(a, std::ssize(model)), model.end());
          break;
        case 4:
          line = line.shard(a % b, b);
          for (std::int64_t i = a % b; i < std::ssize(model); i += b)
            next.push_back(model[static_cast<std::size_t>(i)]);
          break;
        case 5: {  // each round is an epoch of the steps before
          if (std::ssize(model) > 300) continue;
          Line copy = line;
          for (std::int64_t i = 0; i < b; ++i) {
            const Numbers epoch = rest_of(copy);
            REQUIRE((i > 0 || epoch == model));
            next.insert(next.end(), epoch.begin(), epoch.end());
          }
          line = line.repeat(b);
          break;
        }
        case 6:
          line = line.batch(b,
                            [](const Numbers& group) {
                              return std::accumulate(
                                  group.begin(), group.end(), std::int64_t{0},
                                  [](std::int64_t x, std::int64_t y) { return 31 * x + y; });
                            },
                            {.drop_rest = a % 2 == 0});
          for (std::int64_t i = 0; i + (a % 2 == 0 ? b : 1) <= std::ssize(model); i += b) {
            std::int64_t hash = 0;
            for (std::int64_t j = i; j < std::min(i + b, std::int64_t(std::ssize(model))); ++j)
              hash = 31 * hash + model[static_cast<std::size_t>(j)];
            next.push_back(hash);
          }
          break;
        case 7:
          line = data::zip(line, data::range(5, 5 + 8 * a))
                     .map([](std::pair<std::int64_t, std::int64_t> x) {
                       return x.first - 2 * x.second;
                     });
          for (std::int64_t i = 0; i < std::min<std::int64_t>(8 * a, std::ssize(model)); ++i)
            next.push_back(model[static_cast<std::size_t>(i)] - 2 * (5 + i));
          break;
        case 8: {
          line = data::interleave<std::int64_t>({line, data::range(a)}, b);
          std::size_t i = 0;
          std::int64_t j = 0;
          while (i < model.size() || j < a) {
            for (std::int64_t k = 0; k < b && i < model.size(); ++k) next.push_back(model[i++]);
            for (std::int64_t k = 0; k < b && j < a; ++k) next.push_back(j++);
          }
          break;
        }
        case 9:
          line = line.cache();
          next = model;
          break;
        default: {  // a permutation; the model takes its order
          line = line.shuffle({.seed = static_cast<std::uint64_t>(a), .buffer = 1 + a});
          Line copy = line;
          next = rest_of(copy);
          Numbers sorted = next, all = model;
          std::sort(sorted.begin(), sorted.end());
          std::sort(all.begin(), all.end());
          INFO(text);
          REQUIRE(sorted == all);
        }
      }
      model = std::move(next);
    }
    INFO(round << ": " << text);
    if (line.size() >= 0) REQUIRE(line.size() == std::ssize(model));
    const auto stop = static_cast<std::size_t>(below(std::ssize(model) + 1));
    Line other = line;
    Numbers seen;
    if (stop > 0)
      for (const std::int64_t x : line) {
        seen.push_back(x);
        if (seen.size() == stop) break;
      }
    if (below(2)) {
      hand_over(line, other);
    } else {
      other = line;
    }
    for (const std::int64_t x : other) seen.push_back(x);
    REQUIRE(seen == model);
  }
}

TEST_CASE("the state of a pipeline is short", "[cpu][data]") {
  auto indexed = data::range(100000).shuffle().batch(32).prefetch();
  int steps = 0;
  for ([[maybe_unused]] auto& x : indexed)
    if (++steps == 1000) break;
  indexed.fields([](std::string_view, Tensor& state) { CHECK(state.size() == 2); });
  auto buffered = stream_of(100000).shuffle({.buffer = 1000}).batch(32);
  steps = 0;
  for ([[maybe_unused]] auto& x : buffered)
    if (++steps == 1000) break;
  buffered.fields([](std::string_view, Tensor& state) { CHECK(state.size() < 20); });
}

TEST_CASE("a checkpoint keeps the position of a pipeline", "[cpu][data]") {
  nn::Linear model(2, 1);
  auto train = data::range(10).shuffle({.seed = 1});
  const Numbers all = rest_of(train);
  train = data::range(10).shuffle({.seed = 1});
  const Folder folder;
  const std::string state_file = folder.file("state.safetensors");
  for ([[maybe_unused]] const std::int64_t x : train) {
    io::save(state_file, model, train);
    break;
  }
  auto other = data::range(10).shuffle({.seed = 1});
  io::load(state_file, model, other);
  CHECK(rest_of(other) == Numbers(all.begin() + 1, all.end()));
  io::load(state_file, model);  // the model alone
}

TEST_CASE("a state of another pipeline is refused", "[cpu][data]") {
  auto train = data::range(10).shuffle({.seed = 1});
  for ([[maybe_unused]] const std::int64_t x : train) break;
  for (auto other : {data::range(10).shuffle({.seed = 2}), data::range(11).shuffle({.seed = 1}),
                     data::range(10), stream_of(10)}) {
    hand_over(train, other);
    check_error([&] { other.begin(); }, {"a state of ", "another pipeline"});
  }
}

TEST_CASE("a loop goes through the rest of the epoch", "[cpu][data]") {
  auto line = data::range(6).shuffle({.seed = 4});
  Numbers seen;
  CHECK(line.epoch() == 0);
  for (const std::int64_t x : line) {
    seen.push_back(x);
    if (seen.size() == 2) break;
  }
  Line copy = line;
  for (const std::int64_t x : line) seen.push_back(x);
  CHECK(line.epoch() == 1);
  Numbers sorted = seen;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == Numbers{0, 1, 2, 3, 4, 5});
  CHECK(rest_of(copy) == Numbers(seen.begin() + 2, seen.end()));
  CHECK(rest_of(line) != seen);  // the next epoch
}

TEST_CASE("an exception arrives in its turn with its item", "[cpu][data][threads]") {
  const auto wrong_at = [](std::int64_t bad) {
    return [bad](std::int64_t i) {
      if (i == bad) throw std::runtime_error("a bad file");
      return i;
    };
  };
  for (const int threads : {0, 1, 3})
    for (const bool indexed : {true, false}) {
      auto line =
          (indexed ? data::range(200) : stream_of(200)).map(wrong_at(77), {.threads = threads});
      Numbers seen;
      try {
        for (const std::int64_t x : line) seen.push_back(x);
        FAIL("no exception");
      } catch (const data::ItemError& error) {
        const std::string text = error.what();
        CHECK(text.find("pipeline.cpp:") != text.npos);
        CHECK(text.find("map: item 77") != text.npos);
        CHECK(text.find("a bad file") != text.npos);
        CHECK_THROWS_AS(std::rethrow_exception(error.cause()), std::runtime_error);
      }
      CHECK(seen.size() == 77);
      const Numbers rest = rest_of(line);  // goes on behind the item
      REQUIRE(rest.size() == 122);
      CHECK(rest[0] == 78);
      auto careful = (indexed ? data::range(200) : stream_of(200))
                         .map(wrong_at(77), {.threads = threads})
                         .skip_errors()
                         .batch(50);
      std::int64_t count = 0;
      for (const Tensor& x : careful) count += x.size();
      CHECK(count == 199);
    }
  auto shuffled = data::range(100).shuffle({.seed = 1}).map(wrong_at(30));
  check_error([&] { rest_of(shuffled); }, {"item 30 of range(100)"});
  auto filtered = data::range(100).filter(
      [](std::int64_t i) -> bool { return i == 12 ? throw std::runtime_error("no") : i % 2; });
  check_error([&] { rest_of(filtered); }, {"filter: item 12 of range(100): no"});
  auto ragged = data::range(4).map([](std::int64_t i) { return ones({i == 2 ? 3 : 2}); }).batch(4);
  check_error([&] { rest_of(ragged); }, {"element 2", "(3,)", "begins with item 0 of range(4)"});
  auto strange = data::range(3).map([](std::int64_t) -> std::int64_t { throw 5; });
  CHECK_THROWS_AS(rest_of(strange), data::ItemError);
}

TEST_CASE("a source that cannot be opened is opened again", "[cpu][data]") {
  int opens = 0;
  const auto source = data::stream("flaky", [&opens](data::Place place) {
    if (++opens == 2) throw IoError("the disk is away");
    struct Count final : data::Reader<int> {
      bool next(int& x) override { return at < 100 ? (x = static_cast<int>(at++), true) : false; }
      data::Place place() const override { return {0, at}; }
      std::string where() const override { return "a number"; }
      std::int64_t at;
    };
    auto reader = make_owned<Count>();
    reader->at = place.offset;
    return reader;
  });
  for (const int threads : {0, 2}) {
    opens = 0;
    auto line = source.map([](int x) { return x; }, {.threads = threads}).repeat(2).prefetch();
    int count = 0;
    CHECK_THROWS_AS(
        [&] {
          for ([[maybe_unused]] const int x : line) ++count;
        }(),
        IoError);
    for ([[maybe_unused]] const int x : line) ++count;
    CHECK(count == 200);
  }
}

TEST_CASE("the threads of a pipeline end with it", "[cpu][data][threads][proc]") {
  const auto threads_now = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = threads_now();
  for (int round = 0; round < 20; ++round) {
    auto line = stream_of(100000)
                    .map([](std::int64_t i) { return i; }, {.threads = 2})
                    .map([](std::int64_t i) { return i; }, {.threads = 2})
                    .batch(8)
                    .prefetch();
    int count = 0;
    for ([[maybe_unused]] const Tensor& x : line)
      if (++count > round) break;
    const auto& same = line;
    if (round % 2) line = same;  // a copy goes on by itself
  }
  CHECK(threads_now() == before);
}

TEST_CASE("the child of a fork goes on with its own threads", "[cpu][data][fork]") {
  auto line = data::range(1000).map([](std::int64_t i) { return i; }, {.threads = 2}).prefetch();
  std::int64_t next = 0;
  for (const std::int64_t x : line)
    if (next = x + 1; next == 100) break;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    bool right = true;
    for (const std::int64_t x : line) right = right && x == next++;
    ::_exit(right && next == 1000 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const Numbers rest = rest_of(line);
  CHECK(rest.size() == 900);
}

TEST_CASE("batches of structs, pairs, numbers and other things", "[cpu][data]") {
  auto rows = data::rows(Example{reshape(arange(0, 12), {6, 2}), arange(0, 6)}).batch(4);
  std::vector<std::string> text;
  for (auto [x, y] : rows) text.push_back(to_string(x) + to_string(y));
  REQUIRE(text.size() == 2);
  CHECK(text[1] == "[[ 8,  9],\n [10, 11]][4, 5]");
  auto pairs =
      data::zip(data::range(3), data::from(std::vector<std::string>{"a", "b", "c"})).batch(2);
  for (auto [i, word] : pairs) {
    CHECK(i.shape()[0] == static_cast<std::int64_t>(word.size()));
    break;
  }
  auto padded = data::from(std::vector<Tensor>{arange(0, 1), arange(0, 3), arange(0, 0)})
                    .padded_batch(3, {.value = -1});
  for (auto [batch, lengths] : padded) {
    CHECK(to_string(batch) == "[[ 0, -1, -1],\n [ 0,  1,  2],\n [-1, -1, -1]]");
    CHECK(numbers(lengths) == Numbers{1, 3, 0});
  }
  CHECK(data::range(10).batch(4).size() == 3);
  CHECK(data::range(10).batch(4, {.drop_rest = true}).size() == 2);
}

TEST_CASE("bad arguments of pipelines are errors", "[cpu][data]") {
  const Line line = data::range(10);
  check_error([&] { line.batch(0); }, {"batch: count: expected at least 1, got 0"});
  CHECK_THROWS_AS(line.shuffle({.buffer = 0}), Error);
  CHECK_THROWS_AS(line.map([](std::int64_t i) { return i; }, {.threads = -1}), Error);
  CHECK_THROWS_AS(line.shard(2, 2), Error);
  CHECK_THROWS_AS(line.shard(0, 0), Error);
  CHECK_THROWS_AS(line.take(-1), Error);
  CHECK_THROWS_AS(line.repeat(0), Error);
  CHECK_THROWS_AS(line.prefetch({.batches = 0}), Error);
  CHECK_THROWS_AS(data::range(3, 2), Error);
  CHECK_THROWS_AS(data::rows(Example{ones({2}), ones({3})}), ShapeError);
  CHECK_THROWS_AS(line.bucket_by_length([](std::int64_t) { return 1; }, {.bounds = {3, 3}}), Error);
  auto endless = line.repeat().shuffle();
  check_error([&] { endless.begin(); }, {"a pipeline without end"});
  auto counted = line.repeat().take(25);
  CHECK(rest_of(counted).size() == 25);
  auto empty = data::range(0).shuffle().batch(3);
  CHECK(rest_of(empty).empty());
  auto no_part = data::range(2).shard(2, 3);
  CHECK(rest_of(no_part).empty());
}
}  // namespace reel::tests
