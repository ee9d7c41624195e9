// SPDX-License-Identifier: BSD-3-Clause
// Traced functions on a CUDA device: their planned calls are CUDA graphs.
#include <cmath>
#include <memory>
#include <thread>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "threads/process.hpp"

namespace reel::tests {
TEST_CASE("planned calls of a replay are one launch of a graph, with the numbers of eager calls") {
  const DeviceScope scope(cuda(0));
  const nn::Linear layer(8, 8);
  const auto f = [&](Tensor x) { return tanh(layer(x)) * layer(x) + softmax(x); };
  const auto traced = trace(f, {.verify = 0});
  for (int i = 0; i < 20; ++i) {
    const Tensor x = random::normal({4, 8});
    CHECK(allclose(traced(x), f(x)));
  }
  const Tensor x = random::normal({4, 8});
  for (int i = 0; i < 4; ++i) traced(x);
  emulate::reset_counts();
  for (int i = 0; i < 10; ++i) traced(x);
  const emulate::Counts counts = emulate::counts();
  CHECK(counts.graph_launches == 10);
  CHECK(counts.allocations == 0);
  CHECK(allclose(traced(x), f(x)));
}

TEST_CASE("the calls of a graph share their scratch memory") {
  const DeviceScope scope(cuda(0));
  const Tensor weight = eye(8), x = random::normal({4, 8});
  // What a graph of so many products keeps.
  const auto kept_by = [&](int products) {
    const auto traced = trace(
        [&weight, products](Tensor y) {
          for (int i = 0; i < products; ++i) y = tanh(matmul(y, weight));
          return y;
        },
        {.verify = 0});
    traced(x), traced(x);
    const std::size_t before = device_memory_use(cuda(0)).live_bytes;
    for (int i = 0; i < 8; ++i) traced(x);
    return device_memory_use(cuda(0)).live_bytes - before;
  };
  // There are one to four graphs. The emulator's products take 4096 bytes each.
  for (const int products : {2, 40}) {
    CHECK(kept_by(products) >= 4096);
    CHECK(kept_by(products) < 8 * 4096);
  }
}

TEST_CASE("values of a replay that move get graphs of their own, and few are kept") {
  const DeviceScope scope(cuda(0));
  const auto f = [](Tensor x) { return exp(x) * 2 + x; };
  const auto traced = trace(f);
  std::vector<Tensor> kept;  // results that live on lie elsewhere each time
  for (int i = 0; i < 40; ++i) {
    const Tensor x = full({3}, i % 7);
    kept.push_back(traced(x));
    if (i % 10 == 9) kept.clear();
    CHECK(allclose(traced(x), f(x)));
  }
}

TEST_CASE("a traced step of training gives the eager numbers, and waits for nothing") {
  const DeviceScope scope(cuda(0));
  const auto losses = [](bool traces) {
    seed(3);
    // Not on the stack, where old addresses beside them may lead a trace to the emulator's counts.
    const auto model = std::make_shared<nn::Linear>(6, 4);
    const auto adam =
        std::make_shared<optim::Adam>(parameters(*model), optim::AdamOptions{.learning_rate = 0.1});
    const Tensor x = random::normal({5, 6}), y = random::normal({5, 4});
    const auto eager = [model, adam](Tensor from, Tensor to) {
      GradientTape tape;
      const Tensor loss = mean(square((*model)(from)-to));
      adam->step(tape.gradient(loss, parameters(*model)));
      return loss;
    };
    const auto step = trace(eager, {.verify = 0});  // a check would wait
    std::vector<float> numbers;
    for (int i = 0; i < 12; ++i)
      numbers.push_back((traces ? step(x, y) : eager(x, y)).template item<float>());
    if (traces) {
      emulate::reset_counts();
      step(x, y);
      const emulate::Counts counts = emulate::counts();
      CHECK(counts.synchronizations == 0);
      CHECK(counts.allocations == 0);
      CHECK(counts.graph_launches >= 1);
    }
    return numbers;
  };
  const std::vector<float> eager = losses(false), traced = losses(true);
  for (std::size_t i = 0; i < eager.size(); ++i) CHECK(traced[i] == Approx(eager[i]));
}

TEST_CASE("what a test of first uses prints", "[.][first_uses]") {
  const DeviceScope scope(cuda(0));
  Tensor x = zeros({5, 4, 8});
  CHECK(emulate::counts().handles == 1);  // of cuBLASLt, before the first product
  const auto layer = std::make_shared<nn::Linear>(8, 6);
  const auto recurrent = std::make_shared<nn::LSTM>(6, 6);
  std::vector<Variable> weights = parameters(*layer);
  for (const Variable& each : parameters(*recurrent)) weights.push_back(each);
  const auto adam = std::make_shared<optim::Adam>(weights);
  const auto step = trace(
      [=](Tensor from) {
        GradientTape tape;
        const Tensor y = (*recurrent)((*layer)(from + random::normal(from.shape()))).outputs;
        const Tensor loss = mean(square(y - sort(y, 0)));
        adam->step(tape.gradient(loss, weights));
        return loss;
      },
      {.verify = 0});
  for (int i = 0; i < 12; ++i) step(x);
  const emulate::Counts counts = emulate::counts();
  CHECK(counts.graph_launches > 4);
  if (with_cudnn) CHECK(counts.recurrences > 4);
  CHECK(counts.first_uses_in_captures == 0);
}
TEST_CASE("a capture is not the first use of a kernel or a handle") {
  CHECK_THAT(printed_under("[first_uses]", ""), Catch::Contains("1 passed, 0 failed"));
}

TEST_CASE("a capture that failed is tried again at later replays, three times at most") {
  const DeviceScope scope(cuda(0));
  const Tensor x = random::normal({40});
  for (const int failing : {1, 2, 1000}) {
    INFO(failing << " captures fail");
    const auto traced = trace([](Tensor y) { return exp(y) * 2 + y; }, {.verify = 0});
    emulate::fail_captures(failing);
    emulate::reset_counts();
    for (int i = 0; i < 300; ++i) {
      traced(x);
      if (i % 50 == 0) CHECK(allclose(traced(x), exp(x) * 2 + x));
    }
    const emulate::Counts counts = emulate::counts();
    emulate::fail_captures(0);
    CHECK((counts.graph_launches > 100) == (failing < 3));
    CHECK(counts.captures >= 2);
    CHECK(counts.captures <= 3 * 4);  // there are up to four places of the values
  }
}
TEST_CASE("what a test with captures that fail prints", "[.][failing_captures]") {
  const DeviceScope scope(cuda(0));
  emulate::fail_captures(1000);
  const Tensor x = ones({40});
  const auto traced = trace([](Tensor y) { return exp(y) * 2 + y; }, {.verify = 0});
  for (int i = 0; i < 200; ++i) traced(x);
  CHECK(emulate::counts().captures > 1);
  CHECK(emulate::counts().graph_launches == 0);
}
TEST_CASE("a capture that failed says so once, with the reason") {
  const std::string printed = printed_under("[failing_captures]", "");
  CHECK_THAT(printed, Catch::Contains("1 passed, 0 failed"));
  const std::string line = "a traced function runs without a CUDA graph for now: ";
  const std::size_t at = printed.find(line);
  REQUIRE(at != std::string::npos);
  CHECK(printed.substr(printed.rfind('\n', at) + 1).starts_with("reel: "));
  CHECK(printed.find("graphs.cpp:") < at);
  CHECK(printed.substr(at + line.size()).starts_with("an earlier error invalidated the capture\n"));
  CHECK(printed.find(line, at + 1) == std::string::npos);
}

namespace {
/// A model of two layers, and a step of its training.
struct Training {
  nn::Linear first{6, 8}, second{8, 3};
  std::vector<Variable> weights;
  optim::Adam adam;
  Training() : weights(parameters(first)), adam(all(), {.learning_rate = 0.1}) {}
  std::vector<Variable> all() {
    for (const Variable& each : parameters(second)) weights.push_back(each);
    return weights;
  }
  Tensor step(const Tensor& x, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = cross_entropy(second(relu(first(x))), labels);
    adam.step(tape.gradient(loss, weights));
    return loss;
  }
};
}  // namespace
TEST_CASE("a whole traced step of training is one launch of a graph") {
  const DeviceScope scope(cuda(0));
  seed(3);
  Training model;
  seed(3);
  Training other;
  const Tensor x = random::normal({5, 6}), labels = tensor({0, 1, 2, 1, 0});
  const auto step =
      trace([&](Tensor from, Tensor to) { return model.step(from, to); }, {.verify = 0});
  const auto same = [&] {
    for (std::size_t i = 0; i < model.weights.size(); ++i)
      CHECK(allclose(model.weights[i], other.weights[i]));
  };
  for (int i = 0; i < 8; ++i) {
    step(x, labels);
    other.step(x, labels);
  }
  same();
  for (int i = 0; i < 3; ++i) other.step(x, labels);
  for (int i = 0; i < 3; ++i) step(x, labels);  // the loss gets the same memory in each
  emulate::reset_counts();
  for (int i = 0; i < 5; ++i) step(x, labels);
  const emulate::Counts counts = emulate::counts();
  CHECK(counts.graph_launches == 5);
  CHECK(counts.launches + counts.products + counts.copies == 0);
  CHECK(counts.allocations + counts.synchronizations == 0);
  for (int i = 0; i < 5; ++i) other.step(x, labels);
  same();
  // Losses that the program keeps lie elsewhere each time. Other calls are still graphs.
  std::vector<Tensor> losses;
  for (int i = 0; i < 8; ++i) {
    losses.push_back(step(x, labels));
    other.step(x, labels);
  }
  emulate::reset_counts();
  for (int i = 0; i < 5; ++i) losses.push_back(step(x, labels));
  CHECK(emulate::counts().graph_launches == 10);
  CHECK(emulate::counts().launches + emulate::counts().products <= 15);
  for (int i = 0; i < 5; ++i) other.step(x, labels);
  same();
  CHECK(losses.back().item<float>() < losses.front().item<float>());
  // Values that someone holds stay, and the Variables get new ones.
  const Tensor held = model.weights[1], copy = held.to(cpu());
  step(x, labels);
  other.step(x, labels);
  CHECK(equal(held.to(cpu()), copy));
  same();
  // A wrong rate is reported by the graph, and nothing is written.
  model.adam.learning_rate().assign(std::nan(""));
  for (int i = 0; i < 3; ++i) {
    step(x, labels);
    CHECK_THROWS_WITH(synchronize(cuda(0)), Catch::Contains("a finite number"));
  }
  same();
}

namespace {
/// Training with shuffled batches, noise and dropout.
struct Noisy {
  nn::Linear first{6, 8}, second{8, 3};
  std::vector<Variable> weights = parameters(std::tie(first, second));
  optim::SGD sgd{weights, {.learning_rate = 0.1}};
  Tensor step(const Tensor& x, const Tensor& labels) {
    const Tensor batch = random::permutation(40)(range(0, 20));
    GradientTape tape;
    const Tensor noisy = take(x, batch) + random::normal({20, 6}, {.stddev = 0.1});
    const Tensor hidden = dropout(relu(first(noisy)), 0.5) + random::gamma(2, {8});
    const Tensor loss = cross_entropy(second(hidden), take(labels, batch));
    sgd.step(tape.gradient(loss, weights));
    return loss;
  }
};
}  // namespace
TEST_CASE("random numbers are drawn within a graph, and are those of eager calls") {
  const DeviceScope scope(cuda(0));
  const auto losses = [](bool traces) {
    seed(3);
    const auto model = std::make_shared<Noisy>();
    const Tensor x = random::normal({40, 6}), labels = random::integers(0, 3, {40});
    const auto traced =
        trace([model](Tensor from, Tensor to) { return model->step(from, to); }, {.verify = 0});
    const auto step = [&] { return traces ? traced(x, labels) : model->step(x, labels); };
    std::vector<float> numbers;
    for (int i = 0; i < 30; ++i) {
      numbers.push_back(static_cast<float>(thread_generator().position()));
      if (i == 12) seed(5);
      if (i == 15 || i == 22) random::uniform({9});  // between two steps
      if (i == 18) seed(0);
      if (i < 25) {
        numbers.push_back(step().item<float>());
      } else {
        const GeneratorScope own(Generator(static_cast<std::uint64_t>(i % 2)));
        numbers.push_back(step().item<float>());
      }
    }
    if (traces) {
      emulate::reset_counts();
      for (int i = 0; i < 5; ++i) step();
      const emulate::Counts counts = emulate::counts();
      CHECK(counts.graph_launches == 5);
      CHECK(counts.launches ==
            1);  // after those of other generators, the graph's place is set once
      CHECK(counts.products + counts.copies + counts.allocations + counts.synchronizations == 0);
    }
    return numbers;
  };
  const std::vector<float> eager = losses(false), traced = losses(true);
  for (std::size_t i = 0; i < traced.size(); ++i) {
    INFO("step " << i);
    CHECK(traced[i] == Approx(eager[i]));
  }
}

TEST_CASE("a wrong index in a graph is reported by the wait behind each launch") {
  const DeviceScope scope(cuda(0));
  const auto traced = trace([](Tensor x, Tensor i) { return take(x, i) * 2 + 1; });
  const Tensor x = ones({5}), right = tensor({1, 4}), wrong = tensor({1, 5});
  for (int i = 0; i < 6; ++i) traced(x, right);
  synchronize(cuda(0));
  for (int i = 0; i < 6; ++i)  // a call that is checked waits by itself
    CHECK_THROWS_WITH((traced(x, wrong), synchronize(cuda(0))), Catch::Contains("got 5 at [1]"));
  CHECK(sum(traced(x, right)).item<float>() == 6);
}

namespace {
std::size_t live_bytes() { return device_memory_use(cuda(0)).live_bytes; }
/// A function whose graph keeps some 300 KB of scratch memory.
auto traced_sort() {
  return trace([](Tensor x) { return argsort(x) + 1; }, {.verify = 0});
}
}  // namespace
TEST_CASE("a traced function frees its graphs at its end") {
  const DeviceScope scope(cuda(0));
  const Tensor x = random::normal({20000});
  const std::size_t before = live_bytes();
  {
    const auto traced = traced_sort();
    traced(x);
    const std::size_t without_graph = live_bytes();
    for (int i = 0; i < 4; ++i) traced(x);
    CHECK(live_bytes() >= without_graph + 20000 * 2 * 8);
  }
  CHECK(live_bytes() == before);
  // Each of these graphs has 40 of the 1024 words for reports.
  const Tensor right = tensor({1, 4});
  for (int i = 0; i < 30; ++i) {
    const auto traced = trace(
        [](Tensor y, Tensor at) {
          Tensor all = take(y, at);
          for (int j = 1; j < 40; ++j) all = all + take(y, at);
          return all;
        },
        {.verify = 0});
    for (int j = 0; j < 3; ++j) traced(x, right);
    emulate::reset_counts();
    traced(x, right);
    CHECK(emulate::counts().graph_launches == 1);
    synchronize(cuda(0));
  }
}

TEST_CASE("a new path of a traced function frees the graphs of the plan without it") {
  const DeviceScope scope(cuda(0));
  const Tensor x = random::normal({20000});
  const auto traced = trace(
      [](Tensor y) {
        const Tensor order = argsort(y);
        return any(y > 100) ? order + 1 : order + 2;
      },
      {.verify = 0});
  const std::size_t before = live_bytes();
  for (int i = 0; i < 4; ++i) traced(x);
  CHECK(live_bytes() > before);
  const Tensor other = x + 200;
  const std::size_t with_graph = live_bytes();
  traced(other);
  CHECK(live_bytes() + 20000 * 2 * 8 <= with_graph);
  for (int i = 0; i < 4; ++i) CHECK(traced(other)[0].item<std::int64_t>() >= 1);
}

TEST_CASE("traced functions end on one thread while another thread replays") {
  const Tensor x = random::normal({300}).to(cuda(0));
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      const auto traced = traced_sort();
      for (int j = 0; j < 4; ++j) traced(x);
    }
  });
  const auto traced = traced_sort();
  const Tensor expected = argsort(x) + 1;
  for (int i = 0; i < 40; ++i) CHECK(equal(traced(x), expected));
  other.join();
}
}  // namespace reel::tests
