// SPDX-License-Identifier: BSD-3-Clause
// R4: random programs of every op and composite give the same results eagerly, captured and
// replayed. Programs of tests/trace also have Variables, random numbers and updates.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "support/resident.hpp"
#include "support/short.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
using Inputs = std::vector<Tensor>;

/// A sample whose inputs a program may replace.
struct Call {
  const Op* op;
  Sample sample;
  bool any_numbers;  // takes floating numbers of every shape: a pointwise op
};
/// Calls of all ops that neither write Variables nor draw numbers. A trace does not search a static
/// for state.
std::vector<Call> calls;
/// Fills `calls` while it lives.
struct CallsScope {
  CallsScope() {
    for (const Op* op : ops_and_composites()) {
      if (op->updates || op->random) continue;
      for (Sample& sample : samples_of(*op)) {
        const bool floats = floating(sample.inputs).size() == sample.inputs.size();
        const bool pointwise = op->fusion == Fusion::pointwise && floats;
        calls.push_back({op, std::move(sample), pointwise});
      }
    }
  }
  ~CallsScope() { calls = {}; }
  CallsScope(const CallsScope&) = delete;
};

/// Between -4 and 4, without NaN.
Tensor tame(const Tensor& x) { return where(isfinite(x), clip(x, -4, 4), 0.5); }

/// A program is made from its number again in each run.
class Program {
 public:
  explicit Program(unsigned number) : number_(number), length_(5 + number % 196) {}
  bool differentiates() const { return number_ % 2 == 0; }
  /// Gradients are compared in float64. Other programs are float32 and compared bit by bit.
  DType dtype() const { return differentiates() ? float64 : float32; }

  Inputs operator()(const Tensor& x, const Tensor& row) const {
    if (!differentiates()) return values(x, row, length_);
    GradientTape tape;
    tape.watch(x);
    tape.watch(row);
    const Inputs made = values(x, row, 4 + length_ / 8);
    Tensor total = zeros({}, dtype());
    for (const Tensor& y : made) total = total + sum(tanh(y));
    Inputs found = tape.gradient(total, {x, row}, Unconnected::zero);
    found.push_back(total);
    return found;
  }
  std::string text() const {
    std::string names;
    std::mt19937 draw(number_);
    for (unsigned i = 0; i < length_; ++i) names += std::string(next(draw).op->name) + " ";
    return names;
  }

 private:
  /// A replay adds what some kernels compute to x in place, and rounds otherwise.
  bool is_exact(const Call& call) const {
    return call.op->name != "scatter_add" && call.op->name != "scatter_mean";
  }
  const Call& next(std::mt19937& draw) const {
    while (true) {
      const Call& call = calls[draw() % calls.size()];
      if (differentiates() || is_exact(call)) return call;
    }
  }

  Inputs values(const Tensor& x, const Tensor& row, unsigned length) const {
    std::mt19937 draw(number_), choice(number_ + 1);
    Inputs pool{x, row, x * 0.5};
    for (unsigned i = 0; i < length; ++i) step(next(draw), choice, pool);
    return {pool.end() - 4, pool.end()};
  }
  /// A pointwise op takes earlier results as they are. The inputs of another op are the sample's,
  /// made smaller by a factor that depends on an earlier result: positions and shapes stay valid.
  void step(const Call& call, std::mt19937& choice, Inputs& pool) const {
    Inputs inputs;
    for (const Tensor& input : call.sample.inputs) {
      const Tensor& earlier = pool[choice() % pool.size()];
      if (call.any_numbers)
        inputs.push_back(earlier);
      else if (is_floating(input.dtype()))
        inputs.push_back(input.to(dtype()) * (1 - 0.1 * sigmoid(mean(earlier))));
      else
        inputs.push_back(input);
    }
    const Tensor y = call.sample.call(inputs).to(dtype());
    if (y.size() == 0) return;
    const bool fits = y.rank() <= 2 && (y.rank() < 1 || y.shape(-1) == 4) &&
                      (y.rank() < 2 || y.shape(0) == 3 || y.shape(0) == 1);
    pool.push_back(tame(fits ? y : sum(y)));
  }

  unsigned number_, length_;
};

void check_program(unsigned number) {
  const Program program(number);
  const auto traced = trace([program](Tensor x, Tensor row) { return program(x, row); });
  INFO("program " << number << ": " << program.text());
  for (unsigned turn = 0; turn < 4; ++turn) {
    INFO("call " << turn);
    const Generator generator(number + turn);
    const GeneratorScope numbers(generator);
    const Tensor x = random::normal({3, 4}).to(program.dtype());
    const Tensor row = random::normal({4}).to(program.dtype());
    const Inputs got = traced(x, row), expected = program(x, row);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Host wanted = host_of(expected[i]);
      Near near;
      if (program.differentiates()) {
        for (const double value : wanted.values)
          if (std::isfinite(value)) near.absolute = std::max(near.absolute, std::abs(value));
        near = {1e-9, 1e-9 * near.absolute};
      }
      REQUIRE(difference(host_of(got[i]), wanted, near) == "");
    }
  }
  INFO(traced.explain());
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}
}  // namespace

TEST_CASE("random programs of every op agree, eager, captured and replayed") {
  const CallsScope all;
  const bool on_device = std::getenv("REEL_TEST_DEVICE");
  const unsigned programs = std::getenv("REEL_TEST_LONG") ? 10'000
                            : sanitized || is_short()     ? 20
                            : on_device                   ? 60
                                                          : 600;
  for (unsigned number = 0; number < programs; ++number) check_program(number);
}
}  // namespace reel::tests
