// SPDX-License-Identifier: BSD-3-Clause
// The weights of PyTorch's layers, in our layout.
#include <reel/io/torch.hpp>

#include <reel/ops/arithmetic.hpp>
#include <reel/ops/create.hpp>
#include <reel/ops/reshape.hpp>

#include <map>
#include <set>
#include <span>

#include "lib/body/text.hpp"
#include "lib/io/archive.hpp"
#include "lib/io/file.hpp"
#include "lib/io/load.hpp"
#include "lib/io/names.hpp"

namespace reel::io {
namespace {
using detail::TorchLayer;

/// The path of a member.
std::string inside(std::string_view path, std::string_view member) {
  return path.empty() ? std::string(member) : std::string(path) + "." + std::string(member);
}
}  // namespace

namespace detail {
void TorchLayers::add(TorchLayer layer) const { found.push_back(std::move(layer)); }
void TorchLayers::add_attention(std::string_view path, std::string_view theirs,
                                bool key_bias) const {
  using Kind = TorchLayer::Kind;
  add({.kind = Kind::attention,
       .path = std::string(path),
       .theirs = std::string(theirs),
       .key_bias = key_bias});
  add({.kind = Kind::linear, .path = inside(path, "output"), .theirs = inside(theirs, "out_proj")});
}
void TorchLayers::add_transformer(std::string_view path, bool decodes, bool key_bias) const {
  const auto member = [&](TorchLayer::Kind kind, const char* ours, const char* theirs) {
    add({.kind = kind, .path = inside(path, ours), .theirs = inside(path, theirs)});
  };
  using enum TorchLayer::Kind;
  add_attention(inside(path, "attention"), inside(path, "self_attn"), key_bias);
  member(linear, "expand", "linear1");
  member(linear, "contract", "linear2");
  member(norm, "attention_norm", "norm1");
  member(norm, "feed_forward_norm", decodes ? "norm3" : "norm2");
  if (!decodes) return;
  add_attention(inside(path, "cross_attention"), inside(path, "multihead_attn"), false);
  member(norm, "cross_norm", "norm2");
}
}  // namespace detail

namespace {

/// One of our weights, and the entries of the file from which it is made.
struct Recipe {
  enum class Kind : std::uint8_t {
    copy,
    transpose,
    third,
    stack,
    sum,
    gru_bias,
    zeros,
    gru_zeros
  } kind;
  std::string name;  // empty if the entry is not needed here
  std::vector<std::string> from;
  std::int64_t third = 0;   // which rows are taken
  bool transposed = false;  // of a transposed convolution
};

/// PyTorch's layers may have no bias, where ours always have one. It is zeros, one for each row of
/// the weight; such a recipe is used if the one before it finds no entries.
void add_bias_of_zeros(std::vector<Recipe>& recipes, const std::string& weight, bool is_gru) {
  recipes.push_back(
      {is_gru ? Recipe::Kind::gru_zeros : Recipe::Kind::zeros, recipes.back().name, {weight}});
}

void add_cell(std::vector<Recipe>& recipes, const std::string& ours, const std::string& theirs,
              const std::string& ending, bool is_gru) {
  using Kind = Recipe::Kind;
  recipes.push_back({Kind::stack,
                     ours + "weight",
                     {theirs + "weight_ih" + ending, theirs + "weight_hh" + ending}});
  recipes.push_back({is_gru ? Kind::gru_bias : Kind::sum,
                     ours + "bias",
                     {theirs + "bias_ih" + ending, theirs + "bias_hh" + ending}});
  add_bias_of_zeros(recipes, theirs + "weight_ih" + ending, is_gru);
}

void add_cells(std::vector<Recipe>& recipes, const TorchLayer& layer, const std::string& path) {
  const std::size_t directions = layer.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < layer.cells; ++i) {
    const std::string ending =
        "_l" + std::to_string(i / directions) + (i % directions ? "_reverse" : "");
    add_cell(recipes, path + "cells." + std::to_string(i) + ".", path, ending,
             layer.kind == TorchLayer::Kind::gru);
  }
}

std::vector<Recipe> recipes_of(const std::vector<TorchLayer>& layers) {
  using Layer = TorchLayer::Kind;
  std::vector<Recipe> recipes;
  for (const TorchLayer& layer : layers) {
    const std::string path = layer.path.empty() ? "" : layer.path + ".";
    const std::string from = layer.theirs.empty() ? path : layer.theirs + ".";
    const auto copy = [&](const char* ours, const char* theirs) {
      recipes.push_back({Recipe::Kind::copy, *ours ? path + ours : "", {from + theirs}});
    };
    const auto third = [&](const char* ours, const char* theirs, std::int64_t number) {
      recipes.push_back({Recipe::Kind::third, path + ours, {from + theirs}, number});
    };
    switch (layer.kind) {
      case Layer::linear:
        recipes.push_back(
            {Recipe::Kind::transpose, path + "weight", {from + "weight"}, 0, layer.transposed});
        if (from != path) copy("bias", "bias");
        break;
      case Layer::attention:
        third("query.weight", "in_proj_weight", 0);
        third("key.weight", "in_proj_weight", 1);
        third("value.weight", "in_proj_weight", 2);
        third("query.bias", "in_proj_bias", 0);
        if (layer.key_bias) third("key.bias", "in_proj_bias", 1);
        third("value.bias", "in_proj_bias", 2);
        break;
      case Layer::embedding:
        copy("table", "weight");
        break;
      case Layer::batch_norm:
        copy("mean", "running_mean");
        copy("variance", "running_var");
        copy("", "num_batches_tracked");
        [[fallthrough]];
      case Layer::norm:
        copy("scale", "weight");
        copy("shift", "bias");
        if (layer.kind == Layer::norm) add_bias_of_zeros(recipes, from + "weight", false);
        break;
      case Layer::rms_norm:
        copy("scale", "weight");
        break;
      case Layer::cell:
      case Layer::gru_cell:
        add_cell(recipes, path, path, "", layer.kind == Layer::gru_cell);
        break;
      case Layer::rnn:
      case Layer::gru:
        add_cells(recipes, layer, path);
    }
  }
  return recipes;
}

/// A file whose entries have our names and layouts.
class TorchLayout : public Archive {
 public:
  TorchLayout(std::unique_ptr<Archive> file, const LoadOptions& options,
              const std::vector<TorchLayer>& layers, const PathAt& path)
      : file_(std::move(file)), path_(path) {
    NewNames names(options.names, &options.rename);
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < file_->entries().size(); ++i) {
      const std::optional<std::string> name = names(file_->entries()[i].name);
      if (name && !places.emplace(*name, i).second)
        refuse("each name once after .rename", "\"" + escaped(*name) + "\" twice");
    }
    for (const auto& [old, reason] : file_->left())
      if (const std::optional<std::string> name = names(old)) left_.emplace_back(*name, reason);
    names.check_used(path.path, "load_torch", path.caller);
    for (const auto& [layer, image] : options.flattened)
      if (!flattened_.emplace(layer, image).second)
        fail<Error>(path.caller, "load_torch", "options.flattened", "each layer once",
                    "\"" + escaped(layer) + "\" twice");
    bool made = false;
    for (const Recipe& recipe : recipes_of(layers)) {
      const bool is_substitute =
          recipe.kind == Recipe::Kind::zeros || recipe.kind == Recipe::Kind::gru_zeros;
      if (!is_substitute || !made) made = add(recipe, places);
    }
    for (const auto& [name, place] : places)
      if (!used_.contains(place)) keep({Recipe::Kind::copy, {place}}, name, entry(place).shape);
    if (!flattened_.empty())
      fail<Error>(path.caller, "load_torch", "options.flattened", "the path of a Linear",
                  "\"" + escaped(flattened_.begin()->first) + "\", which is none");
  }
  /// Weights of a Linear that may follow a flattened image.
  std::vector<std::string> unordered;

  Tensor read(std::size_t i) const override {
    const Part& part = parts_[i];
    if (part.kind == Recipe::Kind::zeros || part.kind == Recipe::Kind::gru_zeros)
      return zeros(entries_[i].shape).to(entries_[i].dtype);
    std::vector<Tensor> from;
    for (const std::size_t place : part.from) from.push_back(file_->read(place));
    const Caller caller = path_.caller;
    const Operand first(from[0], caller);
    switch (part.kind) {
      case Recipe::Kind::copy:
        return from[0];
      case Recipe::Kind::transpose: {
        const Tensor weight = transpose(first, order_of(from[0].rank()));
        return part.image.rank() ? channels_last(weight, part.image) : weight;
      }
      case Recipe::Kind::third: {
        const std::int64_t rows = from[0].shape(0) / 3, begin = part.third * rows;
        const Tensor own = from[0](range(begin, begin + rows));
        return own.rank() == 2 ? transpose(own) : own;
      }
      case Recipe::Kind::stack:
        return concat({transpose(first), transpose(Operand(from[1], caller))}, 0);
      default:
        return sum_of(from, part.kind == Recipe::Kind::gru_bias);
    }
  }

 private:
  struct Part {
    Recipe::Kind kind;
    std::vector<std::size_t> from;
    std::int64_t third = 0;
    Shape image = {};  // whose elements are the rows, with channels first
  };
  const Entry& entry(std::size_t place) const { return file_->entries()[place]; }
  /// The axes [out, in, window] of PyTorch as [window, in, out].
  static Axes order_of(std::size_t rank) {
    int order[Shape::max_rank];
    for (int i = 0; i < static_cast<int>(rank); ++i)
      order[i] = i + 2 < static_cast<int>(rank) ? i + 2 : static_cast<int>(rank) - 1 - i;
    return Axes(std::span<const int>(order, rank));
  }
  [[noreturn]] void refuse(std::string_view expected, const std::string& got) const {
    fail_file(path_.caller, "load_torch", path_.path, expected, got);
  }
  void keep(Part part, const std::string& name, const Shape& shape) {
    const Entry& first = entry(part.from[0]);
    entries_.push_back({name, first.dtype, shape, first.file_dtype});
    parts_.push_back(std::move(part));
  }

  /// The rows of a flattened image {channels, ...} in the order {..., channels}.
  static Tensor channels_last(const Tensor& weight, const Shape& image) {
    const std::int64_t rows = image.elements() / image[0];
    return transpose(weight.reshape({image[0], rows, weight.shape(1)}), {1, 0, 2})
        .reshape(weight.shape());
  }
  /// The image whose elements are the inputs of a Linear, if .flattened has it.
  Shape image_of(const Recipe& recipe, const Shape& theirs) {
    if (theirs.rank() > 2) channels_ = theirs[recipe.transposed ? 1 : 0], flat_inputs_ = 0;
    if (theirs.rank() != 2) return {};
    const std::string& weight = recipe.name;
    const std::int64_t inputs = theirs[1];
    if (flat_inputs_ && inputs != flat_inputs_) channels_ = 0;
    flat_inputs_ = inputs;
    const std::string layer = weight == "weight" ? "" : weight.substr(0, weight.rfind('.'));
    const auto given = flattened_.find(layer);
    if (given == flattened_.end()) {
      if (channels_ > 1 && inputs > channels_ && inputs % channels_ == 0)
        unordered.push_back(weight);
      return {};
    }
    const Shape image = given->second;
    flattened_.erase(given);
    if (image.rank() == 0 || image.elements() != inputs || inputs == 0)
      fail<ShapeError>(
          path_.caller, "load_torch", "options.flattened",
          "an image of " + std::to_string(inputs) + " elements for \"" + escaped(layer) + "\"",
          to_text(image));
    return image;
  }

  /// Whether the file has all parts. If not, our name is reported as missing.
  bool add(const Recipe& recipe, const std::map<std::string, std::size_t>& places) {
    Part part{recipe.kind, {}, recipe.third};
    for (const std::string& name : recipe.from)
      if (const auto place = places.find(name); place != places.end())
        part.from.push_back(place->second);
    if (part.from.size() != recipe.from.size()) return false;
    const Shape shape = shape_of(recipe, part);
    used_.insert(part.from.begin(), part.from.end());
    if (recipe.kind == Recipe::Kind::transpose)
      part.image = image_of(recipe, entry(part.from[0]).shape);
    if (!recipe.name.empty()) keep(std::move(part), recipe.name, shape);
    return true;
  }

  Shape shape_of(const Recipe& recipe, const Part& part) const {
    const Shape& a = entry(part.from[0]).shape;
    const Shape& b = entry(part.from.back()).shape;
    const auto check = [&](bool good, std::string_view expected) {
      if (!good)
        refuse(std::string(expected) + " of " + escaped(recipe.from[0]),
               to_text(a) + " and " + to_text(b));
    };
    const Caller caller = path_.caller;
    switch (recipe.kind) {
      case Recipe::Kind::copy:
        return a;
      case Recipe::Kind::transpose: {
        check(a.rank() >= 2, "a weight of two axes or more");
        Shape transposed = a;
        for (std::size_t i = 0; i < a.rank(); ++i)
          transposed.data()[i] = a[order_of(a.rank())[static_cast<int>(i)]];
        return transposed;
      }
      case Recipe::Kind::third: {
        check(a.rank() >= 1 && a.rank() <= 2 && a.data()[0] % 3 == 0, "rows of three weights");
        const std::int64_t rows = a.data()[0] / 3;
        return a.rank() == 2 ? Shape({a.data()[1], rows}, caller) : Shape({rows}, caller);
      }
      case Recipe::Kind::stack:
        check(a.rank() == 2 && b.rank() == 2 && a.data()[0] == b.data()[0],
              "weights of as many rows");
        return Shape({a.data()[1] + b.data()[1], a.data()[0]}, caller);
      case Recipe::Kind::zeros:
      case Recipe::Kind::gru_zeros:
        check(a.rank() > 0, "a weight of one axis or two");
        check(recipe.kind == Recipe::Kind::zeros || a.data()[0] % 3 == 0, "rows of three gates");
        return Shape({recipe.kind == Recipe::Kind::zeros ? a.data()[0] : a.data()[0] / 3 * 4},
                     caller);
      default:
        check(a.rank() == 1 && a == b, "two biases of one length");
        if (recipe.kind == Recipe::Kind::sum) return a;
        check(a.data()[0] % 3 == 0, "biases of three gates");
        return Shape({a.data()[0] / 3 * 4}, caller);
    }
  }

  /// Of a GRU, the biases of r and z are added; n keeps both.
  Tensor sum_of(const std::vector<Tensor>& biases, bool is_gru) const {
    const DType dtype = biases[0].dtype();
    const DType wide = is_floating(dtype) && !is_half(dtype) ? dtype : DType::float32;
    const Tensor a = biases[0].to(wide, path_.caller), b = biases[1].to(wide, path_.caller);
    if (!is_gru) return (a + b).to(dtype);
    const std::int64_t n = a.size() / 3;
    const auto gates = range(0, 2 * n), last = range(2 * n, 3 * n);
    return concat({a(gates) + b(gates), a(last), b(last)}, 0).to(dtype);
  }

  const std::unique_ptr<Archive> file_;
  const PathAt& path_;
  std::vector<Part> parts_;
  std::set<std::size_t> used_;
  std::map<std::string, Shape> flattened_;  // those that no layer had yet
  std::int64_t channels_ = 0;     // of the last convolution, while a Linear may read its image
  std::int64_t flat_inputs_ = 0;  // of the first Linear behind it
};
}  // namespace

namespace detail {
LoadReport load_torch_state(const PathAt& path, const LoadOptions& options, const State& state,
                            const std::vector<TorchLayer>& layers) {
  const CallerScope here(path.caller, "load_torch");
  auto file = open_archive(path.path, "load_torch", path.caller);
  if (file->has_format("reel"))
    fail_file(path.caller, "load_torch", path.path, "weights in the layouts of PyTorch",
              "a file of io::save, whose layouts differ", "Read it by io::load.");
  TorchLayout layout(std::move(file), options, layers, path);
  LoadReport report =
      load_from(layout, path, {options.strict, options.convert}, state, {"load_torch"});
  report.unordered = std::move(layout.unordered);
  return report;
}
}  // namespace detail
}  // namespace reel::io
