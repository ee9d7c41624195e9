// SPDX-License-Identifier: BSD-3-Clause
// Values, gradients and second gradients of every row beside those of LibTorch.
#include <cmath>
#include <cstdio>
#include <set>

#include "lib/flow/observer.hpp"
#include "peers/deviations.hpp"
#include "peers/libtorch.hpp"
#include "sweep/table.hpp"

namespace reel::tests::peers {
namespace {
/// The first difference of each part of each row. Every listed deviation has to occur.
class Differences {
 public:
  explicit Differences(std::string kind) : kind_(std::move(kind)) {}
  void note(const Row& row, const std::string& part, const std::string& text, const Ours& inputs) {
    if (text.empty()) return;
    std::string shapes;
    for (const Tensor& x : inputs) shapes += " " + to_text(x.shape());
    const std::string key = row.name + ": " + kind_ + part;
    found_.emplace(key, "inputs" + shapes + ": " + text);
  }
  void check() const {
    for (const auto& [key, text] : found_) {
      if (deviations().count(key) == 0) std::printf("%s: %s\n", key.c_str(), text.c_str());
      INFO(key << ": " << text);
      CHECK(deviations().count(key) == 1);
    }
    for (const auto& [key, reason] : deviations()) {
      const std::string part = key.substr(key.rfind(": ") + 2);
      // Without a kind: "value", "gradient", "second gradient".
      const bool ours = kind_.empty()
                            ? part.rfind("float32", 0) != 0 && part.rfind("special", 0) != 0
                            : part.rfind(kind_, 0) == 0;
      if (!ours) continue;
      INFO(key << " is listed as a deviation and does not occur");
      CHECK(found_.count(key) == 1);
    }
  }

 private:
  std::string kind_;
  std::map<std::string, std::string> found_;
};

void compare(const Row& row, const Ours& inputs, Tolerance near, Differences& differences) {
  const int orders = row.orders;
  Outcome got, expected;
  try {
    got = run_ours(row, inputs, orders);
    expected = run_theirs(row, inputs, orders);
  } catch (const std::exception& error) {
    differences.note(row, "error", error.what(), inputs);
    return;
  }
  if (!expected.values.empty() && expected.values[0].dtype == "float32") near = {2e-5, 1e-5};
  differences.note(row, "value", difference(got.values, expected.values, near), inputs);
  differences.note(row, "gradient", difference(got.gradients, expected.gradients, near), inputs);
  const Tolerance second{10 * near.relative, 10 * near.of_largest};
  differences.note(row, "second gradient",
                   difference(got.second_gradients, expected.second_gradients, second), inputs);
}

/// The inputs in float32, in turn row-major, transposed and every other element of wider ones.
Ours in_float32(const Ours& inputs, std::size_t turn) {
  Ours found;
  for (const Tensor& x : inputs) {
    Tensor y = is_floating(x.dtype()) ? x.to(float32) : x;
    if (y.rank() > 0 && turn % 3 == 1) y = repeat(y, 2, -1)(ellipsis, range({}, {}, 2));
    if (y.rank() > 1 && turn % 3 == 2)
      y = transpose(broadcast_to(transpose(y), transpose(y).shape()) * full({}, 1, {y.dtype()}));
    found.push_back(y);
  }
  return found;
}

class Names : public Observer {
 public:
  void op_ends(const GateCall& call) override { seen.insert(std::string(call.op.name)); }
  std::set<std::string> seen;
};

const double inf = INFINITY, nan = NAN;
const std::vector<double> special = {0,     -0.0,  1,      -1,   0.5,   -0.5, 1.5,   -2.5, 2,
                                     -2,    3,     -3,     20.5, 30,    -30,  90,    -104, 750,
                                     -750,  1e8,   -1e8,   1e20, -1e20, 1e30, -1e30, 1e-8, -1e-8,
                                     1e-30, 1e-39, -1e-39, inf,  -inf,  nan};
}  // namespace

TEST_CASE("every op of the table is called by a row, or has a reason", "[peers]") {
  Names names;
  {
    const ObserverScope watching(names);
    for (const Row& row : all_rows()) run_ours(row, row.cases.at(0), row.orders);
  }
  for (const Op* op : library_ops()) {
    const std::string name(op->name);
    INFO(name);
    CHECK(names.seen.count(name) + unmapped_ops().count(name) == 1);
  }
}

TEST_CASE("values, gradients and second gradients of float64 are LibTorch's", "[peers]") {
  Differences differences("");
  for (const Row& row : all_rows())
    for (const Ours& inputs : row.cases) compare(row, inputs, {1e-11, 1e-12}, differences);
  differences.check();
}

TEST_CASE("values, gradients and second gradients of float32 are LibTorch's", "[peers]") {
  Differences differences("float32 ");
  for (const Row& row : all_rows()) {
    std::size_t turn = 0;
    for (const Ours& inputs : row.cases)
      compare(row, in_float32(inputs, turn++), {2e-5, 1e-5}, differences);
  }
  differences.check();
}

TEST_CASE("values and gradients at special values are LibTorch's", "[peers]") {
  Differences differences("special ");
  for (const Row& row : all_rows()) {
    if (!row.pointwise) continue;
    std::vector<double> x, y;
    for (const double a : special)
      for (const double b : row.inputs == 1 ? std::vector<double>{0} : special)
        x.push_back(a), y.push_back(b);
    Ours inputs = {
        from_span(std::span<const double>(x), Shape{static_cast<std::int64_t>(x.size())})};
    if (row.inputs == 2) inputs.push_back(from_span(std::span<const double>(y), inputs[0].shape()));
    for (const Ours& given : {inputs, in_float32(inputs, 0)}) try {
        const int orders = std::min(row.orders, 1);
        const Outcome got = run_ours(row, given, orders), expected = run_theirs(row, given, orders);
        const double near = given[0].dtype() == float32 ? 2e-5 : 1e-11;
        differences.note(row, "value", difference(got.values, expected.values, {near, 0}, true),
                         given);
        differences.note(row, "gradient", difference(got.gradients, expected.gradients, {near, 0}),
                         given);
      } catch (const std::exception& error) {
        differences.note(row, "error", error.what(), given);
      }
  }
  differences.check();
}
}  // namespace reel::tests::peers
