// SPDX-License-Identifier: BSD-3-Clause
// Columns of tables as numbers and ids, for models such as wide and deep ones.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <vector>

#include <reel/data/csv.hpp>
#include <reel/data/vocabulary.hpp>
#include <reel/fields.hpp>
#include <reel/pointer.hpp>
#include <reel/tensor.hpp>

namespace reel::data::features {
/// The bucket of each number: how many boundaries are not above it. So a number that equals a
/// boundary is in the bucket to the right, and n boundaries make n + 1 buckets; NaN is in the last
/// one. int64, in the shape of x, whose elements are read on the host. Throws Error unless the
/// boundaries ascend.
///
///     data::features::bucketize(tensor({17.0, 18.0, 70.0}), {18, 25, 65})     // [0, 1, 3]
REEL_API Tensor bucketize(Operand x, const std::vector<double>& boundaries);
/// The bucket of each text: hash_of(text) modulo the number of buckets, on all machines. [texts],
/// int64. Throws Error unless buckets >= 1.
REEL_API Tensor hash_buckets(const std::vector<std::string>& texts, CountNumber buckets,
                             Caller caller = Caller::here());
/// The bucket of each integer, as that of its decimal text. int64, in the shape of x. Throws
/// DTypeError unless x has integers.
REEL_API Tensor hash_buckets(Operand x, CountNumber buckets);
/// The bucket of each combination of ids: element i stands for the ids of all columns at i. It is
/// hash_of() of the ids as eight bytes each, the lowest byte first, modulo the number of buckets.
/// The columns have integers and one shape, which is that of the result, int64. Throws ShapeError
/// or DTypeError otherwise, and Error unless buckets >= 1.
REEL_API Tensor cross(const std::vector<Tensor>& columns, CountNumber buckets,
                      Caller caller = Caller::here());
/// Rows of zeros, with 1 at each id of the row: [rows, classes], float32. For one id in each row
/// see one_hot(). Throws IndexError for an id that is not in [0, classes).
///
///     data::features::multi_hot({{0, 2}, {}}, 3)  // [[1., 0., 1.], [0., 0., 0.]]
REEL_API Tensor multi_hot(const std::vector<std::vector<std::int64_t>>& ids, CountNumber classes,
                          Caller caller = Caller::here());

/// How a model sees a column of a table: as a number, or as an id from 0 to size() - 1.
class REEL_API Column {
 public:
  /// The number of ids; 0 for a number.
  std::int64_t size() const { return size_; }
  /// "age", or "age x job" of a crossed column.
  const std::string& name() const REEL_LIFETIMEBOUND { return name_; }
  /// This column, with a number in the place of empty cells, which are errors otherwise. For
  /// numeric() and bucketized(). Throws Error for other columns.
  Column missing(double number, Caller caller = Caller::here()) const;
  /// This column, with a text in the place of empty cells. For hashed() and categorical().
  /// Throws Error for other columns.
  Column missing(std::string text, Caller caller = Caller::here()) const;

 private:
  friend class Columns;
  friend REEL_API Column numeric(std::string name, double mean, double deviation, Caller caller);
  friend REEL_API Column bucketized(std::string name, std::vector<double> boundaries,
                                    Caller caller);
  friend REEL_API Column hashed(std::string name, CountNumber buckets, Caller caller);
  friend REEL_API Column categorical(std::string name, Vocabulary vocabulary, Caller caller);
  friend REEL_API Column crossed(std::vector<Column> parts, CountNumber buckets, Caller caller);
  Column() = default;
  std::int64_t id(const CsvRow& row, Caller caller) const;
  double number(const CsvRow& row, Caller caller) const;
  std::string_view text(const CsvRow& row, Caller caller) const;
  Column with(std::string_view text, double number, bool is_number, Caller caller) const;

  enum class Kind : std::uint8_t { numeric, bucketized, hashed, categorical, crossed };
  Kind kind_ = Kind::numeric;
  std::string name_;
  std::int64_t size_ = 0;
  double mean_ = 0, deviation_ = 1;
  std::vector<double> boundaries_;
  Shared<const Vocabulary> vocabulary_;
  std::vector<Column> parts_;
  bool may_miss_ = false;
  double missing_number_ = 0;
  std::string missing_text_;
};
/// The number (x - mean) / deviation. Throws Error for a deviation that is not above 0.
REEL_API Column numeric(std::string name, double mean = 0, double deviation = 1,
                        Caller caller = Caller::here());
/// The bucket of a number, as bucketize() gives it.
REEL_API Column bucketized(std::string name, std::vector<double> boundaries,
                           Caller caller = Caller::here());
/// The bucket of a text, as hash_buckets() gives it.
REEL_API Column hashed(std::string name, CountNumber buckets, Caller caller = Caller::here());
/// The id of a text in a vocabulary. A row with a text that has no id throws IndexError.
REEL_API Column categorical(std::string name, Vocabulary vocabulary,
                            Caller caller = Caller::here());
/// The bucket of the ids of several columns, as cross() gives it. Throws Error for a column of
/// numbers: bucketized() makes ids of them.
REEL_API Column crossed(std::vector<Column> parts, CountNumber buckets,
                        Caller caller = Caller::here());

/// What Columns make of rows.
struct Inputs {
  Tensor ids;      ///< int64 [rows, columns with ids]; without the first axis for one row
  Tensor numbers;  ///< float32 [rows, columns with numbers]
  REEL_FIELDS(ids, numbers)
};
/// Several columns. Their ids lie one after the other in one range, so that one table of an
/// nn::Embedding, or of an nn::EmbeddingBag, has the rows of all of them.
///
///     using namespace data::features;
///     Columns columns({numeric("age", 38, 13).missing(38), hashed("job", 100).missing("none"),
///                      bucketized("income", {2e4, 5e4}).missing(0)});
///     nn::EmbeddingBag wide(columns.size(), 1, nn::Bag::sum);
///     auto [ids, numbers] = columns(rows);
///     Tensor scores = wide(ids);
class REEL_API Columns {
 public:
  explicit Columns(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// The number of ids of all columns.
  std::int64_t size() const;
  /// The number of columns with ids, and with numbers.
  std::int64_t id_count() const;
  std::int64_t number_count() const;
  /// The ids and numbers of rows. Throws what CsvRow throws for a column that a row does not have,
  /// and for a text that is no number, also an empty one: see Column::missing(). Throws IndexError
  /// that names the column for a text that a vocabulary does not have.
  Inputs operator()(const std::vector<CsvRow>& rows, Caller caller = Caller::here()) const;
  /// The ids [columns] and numbers [columns] of one row.
  Inputs operator()(const CsvRow& row, Caller caller = Caller::here()) const;

 private:
  void write(const CsvRow& row, std::int64_t* ids, float* numbers, Caller caller) const;
  Inputs made(Shape ids, Shape numbers, const CsvRow* rows, std::size_t count, Caller caller) const;
  std::vector<Column> columns_;
};
}  // namespace reel::data::features
