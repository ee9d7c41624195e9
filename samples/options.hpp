// SPDX-License-Identifier: BSD-3-Clause
// The command line of the samples.
#pragma once
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <reel/device.hpp>
#include <reel/device_scopes.hpp>
#include <reel/random.hpp>

/// The options that every sample has.
struct CommonOptions {
  std::uint64_t seed = 1;
  std::string device = "cpu";
};

/// The device of "cpu", "cuda" or "cuda:1".
inline reel::Device device_named(const std::string& name) {
  if (name == "cpu") return reel::cpu();
  if (name == "cuda") return reel::cuda(0);
  if (name.size() == 6 && name.starts_with("cuda:") && name[5] >= '0' && name[5] <= '9')
    return reel::cuda(name[5] - '0');
  throw std::invalid_argument("--device: expected cpu, cuda or cuda:1, got " + name);
}

/// Adds options to a command line, then runs the sample.
class CommandLine {
 public:
  CommandLine(const std::string& purpose, CommonOptions& common) : app_(purpose), common_(common) {}

  template <class T>
  CLI::Option* add(const char* name, T& value, const char* text) {
    return app_.add_option(name, value, text)->capture_default_str();
  }

  /// Reads the options and calls body() with the seed set, on the device. Prints errors; the result
  /// is that of main().
  int run(int argc, char** argv, const auto& body) try {
    add("--seed", common_.seed, "of all random numbers");
    add("--device", common_.device, "cpu, cuda or cuda:1");
    CLI11_PARSE(app_, argc, argv);
    const reel::DeviceScope device(device_named(common_.device));
    reel::seed(common_.seed);
    body();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return 1;
  }

 private:
  CLI::App app_;
  CommonOptions& common_;
};
