// SPDX-License-Identifier: BSD-3-Clause
// Convolutions beside oneDNN, which is called directly: convolution [NAME]
// oneDNN has its weights in the order that it prefers. It has images in two layouts: the one that
// it prefers, and channels last. One thread, its CPU time, all sides in turn. The program prints
// microseconds and the medians of the ratios.
#include <dlfcn.h>
#include <dnnl.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <reel/reel.hpp>

namespace {
using Work = std::function<void()>;
using dnnl::memory;

struct Problem {
  const char* name;
  std::int64_t batch, in, out, size, taps, stride, padding, groups;

  std::int64_t made() const { return (size + 2 * padding - taps) / stride + 1; }
  double work() const {
    return static_cast<double>(batch * made() * made() * out) *
           static_cast<double>(in / groups * taps * taps);
  }
};
constexpr Problem problems[] = {{"3x3, 64 to 64, 56x56", 8, 64, 64, 56, 3, 1, 1, 1},
                                {"3x3 stride 2, 64 to 128, 56x56", 8, 64, 128, 56, 3, 2, 1, 1},
                                {"1x1, 256 to 64, 56x56", 8, 256, 64, 56, 1, 1, 0, 1},
                                {"7x7 stride 2, 3 to 64, 224x224", 8, 3, 64, 224, 7, 2, 3, 1},
                                {"3x3 depthwise, 128, 28x28", 8, 128, 128, 28, 3, 1, 1, 128},
                                {"5x5, 1 to 32, 28x28, batch 64", 64, 1, 32, 28, 5, 1, 2, 1},
                                {"3x3, 256 to 256, 14x14", 8, 256, 256, 14, 3, 1, 1, 1},
                                {"3x3, 512 to 512, 7x7", 8, 512, 512, 7, 3, 1, 1, 1}};

/// The value and both gradients.
struct Calls {
  Work value, data, weights;
};

Calls calls_of_onednn(const dnnl::engine& engine, const Problem& p, memory::format_tag images) {
  using Tag = memory::format_tag;
  constexpr auto type = memory::data_type::f32;
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const memory::dims steps{p.stride, p.stride}, padding{p.padding, p.padding};
  const memory::desc x({p.batch, p.in, p.size, p.size}, type, images),
      y({p.batch, p.out, p.made(), p.made()}, type, images),
      w = p.groups == 1
              ? memory::desc({p.out, p.in, p.taps, p.taps}, type, Tag::any)
              : memory::desc({p.groups, p.out / p.groups, p.in / p.groups, p.taps, p.taps}, type,
                             Tag::any);
  const auto made = [&](const memory::desc& of) {
    memory it(of, engine);
    auto* const numbers = static_cast<float*>(it.get_data_handle());
    for (std::size_t i = 0; i < of.get_size() / sizeof(float); ++i)
      numbers[i] = static_cast<float>(i * 7919 % 1000) / 1000 - 0.5f;
    return it;
  };
  const dnnl::convolution_forward::primitive_desc value(
      {dnnl::prop_kind::forward_training, direct, x, w, y, steps, padding, padding}, engine);
  const dnnl::convolution_backward_data::primitive_desc data(
      {direct, x, w, y, steps, padding, padding}, engine, value);
  const dnnl::convolution_backward_weights::primitive_desc weights(
      {direct, x, w, y, steps, padding, padding}, engine, value);
  const auto call = [&](const dnnl::primitive& primitive,
                        std::unordered_map<int, memory> arguments) -> Work {
    const dnnl::stream stream(engine);
    return [=] { primitive.execute(stream, arguments); };
  };
  return {call(dnnl::convolution_forward(value), {{DNNL_ARG_SRC, made(value.src_desc())},
                                                  {DNNL_ARG_WEIGHTS, made(value.weights_desc())},
                                                  {DNNL_ARG_DST, made(value.dst_desc())}}),
          call(dnnl::convolution_backward_data(data),
               {{DNNL_ARG_DIFF_SRC, made(data.diff_src_desc())},
                {DNNL_ARG_WEIGHTS, made(data.weights_desc())},
                {DNNL_ARG_DIFF_DST, made(data.diff_dst_desc())}}),
          call(dnnl::convolution_backward_weights(weights),
               {{DNNL_ARG_SRC, made(weights.src_desc())},
                {DNNL_ARG_DIFF_WEIGHTS, made(weights.diff_weights_desc())},
                {DNNL_ARG_DIFF_DST, made(weights.diff_dst_desc())}})};
}

Calls calls_of_reel(const Problem& p) {
  using namespace reel;
  const Tensor x = random::normal({p.batch, p.size, p.size, p.in}),
               w = random::normal({p.taps, p.taps, p.in / p.groups, p.out}),
               dy = random::normal({p.batch, p.made(), p.made(), p.out});
  const ConvolutionOptions options{.stride = p.stride, .padding = p.padding, .groups = p.groups};
  const auto gradient = [&](const Tensor& of) -> Work {
    const auto tape = std::make_shared<GradientTape>(TapeOptions{.persistent = true});
    tape->watch(of);
    const Tensor y = conv2d(x, w, options);
    return [=] { tape->gradient(y, of, {.upstream = dy}); };
  };
  return {[=] { conv2d(x, w, options); }, gradient(x), gradient(w)};
}

/// Microseconds of one call.
double time_of(const Work& work, int times) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  };
  const double start = now();
  for (int i = 0; i < times; ++i) work();
  return (now() - start) / times;
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}
void compare(const Problem& p, const char* what, const Work& ours, const Work& any,
             const Work& last) {
  const int times = std::max(1, static_cast<int>(2e8 / p.work()));
  std::vector<double> times_of_ours, to_any, to_last;
  ours(), any(), last();
  for (int round = 0; round < 15; ++round) {
    const double one = time_of(ours, times);
    times_of_ours.push_back(one);
    to_any.push_back(one / time_of(any, times));
    to_last.push_back(one / time_of(last, times));
  }
  std::printf("%-31s %-7s %9.1f us  %5.2f %5.2f\n", p.name, what, median(times_of_ours),
              median(to_any), median(to_last));
  std::fflush(stdout);
}
}  // namespace

int main(int count, char** words) {
  reel::set_num_threads(1);
  // oneDNN has OpenMP's threads.
  if (void* const set = dlsym(RTLD_DEFAULT, "omp_set_num_threads"))
    reinterpret_cast<void (*)(int)>(set)(1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const std::string wanted = count > 1 ? words[1] : "";
  std::puts("batch 8, channels, image                     reel    ÷ oneDNN's any, channels last");
  for (const Problem& p : problems) {
    if (std::string(p.name).find(wanted) == std::string::npos) continue;
    const Calls ours = calls_of_reel(p), any = calls_of_onednn(engine, p, memory::format_tag::any),
                last = calls_of_onednn(engine, p, memory::format_tag::nhwc);
    compare(p, "value", ours.value, any.value, last.value);
    compare(p, "for x", ours.data, any.data, last.data);
    compare(p, "for w", ours.weights, any.weights, last.weights);
  }
}
