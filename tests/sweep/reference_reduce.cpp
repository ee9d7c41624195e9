// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "lib/table/options/axis.hpp"
#include "lib/table/options/ctc.hpp"
#include "lib/table/options/normalize.hpp"
#include "lib/table/options/reduce.hpp"
#include "lib/table/options/reshape.hpp"
#include "lib/table/options/scan.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
namespace {
using Values = std::vector<double>;

bool reduces(const ReduceOptions& options, std::size_t axis) {
  for (int i = 0; i < options.axes.count(); ++i)
    if (options.axes[i] == static_cast<int>(axis)) return true;
  return options.axes.is_every();
}

/// Applies f to the elements that are reduced to one result, in row-major order.
Reference of_groups(std::function<double(const Values&)> f) {
  return [f](const Hosts& in, const void* given) {
    const auto& options = as<ReduceOptions>(given);
    Shape kept = in[0].shape;
    std::vector<std::int64_t> lengths;
    for (std::size_t axis = 0; axis < kept.rank(); ++axis) {
      const bool gone = reduces(options, axis);
      if (gone) kept.data()[axis] = 1;
      if (!gone || options.keep == keepdims) lengths.push_back(kept.data()[axis]);
    }
    std::vector<Values> groups(static_cast<std::size_t>(kept.elements()));
    each_position(in[0].shape, [&](const std::vector<std::int64_t>& index, std::size_t flat) {
      std::int64_t place = 0;
      for (std::size_t axis = 0; axis < index.size(); ++axis)
        place = place * kept.data()[axis] + (reduces(options, axis) ? 0 : index[axis]);
      groups[static_cast<std::size_t>(place)].push_back(in[0].values[flat]);
    });
    Host result{DType::float64, Shape(lengths), {}};
    for (const Values& group : groups) result.values.push_back(f(group));
    return Hosts{result};
  };
}

double total(const Values& x) {
  return static_cast<double>(std::accumulate(x.begin(), x.end(), 0.0L));
}
double extreme(const Values& x, double sign) {
  double found = x[0];
  for (double value : x)
    if (value != value || sign * value > sign * found)
      found = value;
    else if (found != found)
      break;
  return found;
}

Hosts sum_to(const Hosts& in, const void* given) {
  const Shape& target = as<ShapeOptions>(given).shape;
  Host result{DType::float64, target, Values(static_cast<std::size_t>(target.elements()))};
  each_position(in[0].shape, [&](const std::vector<std::int64_t>& index, std::size_t flat) {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < target.rank(); ++axis) {
      const std::int64_t length = target.data()[axis];
      place = place * length + (length == 1 ? 0 : index[index.size() - target.rank() + axis]);
    }
    result.values[static_cast<std::size_t>(place)] += in[0].values[flat];
  });
  return {result};
}

/// A function that replaces a row along an axis by another row of the same length.
using RowFunction = std::function<void(Values& row)>;
/// Rows of the result have `kept` elements, or the length of those of x.
Hosts along_axis(const Host& x, std::size_t axis, const RowFunction& f, std::int64_t kept = -1) {
  Host result = x;
  const std::int64_t length = x.shape.data()[axis];
  std::size_t stride = 1;
  for (std::size_t k = axis + 1; k < x.shape.rank(); ++k)
    stride *= static_cast<std::size_t>(x.shape.data()[k]);
  const auto to = static_cast<std::size_t>(kept < 0 ? length : kept);
  result.shape.data()[axis] = static_cast<std::int64_t>(to);
  result.values.assign(static_cast<std::size_t>(result.shape.elements()), 0);
  each_position(x.shape, [&](const std::vector<std::int64_t>& index, std::size_t flat) {
    if (index[axis] != 0) return;
    Values row;
    for (std::int64_t k = 0; k < length; ++k)
      row.push_back(x.values[flat + static_cast<std::size_t>(k) * stride]);
    f(row);
    const std::size_t before = flat / stride / static_cast<std::size_t>(length);
    for (std::size_t k = 0; k < to; ++k)
      result.values[(before * to + k) * stride + flat % stride] = row[k];
  });
  return {result};
}

double log_sum_exp(const Values& row) {
  const double most = *std::max_element(row.begin(), row.end());
  long double sum = 0;
  for (double x : row) sum += std::exp(static_cast<long double>(x) - most);
  return most + static_cast<double>(std::log(sum));
}
void log_softmax_row(Values& row) {
  const double all = log_sum_exp(row);
  for (double& x : row) x -= all;
}
void softmax_row(Values& row) {
  log_softmax_row(row);
  for (double& x : row) x = std::exp(x);
}

/// f replaces a line, from where the scan begins.
Reference of_scan(const RowFunction& f) {
  return [f](const Hosts& in, const void* given) {
    const auto& options = as<AxisScanOptions>(given);
    return along_axis(in[0], static_cast<std::size_t>(options.axis), [&](Values& row) {
      if (options.reverse) std::reverse(row.begin(), row.end());
      f(row);
      if (options.reverse) std::reverse(row.begin(), row.end());
    });
  };
}
void log_sums(Values& row) {
  for (std::size_t k = row.size(); k > 0; --k)
    row[k - 1] = log_sum_exp(Values(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(k)));
}
Hosts linear_scan(const Hosts& in, const void* given) {
  std::vector<Values> lines;
  of_scan([&](Values& line) { lines.push_back(line); })({in[0]}, given);
  std::size_t next = 0;
  return of_scan([&](Values& line) {
    const Values& scale = lines[next++];
    for (std::size_t k = 1; k < line.size(); ++k) line[k] += scale[k] * line[k - 1];
  })({in[1]}, given);
}

Hosts argsort(const Hosts& in, const void* given) {
  const auto& options = as<AxisSortOptions>(given);
  const auto axis = static_cast<std::size_t>(options.axis);
  const auto places = [&](Values& row) {
    std::vector<std::size_t> order(row.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return options.descending ? row[a] > row[b] : row[a] < row[b];
    });
    row.assign(order.begin() + static_cast<std::ptrdiff_t>(options.first), order.end());
  };
  return along_axis(in[0], axis, places, options.ranks(in[0].shape.data()[axis]));
}
/// An element is in the last part whose lower edge it reaches.
Hosts histogram(const Hosts& in, const void* given) {
  const auto& option = as<HistogramOptions>(given);
  const double step = (option.high - option.low) / static_cast<double>(option.bins);
  Host counts{DType::int64, Shape({option.bins}), Values(static_cast<std::size_t>(option.bins))};
  for (const double x : in[0].values) {
    if (!(x >= option.low && x <= option.high)) continue;
    std::size_t place = counts.values.size() - 1;
    while (x < option.low + static_cast<double>(place) * step) --place;
    ++counts.values[place];
  }
  return {counts};
}
Hosts searchsorted(const Hosts& in, const void* given) {
  const bool right = as<SearchSortedOptions>(given).right;
  Host places = in[1];
  for (double& x : places.values) {
    const double value = x;
    x = static_cast<double>(
        std::count_if(in[0].values.begin(), in[0].values.end(),
                      [&](double each) { return right ? each <= value : each < value; }));
  }
  return {places};
}

Hosts cross_entropy(const Hosts& in, const void*) {
  const auto classes = static_cast<std::size_t>(in[0].shape[-1]);
  Host losses{DType::float64, in[1].shape, {}};
  for (std::size_t i = 0; i < in[1].values.size(); ++i) {
    const auto first = in[0].values.begin() + static_cast<std::ptrdiff_t>(i * classes);
    const Values row(first, first + static_cast<std::ptrdiff_t>(classes));
    losses.values.push_back(log_sum_exp(row) - row[static_cast<std::size_t>(in[1].values[i])]);
  }
  return {losses};
}

/// By the forward recursion over all prefixes of the labels, in logarithms: what a path has written
/// so far, and whether its last class is a blank.
Hosts ctc_loss(const Hosts& in, const void* given) {
  const auto blank = static_cast<double>(as<BlankOptions>(given).blank);
  const std::int64_t *shape = in[0].shape.data(), batch = shape[1], longest = in[1].shape.data()[1];
  const double none = -std::numeric_limits<double>::infinity();
  const auto sum_of = [none](Values terms) {
    std::erase(terms, none);
    return terms.empty() ? none : log_sum_exp(terms);
  };
  Host losses{DType::float64, in[2].shape, {}};
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto count = static_cast<std::size_t>(in[3].values[static_cast<std::size_t>(b)]);
    const auto steps = static_cast<std::int64_t>(in[2].values[static_cast<std::size_t>(b)]);
    const auto label = [&](std::size_t i) {
      return in[1].values[static_cast<std::size_t>(b * longest) + i];
    };
    Values in_blank(count + 1, none), in_label(count + 1, none);  // by the number of labels written
    in_blank[0] = 0;
    for (std::int64_t t = 0; t < steps; ++t) {
      const auto score = [&](double which) {
        return in[0].values[static_cast<std::size_t>((t * batch + b) * shape[2]) +
                            static_cast<std::size_t>(which)];
      };
      for (std::size_t n = count + 1; n-- > 0;) {
        const double ended = sum_of({in_blank[n], in_label[n]});
        if (n > 0) {
          const bool apart = n > 1 && label(n - 1) == label(n - 2);  // a blank must be between
          in_label[n] = score(label(n - 1)) +
                        sum_of({in_label[n], in_blank[n - 1], apart ? none : in_label[n - 1]});
        }
        in_blank[n] = score(blank) + ended;
      }
    }
    losses.values.push_back(0 - sum_of({in_blank[count], in_label[count]}));
  }
  return {losses};
}

Hosts layer_norm(const Hosts& in, const void* given) {
  const auto n = static_cast<std::size_t>(in[0].shape[-1]);
  Host y = in[0];
  for (std::size_t start = 0; n && start < y.values.size(); start += n) {
    const auto first = in[0].values.begin() + static_cast<std::ptrdiff_t>(start);
    const Values row(first, first + static_cast<std::ptrdiff_t>(n));
    const double mean = total(row) / static_cast<double>(n);
    Values squares;
    for (double x : row) squares.push_back((x - mean) * (x - mean));
    const double deviation =
        std::sqrt(total(squares) / static_cast<double>(n) + as<EpsilonOptions>(given).epsilon);
    for (std::size_t k = 0; k < n; ++k)
      y.values[start + k] = (row[k] - mean) / deviation * in[1].values[k] + in[2].values[k];
  }
  return {y};
}
}  // namespace

void add_reduce_references(References& table) {
  table["sum"] = of_groups(total);
  table["sum_squares"] = of_groups([](Values x) {
    for (double& value : x) value *= value;
    return total(x);
  });
  table["mean"] =
      of_groups([](const Values& x) { return total(x) / static_cast<double>(x.size()); });
  table["max"] = of_groups([](const Values& x) { return extreme(x, 1); });
  table["min"] = of_groups([](const Values& x) { return extreme(x, -1); });
  table["argmax"] = of_groups([](const Values& x) {
    return static_cast<double>(std::max_element(x.begin(), x.end()) - x.begin());
  });
  table["argmin"] = of_groups([](const Values& x) {
    return static_cast<double>(std::min_element(x.begin(), x.end()) - x.begin());
  });
  table["prod"] = of_groups([](const Values& x) {
    return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>());
  });
  table["cumsum"] = of_scan([](Values& x) { std::partial_sum(x.begin(), x.end(), x.begin()); });
  table["cumprod"] = of_scan(
      [](Values& x) { std::partial_sum(x.begin(), x.end(), x.begin(), std::multiplies<>()); });
  table["cummax"] = of_scan([](Values& x) {
    for (std::size_t k = 1; k < x.size(); ++k) x[k] = extreme({x[k - 1], x[k]}, 1);
  });
  table["logcumsumexp"] = of_scan(log_sums);
  table["linear_scan"] = linear_scan;
  table["argsort"] = argsort;
  table["searchsorted"] = searchsorted;
  table["histogram"] = histogram;
  table["any"] = of_groups([](const Values& x) {
    return double(std::any_of(x.begin(), x.end(), [](double v) { return v != 0; }));
  });
  table["all"] = of_groups([](const Values& x) {
    return double(std::all_of(x.begin(), x.end(), [](double v) { return v != 0; }));
  });
  table["sum_to"] = sum_to;
  table["softmax"] = [](const Hosts& in, const void* given) {
    return along_axis(in[0], static_cast<std::size_t>(as<AxisOptions>(given).axis), softmax_row);
  };
  table["log_softmax"] = [](const Hosts& in, const void* given) {
    return along_axis(in[0], static_cast<std::size_t>(as<AxisOptions>(given).axis),
                      log_softmax_row);
  };
  table["cross_entropy"] = cross_entropy;
  table["ctc_loss"] = ctc_loss;
  table["layer_norm"] = layer_norm;
  table["limit_norm"] = [](const Hosts& in, const void* given) {
    double squares = 0;
    for (const Host& x : in)
      for (const double value : x.values) squares += value * value;
    const double scale = std::min(1.0, as<LimitNormOptions>(given).norm / std::sqrt(squares));
    Hosts limited = in;
    for (Host& x : limited)
      for (double& value : x.values) value *= scale;
    return limited;
  };
}
}  // namespace reel::tests
