// SPDX-License-Identifier: BSD-3-Clause
// Models whose weights come from PyTorch.
#pragma once  // defined in lib/io
#include <string>
#include <type_traits>
#include <vector>

#include <reel/io/save.hpp>
#include <reel/nn/attention.hpp>
#include <reel/nn/convolution.hpp>
#include <reel/nn/layers.hpp>
#include <reel/nn/normalize.hpp>
#include <reel/nn/recurrence.hpp>
#include <reel/nn/recurrent.hpp>
#include <reel/nn/sequence.hpp>

namespace reel::io {
namespace detail {
/// A layer of a model whose weights have another layout in PyTorch.
struct TorchLayer {
  enum class Kind : std::uint8_t {
    linear,  // or a convolution
    embedding,
    norm,  // with scale and shift
    rms_norm,
    batch_norm,
    cell,
    gru_cell,
    rnn,
    gru,
    attention  // its query, key and value
  } kind;
  std::string path;
  std::size_t cells = 0;  // of a network over sequences
  bool bidirectional = false;
  std::string theirs = {};  // the path in PyTorch, if it is another one
  bool key_bias = false;    // of an attention
  bool transposed = false;  // a transposed convolution, whose weight has the results second
};
template <class L>
inline constexpr bool is_convolution = false;
template <int axes>
inline constexpr bool is_convolution<nn::Convolution<axes>> = true;
template <int axes>
inline constexpr bool is_convolution<nn::TransposedConvolution<axes>> = true;
template <class L>
inline constexpr bool is_transposed = false;
template <int axes>
inline constexpr bool is_transposed<nn::TransposedConvolution<axes>> = true;
struct TorchLayers {
  std::vector<TorchLayer>& found;
  REEL_API void add(TorchLayer layer) const;
  REEL_API void add_attention(std::string_view path, std::string_view theirs, bool key_bias) const;
  REEL_API void add_transformer(std::string_view path, bool decodes, bool key_bias) const;
  void operator()(std::string_view, auto&) const {}
  template <class T>
  bool takes(std::string_view path, T& layer) const {
    using Kind = TorchLayer::Kind;
    using L = std::remove_const_t<T>;
    if constexpr (std::is_same_v<L, reel::detail::Member>)
      return takes_one_of<
          nn::Linear, nn::Conv1d, nn::Conv2d, nn::Conv3d, nn::ConvTranspose1d, nn::ConvTranspose2d,
          nn::ConvTranspose3d, nn::Embedding, nn::LayerNorm, nn::GroupNorm, nn::InstanceNorm,
          nn::RMSNorm, nn::BatchNorm, nn::RNNCell, nn::LSTMCell, nn::GRUCell, nn::LSTM, nn::GRU,
          nn::Recurrent<nn::RNNCell>, nn::Recurrent<nn::LSTMCell>, nn::Recurrent<nn::GRUCell>,
          nn::MultiHeadAttention, nn::TransformerEncoderLayer, nn::TransformerDecoderLayer>(path,
                                                                                            layer);
    const auto note = [&](Kind kind) { add({kind, std::string(path)}); };
    if constexpr (std::is_same_v<L, nn::Linear> || is_convolution<L>)
      add({.kind = Kind::linear, .path = std::string(path), .transposed = is_transposed<L>});
    if constexpr (std::is_same_v<L, nn::Embedding>) note(Kind::embedding);
    if constexpr (std::is_same_v<L, nn::LayerNorm> || std::is_same_v<L, nn::GroupNorm> ||
                  std::is_same_v<L, nn::InstanceNorm>)
      note(Kind::norm);
    if constexpr (std::is_same_v<L, nn::RMSNorm>) note(Kind::rms_norm);
    if constexpr (std::is_same_v<L, nn::BatchNorm>) note(Kind::batch_norm);
    if constexpr (std::is_same_v<L, nn::RNNCell> || std::is_same_v<L, nn::LSTMCell>)
      note(Kind::cell);
    if constexpr (std::is_same_v<L, nn::GRUCell>) note(Kind::gru_cell);
    if constexpr (std::is_same_v<L, nn::MultiHeadAttention>)
      add_attention(path, path, layer.key.bias.size() > 0);
    if constexpr (std::is_same_v<L, nn::TransformerEncoderLayer> ||
                  std::is_same_v<L, nn::TransformerDecoderLayer>)
      add_transformer(path, std::is_same_v<L, nn::TransformerDecoderLayer>,
                      layer.attention.key.bias.size() > 0);
    if constexpr (cells_of<L> != Kind::linear) {
      add({cells_of<L>, std::string(path), layer.cells.size(), layer.bidirectional});
      return true;  // not the cells inside
    }
    return false;
  }
  /// The kind of a network of PyTorch's cells; linear if it is none.
  template <class L>
  static constexpr TorchLayer::Kind cells_of =
      std::is_same_v<L, nn::GRU> || std::is_same_v<L, nn::Recurrent<nn::GRUCell>>
          ? TorchLayer::Kind::gru
      : std::is_same_v<L, nn::LSTM> || std::is_same_v<L, nn::Recurrent<nn::LSTMCell>> ||
              std::is_same_v<L, nn::Recurrent<nn::RNNCell>>
          ? TorchLayer::Kind::rnn
          : TorchLayer::Kind::linear;
  template <class... Layer>
  bool takes_one_of(std::string_view path, const reel::detail::Member& layer) const {
    const auto taken = [&](auto* object) { return object && takes(path, *object); };
    return (taken(layer.template as<Layer>()) || ...);
  }
};
REEL_API LoadReport load_torch_state(const PathAt& path, const LoadOptions& options,
                                     const State& state, const std::vector<TorchLayer>& layers);
}  // namespace detail

/// Loads a file of a PyTorch model into a model of the same layers: a state dict as torch.save()
/// writes it, or the same tensors as .safetensors. `.rename` maps the name of a module in PyTorch
/// to the path of the layer here. Errors and the report are those of load(). A file of save() is an
/// IoError.
///
/// Weights of Linear, convolutions, RNNCell, LSTMCell, GRUCell, LSTM, GRU and Recurrent of these
/// cells are transposed. The two matrices of a recurrent layer are joined, and its two biases are
/// added. The joined weights of MultiheadAttention are divided, also those in
/// TransformerEncoderLayer and TransformerDecoderLayer; the bias of keys, which changes no result,
/// is left out. Weights and statistics of Embedding, LayerNorm, GroupNorm, RMSNorm and BatchNorm
/// get the names that they have here; num_batches_tracked is not needed. A bias is zeros if
/// PyTorch's layer has none (`bias=False`) and the layer here always has one.
///
/// A Linear behind a flattened image has its inputs in the order channels, height, width in
/// PyTorch, and height, width, channels here: `.flattened` names such layers. The report's
/// `unordered` lists a Linear that follows a convolution in the model, is not named, and has a
/// multiple of its channels as inputs. A norm or recurrent layer behind a flattened image, and a
/// Linear that makes an image, keep PyTorch's order and are not listed.
///
///     io::load_torch("tagger.pt", {.rename = {{"lstm.", "reader."}}}, tagger);
///     io::load_torch("cnn.pt", {.flattened = {{"head", {16, 7, 7}}}}, cnn);
template <class Model>
LoadReport load_torch(PathAt path, const LoadOptions& options, Model&& model) try {
  reel::detail::require_fields("", model);
  std::vector<detail::TorchLayer> layers;
  visit_leaves("", model, detail::TorchLayers{layers});
  return detail::load_torch_state(path, options, detail::state_of(path.caller, model), layers);
} catch (const std::bad_alloc&) {
  fail_memory(path.caller, "load_torch");
}
template <class Model>
LoadReport load_torch(PathAt path, Model&& model) {
  reel::detail::require_fields("", model);
  return load_torch(std::move(path), LoadOptions(), model);
}
}  // namespace reel::io
