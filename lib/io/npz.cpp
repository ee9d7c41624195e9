// SPDX-License-Identifier: BSD-3-Clause
// NumPy's .npz format: a zip file of .npy files.
#include <reel/error.hpp>

#include "lib/io/archive.hpp"
#include "lib/io/magic.hpp"
#include "lib/io/npy.hpp"
#include "lib/io/zip.hpp"

namespace reel::io {
namespace {
constexpr std::string_view ending = ".npy";

class NpzFile : public Archive {
 public:
  NpzFile(const Path& path, std::string_view op, Caller caller)
      : input_(path, op, caller),
        zip_(of_format(input_, {Format::npz}, "a .npz file, which is a zip file")) {
    for (const ZipReader::Entry& member : zip_.entries()) {
      if (!member.name.ends_with(ending))
        input_.fail("members that end with .npy",
                    "\"" + escaped(member.name.substr(0, 100)) + "\"");
      const std::unique_ptr<ZipMember> bytes = zip_.open(member);
      const NpyHeader header = read_npy_header(*bytes, member.size, input_);
      entries_.push_back(
          {member.name.substr(0, member.name.size() - ending.size()), header.dtype, header.shape});
    }
  }
  Tensor read(std::size_t i) const override {
    const ZipReader::Entry& member = zip_.entries()[i];
    const std::unique_ptr<ZipMember> bytes = zip_.open(member);
    const Tensor x = read_npy(*bytes, member.size, input_);
    bytes->finish();
    return x;
  }

 private:
  const Input input_;
  const ZipReader zip_;
};
}  // namespace

std::unique_ptr<Archive> open_npz(const Path& path, std::string_view op, Caller caller) {
  return std::make_unique<NpzFile>(path, op, caller);
}

void save_npz(const Path& path, const NamedTensors& tensors, NpzOptions options,
              Caller caller) try {
  check_names(tensors, "save_npz", caller);
  std::vector<std::string> headers;  // before the file is made, because they may refuse a dtype
  for (const auto& [name, x] : tensors) headers.push_back(npy_header(x, "save_npz", caller));
  AtomicFile file(path, "save_npz", caller);
  ZipWriter zip(file);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const HostElements elements(tensors[i].second, caller);
    zip.add(tensors[i].first + std::string(ending), headers[i], elements.text(), options.compress);
  }
  zip.finish();
  file.commit();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "save_npz");
}

NamedTensors load_npz(const Path& path, Caller caller) try {
  return read_all(*open_npz(path, "load_npz", caller), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "load_npz");
}
}  // namespace reel::io
