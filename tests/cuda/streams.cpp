// SPDX-License-Identifier: BSD-3-Clause
// Each thread has a stream of its own, which the emulator runs in any order. Threads exchange
// tensors, Variables and traced functions all the same.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "cuda/emulated.hpp"
#include "support/error_text.hpp"
#include "support/short.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
const std::uint64_t seeds = is_short() ? 3 : 12;

/// Hands tensors from threads to threads.
class Exchange {
 public:
  void put(Tensor x, double value) {
    {
      const std::lock_guard held(mutex_);
      all_.push_back({std::move(x), value});
    }
    arrived_.notify_one();
  }
  std::pair<Tensor, double> take() {
    std::unique_lock held(mutex_);
    arrived_.wait(held, [&] { return !all_.empty(); });
    auto first = std::move(all_.front());
    all_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::pair<Tensor, double>> all_;
};

/// Runs f(number) on so many threads.
template <class F>
void on_threads(int count, const F& f) {
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i) all.emplace_back([&f, i] { f(i); });
  for (std::thread& each : all) each.join();
}
/// Whether all elements are `value`.
bool has_only(const Tensor& x, double value) {
  const Tensor here = x.to(cpu()).to(DType::float64);
  for (const double each : here.values<double>())
    if (each != value) return false;
  return true;
}
}  // namespace

TEST_CASE("work of one thread does not wait for the work of another one") {
  bool overlapped = false;
  for (std::uint64_t seed = 1; seed <= 40 && !overlapped; ++seed) {
    emulate::set_seed(seed);
    const Tensor x = ones({64}).to(cuda(0));
    synchronize(cuda(0));
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = y * 0.5f;
    Event late(cuda(0));
    on_threads(1, [&](int) { (ones({8}).to(cuda(0)) + 1).to(cpu()); });
    overlapped = !late.done();
    synchronize(cuda(0));
    CHECK(late.done());
  }
  CHECK(overlapped);
}

TEST_CASE("what a test of new streams prints", "[.][new_streams]") {
  // All threads live to the end, so that each of the later ones has a new stream.
  constexpr int threads = 16;
  std::atomic<bool> ends = false;
  std::vector<std::thread> all;
  int wrong = 0;
  for (int i = 0; i < threads; ++i) {
    emulate::set_seed(static_cast<std::uint64_t>(i) + 1);
    const double number = 0.25 + 0.5 * i;
    Tensor x = ones({64}).to(cuda(0));
    for (int j = 0; j < 20; ++j) x = x * 0.5f;
    for (int j = 0; j < 3; ++j) x* number;  // copies the number to the device, for all threads
    std::atomic<int> found = -1;
    all.emplace_back([&ends, &found, number, i] {
      // Memory of a size that nobody has used, which is not in the order of earlier uses.
      found = has_only(ones({1000 * (i + 2)}).to(cuda(0)) * number, number);
      while (!ends) std::this_thread::yield();
    });
    while (found < 0) std::this_thread::yield();
    wrong += found == 0;
  }
  ends = true;
  for (std::thread& each : all) each.join();
  CHECK(wrong == 0);
}

TEST_CASE("the stream of a new thread comes after what other threads have queued") {
  // Other tests of this process may have made all streams.
  CHECK_THAT(printed_under("[new_streams]", ""), Catch::Contains("1 passed, 0 failed"));
}

TEST_CASE("threads pass tensors on, change them and release them in any order") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    emulate::set_seed(seed);
    constexpr int threads = 3, tensors = 9, rounds = 40;
    Exchange exchange;
    for (int i = 0; i < tensors; ++i)
      exchange.put(full({97}, static_cast<float>(i)).to(cuda(0)), i);
    std::atomic<int> wrong = 0;
    on_threads(threads, [&](int number) {
      std::mt19937 random(static_cast<unsigned>(seed * 10) + static_cast<unsigned>(number));
      for (int i = 0; i < rounds; ++i) {
        auto [x, value] = exchange.take();
        const auto change = static_cast<float>(random() % 5);
        switch (random() % 4) {
          case 0:
            x = x + change;
            break;
          case 1:  // the sum may take over the memory of the copy
            x = (x + 0) + change;
            break;
          case 2:
            x = x + full({97}, change).to(cuda(0));
            break;
          default:
            wrong += !has_only(x, value);
            x = concat({x(range(0, 40)), x(range(40, {}))}, 0) + change;
        }
        exchange.put(std::move(x), value + change);
      }
    });
    for (int i = 0; i < tensors; ++i) {
      const auto [x, value] = exchange.take();
      wrong += !has_only(x, value);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads update and read a Variable in turns") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    emulate::set_seed(seed);
    Variable w("w", zeros({33}).to(cuda(0)));
    std::vector<Tensor> seen[2];
    std::atomic<int> turn = 0;
    on_threads(2, [&](int number) {
      const Tensor step = full({33}, -1.0f).to(cuda(0));
      for (int i = 0; i < 20; ++i) {
        while (turn.load() % 2 != number) std::this_thread::yield();
        sgd_update(w, step, 1.0);
        seen[number].push_back(w + 0);
        ++turn;
      }
    });
    int wrong = 0;
    for (int i = 0; i < 20; ++i)
      for (int number = 0; number < 2; ++number)
        wrong += !has_only(seen[number][static_cast<std::size_t>(i)], 2 * i + number + 1);
    CHECK(wrong == 0);
  }
}

TEST_CASE("threads replay one traced function, and share its arguments") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    emulate::set_seed(seed);
    const Tensor weight = eye(6).to(cuda(0)) * 2;
    const auto f = trace([weight](Tensor x) { return sum(matmul(tanh(x * 0), weight) + x, 1); });
    const Tensor shared = full({6, 6}, 2.0f).to(cuda(0));
    for (int i = 0; i < 4; ++i) f(shared);
    std::atomic<int> wrong = 0;
    on_threads(3, [&](int number) {
      for (int i = 0; i < 15; ++i) {
        const Tensor own = shared + static_cast<float>(number + i);
        wrong += !has_only(f(own), 6 * (2 + number + i));
        wrong += !has_only(f(shared), 12);
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a graph of one thread comes after the updates and graphs of other threads") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    emulate::set_seed(seed);
    Variable w("w", ones({33}).to(cuda(0)));
    const Tensor x = ones({33}).to(cuda(0)), step = full({33}, -1.0f).to(cuda(0));
    const auto f = trace([&w](Tensor y) { return ((w * 2 + y) * 2 - y) * 2 + y; });
    for (int i = 0; i < 4; ++i) f(x);
    emulate::reset_counts();
    int wrong = 0;
    std::atomic<int> turn = 0;
    std::vector<Tensor> results;
    on_threads(3, [&](int number) {
      for (int i = 0; i < 10; ++i) {
        while (turn.load() % 3 != number) std::this_thread::yield();
        if (number == 0)
          sgd_update(w, step, 1.0);
        else
          results.push_back(f(x));
        ++turn;
      }
    });
    CHECK(emulate::counts().graph_launches >= 20);
    for (std::size_t i = 0; i < results.size(); ++i)  // w is 1 + 1 + i / 2 then
      wrong += !has_only(results[i], 8 * (2 + static_cast<double>(i / 2)) + 3);
    CHECK(wrong == 0);
  }
}

namespace {
/// A call with the wrong index 9, after some work.
Tensor with_wrong_index(Tensor x) {
  for (int i = 0; i < 10; ++i) x = x * 1;
  return take(x, tensor({1, 9}).to(cuda(0)), 0) + 1;
}
bool names_wrong_index(const std::string& text) {
  return text.find("streams.cpp") == 0 && text.find("take") != std::string::npos &&
         text.find("got 9") != std::string::npos;
}
std::string error_of_read(const Tensor& x) {
  return error_text([&] { x.to(cpu()); });
}
}  // namespace

TEST_CASE("a wrong index is thrown where its result is read, and by synchronize()") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    emulate::set_seed(seed);
    const Tensor table = ones({4, 2}).to(cuda(0)), other = zeros({3}).to(cuda(0));
    Tensor result;
    on_threads(1, [&](int) { result = with_wrong_index(table); });
    CHECK(error_of_read(other) == "");
    const std::string first = error_of_read(result + 1);
    INFO(first);
    CHECK(names_wrong_index(first));
    CHECK(error_text([&] { synchronize(cuda(0)); }) == "");
    on_threads(1, [&](int) { with_wrong_index(table); });
    CHECK(error_of_read(other) == "");
    CHECK(names_wrong_index(error_text([&] { synchronize(cuda(0)); })));
    CHECK(error_text([&] { synchronize(cuda(0)); }) == "");
  }
}

TEST_CASE("a wrong index is thrown where its result is read from another device") {
  const Tensor table = ones({4, 2}).to(cuda(0));
  const Tensor there = with_wrong_index(table).to(cuda(1)) * 2;
  CHECK(names_wrong_index(error_of_read(there)));
  CHECK(error_of_read(there) == "");
  CHECK(error_text([&] { synchronize(cuda(0)); }) == "");
}

TEST_CASE("a thread gets the errors of its own calls, whatever other threads wait") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    emulate::set_seed(seed);
    const Tensor table = ones({4, 2}).to(cuda(0));
    std::atomic<int> wrong = 0, turn = 0, step = 0;
    Tensor shared;
    on_threads(3, [&](int number) {
      for (int i = 0; i < 8; ++i) {
        while (turn.load() < 3 * i) std::this_thread::yield();
        const bool guilty = number == i % 3;
        const Tensor result = guilty ? with_wrong_index(table) : table + 1;
        ++turn;
        while (turn.load() < 3 * i + 3) std::this_thread::yield();
        wrong += names_wrong_index(error_of_read(result)) != guilty;
      }
      // Who reads the result gets the error once, and so does the thread that made it.
      if (number == 0) {
        shared = with_wrong_index(table);
        step = 1;
        while (step.load() < 2) std::this_thread::yield();
        wrong += !names_wrong_index(error_of_read(table)) || !error_of_read(table).empty();
        step = 3;
      } else if (number == 1) {
        while (step.load() < 1) std::this_thread::yield();
        wrong += !names_wrong_index(error_of_read(shared)) || !error_of_read(table).empty();
        step = 2;
        while (step.load() < 3) std::this_thread::yield();
      } else {
        wrong += !error_of_read(table + 1).empty();
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("what the first write of a second thread does", "[.][second_writes]") {
  Variable w("w", zeros({33}).to(cuda(0)));
  const Tensor step = ones({33}).to(cuda(0));
  for (int i = 0; i < 6; ++i) w.assign_add(step);
  on_threads(1, [&](int) { w.assign_sub(step); });
  CHECK(has_only(w + 0, 5));
}
TEST_CASE("what the first copy of a second thread does", "[.][second_copies]") {
  Tensor x = full({33}, 2.0f).to(cuda(0)), there;
  on_threads(1, [&](int) {
    there = x.to(cuda(1));
    x = Tensor();
  });
  const Tensor reused = full({33}, 7.0f).to(cuda(0));
  CHECK(has_only(there, 2));
  CHECK(has_only(reused, 7));
}
TEST_CASE("the first work of a second thread comes after that of the first one") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)  // a process has its second stream once
    for (const char* test : {"[second_writes]", "[second_copies]"})
      CHECK_THAT(printed_under(test, "REEL_EMULATE_SEED=" + std::to_string(seed)),
                 Catch::Contains("1 passed, 0 failed"));
}

TEST_CASE("copies between devices, memory of the host and random numbers work on every thread") {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    emulate::set_seed(seed);
    const Tensor first = full({50}, 3.0f).to(cuda(0)), fixed = pinned(full({50}, 5.0f), cuda(0));
    std::atomic<int> wrong = 0;
    on_threads(3, [&](int) {
      for (int i = 0; i < 6; ++i) {
        const Tensor there = (first + 1).to(cuda(1)) * 2;
        wrong += !has_only(there.to(cuda(0)) + first, 11);
        wrong += !has_only(fixed.to(cuda(0)) + first, 8);
        const Tensor drawn = random::uniform({20}).to(cuda(0));
        wrong += !has_only(drawn - drawn, 0);
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("more threads than streams share them, and threads that end give theirs back") {
  const Tensor x = ones({10}).to(cuda(0));
  std::atomic<int> wrong = 0, arrived = 0;
  on_threads(40, [&](int number) {
    Tensor y = x + static_cast<float>(number);
    ++arrived;
    while (arrived.load() < 40) std::this_thread::yield();
    wrong += !has_only(y * 2, 2 * (1 + number));
  });
  for (int i = 0; i < 50; ++i) on_threads(1, [&](int) { wrong += !has_only(x + 1, 2); });
  CHECK(wrong == 0);
}
}  // namespace reel::tests
