// SPDX-License-Identifier: BSD-3-Clause
// NumPy's .npz format: a zip file of .npy files.
#include <reel/error.hpp>

#include <algorithm>

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
      if (member.name.ends_with('/')) continue;  // a folder
      if (!member.name.ends_with(ending) || !member.unread.empty()) {
        left_.emplace_back(member.name,
                           member.unread.empty() ? "no .npy file" : std::string(member.unread));
        continue;
      }
      const std::string name = member.name.substr(0, member.name.size() - ending.size());
      const std::unique_ptr<ZipMember> bytes = zip_.open(member);
      const NpyHeader header = read_npy_header(*bytes, member.size, input_);
      if (!header.unread.empty()) {
        check_rest(*bytes);  // a damaged header can have a dtype of no program
        left_.emplace_back(name, header.unread);
        continue;
      }
      entries_.push_back({name, header.dtype->dtype, header.shape, header.dtype->foreign()});
      members_.push_back(&member);
    }
    if (const std::string* const name = repeated(entries_, left_))
      input_.fail("each name once", "\"" + escaped(name->substr(0, 100)) + "\" twice");
  }
  Tensor read(std::size_t i) const override {
    const ZipReader::Entry& member = *members_[i];
    const std::unique_ptr<ZipMember> bytes = zip_.open(member);
    const Tensor x = read_npy(*bytes, member.size, input_, entries_[i].name);
    bytes->finish();
    return x;
  }

 private:
  static void check_rest(ZipMember& member) {
    char part[4096];
    while (member.rest() > 0)
      member.read(part, std::min<std::uint64_t>(sizeof part, member.rest()));
    member.finish();
  }
  const Input input_;
  const ZipReader zip_;
  std::vector<const ZipReader::Entry*> members_;
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

LoadedTensors load_npz(const Path& path, const ReadOptions& options, Caller caller) try {
  return read_tensors(*open_npz(path, "load_npz", caller), options, path, "load_npz", caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "load_npz");
}
}  // namespace reel::io
