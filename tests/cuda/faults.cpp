// SPDX-License-Identifier: BSD-3-Clause
// The next wait throws the errors that kernels reported.
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "cuda/every_kernel.hpp"
#include "lib/flow/observer.hpp"

namespace reel::tests {
TEST_CASE("the next wait throws an error for a wrong index, with op, position and line") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({5, 2});
  const unsigned line = __LINE__ + 1;
  const Tensor y = take(x, tensor({{0, 4}, {9, 7}}));
  try {
    synchronize(cuda(0));
    FAIL("nothing was thrown");
  } catch (const IndexError& error) {
    const std::string text = error.what();
    INFO(text);
    CHECK(text.find("take: ") != std::string::npos);
    CHECK(text.find("got 9 at [1, 0]") != std::string::npos);
    CHECK(text.find("faults.cpp:" + std::to_string(line)) != std::string::npos);
  }
  synchronize(cuda(0));
  CHECK(sum(take(x, tensor({0, 4}))).item<float>() == 4);
}
TEST_CASE("the error of a kernel names the layer and the function that called it, not the wait's") {
  const auto text_of = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  /// Of "faults.cpp:7: take: ...", "take".
  const auto name_in = [](const std::string& text) {
    const std::size_t first = text.find(": ") + 2;
    return text.substr(first, text.find(": ", first) - first);
  };
  const Tensor on_cpu = ones({5, 2}), wrong = tensor({7});
  const std::string function = name_in(text_of([&] { on_cpu(wrong); }));
  const DeviceScope scope(cuda(0));
  const Tensor x = on_cpu.to(cuda(0)), there = wrong.to(cuda(0));
  const nn::Embedding words(5, 2);
  synchronize(cuda(0));
  words(there);
  CHECK(name_in(text_of([] { synchronize(cuda(0)); })) == "Embedding");
  // afterwards errors name what they are about
  CHECK(name_in(text_of([] { ones({2}) + ones({3}); })) == "add");
  x(there);
  CHECK(name_in(text_of([] { synchronize(cuda(0)); })) == function);
  CHECK(name_in(text_of([] { ones({2}) + ones({3}); })) == "add");
}
TEST_CASE("the error of a kernel names the line of the call, whatever waits") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({5, 2}), wrong = tensor({7}),
               mask = tensor({true, false, true, true, true});
  Variable w("w", ones({2}));
  optim::SGD sgd({w});
  sgd.learning_rate().assign(-1);
  const std::vector<std::function<void()>> waits = {
      [&] { x.to(cpu()); },         [&] { w.value().to(cpu()); },  [&] { x[mask]; },
      [&] { to_string(x); },        [&] { sum(x).item<float>(); }, [&] { pinned(x, cuda(0)); },
      [&] { synchronize(cuda(0)); }};
  for (std::size_t i = 0; i < waits.size(); ++i) {
    INFO(i);
    const unsigned take_line = __LINE__ + 1;
    take(x, wrong);
    CHECK_THROWS_WITH(waits[i](), Catch::Contains("faults.cpp:" + std::to_string(take_line) + ":"));
    const unsigned step_line = __LINE__ + 1;
    sgd.step({ones({2})});
    CHECK_THROWS_WITH(waits[i](), Catch::Contains("faults.cpp:" + std::to_string(step_line) + ":"));
  }
}
TEST_CASE("an op without a kernel for a device says so, and where it can be computed") {
  const Tensor x = full({3}, 0.5), there = x.to(cuda(0));
  const Tensor right = tanh(there).to(cpu());
  {
    const NoKernel missing("tanh");
    CHECK_NOTHROW(tanh(x));
    const unsigned line = __LINE__ + 2;
    try {
      tanh(there);
      FAIL("nothing was thrown");
    } catch (const DeviceError& error) {
      CHECK(error.what() == "faults.cpp:" + std::to_string(line) +
                                ": tanh: device: expected a device with a kernel for this op, "
                                "got cuda:0\n  Compute it on the CPU: x.to(cpu()).\n  at " +
                                __FILE__ + ":" + std::to_string(line));
    }
  }
  CHECK(equal(tanh(there).to(cpu()), right));
}
TEST_CASE("the first wrong call is thrown; there may be more calls than report slots") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({5});
  for (const int wrong : {-100, 6}) take(x, tensor({wrong}));
  CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got -100"));
  synchronize(cuda(0));
  const Tensor right = tensor({4});
  for (int i = 0; i < 3000; ++i) take(x, right);
  synchronize(cuda(0));
}
TEST_CASE("the reports of one call stay together where they fill the table") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({5}), right = tensor({4});
  Variable w("w", ones({2}));
  optim::Adam adam({w});
  adam.learning_rate().assign(std::nan(""));
  for (int before = 1020; before <= 1025; ++before) {
    for (int i = 0; i < before; ++i) take(x, right);
    adam.step({ones({2})});
    CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("a finite number"));
  }
}
TEST_CASE("the table has room for the reports of a call with an index for each of eight axes") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({1, 1, 1, 1, 1, 1, 1, 5}), one = ones({5});
  const Tensor first = tensor({0}), right = tensor({4}), wrong = tensor({7});
  for (int before = 1015; before <= 1024; ++before) {
    for (int i = 0; i < before; ++i) take(one, right);
    x(first, first, first, first, first, first, first, wrong);
    CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got 7"));
  }
}
namespace {
/// Whether it ends within some seconds. It does, unless it waits for this thread.
template <class F>
bool ends_by_itself(std::future<F>& work) {
  return work.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
}
Tensor take_and_change(const Tensor& x, const Tensor& i) { return take(x, i) * 2 + 1; }
constexpr TraceOptions unchecked = {.verify = 0};  // a check waits
/// Calls a traced function until it has its graph.
void warm_up(const auto& f) {
  for (int i = 0; i < 6; ++i) f();
  synchronize(cuda(0));
}
}  // namespace
TEST_CASE("a wait does not forget what a graph reports that another thread launches meanwhile") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({5});
  Variable at("at", tensor({4}));  // whose address stays
  const auto traced = trace([&](Tensor from) { return take_and_change(from, at); }, unchecked);
  warm_up([&] { traced(x); });
  at.assign(tensor({6}));
  emulate::reset_counts();
  std::future<void> other;
  emulate::after_next_wait([&] {
    other = std::async(std::launch::async, [&] {
      const DeviceScope there(cuda(0));
      traced(x);
    });
    other.wait_for(std::chrono::milliseconds(200));
  });
  take(x, tensor({-100}));
  CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got -100"));
  other.get();
  CHECK(emulate::counts().graph_launches == 1);
  CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got 6"));
}
TEST_CASE("a report is thrown by a wait, not by a replay that needs its place in the table") {
  const DeviceScope scope(cuda(0));
  const Tensor x = ones({5}), right = tensor({4});
  const auto traced = trace(take_and_change, unchecked);
  warm_up([&] { traced(x, right); });
  take(x, tensor({6}));
  for (int i = 0; i < 1013; ++i) take(x, right);
  emulate::reset_counts();
  std::vector<Tensor> xs;  // so that the values of each replay move, and there is no graph
  for (int i = 0; i < 9; ++i) traced(xs.emplace_back(ones({5})), right);
  CHECK(emulate::counts().graph_launches == 0);
  CHECK(emulate::counts().synchronizations == 1);
  CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got 6"));
  synchronize(cuda(0));
}
TEST_CASE("a graph that is dropped for newer ones keeps what it has reported") {
  const DeviceScope scope(cuda(0));
  Variable at("at", tensor({4}));
  const auto traced = trace([&](Tensor from) { return take_and_change(from, at); }, unchecked);
  const Tensor x = ones({5}), right = tensor({4}), wrong = tensor({6});
  warm_up([&] { traced(x); });
  at.assign(wrong);
  emulate::reset_counts();
  traced(x);
  at.assign(right);
  std::vector<Tensor> others;
  for (int i = 0; i < 5; ++i) traced(others.emplace_back(ones({5})));
  CHECK(emulate::counts().graph_launches == 1);
  CHECK(emulate::counts().synchronizations == 0);
  CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got 6"));
  synchronize(cuda(0));
}
namespace {
struct Reader : Observer {
  void error(const ErrorEvent&) override {
    read = sum(take(ones({3}), tensor({0, 1}))).item<float>();
    synchronize(cuda(0));
  }
  float read = 0;
};
/// Starts another thread's work on the device.
struct Starter : Observer {
  void error(const ErrorEvent&) override {
    work = std::async(std::launch::async, [] {
      const DeviceScope scope(cuda(0));
      const auto traced = trace(take_and_change);
      const Tensor x = ones({5}), right = tensor({4});
      for (int i = 0; i < 6; ++i) traced(x, right);
      return emulate::counts().graph_launches;
    });
    ended = ends_by_itself(work);
  }
  std::future<std::uint64_t> work;
  bool ended = false;
};
}  // namespace
TEST_CASE("an observer that gets a device's error may use the device") {
  const DeviceScope scope(cuda(0));
  Reader reader;
  const ObserverScope observed(reader);
  take(ones({5}), tensor({7}));
  CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got 7"));
  CHECK(reader.read == 2);
}
TEST_CASE("while an observer gets a device's error, another thread may use the device") {
  const DeviceScope scope(cuda(0));
  Starter starter;
  const ObserverScope observed(starter);
  emulate::reset_counts();
  take(ones({5}), tensor({7}));
  CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("got 7"));
  CHECK(starter.ended);
  CHECK(starter.work.get() > 0);  // its graphs have places for reports
}
}  // namespace reel::tests
