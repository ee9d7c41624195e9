// SPDX-License-Identifier: BSD-3-Clause
// Builds pickles of state dicts, opcode by opcode.
#pragma once
#include <string>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/zip_bytes.hpp"
#include "support/refused.hpp"

namespace reel::tests {
/// A file with this pickle, and with a storage "0" of four float32.
struct Pickled {
  Folder folder;
  std::string path = folder.file("x.pt");
  void write(const std::string& pickle) const {
    write_zip(path, {{"a/data.pkl", pickle}, {"a/data/0", std::string(16, '\0')}});
  }
  io::LoadedTensors read(const std::string& pickle) const {
    write(pickle);
    return io::load_torch(path);
  }
  void refuse(const std::string& pickle, const std::string& part,
              Caller caller = Caller::here()) const {
    write(pickle);
    check_refused<IoError>([&] { io::load_torch(path, {}, caller); }, part, caller);
  }
};
inline const std::string two("\x80\x02", 2);
inline std::string text(const std::string& value) {
  return std::string("\x8c") + static_cast<char>(value.size()) + value;
}
inline std::string storage(const std::string& elements = "K\4",
                           const std::string& type = "FloatStorage") {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text("0") + text("cpu") + elements +
         "tQ";
}
inline std::string rebuilt(const std::string& from, const std::string& offset,
                           const std::string& shape, const std::string& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + from + offset + shape + strides +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}
inline const std::string zero("K\0", 2), four = rebuilt(storage(), zero, "(K\4t", "(K\1t");
}  // namespace reel::tests
