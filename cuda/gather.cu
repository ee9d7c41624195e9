// SPDX-License-Identifier: BSD-3-Clause
// Selects elements and rows by index. Each thread writes one unit of the output.
#include <cstring>
#include <limits>

#include "cuda/pack.hpp"
#include "cuda/places.hpp"
#include "cuda/positions.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel::gpu {
KernelResult scatter(const Call& call);  // gather_scatter.cu
KernelResult scatter_elements(const Call& call);

namespace {
/// Copies rows of `row` units from [outer, length, row] to [outer, count, row].
template <class Unit, class Index>
__global__ void take_rows(Index units, Index count, Index row, std::int64_t length,
                          const Unit* __restrict__ x, Integers indices, Unit* y, Fault* fault) {
  for (std::int64_t i = first_index(); i < static_cast<std::int64_t>(units); i += grid_step()) {
    const Index unit = static_cast<Index>(i), from = unit / row, outer = from / count;
    const std::int64_t place = position(indices, from - outer * count, length, fault);
    if (place >= 0)
      y[i] = x[(static_cast<std::int64_t>(outer) * length + place) * row + unit % row];
  }
}

KernelResult take(const Call& call) {
  const Body &x = call.input(0), &indices = call.input(1);
  Body& output = call.output();
  const std::int64_t axis = call.option<AxisOptions>().axis, length = x.shape.data()[axis];
  std::int64_t row = size_of(x.dtype);
  for (int i = static_cast<int>(axis) + 1; i < x.rank(); ++i) row *= x.shape.data()[i];
  Fault* const fault =
      call.queue.fault({.failure = "index out of range", .input = 1, .limit = length});
  if (output.elements == 0) {
    call.queue.launch_for(indices.elements, check_positions<>, indices.elements, length,
                          Integers(indices), fault);
    return {};
  }
  const auto run = [&]<class Unit>(Type<Unit>) {
    const std::int64_t size = sizeof(Unit), units = output.bytes() / size;
    const auto by = [&]<class Index>(Type<Index>) {
      call.queue.launch_for(units, take_rows<Unit, Index>, units, indices.elements, row / size,
                            length, x.as<Unit>(), Integers(indices), output.as<Unit>(), fault);
    };
    units < std::int64_t{1} << 31 ? by(Type<std::uint32_t>()) : by(Type<std::int64_t>());
  };
  if (row % 16 == 0 && aligned(x.data, output.data))
    run(Type<uint4>());
  else
    with_unit(size_of(x.dtype), run);
  return {};
}

/// y[i] = x[places.find(i) + index * along]
template <class Unit>
__global__ void gather_each(Places<1> places, std::int64_t n, std::int64_t along,
                            std::int64_t length, const Unit* __restrict__ x, Integers indices,
                            Unit* y, Fault* fault) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[1];
    places.find(i, at);
    const std::int64_t place = position(indices, i, length, fault);
    if (place >= 0) y[i] = x[at[0] + place * along];
  }
}
KernelResult gather(const Call& call) {
  const Body &x = call.input(0), &indices = call.input(1);
  const std::int64_t axis = call.option<AxisOptions>().axis, length = x.shape.data()[axis];
  // The strides of x in the shape of the indices, with stride 0 along the axis.
  Body first = x;
  first.shape = indices.shape;
  first.strides[axis] = 0;
  Fault* const fault =
      call.queue.fault({.failure = "index out of range", .input = 1, .limit = length});
  with_unit(size_of(x.dtype), [&]<class Unit>(Type<Unit>) {
    call.queue.launch_for(indices.elements, gather_each<Unit>, places_of(first), indices.elements,
                          x.strides[axis], length, x.as<Unit>(), Integers(indices),
                          call.output().as<Unit>(), fault);
  });
  return {};
}

/// y = y * length + position; the first input finds no y.
template <class = void>
__global__ void add_position(Places<2> places, std::int64_t n, std::int64_t length, bool first,
                             Integers indices, std::int64_t* y, Fault* fault) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[2];
    places.find(i, at);
    const std::int64_t place = position(indices, at[0], length, fault);
    if (place >= 0) y[at[1]] = (first ? 0 : y[at[1]] * length) + place;
  }
}
KernelResult flat_positions(const Call& call) {
  Body& output = call.output();
  for (int i = 0; i < call.input_count; ++i) {
    const Body& indices = call.input(i);
    const std::int64_t length = call.option<ShapeOptions>().shape.data()[i];
    Fault* const fault =
        call.queue.fault({.failure = "index out of range", .input = i, .limit = length});
    if (output.elements == 0)
      call.queue.launch_for(indices.elements, check_positions<>, indices.elements, length,
                            Integers(indices), fault);
    else
      call.queue.launch_for(output.elements, add_position<>,
                            places_of<2>(output.shape, {&indices, &output}), output.elements,
                            length, i == 0, Integers(indices), output.as<std::int64_t>(), fault);
  }
  return {};
}

template <class = void>
__global__ void check_numbers(std::int64_t n, std::int64_t least, std::int64_t most, Integers x,
                              std::int64_t* y, Fault* fault) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    y[i] = x[i];
    if (y[i] < least || y[i] > most) report(fault, i, y[i]);
  }
}
template <class = void>
__global__ void check_finite(std::int64_t n, double lowest, double most, const double* x, double* y,
                             Fault* fault) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    y[i] = x[i];
    if (!(x[i] >= lowest && x[i] <= most)) report(fault, i, __double_as_longlong(x[i]));
  }
}
KernelResult check_range(const Call& call) {
  const Body& x = call.input(0);
  const auto& range = call.option<RangeOptions>();
  if (*range.expected) {
    Fault* const fault =
        call.queue.fault({.failure = "", .expected = range.expected, .argument = range.argument});
    call.queue.launch_for(x.elements, check_finite<>, x.elements, range.lowest,
                          std::numeric_limits<double>::max(), x.as<double>(),
                          call.output().as<double>(), fault);
    return {};
  }
  Fault* const fault = call.queue.fault({.failure = "number out of range",
                                         .counts = true,
                                         .limit = range.most,
                                         .least = range.least,
                                         .argument = range.argument});
  call.queue.launch_for(x.elements, check_numbers<>, x.elements, range.least, range.most,
                        Integers(x), call.output().as<std::int64_t>(), fault);
  return {};
}

template <class Unit>
__global__ void mark(std::int64_t n, std::int64_t depth, Integers indices, Unit one, Unit* y,
                     Fault* fault) {
  const std::int64_t columns = depth > 0 ? depth : 1;
  for (std::int64_t i = first_index(); i < n * columns; i += grid_step()) {
    const std::int64_t row = i / columns, index = indices[row];
    if (index < 0 || index >= depth)
      report(fault, row, index);
    else
      y[i] = i - row * columns == index ? one : Unit(0);
  }
}
KernelResult one_hot(const Call& call) {
  const Body& indices = call.input(0);
  Body& output = call.output();
  const std::int64_t depth = call.option<OneHotOptions>().depth, n = indices.elements;
  // An index is a class here, so a negative index is an error.
  Fault* const fault =
      call.queue.fault({.failure = "index out of range", .from_end = false, .limit = depth});
  with_type(output.dtype, [&]<class T>(Type<T>) {
    const T number(1);
    with_unit(size_of(output.dtype), [&]<class Unit>(Type<Unit>) {
      if constexpr (sizeof(Unit) == sizeof(T)) {
        Unit one;
        std::memcpy(&one, &number, sizeof(T));
        call.queue.launch_for(n * std::max<std::int64_t>(depth, 1), mark<Unit>, n, depth,
                              Integers(indices), one, output.as<Unit>(), fault);
      }
    });
  });
  return {};
}
}  // namespace

extern const NamedKernel gather_kernels[] = {{"take", take},
                                             {"lookup", take},
                                             {"gather", gather},
                                             {"one_hot", one_hot},
                                             {"flat_positions", flat_positions},
                                             {"check_range", check_range},
                                             {"scatter", scatter},
                                             {"scatter_elements", scatter_elements},
                                             {nullptr, nullptr}};
}  // namespace reel::gpu
