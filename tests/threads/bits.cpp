// SPDX-License-Identifier: BSD-3-Clause
// R7: results have the same bits with one, two, three, four and eight threads, and while the number
// of threads changes.
#include <atomic>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/resident.hpp"
#include "sweep/table.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
constexpr std::int64_t large = 300'000;  // more elements than any kernel leaves to one thread

bool same_bits(const Tensor& x, const Tensor& y) {
  const Body &a = *Access::body(x), &b = *Access::body(y);
  return a.shape == b.shape && a.dtype == b.dtype && a.contiguous && b.contiguous &&
         std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
}

using Results = std::vector<Tensor>;
using Work = std::function<Results()>;

/// The number of the first result that differs, or -1.
int difference(const Results& got, const Results& expected) {
  if (got.size() != expected.size()) return 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!same_bits(got[i], expected[i])) return static_cast<int>(i);
  return -1;
}

/// The first number of threads above one that changes a result, or 0.
int differing_threads(const Work& work, const Results& expected) {
  const std::vector<int> counts = sanitized ? std::vector{3} : std::vector{2, 3, 4, 8};
  for (const int threads : counts) {
    set_num_threads(threads);
    if (difference(work(), expected) != -1) return threads;
  }
  return 0;
}

void check_bits(const Work& work) {
  const KeepThreads keep;
  set_num_threads(1);
  const Results expected = work();
  CHECK(differing_threads(work, expected) == 0);
  if (sanitized) return;
  std::atomic<bool> done = false;
  std::thread changer([&] {
    for (int i = 0; !done; ++i) set_num_threads(1 + i % 3);
  });
  const int differing = difference(work(), expected);
  done = true;
  changer.join();
  CHECK(differing == -1);
}

Tensor in_order(const Tensor& x) { return Access::body(x)->contiguous ? x : fresh(x); }

/// The value and all gradients of a sample's call with these inputs.
Results results_of(const Op& op, const Sample& sample, const std::vector<Tensor>& inputs) {
  Results results;
  const std::vector<Tensor> sources = floating(inputs);
  if (!op.gradient.differentiable || sources.empty()) return {in_order(sample.call(inputs))};
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(inputs);
  results.push_back(in_order(y));
  if (!is_floating(y.dtype())) return results;
  for (const Tensor& g : tape.gradient(y, GradientSources(sources), {{}, Unconnected::zero}))
    results.push_back(in_order(g));
  return results;
}

/// The inputs, with one axis repeated until they are large. Empty if that is not possible.
std::vector<Tensor> grown(const std::vector<Tensor>& inputs, bool first_axis, DType dtype) {
  std::int64_t elements = 0;
  for (const Tensor& x : inputs) elements = std::max(elements, x.shape().elements());
  if (elements == 0) return {};
  std::vector<Tensor> result;
  for (const Tensor& x : inputs) {
    if (x.rank() == 0 && elements > 1) {
      result.push_back(x);
      continue;
    }
    const Tensor flat = x.rank() ? x : x.reshape({1});
    const std::size_t axis = first_axis ? 0 : flat.rank() - 1;
    Shape shape = flat.shape();
    shape.data()[axis] *= large / elements + 1;
    const std::int64_t length = flat.shape().data()[axis];
    const Tensor places = arange(std::int64_t{0}, shape.data()[axis]) % length;
    const Tensor many = take(flat, places, static_cast<int>(axis));
    result.push_back(is_floating(x.dtype()) ? cast(many, dtype) : many);
  }
  return result;
}

Tensor numbers(Shape shape, DType dtype) { return random::normal(shape, {.dtype = dtype}); }

/// The value of f and its gradients for all inputs.
Results with_gradients(const std::vector<Tensor>& inputs,
                       const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  GradientTape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor y = f(inputs);
  Results results = {in_order(y)};
  for (const Tensor& g : tape.gradient(y, GradientSources(inputs))) results.push_back(in_order(g));
  return results;
}
}  // namespace

TEST_CASE("a sum in as many parts as there are threads is found out", "[threads]") {
  const KeepThreads keep;
  const Tensor x = random::normal({100'000});
  const Work work = [&] {
    float sum = 0;
    for (const Tensor& part : split(x(range(0, 99'960)), num_threads()))
      sum += reel::sum(part).item<float>();
    return Results{tensor({sum})};
  };
  set_num_threads(1);
  CHECK(differing_threads(work, work()) != 0);
}

TEST_CASE("samples of every op give the same bits when they are large", "[threads]") {
  std::set<std::string_view> reached;
  for (const Op* op : library_ops()) {
    // A window would grow with its image: see the test of convolutions.
    if (op->updates || op->name.starts_with("convolution")) continue;
    // Their kernels go through a batch as eigh does, and take a minute.
    if (op->name.starts_with("function_") || op->name == "matrix_function") continue;
    int left = sanitized ? 1 : 2;  // how many more samples of this op are made large
    for (const Sample& sample : samples_of(*op))
      for (const bool first_axis : {true, false}) {
        if (left == 0) break;
        const std::vector<Tensor> inputs =
            grown(sample.inputs, first_axis, left % 2 ? DType::float32 : DType::float64);
        if (inputs.empty()) continue;
        try {
          sample.call(inputs);
        } catch (const Error&) {
          continue;  // the options fit the shape of the sample only
        }
        INFO(op->name << ", first axis " << first_axis);
        check_bits([&] { return results_of(*op, sample, inputs); });
        reached.insert(op->name);
        --left;
      }
  }
  for (const Op* op : library_ops())
    if (op->fusion == Fusion::pointwise) {
      INFO(op->name);
      CHECK(reached.count(op->name) == 1);
    }
  CHECK(reached.size() >= 50);
}

TEST_CASE("convolutions give the same bits", "[threads]") {
  struct Case {
    Shape x, weight;
    ConvolutionOptions options;
  };
  std::vector<Case> cases = {
      {{8, 28, 28, 16}, {3, 3, 16, 32}, {.padding = 1}},
      {{5, 9, 7, 128}, {3, 3, 128, 130}, {.padding = 1}},
      {{2, 57, 40, 3}, {7, 7, 3, 24}, {.stride = 2, .padding = 3}},
      {{4, 14, 14, 64}, {1, 1, 64, 70}, {}},
      {{3, 30, 30, 48}, {3, 3, 1, 48}, {.padding = same, .groups = 48}},
      {{2, 9, 9, 96}, {3, 3, 48, 200}, {.stride = 2, .dilation = 2, .padding = 2, .groups = 2}}};
  if (sanitized) cases.resize(1);
  for (const Case& each : cases)
    for (const DType dtype : {DType::float32, DType::float64}) {
      const std::vector<Tensor> inputs = {numbers(each.x, dtype), numbers(each.weight, dtype)};
      check_bits([&] {
        return with_gradients(inputs,
                              [&](const auto& in) { return conv2d(in[0], in[1], each.options); });
      });
    }
}

TEST_CASE("products give the same bits", "[threads]") {
  std::vector<std::vector<std::int64_t>> shapes = {
      {300, 300, 300}, {64, 784, 512},   {513, 257, 129}, {1, 3000, 4000},
      {8, 2000, 1100}, {4000, 2200, 1},  {700, 30, 700},  {13, 200, 8000},
      {3, 30000, 140}, {130, 1100, 512}, {1, 20000, 600}};
  if (sanitized) shapes.resize(1);
  for (const DType dtype : {DType::float32, DType::float64})
    for (const auto& shape : shapes)
      for (const bool x_transposed : {false, true})
        for (const bool y_transposed : {false, true}) {
          const std::int64_t n = shape[0], k = shape[1], m = shape[2];
          INFO(n << " x " << k << " x " << m << ", transposed " << x_transposed << y_transposed);
          const Tensor x =
              x_transposed ? transpose(numbers({k, n}, dtype)) : numbers({n, k}, dtype);
          const Tensor y =
              y_transposed ? transpose(numbers({m, k}, dtype)) : numbers({k, m}, dtype);
          const Tensor z = numbers({m}, dtype);
          check_bits([&] { return Results{matmul(x, y), matmul(x, y) + z}; });
        }
  const Tensor many = numbers({50, 70, 64}, DType::float32),
               one = numbers({64, 80}, DType::float32);
  check_bits([&] {
    return with_gradients({many, one}, [](const auto& in) { return matmul(in[0], in[1]); });
  });
}

TEST_CASE("sums, rows and places give the same bits", "[threads]") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = numbers({900, 700}, dtype), cube = numbers({30, 700, 40}, dtype);
    for (const int axis : {0, 1})
      check_bits([&] {
        return Results{sum(x, axis), max(x, axis), mean(transpose(x), axis), argmax(x, axis)};
      });
    check_bits([&] {
      return Results{sum(x), min(x), sum(cube, 1), sum(cube, {0, 2}), sum(x.reshape({-1, 5}), 0)};
    });
    const Tensor pairs = x.reshape({-1, 2}), short_rows = x.reshape({-1, 15});
    check_bits([&] {
      return Results{sum(pairs, 1), max(short_rows, 1), argmax(pairs, 1), argmin(short_rows, 1)};
    });
    // Sums whose parts are shared among threads: parts of columns, the last one with a single row;
    // and axes that are not adjacent.
    const Tensor tall = numbers({4097, 130}, dtype), four = numbers({512, 33, 2, 32}, dtype);
    check_bits([&] {
      return Results{sum(tall, 0),
                     min(tall, 0),
                     sum(four, {0, 2}),
                     sum(four, {0, 3}),
                     sum(cast(tall * 10, DType::int64), 0),
                     all(tall > -5, 0)};
    });
    for (const int axis : {0, 1})
      check_bits([&] {
        return with_gradients(
            {x}, [&](const auto& in) { return softmax(in[0], axis) + log_softmax(in[0], axis); });
      });
    const Tensor gain = numbers({700}, dtype), shift = numbers({700}, dtype);
    check_bits([&] {
      return with_gradients({x, gain, shift},
                            [](const auto& in) { return layer_norm(in[0], in[1], in[2]); });
    });
    const Tensor places = random::integers(0, 900, {1500}),
                 labels = random::integers(0, 700, {900});
    check_bits(
        [&] { return with_gradients({x}, [&](const auto& in) { return take(in[0], places); }); });
    // each position occurs hundreds of times
    const Tensor crowded = random::integers(0, 3, {1500});
    check_bits(
        [&] { return with_gradients({x}, [&](const auto& in) { return take(in[0], crowded); }); });
    check_bits([&] {
      return with_gradients({x}, [&](const auto& in) { return nn::cross_entropy(in[0], labels); });
    });
    const Tensor columns = random::integers(0, 700, {900, 700});
    check_bits([&] {
      return with_gradients({x}, [&](const auto& in) {
        return gather(in[0], columns, 1)(range(100, 800), range(0, 600));
      });
    });
    check_bits([&] {
      return Results{fresh(transpose(x)), concat({x, x}, 1), cast(x, DType::int32)};
    });
  }
}

TEST_CASE("of several wrong positions the first is named", "[threads]") {
  const KeepThreads keep;
  // Two blocks that threads share. The second block finds its wrong position long after the first
  // one, or long before it.
  for (const auto& [first, second] : {std::pair{10, 131'000}, {65'000, 65'600}}) {
    std::vector<std::int64_t> places(140'000, 1);
    places[static_cast<std::size_t>(first)] = 9;
    places[static_cast<std::size_t>(second)] = 8;
    const Tensor positions = from_span(places, {140'000});
    for (const int threads : {1, 2, 4}) {
      set_num_threads(threads);
      for (int i = 0; i < 20; ++i) {
        std::string said;
        try {
          take(ones({3}), positions);
        } catch (const IndexError& error) {
          said = error.what();
        }
        CHECK(said.find("got 9") != std::string::npos);
      }
    }
  }
}

TEST_CASE("random numbers and optimizers give the same bits", "[threads]") {
  check_bits([] {
    const GeneratorScope scope(Generator(7));
    return Results{random::normal({large}),
                   random::uniform({large}, {.dtype = DType::float64}),
                   random::integers(-5, 1000, {large}),
                   random::bernoulli(0.3, {large}),
                   dropout(ones({large}), 0.5),
                   random::permutation(large)};
  });
  const Tensor start = numbers({large}, DType::float32), step = numbers({large}, DType::float32);
  check_bits([&] {
    const std::vector<Variable> adam = {Variable("a", start)}, sgd = {Variable("b", start)},
                                heavy = {Variable("c", start)};
    optim::Adam one(adam);
    optim::SGD two(sgd), three(heavy, {.momentum = 0.9});
    for (int i = 0; i < 3; ++i) {
      one.step({step});
      two.step({step});
      three.step({step});
    }
    return Results{adam[0].value(), sgd[0].value(), heavy[0].value()};
  });
}

TEST_CASE("recurrent cells give the same bits", "[threads]") {
  const Tensor x = numbers({200, 300}, DType::float32);
  nn::LSTMCell cell(300, 256);
  check_bits([&] {
    const std::vector<Variable> variables = parameters(cell);
    GradientTape tape;
    auto state = cell.initial_state(200);
    for (int i = 0; i < 3; ++i) state = cell(x, state);
    Results results = {state.h, state.c};
    for (const Tensor& g : tape.gradient(sum(state.h * state.c), variables))
      results.push_back(in_order(g));
    return results;
  });
}
}  // namespace reel::tests
