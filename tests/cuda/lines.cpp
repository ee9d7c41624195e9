// SPDX-License-Identifier: BSD-3-Clause
// Softmax, cross entropy and layer norm of float32 on the device against float64 on the CPU. A
// thread keeps the elements of short lines, and reads those of long lines twice.
#include <reel/reel.hpp>

#include <limits>

#include "cuda/emulated.hpp"

namespace reel::tests {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Function = std::function<Tensor(const std::vector<Tensor>&)>;
/// Compares f(sources) and its gradients.
void check(const std::string& name, const std::vector<Tensor>& sources, double tolerance,
           const Function& f) {
  INFO(name);
  const auto results = [&](Device device, DType dtype) {
    std::vector<Tensor> from;
    for (const Tensor& each : sources) from.push_back(each.to(dtype).to(device));
    GradientTape tape;
    for (const Tensor& each : from) tape.watch(each);
    std::vector<Tensor> all{f(from)};
    const std::int64_t n = all[0].size();
    const Tensor up = reshape(cos(arange(0, n, dtype)), all[0].shape()).to(device);
    for (const Tensor& each : tape.gradient(all[0], from, GradientOptions{.upstream = up}))
      all.push_back(each);
    return all;
  };
  const std::vector<Tensor> got = results(cuda(0), DType::float32);
  const std::vector<Tensor> expected = results(cpu(), DType::float64);
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("result " << i);
    const Tensor here = got[i].to(cpu()).to(DType::float64);
    const double size = max(abs(where(isfinite(expected[i]), expected[i], 0))).item<double>();
    const Tolerance close{tolerance, tolerance * size, true};
    INFO("difference "
         << max(abs(where(isfinite(expected[i]), here - expected[i], 0))).item<double>() << " of "
         << size);
    CHECK(allclose(here, expected[i], close));
  }
}

/// Lines of n elements with special numbers at their begin, in the middle and at their end.
std::vector<std::pair<std::string, Tensor>> special_lines(std::int64_t n) {
  const Tensor x = random::normal({n}), i = arange(0, n);
  const auto with = [&](std::int64_t at, double number) { return where(i == at, number, x); };
  std::vector<std::pair<std::string, Tensor>> lines = {
      {"normal", x},
      {"ascending", x + i.to(DType::float32) * 0.01},
      {"descending", x - i.to(DType::float32) * 0.01},
      {"-inf only", full({n}, -inf)},
      {"+inf only", full({n}, inf)},
      {"NaN only", full({n}, nan)},
      {"one finite number", where(i == n / 2, 3.0, -inf)},
      {"-inf before numbers", where(i < n / 2, -inf, x)},
      {"numbers before -inf", where(i < n / 2, x, -inf)},
      {"-inf at some places", where(i % 3 == 0, -inf, x)},
      {"NaN and -inf", where(i == n / 2, nan, -inf)},
      {"+inf and -inf", where(i == n / 2, inf, -inf)},
  };
  for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1})
    for (const double number : {inf, -inf, nan, 80.0})
      lines.emplace_back(std::to_string(number) + " at " + std::to_string(at), with(at, number));
  for (auto& [name, line] : lines) line = line.to(DType::float32);
  return lines;
}
}  // namespace

TEST_CASE("softmax and cross entropy of short and long lines are those of the CPU") {
  seed(3);
  for (const std::int64_t n : {1000, 20'000, 20'001})
    for (const auto& [name, line] : special_lines(n)) {
      INFO(n << " elements, " << name);
      const std::vector<Tensor> rows{stack({line, flip(line, 0)})};
      check("softmax", rows, 2e-5, [](const auto& x) { return softmax(x[0]); });
      check("log_softmax", rows, 2e-5, [](const auto& x) { return log_softmax(x[0]); });
      check("cross_entropy", rows, 2e-5, [](const auto& x) {
        return cross_entropy(x[0], tensor({1, 2}).to(x[0].device()), Reduction::none);
      });
    }
  for (const std::int64_t n : {200, 600, 1100})
    for (const auto& [name, line] : special_lines(n)) {
      INFO(n << " elements in a column, " << name);
      const std::vector<Tensor> columns{stack({line, flip(line, 0), line}, 1)};
      check("softmax", columns, 2e-5, [](const auto& x) { return softmax(x[0], 0); });
      check("log_softmax", columns, 2e-5, [](const auto& x) { return log_softmax(x[0], 0); });
    }
}

TEST_CASE("layer norm of short and long rows is that of the CPU") {
  seed(3);
  for (const std::int64_t n : {1000, 8196, 20'000, 20'001}) {
    const Tensor x = random::normal({3, n}), i = arange(0, n);
    const std::vector<std::pair<std::string, Tensor>> cases = {
        {"normal", x},
        {"a large mean", x + 1000},
        {"a tiny variance", 1e-3 * x + 10},
        {"one large element", where(i == n / 2, 1e5, x)},
        {"equal elements", full({3, n}, 0.1f)},
        {"a NaN", where(i == 5, nan, x)},
        {"an infinite element", where(i == n - 1, inf, x)},
    };
    for (const auto& [name, rows] : cases) {
      INFO(n << " elements, " << name);
      const double tolerance = name == "a tiny variance" ? 2e-3 : 2e-4;
      check("layer_norm", {rows.to(DType::float32), random::normal({n}), random::normal({n})},
            tolerance, [](const auto& all) { return layer_norm(all[0], all[1], all[2]); });
    }
  }
}
}  // namespace reel::tests
