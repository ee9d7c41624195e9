// SPDX-License-Identifier: BSD-3-Clause
#include "serve.hpp"

#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>

namespace harness {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(const Work& work, std::size_t times) {
  const auto start = Clock::now();
  work.run(times);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How often the work fits into a batch; doubling it also warms caches and free lists.
std::size_t batch_size(const Work& work, double batch_seconds) {
  work.run(4);  // a trace captures and checks in its first calls
  std::size_t times = 1;
  double taken = seconds(work, times);
  while (taken < batch_seconds / 2) {
    times *= 2;
    taken = seconds(work, times);
  }
  const double wanted = static_cast<double>(times) * batch_seconds / taken;
  return wanted < 1 ? 1 : static_cast<std::size_t>(wanted);
}

class Session {
 public:
  explicit Session(const Rows& rows) : rows_(rows) {}

  void answer(const std::string& line) {
    const auto tab = line.find('\t');
    const std::string command = line.substr(0, tab);
    if (command == "start") {
      const auto second = line.find('\t', tab + 1);
      start(line.substr(tab + 1, second - tab - 1), std::stod(line.substr(second + 1)) * 1e-3);
      std::printf("%zu\n", times_);
    } else if (command == "batch") {
      const double taken = seconds(work_.value(), times_);
      std::printf("%.6g\n", taken * 1e9 / static_cast<double>(times_) / row_->per);
    } else if (command == "value") {
      std::printf("%.9g\n", work_.value().value());
    } else if (command == "stop") {
      work_.reset();
      std::printf("stopped\n");
    } else {
      std::printf("error unknown command %s\n", command.c_str());
    }
  }

 private:
  void start(const std::string& name, double batch_seconds) {
    work_.reset();
    for (const Row& row : rows_) {
      if (row.name != name) continue;
      row_ = &row;
      work_ = row.prepare();
      times_ = batch_size(*work_, batch_seconds);
      return;
    }
    throw std::invalid_argument("no row " + name);
  }

  const Rows& rows_;
  const Row* row_ = nullptr;
  std::optional<Work> work_;
  std::size_t times_ = 1;
};

}  // namespace

int serve(const Rows& rows, const std::vector<std::pair<std::string, std::string>>& about) {
  for (const auto& [key, text] : about) std::printf("%s\t%s\n", key.c_str(), text.c_str());
  for (const Row& row : rows) std::printf("row\t%s\n", row.name.c_str());
  std::printf("ready\n");
  std::fflush(stdout);
  Session session(rows);
  for (std::string line; std::getline(std::cin, line);) {
    try {
      session.answer(line);
    } catch (const std::exception& error) {
      std::string text = error.what();
      for (char& letter : text) letter = letter == '\n' ? ' ' : letter;
      std::printf("error %s\n", text.c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace harness
