// SPDX-License-Identifier: BSD-3-Clause
// State dicts of PyTorch: a pickle, and the elements of its storages.
#include <reel/error.hpp>

#include <algorithm>
#include <map>

#include "lib/io/archive.hpp"
#include "lib/io/magic.hpp"
#include "lib/io/pickle.hpp"
#include "lib/io/zip.hpp"

namespace reel::io {
namespace {
constexpr std::uint64_t most_pickle = 16 << 20;

/// The tensors of a pickle, whose storages are apart from it.
class TorchFile : public Archive {
 public:
  Tensor read(std::size_t i) const final {
    const TorchTensor& x = tensors_[i];
    Tensor& storage = storages_[{x.storage.key, x.storage.dtype}];
    if (!storage.defined())
      storage = read_storage(x.storage);  // several tensors may be parts of it
    return strided_view(storage, Shape(x.shape, input_.caller()), x.strides.data(), x.offset);
  }

 protected:
  TorchFile(const Path& path, std::string_view op, Caller caller) : input_(path, op, caller) {
    metadata_.emplace_back("format", "pt");
  }
  void list(const PickleReader& pickle) {
    left_ = pickle.left();
    for (const auto& [name, x] : pickle.tensors()) {
      const FileDType& dtype = *x.storage.dtype;
      entries_.push_back({name, dtype.dtype, Shape(x.shape, input_.caller()), dtype.foreign()});
      tensors_.push_back(x);
    }
    if (const std::string* const name = repeated(entries_, left_))
      input_.fail("each name once", "\"" + escaped(*name) + "\" twice");
  }
  virtual Tensor read_storage(const TorchStorage& storage) const = 0;
  void check_bytes(const TorchStorage& storage, std::uint64_t bytes) const {
    if (bytes != static_cast<std::uint64_t>(storage.bytes))
      input_.fail(std::to_string(storage.bytes) + " bytes of storage " +
                      escaped(storage.key.substr(0, 100)),
                  std::to_string(bytes));
  }
  Tensor read_elements(Bytes& bytes, const TorchStorage& storage, bool big_endian) const {
    return io::read_elements(bytes, *storage.dtype, big_endian, Shape({storage.elements}), input_,
                             "storage " + storage.key);
  }
  const Input input_;
  std::vector<TorchTensor> tensors_;

 private:
  mutable std::map<std::pair<std::string, const FileDType*>, Tensor> storages_;
};

/// A file of PyTorch since 1.6: a zip file of a pickle, and of one member for each storage.
class ZippedFile : public TorchFile {
 public:
  ZippedFile(const Path& path, std::string_view op, Caller caller)
      : TorchFile(path, op, caller),
        zip_(of_format(input_, {Format::torch}, "a file that torch.save() wrote")) {
    find_folder();
    const ZipReader::Entry& member = member_named("data.pkl");
    // PyTorch does not deflate its pickles; names of tensors become 5 to 20 times as small.
    if (member.size > most_pickle || member.size / 64 > member.packed + 1024)
      input_.fail("a pickle of at most 16 MiB, and of at most 64 times its packed bytes",
                  std::to_string(member.size) + " bytes");
    if (const ZipReader::Entry* const order = zip_.find(folder_ + "byteorder")) {
      const std::string text = order->size > 16 ? "" : zip_.read(*order);
      if (text != "little" && text != "big")
        input_.fail("the byte order \"little\" or \"big\"", "another one");
      big_endian_ = text == "big";
    }
    const std::string text = zip_.read(member);
    PickleReader pickle(text, input_);
    if (pickle.read() != text.size()) input_.fail("one pickle", "more behind it");
    list(pickle);
    for (const TorchTensor& x : tensors_)
      check_bytes(x.storage, member_named("data/" + x.storage.key).size);
  }

 private:
  Tensor read_storage(const TorchStorage& storage) const override {
    const std::unique_ptr<ZipMember> bytes = zip_.open(member_named("data/" + storage.key));
    const Tensor x = read_elements(*bytes, storage, big_endian_);
    bytes->finish();
    return x;
  }
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
  const ZipReader zip_;
  std::string folder_;
  bool big_endian_ = false;
};

/// A file of PyTorch before 1.6: pickles of a magic number, the version, facts of the machine, the
/// object and a list of the storages' keys; then each storage, with its number of elements in front
/// of them. The elements are little-endian on any machine.
class LegacyFile : public TorchFile {
 public:
  LegacyFile(const Path& path, std::string_view op, Caller caller) : TorchFile(path, op, caller) {
    const std::string text = input_.read(0, std::min(input_.size(), most_pickle));
    std::size_t at = 0;
    const auto read_pickle = [&] {
      PickleReader pickle(std::string_view(text).substr(at), input_);
      at += pickle.read();
      return pickle;
    };
    for (int i = 0; i < 3; ++i) read_pickle();
    const PickleReader object = read_pickle(), keys = read_pickle();
    list(object);
    find_storages(object, keys, at);
  }

 private:
  void find_storages(const PickleReader& object, const PickleReader& keys, std::uint64_t at) {
    std::map<std::string, TorchStorage> known;
    for (TorchStorage& storage : object.storages()) known.emplace(storage.key, storage);
    for (const std::string& key : keys.texts()) {
      const auto storage = known.find(key);
      if (storage == known.end() || !places_.emplace(key, at + 8).second)
        input_.fail("the storages of the tensors", "another list of them");
      unsigned char count[8];
      input_.read(at, count, 8);
      std::uint64_t elements = 0;
      for (int i = 7; i >= 0; --i) elements = elements << 8 | count[i];
      const TorchStorage& of = storage->second;
      const auto bytes = static_cast<std::uint64_t>(of.bytes);
      if (elements != static_cast<std::uint64_t>(of.elements) || bytes > input_.size() - at - 8)
        input_.fail(
            std::to_string(of.elements) + " elements of storage " + escaped(key.substr(0, 100)),
            std::to_string(elements));
      at += 8 + bytes;
    }
    if (at != input_.size())
      input_.fail(std::to_string(at) + " bytes, by its pickles", std::to_string(input_.size()));
    for (const TorchTensor& x : tensors_)
      if (!places_.contains(x.storage.key) || known.at(x.storage.key).bytes != x.storage.bytes)
        input_.fail("the storages of the tensors", "another list of them");
  }
  Tensor read_storage(const TorchStorage& storage) const override {
    InputBytes bytes(input_, places_.at(storage.key));
    return read_elements(bytes, storage, false);
  }
  std::map<std::string, std::uint64_t> places_;  // the first byte of each storage
};
}  // namespace

std::unique_ptr<Archive> open_torch(const Path& path, std::string_view op, Caller caller) {
  if (is_legacy_torch(Input(path, op, caller)))
    return std::make_unique<LegacyFile>(path, op, caller);
  return std::make_unique<ZippedFile>(path, op, caller);
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
