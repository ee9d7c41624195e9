// SPDX-License-Identifier: BSD-3-Clause
// R13: a write to a Variable changes neither what an op has read from it nor what a tape has
// recorded, for every op.
#include "support/short.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
/// The floating inputs of a sample as values of Variables.
struct Cells {
  std::vector<Variable> variables;
  explicit Cells(const Sample& sample) {
    for (const Tensor& x : floating(sample.inputs)) variables.emplace_back("w", fresh(x));
  }
  /// The inputs: values of the Variables, or views of the whole value.
  std::vector<Tensor> read(const Sample& sample, bool views) const {
    std::vector<Tensor> inputs = sample.inputs;
    std::size_t next = 0;
    for (Tensor& x : inputs)
      if (is_floating(x.dtype())) {
        x = variables[next++];
        if (views) x = expand_dims(x, 0)(0);
      }
    return inputs;
  }
};

struct Writer {
  const char* name;
  void (*write)(Variable& w);
};
const Writer writers[] = {
    {"assign a number", [](Variable& w) { w.assign(7); }},
    {"assign_add itself", [](Variable& w) { w.assign_add(w); }},
    {"assign a view of itself", [](Variable& w) { w.assign(w.value()(ellipsis) * -1); }},
    {"assign all elements of a view",
     [](Variable& w) { w.view([](Tensor x) { return reshape(x, {-1}); }).assign(3); }},
    {"a step", [](Variable& w) { sgd_update(w, ones_like(w), 0.5); }},
};

struct Results {
  Host value;
  std::vector<Host> gradients;
};
/// Reads, records, writes, and only then looks at the result and its gradients.
Results results_of(const Op& op, const Sample& sample, bool views, const Writer* writer) {
  Cells cells(sample);
  GradientTape tape;
  const Tensor y = sample.call(cells.read(sample, views));
  if (writer)
    for (Variable& w : cells.variables) writer->write(w);
  Results results{host_of(y), {}};
  if (!op.gradient.differentiable || cells.variables.empty() || !is_floating(y.dtype()))
    return results;
  for (const Tensor& g :
       tape.gradient(y, GradientSources(cells.variables), {weights_like(y), Unconnected::zero}))
    results.gradients.push_back(host_of(g));
  return results;
}
}  // namespace

TEST_CASE("a write leaves what every op has read and recorded") {
  int count = 0;
  for (const Op* op : ops_and_composites()) {
    if (op->updates || op->random) continue;
    std::size_t number = 0;
    for (const Sample& sample : some_samples_of(*op, 2)) {
      INFO(describe(*op, number++, sample));
      for (const bool views : {false, true}) {
        const Results expected = results_of(*op, sample, views, nullptr);
        for (const Writer& writer : writers) {
          INFO(writer.name << (views ? ", views" : ""));
          const Results got = results_of(*op, sample, views, &writer);
          CHECK(difference(got.value, expected.value, {}) == "");
          REQUIRE(got.gradients.size() == expected.gradients.size());
          for (std::size_t i = 0; i < got.gradients.size(); ++i)
            CHECK(difference(got.gradients[i], expected.gradients[i], {}) == "");
          ++count;
        }
      }
    }
  }
  CHECK(count >= (is_short() ? 3000 : 5000));
}
}  // namespace reel::tests
