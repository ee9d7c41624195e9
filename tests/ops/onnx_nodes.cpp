// SPDX-License-Identifier: BSD-3-Clause
// The node tests of ONNX, which onnx_nodes.py writes to a folder: images have channels first.
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
using Int = std::int64_t;
using Ints = std::vector<Int>;

/// Parts of the names of tests whose results differ, or whose options reel does not have.
const std::map<std::string, std::string> differences = {
    {"softcap", "attention() has no such option"},
    {"window_gqa_rank4_mask", "attention() has no softcap"},
    {"averagepool_2d_dilations", "mean pools have no dilation"},
    {"averagepool_3d_dilations", "mean pools have no dilation"},
    {"averagepool_2d_pads", "padding of more than half a window is an error, as in PyTorch"},
    {"maxpool_2d_pads", "padding of more than half a window is an error, as in PyTorch"},
    {"antialias", "resize() has no such option"},
    {"exclude_outside", "resize() has no such option"},
    {"tf_crop_and_resize", "resize() has no such option"},
    {"not_larger", "resize() has no such option"},
    {"not_smaller", "resize() has no such option"},
    {"half_pixel_symmetric", "resize() has no such places of elements"},
    {"cubic_asymmetric", "resize() has no such places of elements"},
    {"ceil_asymmetric", "resize() has no such places of elements"},
    {"downsample_scales_cubic", "0.6 or 0.8: resize() computes places from the lengths"},
    {"downsample_scales_linear", "0.6: resize() computes places from the lengths"},
    {"downsample_sizes_linear_pytorch", "one element comes from the middle, as in PyTorch 2"},
    {"downsample_sizes_nearest", "the element before the place, as in PyTorch"},
    {"nearest_ceil", "the element before the place, as in PyTorch"},
    {"nearest_floor_align_corners", "align_corners is for linear and cubic"},
};

class Case {
 public:
  Case(const std::string& folder, const std::string& name, const std::string& dtype) {
    for (auto& [key, x] : io::load_npz(folder + "/" + name + ".npz")) members_[key] = x;
    if (dtype == "bfloat16")
      for (auto& [key, x] : members_)
        if (key.starts_with("in") && x.dtype() == float32) x = x.to(bfloat16);
  }
  bool has(const std::string& name) const { return members_.contains(name); }
  const Tensor& operator[](const std::string& name) const { return members_.at(name); }
  Ints ints(const std::string& name, const Ints& otherwise) const {
    return has(name) ? members_.at(name).to(int64).to_vector<Int>() : otherwise;
  }
  Int integer(const std::string& name, Int otherwise) const { return ints(name, {otherwise})[0]; }
  double real(const std::string& name, double otherwise) const {
    return has(name) ? members_.at(name).to(float64).to_vector<double>()[0] : otherwise;
  }
  std::string text(const std::string& name, const std::string& otherwise) const {
    if (!has(name)) return otherwise;
    const auto bytes = members_.at(name).to_vector<std::uint8_t>();
    return {bytes.begin(), bytes.end()};
  }

 private:
  std::map<std::string, Tensor> members_;
};

Steps steps(const Ints& n) {
  if (n.size() == 1) return Steps(n[0]);
  return n.size() == 2 ? Steps(n[0], n[1]) : Steps(n[0], n[1], n[2]);
}
/// All beginnings, then all ends.
Paddings paddings(const Ints& n) {
  if (n.size() == 2) return {{n[0], n[1]}};
  if (n.size() == 4) return {{n[0], n[2]}, {n[1], n[3]}};
  return {{n[0], n[3]}, {n[1], n[4]}, {n[2], n[5]}};
}
/// Windows over images: what convolutions and pools have in common.
struct Windows {
  std::size_t axes;
  Ints window, stride, dilation;
  Paddings padding = 0;
  Windows(const Case& c, const Ints& lengths)
      : axes(c["in0"].rank() - 2),
        window(lengths),
        stride(c.ints("strides", Ints(axes, 1))),
        dilation(c.ints("dilations", Ints(axes, 1))) {
    const std::string automatic = c.text("auto_pad", "NOTSET");
    if (automatic == "SAME_UPPER") padding = same;
    if (automatic == "NOTSET") padding = paddings(c.ints("pads", Ints(2 * axes, 0)));
    if (automatic != "SAME_LOWER") return;
    Ints pads(2 * axes);
    for (std::size_t i = 0; i < axes; ++i) {
      const Int length = c["in0"].shape(static_cast<int>(i) + 2);
      const Int results = (length + stride[i] - 1) / stride[i];
      const Int all =
          std::max<Int>((results - 1) * stride[i] + dilation[i] * (window[i] - 1) + 1 - length, 0);
      pads[i] = (all + 1) / 2;
      pads[axes + i] = all / 2;
    }
    padding = paddings(pads);
  }
};
/// The weight [out, in, window...] as [window..., in, out].
Tensor weight_of(const Tensor& w) {
  std::vector<int> order;
  for (int i = 2; i < static_cast<int>(w.rank()); ++i) order.push_back(i);
  order.insert(order.end(), {1, 0});
  return transpose(w, Axes(std::span<const int>(order)));
}
Ints lengths_of(const Tensor& x) {
  Ints lengths;
  for (std::size_t i = 2; i < x.rank(); ++i) lengths.push_back(x.shape(static_cast<int>(i)));
  return lengths;
}
#define REEL_BY_AXES(axes, name, ...) \
  (axes == 1 ? name##1d(__VA_ARGS__) : axes == 2 ? name##2d(__VA_ARGS__) : name##3d(__VA_ARGS__))

Tensor convolution(const Case& c) {
  const Windows w(c, lengths_of(c["in1"]));
  const ConvolutionOptions options{.stride = steps(w.stride),
                                   .dilation = steps(w.dilation),
                                   .padding = w.padding,
                                   .groups = c.integer("group", 1),
                                   .channels = Channels::first};
  return REEL_BY_AXES(w.axes, conv, c["in0"], weight_of(c["in1"]), options);
}
Tensor transposed_convolution(const Case& c) {
  Windows w(c, lengths_of(c["in1"]));
  Ints more = c.ints("output_padding", Ints(w.axes, 0));
  if (c.has("output_shape")) {
    const Ints wanted = c.ints("output_shape", {});
    Ints pads(2 * w.axes);
    for (std::size_t i = 0; i < w.axes; ++i) {
      const Int length = w.stride[i] * (c["in0"].shape(static_cast<int>(i) + 2) - 1) + more[i] +
                         (w.window[i] - 1) * w.dilation[i] + 1;
      if (length < wanted[i]) more[i] += wanted[i] - length;
      const Int all = std::max<Int>(length - wanted[i], 0);
      pads[i] = all / 2;
      pads[w.axes + i] = all - all / 2;
    }
    w.padding = paddings(pads);
  }
  const TransposedConvolutionOptions options{.stride = steps(w.stride),
                                             .dilation = steps(w.dilation),
                                             .padding = w.padding,
                                             .output_padding = steps(more),
                                             .groups = c.integer("group", 1),
                                             .channels = Channels::first};
  return REEL_BY_AXES(w.axes, conv_transpose, c["in0"], weight_of(c["in1"]), options);
}
Tensor max_pool(const Case& c) {
  const Windows w(c, c.ints("kernel_shape", {}));
  const PoolOptions options{.stride = steps(w.stride),
                            .dilation = steps(w.dilation),
                            .padding = w.padding,
                            .ceil = c.integer("ceil_mode", 0) != 0,
                            .channels = Channels::first};
  const Tensor& x = c["in0"];  // bytes are exact in float32
  return REEL_BY_AXES(w.axes, max_pool, x.dtype() == uint8 ? x.to(float32) : x, steps(w.window),
                      options)
      .to(x.dtype());
}
Tensor mean_pool(const Case& c) {
  const Windows w(c, c.ints("kernel_shape", {}));
  if (w.dilation != Ints(w.axes, 1)) throw Error("no dilation");
  const MeanPoolOptions options{.stride = steps(w.stride),
                                .padding = w.padding,
                                .ceil = c.integer("ceil_mode", 0) != 0,
                                .count_padding = c.integer("count_include_pad", 0) != 0,
                                .channels = Channels::first};
  return REEL_BY_AXES(w.axes, mean_pool, c["in0"], steps(w.window), options);
}
Tensor resized(const Case& c) {
  const Tensor& x = c["in0"];
  const std::string place = c.text("coordinate_transformation_mode", "half_pixel"),
                    method = c.text("mode", "nearest");
  if (c.integer("antialias", 0) || c.has("keep_aspect_ratio_policy") ||
      c.integer("exclude_outside", 0))
    throw Error("no such option");
  if (place != "align_corners" && place != "half_pixel" && place != "pytorch_half_pixel")
    throw Error("no such place");
  Ints sizes = lengths_of(x), axes;
  for (std::size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<Int>(i));
  axes = c.ints("axes", axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 2) continue;
    const auto axis = static_cast<int>(axes[i]);
    const double scale = c.has("in2") ? c["in2"].to_vector<float>()[i] : 0;
    sizes[static_cast<std::size_t>(axis) - 2] =
        c.has("in3") ? c["in3"].to_vector<Int>()[i]
                     : static_cast<Int>(std::floor(static_cast<double>(x.shape(axis)) * scale));
  }
  return resize(x, steps(sizes),
                {.method = method == "nearest"  ? Resize::nearest
                           : method == "linear" ? Resize::linear
                                                : Resize::cubic,
                 .align_corners = place == "align_corners",
                 .channels = Channels::first});
}
/// [batch, steps, heads * width] as [batch, heads, steps, width].
Tensor with_heads(const Tensor& x, Int heads) {
  if (x.rank() == 4) return x;
  return transpose(x.reshape({x.shape(0), x.shape(1), heads, -1}), {0, 2, 1, 3});
}
void hide(Tensor& mask, const Tensor& hidden) {
  if (!mask.defined() || mask.dtype() == boolean)
    mask = mask.defined() ? mask & logical_not(hidden) : logical_not(hidden);
  else
    mask = where(hidden, full({}, -INFINITY, mask.dtype()), mask);
}
Tensor attended(const Case& c) {
  if (c.real("softcap", 0) != 0) throw Error("no softcap");
  const Tensor q = with_heads(c["in0"], c.integer("q_num_heads", 0));
  Tensor k = with_heads(c["in1"], c.integer("kv_num_heads", 0)),
         v = with_heads(c["in2"], c.integer("kv_num_heads", 0));
  Int before = 0;
  if (c.has("in4")) {
    before = c["in4"].shape(2);
    k = concat({c["in4"], k}, 2);
    v = concat({c["in5"], v}, 2);
  }
  AttentionOptions options{.scale = c.real("scale", 0)};
  const Int queries = q.shape(2), keys = k.shape(2);
  if (c.has("in3")) {
    options.mask = c["in3"];
    if (const Int missing = keys - options.mask.shape(-1); missing > 0) {
      const bool truth = options.mask.dtype() == boolean;
      std::vector<Padding> widths(options.mask.rank(), Padding{0, 0});
      widths.back() = {0, missing};
      options.mask =
          pad(options.mask, widths, {.value = truth ? Scalar(false) : Scalar(-INFINITY)});
    }
  }
  // Query i is key number i + `place`, where other keys came before, or each batch has a length.
  const Tensor place = c.has("in6") ? (c["in6"] - queries).reshape({-1, 1, 1, 1})
                                    : full({}, before, int64),
               row = arange(Int{0}, queries).reshape({-1, 1}) + place,
               column = arange(Int{0}, keys);
  const Int left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  if (left >= 0) hide(options.mask, column < row - left);
  if (right >= 0) hide(options.mask, column > row + right);
  if (c.integer("is_causal", 0)) hide(options.mask, column > row);
  if (c.has("in6")) options.key_lengths = c["in6"];
  const Tensor y = attention(q, k, v, options);
  return c["in0"].rank() == 4 ? y : transpose(y, {0, 2, 1, 3}).reshape({y.shape(0), queries, -1});
}
Tensor result_of(const std::string& op, const Case& c) {
  if (op == "Conv") return convolution(c);
  if (op == "ConvTranspose") return transposed_convolution(c);
  if (op == "MaxPool") return max_pool(c);
  if (op == "AveragePool") return mean_pool(c);
  if (op == "GlobalAveragePool") return adaptive_mean_pool2d(c["in0"], 1, Channels::first);
  if (op == "GlobalMaxPool") return adaptive_max_pool2d(c["in0"], 1, Channels::first);
  if (op == "Resize") return resized(c);
  if (op == "Attention") return attended(c);
  std::vector<Tensor> inputs = {c["in0"]};
  if (c.has("in1")) inputs.push_back(c["in1"]);
  return einsum(c.text("equation", ""), inputs);
}
/// Empty if the result is that of ONNX.
std::string difference_of(const std::string& op, const Case& c, const std::string& dtype) try {
  const Tensor got = result_of(op, c), &expected = c["out"];
  if (!(got.shape() == expected.shape()))
    return "shape " + to_string(got.shape()) + " instead of " + to_string(expected.shape());
  const double near = dtype == "bfloat16" ? 1e-2 : dtype == "float16" ? 2e-3 : 1e-4;
  if (allclose(got.to(float64), expected.to(float64), {.rtol = near, .atol = near})) return {};
  return to_string(got) + "\ninstead of " + to_string(expected);
} catch (const Error& error) {
  return error.what();
}
}  // namespace

TEST_CASE("the node tests of ONNX have their results", "[.][onnx]") {
  const char* const folder = std::getenv("REEL_ONNX");
  REQUIRE(folder != nullptr);
  std::ifstream list(std::string(folder) + "/list");
  std::string line, op, name, dtype;
  int count = 0;
  std::set<std::string> met;
  for (; std::getline(list, line); ++count) {
    std::istringstream(line) >> op >> name >> dtype;
    const std::string difference = difference_of(op, Case(folder, name, dtype), dtype);
    INFO(name << ": " << difference);
    const auto listed = std::find_if(differences.begin(), differences.end(), [&](const auto& one) {
      return name.find(one.first) != name.npos;
    });
    CHECK(difference.empty() == (listed == differences.end()));
    if (listed != differences.end()) met.insert(listed->first);
  }
  CHECK(count > 150);
  CHECK(met.size() == differences.size());
}
}  // namespace reel::tests
