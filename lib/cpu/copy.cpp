// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/bytes.hpp"
#include "lib/cpu/half.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/transpose.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/formulas/convert.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// Elements that are moved at once in a short row. A call of memcpy would cost more.
template <class T>
struct Chunk {
  T element[32 / sizeof(T)];
};
template <class T>
void copy_short(const T* from, T* to, std::int64_t n) {
  constexpr auto step = static_cast<std::int64_t>(32 / sizeof(T));
  const auto move = [&](std::int64_t i) {
    Chunk<T> chunk;
    __builtin_memcpy(&chunk, from + i, sizeof chunk);
    __builtin_memcpy(to + i, &chunk, sizeof chunk);
  };
  if (n < step) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (std::int64_t i = 0; i + step <= n; i += step) move(i);
  if (n % step) move(n - step);
}

template <class T>
void copy_row(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t n) {
  if (from_step == 1 && to_step == 1) {
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
    // Some processors' `rep movsb`, by which memcpy moves long rows, takes ten times as long if the
    // target is at most 63 bytes above the source, modulo 4096.
    const std::uintptr_t above =
        (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % 4096;
    if (bytes <= 512 || above - 1 < 63)
      copy_short(from, to, n);
    else
      __builtin_memcpy(to, from, bytes);
  } else if (from_step == 0 && to_step == 1) {
    const T value = *from;
    for (std::int64_t i = 0; i < n; ++i) to[i] = value;
  } else {
    REEL_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

/// An axis along which the source is contiguous, while the target is contiguous along the last
/// axis. -1 if there is none.
int axis_of_plane(const CopyLoop& walk) {
  const int last = walk.rank - 1;
  if (last < 1 || walk.to[last] != 1 || walk.from[last] == 1) return -1;
  for (int axis = 0; axis < last; ++axis)
    if (walk.from[axis] == 1) return axis;
  return -1;
}

/// Moves an axis next to the last axis.
void move_beside_last(CopyLoop& walk, int axis) {
  const int before_last = walk.rank - 2;
  const std::int64_t length = walk.lengths[axis], from = walk.from[axis], to = walk.to[axis];
  for (int i = axis; i < before_last; ++i) {
    walk.lengths[i] = walk.lengths[i + 1];
    walk.from[i] = walk.from[i + 1];
    walk.to[i] = walk.to[i + 1];
  }
  walk.lengths[before_last] = length;
  walk.from[before_last] = from;
  walk.to[before_last] = to;
}

template <class T>
void copy_planes(CopyLoop walk, int axis, const T* from, T* to) {
  const int last = walk.rank - 1;
  move_beside_last(walk, axis);
  for_each_row(walk, 2, [&](std::int64_t source, std::int64_t target) {
    transpose_matrix(from + source, walk.from[last], to + target, walk.to[last - 1],
                     walk.lengths[last - 1], walk.lengths[last]);
  });
}

template <class T>
void copy_all(const CopyLoop& walk, const T* from, T* to) {
  if (const int axis = axis_of_plane(walk); axis >= 0) return copy_planes(walk, axis, from, to);
  const int last = walk.rank - 1;
  for_each_row(walk, 1, [&](std::int64_t source, std::int64_t target) {
    copy_row(from + source, walk.from[last], to + target, walk.to[last], walk.lengths[last]);
  });
}

template <class T>
void copy_shared(const CopyLoop& walk, std::int64_t elements, const void* from, void* to) {
  for_parts(walk, elements, [=](const CopyLoop& part, std::int64_t source, std::int64_t target) {
    copy_all(part, static_cast<const T*>(from) + source, static_cast<T*>(to) + target);
  });
}

template <class From, class To>
void convert(std::int64_t n, const void* const* from, unsigned, void* to) {
  const From* const x = static_cast<const From*>(*from);
  To* const y = static_cast<To*>(to);
  if constexpr (is_short_float<From> && std::is_same_v<To, float>) {
    widen(reinterpret_cast<const std::uint16_t*>(x), y, n, pass_of_half<From>);
  } else if constexpr (std::is_same_v<From, float> && is_short_float<To>) {
    narrow(x, reinterpret_cast<std::uint16_t*>(y), n, pass_of_half<To>);
  } else {
    REEL_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = formulas::converted<To>(x[i]);
  }
}
template <class From>
constexpr auto convert_from = by_dtype<PassFunction>([]<class To>(Type<To>) -> PassFunction {
  if constexpr (only_stored<To> || (std::is_same_v<From, To> && sizeof(To) > 1))
    return nullptr;  // by way of int32, and never asked for
  else
    return convert<From, To>;
});
constexpr auto conversions = by_dtype<const ByDType<PassFunction>*>(
    []<class From>(Type<From>) -> const ByDType<PassFunction>* {
      if constexpr (only_stored<From>)
        return nullptr;
      else
        return &convert_from<in_memory<From>>;
    });
PassFunction conversion(DType from, DType to) {
  const auto* const targets = conversions[from];
  return targets ? (*targets)[to] : nullptr;
}

/// int8 or int16 as int32, which holds all their numbers.
template <class From>
void read_stored(const void* from, std::int32_t* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<const From*>(from)[i];
}
/// int32 as int8 or int16. Integers wrap around; a number that was cut off becomes the nearest end.
template <class To>
void write_stored(const std::int32_t* from, bool cut, void* to, std::int64_t n) {
  constexpr std::int32_t most = static_cast<To>((1u << (sizeof(To) * 8 - 1)) - 1);
  for (std::int64_t i = 0; i < n; ++i) {
    std::int32_t x = from[i];
    if (cut) x = x > most ? most : x < -most - 1 ? -most - 1 : x;
    static_cast<To*>(to)[i] = static_cast<To>(x);
  }
}
/// At most so many elements, which stand together, where either dtype is int8 or int16. A block of
/// int32 stands between the two.
constexpr std::int64_t most_together = 512;
void convert_stored(DType from, const void* x, DType to, void* y, std::int64_t n) {
  std::int32_t block[most_together];
  const void* between = x;
  if (from != DType::int32) {
    std::int32_t* const wide = to == DType::int32 ? static_cast<std::int32_t*>(y) : block;
    if (from == DType::int8)
      read_stored<std::int8_t>(x, wide, n);
    else if (from == DType::int16)
      read_stored<std::int16_t>(x, wide, n);
    else
      conversion(from, DType::int32)(n, &x, 0, wide);
    between = wide;
  }
  const auto* const numbers = static_cast<const std::int32_t*>(between);
  if (to == DType::int8)
    write_stored<std::int8_t>(numbers, is_floating(from), y, n);
  else if (to == DType::int16)
    write_stored<std::int16_t>(numbers, is_floating(from), y, n);
  else if (to != DType::int32)
    conversion(DType::int32, to)(n, &between, 0, y);
}
/// A row of n elements. Elements of the source are `step` apart: a block of them is put together
/// first.
void convert_row(DType from, const std::byte* x, std::int64_t step, DType to, std::byte* y,
                 std::int64_t n) {
  const PassFunction row = conversion(from, to);
  const void* source = x;
  if (step == 1 && row) return row(n, &source, 0, y);
  alignas(64) std::byte block[most_together * 8];
  for (std::int64_t i = 0; i < n; i += most_together) {
    const std::int64_t count = n - i < most_together ? n - i : most_together;
    const std::byte* const first = x + i * step * size_of(from);
    source = first;
    std::byte* const target = y + i * size_of(to);
    if (step != 1) {
      with_unit(size_of(from), [&]<class Unit>(Type<Unit>) {
        copy_row(reinterpret_cast<const Unit*>(first), step, reinterpret_cast<Unit*>(block), 1,
                 count);
      });
      source = block;
    }
    if (row)
      row(count, &source, 0, target);
    else
      convert_stored(from, source, to, target, count);
  }
}
void convert_all(const CopyLoop& walk, const Body& from, Body& to) {
  const std::int64_t from_size = size_of(from.dtype), to_size = size_of(to.dtype);
  for_parts(walk, from.elements,
            [&](const CopyLoop& part, std::int64_t first, std::int64_t target) {
              const int last = part.rank - 1;
              for_each_row(part, 1, [&](std::int64_t source, std::int64_t place) {
                convert_row(from.dtype, from.data + (first + source) * from_size, part.from[last],
                            to.dtype, to.data + (target + place) * to_size, part.lengths[last]);
              });
            });
}

KernelResult cast(const KernelCall& call) {
  const Body& input = call.input(0);
  Body& output = call.output();
  if (input.elements == 0) return {};
  if (input.contiguous && input.dtype == output.dtype) {
    copy_bytes(input.data, output.data, input.bytes());
    return {};
  }
  // A reshape copies too: the output is row-major, but has another shape than the input.
  Strides steps;
  std::int64_t step = 1;
  for (int axis = input.rank() - 1; axis >= 0; --axis) {
    steps[axis] = step;
    step *= input.shape.data()[axis];
  }
  const CopyLoop walk = walk_over(input.shape, input.strides, steps);
  if (input.dtype == output.dtype)
    copy_elements(walk, input.elements, input.data, output.data, size_of(input.dtype));
  else
    convert_all(walk, input, output);
  return {};
}
constexpr NamedKernel kernels[] = {{"cast", cast, nullptr, conversion}, {nullptr, nullptr}};
constexpr NamedPasses passes[] = {{nullptr, nullptr}};
}  // namespace

void copy_elements(const CopyLoop& walk, std::int64_t elements, const void* from, void* to,
                   int size) {
  with_unit(size, [&]<class Unit>(Type<Unit>) { copy_shared<Unit>(walk, elements, from, to); });
}
extern const Family copy_family = {kernels, passes};
}  // namespace reel::kernels::REEL_ISA
