// SPDX-License-Identifier: BSD-3-Clause
// Every kernel that is launched, each instance of a template by itself: with three blocks at least,
// with a last block that is not full, and with more elements than a grid takes at once. The
// emulated device runs 16 blocks of 256 threads at once. With REEL_TEST_SHORT=1, as under a
// sanitizer, a grid takes all elements at once. Under a sanitizer, and in plugins that do not count
// accesses, nothing shows whether the last block is full.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <reel/reel.hpp>

#include "cuda/emulated.hpp"
#include "cuda/every_kernel.hpp"
#include "lib/flow/observer.hpp"
#include "lib/table/backend.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
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
/// Whether the CPU has a kernel, or passes, for the part.
bool cpu_computes(const Op& op, Part part) {
  const Kernels& kernels = op.on_cpu();
  if (part == Part::value) return kernels.computes();
  if (kernels.has(part)) return true;
  if (!kernels.passes || part == Part::gradients) return false;
  const auto& passes = kernels.passes->gradient;
  return std::any_of(std::begin(passes), std::end(passes),
                     [=](const auto& pass) { return pass[part == Part::gradient_1]; });
}
/// What the CPU computes and a CUDA device does not.
std::string missing_kernels() {
  std::string missing;
  for (const Op* op : OpTable::the().ops())
    for (const Part part : all_parts)
      if (cpu_computes(*op, part) && !op->on(Device::Kind::cuda).has(part) && !op->changes_device)
        missing += std::string(op->name) + suffix_of(part).data() + " ";
  return missing;
}
/// The kernels in the sources, each with the arguments of its __launch_bounds__, if it has any.
std::map<std::string, std::string> kernels_of_sources() {
  const std::string text =
      output_of("cd '" REEL_CUDA_SOURCES
                "' && grep -hv '^//' *.cu *.hpp | grep -h -A1 __global__ | tr '\\n' ' '");
  const std::regex kernel(R"(__global__ void( __launch_bounds__\(([^)]*)\))?\s+(\w+)\()");
  std::map<std::string, std::string> bounds;
  for (std::sregex_iterator each(text.begin(), text.end(), kernel), end; each != end; ++each)
    bounds[(*each)[3]] = (*each)[2];
  return bounds;
}
/// Without namespaces.
std::string short_name(std::string function) {
  for (const std::string space : {"(anonymous namespace)::", "reel::gpu::", "reel::"})
    for (std::size_t at; (at = function.find(space)) != std::string::npos;)
      function.erase(at, space.size());
  return function;
}
/// Functions, such as "run_rows<float, 4, ...>(...)", and their largest launches.
using Launched = std::vector<std::pair<std::string, emulate::Largest>>;
/// The functions that were launched.
Launched launched_functions() {
  synchronize(cuda(0));
  Dl_info plugin = {};
  auto launches = emulate::largest_launches();
  REQUIRE(!launches.empty());
  REQUIRE(dladdr(launches.begin()->first, &plugin));
  std::istringstream symbols(output_of("nm -C '" + std::string(plugin.dli_fname) + "'"));
  Launched functions;
  for (std::string line; std::getline(symbols, line);) {
    const auto offset = std::strtoull(line.c_str(), nullptr, 16);
    const auto found = launches.find(static_cast<const char*>(plugin.dli_fbase) + offset);
    if (found == launches.end()) continue;
    functions.emplace_back(short_name(line.substr(line.find("reel::"))), found->second);
    launches.erase(found);
  }
  CHECK(launches.empty());
  return functions;
}
/// Without template arguments and parameters.
std::string name_of(const std::string& function) {
  const std::string name = function.substr(0, function.find_first_of("<("));
  return name.substr(name.rfind(':') + 1);
}
/// The kernels in the sources that were not launched.
std::string not_launched(const Launched& launched) {
  const auto sources = kernels_of_sources();
  CHECK(sources.size() > 50);
  std::set<std::string> missing;
  for (const auto& [name, bound] : sources) missing.insert(name);
  for (const auto& [function, largest] : launched) missing.erase(name_of(function));
  std::string names;
  for (const std::string& name : missing) names += name + " ";
  return names;
}
/// What some launch of a function had.
using Property = bool (*)(const emulate::Largest&);
bool has_three_blocks(const emulate::Largest& of) { return of.blocks >= 3; }
/// Whether a grid is as large as it may be: 16 blocks, or more blocks with fewer than 256 threads.
/// `threads` are those of all blocks.
bool is_full(std::uint64_t blocks, std::uint64_t threads) {
  return blocks >= 16 || threads >= 4096;
}
bool fills_grid(const emulate::Largest& of) { return is_full(of.blocks, of.blocks * of.threads); }
bool is_ragged(const emulate::Largest& of) { return of.ragged; }
bool repeats(const emulate::Largest& of) {
  return is_full(of.repeating_blocks, of.repeating_threads);
}
/// Functions that have not got a property, because of their method.
struct Exception {
  std::string start;  // of their names
  std::vector<Property> without;
};
const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> all = {
      // The method of this kernel has one block.
      {"permute_few(", {has_three_blocks, fills_grid, is_ragged, repeats}},
      // Joins the sums of parts of rows. Three blocks need 513 rows of 16,385 elements. With other
      // types the same kernel reads rows too, and has many blocks.
      {"fold_rows<SumOfSquares<float>, Squares>",
       {has_three_blocks, fills_grid, is_ragged, repeats}},
      // All threads of a block take part in each line or sequence, so that no block is ragged.
      {"run_rows<float, 0,", {is_ragged, repeats}},
      {"run_rows<double, 0,", {is_ragged, repeats}},
      {"gradient_rows<", {is_ragged, repeats}},
      {"losses<", {is_ragged, repeats}},
      {"gradients<", {is_ragged, repeats}},
      {"sort_tiles<", {is_ragged, repeats}},
      {"merge_tiles<", {is_ragged, repeats}},
      // Each thread follows a list whose length is random.
      {"put_numbers<", {is_ragged, repeats}},
      // 18 tiles of columns that are too long to be kept are a million elements. float has them.
      {"run_columns<double, 0,", {fills_grid, repeats}},
      // A thread has a number of a bias. 4096 of them need millions of weights.
      {"copy_bias<", {fills_grid, repeats}},
      // Elements at a border have fewer products, or windows.
      {"of_data<", {is_ragged, repeats}},
      {"largest_gradient<", {is_ragged, repeats}},
      // A thread has a query. 4096 of them are as many blocks of the other kernels.
      {"row_dots<", {fills_grid, repeats}},
      // All threads of a block take part in each query or key, and the grid covers them all.
      {"values<float>(Attended<", {is_ragged, repeats}},
      {"of_queries<", {is_ragged, repeats}},
      {"of_keys<", {is_ragged, repeats}},
      // The grid covers 65,535 groups of 256 rows, and is not limited to 16 blocks.
      {"sequences::sum_groups<", {repeats}}};
  return all;
}
/// The functions that have not got the property, and the exceptions that no function needs.
std::string without(Property property, const Launched& launched) {
  std::string names;
  std::set<std::string> unused;
  for (const Exception& each : exceptions())
    if (std::count(each.without.begin(), each.without.end(), property)) unused.insert(each.start);
  if (!with_cudnn) unused.erase("copy_bias<");
  const std::set<std::string> starts = unused;
  for (const auto& [function, largest] : launched) {
    if (property(largest)) continue;
    const auto found = std::find_if(
        starts.begin(), starts.end(),
        [&, &name = function](const std::string& start) { return name.starts_with(start); });
    if (found == starts.end())
      names += function.substr(0, 99) + " " + std::to_string(largest.blocks) + ", ";
    else
      unused.erase(*found);
  }
  // Small tensors do not reach all functions.
  if (!smaller)
    for (const std::string& start : unused) names += "not needed: " + start + ", ";
  return names;
}
/// The most threads that a block of the function may have. Without a bound, a thread may take 255
/// registers, and a GPU has them for 256 threads.
std::uint64_t most_threads(const std::string& bound, const std::string& function) {
  const bool holds = function.find(", 0", function.find('<')) != function.find(", ");
  if (bound == "row_threads<held>") return holds ? 512 : 1024;
  if (bound == "column_threads<held>") return holds ? 1024 : 256;
  return bound.empty() ? 256 : std::stoull(bound);
}
/// The functions that were launched with more threads than their bound, which a GPU refuses.
std::string above_bounds(const std::map<std::string, std::string>& bounds,
                         const Launched& launched) {
  std::string above;
  for (const auto& [function, largest] : launched)
    if (largest.threads > most_threads(bounds.at(name_of(function)), function))
      above += function.substr(0, 99) + " " + std::to_string(largest.threads) + ", ";
  return above;
}
void check_bounds(const Launched& launched) {
  auto bounds = kernels_of_sources();
  CHECK(above_bounds(bounds, launched) == "");
  for (auto& [name, bound] : bounds) bound = "31";
  CHECK(above_bounds(bounds, launched).find("run_rows<") != std::string::npos);
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

TEST_CASE("CUDA devices have a kernel for all that the CPU has one for") {
  const DeviceScope scope(cuda(0));
  zeros({1});  // fills the table
  CHECK(missing_kernels() == "");
  const NoKernel without("argsort");
  CHECK(missing_kernels() == "argsort ");
}

TEST_CASE("every kernel gives the CPU's numbers for more elements than a grid takes at once") {
  const DeviceScope scope(cuda(0));
  const LockstepScope lockstep({.tolerance = 2e-4});
  emulate::reset_counts();
  Names names;
  const ObserverScope watching(names);
  run_every_kernel();
  run_ragged_grids();
  run_long_lines();
  std::string missing;
  for (const std::string& each : kernels())
    if (!names.ran.count(each)) missing += each + " ";
  CHECK(missing == "");
  const Launched launched = launched_functions();
  CHECK(launched.size() > 350);
  // Only graphs launch these. They have one block always.
  CHECK(not_launched(launched) ==
        (with_cudnn ? "add_blocks put_draws " : "add_blocks copy_bias copy_weights put_draws "));
  // Of lines that no block keeps in its registers.
  for (const std::string name : {"run_rows", "run_columns", "gradient_rows"})
    for (const std::string type : {"float", "double"}) {
      const std::string start = name + "<" + type + ", 0";
      INFO(start);
      CHECK(std::any_of(launched.begin(), launched.end(),
                        [&](const auto& each) { return each.first.starts_with(start); }));
    }
  check_bounds(launched);
  CHECK(without(has_three_blocks, launched) == "");
  if (!smaller) CHECK(without(fills_grid, launched) == "");
#ifdef REEL_COUNTS_ACCESSES
  if (emulate::counts().written_bytes == 0) return;  // the kernels of this plugin do not count
  CHECK(without(is_ragged, launched) == "");
  if (!smaller) CHECK(without(repeats, launched) == "");
#endif
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
      // The gradients of queries, of keys and values, and of the mask.
      {"attention.d", 4},
      {"convolution_dense", 2},
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
      // Tiles, then merges of 60,000 elements.
      {"argsort", 7},
      // Positions are sorted, so that the sums are deterministic.
      {"scatter", 9},
      {"scatter_elements", 9},
      // A product, and a bias or an activation.
      {"dense", 2},
      {"matmul_add", 2},
      // Recurrent ops with lengths: a product for all inputs, and for each of 3 steps a product and
      // the gates.
      // cuDNN wants its own order of the weights.
      // Without cuDNN there are recurrent ops of 6 steps.
      {"gru", with_cudnn ? 8 : 13},
      {"lstm", with_cudnn ? 8 : 13},
      // What gru and lstm have, the lengths, the steps behind them, sums of rows in two launches.
      {"gru.d", 17},
      {"lstm.d", 16},
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
  std::set<std::string> copying = {"cast", "gru", "lstm", "momentum_row_update",
                                   "sgd_row_update"};  // from device to device
  if (with_cudnn) copying.insert({"gru.d", "lstm.d"});
  CHECK(launches.copying == copying);
}
}  // namespace reel::tests
