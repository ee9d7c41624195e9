// SPDX-License-Identifier: BSD-3-Clause
// What writes Variables: assignments and the steps of optimizers, each one pass. Output i may be
// the memory of input i.
#include <reel/ops/update.hpp>

#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/numbers.hpp"
#include "lib/cpu/walk.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
enum class Change { replace, add, subtract };

/// Integers wrap around: they are added without a sign.
template <Change change, class T>
T changed(T before, T value) {
  if constexpr (change == Change::replace)
    return value;
  else if constexpr (static_cast<T>(0.5) != T(0))
    return change == Change::add ? before + value : before - value;
  else {
    const auto a = static_cast<std::uint64_t>(before), b = static_cast<std::uint64_t>(value);
    return static_cast<T>(change == Change::add ? a + b : a - b);
  }
}

/// The value's strides as the Variable's shape sees them.
void broadcast_strides(const Body& value, const Shape& shape, Strides& strides) {
  const int rank = static_cast<int>(shape.rank());
  for (int axis = 0; axis < rank; ++axis) {
    const int own = axis - rank + value.rank();
    strides[axis] = own < 0 || value.shape.data()[own] == 1 ? 0 : value.strides[own];
  }
}

template <Change change, class T>
void assign_all(const CopyLoop& walk, const T* from, const T* old, T* to) {
  const int last = walk.rank - 1;
  const std::int64_t n = walk.lengths[last], step = walk.from[last];
  for_each_row(walk, 1, [=](std::int64_t source, std::int64_t place) {
    const T *x = from + source, *y = old + place;
    T* const z = to + place;
    if (step == 1) {
      REEL_INDEPENDENT
      for (std::int64_t i = 0; i < n; ++i) z[i] = changed<change>(y[i], x[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) z[i] = changed<change>(y[i], x[i * step]);
    }
  });
}

template <Change change>
KernelResult assign(const KernelCall& call) {
  const Body &before = call.input(0), &value = call.input(1);
  Body& output = call.output();
  if (output.elements == 0) return {};
  Strides strides;
  broadcast_strides(value, output.shape, strides);
  const CopyLoop walk = walk_over(output.shape, strides, output.strides);
  const auto assign_to = [&]<class T>(Type<T>) {
    const T *from = value.as<T>(), *old = before.as<T>();
    T* to = output.as<T>();
    for_parts(walk, output.elements,
              [=](const CopyLoop& part, std::int64_t source, std::int64_t place) {
                assign_all<change>(part, from + source, old + place, to + place);
              });
  };
  if constexpr (change == Change::replace)
    with_type(output.dtype, assign_to);
  else
    with_arithmetic(output.dtype, assign_to);
  return {};
}

/// The inputs of an optimizer's op: of each parameter the Variables that are written, then the
/// gradients of all, then numbers.
struct Parameters {
  const KernelCall& call;
  int written, count;
  Parameters(const KernelCall& call, int written, int numbers)
      : call(call), written(written), count((call.input_count - numbers) / (written + 1)) {}
  const Body& gradient(int p) const { return call.input(written * count + p); }
  const Body& number(int i) const { return call.input((written + 1) * count + i); }
  double rate() const { return *number(0).as<double>(); }
  bool have(DType dtype) const {
    bool found = false;
    for (int p = 0; p < count; ++p) found |= gradient(p).dtype == dtype;
    return found;
  }
  /// Variable i of parameter p as it is, and where its new value goes.
  template <class T>
  const T* before(int p, int i) const {
    return call.input(written * p + i).as<T>();
  }
  template <class T>
  T* after(int p, int i) const {
    return call.output(written * p + i).as<T>();
  }
};

/// f(i, chunk, gradient) over a gradient that does not lie in order.
template <class T, class F>
void for_each_strided(const Body& gradient, const F& f) {
  Strides packed;
  std::int64_t step = 1;
  for (int axis = gradient.rank() - 1; axis >= 0; --axis) {
    packed[axis] = step;
    step *= gradient.shape.data()[axis];
  }
  for_each_row(walk_over(gradient.shape, gradient.strides, packed), 0,
               [&](std::int64_t source, std::int64_t place) {
                 f(place, Chunk<T>{1}, Vector<T>(gradient.as<T>()[source]));
               });
}

/// Calls make(p)(i, chunk, gradient) for all elements of the parameters p of this dtype, in blocks
/// that threads share. A block has its part of each large parameter, so that a thread meets the
/// rows whose gradient it has computed, and some of the small ones.
template <class T, class Make>
void for_each(const Parameters& all, std::int64_t grain, const Make& make) {
  constexpr DType dtype = sizeof(T) == sizeof(float) ? DType::float32 : DType::float64;
  constexpr std::int64_t least_part = 1 << 10, most_blocks = 64;
  const auto is_flat = [&](int p) {
    return all.gradient(p).dtype == dtype && all.gradient(p).contiguous;
  };
  std::int64_t total = 0, total_small = 0;
  for (int p = 0; p < all.count; ++p)
    if (is_flat(p))
      total += all.gradient(p).elements;
    else if (all.gradient(p).dtype == dtype)
      for_each_strided<T>(all.gradient(p), make(p));
  const std::int64_t wanted = block_count(total, grain);
  const std::int64_t count = wanted < most_blocks ? wanted : most_blocks;
  const auto is_small = [&](std::int64_t elements) { return elements < count * least_part; };
  for (int p = 0; p < all.count; ++p) {
    const std::int64_t elements = all.gradient(p).elements;
    if (is_flat(p) && is_small(elements)) total_small += elements;
  }
  parallel_for(count, [&](std::int64_t block) {
    std::int64_t small = 0;
    for (int p = 0; p < all.count; ++p) {
      if (!is_flat(p)) continue;
      const Body& gradient = all.gradient(p);
      const std::int64_t elements = gradient.elements;
      std::int64_t first = 0, end = elements;
      if (is_small(elements)) {
        if (block != small * count / (total_small + 1)) end = 0;
        small += elements;
      } else {
        const std::int64_t length = ((elements + count - 1) / count + 63) / 64 * 64;
        first = block * length;
        if (elements - first > length) end = first + length;
      }
      if (first >= end) continue;
      const T* const from = gradient.as<T>() + first;
      const auto step = make(p);
      for_chunks<T>(end - first, [&](std::int64_t i, Chunk<T> chunk) {
        step(first + i, chunk, chunk.get(from + i));
      });
    }
  });
}

// Elements that are worth a helper's way.
constexpr std::int64_t light_grain = 1 << 17, adam_grain = 1 << 15;

/// x -= rate g
template <class T>
void sgd(const Parameters& all) {
  const Vector<T> rate(static_cast<T>(all.rate()));
  for_each<T>(all, light_grain, [&](int p) {
    return [=, x = all.before<T>(p, 0), to = all.after<T>(p, 0)](std::int64_t i, Chunk<T> chunk,
                                                                 const Vector<T>& g) {
      chunk.put(to + i, chunk.get(x + i) - rate * g);
    };
  });
}

/// v = momentum v + g; x -= rate v, or rate (g + momentum v)
template <class T>
void momentum(const Parameters& all) {
  const auto& option = all.call.option<MomentumOptions>();
  const Vector<T> rate(static_cast<T>(all.rate())), factor(static_cast<T>(option.momentum));
  for_each<T>(all, light_grain, [&](int p) {
    return [=, nesterov = option.nesterov, x = all.before<T>(p, 0), v = all.before<T>(p, 1),
            x_to = all.after<T>(p, 0),
            v_to = all.after<T>(p, 1)](std::int64_t i, Chunk<T> chunk, const Vector<T>& g) {
      const Vector<T> velocity = factor * chunk.get(v + i) + g;
      chunk.put(v_to + i, velocity);
      chunk.put(x_to + i, chunk.get(x + i) - rate * (nesterov ? g + factor * velocity : velocity));
    };
  });
}

/// beta to the power t, by squaring, in double.
double integer_power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) result *= base;
  return result;
}

std::int64_t step_of(const Parameters& all) {
  const Body& step = all.number(1);
  return step.dtype == DType::int32 ? *step.as<std::int32_t>() : *step.as<std::int64_t>();
}

template <class T>
void adam(const Parameters& all) {
  const auto& option = all.call.option<AdamUpdateOptions>();
  const double rate = all.rate();
  const std::int64_t t = step_of(all);
  const Vector<T> beta1(static_cast<T>(option.beta1)), beta2(static_cast<T>(option.beta2));
  const Vector<T> rest1(static_cast<T>(1 - option.beta1)), rest2(static_cast<T>(1 - option.beta2));
  const Vector<T> scale1(static_cast<T>(rate / (1 - integer_power(option.beta1, t))));
  const Vector<T> scale2(static_cast<T>(1 / (1 - integer_power(option.beta2, t))));
  const Vector<T> epsilon(static_cast<T>(option.epsilon)),
      keep(static_cast<T>(1 - rate * option.weight_decay));
  for_each<T>(all, adam_grain, [&](int p) {
    return [=, x = all.before<T>(p, 0), m = all.before<T>(p, 1), v = all.before<T>(p, 2),
            x_to = all.after<T>(p, 0), m_to = all.after<T>(p, 1),
            v_to = all.after<T>(p, 2)](std::int64_t i, Chunk<T> chunk, const Vector<T>& g) {
      const Vector<T> first = beta1 * chunk.get(m + i) + rest1 * g;
      const Vector<T> second = beta2 * chunk.get(v + i) + rest2 * g * g;
      chunk.put(m_to + i, first);
      chunk.put(v_to + i, second);
      chunk.put(x_to + i, chunk.get(x + i) * keep -
                              scale1 * first / (xsimd::sqrt(second * scale2) + epsilon));
    };
  });
}

constexpr const char* refused = "Nothing was written.";

/// By the dtypes of the parameters. Inputs at fault are named by their place in the op's names.
template <int written, int numbers, void (*f32)(const Parameters&), void (*f64)(const Parameters&)>
KernelResult update(const KernelCall& call) {
  const Parameters all(call, written, numbers);
  const bool single = all.have(DType::float32);
  const double rate = single ? static_cast<double>(static_cast<float>(all.rate())) : all.rate();
  if (!__builtin_isfinite(rate))
    return {
        .failure = refused, .input = written + 1, .expected = "a finite number", .number = rate};
  if (single) f32(all);
  if (all.have(DType::float64)) f64(all);
  return {};
}

KernelResult adam_update(const KernelCall& call) {
  const std::int64_t t = step_of(Parameters(call, 3, 2));
  if (t < 1)
    return {
        .failure = refused, .input = 5, .expected = "at least 1", .number = static_cast<double>(t)};
  return update<3, 2, adam<float>, adam<double>>(call);
}

const NamedKernel kernels[] = {{"assign", assign<Change::replace>},
                               {"assign_add", assign<Change::add>},
                               {"assign_sub", assign<Change::subtract>},
                               {"sgd_update", update<1, 1, sgd<float>, sgd<double>>},
                               {"momentum_update", update<2, 1, momentum<float>, momentum<double>>},
                               {"adam_update", adam_update},
                               {nullptr, nullptr}};
}  // namespace
extern const Family update_family;
const Family update_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
