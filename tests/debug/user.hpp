// SPDX-License-Identifier: BSD-3-Clause
// A user at a prompt, and what he sees.
#pragma once
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <streambuf>
#include <string>
#include <thread>
#include <utility>

#include "debug/support.hpp"

namespace reel::tests {
/// A stdin whose user types these lines, and then leaves. Before the first line he waits until
/// `ready` holds, for a minute at most.
class User : public std::streambuf {
 public:
  explicit User(std::string lines, std::function<bool()> ready = {})
      : lines_(std::move(lines)), ready_(std::move(ready)), before_(std::cin.rdbuf(this)) {
    std::cin.clear();
  }
  ~User() override {
    std::cin.rdbuf(before_);
    std::cin.clear();
  }
  std::atomic<bool> is_asked = false;

 private:
  int_type underflow() override {
    is_asked = true;
    for (int i = 0; i < 3000 && ready_ && !ready_(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ready_ = {};
    if (gptr() || lines_.empty()) return traits_type::eof();
    setg(lines_.data(), lines_.data(), lines_.data() + lines_.size());
    return traits_type::to_int_type(lines_[0]);
  }
  std::string lines_;
  std::function<bool()> ready_;
  std::streambuf* before_;
};
/// What is written to stdout by std::cout while it lives.
class CaughtCout {
 public:
  CaughtCout() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~CaughtCout() { std::cout.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};
/// What is written to stderr while it lives.
class CaughtStderr {
 public:
  CaughtStderr()
      : path_((std::filesystem::temp_directory_path() / ("reel_stderr." + std::to_string(getpid())))
                  .string()),
        before_(dup(2)) {
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, 2);
    close(file);
  }
  ~CaughtStderr() {
    dup2(before_, 2);
    close(before_);
    std::filesystem::remove(path_);
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

 private:
  std::string path_;
  int before_;
};
}  // namespace reel::tests
