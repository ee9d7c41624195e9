// SPDX-License-Identifier: BSD-3-Clause
// What pipelines cost: processor time of all threads for each element, and how long a training step
// waits for data that another thread makes.
#include <fmt/format.h>
#include <reel/reel.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

using namespace reel;

namespace {
struct Example {
  Tensor x, y;
  REEL_FIELDS(x, y)
};
constexpr std::int64_t count = 200'000;

double processor_us() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}
/// The least of five epochs.
template <class T>
void row(const char* name, data::Pipeline<T> pipeline, std::int64_t count = ::count) {
  double best = 1e300;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const double start = processor_us();
    for ([[maybe_unused]] T& element : pipeline) {
    }
    best = std::min(best, (processor_us() - start) / static_cast<double>(count));
  }
  fmt::print("{:48} {:.3f} us an element\n", name, best);
}
/// Records of 195 bytes with 32 floats, a number and a name.
void records() {
  constexpr std::int64_t count = 50'000;
  const char* const path = "data.tfrecord";
  {
    data::RecordWriter writer(path);
    for (std::int64_t i = 0; i < count; ++i)
      writer.write(
          data::serialize({{{"x", {}, std::vector<float>(32, 0.5f * static_cast<float>(i)), {}},
                            {"y", {}, {}, {i}},
                            {"name", {fmt::format("n{}", i)}, {}, {}}}}));
  }
  const auto files = data::tfrecords({path});
  row("TFRecord", files, count);
  const auto sum_of = [](const data::Example& example) {
    return example["x"].floats[0] + static_cast<float>(example["y"].integers[0]);
  };
  const auto parsed = files.map([sum_of](const std::string& record) {
    thread_local data::Example example;
    data::parse_example(record, example);
    return sum_of(example);
  });
  row("TFRecord, map of its Example", parsed, count);
  row("examples", data::examples({path}), count);
  row("examples, map, batch", data::examples({path}).map(sum_of).batch(64), count / 64 * 64);
  std::remove(path);
}
/// Works for about so many milliseconds on this thread.
void work(double milliseconds) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(milliseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}
}  // namespace

int main() {
  const auto twice = [](std::int64_t i) { return 2.0f * static_cast<float>(i); };
  const auto numbers = data::range(count);
  const auto stream = data::generate<std::int64_t>([] {
    return [i = std::int64_t{0}](std::int64_t& x) mutable {
      return i < count ? (x = i++, true) : false;
    };
  });
  row("range, shuffle", numbers.shuffle());
  row("range, shuffle, map, batch", numbers.shuffle().map(twice).batch(64));
  row("range, shuffle, map, batch, prefetch", numbers.shuffle().map(twice).batch(64).prefetch());
  row("range, shuffle, map on 2 threads, batch",
      numbers.shuffle().map(twice, {.threads = 2}).batch(64));
  row("stream, shuffle, map, batch", stream.shuffle().map(twice).batch(64));
  row("stream, map on 2 threads, batch", stream.map(twice, {.threads = 2}).batch(64));
  row("rows of two Tensors, shuffle, batch",
      data::rows(Example{ones({count, 4}), ones({count})}).shuffle().batch(64));

  records();

  // Data of 3 ms beside steps of 4 ms, on two threads.
  auto slow = data::range(300).map([](std::int64_t i) { return work(3), i; }).prefetch();
  double waited = 0, whole = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto last = std::chrono::steady_clock::now();
    bool first = true;  // its element is made while the loop waits
    for ([[maybe_unused]] const std::int64_t x : slow) {
      const auto now = std::chrono::steady_clock::now();
      if (!first) waited += std::chrono::duration<double>(now - last).count();
      work(4);
      last = std::chrono::steady_clock::now();
      if (!first) whole += std::chrono::duration<double>(last - now).count();
      first = false;
    }
  }
  fmt::print("a step of 4 ms waits {:.2f} % for data of 3 ms\n", 100 * waited / (waited + whole));
}
