// SPDX-License-Identifier: BSD-3-Clause
// Columns of tables. The ties of buckets are those of tf.feature_column.bucketized_column.
#include <cstring>

#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using namespace data::features;
using data::CsvRow, data::hash_of;
using Texts = std::vector<std::string>;
using Integers = std::vector<std::int64_t>;
Integers list(const Tensor& x) { return x.to_vector<std::int64_t>(); }
std::vector<CsvRow> table(const std::string& bytes) {
  const Folder folder;
  write_file(folder.file("x.csv"), bytes);
  return read_all(*data::open_csv({folder.file("x.csv")}));
}
std::int64_t of_ids(const Integers& ids, std::int64_t buckets) {
  std::string bytes(8 * ids.size(), '\0');
  std::memcpy(bytes.data(), ids.data(), bytes.size());
  return static_cast<std::int64_t>(hash_of(bytes) % static_cast<std::uint64_t>(buckets));
}
}  // namespace

TEST_CASE("a number that equals a boundary is in the bucket to the right") {
  const Tensor x = tensor({{-1.0, 18.0, 24.9}, {25.0, 65.0, 1e9}});
  CHECK(list(bucketize(x, {18, 25, 65})) == Integers{0, 1, 1, 2, 3, 3});
  CHECK(bucketize(x, {18}).shape() == Shape({2, 3}));
  CHECK(list(bucketize(tensor({INFINITY, -INFINITY, NAN}), {0, 1})) == Integers{2, 0, 2});
  CHECK(list(bucketize(tensor({0.7, 0.3}), {0.3, 0.7})) == Integers{2, 1});
  CHECK(list(bucketize(tensor({3, 4}), {4})) == Integers{0, 1});
  CHECK(list(bucketize(tensor({3, 4}), {})) == Integers{0, 0});
  check_refused<Error>(
      [&] {
        bucketize(x, {2, 1});
      },
      "bucketize: boundaries: expected numbers that ascend, got 2, 1");
  check_refused<Error>([&] { bucketize(x, {1, 1}); }, "boundaries");
  check_refused<Error>([&] { bucketize(x, {NAN, 1}); }, "boundaries");
}

TEST_CASE("texts and integers have the same bucket on all machines") {
  CHECK(list(hash_buckets(Texts{"", "a", "foobar"}, 1000)) == Integers{0xcbf29ce484222325u % 1000,
                                                                       0xaf63dc4c8601ec8cu % 1000,
                                                                       0x85944171f73967e8u % 1000});
  CHECK(list(hash_buckets(tensor({{-12}, {7}}), 100)) ==
        list(hash_buckets(Texts{"-12", "7"}, 100)));
  CHECK(hash_buckets(tensor({{-12}, {7}}), 100).shape() == Shape({2, 1}));
  check_refused<Error>([] { hash_buckets(Texts{"a"}, 0); },
                       "hash_buckets: buckets: expected a number of at least 1, got 0");
  check_refused<DTypeError>([] { hash_buckets(tensor({1.0}), 3); },
                            "hash_buckets: x: expected integers, got float32");
}

TEST_CASE("ids that are crossed have a bucket for each combination") {
  const Tensor a = tensor({0, 1, 0}), b = tensor({5, 5, -1}).to(DType::int64);
  CHECK(list(cross({a, b}, 1'000'000)) ==
        Integers{of_ids({0, 5}, 1'000'000), of_ids({1, 5}, 1'000'000), of_ids({0, -1}, 1'000'000)});
  CHECK(list(cross({a}, 1)) == Integers{0, 0, 0});
  check_refused<ShapeError>(
      [&] {
        cross({a, tensor({1})}, 9);
      },
      "cross: columns: expected one shape, (3,), got (1,)");
  check_refused<DTypeError>([&] { cross({tensor({1.0})}, 9); },
                            "cross: columns: expected integers");
  check_refused<Error>([&] { cross({}, 9); }, "cross: columns: expected at least one");
  check_refused<Error>([&] { cross({Tensor()}, 9); }, "an undefined Tensor");
}

TEST_CASE("rows of several ids have ones at them") {
  CHECK(multi_hot({{0, 2}, {}, {1, 1}}, 3).to_vector<float>() ==
        std::vector<float>{1, 0, 1, 0, 0, 0, 0, 1, 0});
  CHECK(multi_hot({}, 3).shape() == Shape({0, 3}));
  CHECK(multi_hot({{}}, 0).shape() == Shape({1, 0}));
  check_refused<IndexError>([] { multi_hot({{3}}, 3); },
                            "multi_hot: ids: expected an id in [0, 3), got 3");
}

TEST_CASE("columns make ids and numbers of rows") {
  const auto rows = table("age,job,city\n17,cook,Rome\n25,nurse,Oslo\n66,pilot,Rome\n");
  const Column age = bucketized("age", {18, 25, 65}),
               job = categorical("job", data::Vocabulary(Texts{"cook", "nurse"}, {.unknown = "?"}));
  const Column both = crossed({age, job}, 50);
  CHECK(both.name() == "age x job");
  CHECK(both.size() == 50);
  const Columns columns({age, numeric("age", 20, 2), job, hashed("city", 10), both});
  CHECK(columns.size() == 4 + 3 + 10 + 50);
  CHECK(columns.id_count() == 4);
  CHECK(columns.number_count() == 1);
  const auto [ids, numbers] = columns(rows);
  CHECK(numbers.shape() == Shape({3, 1}));
  CHECK(numbers.to_vector<float>() == std::vector<float>{-1.5, 2.5, 23});
  const auto city = [](const char* name) {
    return 7 + static_cast<std::int64_t>(hash_of(name) % 10);
  };
  CHECK(ids.shape() == Shape({3, 4}));
  CHECK(list(ids) == Integers{0, 4 + 1, city("Rome"), 17 + of_ids({0, 1}, 50), 2, 4 + 2,
                              city("Oslo"), 17 + of_ids({2, 2}, 50), 3, 4, city("Rome"),
                              17 + of_ids({3, 0}, 50)});
  CHECK(list(columns(rows[1]).ids) == list(ids(1)));
  CHECK(columns(rows[1]).numbers.shape() == Shape({1}));
  CHECK(columns(std::vector<CsvRow>{}).ids.shape() == Shape({0, 4}));
  const nn::EmbeddingBag wide(columns.size(), 1, nn::Bag::sum);
  CHECK(wide(ids).shape() == Shape({3, 1}));
}

TEST_CASE("empty cells have the value that the column says") {
  const auto rows = table("age,job,city\n17,cook,Rome\n, , \n");
  const data::Vocabulary jobs(Texts{"none", "cook"});
  const Column age = bucketized("age", {18, 25}).missing(20),
               job = categorical("job", jobs).missing("none");
  const Columns columns({age, numeric("age", 10).missing(12), job, hashed("city", 9).missing("?"),
                         crossed({age, job}, 50)});
  const auto [ids, numbers] = columns(rows);
  CHECK(numbers.to_vector<float>() == std::vector<float>{7, 2});
  const auto city = [](const char* name) {
    return 5 + static_cast<std::int64_t>(hash_of(name) % 9);
  };
  CHECK(list(ids) == Integers{0, 3 + 1, city("Rome"), 14 + of_ids({0, 1}, 50),  //
                              1, 3 + 0, city("?"), 14 + of_ids({1, 0}, 50)});
  check_refused<IoError>([&] { Columns({numeric("age")})(rows); },
                         "expected a number in column 'age', got ''");
  check_refused<IndexError>([&] { Columns({categorical("job", jobs)})(rows); },
                            "Columns: 'job': expected one of the 2 words");
  check_refused<Error>([&] { age.missing("x"); }, "missing: column: expected one of texts");
  check_refused<Error>([&] { job.missing(1.0); }, "missing: column: expected one of numbers");
  check_refused<Error>([&] { crossed({age}, 2).missing(1.0); },
                       "missing: column: expected one that is not crossed, got 'age'");
}

TEST_CASE("columns that do not fit are refused with the user's line") {
  const auto rows = table("age,job\nold,cook\n");
  check_refused<IoError>([&] { Columns({numeric("age")})(rows); },
                         "CsvRow: \"x.csv\": expected a number in column 'age', got 'old'");
  check_refused<Error>([&] { Columns({hashed("city", 2)})(rows); },
                       "CsvRow: column: expected one of age, job, got 'city'");
  check_refused<IndexError>([&] { Columns({categorical("job", data::Vocabulary())})(rows[0]); },
                            "Columns: 'job': expected one of the 0 words of its vocabulary, got "
                            "'cook'");
  check_refused<Error>([] { numeric("age", 0, 0); }, "numeric: deviation");
  check_refused<Error>([] { hashed("age", 0); }, "hashed: buckets");
  check_refused<Error>([] { bucketized("age", {2, 1}); }, "bucketized: boundaries");
  check_refused<Error>([] { crossed({numeric("age")}, 9); },
                       "crossed: parts: expected columns with ids, got 'age' with numbers");
  check_refused<Error>([] { crossed({}, 9); }, "crossed: parts");
}
}  // namespace reel::tests
