// SPDX-License-Identifier: BSD-3-Clause
// Tensors in files of other programs' formats. Every save replaces a file as a whole: see
// save_npy(). Every load checks sizes against the file before it takes memory, and throws IoError
// for a file that is missing, cut short, too long or not of the format.
#pragma once  // defined in lib/io
#include <string>
#include <utility>
#include <vector>

#include <reel/tensor.hpp>

namespace reel::io {
using Path = std::string;  // std::filesystem::path converts to it; <filesystem> costs 30,000 lines
/// Tensors and their names, in order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// Texts and their names, in order.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// Options of the functions that read named tensors.
struct ReadOptions {
  /// The names to read; if there are none, all names of the file. A name that ends with a dot
  /// stands for all names that begin with it. Throws IoError for a name that the file does not
  /// have, and for one of an entry that cannot be read.
  std::vector<std::string> names = {};
  /// Whether an entry that cannot be read is an IoError.
  bool strict = false;
};
/// The tensors of a file, in its order, and what else the file has.
///
///     io::LoadedTensors file = io::load_npz("counts.npz", {.names = {"data", "indices"}});
struct LoadedTensors : NamedTensors {
  /// The names of entries that were left, and the reasons: an array of texts, an object of Python.
  Metadata left;
  /// The names of tensors whose dtype in the file is none of reel's, and this dtype. They were read
  /// into a wider dtype: uint16 into int32, uint32 and uint64 into int64.
  Metadata widened;
};

/// Writes NumPy's .npy format, version 1.0. The new file replaces an old one as a whole: at any
/// moment a reader finds the complete old file or the complete new one, even if the process is
/// killed or the machine stops. The bytes are written to a new file in the same folder and synced;
/// then this file is renamed. Links are followed, and permissions are kept. A killed process may
/// leave a file "x.npy.*.new". Throws IoError if a step fails, and removes the new file.
REEL_API void save_npy(const Path& path, const Tensor& x, Caller caller = Caller::here());
/// Reads a .npy file of bool, integers, float16, float32 or float64, of version 1, 2 or 3, in
/// either byte order, and in C or Fortran order. uint16 becomes int32; uint32 and uint64 become
/// int64. Throws IoError for a value above 2^63 - 1, and names the first such element.
REEL_API Tensor load_npy(const Path& path, Caller caller = Caller::here());

/// Options of save_safetensors().
struct SafetensorsOptions {
  Metadata metadata = {};
  /// If the tensors take more bytes, they are written to several files (shards), such as
  /// "model-00001-of-00003.safetensors". Each shard has at most this number of bytes, or one
  /// tensor. The index "model.safetensors.index.json" lists the shards and is replaced last. A save
  /// over shards of the same names is not atomic.
  std::int64_t shard_bytes = INT64_MAX;
};
/// Writes the format of Hugging Face's safetensors.
///
///     io::save_safetensors("weights.safetensors", {{"w", w}, {"b", b}});
REEL_API void save_safetensors(const Path& path, const NamedTensors& tensors,
                               const SafetensorsOptions& options = {},
                               Caller caller = Caller::here());
/// Reads a .safetensors file, or the shards of an index: `path` is that of the ".index.json", with
/// or without this ending. The tensors are in the order of the header. Like load_npz() and
/// load_torch(), it reads the entries that reel has a dtype for, and lists the others in `left`.
/// Throws IoError if none of the entries can be read.
REEL_API LoadedTensors load_safetensors(const Path& path, const ReadOptions& options = {},
                                        Caller caller = Caller::here());
/// Options of save_npz().
struct NpzOptions {
  bool compress = false;  // deflate, as np.savez_compressed does
};
/// Writes NumPy's .npz format, a zip file of .npy files. Throws DTypeError for bfloat16, which
/// NumPy does not have.
REEL_API void save_npz(const Path& path, const NamedTensors& tensors, NpzOptions options = {},
                       Caller caller = Caller::here());
/// Reads the members of a .npz file, stored or deflated, that load_npy() reads.
REEL_API LoadedTensors load_npz(const Path& path, const ReadOptions& options = {},
                                Caller caller = Caller::here());

/// Writes a dict that PyTorch's torch.load(path, weights_only=True) reads.
REEL_API void save_torch(const Path& path, const NamedTensors& tensors,
                         Caller caller = Caller::here());
/// Reads the tensors of a file that torch.save() wrote, also before PyTorch 1.6. Tensors inside
/// dicts, lists and tuples are named by their path, such as "optimizer.state.0.exp_avg". Numbers,
/// texts and objects of Python are left; a dict or list without tensors is one entry. Nothing in
/// the file is executed: what a function other than those for tensors would make is an object, and
/// the reason names the function. Tensors that share memory in PyTorch share it here. A whole model
/// (`torch.save(model)`) is an object: save its state_dict().
REEL_API LoadedTensors load_torch(const Path& path, const ReadOptions& options = {},
                                  Caller caller = Caller::here());

/// The texts that a .safetensors file has beside its tensors; of shards, those of the first.
REEL_API Metadata load_safetensors_metadata(const Path& path, Caller caller = Caller::here());
}  // namespace reel::io
