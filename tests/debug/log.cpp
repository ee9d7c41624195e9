// SPDX-License-Identifier: BSD-3-Clause
// Logs of two runs, and reel-diff.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "debug/programs.hpp"
#include "debug/user.hpp"
#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}
struct Run {
  bool traced = false;
  int threads = 1;
  int ulp_in_step = -1;
};
/// Logs five steps of training.
void log_run(const std::string& path, Run run) {
  seed(5);
  const int threads = num_threads();
  set_num_threads(run.threads);
  nn::Linear hidden(4, 8, Activation::tanh), head(8, 3);
  const std::vector<Variable> all = {hidden.weight, hidden.bias, head.weight, head.bias};
  const Tensor labels = random::integers(0, 3, {5});
  const std::vector<float> inputs = random::normal({5, 4}).to_vector<float>();
  const auto body = [&](const Tensor& x) {
    GradientTape tape;
    Tensor loss = nn::cross_entropy(head(hidden(x)), labels);
    const std::vector<Tensor> gradients = tape.gradient(loss, all);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].assign_sub(gradients[i] * 0.5);
    return loss;
  };
  auto step = trace<Tensor(Tensor)>(body);
  const debug::Log log(path);
  for (int i = 0; i < 5; ++i) {
    std::vector<float> numbers = inputs;
    if (i == run.ulp_in_step) numbers[7] = std::nextafterf(numbers[7], 10.0f);
    const Tensor x = tensor(numbers).reshape({5, 4});
    run.traced ? step(x) : body(x);
  }
  set_num_threads(threads);
}
}  // namespace

TEST_CASE("a log has a line for each result") {
  const std::string path = log_file("a");
  {
    const debug::Log log(path);
    const Tensor x = tensor({1.0f, 2.0f, -3.0f});
    const Tensor y = x * 2;
  }
  // The hash is that of tools/torch_log.py, which tests/debug/torch_log.py checks.
  const std::string text = content(path);
  CHECK(text.starts_with("reel log 2\n# reel on "));
  CHECK(has(text, "\nstep\tnumber\top\tline\tdtype\tshape\tlow\thigh\tnorm\thash\n"));
  CHECK(has(text, "0\t1\tmultiply\tlog.cpp:58\tfloat32\t3\t-6\t4\t7.48331477\t53c63dacba03863f\n"));
  CHECK(has(error_text([] { const debug::Log log("/nowhere/x.log"); }),
            "Log: path: expected a file that can be written, got \"/nowhere/x.log\""));
  std::filesystem::remove(path);
}

TEST_CASE("reel-diff names the first op that differs") {
  const std::string a = log_file("a"), b = log_file("b");
  log_run(a, {});
  log_run(b, {});
  const std::string both = "'" + a + "' '" + b + "'";
  CHECK(has(diff(both), " 0 differ\nstatus 0"));
  log_run(b, {.ulp_in_step = 2});
  const std::string ulp = diff(both);
  INFO(ulp);
  CHECK(has(ulp, "first differs: step 1, #23 reshape at log.cpp:46"));
  CHECK(has(ulp, "status 1"));
  CHECK(has(diff("--tolerance 1e-4 " + both), " 0 differ\nstatus 0"));
  CHECK(has(diff("--all " + both), "\ndiffers: step 2"));
  log_run(b, {.threads = 2});
  CHECK(has(diff(both), " 0 differ\nstatus 0"));
  log_run(b, {.traced = true});
  CHECK(has(diff("--tolerance 1e-5 " + both), " 0 differ\n"));
  std::filesystem::remove(a);
  std::filesystem::remove(b);
}

TEST_CASE("reel-diff compares logs of two instruction sets, and of two machines") {
  const std::string a = log_file("a"), b = log_file("b"),
                    program = build_folder() + "/tests/debug_program";
  const std::string both = "'" + a + "' '" + b + "'";
  const auto run = [&](const std::string& set, const std::string& path) {
    return std::system(
               (set + "REEL_DEBUG='log:" + path + "' '" + program + "' 5 >'" + path + ".out' 2>&1")
                   .c_str()) == 0;
  };
  REQUIRE(run("", a));
  int sets = 0;
  for (const std::string set : {"sse4", "avx2", "avx512", "neon"}) {
    if (!run("REEL_ISA=" + set + " ", b)) continue;  // not compiled, or not in this machine
    ++sets;
    CHECK(content(b).starts_with("reel log 2\n# reel on "));
    CHECK(has(content(b).substr(0, 60), ", " + set + "\n"));
    const std::string text = diff("--tolerance 1e-5 " + both);
    INFO(text);
    CHECK(has(text, " 0 differ\nstatus 0"));
    CHECK(!has(text, "are only in"));
  }
  CHECK(sets > 0);
  // Another machine: a sum has other bits.
  log_run(a, {});
  std::string text = content(a);
  const std::size_t writer = text.find("# "), end = text.find('\n', writer);
  text.replace(writer, end - writer, "# reel on riscv, rvv");
  std::size_t sum = text.find("\tmean\t");
  REQUIRE(sum != std::string::npos);
  sum = text.find('\n', sum) - 1;
  text[sum] = text[sum] == '0' ? '1' : '0';  // the last digit of the hash
  std::ofstream(b) << text;
  const std::string said = diff(both);
  INFO(said);
  CHECK(has(said, "first differs: step 0, #"));
  CHECK(has(said, " mean at log.cpp:"));
  CHECK(
      has(said, ".b: reel on riscv, rvv\ntheir sums may differ in the last bits: see --tolerance"));
  CHECK(has(said, " 1 differ\nstatus 1"));
  CHECK(has(diff("--tolerance 1e-5 " + both), " 0 differ\nstatus 0"));
  for (const std::string& path : {a, b}) std::filesystem::remove(path);
  for (const std::string& path : {a, b}) std::filesystem::remove(path + ".out");
}

TEST_CASE("a run that its user has edited says so, at the prompt and in its log") {
  const std::string a = log_file("a"), b = log_file("b");
  float sum_of_run = 0;
  const auto run = [&](const std::string& path, const char* lines) {
    const User user(lines);
    const CaughtCout shown;
    std::thread([&] {
      const debug::Log log(path);
      debug::cli();
      const Tensor y = tanh(tensor({1.0f, 2.0f}));
      sum_of_run = sum(y * 2.0f).item<float>();
    }).join();
    return shown.text();
  };
  const std::string edited = run(a, "run to tanh\nset #1 = 0.5\ninfo\ncont\n");
  INFO(edited);
  CHECK(sum_of_run == 2);
  CHECK(has(edited, "The run is edited: the program goes on with this value."));
  CHECK(has(edited, "edited: `set` has changed values of this run"));
  CHECK(has(content(a), "\n# edited: #1 tanh at log.cpp:"));
  CHECK(!has(run(b, "cont\n"), "edited"));
  const std::string said = diff("'" + a + "' '" + b + "'");
  INFO(said);
  CHECK(has(said, "first differs: step 0, #1 tanh"));
  CHECK(has(said, ".a: edited by its user, first at #1 tanh at log.cpp:"));
  for (const std::string& path : {a, b}) std::filesystem::remove(path);
}

TEST_CASE("reel-diff says what is wrong with a log") {
  const std::string a = log_file("a"), b = log_file("b");
  log_run(a, {});
  const std::string both = "'" + a + "' '" + b + "'";
  CHECK(has(diff(both), "expected a file that can be read, got none\nstatus 2"));
  std::ofstream(b) << "reel log 9\n";
  CHECK(has(diff(both), "expected a log that begins with \"reel log 2\", got \"reel log 9\""));
  const std::string text = content(a);
  std::ofstream(b) << text.substr(0, text.size() - 20);
  const std::string cut = diff(both);
  CHECK(has(cut, "1 are only in"));
  CHECK(has(cut, "the last line was cut: left out"));
  std::ofstream(b) << text.substr(0, 300) << "\nx\ty\n" << text.substr(300);
  CHECK(has(diff(both), "status 2"));
  CHECK(has(diff("--by colour " + both), "--by: expected some of op,line,shape, got \"colour\""));
  CHECK(has(diff("--tolerance -1 " + both), "expected a number from 0 on"));
  CHECK(has(diff("'" + a + "'"), "expected two logs, got 1"));
  CHECK(has(diff("--help"), "usage: reel-diff"));
  std::filesystem::remove(a);
  std::filesystem::remove(b);
}
}  // namespace reel::tests
