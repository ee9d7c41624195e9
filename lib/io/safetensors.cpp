// SPDX-License-Identifier: BSD-3-Clause
// The format of Hugging Face's safetensors: the length of a JSON header, the header, the elements
// of all tensors without gaps.
#include <reel/error.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "lib/io/archive.hpp"
#include "lib/io/atomic_file.hpp"
#include "lib/io/elements.hpp"
#include "lib/io/json.hpp"
#include "lib/io/magic.hpp"

namespace reel::io {
namespace {
constexpr std::uint64_t most_header = 100'000'000;  // bytes, as in the format's own library
constexpr std::string_view index_ending = ".index.json", ending = ".safetensors";

/// In the order of DType.
constexpr std::string_view dtype_names[] = {"BOOL", "U8",  "I32",  "I64", "F32",
                                            "F64",  "F16", "BF16", "I8",  "I16"};
static_assert(std::size(dtype_names) == dtype_count);
/// Dtypes that are read into wider ones.
constexpr std::pair<std::string_view, std::string_view> narrow_names[] = {
    {"U16", "uint16"}, {"U32", "uint32"}, {"U64", "uint64"}};

std::string quoted(std::string_view name) { return "\"" + escaped(name.substr(0, 100)) + "\""; }

/// Reads one file.
class SafetensorsFile : public Archive {
 public:
  SafetensorsFile(const Path& path, std::string_view op, Caller caller) : input_(path, op, caller) {
    of_format(input_, {Format::safetensors}, "the format .safetensors");
    const std::uint64_t length = header_length();
    const std::string header = input_.read(8, length);
    first_ = 8 + length;
    read_header(header);
    if (const std::string* const name = repeated(entries_, left_))
      input_.fail("each name once", quoted(*name) + " twice");
    check_ranges();
  }

  Tensor read(std::size_t i) const override {
    InputBytes bytes(input_, first_ + begins_[i]);
    const Entry& entry = entries_[i];
    return read_elements(bytes, *dtypes_[i], false, entry.shape, input_, entry.name);
  }

 private:
  struct ByteRange {
    std::uint64_t begin, end;  // behind the header
  };

  std::uint64_t header_length() const {
    unsigned char bytes[8];
    input_.read(0, bytes, 8);
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | bytes[i];
    if (length > most_header)
      input_.fail("a header of at most 100,000,000 bytes", std::to_string(length));
    if (length > input_.size() - 8) input_.fail("a whole header", "the end of the file");
    return length;
  }

  void read_header(const std::string& header) {
    const std::size_t first = header.find_first_not_of(" \t\r\n");
    if (first == header.npos || header[first] != '{')
      input_.fail("a header of JSON", "something else");
    JsonReader json(header, input_);
    bool has_metadata = false;
    json.members([&](const std::string& name) {
      if (name != "__metadata__") return read_entry(name, json);
      if (has_metadata) input_.fail("each name once", "\"__metadata__\" twice");
      has_metadata = true;
      if (json.take_null()) return;
      json.members([&](const std::string& key) { metadata_.emplace_back(key, json.string()); });
    });
    json.expect_end();
    if (const std::string* const name = repeated({}, metadata_))
      input_.fail("each name once", quoted(*name) + " twice");
  }

  void read_entry(const std::string& name, JsonReader& json) {
    std::optional<std::string> dtype;
    std::optional<std::vector<std::int64_t>> shape, offsets;
    json.members([&](const std::string& key) {
      if (key == "dtype" && !dtype) {
        dtype = json.string();
      } else if ((key == "shape" && !shape) || (key == "data_offsets" && !offsets)) {
        auto& numbers = (key == "shape" ? shape : offsets).emplace();
        json.elements([&] { numbers.push_back(json.count()); });
      } else if (key == "dtype" || key == "shape" || key == "data_offsets") {
        input_.fail("each key of " + quoted(name) + " once", quoted(key) + " twice");
      } else {
        json.skip();
      }
    });
    if (!dtype || !shape || !offsets || offsets->size() != 2)
      input_.fail("\"dtype\", \"shape\" and two \"data_offsets\" of " + quoted(name), "others");
    add(name, *dtype, *shape, static_cast<std::uint64_t>((*offsets)[0]),
        static_cast<std::uint64_t>((*offsets)[1]));
  }

  static const FileDType* dtype_named(std::string_view text) {
    for (int i = 0; i < dtype_count; ++i)
      if (text == dtype_names[i]) return file_dtype(name_of(static_cast<DType>(i)));
    for (const auto& [ours, name] : narrow_names)
      if (text == ours) return file_dtype(name);
    return nullptr;
  }

  void add(const std::string& name, const std::string& type, const std::vector<std::int64_t>& shape,
           std::uint64_t begin, std::uint64_t end) {
    const FileDType* const dtype = dtype_named(type);
    if (begin <= end) ranges_.push_back({begin, end});
    const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    const std::optional<std::uint64_t> bytes = bytes_of(shape, dtype ? dtype->bytes : 1);
    const auto leave = [&](const std::string& reason) { left_.emplace_back(name, reason); };
    if (begin <= end && !dtype) return leave("dtype " + quoted(type.substr(0, 20)));
    if (begin <= end && shape.size() > Shape::max_rank)
      return leave(std::to_string(shape.size()) + " axes");
    if (begin == end && !bytes && is_empty)
      return leave("lengths above 2^58 bytes beside a length 0");
    if (!bytes) input_.fail("a shape of at most 2^58 bytes of " + quoted(name), "a larger one");
    if (end < begin || end - begin != *bytes)
      input_.fail(std::to_string(*bytes) + " bytes of " + quoted(name) + ", by its shape",
                  "offsets " + std::to_string(begin) + " and " + std::to_string(end));
    entries_.push_back({name, dtype->dtype, Shape(shape, input_.caller()), dtype->foreign()});
    dtypes_.push_back(dtype);
    begins_.push_back(begin);
  }

  /// Behind the header there are elements and nothing else.
  void check_ranges() const {
    std::vector<ByteRange> sorted = ranges_;
    std::sort(sorted.begin(), sorted.end(), [](const ByteRange& a, const ByteRange& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    std::uint64_t at = 0;
    for (const ByteRange& range : sorted) {
      if (range.begin != at)
        input_.fail("elements without gaps and overlaps, from offset " + std::to_string(at),
                    std::to_string(range.begin));
      at = range.end;
    }
    if (input_.size() != first_ + at)
      input_.fail(std::to_string(first_ + at) + " bytes, by its header",
                  std::to_string(input_.size()));
  }

  const Input input_;
  std::uint64_t first_ = 0;
  std::vector<ByteRange> ranges_;  // also of what is left
  std::vector<std::uint64_t> begins_;
  std::vector<const FileDType*> dtypes_;
};

/// Reads the files that an index lists.
class SafetensorsShards : public Archive {
 public:
  SafetensorsShards(const Path& path, std::string_view op, Caller caller)
      : input_(path, op, caller) {
    if (input_.size() > most_header)
      input_.fail("an index of at most 100,000,000 bytes", std::to_string(input_.size()));
    const std::string text = input_.read(0, input_.size());
    std::map<std::string, std::string> file_of;
    JsonReader json(text, input_);
    bool has_map = false;
    json.members([&](const std::string& key) {
      if (key != "weight_map") return json.skip();
      if (has_map) input_.fail("each name once", "\"weight_map\" twice");
      has_map = true;
      json.members([&](const std::string& name) {
        if (!file_of.emplace(name, file_named(json.string())).second)
          input_.fail("each name once", quoted(name) + " twice");
      });
    });
    json.expect_end();
    if (!has_map) input_.fail("a \"weight_map\"", "none");
    open_shards(file_of);
  }

  Tensor read(std::size_t i) const override {
    return shards_[shard_entries_[i].shard]->read(shard_entries_[i].entry);
  }

 private:
  struct ShardEntry {
    std::size_t shard, entry;
  };

  /// A file beside the index, never one elsewhere.
  std::string file_named(const std::string& name) const {
    if (name.empty() || name.starts_with('.') || name.find('/') != name.npos ||
        name.find('\0') != name.npos)
      input_.fail("names of files beside the index", quoted(name));
    return name;
  }

  void open_shards(const std::map<std::string, std::string>& file_of) {
    const Path& path = input_.path();
    const Path folder = path.substr(0, path.rfind('/') + 1);
    std::map<std::string, std::size_t> shard_of;
    for (const auto& [name, file] : file_of)
      if (shard_of.emplace(file, shards_.size()).second)
        shards_.push_back(
            std::make_unique<SafetensorsFile>(folder + file, input_.op(), input_.caller()));
    for (const auto& [file, shard] : shard_of) {
      const auto check = [&, &in = file](const std::string& name) {
        const auto listed = file_of.find(name);
        if (listed == file_of.end() || listed->second != in)
          input_.fail("a list of all tensors", "none of " + quoted(name) + " in " + quoted(in));
      };
      const std::vector<Entry>& entries = shards_[shard]->entries();
      for (std::size_t i = 0; i < entries.size(); ++i) {
        check(entries[i].name);
        entries_.push_back(entries[i]);
        shard_entries_.push_back({shard, i});
      }
      for (const auto& left : shards_[shard]->left()) {
        check(left.first);
        left_.push_back(left);
      }
    }
    if (entries_.size() + left_.size() != file_of.size())
      input_.fail(std::to_string(file_of.size()) + " tensors, by the index",
                  std::to_string(entries_.size() + left_.size()) + " in its files");
    if (!shards_.empty()) metadata_ = shards_[0]->metadata();
  }

  const Input input_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::vector<ShardEntry> shard_entries_;
};

std::string header_of(const NamedTensors& tensors, const Metadata& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, text] : metadata)
      header += json_string(key) + ":" + json_string(text) + ",";
    header.back() = '}';
    header += ',';
  }
  std::uint64_t at = 0;
  for (const auto& [name, x] : tensors) {
    header += json_string(name) + ":{\"dtype\":\"";
    header += dtype_names[static_cast<int>(x.dtype())];
    header += "\",\"shape\":[";
    for (const std::int64_t length : x.shape()) header += std::to_string(length) + ",";
    if (x.rank() > 0) header.pop_back();
    header += "],\"data_offsets\":[" + std::to_string(at) + ",";
    at += static_cast<std::uint64_t>(x.size() * size_of(x.dtype()));
    header += std::to_string(at) + "]},";
  }
  if (header.size() > 1) header.pop_back();
  header += '}';
  header.append(7 - (header.size() + 7) % 8, ' ');  // elements begin at a multiple of 8
  return header;
}

}  // namespace

std::string begin_safetensors(NamedTensors& tensors, const Metadata& metadata, std::string_view op,
                              Caller caller) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });
  std::string header = header_of(tensors, metadata);
  if (header.size() > most_header)
    fail<Error>(caller, op, "tensors", "a header of at most 100,000,000 bytes",
                std::to_string(header.size()));
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> 8 * i);
  return header.insert(0, length, 8);
}

namespace {
void write_file(const Path& path, NamedTensors tensors, const Metadata& metadata,
                std::string_view op, Caller caller) {
  const std::string begin = begin_safetensors(tensors, metadata, op, caller);
  AtomicFile file(path, op, caller);
  file.write(begin.data(), begin.size());
  for (const auto& [name, x] : tensors) {
    const HostElements elements(x, caller);
    file.write(elements.data(), elements.bytes());
  }
  file.commit();
}

void check_names(const NamedTensors& tensors, const Metadata& metadata, std::string_view op,
                 Caller caller) {
  io::check_names(tensors, op, caller);
  for (const auto& [name, x] : tensors)
    if (name == "__metadata__")
      fail<Error>(caller, op, "tensors", "names other than __metadata__", "it");
  std::vector<std::string> keys;
  for (const auto& [key, text] : metadata) {
    if (!is_utf8(key) || !is_utf8(text))
      fail<Error>(caller, op, "metadata", "texts of UTF-8", quoted(key));
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  if (const auto key = std::adjacent_find(keys.begin(), keys.end()); key != keys.end())
    fail<Error>(caller, op, "metadata", "each name once", quoted(*key) + " twice");
}

/// Tensors in their order, cut where one more would not fit.
std::vector<NamedTensors> shards_of(const NamedTensors& tensors, std::int64_t most) {
  std::vector<NamedTensors> shards(1);
  std::int64_t bytes = 0;
  for (const auto& [name, x] : tensors) {
    const std::int64_t more = x.size() * size_of(x.dtype());
    if (!shards.back().empty() && more > most - bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().emplace_back(name, x);
    bytes += std::min(more, most);
  }
  return shards;
}

/// "00002": numbers of shards have five digits, or more where they need them.
std::string five_digits(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

void write_shards(const Path& path, const std::vector<NamedTensors>& shards,
                  const Metadata& metadata, std::string_view op, Caller caller) {
  const Path stem = path.ends_with(ending) ? path.substr(0, path.size() - ending.size()) : path;
  std::string map;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Path file =
        stem + "-" + five_digits(i + 1) + "-of-" + five_digits(shards.size()) + std::string(ending);
    write_file(file, shards[i], metadata, op, caller);
    for (const auto& [name, x] : shards[i]) {
      map +=
          "\n    " + json_string(name) + ": " + json_string(file.substr(file.rfind('/') + 1)) + ",";
      total += x.size() * size_of(x.dtype());
    }
  }
  map.pop_back();
  const std::string index = "{\n  \"metadata\": {\"total_size\": " + std::to_string(total) +
                            "},\n  \"weight_map\": {" + map + "\n  }\n}\n";
  AtomicFile file(path + std::string(index_ending), op, caller);
  file.write(index.data(), index.size());
  file.commit();
}
}  // namespace

std::unique_ptr<Archive> open_safetensors(const Path& path, std::string_view op, Caller caller) {
  if (path.ends_with(".json")) return std::make_unique<SafetensorsShards>(path, op, caller);
  const Path index = path + std::string(index_ending);
  if (!exists(path) && exists(index)) return std::make_unique<SafetensorsShards>(index, op, caller);
  return std::make_unique<SafetensorsFile>(path, op, caller);
}

void write_safetensors(const Path& path, const NamedTensors& tensors, const Metadata& metadata,
                       std::string_view op, Caller caller) {
  check_names(tensors, metadata, op, caller);
  write_file(path, tensors, metadata, op, caller);
  remove_file(path + std::string(index_ending));
}

void save_safetensors(const Path& path, const NamedTensors& tensors,
                      const SafetensorsOptions& options, Caller caller) try {
  constexpr std::string_view op = "save_safetensors";
  if (options.shard_bytes < 1)
    fail<Error>(caller, op, "shard_bytes", "1 or more", std::to_string(options.shard_bytes));
  check_names(tensors, options.metadata, op, caller);
  const std::vector<NamedTensors> shards = shards_of(tensors, options.shard_bytes);
  if (shards.size() == 1) return write_safetensors(path, tensors, options.metadata, op, caller);
  write_shards(path, shards, options.metadata, op, caller);
  remove_file(path);  // what is loaded under this path is what was saved last
} catch (const std::bad_alloc&) {
  fail_memory(caller, "save_safetensors");
}

LoadedTensors load_safetensors(const Path& path, const ReadOptions& options, Caller caller) try {
  constexpr std::string_view op = "load_safetensors";
  return read_tensors(*open_safetensors(path, op, caller), options, path, op, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "load_safetensors");
}

Metadata load_safetensors_metadata(const Path& path, Caller caller) try {
  return open_safetensors(path, "load_safetensors_metadata", caller)->metadata();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "load_safetensors_metadata");
}
}  // namespace reel::io
