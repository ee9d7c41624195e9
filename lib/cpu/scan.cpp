// SPDX-License-Identifier: BSD-3-Clause
// Scans along an axis. Rows are scanned element by element, adjacent columns together.
#include "lib/formulas/scan.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/pool/pool.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/scan.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
namespace scans = formulas::scan;
constexpr std::int64_t shared_elements = 1
                                         << 14;  // at least, before lines are shared among threads
constexpr std::int64_t most_columns = 256;       // that are scanned together

/// One line, or adjacent lines: n elements, `step` apart, from `first` on.
template <class F, class T>
struct Scan {
  using State = typename F::State;
  const T *x, *y;
  typename F::Out* to;
  std::int64_t n, step;

  State at(std::int64_t i) const {
    if constexpr (F::inputs == 2)
      return F::of(x[i], y[i]);
    else
      return F::of(x[i]);
  }
  void row(std::int64_t first) const {
    State state = at(first);
    to[first] = F::result(state);
    for (std::int64_t k = 1, i = first + step; k < n; ++k, i += step) {
      state = F::join(state, at(i));
      to[i] = F::result(state);
    }
  }
  void columns(std::int64_t first, std::int64_t width) const {
    State states[most_columns];
    for (std::int64_t c = 0; c < width; ++c) {
      states[c] = at(first + c);
      to[first + c] = F::result(states[c]);
    }
    for (std::int64_t k = 1, i = first + step; k < n; ++k, i += step) {
      REEL_INDEPENDENT
      for (std::int64_t c = 0; c < width; ++c) {
        states[c] = F::join(states[c], at(i + c));
        to[i + c] = F::result(states[c]);
      }
    }
  }
};

template <class F, class T>
void scan_axis(const KernelCall& call) {
  const auto& options = call.option<AxisScanOptions>();
  const Shape& shape = call.output().shape;
  const std::int64_t n = shape.data()[options.axis];
  std::int64_t inner = 1;
  for (auto i = static_cast<std::size_t>(options.axis) + 1; i < shape.rank(); ++i)
    inner *= shape.data()[i];
  const Body &x = call.input(0), &y = call.input(F::inputs - 1);
  if (call.output().elements == 0) return;
  const std::int64_t outer = call.output().elements / (n * inner);
  const std::int64_t start = options.reverse ? (n - 1) * inner : 0;
  const Scan<F, T> scan{x.as<T>(), y.as<T>(), call.output().as<typename F::Out>(), n,
                        options.reverse ? -inner : inner};
  const std::int64_t blocks = (inner + most_columns - 1) / most_columns;
  parallel_rows(outer * blocks, n * (inner < most_columns ? inner : most_columns), shared_elements,
                [&](std::int64_t block, std::int64_t end) {
                  if (inner == 1)  // divisions would take longer than a short row
                    for (; block < end; ++block) scan.row(block * n + start);
                  for (; block < end; ++block) {
                    const std::int64_t column = block % blocks * most_columns;
                    const std::int64_t left = inner - column;
                    const std::int64_t first = block / blocks * n * inner + start + column;
                    scan.columns(first, left < most_columns ? left : most_columns);
                  }
                });
}
template <template <class> class F>
KernelResult scan(const KernelCall& call) {
  with_arithmetic(call.input(0).dtype, [&]<class T>(Type<T>) { scan_axis<F<T>, T>(call); });
  return {};
}
template <template <class> class F>
KernelResult floating_scan(const KernelCall& call) {
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) { scan_axis<F<T>, T>(call); });
}

const NamedKernel kernels[] = {{"cumsum", scan<scans::Sum>},
                               {"cumprod", scan<scans::Product>},
                               {"cummax", scan<scans::Largest>},
                               {"logcumsumexp", floating_scan<scans::LogSum>},
                               {"linear_scan", floating_scan<scans::Linear>},
                               {nullptr, nullptr}};
}  // namespace
extern const Family scan_family;
const Family scan_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
