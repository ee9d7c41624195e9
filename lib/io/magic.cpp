// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/magic.hpp"

#include <algorithm>

namespace reel::io {
namespace {
struct Kind {
  Format format;
  std::string_view name, advice = {};
};
constexpr Kind npy = {Format::npy, "a .npy file", "io::load_npy reads it."};
constexpr Kind npz = {Format::npz, "a .npz file", "io::load_npz reads it."};
constexpr Kind safetensors = {Format::safetensors, "a .safetensors file",
                              "io::load_safetensors reads it."};
constexpr Kind torch = {Format::torch, "a PyTorch file", "io::load_torch reads it."};
constexpr Kind pickle = {Format::other, "a pickle of Python",
                         "Save a state dict with torch.save(), or arrays with numpy.save()."};
constexpr Kind hdf5 = {Format::other, "an HDF5 file",
                       "Convert it in Python, for example to .safetensors."};
constexpr Kind text = {Format::other, "a text"};

/// Whether the bytes are a pickle of the number 0x1950a86a20f9469cfc6c, in any protocol: from
/// protocol 4 on, the length of a frame comes first.
bool begins_as_legacy_torch(std::string_view bytes) {
  constexpr std::string_view number = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  const std::size_t at = bytes.find(number);
  return bytes.starts_with('\x80') && (at == 2 || at == 11);
}

/// Tells the format of a zip file by the name of its first member.
const Kind* kind_of_zip(std::string_view bytes) {
  constexpr std::size_t name_at = 30;
  if (bytes.size() < name_at) return nullptr;
  const std::size_t length = static_cast<unsigned char>(bytes[26]);
  const std::string_view name = bytes.substr(name_at, length);
  if (name.ends_with("/data.pkl")) return &torch;
  return name.ends_with(".npy") ? &npz : nullptr;
}

bool is_printable(char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); }

/// Null if the bytes belong to none of these formats.
const Kind* kind_of(std::string_view bytes) {
  if (bytes.starts_with("\x93NUMPY")) return &npy;
  // A length of fewer than 2^32 bytes, and JSON.
  if (bytes.size() > 8 && bytes.substr(4, 4) == std::string_view("\0\0\0\0", 4) && bytes[8] == '{')
    return &safetensors;
  if (bytes.starts_with("PK\x03\x04")) return kind_of_zip(bytes);
  if (bytes.starts_with("\x89HDF\r\n")) return &hdf5;
  if (begins_as_legacy_torch(bytes)) return &torch;
  if (bytes.starts_with('\x80') && bytes.size() > 1 && bytes[1] >= 2 && bytes[1] <= 5)
    return &pickle;
  const bool all_printable = std::all_of(bytes.begin(), bytes.end(), is_printable);
  return all_printable && !bytes.empty() ? &text : nullptr;
}
}  // namespace

bool is_legacy_torch(const Input& input) {
  return begins_as_legacy_torch(input.read(0, std::min<std::uint64_t>(input.size(), 24)));
}

const Input& of_format(const Input& input, std::initializer_list<Format> wanted,
                       std::string_view expected) {
  const std::string bytes = input.read(0, std::min<std::uint64_t>(input.size(), 300));
  const Kind* const kind = kind_of(bytes);
  if (kind && std::find(wanted.begin(), wanted.end(), kind->format) == wanted.end())
    fail_file(input.caller(), input.op(), input.path(), expected, kind->name, kind->advice);
  return input;
}
}  // namespace reel::io
