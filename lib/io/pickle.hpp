// SPDX-License-Identifier: BSD-3-Clause
// Reads the part of Python's pickles that state dicts of PyTorch use. Nothing is executed: this
// file knows the few functions that a pickle may name, and any other name is an error.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/archive.hpp"
#include "lib/io/input.hpp"

namespace reel::io {
struct TorchStorage {
  std::string key;
  DType dtype;
  std::int64_t elements;
};
/// A tensor: elements of a storage, with strides.
struct TorchTensor {
  TorchStorage storage;
  std::int64_t offset;
  std::vector<std::int64_t> shape, strides;
};

/// Reads a pickle into tensors and plain values, by path.
class PickleReader {
 public:
  PickleReader(std::string_view text, const Input& input) : rest_(text), input_(input) {}
  /// Call it once.
  void read();
  const std::vector<std::pair<std::string, TorchTensor>>& tensors() const { return named_; }
  /// Numbers, texts and None, as text.
  const Metadata& plain() const { return plain_; }

 private:
  using Id = std::uint32_t;
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
    storage,
    tensor
  };
  struct Value {
    Kind kind;
    std::int64_t integer = 0;  // also the place among storages and tensors
    double real = 0;
    std::string text{};
    std::vector<Id> items{};  // of a dict: key, value, key, value
  };

  [[noreturn]] void fail(std::string_view got) const;
  void run(unsigned char op);
  std::string_view take(std::uint64_t bytes);
  std::uint64_t number(std::size_t bytes);
  std::string_view line();
  Id add(Value value);
  void push(Value value) { stack_.push_back(add(std::move(value))); }
  Id pop();
  std::vector<Id> pop_to_mark();
  Value& top(Kind kind);
  void push_text(std::uint64_t bytes);
  void push_long();
  void push_tuple(std::size_t count);
  void push_global(std::string_view module, std::string_view name);
  void extend(Kind kind, const std::vector<Id>& items);
  void recall(std::uint64_t key);
  void build();
  void reduce();
  void reduce_tensor(const std::vector<Id>& arguments);
  void find_storage();
  const Value& of_kind(Id id, Kind kind) const;
  std::vector<std::int64_t> integers(Id id) const;
  void name_values(const std::string& path, Id id, int depth);
  std::string key_text(Id id) const;

  std::string_view rest_;
  const Input& input_;
  std::uint64_t most_visits_ = 0;
  std::vector<Value> values_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Id> memo_;
  std::vector<TorchStorage> storages_;
  std::vector<TorchTensor> tensors_;
  std::vector<std::pair<std::string, TorchTensor>> named_;
  Metadata plain_;
};

/// A dict of these tensors, each in the storage of its number.
std::string state_dict_pickle(const NamedTensors& tensors);
}  // namespace reel::io
