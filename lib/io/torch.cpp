// SPDX-License-Identifier: BSD-3-Clause
// State dicts of PyTorch: a zip file of a pickle and of one member for each storage.
#include <reel/error.hpp>

#include <map>

#include "lib/io/archive.hpp"
#include "lib/io/magic.hpp"
#include "lib/io/pickle.hpp"
#include "lib/io/zip.hpp"

namespace reel::io {
namespace {
constexpr std::uint64_t most_pickle = 16 << 20;

class TorchFile : public Archive {
 public:
  TorchFile(const Path& path, std::string_view op, Caller caller)
      : input_(path, op, caller),
        zip_(of_format(input_, {Format::torch}, "a zip file, as PyTorch since 1.6 writes")) {
    metadata_.emplace_back("format", "pt");
    find_folder();
    const ZipReader::Entry& member = member_named("data.pkl");
    if (member.size > most_pickle)
      input_.fail("a pickle of at most 16 MiB", std::to_string(member.size) + " bytes");
    if (const ZipReader::Entry* const order = zip_.find(folder_ + "byteorder"))
      if (order->size > 16 || zip_.read(*order) != "little")
        input_.fail("the byte order \"little\"", "another one");
    const std::string text = zip_.read(member);
    PickleReader pickle(text, input_);
    pickle.read();
    left_ = pickle.left();
    for (const auto& [name, x] : pickle.tensors()) {
      check_storage(x.storage);
      entries_.push_back({name, x.storage.dtype, Shape(x.shape, input_.caller())});
      tensors_.push_back(x);
    }
    if (const std::string* const name = repeated(entries_, left_))
      input_.fail("each name once", "\"" + escaped(*name) + "\" twice");
  }

  Tensor read(std::size_t i) const override {
    const TorchTensor& x = tensors_[i];
    return strided_view(storage(x.storage), Shape(x.shape, input_.caller()), x.strides.data(),
                        x.offset);
  }

 private:
  /// The folder that all members are in.
  void find_folder() {
    for (const ZipReader::Entry& member : zip_.entries()) {
      const std::size_t slash = member.name.find('/');
      if (slash != std::string::npos && member.name.substr(slash + 1) == "data.pkl")
        folder_ = member.name.substr(0, slash + 1);
    }
  }
  const ZipReader::Entry& member_named(const std::string& name) const {
    const ZipReader::Entry* const member = zip_.find(folder_ + name);
    if (!member) input_.fail("a member " + escaped(name.substr(0, 100)), "none");
    return *member;
  }
  void check_storage(const TorchStorage& wanted) const {
    const ZipReader::Entry& member = member_named("data/" + wanted.key);
    const auto bytes = static_cast<std::uint64_t>(wanted.elements * size_of(wanted.dtype));
    if (member.size != bytes)
      input_.fail(std::to_string(bytes) + " bytes of storage " + escaped(wanted.key.substr(0, 100)),
                  std::to_string(member.size));
  }

  /// Read once, as several tensors may be parts of it.
  const Tensor& storage(const TorchStorage& wanted) const {
    Tensor& known = storages_[{wanted.key, wanted.dtype}];
    if (known.defined()) return known;
    const RawTensor made = new_tensor(wanted.dtype, Shape({wanted.elements}), input_);
    const std::unique_ptr<ZipMember> bytes = zip_.open(member_named("data/" + wanted.key));
    bytes->read(made.elements, made.bytes);
    bytes->finish();
    make_truths(made);
    return known = made.tensor;
  }

  const Input input_;
  const ZipReader zip_;
  std::string folder_;
  std::vector<TorchTensor> tensors_;
  mutable std::map<std::pair<std::string, DType>, Tensor> storages_;
};
}  // namespace

std::unique_ptr<Archive> open_torch(const Path& path, std::string_view op, Caller caller) {
  return std::make_unique<TorchFile>(path, op, caller);
}

LoadedTensors load_torch(const Path& path, const ReadOptions& options, Caller caller) try {
  return read_tensors(*open_torch(path, "load_torch", caller), options, path, "load_torch", caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "load_torch");
}

void save_torch(const Path& path, const NamedTensors& tensors, Caller caller) try {
  check_names(tensors, "save_torch", caller);
  const std::string pickle = state_dict_pickle(tensors);
  AtomicFile file(path, "save_torch", caller);
  ZipWriter zip(file);
  zip.add("archive/data.pkl", pickle, {}, false);
  zip.add("archive/byteorder", "little", {}, false);
  std::size_t key = 0;
  for (const auto& [name, x] : tensors) {
    const HostElements elements(x, caller);
    zip.add("archive/data/" + std::to_string(key++), elements.text(), {}, false);
  }
  zip.add("archive/version", "3\n", {}, false);
  zip.finish();
  file.commit();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "save_torch");
}
}  // namespace reel::io
