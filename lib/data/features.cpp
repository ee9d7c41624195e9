// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/features.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <new>

#include <reel/error.hpp>
#include <reel/ops/reshape.hpp>

#include "lib/body/text.hpp"
#include "lib/data/files.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::data::features {
namespace {
void check_buckets(std::string_view op, std::int64_t buckets, Caller caller) {
  if (buckets < 1) fail<Error>(caller, op, "buckets", "a number of at least 1", to_text(buckets));
}
void check_ascend(std::string_view op, const std::vector<double>& boundaries, Caller caller) {
  for (std::size_t i = 1; i < boundaries.size(); ++i)
    if (!(boundaries[i - 1] < boundaries[i]))
      fail<Error>(caller, op, "boundaries", "numbers that ascend",
                  to_text(boundaries[i - 1]) + ", " + to_text(boundaries[i]));
}
std::int64_t bucket_of(double x, const std::vector<double>& boundaries) {
  if (std::isnan(x)) return static_cast<std::int64_t>(boundaries.size());
  return std::upper_bound(boundaries.begin(), boundaries.end(), x) - boundaries.begin();
}
std::int64_t bucket_of(std::string_view text, std::int64_t buckets) {
  return static_cast<std::int64_t>(hash_of(text) % static_cast<std::uint64_t>(buckets));
}
RawTensor made(DType dtype, const Shape& shape, std::string_view op, Caller caller) {
  RawTensor made = raw_tensor(dtype, shape);
  if (!made.tensor.defined()) fail_memory(caller, op);
  return made;
}
/// f(i) for each element.
template <class F>
Tensor integers(const Shape& shape, std::string_view op, Caller caller, const F& f) {
  const RawTensor x = made(DType::int64, shape, op, caller);
  auto* const to = static_cast<std::int64_t*>(x.elements);
  const auto count = static_cast<std::size_t>(x.tensor.size());
  for (std::size_t i = 0; i < count; ++i) to[i] = f(i);
  return on_current_device(x.tensor, caller);
}
/// The elements as T on the host.
template <class T>
std::vector<T> elements(const Tensor& x, Caller caller) {
  return x.to(dtype_of<T>(), caller).template to_vector<T>(caller);
}
Tensor integers_of(const Tensor& x, std::string_view op, std::string_view argument, Caller caller) {
  if (!x.defined()) fail<Error>(caller, op, argument, "a tensor", "an undefined Tensor");
  if (is_floating(x.dtype()))
    fail<DTypeError>(caller, op, argument, "integers", name_of(x.dtype()));
  return x;
}
}  // namespace

Tensor bucketize(Operand x, const std::vector<double>& boundaries) try {
  constexpr std::string_view op = "bucketize";
  check_ascend(op, boundaries, x.caller());
  const Tensor value = x.value();
  const auto numbers = elements<double>(value, x.caller());
  std::vector<double> as_x = boundaries;
  // 0.7 as float32 is below 0.7 as double.
  if (value.dtype() == DType::float32)
    for (double& boundary : as_x) boundary = static_cast<double>(static_cast<float>(boundary));
  return integers(value.shape(), op, x.caller(),
                  [&](std::size_t i) { return bucket_of(numbers[i], as_x); });
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "bucketize");
}

Tensor hash_buckets(const std::vector<std::string>& texts, CountNumber buckets, Caller caller) {
  constexpr std::string_view op = "hash_buckets";
  check_buckets(op, buckets, caller);
  return integers(Shape({texts.size()}), op, caller,
                  [&](std::size_t i) { return bucket_of(texts[i], buckets.value); });
}
Tensor hash_buckets(Operand x, CountNumber buckets) try {
  constexpr std::string_view op = "hash_buckets";
  check_buckets(op, buckets, x.caller());
  const Tensor value = integers_of(x.value(), op, "x", x.caller());
  const auto numbers = elements<std::int64_t>(value, x.caller());
  return integers(value.shape(), op, x.caller(), [&](std::size_t i) {
    char digits[24];
    const char* const end = std::to_chars(digits, digits + sizeof digits, numbers[i]).ptr;
    return bucket_of({digits, static_cast<std::size_t>(end - digits)}, buckets.value);
  });
} catch (const std::bad_alloc&) {
  fail_memory(x.caller(), "hash_buckets");
}

Tensor cross(const std::vector<Tensor>& columns, CountNumber buckets, Caller caller) try {
  constexpr std::string_view op = "cross";
  check_buckets(op, buckets, caller);
  if (columns.empty()) fail<Error>(caller, op, "columns", "at least one", "none");
  std::vector<std::vector<std::int64_t>> ids;
  for (const Tensor& column : columns) {
    ids.push_back(elements<std::int64_t>(integers_of(column, op, "columns", caller), caller));
    if (column.shape() != columns[0].shape())
      fail<ShapeError>(caller, op, "columns", "one shape, " + to_text(columns[0].shape()),
                       to_text(column.shape()));
  }
  std::vector<std::int64_t> together(ids.size());
  return integers(columns[0].shape(), op, caller, [&](std::size_t i) {
    for (std::size_t k = 0; k < ids.size(); ++k) together[k] = ids[k][i];
    return bucket_of(
        {reinterpret_cast<const char*>(together.data()), together.size() * sizeof(std::int64_t)},
        buckets.value);
  });
} catch (const std::bad_alloc&) {
  fail_memory(caller, "cross");
}

Tensor multi_hot(const std::vector<std::vector<std::int64_t>>& ids, CountNumber classes,
                 Caller caller) {
  constexpr std::string_view op = "multi_hot";
  const RawTensor x =
      made(DType::float32,
           Shape({ids.size(), static_cast<std::size_t>(std::max<std::int64_t>(classes, 0))}), op,
           caller);
  if (x.bytes > 0) std::memset(x.elements, 0, x.bytes);
  auto* row = static_cast<float*>(x.elements);
  for (const auto& of_row : ids) {
    for (const std::int64_t id : of_row) {
      if (id < 0 || id >= classes)
        fail<IndexError>(caller, op, "ids", one_of("id", 0, classes), to_text(id));
      row[id] = 1;
    }
    row += classes.value;
  }
  return on_current_device(x.tensor, caller);
}

Column numeric(std::string name, double mean, double deviation, Caller caller) {
  if (!(deviation > 0))
    fail<Error>(caller, "numeric", "deviation", "a number above 0", to_text(deviation));
  Column column;
  column.name_ = std::move(name);
  column.mean_ = mean;
  column.deviation_ = deviation;
  return column;
}
Column bucketized(std::string name, std::vector<double> boundaries, Caller caller) {
  check_ascend("bucketized", boundaries, caller);
  Column column;
  column.kind_ = Column::Kind::bucketized;
  column.name_ = std::move(name);
  column.size_ = static_cast<std::int64_t>(boundaries.size()) + 1;
  column.boundaries_ = std::move(boundaries);
  return column;
}
Column hashed(std::string name, CountNumber buckets, Caller caller) {
  check_buckets("hashed", buckets, caller);
  Column column;
  column.kind_ = Column::Kind::hashed;
  column.name_ = std::move(name);
  column.size_ = buckets;
  return column;
}
Column categorical(std::string name, Vocabulary vocabulary, Caller caller) try {
  Column column;
  column.kind_ = Column::Kind::categorical;
  column.name_ = std::move(name);
  column.size_ = vocabulary.size();
  column.vocabulary_ = make_shared_of<const Vocabulary>(std::move(vocabulary));
  return column;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "categorical");
}
Column crossed(std::vector<Column> parts, CountNumber buckets, Caller caller) try {
  check_buckets("crossed", buckets, caller);
  if (parts.empty()) fail<Error>(caller, "crossed", "parts", "at least one column", "none");
  Column column;
  column.kind_ = Column::Kind::crossed;
  for (const Column& part : parts) {
    if (part.kind_ == Column::Kind::numeric)
      fail<Error>(caller, "crossed", "parts", "columns with ids",
                  "'" + io::escaped(part.name_) + "' with numbers", "Use bucketized() for it.");
    column.name_ += (column.name_.empty() ? "" : " x ") + part.name_;
  }
  column.size_ = buckets;
  column.parts_ = std::move(parts);
  return column;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "crossed");
}

Column Column::with(std::string_view text, double number, bool is_number, Caller caller) const {
  const bool takes_numbers = kind_ == Kind::numeric || kind_ == Kind::bucketized;
  if (kind_ == Kind::crossed)
    fail<Error>(caller, "missing", "column", "one that is not crossed",
                "'" + io::escaped(name_) + "'", "Call missing() of its parts.");
  if (takes_numbers != is_number)
    fail<Error>(caller, "missing", "column",
                is_number ? "one of numbers, numeric() or bucketized()"
                          : "one of texts, hashed() or categorical()",
                "'" + io::escaped(name_) + "'");
  Column column = *this;
  column.may_miss_ = true;
  column.missing_number_ = number;
  column.missing_text_ = text;
  return column;
}
Column Column::missing(double number, Caller caller) const try {
  return with({}, number, true, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "missing");
}
Column Column::missing(std::string text, Caller caller) const try {
  return with(text, 0, false, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "missing");
}
double Column::number(const CsvRow& row, Caller caller) const {
  const Key column{name_, caller};
  return may_miss_ ? row.number(column, missing_number_) : row.number(column);
}
std::string_view Column::text(const CsvRow& row, Caller caller) const {
  const std::string_view text = row[{name_, caller}];
  return may_miss_ && text.find_first_not_of(" \t") == text.npos ? missing_text_ : text;
}
std::int64_t Column::id(const CsvRow& row, Caller caller) const {
  switch (kind_) {
    case Kind::bucketized:
      return bucket_of(number(row, caller), boundaries_);
    case Kind::hashed:
      return bucket_of(text(row, caller), size_);
    case Kind::categorical: {
      const std::string_view word = text(row, caller);
      const std::int64_t id = vocabulary_->find(word);
      if (id < 0 && vocabulary_->unknown() < 0)
        fail<IndexError>(caller, "Columns", "'" + io::escaped(name_) + "'",
                         "one of the " + to_text(vocabulary_->size()) + " words of its vocabulary",
                         quoted(word), "Give the vocabulary an unknown word.");
      return id < 0 ? vocabulary_->unknown() : id;
    }
    case Kind::numeric:
    case Kind::crossed:
      break;
  }
  std::vector<std::int64_t> ids;
  for (const Column& part : parts_) ids.push_back(part.id(row, caller));
  return bucket_of({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int64_t)},
                   size_);
}

std::int64_t Columns::size() const {
  std::int64_t size = 0;
  for (const Column& column : columns_) size += column.size_;
  return size;
}
std::int64_t Columns::number_count() const {
  return std::count_if(columns_.begin(), columns_.end(),
                       [](const Column& column) { return column.kind_ == Column::Kind::numeric; });
}
std::int64_t Columns::id_count() const {
  return static_cast<std::int64_t>(columns_.size()) - number_count();
}
void Columns::write(const CsvRow& row, std::int64_t* ids, float* numbers, Caller caller) const {
  std::int64_t first = 0;
  for (const Column& column : columns_) {
    if (column.kind_ == Column::Kind::numeric)
      *numbers++ =
          static_cast<float>((column.number(row, caller) - column.mean_) / column.deviation_);
    else
      *ids++ = first + column.id(row, caller);
    first += column.size_;
  }
}
Inputs Columns::made(Shape ids, Shape numbers, const CsvRow* rows, std::size_t count,
                     Caller caller) const try {
  constexpr std::string_view op = "Columns";
  const RawTensor all_ids = features::made(DType::int64, ids, op, caller);
  const RawTensor all_numbers = features::made(DType::float32, numbers, op, caller);
  auto* to_ids = static_cast<std::int64_t*>(all_ids.elements);
  auto* to_numbers = static_cast<float*>(all_numbers.elements);
  for (std::size_t i = 0; i < count; ++i) {
    write(rows[i], to_ids, to_numbers, caller);
    to_ids += id_count();
    to_numbers += number_count();
  }
  return {on_current_device(all_ids.tensor, caller), on_current_device(all_numbers.tensor, caller)};
} catch (const std::bad_alloc&) {
  fail_memory(caller, "Columns");
}
Inputs Columns::operator()(const std::vector<CsvRow>& rows, Caller caller) const {
  return made({rows.size(), id_count()}, {rows.size(), number_count()}, rows.data(), rows.size(),
              caller);
}
Inputs Columns::operator()(const CsvRow& row, Caller caller) const {
  return made({id_count()}, {number_count()}, &row, 1, caller);
}
}  // namespace reel::data::features
