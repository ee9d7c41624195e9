// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/arrow.hpp>

#include <algorithm>
#include <cstring>
#include <new>

#include <reel/error.hpp>
#include <reel/ops/reshape.hpp>
#include <reel/variable.hpp>

#include "lib/data/files.hpp"
#include "lib/data/key.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::data {
namespace {
/// A struct of the interface that is taken over, and released at the end.
template <class T>
struct Taken {
  T value = {};
  Taken() = default;
  explicit Taken(T* from) {
    if (!from) return;
    value = *from;
    from->release = nullptr;
  }
  ~Taken() {
    if (value.release) value.release(&value);
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
};

/// Who reads, for errors.
struct Errors {
  std::string_view op;
  Caller caller;
  [[noreturn]] void fail(std::string_view column, std::string_view expected,
                         std::string_view got) const {
    reel::fail<IoError>(caller, op, column, expected, got);
  }
};

/// A column of an array, whose elements begin at `first`.
class ColumnReader {
 public:
  ColumnReader(const ArrowSchema& schema, const ArrowArray& array, std::int64_t first,
               std::int64_t rows, bool nulls, const Errors& errors)
      : schema_(schema),
        array_(array),
        first_(static_cast<std::size_t>(first)),
        rows_(static_cast<std::size_t>(rows)),
        nulls_(nulls),
        errors_(errors),
        name_(schema.name ? schema.name : "") {}

  TableColumn read() {
    TableColumn column{name_, {}, {}, {}};
    // The interface allows null where there are no elements.
    const auto* const validity = static_cast<const unsigned char*>(buffer(0, rows_ > 0, false));
    const bool has_nulls = validity && array_.null_count != 0 && find_null(validity);
    if (has_nulls && !nulls_)
      fail("elements without null", "null in row " + std::to_string(null_row_));
    if (schema_.dictionary)
      read_dictionary(column);
    else
      read_values(column, has_nulls ? validity : nullptr);
    if (nulls_) {
      const RawTensor valid = made(DType::boolean);
      auto* const to = static_cast<unsigned char*>(valid.elements);
      for (std::size_t i = 0; i < rows_; ++i) {
        to[i] = !has_nulls || is_valid(validity, i);
        if (!to[i] && !column.texts.empty()) column.texts[i].clear();
      }
      column.valid = on_current_device(valid.tensor, errors_.caller);
    }
    return column;
  }

 private:
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const {
    errors_.fail("column '" + io::escaped(std::string_view(name_).substr(0, 60)) + "'", expected,
                 got);
  }
  static bool bit(const unsigned char* bits, std::size_t i) { return bits[i / 8] >> i % 8 & 1; }
  /// Whether element i is not null.
  bool is_valid(const unsigned char* validity, std::size_t i) const {
    return !validity || bit(validity, first_ + i);
  }
  bool find_null(const unsigned char* validity) {
    for (null_row_ = 0; null_row_ < rows_; ++null_row_)
      if (!bit(validity, first_ + null_row_)) return true;
    return false;
  }
  /// Buffer i; null where it is missing and not needed.
  const void* buffer(std::int64_t i, bool exists, bool needed = true) const {
    const void* const found = i < array_.n_buffers && array_.buffers ? array_.buffers[i] : nullptr;
    if (exists && needed && !found) fail("a buffer of elements", "none");
    return found;
  }
  RawTensor made(DType dtype) const {
    RawTensor made = raw_tensor(dtype, Shape({rows_}));
    if (!made.tensor.defined()) throw std::bad_alloc();
    return made;
  }
  /// Elements as To; those that are null are 0.
  template <class From, class To>
  Tensor numbers(const unsigned char* validity, DType dtype) const {
    const RawTensor x = made(dtype);
    auto* const to = static_cast<To*>(x.elements);
    const auto* const from =
        static_cast<const From*>(buffer(1, rows_ > 0)) + (rows_ > 0 ? first_ : 0);
    for (std::size_t i = 0; i < rows_; ++i) {
      const bool valid = is_valid(validity, i);
      if constexpr (std::is_same_v<From, std::uint64_t>)
        if (valid && from[i] > INT64_MAX)
          fail("integers of at most 2^63 - 1",
               std::to_string(from[i]) + " in row " + std::to_string(i));
      to[i] = valid ? static_cast<To>(from[i]) : To();
    }
    return on_current_device(x.tensor, errors_.caller);
  }
  void read_values(TableColumn& column, const unsigned char* validity) const {
    const std::string_view format = schema_.format ? schema_.format : "";
    if (format == "u") return read_texts<std::int32_t>(column.texts, validity);
    if (format == "U") return read_texts<std::int64_t>(column.texts, validity);
    column.values = read_numbers(format, validity);
  }
  Tensor read_numbers(std::string_view format, const unsigned char* validity) const {
    switch (format.size() == 1 ? format[0] : '\0') {
      case 'b':
        return read_truths(validity);
      case 'C':
        return numbers<std::uint8_t, std::uint8_t>(validity, DType::uint8);
      case 'c':
        return numbers<std::int8_t, std::int8_t>(validity, DType::int8);
      case 's':
        return numbers<std::int16_t, std::int16_t>(validity, DType::int16);
      case 'S':
        return numbers<std::uint16_t, std::int32_t>(validity, DType::int32);
      case 'i':
        return numbers<std::int32_t, std::int32_t>(validity, DType::int32);
      case 'I':
        return numbers<std::uint32_t, std::int64_t>(validity, DType::int64);
      case 'l':
        return numbers<std::int64_t, std::int64_t>(validity, DType::int64);
      case 'L':
        return numbers<std::uint64_t, std::int64_t>(validity, DType::int64);
      case 'e':
        return numbers<std::uint16_t, std::uint16_t>(validity, DType::float16);  // as bits
      case 'f':
        return numbers<float, float>(validity, DType::float32);
      case 'g':
        return numbers<double, double>(validity, DType::float64);
      default:
        fail("bool, integers, floating numbers or texts", "the format " + quoted(format));
    }
  }
  Tensor read_truths(const unsigned char* validity) const {
    const RawTensor x = made(DType::boolean);
    auto* const to = static_cast<unsigned char*>(x.elements);
    const auto* const bits = static_cast<const unsigned char*>(buffer(1, rows_ > 0));
    for (std::size_t i = 0; i < rows_; ++i) to[i] = is_valid(validity, i) && bit(bits, first_ + i);
    return on_current_device(x.tensor, errors_.caller);
  }
  template <class Offset>
  void read_texts(std::vector<std::string>& texts, const unsigned char* validity) const {
    const auto* const offsets = static_cast<const Offset*>(buffer(1, rows_ > 0));
    texts.resize(rows_);
    for (std::size_t i = 0; i < rows_; ++i) {
      const Offset begin = offsets[first_ + i], end = offsets[first_ + i + 1];
      if (begin < 0 || end < begin) fail("offsets that ascend", std::to_string(end));
      if (begin == end || !is_valid(validity, i)) continue;
      texts[i].assign(static_cast<const char*>(buffer(2, true)) + begin,
                      static_cast<std::size_t>(end - begin));
    }
  }
  /// Texts by their positions in a list.
  void read_dictionary(TableColumn& column) const {
    const ArrowArray* const list = array_.dictionary;
    if (!list || list->length < 0 || list->offset < 0) fail("a dictionary", "none");
    const ColumnReader words(*schema_.dictionary, *list, list->offset, list->length, false,
                             errors_);
    TableColumn all;
    words.read_values(all, nullptr);
    if (all.values.defined()) fail("a dictionary of texts", "another one");
    const std::string_view format = schema_.format ? schema_.format : "";
    const auto positions = read_numbers(format, nullptr)
                               .to(DType::int64, errors_.caller)
                               .to_vector<std::int64_t>(errors_.caller);
    const auto* const validity = static_cast<const unsigned char*>(buffer(0, false));
    column.texts.resize(rows_);
    for (std::size_t i = 0; i < rows_; ++i) {
      if (!is_valid(validity, i)) continue;
      if (positions[i] < 0 || positions[i] >= list->length)
        fail("positions in a dictionary", std::to_string(positions[i]));
      column.texts[i] = all.texts[static_cast<std::size_t>(positions[i])];
    }
  }

  const ArrowSchema& schema_;
  const ArrowArray& array_;
  const std::size_t first_, rows_;
  const bool nulls_;
  const Errors& errors_;
  const std::string name_;
  std::size_t null_row_ = 0;
};

Table table_of(const ArrowSchema& schema, const ArrowArray& array, const ArrowOptions& options,
               const Errors& errors) {
  if (!schema.release || !schema.format)
    errors.fail("schema", "a schema that was not released", "another one");
  if (!array.release) errors.fail("array", "an array that was not released", "another one");
  if (array.length < 0 || array.offset < 0)
    errors.fail("array", "a length that is not negative", "another one");
  Table table;
  table.rows = array.length;
  const bool is_table = std::string_view(schema.format) == "+s";
  const auto count =
      static_cast<std::size_t>(is_table ? std::max<std::int64_t>(schema.n_children, 0) : 1);
  if (is_table && (array.n_children != schema.n_children || schema.n_children < 0))
    errors.fail("array", std::to_string(schema.n_children) + " columns",
                std::to_string(array.n_children));
  if (is_table && array.null_count > 0) errors.fail("array", "rows without null", "some with it");
  const auto read = [&](std::size_t i) {
    const ArrowSchema& of = is_table ? *schema.children[i] : schema;
    const ArrowArray& from = is_table ? *array.children[i] : array;
    const std::int64_t begin = is_table ? array.offset : 0;
    if (from.offset < 0 || from.length < 0 || array.length > from.length - begin)
      errors.fail("array", "columns of " + std::to_string(array.length) + " rows",
                  std::to_string(from.length));
    table.columns.push_back(
        ColumnReader(of, from, from.offset + begin, array.length, options.nulls, errors).read());
  };
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const char* const name = is_table ? schema.children[i]->name : schema.name;
    names.emplace_back(name ? name : "");
  }
  if (options.columns.empty())
    for (std::size_t i = 0; i < count; ++i) read(i);
  for (const std::string& name : options.columns)
    read(position_of(Key(name, errors.caller), errors.op, "columns", names,
                     [](const std::string& of) -> std::string_view { return of; }));
  return table;
}

class Batches : public Reader<Table> {
 public:
  Batches(ArrowArrayStream* stream, const ArrowOptions& options, Errors errors)
      : stream_(stream), options_(options), errors_(errors) {
    if (!stream_.value.release)
      errors_.fail("stream", "a stream that was not released", "another one");
    check(stream_.value.get_schema(&stream_.value, &schema_.value));
  }
  bool next(Table& table) override try {
    if (ended_) return false;
    Taken<ArrowArray> array;
    ended_ = true;  // also behind an error of the stream
    check(stream_.value.get_next(&stream_.value, &array.value));
    if (!array.value.release) return false;
    ended_ = false;
    ++count_;
    table = table_of(schema_.value, array.value, options_, errors_);
    return true;
  } catch (const std::bad_alloc&) {
    fail_memory(errors_.caller, errors_.op);
  }
  Place place() const override { return {0, count_}; }
  std::string where() const override { return "batch " + std::to_string(count_ - 1); }
  /// Drops batches.
  void skip(std::int64_t count) {
    for (; count_ < count && !ended_; ++count_) {
      Taken<ArrowArray> array;
      check(stream_.value.get_next(&stream_.value, &array.value));
      ended_ = !array.value.release;
    }
  }

 private:
  void check(int status) {
    if (status == 0) return;
    const char* const text = stream_.value.get_last_error(&stream_.value);
    errors_.fail("stream", "a stream without errors",
                 text ? io::escaped(std::string_view(text).substr(0, 100)) : std::strerror(status));
  }
  Taken<ArrowArrayStream> stream_;
  Taken<ArrowSchema> schema_;
  const ArrowOptions options_;
  const Errors errors_;
  std::int64_t count_ = 0;
  bool ended_ = false;
};
}  // namespace

const TableColumn& Table::operator[](Key column) const {
  return columns[position_of(column, "Table", "column", columns,
                             [](const TableColumn& of) -> std::string_view { return of.name; })];
}

Table read_arrow(ArrowSchema* schema, ArrowArray* array, const ArrowOptions& options,
                 Caller caller) try {
  const Taken<ArrowSchema> type(schema);
  const Taken<ArrowArray> elements(array);
  return table_of(type.value, elements.value, options, {"read_arrow", caller});
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_arrow");
}

Table read_arrow(ArrowArrayStream* stream, const ArrowOptions& options, Caller caller) try {
  Batches batches(stream, options, {"read_arrow", caller});
  Table all;
  std::vector<std::vector<Tensor>> values, valid;  // of each column, of each batch
  for (Table batch; batches.next(batch);) {
    if (values.empty()) {
      all.columns = batch.columns;
      for (TableColumn& column : all.columns) column.texts.clear();
      values.resize(batch.columns.size());
      valid.resize(batch.columns.size());
    }
    all.rows += batch.rows;
    for (std::size_t i = 0; i < batch.columns.size(); ++i) {
      TableColumn& column = batch.columns[i];
      values[i].push_back(column.values);
      valid[i].push_back(column.valid);
      std::move(column.texts.begin(), column.texts.end(), std::back_inserter(all.columns[i].texts));
    }
  }
  const CallerScope here(caller, "read_arrow");
  for (std::size_t i = 0; i < all.columns.size(); ++i) {
    if (values[i][0].defined()) all.columns[i].values = concat(values[i], 0);
    if (valid[i][0].defined()) all.columns[i].valid = concat(valid[i], 0);
  }
  return all;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_arrow");
}

Owned<Reader<Table>> open_arrow(ArrowArrayStream* stream, const ArrowOptions& options, Place from,
                                Caller caller) try {
  auto batches = make_owned<Batches>(stream, options, Errors{"open_arrow", caller});
  batches->skip(from.offset);
  return batches;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "open_arrow");
}
}  // namespace reel::data
