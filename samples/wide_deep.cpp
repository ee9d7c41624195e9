// SPDX-License-Identifier: BSD-3-Clause
// A wide and deep model (Cheng et al. 2016) learns from a table, which the sample makes, whether a
// person installs an app. The wide part is linear over ids and pairs of ids: it remembers
// exceptions. The deep part is a network over vectors of ids: it generalizes.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "options.hpp"

using namespace reel;
namespace features = reel::data::features;

struct Options : CommonOptions {
  std::int64_t rows = 100'000, epochs = 8, batch = 100, width = 8, hidden = 32;
  double rate = 3e-3;
  std::string table = (std::filesystem::temp_directory_path() / "reel_wide_deep.csv").string();
};

constexpr int apps = 40, jobs = 30, countries = 20;

/// Writes the table, and returns which share of its rows the true probabilities tell. Jobs and apps
/// have three numbers each and fit or do not. A fifth of all pairs country, app are exceptions.
double write_table(const Options& options) {
  std::mt19937_64 random(options.seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto numbers = [&](std::size_t count, double size) {
    std::vector<double> x(count);
    for (double& number : x) number = size * (2 * uniform() - 1);
    return x;
  };
  auto of_job = numbers(3 * jobs, 2.5), of_app = numbers(3 * apps, 2.5),
       exceptions = numbers(countries * apps, 1);
  for (double& pair : exceptions) pair = std::abs(pair) < 0.8 ? 0 : std::copysign(6, pair);
  std::ofstream file(options.table);
  file << "age,job,country,app,installed\n";
  std::int64_t right = 0;
  for (std::int64_t row = 0; row < options.rows; ++row) {
    const auto job = random() % jobs, country = random() % countries, app = random() % apps;
    const auto age = 15 + random() % 60;
    double score = exceptions[country * apps + app] + std::sin(static_cast<double>(age) / 8);
    for (std::size_t i = 0; i < 3; ++i) score += of_job[3 * job + i] * of_app[3 * app + i];
    const bool installed = uniform() < 1 / (1 + std::exp(-score));
    right += installed == (score > 0);
    file << fmt::format("{},job {},country {},app {},{:d}\n", age, job, country, app, installed);
  }
  if (!file) throw std::runtime_error("cannot write " + options.table);
  return static_cast<double>(right) / static_cast<double>(options.rows);
}

/// Rows of the table, as the parts of the model see them.
struct Rows {
  Tensor wide_ids, deep_ids, numbers, installed;
  REEL_FIELDS(wide_ids, deep_ids, numbers, installed)
  Rows operator()(const Range& rows) const {
    return {wide_ids(rows), deep_ids(rows), numbers(rows), installed(rows)};
  }
};
struct Table {
  features::Columns wide, deep;
  Rows rows;
};

Table read_table(const std::string& path) {
  using namespace features;
  data::WordCounts names;
  std::vector<data::CsvRow> rows;
  for (const data::CsvRow& row : data::csv({path})) names.add(rows.emplace_back(row)["app"]);
  const data::Vocabulary app_names(names, {.unknown = "another app"});
  const auto age = bucketized("age", {20, 30, 40, 50, 60}), job = hashed("job", 200),
             country = hashed("country", 200), app = categorical("app", app_names);
  const features::Columns wide({age, job, country, app, crossed({country, app}, 4000)}),
      deep({numeric("age", 45, 17), job, country, app}), installed({numeric("installed")});
  const features::Inputs of_wide = wide(rows), of_deep = deep(rows);
  return {wide, deep, {of_wide.ids, of_deep.ids, of_deep.numbers, installed(rows).numbers(all, 0)}};
}

struct Wide {
  nn::EmbeddingBag weights;
  Wide(const Table& table) : weights(table.wide.size(), 1, nn::Bag::sum) {
    weights.rows.table.assign(0);
  }
  REEL_FIELDS(weights)
  Tensor operator()(const Rows& rows) const { return weights(rows.wide_ids)(all, 0); }
};

struct Deep {
  nn::Embedding vectors;
  nn::Linear first, second, head;
  Deep(const Table& table, std::int64_t width, std::int64_t hidden)
      : vectors(table.deep.size(), width),
        first(table.deep.id_count() * width + table.deep.number_count(), hidden, Activation::relu),
        second(hidden, hidden, Activation::relu),
        head(hidden, 1) {}
  REEL_FIELDS(vectors, first, second, head)
  Tensor operator()(const Rows& rows) const {
    const Tensor of_ids = vectors(rows.deep_ids).reshape({rows.deep_ids.shape(0), -1});
    return head(second(first(concat({of_ids, rows.numbers}, 1))))(all, 0);
  }
};

struct WideDeep {
  Wide wide;
  Deep deep;
  REEL_FIELDS(wide, deep)
  Tensor operator()(const Rows& rows) const { return wide(rows) + deep(rows); }
};

/// Trains on nine tenths of the rows, and prints which share of the others is told.
template <class Model>
void train(const char* name, Model model, const Rows& rows, const Options& options) {
  const std::int64_t count = rows.installed.shape(0), held_out = count / 10;
  const Rows test = rows(range(0, held_out));
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  for (const Rows& batch : data::rows(rows(range(held_out, count)))
                               .shuffle({.seed = options.seed})
                               .batch(options.batch)
                               .repeat(options.epochs)) {
    GradientTape tape;
    adam.step(tape, binary_cross_entropy_with_logits(model(batch), batch.installed));
  }
  const Tensor right = (model(test) > 0) == (test.installed > 0.5);
  fmt::print("{:14} {:.1f} % of {} held out right\n", name,
             100 * mean(right.to(DType::float64)).template item<double>(), held_out);
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("Wide and deep parts of a model learn from a table.", options);
  line.add("--rows", options.rows, "of the table")->check(CLI::Range(10, 10'000'000));
  line.add("--epochs", options.epochs, "passes over the table")->check(CLI::PositiveNumber);
  line.add("--width", options.width, "numbers of each id's vector")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of the hidden layers")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "Adam's learning rate");
  line.add("--table", options.table, "file that is written and read");
  return line.run(argc, argv, [&] {
    const double most = write_table(options);
    const Table table = read_table(options.table);
    const auto deep = [&] { return Deep(table, options.width, options.hidden); };
    train("wide alone", Wide(table), table.rows, options);
    train("deep alone", deep(), table.rows, options);
    train("wide and deep", WideDeep{Wide(table), deep()}, table.rows, options);
    fmt::print("the true probabilities tell {:.1f} %\n", 100 * most);
  });
}
