// SPDX-License-Identifier: BSD-3-Clause
// reel-diff: names the first op in which the logs of two runs differ. It reads what
// lib/debug/log.cpp and tools/torch_log.py write.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {
constexpr std::string_view title = "reel log 2";
constexpr std::size_t columns = 10;

constexpr std::string_view usage =
    R"(usage: reel-diff [--tolerance T] [--by op,line,shape] [--all] A B

Compares the logs of two runs, as REEL_DEBUG=log:FILE, debug::Log and tools/torch_log.py write them.
Results are matched by step, dtype, op, line and shape, and the order among equal ones. So one run
may have ops that the other does not, or another order. Names the first result that differs.
  --tolerance T   compares range and norm, relative to the norm, instead of each bit: for a CPU and
                  a GPU, two machines, or a run that is traced and one that is not
  --by NAMES      what must be equal for a match, some of op,line,shape (default: all three)
  --all           names every result that differs
The status is 0 if all that is in both is equal, 1 if not, 2 for an error.
)";

struct Failure {
  std::string text;
};
struct Result {
  std::int64_t step = 0, number = 0;
  std::string op, line, dtype, shape, hash;
  double low = 0, high = 0, norm = 0;
};
std::string printable(std::string_view text) {
  std::string safe;
  for (const char c : text.substr(0, 200))
    safe += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return safe;
}
std::vector<std::string> split(std::string_view text, char between) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == between)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}
template <class T>
T number(const std::string& word, const std::string& place) {
  T value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    throw Failure{place + ": expected a number, got \"" + printable(word) + "\""};
  return value;
}

struct Log {
  std::string writer;  // the library and the machine
  std::string edited;  // the first result that the user has set; "" if none
  std::vector<Result> results;
};
Log read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Failure{printable(path) + ": expected a file that can be read, got none"};
  std::string line;
  std::getline(file, line);
  if (line != title)
    throw Failure{fmt::format("{}: expected a log that begins with \"{}\", got \"{}\"",
                              printable(path), title, printable(line))};
  Log log;
  std::vector<Result>& all = log.results;
  std::getline(file, line);
  log.writer = printable(line.substr(std::min<std::size_t>(line.size(), 2)));
  std::getline(file, line);  // the names of the columns
  for (int n = 4; std::getline(file, line); ++n) {
    const std::string place = fmt::format("{}:{}", printable(path), n);
    if (constexpr std::string_view mark = "# edited: "; line.starts_with(mark)) {
      if (log.edited.empty()) log.edited = printable(line.substr(mark.size()));
      continue;
    }
    const std::vector<std::string> cells = split(line, '\t');
    if (cells.size() != columns) {
      if (file.eof()) {
        fmt::print(stderr, "{}: the last line was cut: left out\n", place);
        break;
      }
      throw Failure{fmt::format("{}: expected {} columns, got {}", place, columns, cells.size())};
    }
    all.push_back({number<std::int64_t>(cells[0], place), number<std::int64_t>(cells[1], place),
                   cells[2], cells[3], cells[4], cells[5], cells[9],
                   number<double>(cells[6], place), number<double>(cells[7], place),
                   number<double>(cells[8], place)});
  }
  return log;
}

struct Options {
  double tolerance = -1;
  bool op = true, line = true, shape = true, all = false;
  std::vector<std::string> files;
};
Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] {
      if (i + 1 >= count) throw Failure{word + ": expected a value, got the end"};
      return std::string(words[++i]);
    };
    if (word == "--help" || word == "-h") {
      fmt::print("{}", usage);
      std::exit(0);
    } else if (word == "--all") {
      options.all = true;
    } else if (word == "--tolerance") {
      options.tolerance = number<double>(value(), word);
      if (!(options.tolerance >= 0)) throw Failure{word + ": expected a number from 0 on"};
    } else if (word == "--by") {
      options.op = options.line = options.shape = false;
      for (const std::string& name : split(value(), ',')) {
        if (name != "op" && name != "line" && name != "shape")
          throw Failure{"--by: expected some of op,line,shape, got \"" + printable(name) + "\""};
        (name == "op" ? options.op : name == "line" ? options.line : options.shape) = true;
      }
    } else if (word.starts_with("-") && word != "-") {
      throw Failure{"expected an option that --help lists, got \"" + printable(word) + "\""};
    } else {
      options.files.push_back(word);
    }
  }
  if (options.files.size() != 2)
    throw Failure{fmt::format("expected two logs, got {}; --help says more", options.files.size())};
  return options;
}

bool equal(double a, double b, double scale) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= scale;
}
bool differ(const Result& a, const Result& b, double tolerance) {
  if (tolerance < 0 && a.hash != "0000000000000000" && b.hash != "0000000000000000")
    return a.hash != b.hash;
  const double scale = std::max(tolerance, 0.0) * std::max(std::abs(a.norm), std::abs(b.norm));
  return !equal(a.low, b.low, scale) || !equal(a.high, b.high, scale) ||
         !equal(a.norm, b.norm, scale);
}
std::string text_of(const Result& x) {
  return fmt::format("step {}, #{} {} at {}, {} ({})", x.step, x.number, printable(x.op),
                     printable(x.line), printable(x.dtype),
                     x.shape == "-" ? "" : printable(x.shape));
}

int compare(const Options& options) {
  const Log first = read(options.files[0]), second = read(options.files[1]);
  const std::vector<Result>&a = first.results, &b = second.results;
  const auto key = [&](const Result& x) {
    return fmt::format("{}\t{}\t{}\t{}\t{}", x.step, options.op ? x.op : "",
                       options.line ? x.line : "", options.shape ? x.shape : "",
                       options.op ? x.dtype : "");
  };
  std::map<std::string, std::vector<const Result*>> of_b;
  for (const Result& each : b) of_b[key(each)].push_back(&each);
  std::map<std::string, std::size_t> taken;
  std::size_t compared = 0, different = 0, only_a = 0;
  const Result* first_only_a = nullptr;
  for (const Result& x : a) {
    const std::string its = key(x);
    const auto found = of_b.find(its);
    const std::size_t at = taken[its]++;
    if (found == of_b.end() || at >= found->second.size()) {
      if (!only_a++) first_only_a = &x;
      continue;
    }
    const Result& y = *found->second[at];
    ++compared;
    if (!differ(x, y, options.tolerance)) continue;
    if (different++ && !options.all) continue;
    fmt::print("{}differs: {}\n", different == 1 ? "first " : "", text_of(x));
    if (x.line != y.line || x.op != y.op || x.number != y.number)
      fmt::print("  there it is {}\n", text_of(y));
    fmt::print("  from {:.9g} to {:.9g}, norm {:.9g}, hash {}\n", x.low, x.high, x.norm,
               printable(x.hash));
    fmt::print("  from {:.9g} to {:.9g}, norm {:.9g}, hash {}\n", y.low, y.high, y.norm,
               printable(y.hash));
  }
  const std::size_t only_b = b.size() - compared;
  if (only_a)
    fmt::print("{} are only in {}: first {}\n", only_a, printable(options.files[0]),
               text_of(*first_only_a));
  if (only_b) {
    for (const Result& y : b)
      if (const std::size_t count = taken.count(key(y)) ? taken[key(y)] : 0;
          count < of_b[key(y)].size()) {
        fmt::print("{} are only in {}: first of them like {}\n", only_b,
                   printable(options.files[1]), text_of(y));
        break;
      }
  }
  for (const auto& [log, file] : {std::pair(&first, 0), std::pair(&second, 1)})
    if (!log->edited.empty())
      fmt::print("{}: edited by its user, first at {}\n",
                 printable(options.files[static_cast<std::size_t>(file)]), log->edited);
  if (different && first.writer != second.writer) {
    fmt::print("{}: {}\n{}: {}\n", printable(options.files[0]), first.writer,
               printable(options.files[1]), second.writer);
    if (options.tolerance < 0)
      fmt::print("their sums may differ in the last bits: see --tolerance\n");
  }
  fmt::print("{} results compared, {} differ\n", compared, different);
  return different ? 1 : 0;
}
}  // namespace

int main(int count, char** words) try {
  return compare(parse(count, words));
} catch (const Failure& failure) {
  fmt::print(stderr, "reel-diff: {}\n", failure.text);
  return 2;
} catch (const std::exception& error) {
  fmt::print(stderr, "reel-diff: {}\n", error.what());
  return 2;
}
