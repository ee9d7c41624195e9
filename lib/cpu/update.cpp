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
void assign_all(const Walk& walk, const T* from, const T* old, T* to) {
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
  const Walk walk = walk_over(output.shape, strides, output.strides);
  with_type(output.dtype, [&]<class T>(Type<T>) {
    const T *from = value.as<T>(), *old = before.as<T>();
    T* to = output.as<T>();
    for_parts(walk, output.elements,
              [=](const Walk& part, std::int64_t source, std::int64_t place) {
                assign_all<change>(part, from + source, old + place, to + place);
              });
  });
  return {};
}

// Elements that are worth a helper's way.
constexpr std::int64_t light_grain = 1 << 17, adam_grain = 1 << 15;

/// Gradients may lie anyhow; the rest is row-major.
template <class T>
struct Gradient {
  const T* data;
  Strides strides;
  const Body& body;
  explicit Gradient(const Body& x) : data(x.as<T>()), body(x) {}
  /// f(i, chunk, gradient), shared among threads in blocks of `grain` elements.
  template <class F>
  void for_each(std::int64_t grain, const F& f) const {
    if (body.contiguous)
      return parallel_ranges(body.elements, grain, [&](std::int64_t first, std::int64_t end) {
        for_chunks<T>(end - first, [&](std::int64_t i, Chunk<T> chunk) {
          f(first + i, chunk, chunk.get(data + first + i));
        });
      });
    Strides packed;
    std::int64_t step = 1;
    for (int axis = body.rank() - 1; axis >= 0; --axis) {
      packed[axis] = step;
      step *= body.shape.data()[axis];
    }
    for_each_row(walk_over(body.shape, body.strides, packed), 0,
                 [&](std::int64_t source, std::int64_t place) {
                   f(place, Chunk<T>{1}, Vector<T>(data[source]));
                 });
  }
};

/// x -= rate g
template <class T>
void sgd(const KernelCall& call) {
  const T* x = call.input(0).as<T>();
  T* to = call.output().as<T>();
  const Vector<T> rate(*call.input(2).as<T>());
  Gradient<T>(call.input(1))
      .for_each(light_grain, [&](std::int64_t i, Chunk<T> chunk, const Vector<T>& g) {
        chunk.put(to + i, chunk.get(x + i) - rate * g);
      });
}

/// v = momentum v + g; x -= rate v, or rate (g + momentum v)
template <class T>
void momentum(const KernelCall& call) {
  const auto& option = call.option<MomentumOptions>();
  const T *x = call.input(0).as<T>(), *v = call.input(1).as<T>();
  T *x_to = call.output(0).as<T>(), *v_to = call.output(1).as<T>();
  const Vector<T> rate(*call.input(3).as<T>()), factor(static_cast<T>(option.momentum));
  Gradient<T>(call.input(2))
      .for_each(light_grain, [&](std::int64_t i, Chunk<T> chunk, const Vector<T>& g) {
        const Vector<T> velocity = factor * chunk.get(v + i) + g;
        chunk.put(v_to + i, velocity);
        chunk.put(x_to + i,
                  chunk.get(x + i) - rate * (option.nesterov ? g + factor * velocity : velocity));
      });
}

/// beta to the power t, by squaring, in double.
double integer_power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) result *= base;
  return result;
}

std::int64_t step_of(const KernelCall& call) {
  const Body& counter = call.input(5);
  return counter.dtype == DType::int32 ? *counter.as<std::int32_t>() : *counter.as<std::int64_t>();
}

template <class T>
void adam(const KernelCall& call) {
  const auto& option = call.option<AdamUpdateOptions>();
  const std::int64_t t = step_of(call);
  const double rate = static_cast<double>(*call.input(4).as<T>());
  const Vector<T> beta1(static_cast<T>(option.beta1)), beta2(static_cast<T>(option.beta2));
  const Vector<T> rest1(static_cast<T>(1 - option.beta1)), rest2(static_cast<T>(1 - option.beta2));
  const Vector<T> scale1(static_cast<T>(rate / (1 - integer_power(option.beta1, t))));
  const Vector<T> scale2(static_cast<T>(1 / (1 - integer_power(option.beta2, t))));
  const Vector<T> epsilon(static_cast<T>(option.epsilon)),
      keep(static_cast<T>(1 - rate * option.weight_decay));
  const T *x = call.input(0).as<T>(), *m = call.input(1).as<T>(), *v = call.input(2).as<T>();
  T *x_to = call.output(0).as<T>(), *m_to = call.output(1).as<T>(), *v_to = call.output(2).as<T>();
  Gradient<T>(call.input(3))
      .for_each(adam_grain, [&](std::int64_t i, Chunk<T> chunk, const Vector<T>& g) {
        const Vector<T> first = beta1 * chunk.get(m + i) + rest1 * g;
        const Vector<T> second = beta2 * chunk.get(v + i) + rest2 * g * g;
        chunk.put(m_to + i, first);
        chunk.put(v_to + i, second);
        chunk.put(x_to + i, chunk.get(x + i) * keep -
                                scale1 * first / (xsimd::sqrt(second * scale2) + epsilon));
      });
}

constexpr const char* refused = "Nothing was written.";

/// By the dtype of the Variable; `rate` is the input that says how far to go.
template <int rate, void (*f32)(const KernelCall&), void (*f64)(const KernelCall&)>
KernelResult by_dtype(const KernelCall& call) {
  const bool single = call.output().dtype == DType::float32;
  const double value =
      single ? static_cast<double>(*call.input(rate).as<float>()) : *call.input(rate).as<double>();
  if (!__builtin_isfinite(value))
    return {.failure = refused, .input = rate, .expected = "a finite number", .number = value};
  if (single)
    f32(call);
  else
    f64(call);
  return {};
}

KernelResult adam_update(const KernelCall& call) {
  const std::int64_t t = step_of(call);
  if (t < 1)
    return {
        .failure = refused, .input = 5, .expected = "at least 1", .number = static_cast<double>(t)};
  return by_dtype<4, adam<float>, adam<double>>(call);
}

const NamedKernel kernels[] = {{"assign", assign<Change::replace>},
                               {"assign_add", assign<Change::add>},
                               {"assign_sub", assign<Change::subtract>},
                               {"sgd_update", by_dtype<2, sgd<float>, sgd<double>>},
                               {"momentum_update", by_dtype<3, momentum<float>, momentum<double>>},
                               {"adam_update", adam_update},
                               {nullptr, nullptr}};
}  // namespace
extern const Family update_family;
const Family update_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
