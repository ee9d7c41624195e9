// SPDX-License-Identifier: BSD-3-Clause
// Every kernel on more elements than a grid takes at once, with a last block that is not full. The
// emulated device runs 16 blocks of 256 threads at once. With REEL_TEST_SHORT=1, as under a
// sanitizer, each has three blocks at least.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "lib/flow/observer.hpp"
#include "lib/table/backend.hpp"
#include "support/resident.hpp"
#include "support/short.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
const bool smaller = sanitized || is_short();
/// More elements than two blocks of an update take, or than three grids with four elements a
/// thread.
std::int64_t least_elements() { return smaller ? 2 * 2048 : 3 * 4 * 4096; }
/// Collects the names of kernels that run: "tanh", "tanh.d0".
struct Names : Observer {
  void kernel_ends(const DeviceCall& call) override {
    std::int64_t most = 0;
    for (int i = 0; i < call.kernel.input_count; ++i)
      if (const Body* const x = call.kernel.inputs[i]) most = std::max(most, x->elements);
    for (int i = 0; i < call.kernel.output_count; ++i)
      if (const Body* const y = call.kernel.outputs[i]) most = std::max(most, y->elements);
    if (most > least_elements())
      ran.insert(std::string(call.op.name) + suffix_of(call.part).data());
  }
  std::set<std::string> ran;
};
/// Whether the gradient is dy itself, which needs no kernel.
bool passes(const Op& op, Part part) {
  return (part == Part::gradient_0 && op.gradient.passes & 1) ||
         (part == Part::gradient_1 && op.gradient.passes & 2);
}
std::set<std::string> kernels() {
  std::set<std::string> names;
  for (const Op* op : OpTable::the().ops())
    for (const Part part : {Part::value, Part::gradient_0, Part::gradient_1, Part::gradients})
      if (op->on(Device::Kind::cuda).has(part) && op->fusion != Fusion::layout &&
          !passes(*op, part))
        names.insert(std::string(op->name) + suffix_of(part).data());
  return names;
}
/// The kernels whose largest launch had fewer than three blocks. A template counts once.
/// permute_few has one block always.
std::string small_launches() {
  Dl_info plugin = {};
  const auto launches = emulate::largest_launches();
  REQUIRE(!launches.empty());
  REQUIRE(dladdr(launches.begin()->first, &plugin));
  std::istringstream symbols(output_of("nm -C '" + std::string(plugin.dli_fname) + "'"));
  std::map<std::string, std::uint64_t> most;
  std::string line;
  while (std::getline(symbols, line)) {
    const std::size_t name = line.find("namespace)::");
    if (name == std::string::npos) continue;
    const auto offset = std::strtoull(line.c_str(), nullptr, 16);
    const auto found = launches.find(static_cast<const char*>(plugin.dli_fbase) + offset);
    if (found == launches.end()) continue;
    std::uint64_t& blocks =
        most[line.substr(name + 12, line.find_first_of("<(", name + 12) - name - 12)];
    blocks = std::max(blocks, found->second);
  }
  CHECK(most.size() > 40);
  std::string small;
  for (const auto& [name, blocks] : most)
    if (blocks < 3 && name != "permute_few") small += name + " ";
  return small;
}
template <class F>
void both_ways(const std::vector<Tensor>& sources, const F& f) {
  GradientTape tape;
  for (const Tensor& each : sources) tape.watch(each);
  const Tensor y = f();
  if (is_floating(y.dtype()))
    tape.gradient(sum(y * y), sources, {.unconnected = Unconnected::zero});
}
/// Calls every kernel on more elements than a grid takes at once.
void run_every_kernel() {
  seed(5);
  const std::int64_t height = smaller ? 47 : 251, width = smaller ? 97 : 203;
  const std::int64_t count = smaller ? 4'700 : 60'000, units = smaller ? 37 : 101;
  const Shape shape{height, width};
  const Tensor x = random::normal(shape), y = random::uniform(shape, {.low = 0.5});
  const Tensor row = random::normal({width}), column = random::normal({height, 1});
  const Tensor integers = random::integers(1, 50, shape), truth = x > 0, other = y > 0.7;
  const Tensor places = random::integers(0, height, {count}),
               labels = random::integers(0, std::min(height, width), {height});
  for (const auto f : {add, subtract, multiply, divide, remainder, maximum, minimum}) {
    both_ways({x, y}, [&] { return f(x, y); });
    both_ways({x, row}, [&] { return f(x, row); });
    both_ways({x, column}, [&] { return f(x, column); });
    both_ways({x, y}, [&] { return f(transpose(x), transpose(y)); });
  }
  both_ways({x, y}, [&] { return power(y, x); });
  for (const auto f : {negative, abs, exp, square, relu, sigmoid, tanh})
    both_ways({x}, [&] { return f(x); });
  for (const auto f : {log, sqrt}) both_ways({y}, [&] { return f(y); });
  for (const auto f : {sin, cos, tan, atan, sinh, cosh, asinh, exp2, expm1, erf, erfc, gelu,
                       gelu_tanh, silu, softplus})
    both_ways({x}, [&] { return f(x); });
  const Tensor inside = 0.9 * tanh(x), above = 1 + y;
  for (const auto f : {asin, acos, atanh, log1p}) both_ways({inside}, [&] { return f(inside); });
  for (const auto f : {acosh, log2, rsqrt, reciprocal, lgamma, digamma})
    both_ways({above}, [&] { return f(above); });
  both_ways({above}, [&] { return polygamma(2, above); });
  left_shift(integers, integers % 9), right_shift(integers, integers % 9);
  for (const auto f : {ceil, floor, round, trunc, sign, isfinite, isinf, isnan}) f(x);
  for (const auto f : {atan2, hypot, logaddexp, leaky_relu, elu})
    both_ways({x, y}, [&] { return f(x, y); });
  floor_divide(x, y);
  both_ways({x, y, above}, [&] { return clip(x, y, above); });
  both_ways({x, y, above}, [&] { return lerp(x, y, above); });
  const Tensor share = sigmoid(x);
  both_ways({share, y}, [&] { return binary_cross_entropy(share, y, Reduction::none); });
  both_ways({x, y}, [&] { return binary_cross_entropy_with_logits(x, y); });
  both_ways({x, y}, [&] { return call_op("huber", {x, y}); });
  both_ways({y}, [&] { return prod(y, 1); });
  for (const auto f : {cumsum, cumprod, cummax, logcumsumexp})
    both_ways({y}, [&] { return f(y, 1, {}); });
  argmin(x, 1), argsort(x, 1), searchsorted(sort(row), x);
  for (const auto f : {logical_and, logical_or, logical_xor}) f(truth, other);
  truth == other, x != y, x<row, x <= y, x> y, x >= y, logical_not(truth),
      integers < x.to(DType::float64);
  integers & 3, integers | 1, integers ^ integers, ~integers;
  both_ways({x, y}, [&] { return where(truth, x, y); });
  x.to(DType::float64), integers.to(DType::float32), transpose(x) + 0;
  for (const Axes axes : {Axes({0}), Axes({1}), Axes({0, 1})}) {
    for (const auto reduce : {static_cast<Tensor (*)(Operand, Axes, Keepdims)>(sum),
                              static_cast<Tensor (*)(Operand, Axes, Keepdims)>(mean),
                              static_cast<Tensor (*)(Operand, Axes, Keepdims)>(max),
                              static_cast<Tensor (*)(Operand, Axes, Keepdims)>(min)})
      both_ways({x}, [&] { return reduce(x, axes, Keepdims::no); });
    both_ways({x}, [&] { return norm(x, axes); });
    any(truth, axes, Keepdims::no), all(truth, axes, Keepdims::no);
  }
  argmax(x, 1), argmax(x, 0);
  for (const int axis : {0, 1}) {
    both_ways({x}, [&] { return softmax(x, axis); });
    both_ways({x}, [&] { return log_softmax(x, axis); });
  }
  for (const std::int64_t length : {1, 8, 9, 256, 257}) {  // a thread keeps 8 elements at most
    const Tensor tall = random::normal({2, length, width});
    both_ways({tall}, [&] { return softmax(tall, 1); });
    both_ways({tall}, [&] { return log_softmax(tall, 1); });
  }
  both_ways({x}, [&] { return cross_entropy(x, labels); });
  const std::int64_t batch = smaller ? 47 : 300;
  const Tensor scores = random::normal({7, batch, 29}),
               written = random::integers(1, 29, {batch, 3});
  const Tensor steps = random::integers(4, 8, {batch}), counts = random::integers(0, 4, {batch});
  both_ways({scores}, [&] { return ctc_loss(log_softmax(scores), written, steps, counts); });
  both_ways({x, row}, [&] { return layer_norm(x, row, row); });
  const Tensor doubles = y.to(DType::float64);
  std::vector<Tensor> parts{x, y, x, y, x, doubles, doubles(all, range(1, {}))};
  for (int i = 0; i < 300; ++i) parts.push_back(x(i % height));  // more than one launch takes
  limit_norm(parts, 3);
  both_ways({x}, [&] { return take(x, places(range(0, 400))); });
  both_ways({x}, [&] { return x(places, places % width); });
  both_ways({x}, [&] {
    return gather(x, places(range(0, height * (width - 3))).reshape({height, width - 3}) % width,
                  1);
  });
  both_ways({x}, [&] { return scatter_add(x, labels, x, 0); });
  const Tensor slabs = random::normal({10, 40, 600});
  for (const std::int64_t n : {20, 40})  // one thread for each line of updates, then sorted updates
    both_ways({slabs}, [&] { return take(slabs, places(range(0, n)) % 40, 1); });
  one_hot(labels, 300);
  both_ways({x, y}, [&] { return concat({x, y}, 1); });
  both_ways({x}, [&] { return x(range(3, height - 1), range(1, {})); });
  both_ways({x, y}, [&] { return matmul(x, transpose(y)); });
  both_ways({x, row}, [&] { return matmul_add(x, transpose(y), column); });
  both_ways({x}, [&] { return dense(x, transpose(y), ones({height}), Activation::tanh); });
  const Tensor gates = random::normal({131, 4 * units}), cells = random::normal({131, units});
  both_ways({gates, cells}, [&] { return lstm_gates(gates, cells).h; });
  const Tensor tree = random::normal({131, 5 * units}), leaf = random::normal({180, 3 * units});
  both_ways({tree, cells}, [&] { return tree_lstm_gates(tree, cells, cells).h; });
  both_ways({leaf}, [&] { return tree_lstm_leaf_gates(leaf).h; });
  nn::LSTM lstm(30, 40);
  nn::GRU gru(30, 40);
  const Tensor sequence = random::normal({6, smaller ? 120 : 300, 30});
  both_ways({sequence}, [&] { return lstm(sequence).outputs; });
  both_ways({sequence}, [&] { return gru(sequence).outputs; });
  Variable w("w", x), m("m", x), v("v", y), whole("whole", x);
  sgd_update(w, y, 0.1);
  momentum_update(w, m, y, 0.1);
  adam_update(w, m, v, y, 0.1, 3);
  const std::vector<Variable> ws{w}, ms{m}, vs{v}, most{Variable("most", y)};
  const std::vector<Tensor> gradients{y};
  amsgrad_update(ws, ms, vs, most, gradients, 0.1, 4);
  rmsprop_update(ws, vs, gradients, 0.1);
  rmsprop_update(ws, vs, ms, gradients, 0.1);
  adagrad_update(ws, vs, gradients, 0.1);
  average_update(ws, gradients, 0.1);
  for (const int variables : {60, 500}) {  // more than few and than many arguments name
    std::vector<Variable> xs, firsts, seconds;
    std::vector<Tensor> changes;
    for (int i = 0; i < variables; ++i) {
      const Shape own{1 + i % 3};
      xs.emplace_back("x", random::normal(own));
      firsts.emplace_back("first", zeros(own));
      seconds.emplace_back("second", ones(own));
      changes.push_back(random::normal(own));
    }
    adam_update(xs, firsts, seconds, changes, 0.1, 3);
  }
  detail::check_rate(full({count}, 0.1), ws);
  both_ways({x}, [&] { return lookup(x, places(range(0, 400))); });
  const Tensor rows = concat({full({1}, std::int64_t{-1}), random::permutation(height)}, 0);
  const std::vector<RowGradient> some{
      {y(range(0, height * 4 / 5)), rows(range(0, height * 4 / 5))}};
  const Tensor held = w, held_m = m;  // so that these are copied
  sgd_update(ws, some, 0.1);
  momentum_update(ws, ms, some, 0.1);
  adam_update(ws, ms, vs, some, 0.1, 3);
  amsgrad_update(ws, ms, vs, most, some, 0.1, 4);
  rmsprop_update(ws, vs, some, 0.1);
  rmsprop_update(ws, vs, ms, some, 0.1);
  adagrad_update(ws, vs, some, 0.1);
  w.assign(x), w.assign_add(y), w.assign_sub(y);
  w(range(0, height - 1), all).assign(y(range(1, height)));
  random::normal(shape), random::permutation(count), random::bernoulli(0.3, shape);
  random::exponential(shape), random::gumbel(shape);
  random::truncated_normal(shape), random::gamma(0.7, shape);
  random::beta(2, 0.5, shape), random::categorical(x, 2);
  random::categorical(row, count), random::choice(x, 600), random::shuffle(x, 1);
  random::choice(places, 9, {.weights = random::uniform({count}, {.low = 0.5})});
  for (const std::int64_t bins : {20, 4096, 4097}) histogram(x, bins, -2, 2);
  const Tensor many = random::normal({count, 2}), few = random::normal({400, 2});
  for (const auto f : {scatter, scatter_max, scatter_min, scatter_mean})
    both_ways({few, many}, [&] { return f(few, places, many, 0); });
  for (const auto f : {segment_sum, segment_mean, segment_max, segment_min, segment_softmax})
    both_ways({many}, [&] { return f(many, places, height); });
  // Each thread has one of many lines.
  const Tensor wide = random::normal({90, 600});
  both_ways({wide}, [&] { return sum(wide(range(0, 20)), 0); });
  both_ways({wide}, [&] { return cumsum(wide, 0); });
  full(shape, 3), arange(0, count), eye(height);
}

/// The most launches of each kernel in one call, and what a kernel does beside launches.
struct Launches : Observer {
  void kernel_begins(const DeviceCall&) override { before = emulate::counts(); }
  void kernel_ends(const DeviceCall& call) override {
    const emulate::Counts now = emulate::counts();
    const std::string name = std::string(call.op.name) + suffix_of(call.part).data();
    std::uint64_t& launches = most[name];
    launches = std::max(launches, now.launches + now.products - before.launches - before.products);
    if (now.synchronizations != before.synchronizations) waiting.insert(name);
    if (now.copies != before.copies) copying.insert(name);
  }
  emulate::Counts before;
  std::map<std::string, std::uint64_t> most;
  std::set<std::string> waiting, copying;
};
}  // namespace

TEST_CASE("every kernel gives the CPU's numbers for more elements than a grid takes at once") {
  const DeviceScope scope(cuda(0));
  const LockstepScope lockstep({.tolerance = 2e-4});
  emulate::reset_counts();
  Names names;
  const ObserverScope watching(names);
  run_every_kernel();
  std::string missing;
  for (const std::string& each : kernels())
    if (!names.ran.count(each)) missing += each + " ";
  CHECK(missing == "");
  CHECK(small_launches() == "");
}

TEST_CASE("a kernel is one launch, or as many as its method needs, and waits for nothing") {
  const DeviceScope scope(cuda(0));
  const std::map<std::string, std::uint64_t> longer = {
      // A second launch joins what the blocks of the first one found.
      {"all", 2},
      {"any", 2},
      {"argmax", 2},
      {"max", 2},
      {"mean", 2},
      {"min", 2},
      {"sum", 2},
      {"sum_squares", 2},
      {"sum_to", 2},
      {"layer_norm.d", 2},
      {"flat_positions", 2},
      // Sums of blocks, the sums of these, and the results.
      {"cummax", 3},
      {"cumprod", 3},
      {"cumsum", 3},
      {"linear_scan", 3},
      {"logcumsumexp", 3},
      // x is copied, then changed.
      {"scatter_assign", 2},
      {"scatter_max", 2},
      {"scatter_min", 2},
      // Positions are sorted, so that the sums are deterministic.
      {"argsort", 10},
      {"scatter", 9},
      {"scatter_elements", 9},
      // A product, and a bias or an activation.
      {"dense", 2},
      {"matmul_add", 2},
      // A product for all inputs, then for each of 6 steps a product and the gates.
      {"gru", 13},
      {"lstm", 13},
      {"gru.d", 12},
      {"lstm.d", 12},
      // 500 Variables, 474 in a launch.
      {"adam_update", 2},
      // 307 tensors, 128 in a launch, of two dtypes: their sums, the factor, the results.
      {"limit_norm", 9},
      // Long permutations: the list of exchanges, then the exchanges.
      {"random", 2}};
  Launches launches;
  {
    const ObserverScope watching(launches);
    run_every_kernel();
  }
  for (const auto& [name, most] : launches.most) {
    INFO(name);
    const auto found = longer.find(name);
    CHECK(most <= (found == longer.end() ? 1 : found->second));
  }
  CHECK(launches.waiting == std::set<std::string>{});
  const std::set<std::string> copying = {"cast", "gru", "lstm", "momentum_row_update",
                                         "sgd_row_update"};  // from device to device
  CHECK(launches.copying == copying);
}
}  // namespace reel::tests
