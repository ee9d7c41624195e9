// SPDX-License-Identifier: BSD-3-Clause
// References of ops that move elements: the position from which each element comes.
#include <algorithm>
#include <cmath>

#include "lib/table/options/axis.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/join.hpp"
#include "lib/table/options/reshape.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
namespace {
using Position = std::vector<std::int64_t>;

bool contains(const Axes& axes, std::size_t axis) {
  for (int i = 0; i < axes.count(); ++i)
    if (axes[i] == static_cast<int>(axis)) return true;
  return false;
}

Hosts same_order(const Host& x, Shape shape) {
  Host y = x;
  y.shape = shape;
  return {y};
}

Hosts expand_dims(const Hosts& in, const void* given) {
  const Axes& axes = as<AxesOptions>(given).axes;
  std::vector<std::int64_t> lengths(in[0].shape.begin(), in[0].shape.end());
  for (int i = 0; i < axes.count(); ++i) lengths.insert(lengths.begin() + axes[i], 1);
  return same_order(in[0], Shape(lengths));
}

Hosts squeeze(const Hosts& in, const void* given) {
  std::vector<std::int64_t> lengths;
  for (std::size_t axis = 0; axis < in[0].shape.rank(); ++axis)
    if (!contains(as<AxesOptions>(given).axes, axis)) lengths.push_back(in[0].shape.data()[axis]);
  return same_order(in[0], Shape(lengths));
}

Hosts transpose(const Hosts& in, const void* given) {
  const Axes& axes = as<AxesOptions>(given).axes;
  Shape shape = in[0].shape;
  const int rank = static_cast<int>(shape.rank());
  const auto source = [&](int i) { return axes.is_every() ? rank - 1 - i : axes[i]; };
  for (int i = 0; i < rank; ++i) shape.data()[i] = in[0].shape[source(i)];
  return {filled(shape, [&](const Position& index) {
    Position from(index.size());
    for (int i = 0; i < rank; ++i)
      from[static_cast<std::size_t>(source(i))] = index[static_cast<std::size_t>(i)];
    return at(in[0], from);
  })};
}

Position in_slice(const SliceOptions& slice, const Position& index) {
  Position place = index;
  for (std::size_t axis = 0; axis < index.size(); ++axis)
    place[axis] = slice.starts.data()[axis] + index[axis] * slice.steps.data()[axis];
  return place;
}

std::size_t flat_of(const Shape& shape, const Position& index) {
  std::int64_t flat = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis)
    flat = flat * shape.data()[axis] + index[axis];
  return static_cast<std::size_t>(flat);
}

Hosts unslice(const Hosts& in, const void* given) {
  const auto& option = as<UnsliceOptions>(given);
  Host out = filled(option.shape, [](const Position&) { return 0.0; });
  each_position(in[0].shape, [&](const Position& index, std::size_t flat) {
    out.values[flat_of(option.shape, in_slice(option.slice, index))] = in[0].values[flat];
  });
  return {out};
}

Hosts concat(const Hosts& in, const void* given) {
  const auto axis = static_cast<std::size_t>(as<AxisOptions>(given).axis);
  Shape shape = in[0].shape;
  for (std::size_t i = 1; i < in.size(); ++i) shape.data()[axis] += in[i].shape.data()[axis];
  return {filled(shape, [&](Position index) {
    std::size_t part = 0;
    while (index[axis] >= in[part].shape.data()[axis]) index[axis] -= in[part++].shape.data()[axis];
    return in[part].values[flat_of(in[part].shape, index)];
  })};
}

Hosts cast(const Hosts& in, const void* given) {
  const DType dtype = as<DTypeOptions>(given).dtype;
  const auto whole = [](double x, double low, double high) {
    return x != x ? 0 : std::trunc(std::clamp(x, low, high));
  };
  return {filled(in[0].shape, [&](const Position& index) {
    const double x = at(in[0], index);
    switch (dtype) {
      case DType::boolean:
        return double(x != 0);
      case DType::uint8:
        return whole(x, 0, 255);
      case DType::int32:
        return whole(x, -2147483648.0, 2147483647.0);
      case DType::int64:
        return whole(x, -9223372036854775808.0, 9223372036854775807.0);
      case DType::float32:
        return double(static_cast<float>(x));
      case DType::float16:
        return double(Float16(x));
      case DType::bfloat16:
        return double(BFloat16(x));
      case DType::int8:
        return whole(x, -128, 127);
      case DType::int16:
        return whole(x, -32768, 32767);
      case DType::float64:
        break;
    }
    return x;
  })};
}

/// The position in x from which take() copies the element at `index` of its result.
Position taken_from(Position index, const Host& indices, const Shape& x, std::size_t axis) {
  const std::size_t count = indices.shape.rank();
  Position from(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(axis));
  const auto first = index.begin() + static_cast<std::ptrdiff_t>(axis);
  const double chosen = at(indices, Position(first, first + static_cast<std::ptrdiff_t>(count)));
  from.push_back(static_cast<std::int64_t>(chosen) + (chosen < 0 ? x.data()[axis] : 0));
  from.insert(from.end(), first + static_cast<std::ptrdiff_t>(count), index.end());
  return from;
}
/// The position in x for gather(), which has one index for each element.
Position gathered_from(Position index, const Host& indices, const Shape& x, std::size_t axis) {
  const double chosen = at(indices, index);
  index[axis] = static_cast<std::int64_t>(chosen) + (chosen < 0 ? x.data()[axis] : 0);
  return index;
}
using From = Position (*)(Position, const Host&, const Shape&, std::size_t);

template <From place>
Hosts picked(const Hosts& in, const void* given) {
  const auto axis = static_cast<std::size_t>(as<AxisOptions>(given).axis);
  Shape shape = in[1].shape;
  if (place == taken_from) {
    std::vector<std::int64_t> lengths(in[0].shape.begin(), in[0].shape.end());
    lengths.erase(lengths.begin() + static_cast<std::ptrdiff_t>(axis));
    lengths.insert(lengths.begin() + static_cast<std::ptrdiff_t>(axis), shape.begin(), shape.end());
    shape = Shape(lengths);
  }
  return {filled(shape, [&](const Position& index) {
    return at(in[0], place(index, in[1], in[0].shape, axis));
  })};
}

template <From place>
Hosts scattered(const Hosts& in, const void* given) {
  const auto& option = as<UnTakeOptions>(given);
  Host out = filled(option.shape, [](const Position&) { return 0.0; });
  each_position(in[0].shape, [&](const Position& index, std::size_t flat) {
    const Position to = place(index, in[1], option.shape, static_cast<std::size_t>(option.axis));
    out.values[flat_of(option.shape, to)] += in[0].values[flat];
  });
  return {out};
}

/// x with f(element, update) at the places of the updates, one after the other.
template <class F>
Reference selected(const F& f) {
  return [f](const Hosts& in, const void* given) {
    Host out = in[0];
    const auto axis = static_cast<std::size_t>(as<AxisOptions>(given).axis);
    each_position(in[1].shape, [&](const Position& index, std::size_t flat) {
      double& to = out.values[flat_of(out.shape, taken_from(index, in[2], out.shape, axis))];
      to = f(to, in[1].values[flat]);
    });
    return Hosts{out};
  };
}

Hosts flat_positions(const Hosts& in, const void* given) {
  const Shape& lengths = as<ShapeOptions>(given).shape;
  return {filled(broadcast_shape(in), [&](const Position& index) {
    double flat = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double chosen = at(in[i], index), length = static_cast<double>(lengths.data()[i]);
      flat = flat * length + chosen + (chosen < 0 ? length : 0);
    }
    return flat;
  })};
}

Hosts same(const Hosts& in, const void*) { return in; }

Hosts one_hot(const Hosts& in, const void* given) {
  Shape shape = in[0].shape;
  shape.resize(shape.rank() + 1);
  const auto depth = static_cast<double>(as<OneHotOptions>(given).depth);
  shape.data()[shape.rank() - 1] = as<OneHotOptions>(given).depth;
  return {filled(shape, [&](Position index) {
    const auto place = static_cast<double>(index.back());
    index.pop_back();
    const double chosen = at(in[0], index);
    return double(place == chosen + (chosen < 0 ? depth : 0));
  })};
}

Hosts fill(const Hosts&, const void* given) {
  const auto& option = as<FillOptions>(given);
  const bool real = is_floating(option.dtype);
  const double start = real ? option.start : static_cast<double>(option.first);
  const double step = real ? option.step : static_cast<double>(option.stride);
  return {filled(option.shape, [&](const Position& index) {
    if (option.kind == FillOptions::Kind::identity) return double(index[0] == index[1]);
    if (option.kind == FillOptions::Kind::triangle)
      return double(index[1] <= index[0] + option.first);
    const bool range = option.kind == FillOptions::Kind::range;
    return range ? start + step * static_cast<double>(index[0]) : start;
  })};
}
}  // namespace

void add_layout_references(References& table) {
  table["reshape"] = [](const Hosts& in, const void* given) {
    return same_order(in[0], as<ShapeOptions>(given).shape);
  };
  table["broadcast_to"] = [](const Hosts& in, const void* given) {
    return Hosts{filled(as<ShapeOptions>(given).shape,
                        [&](const Position& index) { return at(in[0], index); })};
  };
  table["slice"] = [](const Hosts& in, const void* given) {
    const auto& slice = as<SliceOptions>(given);
    return Hosts{filled(slice.lengths, [&](const Position& index) {
      return in[0].values[flat_of(in[0].shape, in_slice(slice, index))];
    })};
  };
  table["expand_dims"] = expand_dims;
  table["squeeze"] = squeeze;
  table["transpose"] = transpose;
  table["unslice"] = unslice;
  table["concat"] = concat;
  table["cast"] = cast;
  table["to_device"] = [](const Hosts& in, const void*) { return in; };
}

void add_gather_references(References& table) {
  table["take"] = table["lookup"] = picked<taken_from>;
  table["gather"] = picked<gathered_from>;
  table["scatter"] = scattered<taken_from>;
  table["scatter_elements"] = scattered<gathered_from>;
  table["scatter_assign"] = selected([](double, double update) { return update; });
  table["scatter_max"] = selected([](double x, double update) {
    return x != x || update != update ? NAN : std::max(x, update);
  });
  table["scatter_min"] = selected([](double x, double update) {
    return x != x || update != update ? NAN : std::min(x, update);
  });
  table["flat_positions"] = flat_positions;
  table["check_range"] = table["check_rate"] = same;
  table["one_hot"] = one_hot;
}

void add_create_references(References& table) { table["fill"] = fill; }
}  // namespace reel::tests
