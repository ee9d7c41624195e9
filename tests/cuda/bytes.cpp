// SPDX-License-Identifier: BSD-3-Clause
// The device memory that the kernels of each op read and write.
#include <algorithm>
#include <map>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "cuda/every_kernel.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/flow/observer.hpp"
#include "lib/table/backend.hpp"

#ifdef REEL_COUNTS_ACCESSES  // in a build without a sanitizer
namespace reel::tests {
namespace {
/// What the most expensive call reads, as a part of its inputs, and what it writes, as a part of
/// its outputs.
struct Bytes {
  double read = 0, written = 0;
};
double bytes_of(const Body& body) {
  return static_cast<double>(body.elements) * size_of(body.dtype);
}
/// Watches the calls that have more than 16 KB of inputs and outputs.
struct Traffic : Observer {
  void kernel_begins(const DeviceCall& call) override {
    synchronize(call.device);
    before = emulate::counts();
  }
  void kernel_ends(const DeviceCall& call) override {
    synchronize(call.device);
    const emulate::Counts now = emulate::counts();
    const KernelCall& kernel = call.kernel;
    double inputs = 0, outputs = 0, most = 0;
    for (int i = 0; i < kernel.output_count; ++i)
      if (const Body* const y = kernel.outputs[i]) {
        outputs += bytes_of(*y);
        if (kernel.accumulate >> i & 1) inputs += bytes_of(*y);
        most = std::max(most, static_cast<double>(y->elements));
      }
    // An input that is smaller than the output, such as a row that is added to a matrix, is read
    // for each element of the output. A GPU finds it in a cache.
    for (int i = 0; i < kernel.input_count; ++i)
      if (const Body* const x = kernel.inputs[i])
        inputs += std::max(bytes_of(*x), most * size_of(x->dtype));
    const double all = inputs + outputs;
    if (all < 16'384) return;
    const double read = static_cast<double>(now.read_bytes - before.read_bytes),
                 written = static_cast<double>(now.written_bytes - before.written_bytes);
    // A sixteenth is for sums of blocks, and for numbers and addresses in device memory.
    Bytes& found = of[std::string(call.op.name) + suffix_of(call.part).data()];
    found.read = std::max(found.read, read / (inputs + all / 16));
    found.written = std::max(found.written, written / (outputs + all / 16));
  }
  emulate::Counts before;
  std::map<std::string, Bytes> of;
};
/// How often a kernel may read its inputs or write its outputs, if it is not once.
using Limits = std::map<std::string, double>;
void check(const Traffic& traffic, const Limits& limits) {
  for (const auto& [name, bytes] : traffic.of) {
    INFO(name << ": read " << bytes.read << ", written " << bytes.written);
    const auto limit = limits.find(name);
    CHECK(std::max(bytes.read, bytes.written) <= (limit == limits.end() ? 1 : limit->second));
  }
}
}  // namespace

TEST_CASE("a kernel reads its inputs and writes its outputs once") {
  const DeviceScope scope(cuda(0));
  if (!counts_bytes()) return skip("the kernels of this plugin do not count");
  const Limits limits = {
      // The sums of blocks, of elements with one byte; one index for each row.
      {"all", 1.1},
      {"any", 1.1},
      {"argmax", 1.1},
      // A launch folds parts of lines, the last launch reads the lines again.
      {"cummax", 2},
      {"cumprod", 2},
      {"cumsum", 2},
      {"linear_scan", 2},
      {"logcumsumexp", 2.1},
      // The numbers are added in place, index by index.
      {"flat_positions", 1.75},
      // A copy of the output is changed in place. Several updates of one element may come.
      {"scatter_assign", 8},
      {"scatter_max", 8},
      {"scatter_min", 8},
      // Tiles, then merges of 60,000 elements.
      {"argsort", 17},
      {"scatter", 60},
      {"scatter_elements", 60},
      // A binary search for each element.
      {"searchsorted", 4.5},
      // Atomic additions to few bins.
      {"histogram", 31},
      // The steps of all sequences read each other's results.
      {"ctc_loss", 8},
      {"ctc_loss.d", 2},
      {"gru.d", with_cudnn ? 6.5 : 14},  // the latter of few inputs and many weights
      {"lstm.d", 4.5},
      // Sums of strips of rows.
      {"layer_norm.d", 2.5},
      // Each result reads a window or a whole row. A GPU finds most of it in a cache.
      {"attention", 52},
      {"attention.d", 112},
      {"convolution", 99},
      {"convolution_add", 34},
      {"convolution_data", 170},
      {"convolution_dense", 68},
      {"convolution_weights", 171},
      {"max_pool", 3.3},
      {"max_pool.d", 7.1},
      {"max_pool_places", 3.3},
      // Each number is compared with two limits.
      {"check_rate", 2},
      // The exchanges of a permutation are a list in scratch memory.
      {"random", 70},
  };
  Traffic traffic;
  {
    const ObserverScope watching(traffic);
    run_every_kernel();
  }
  check(traffic, limits);
  std::string missing;
  for (const std::string& name : kernels())
    if (!traffic.of.count(name)) missing += name + " ";
  if (!smaller) CHECK(missing == "");
}

TEST_CASE("how often kernels read lines that no block keeps in its registers") {
  const DeviceScope scope(cuda(0));
  if (!counts_bytes()) return skip("the kernels of this plugin do not count");
  Traffic traffic;
  {
    const ObserverScope watching(traffic);
    run_long_lines();
  }
  check(traffic, {{"layer_norm", 1.6},
                  {"layer_norm.d", 4.5},
                  {"log_softmax", 2},
                  {"log_softmax.d", 1.5},
                  {"softmax", 2},
                  {"softmax.d", 2}});
}
}  // namespace reel::tests
#endif
