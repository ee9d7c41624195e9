// SPDX-License-Identifier: BSD-3-Clause
// R20: memory of tensors that one thread makes and another thread frees goes back to the first
// thread.
#include <sys/resource.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
constexpr std::int64_t mebibyte = 1 << 20;

/// Limits this process to this much more memory.
bool limit_memory(std::int64_t bytes) {
  const auto limit = static_cast<rlim_t>(mapped_bytes() + bytes);
  const rlimit limits{limit, limit};
  return setrlimit(RLIMIT_AS, &limits) == 0;
}

/// The number of threads of this process.
int threads_here() {
  int count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

/// Passes batches from one thread to another. Only a few batches wait at a time.
class Channel {
 public:
  void give(std::vector<Tensor> batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.size() < 4; });
    waiting_.push_back(std::move(batch));
    changed_.notify_all();
  }
  std::vector<Tensor> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    std::vector<Tensor> batch = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    changed_.notify_all();
    return batch;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Tensor>> waiting_;
};

/// Makes tensors of `length` on this thread, `size` in a batch, and lets another thread free them.
/// An empty batch ends that thread.
void pass_on(int batches, int size, std::int64_t length) {
  Channel channel;
  std::thread reader([&channel] {
    while (!channel.take().empty()) {
    }
  });
  for (int i = 0; i < batches; ++i) {
    std::vector<Tensor> batch;
    for (int k = 0; k < size; ++k) batch.push_back(zeros({length}));
    channel.give(std::move(batch));
  }
  channel.give({});
  reader.join();
}
}  // namespace

TEST_CASE("cached blocks go back to the system before memory is said to have ended") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  CHECK(true_in_child([] {
    const auto all_zero = [](std::int64_t bytes) {
      return !any(zeros({bytes}, {.dtype = DType::boolean})).item<bool>();
    };
    // More memory than the limit leaves, but less than that and the cached block together.
    return all_zero(64 * mebibyte) && limit_memory(16 * mebibyte) && all_zero(72 * mebibyte);
  }));
}

TEST_CASE("hidden: a sum in a process that cannot start threads", "[.no_threads]") {
  set_num_threads(1);  // so that ones() starts no other thread
  const Tensor x = ones({1 << 20});
  set_num_threads(3);
  const bool limited = limit_memory(mebibyte / 2);  // less than the stack of a thread
  const float total = sum(x).item<float>();
  std::printf("limited %d, sum %g, threads %d\n", limited, static_cast<double>(total),
              threads_here());
}
TEST_CASE("a thread computes alone where the system starts no others") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  // A new process, as a child of a fork could reuse the stacks of its parent's threads.
  const std::string printed = printed_under("[.no_threads]", "");
  INFO(printed);
  CHECK(printed.find("limited 1, sum 1.04858e+06, threads 1\n") != std::string::npos);
}

TEST_CASE("what a thread keeps for itself goes to the others at its end") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  trim_memory();
  const std::int64_t before = memory_statistics().cached_bytes;
  std::thread([] { zeros({40'000}, {.dtype = DType::uint8}); }).join();
  const std::int64_t kept = memory_statistics().cached_bytes - before;
  CHECK(kept >= 40'000);
  CHECK(kept < 64'000);
}

TEST_CASE("a thread that has made no tensor can lower the limit of the cache") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  trim_memory();
  zeros({200'000});
  CHECK(memory_statistics().cached_bytes >= 800'000);
  std::thread([] { set_cache_limit(0); }).join();
  CHECK(memory_statistics().cached_bytes == 0);
  set_cache_limit(std::size_t{1} << 30);
}

TEST_CASE("memory freed in another thread is used again", "[threads]") {
  const bool full = std::getenv("REEL_TEST_LONG") != nullptr;
  const int batches = sanitized ? 20 : full ? 100'000 : 10'000;  // batches of 100 tensors
  for (const std::int64_t length : {2, 300, 5'000}) {
    const int size = length > 1'000 ? 5 : 100;  // so that few bytes wait between the threads
    pass_on(sanitized ? 5 : 2'000, size, length);
    const std::int64_t tensors = memory_statistics().live_tensors, bytes = resident_bytes();
    pass_on(batches, size, length);
    CHECK(memory_statistics().live_tensors == tensors);
    // The number of waiting batches differs by a few. All batches together have at least 200 MB.
    if (!sanitized) CHECK(resident_bytes() - bytes < 8 * mebibyte);
  }
}

namespace {
thread_local Tensor kept;
/// Keeps a tensor that is freed after everything else of its thread: the first object is destroyed
/// last.
void leave(std::int64_t length) {
  Tensor& last = kept;
  last = ones({length});
}
}  // namespace
TEST_CASE("what a thread frees at its end is used again", "[threads]") {
  for (const std::int64_t length : {2, 25'000, 100'000}) {
    const auto end_threads = [&] {
      for (int i = 0; i < 200; ++i) std::thread(leave, length).join();
    };
    end_threads();
    const std::int64_t bytes = resident_bytes();
    end_threads();
    if (!sanitized) CHECK(resident_bytes() - bytes < (1 << 20));
  }
}

TEST_CASE("large blocks freed in another thread are used again", "[threads]") {
  const auto pass = [] {
    for (int i = 0; i < 50; ++i) {
      Tensor x = ones({100'000});
      std::thread([x = std::move(x)]() mutable { x = Tensor(); }).join();
    }
  };
  pass();
  const auto blocks = memory_statistics().large_blocks;
  pass();
  if (!sanitized) CHECK(memory_statistics().large_blocks == blocks);
}

TEST_CASE("a tensor may outlive the thread that made it, and be read by many", "[threads]") {
  Tensor x;
  std::thread([&x] { x = arange(0.0f, 100.0f) * 2; }).join();
  std::vector<float> sums(4);
  std::vector<std::thread> threads;
  for (float& total : sums)
    threads.emplace_back([&total, x] {
      for (int i = 0; i < 200; ++i) {
        const Tensor view = x(range({}, {}, -1)), copy = view;
        total = sum(copy + x).item<float>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const float total : sums) CHECK(total == 2 * 9900);
}
}  // namespace reel::tests
