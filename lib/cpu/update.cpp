// SPDX-License-Identifier: BSD-3-Clause
// Kernels that write Variables: assignments and the steps of optimizers. Each is a single pass.
// Output i may share the memory of input i.
#include <reel/ops/update.hpp>

#include "lib/cpu/bytes.hpp"
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/update.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
enum class Change { replace, add, subtract };

/// Integers wrap around, so they are added as unsigned numbers.
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

/// The strides of the value for the shape of the Variable.
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
    with_unit(size_of(output.dtype), assign_to);
  else
    with_arithmetic(output.dtype, assign_to);
  return {};
}

/// The inputs of an optimizer's op: first the Variables of each parameter that are written, then
/// the gradients of all parameters, then numbers. In an op that `picks` rows of one parameter, the
/// rows follow the gradient.
struct Parameters {
  const KernelCall& call;
  int written, count;
  bool picks;
  Parameters(const KernelCall& call, int written, int numbers, bool picks)
      : call(call),
        written(written),
        count((call.input_count - numbers) / (written + 1 + picks)),
        picks(picks) {}
  const Body& gradient(int p) const { return call.input(written * count + p); }
  const Body& number(int i) const { return call.input((written + 1 + picks) * count + i); }
  double rate() const { return *number(0).as<double>(); }
  bool have(DType dtype) const {
    bool found = false;
    for (int p = 0; p < count; ++p) found |= gradient(p).dtype == dtype;
    return found;
  }
  /// The current value of Variable i of parameter p, and the memory for its new value.
  template <class T>
  const T* before(int p, int i) const {
    return call.input(written * p + i).as<T>();
  }
  template <class T>
  T* after(int p, int i) const {
    return call.output(written * p + i).as<T>();
  }
};

constexpr std::int64_t first_row = 0;
/// Elements of a parameter with their gradients: rows of `width` elements, numbered from `base` on.
/// Rows that are not below `limit` are left out.
template <class T>
struct Piece {
  int parameter;
  std::int64_t base, width;
  const T* gradient;
  const std::int64_t* rows = &first_row;
  std::int64_t count = 1, limit = 1;
};

/// What an optimizer does with a piece. It is called by way of a pointer, so that the code which
/// divides the work exists once.
template <class T>
struct Steps {
  const void* make;
  void (*take)(const void* make, const Piece<T>& piece);
};

/// Steps for a gradient with any layout.
template <class T>
void take_strided(const Body& gradient, int p, const Steps<T>& steps) {
  constexpr std::int64_t most = 256;
  Strides packed;
  std::int64_t step = 1;
  for (int axis = gradient.rank() - 1; axis >= 0; --axis) {
    packed[axis] = step;
    step *= gradient.shape.data()[axis];
  }
  const CopyLoop walk = walk_over(gradient.shape, gradient.strides, packed);
  const std::int64_t n = walk.lengths[walk.rank - 1], apart = walk.from[walk.rank - 1];
  for_each_row(walk, 1, [&](std::int64_t source, std::int64_t place) {
    const T* from = gradient.as<T>() + source;
    for (std::int64_t i = 0; i < n; i += most) {
      T row[most];
      const std::int64_t now = n - i < most ? n - i : most;
      for (std::int64_t k = 0; k < now; ++k) row[k] = from[(i + k) * apart];
      steps.take(steps.make, {p, place + i, now, row});
    }
  });
}

/// Steps for the rows of the parameter that the gradient belongs to.
template <class T>
void take_picked(const Parameters& all, const Steps<T>& steps) {
  for (int i = 0; i < all.written; ++i) {
    const Body& before = all.call.input(i);
    Body& after = all.call.output(i);
    if (after.data != before.data) copy_bytes(before.data, after.data, after.bytes());
  }
  const Body &x = all.call.input(0), &rows = all.call.input(all.written + 1);
  if (x.elements == 0) return;
  const std::int64_t limit = x.shape.data()[0], width = x.elements / limit;
  const auto* const places = rows.as<std::int64_t>();
  const T* const from = all.gradient(0).as<T>();
  parallel_rows(rows.elements, width, 1 << 14, [&](std::int64_t first, std::int64_t end) {
    steps.take(steps.make, {0, 0, width, from + first * width, places + first, end - first, limit});
  });
}

/// Steps for all elements of the parameters of this dtype. Threads share blocks. A block has a part
/// of each large parameter, so that a thread gets the rows whose gradient it has computed, and some
/// of the small parameters.
template <class T>
[[gnu::noinline]] void take_all(const Parameters& all, std::int64_t grain, const Steps<T>& steps) {
  if (all.picks) return take_picked<T>(all, steps);
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
      take_strided<T>(all.gradient(p), p, steps);
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
      if (first < end) steps.take(steps.make, {p, first, end - first, gradient.as<T>() + first});
    }
  });
}

/// Calls make(p)(i, chunk, gradient) for all elements of the parameters p of this dtype.
template <class T, class Make>
void for_each(const Parameters& all, std::int64_t grain, const Make& make) {
  take_all<T>(all, grain, {&make, [](const void* made, const Piece<T>& piece) {
                             const auto step = (*static_cast<const Make*>(made))(piece.parameter);
                             const T* from = piece.gradient;
                             for (std::int64_t k = 0; k < piece.count; ++k, from += piece.width) {
                               const std::int64_t row = piece.rows[k];
                               if (row < 0 || row >= piece.limit) continue;
                               const std::int64_t first = piece.base + row * piece.width;
                               for_chunks<T>(piece.width, [&](std::int64_t i, Chunk<T> chunk) {
                                 step(first + i, chunk, chunk.get(from + i));
                               });
                             }
                           }});
}

// Work for another thread must have at least so many elements.
constexpr std::int64_t light_grain = 1 << 17, adam_grain = 1 << 15;

/// The gradient with the decay of weights. Without decay, an infinite x leaves g as it is.
template <class T>
Vector<T> decayed(const Vector<T>& g, const Vector<T>& x, T decay) {
  return decay == T(0) ? g : g + decay * x;
}

/// x -= rate g
template <class T>
void sgd(const Parameters& all) {
  const Vector<T> rate(static_cast<T>(all.rate()));
  const T decay = static_cast<T>(all.call.option<SGDUpdateOptions>().weight_decay);
  for_each<T>(all, light_grain, [&](int p) {
    return [=, from = all.before<T>(p, 0), to = all.after<T>(p, 0)](std::int64_t i, Chunk<T> chunk,
                                                                    const Vector<T>& g) {
      const Vector<T> x = chunk.get(from + i);
      chunk.put(to + i, x - rate * decayed(g, x, decay));
    };
  });
}

/// x + rate (value - x), from the nearer end: equal numbers stay as they are, and a rate of 1 gives
/// the value. No difference overflows.
template <class T>
void average(const Parameters& all) {
  const bool near_x = all.rate() < 0.5;
  const Vector<T> rate(static_cast<T>(near_x ? all.rate() : all.rate() - 1));
  for_each<T>(all, light_grain, [&](int p) {
    return [=, from = all.before<T>(p, 0), to = all.after<T>(p, 0)](std::int64_t i, Chunk<T> chunk,
                                                                    const Vector<T>& value) {
      const Vector<T> x = chunk.get(from + i);
      chunk.put(to + i, (near_x ? x : value) + (rate * value - rate * x));
    };
  });
}

/// v = momentum v + g; x -= rate v, or rate (g + momentum v)
template <class T>
void momentum(const Parameters& all) {
  const auto& option = all.call.option<MomentumOptions>();
  const Vector<T> rate(static_cast<T>(all.rate())), factor(static_cast<T>(option.momentum));
  const T decay = static_cast<T>(option.weight_decay);
  for_each<T>(all, light_grain, [&](int p) {
    return [=, nesterov = option.nesterov, from = all.before<T>(p, 0), v = all.before<T>(p, 1),
            x_to = all.after<T>(p, 0),
            v_to = all.after<T>(p, 1)](std::int64_t i, Chunk<T> chunk, const Vector<T>& gradient) {
      const Vector<T> x = chunk.get(from + i), g = decayed(gradient, x, decay);
      const Vector<T> velocity = factor * chunk.get(v + i) + g;
      chunk.put(v_to + i, velocity);
      chunk.put(x_to + i, x - rate * (nesterov ? g + factor * velocity : velocity));
    };
  });
}

/// sum += g^2; x -= rate g / (sqrt(sum) + epsilon)
template <class T>
void adagrad(const Parameters& all) {
  const auto& option = all.call.option<AdagradUpdateOptions>();
  const Vector<T> rate(static_cast<T>(all.rate())), epsilon(static_cast<T>(option.epsilon));
  const T decay = static_cast<T>(option.weight_decay);
  for_each<T>(all, adam_grain, [&](int p) {
    return
        [=, from = all.before<T>(p, 0), sum = all.before<T>(p, 1), x_to = all.after<T>(p, 0),
         sum_to = all.after<T>(p, 1)](std::int64_t i, Chunk<T> chunk, const Vector<T>& gradient) {
          const Vector<T> x = chunk.get(from + i), g = decayed(gradient, x, decay);
          const Vector<T> squares = chunk.get(sum + i) + g * g;
          chunk.put(sum_to + i, squares);
          chunk.put(x_to + i, x - rate * g / (xsimd::sqrt(squares) + epsilon));
        };
  });
}

/// v = decay v + (1 - decay) g^2; x -= rate g / (sqrt(v) + epsilon), or rate times the velocity
template <class T, bool has_velocity>
void rmsprop(const Parameters& all) {
  const auto& option = all.call.option<RMSpropUpdateOptions>();
  const Vector<T> rate(static_cast<T>(all.rate())), keep(static_cast<T>(option.decay));
  const Vector<T> rest(static_cast<T>(1 - option.decay)), epsilon(static_cast<T>(option.epsilon));
  const Vector<T> momentum(static_cast<T>(option.momentum));
  const T decay = static_cast<T>(option.weight_decay);
  constexpr int last = has_velocity ? 2 : 1;
  for_each<T>(all, adam_grain, [&](int p) {
    return
        [=, from = all.before<T>(p, 0), v = all.before<T>(p, 1), velocity = all.before<T>(p, last),
         x_to = all.after<T>(p, 0), v_to = all.after<T>(p, 1), velocity_to = all.after<T>(p, last)](
            std::int64_t i, Chunk<T> chunk, const Vector<T>& gradient) {
          const Vector<T> x = chunk.get(from + i), g = decayed(gradient, x, decay);
          const Vector<T> second = keep * chunk.get(v + i) + rest * g * g;
          Vector<T> step = g / (xsimd::sqrt(second) + epsilon);
          chunk.put(v_to + i, second);
          if constexpr (has_velocity) {
            step = momentum * chunk.get(velocity + i) + step;
            chunk.put(velocity_to + i, step);
          }
          chunk.put(x_to + i, x - rate * step);
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

std::int64_t step_of(const Parameters& all) { return integer_at(all.number(1), 0); }

/// The number of Variables of a parameter that Adam writes.
template <bool keeps_largest>
constexpr int adam_written = keeps_largest ? 4 : 3;

template <class T, bool keeps_largest>
void adam(const Parameters& all) {
  constexpr int last = adam_written<keeps_largest> - 1;
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
            largest = all.before<T>(p, last), x_to = all.after<T>(p, 0), m_to = all.after<T>(p, 1),
            v_to = all.after<T>(p, 2), largest_to = all.after<T>(p, last)](
               std::int64_t i, Chunk<T> chunk, const Vector<T>& g) {
      const Vector<T> first = beta1 * chunk.get(m + i) + rest1 * g;
      Vector<T> second = beta2 * chunk.get(v + i) + rest2 * g * g;
      chunk.put(m_to + i, first);
      chunk.put(v_to + i, second);
      if constexpr (keeps_largest) {
        second = formulas::math::maximum<Vector<T>>(chunk.get(largest + i), second);
        chunk.put(largest_to + i, second);
      }
      chunk.put(x_to + i, chunk.get(x + i) * keep -
                              scale1 * first / (xsimd::sqrt(second * scale2) + epsilon));
    };
  });
}

constexpr const char* refused = "Nothing was written.";

/// The failure of a rate that is not finite and 0 or more, in the precision in which it is used.
KernelResult check_rate(double wide, bool single, int input) {
  const double rate = single ? static_cast<double>(static_cast<float>(wide)) : wide;
  if (__builtin_isfinite(rate) && rate >= 0) return {};
  return {.failure = refused,
          .input = input,
          .expected = __builtin_isfinite(rate) ? "0 or more" : "a finite number",
          .number = rate};
}
KernelResult check_rate(const KernelCall& call) {
  const Body& rates = call.input(0);
  const bool single = call.option<RateOptions>().single;
  copy_bytes(rates.data, call.output().data, rates.bytes());
  KernelResult result;
  with_floating(rates.dtype, [&]<class T>(Type<T>) {
    for (std::int64_t i = 0; i < rates.elements && !result.failure; ++i)
      result = check_rate(static_cast<double>(rates.as<T>()[i]), single, 0);
    return KernelResult{};
  });
  return result;
}

/// Selects the kernel by the dtypes of the parameters. Errors name an input by its position among
/// the names of the op's inputs.
template <int written, int numbers, void (*f32)(const Parameters&), void (*f64)(const Parameters&),
          bool picks = false>
KernelResult update(const KernelCall& call) {
  const Parameters all(call, written, numbers, picks);
  const bool single = all.have(DType::float32);
  const KernelResult checked = check_rate(all.rate(), single, written + 1 + picks);
  if (checked.failure) return checked;
  if (single) f32(all);
  if (all.have(DType::float64)) f64(all);
  return {};
}

template <bool keeps_largest, bool picks = false>
KernelResult adam_update(const KernelCall& call) {
  constexpr int written = adam_written<keeps_largest>;
  const std::int64_t t = step_of(Parameters(call, written, 2, picks));
  if (t < 1)
    return {.failure = refused,
            .input = written + 2 + picks,
            .expected = "at least 1",
            .number = static_cast<double>(t)};
  return update<written, 2, adam<float, keeps_largest>, adam<double, keeps_largest>, picks>(call);
}

const NamedKernel kernels[] = {
    {"assign", assign<Change::replace>},
    {"assign_add", assign<Change::add>},
    {"assign_sub", assign<Change::subtract>},
    {"sgd_update", update<1, 1, sgd<float>, sgd<double>>},
    {"momentum_update", update<2, 1, momentum<float>, momentum<double>>},
    {"adam_update", adam_update<false>},
    {"amsgrad_update", adam_update<true>},
    {"rmsprop_update", update<2, 1, rmsprop<float, false>, rmsprop<double, false>>},
    {"rmsprop_momentum_update", update<3, 1, rmsprop<float, true>, rmsprop<double, true>>},
    {"adagrad_update", update<2, 1, adagrad<float>, adagrad<double>>},
    {"average_update", update<1, 1, average<float>, average<double>>},
    {"check_rate", check_rate},
    {"sgd_row_update", update<1, 1, sgd<float>, sgd<double>, true>},
    {"momentum_row_update", update<2, 1, momentum<float>, momentum<double>, true>},
    {"adam_row_update", adam_update<false, true>},
    {"amsgrad_row_update", adam_update<true, true>},
    {"rmsprop_row_update", update<2, 1, rmsprop<float, false>, rmsprop<double, false>, true>},
    {"rmsprop_momentum_row_update",
     update<3, 1, rmsprop<float, true>, rmsprop<double, true>, true>},
    {"adagrad_row_update", update<2, 1, adagrad<float>, adagrad<double>, true>},
    {nullptr, nullptr}};
}  // namespace
extern const Family update_family;
const Family update_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
