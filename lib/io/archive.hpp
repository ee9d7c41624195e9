// SPDX-License-Identifier: BSD-3-Clause
// A file of several tensors. Names, dtypes and shapes are read first, elements on demand.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <reel/io/formats.hpp>

namespace reel::io {
class Archive {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    std::string_view file_dtype = {};  // if it is not that of the Tensor: "uint16"
  };
  Archive() = default;
  virtual ~Archive() = default;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }
  const Metadata& metadata() const { return metadata_; }
  /// The names of entries that no Tensor can hold, and the reasons.
  const Metadata& left() const { return left_; }
  /// Whether the program that wrote the file is this one: "reel", or "pt" for PyTorch.
  bool has_format(std::string_view program) const;
  /// Entry i, on the host.
  virtual Tensor read(std::size_t i) const = 0;

 protected:
  std::vector<Entry> entries_;
  Metadata metadata_, left_;
};

/// A .safetensors file, or several with an index.
std::unique_ptr<Archive> open_safetensors(const Path& path, std::string_view op, Caller caller);

/// A .npz file.
std::unique_ptr<Archive> open_npz(const Path& path, std::string_view op, Caller caller);
/// A file that torch.save() wrote.
std::unique_ptr<Archive> open_torch(const Path& path, std::string_view op, Caller caller);
/// A file of any of these formats. Its contents decide which.
std::unique_ptr<Archive> open_archive(const Path& path, std::string_view op, Caller caller);
/// A .safetensors file up to the elements, which follow without gaps. Sorts the tensors: those of
/// the widest dtype come first, so that all begin at multiples of their widths.
std::string begin_safetensors(NamedTensors& tensors, const Metadata& metadata, std::string_view op,
                              Caller caller);
/// Writes a .safetensors file, see save_safetensors(). Errors name `op`.
void write_safetensors(const Path& path, const NamedTensors& tensors, const Metadata& metadata,
                       std::string_view op, Caller caller);

/// The tensors of a file that the options choose, on the device of this thread's scope.
LoadedTensors read_tensors(const Archive& archive, const ReadOptions& options, const Path& path,
                           std::string_view op, Caller caller);
/// Throws Error if a name is not UTF-8 or occurs twice, or if a tensor is undefined.
void check_names(const NamedTensors& tensors, std::string_view op, Caller caller);
/// The name that occurs twice among the entries; null if none does.
const std::string* repeated(const std::vector<Archive::Entry>& entries, const Metadata& left);
}  // namespace reel::io
