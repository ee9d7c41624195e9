// SPDX-License-Identifier: BSD-3-Clause
// Kernels that write Variables: assignments and the steps of optimizers. Each is a single pass.
// Output i may share the memory of input i.
#include <reel/ops/update_options.hpp>

#include "cuda/pointwise.hpp"
#include "cuda/positions.hpp"
#include "lib/formulas/arithmetic.hpp"
#include "lib/table/options/update.hpp"

namespace reel::gpu {
namespace {
struct Same {
  constexpr auto operator()(auto x) const { return x; }
};
KernelResult assign(const Call& call) {
  // A unit represents every dtype of its size: elements are copied only.
  with_unit(size_of(call.output().dtype), [&]<class Unit>(Type<Unit>) {
    apply<Unit, Unit>(call.queue, Same(), call.output(), {&call.input(1)});
  });
  return {};
}
/// Adds to the old value, or subtracts from it.
template <class F>
KernelResult change(const Call& call) {
  with_element(call.output().dtype, [&]<class T>(Type<T>) { apply_to<F, T>(call); });
  return {};
}

/// Checks of the numbers of an optimizer's step. A report holds the bits of a float64.
struct Faults {
  Fault *rate_finite = nullptr, *rate_least = nullptr, *step = nullptr;
};
__device__ void report_number(Fault* fault, double number) {
  report(fault, 0, __double_as_longlong(number));
}
/// The numbers of an optimizer's step, in device memory.
struct Numbers {
  const double* rate = nullptr;
  Integers steps;       // without data, there is no step count
  bool rounds = false;  // round to float32, because some parameters are float32
  Faults faults;

  /// Whether the numbers are valid. If they are not, one thread or more must report it.
  __device__ bool are_right(bool reports) const {
    const std::int64_t t = step();
    const double rounded = static_cast<float>(*rate), here = rounds ? rounded : *rate;
    const bool finite = here - here == 0;
    Fault* const fault = t < 1      ? faults.step
                         : !finite  ? faults.rate_finite
                         : here < 0 ? faults.rate_least
                                    : nullptr;
    if (fault && reports) report_number(fault, t < 1 ? static_cast<double>(t) : here);
    return !fault;
  }
  __device__ std::int64_t step() const { return steps.data ? steps[0] : 1; }
};

// A rule gets the Variables of a parameter in `state`, x first, and factors of type T that one
// thread of each block computes.
/// The gradient with the decay of weights. Without decay, an infinite x leaves g as it is.
template <class T>
__device__ T decayed(T g, T x, T decay) {
  return decay == T(0) ? g : g + decay * x;
}

/// x -= rate g
struct Sgd {
  static constexpr int written = 1, factors = 2;
  SGDUpdateOptions options;
  template <class T>
  __device__ void prepare(const Numbers& numbers, T* factor) const {
    factor[0] = static_cast<T>(*numbers.rate);
    factor[1] = static_cast<T>(options.weight_decay);
  }
  template <class T>
  __device__ void step(const T* factor, T g, T (&state)[written]) const {
    state[0] -= factor[0] * decayed(g, state[0], factor[1]);
  }
};

/// x + rate (value - x), from the nearer end: equal numbers stay as they are, and a rate of 1 gives
/// the value. No difference overflows.
struct Average {
  static constexpr int written = 1, factors = 2;
  template <class T>
  __device__ void prepare(const Numbers& numbers, T* factor) const {
    const double rate = *numbers.rate;
    factor[0] = static_cast<T>(rate < 0.5 ? rate : rate - 1);
    factor[1] = static_cast<T>(rate < 0.5);
  }
  template <class T>
  __device__ void step(const T* factor, T value, T (&state)[written]) const {
    const T end = factor[1] != T(0) ? state[0] : value;
    state[0] = end + (factor[0] * value - factor[0] * state[0]);
  }
};

/// v = momentum v + g; x -= rate v, or rate (g + momentum v)
struct Momentum {
  static constexpr int written = 2, factors = 3;
  MomentumOptions options;
  template <class T>
  __device__ void prepare(const Numbers& numbers, T* factor) const {
    factor[0] = static_cast<T>(*numbers.rate);
    factor[1] = static_cast<T>(options.momentum);
    factor[2] = static_cast<T>(options.weight_decay);
  }
  template <class T>
  __device__ void step(const T* factor, T gradient, T (&state)[written]) const {
    const T g = decayed(gradient, state[0], factor[2]);
    const T velocity = factor[1] * state[1] + g;
    state[0] -= factor[0] * (options.nesterov ? g + factor[1] * velocity : velocity);
    state[1] = velocity;
  }
};

/// sum += g^2; x -= rate g / (sqrt(sum) + epsilon)
struct Adagrad {
  static constexpr int written = 2, factors = 3;
  AdagradUpdateOptions options;
  template <class T>
  __device__ void prepare(const Numbers& numbers, T* factor) const {
    factor[0] = static_cast<T>(*numbers.rate);
    factor[1] = static_cast<T>(options.epsilon);
    factor[2] = static_cast<T>(options.weight_decay);
  }
  template <class T>
  __device__ void step(const T* factor, T gradient, T (&state)[written]) const {
    const T g = decayed(gradient, state[0], factor[2]);
    state[1] += g * g;
    state[0] -= factor[0] * g / (formulas::math::sqrt(state[1]) + factor[1]);
  }
};

/// v = decay v + (1 - decay) g^2; x -= rate g / (sqrt(v) + epsilon), or rate times the velocity
template <bool has_velocity>
struct RMSprop {
  static constexpr int written = has_velocity ? 3 : 2, factors = 6;
  RMSpropUpdateOptions options;
  template <class T>
  __device__ void prepare(const Numbers& numbers, T* factor) const {
    factor[0] = static_cast<T>(*numbers.rate);
    factor[1] = static_cast<T>(options.decay);
    factor[2] = static_cast<T>(1 - options.decay);
    factor[3] = static_cast<T>(options.epsilon);
    factor[4] = static_cast<T>(options.weight_decay);
    factor[5] = static_cast<T>(options.momentum);
  }
  template <class T>
  __device__ void step(const T* factor, T gradient, T (&state)[written]) const {
    const T g = decayed(gradient, state[0], factor[4]);
    state[1] = factor[1] * state[1] + factor[2] * g * g;
    T step = g / (formulas::math::sqrt(state[1]) + factor[3]);
    if constexpr (has_velocity) step = state[2] = factor[5] * state[2] + step;
    state[0] -= factor[0] * step;
  }
};

/// beta^t by repeated squaring, in double.
__device__ double integer_power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) result *= base;
  return result;
}
template <bool keeps_largest>
struct Adam {
  static constexpr int written = keeps_largest ? 4 : 3, factors = 8;
  AdamUpdateOptions options;
  template <class T>
  __device__ void prepare(const Numbers& numbers, T* factor) const {
    const double beta1 = options.beta1, beta2 = options.beta2, rate = *numbers.rate;
    const std::int64_t t = numbers.step();
    factor[0] = static_cast<T>(beta1);
    factor[1] = static_cast<T>(1 - beta1);
    factor[2] = static_cast<T>(beta2);
    factor[3] = static_cast<T>(1 - beta2);
    factor[4] = static_cast<T>(rate / (1 - integer_power(beta1, t)));
    factor[5] = static_cast<T>(1 / (1 - integer_power(beta2, t)));
    factor[6] = static_cast<T>(options.epsilon);
    factor[7] = static_cast<T>(1 - rate * options.weight_decay);
  }
  template <class T>
  __device__ void step(const T* factor, T g, T (&state)[written]) const {
    const T first = factor[0] * state[1] + factor[1] * g;
    const T second = factor[2] * state[2] + factor[3] * g * g;
    T scale = second;
    if constexpr (keeps_largest) scale = state[3] = formulas::math::maximum(state[3], second);
    const T root = formulas::math::sqrt(scale * factor[5]) + factor[6];
    state[0] = state[0] * factor[7] - factor[4] * first / root;
    state[1] = first;
    state[2] = second;
  }
};

/// One parameter: its Variables before and after the step, and its gradient.
template <class T, int written>
struct Parameter {
  const T* before[written];
  T* after[written];
  const T* gradient;
  std::int64_t elements;
};
/// The bytes of a kernel's arguments. All are copied at each launch, so few parameters take few.
constexpr int few_bytes = 4096, most_bytes = 32'764;
/// The parameters of one launch, as many as fit into so many bytes of arguments. A parameter is
/// divided into shares of `share` elements. A block processes one share after the other.
template <class T, int written, int bytes>
struct Parameters {
  static constexpr int most = (bytes - 512) / (sizeof(Parameter<T, written>) + 4);
  static constexpr int width = 16 / sizeof(T), share = 512 * width;
  int count = 0;
  bool strided = false;  // the gradient is strided; then there is one parameter
  Places<1> places;
  const std::int64_t* rows = nullptr;         // those that the gradient belongs to; null for all
  std::int64_t row_count = 0, row_width = 1;  // of the Variable
  std::uint32_t end[most] = {};               // cumulative number of shares
  Parameter<T, written> of[most] = {};

  __host__ __device__ std::int64_t shares() const { return count ? end[count - 1] : 0; }
  __device__ int owner(std::int64_t part) const {
    int first = 0, last = count - 1;
    while (first < last) {
      const int middle = (first + last) / 2;
      if (part < end[middle])
        last = middle;
      else
        first = middle + 1;
    }
    return first;
  }
};

/// The step for n adjacent elements. With wrong numbers it only copies the state: the Variable may
/// have a new buffer.
template <int n, class Rule, class T, int written>
__device__ void step_at(bool right, const Rule& rule, const T* factor,
                        const Parameter<T, written>& parameter, std::int64_t i,
                        std::int64_t gradient_at) {
  using Some = Pack<T, n>;
  Some state[written];
  Some g = *reinterpret_cast<const Some*>(parameter.gradient + gradient_at);
  for (int v = 0; v < written; ++v)
    state[v] = *reinterpret_cast<const Some*>(parameter.before[v] + i);
  for (int lane = 0; lane < n; ++lane) {
    T one[written];
    for (int v = 0; v < written; ++v) one[v] = state[v].of[lane];
    if (right) rule.step(factor, g.of[lane], one);
    for (int v = 0; v < written; ++v) state[v].of[lane] = one[v];
  }
  for (int v = 0; v < written; ++v) store(parameter.after[v] + i, state[v]);
}

template <class Rule, class T, int bytes>
__global__ void update_all(Rule rule, Numbers numbers, Parameters<T, Rule::written, bytes> all) {
  constexpr int written = Rule::written, width = all.width;
  REEL_SHARED(T, shared, Rule::factors);
  REEL_SHARED(bool, are_right, 1);
  if (threadIdx.x == 0) {
    are_right[0] = numbers.are_right(blockIdx.x == 0);
    if (are_right[0]) rule.prepare(numbers, shared);
  }
  __syncthreads();
  const bool right = are_right[0];
  T factor[Rule::factors] = {};
  for (int i = 0; i < Rule::factors && right; ++i) factor[i] = shared[i];
  for (std::int64_t part = blockIdx.x; part < all.shares(); part += gridDim.x) {
    const int p = all.owner(part);
    const Parameter<T, written>& parameter = all.of[p];
    const std::int64_t first = (part - (p ? all.end[p - 1] : 0)) * all.share;
    const std::int64_t end = std::min(first + all.share, parameter.elements);
    bool packs = is_aligned<width>(parameter.gradient) && !all.strided && !all.rows;
    for (int v = 0; v < written; ++v)
      packs =
          packs && is_aligned<width>(parameter.before[v]) && is_aligned<width>(parameter.after[v]);
    const std::int64_t whole = packs ? end - (end - first) % width : first;
    for (std::int64_t i = first + threadIdx.x * width; i < whole; i += blockDim.x * width)
      step_at<width>(right, rule, factor, parameter, i, i);
    for (std::int64_t i = whole + threadIdx.x; i < end; i += blockDim.x) {
      std::int64_t at[1] = {i};
      if (all.strided) all.places.find(i, at);
      std::int64_t to = i;
      if (all.rows) {
        const std::int64_t row = all.rows[i / all.row_width];
        if (row < 0 || row >= all.row_count) continue;
        to = row * all.row_width + i % all.row_width;
      }
      step_at<1>(right, rule, factor, parameter, to, at[0]);
    }
  }
}

/// The inputs of an optimizer's op, in this order: for each parameter its Variables, which are
/// written; the gradients of all parameters; the numbers.
template <class Rule>
struct Step {
  const Call& call;
  Rule rule;
  Numbers numbers;
  int count;
  bool picks;  // the gradient of the only parameter is that of the rows that follow it

  const Body& gradient(int p) const { return call.input(Rule::written * count + p); }
  template <class T>
  bool is_of(int p) const {
    return gradient(p).dtype == (sizeof(T) == 4 ? DType::float32 : DType::float64);
  }
  /// Updates all parameters of one dtype.
  template <class T>
  void run() const {
    int contiguous = 0;
    for (int p = 0; p < count; ++p) contiguous += is_of<T>(p) && gradient(p).contiguous;
    if (contiguous <= Parameters<T, Rule::written, few_bytes>::most)
      run_in<T, few_bytes>();
    else
      run_in<T, most_bytes>();
  }
  template <class T, int bytes>
  void run_in() const {
    Parameters<T, Rule::written, bytes> some;
    if (picks) {
      const Body& x = call.input(0);
      some.rows = call.input(Rule::written + 1).template as<std::int64_t>();
      some.row_count = x.shape.data()[0];
      if (x.elements) some.row_width = x.elements / some.row_count;
    }
    for (int p = 0; p < count; ++p) {
      if (!is_of<T>(p)) continue;
      const Body& from = gradient(p);
      if (from.contiguous) {
        add(some, p);
        if (some.count < some.most) continue;
        launch(some);
        some = {};
      } else {
        Parameters<T, Rule::written, few_bytes> one;
        one.strided = true;
        one.places = places_of(from);
        add(one, p);
        launch(one);
      }
    }
    if (some.count) launch(some);
  }
  template <class T, int bytes>
  void launch(const Parameters<T, Rule::written, bytes>& some) const {
    const std::int64_t blocks =
        std::clamp<std::int64_t>(some.shares(), 1, call.queue.most_blocks());
    call.queue.launch(update_all<Rule, T, bytes>, dim3(static_cast<unsigned>(blocks)), dim3(256), 0,
                      rule, numbers, some);
  }
  template <class T, int bytes>
  void add(Parameters<T, Rule::written, bytes>& some, int p) const {
    const Body& from = gradient(p);
    const std::int64_t shares = (from.elements + some.share - 1) / some.share;
    some.end[some.count] = static_cast<std::uint32_t>(some.shares() + shares);
    auto& parameter = some.of[some.count++];
    for (int v = 0; v < Rule::written; ++v) {
      parameter.before[v] = call.input(Rule::written * p + v).template as<T>();
      parameter.after[v] = call.output(Rule::written * p + v).template as<T>();
    }
    parameter.gradient = from.as<T>();
    parameter.elements = from.elements;
  }
};

constexpr const char* refused = "Nothing was written.";

template <class Rule>
KernelResult update(const Call& call, const Rule& rule, int numbers, bool picks = false) {
  const Queue& queue = call.queue;
  const int each = Rule::written + 1 + picks;
  Step<Rule> step{call, rule, {}, (call.input_count - numbers) / each, picks};
  const int first = each * step.count;  // index of the first number
  step.numbers.rate = call.input(first).as<double>();
  for (int p = 0; p < step.count; ++p) step.numbers.rounds |= step.template is_of<float>(p);
  Faults& faults = step.numbers.faults;
  const auto fault = [&](int number, const char* expected) {
    return queue.fault({.failure = refused, .input = each + number, .expected = expected});
  };
  if (numbers == 2) {
    step.numbers.steps = Integers(call.input(first + 1));
    faults.step = fault(1, "at least 1");
  }
  faults.rate_finite = fault(0, "a finite number");
  faults.rate_least = fault(0, "0 or more");
  for (int i = 0; picks && i < Rule::written; ++i)
    if (const Body& before = call.input(i), &after = call.output(i);
        after.data != before.data && after.elements > 0)
      queue.check(cudaMemcpyAsync(after.data, before.data, static_cast<std::size_t>(after.bytes()),
                                  cudaMemcpyDeviceToDevice, queue.stream));
  step.template run<float>();
  step.template run<double>();
  return {};
}
/// The step of a rule that has options.
template <class Rule, int numbers, bool picks = false>
KernelResult update_by(const Call& call) {
  return update(call, Rule{call.option<decltype(Rule::options)>()}, numbers, picks);
}
template <class T>
__global__ void copy_checked(std::int64_t n, const T* rates, Numbers numbers, T* to) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    const double rate = rates[i];
    numbers.rate = &rate;
    numbers.are_right(true);
    to[i] = rates[i];
  }
}
KernelResult check_rate(const Call& call) {
  const auto fault = [&](const char* expected) {
    return call.queue.fault({.failure = refused, .expected = expected});
  };
  Numbers numbers;
  numbers.rounds = call.option<RateOptions>().single;
  numbers.faults.rate_finite = fault("a finite number");
  numbers.faults.rate_least = fault("0 or more");
  const Body& rates = call.input(0);
  return with_floating(rates.dtype, [&]<class T>(Type<T>) {
    call.queue.launch_for(rates.elements, copy_checked<T>, rates.elements, rates.as<T>(), numbers,
                          call.output().as<T>());
  });
}
KernelResult average_update(const Call& call) { return update(call, Average(), 1); }
}  // namespace
extern const NamedKernel update_kernels[] = {
    {"assign", assign},
    {"assign_add", change<formulas::Add>},
    {"assign_sub", change<formulas::Subtract>},
    {"sgd_update", update_by<Sgd, 1>},
    {"momentum_update", update_by<Momentum, 1>},
    {"adam_update", update_by<Adam<false>, 2>},
    {"amsgrad_update", update_by<Adam<true>, 2>},
    {"rmsprop_update", update_by<RMSprop<false>, 1>},
    {"rmsprop_momentum_update", update_by<RMSprop<true>, 1>},
    {"adagrad_update", update_by<Adagrad, 1>},
    {"average_update", average_update},
    {"check_rate", check_rate},
    {"sgd_row_update", update_by<Sgd, 1, true>},
    {"momentum_row_update", update_by<Momentum, 1, true>},
    {"adam_row_update", update_by<Adam<false>, 2, true>},
    {"amsgrad_row_update", update_by<Adam<true>, 2, true>},
    {"rmsprop_row_update", update_by<RMSprop<false>, 1, true>},
    {"rmsprop_momentum_row_update", update_by<RMSprop<true>, 1, true>},
    {"adagrad_row_update", update_by<Adagrad, 1, true>},
    {nullptr, nullptr}};
}  // namespace reel::gpu
