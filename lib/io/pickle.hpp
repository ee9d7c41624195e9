// SPDX-License-Identifier: BSD-3-Clause
// Reads Python's pickles of tensors, dicts, lists and plain values. Nothing is executed: this file
// knows the few functions that make tensors and dicts. What another function would make is an
// object, of which only the function's name is known.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/archive.hpp"
#include "lib/io/elements.hpp"
#include "lib/io/input.hpp"

namespace reel::io {
struct TorchStorage {
  std::string key;
  const FileDType* dtype;  // null if no Tensor can hold it
  std::int64_t elements, bytes;
};
/// A tensor: elements of a storage, with strides.
struct TorchTensor {
  TorchStorage storage;
  std::int64_t offset;
  std::vector<std::int64_t> shape, strides;
};

/// Reads a pickle into tensors, by path. Its memory is at most 48 times the text and 1 MiB:
/// one byte can make a value, and what is there again and again is refused.
class PickleReader {
 public:
  PickleReader(std::string_view text, const Input& input);
  /// Reads the text up to the end of the pickle, and returns the number of its bytes. Call it once.
  std::size_t read();
  const std::vector<std::pair<std::string, TorchTensor>>& tensors() const { return named_; }
  /// Paths of values that are no tensors, and what they are. A dict, list or tuple without tensors
  /// is one of them. None and empty containers are left out.
  const Metadata& left() const { return left_; }
  /// The storages of all tensors, also of those that are left. A storage may be there several
  /// times.
  std::vector<TorchStorage> storages() const;
  /// The texts of a pickle that is a list of texts.
  std::vector<std::string> texts() const;

 private:
  using Id = std::uint32_t;  // the place among the values
  static constexpr Id none = UINT32_MAX;
  static constexpr int most_depth = 64;
  static constexpr std::uint32_t most_arguments = 8;  // of the functions that are known
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    list,
    tuple,
    dict,
    global,
    object,
    storage,
    tensor
  };
  /// 16 bytes, because one byte of a pickle can make a value.
  struct Value {
    Kind kind;
    std::uint8_t depth = 0;   // of tuples, lists and dicts inside
    std::uint32_t size = 0;   // bytes of a text, items of a container; a dict has keys and values
    std::int64_t number = 0;  // integer, bits of a real, offset of a text, place in a list below
  };
  /// An item of a container, and the next one.
  struct Cell {
    Id item;
    std::uint32_t next;
  };
  /// A module and a name in it, which are parts of the text.
  struct GlobalNote {
    std::uint32_t module, module_size, name, name_size;
  };
  /// What it is. The name of a global follows, if there is one.
  struct ObjectNote {
    const char* reason;
    Id global;
  };
  struct StorageNote {
    Id key, type;  // a text and a global
    std::int64_t elements;
  };
  struct TensorNote {
    const FileDType* dtype;
    std::uint32_t storage;
    Id shape, strides;  // tuples of integers
    std::int64_t offset;
  };
  /// A step of a path: the key of a dict, and the place in a dict or list.
  struct Step {
    Id key;
    std::uint32_t place;
  };
  enum class Inside : std::uint8_t { nothing, plain, listed };
  static bool is_container(Kind kind) {
    return kind == Kind::list || kind == Kind::tuple || kind == Kind::dict;
  }

  [[noreturn]] void fail(std::string_view got) const;
  void run(unsigned char op);
  std::string_view take(std::uint64_t bytes);
  std::uint64_t number(std::size_t bytes);
  std::string_view line();
  void push(Value value);
  void push_integer(std::int64_t value) { push({.kind = Kind::integer, .number = value}); }
  void push_text(std::uint64_t bytes);
  void push_long(std::uint64_t bytes);
  void push_tuple(std::size_t count);
  void push_global(std::string_view module, std::string_view name);
  void push_object(const char* reason, Id global = none);
  Id pop();
  std::vector<Id> pop(std::size_t count);
  std::size_t pop_mark();
  Value& top(bool (*fits)(Kind));
  void append(Value& container, Id item);
  void extend(Kind kind, std::size_t count);
  void note(std::uint64_t key);
  void recall(std::uint64_t key);
  void build();
  void find_storage();
  void call(Id function, const std::vector<Id>& arguments);
  void make_dict(const std::vector<Id>& arguments);
  void make_tensor(const std::vector<Id>& arguments, bool has_dtype);
  void check_extent(const TorchStorage& storage, std::int64_t offset,
                    const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& strides) const;
  TorchStorage storage_of(const StorageNote& note, const FileDType* dtype = nullptr) const;
  const Value& of_kind(Id id, Kind kind) const;
  std::string_view text_of(Id id) const;
  std::string global_name(Id id) const;
  std::vector<Id> items_of(Id id, std::uint32_t most = UINT32_MAX) const;
  std::vector<std::int64_t> integers(Id id) const;
  Inside visit(Id id, int depth);
  void charge(std::size_t bytes);
  std::string path_text();
  void leave(Id id);
  std::string object_text(const ObjectNote& object) const;
  std::string reason_of(Id id) const;

  const std::string_view text_;
  std::string_view rest_;
  const Input& input_;
  std::uint64_t most_visits_, most_name_bytes_;
  std::deque<Value> values_;
  std::deque<Cell> cells_;
  std::deque<Id> stack_, memo_;
  std::deque<std::uint32_t> marks_;
  std::deque<GlobalNote> globals_;
  std::deque<ObjectNote> objects_;
  std::deque<StorageNote> storages_;
  std::deque<TensorNote> tensors_;
  std::vector<Step> path_;
  std::vector<std::pair<std::string, TorchTensor>> named_;
  Metadata left_;
};

/// A dict of these tensors, each in the storage of its number.
std::string state_dict_pickle(const NamedTensors& tensors);
}  // namespace reel::io
