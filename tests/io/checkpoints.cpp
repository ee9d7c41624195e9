// SPDX-License-Identifier: BSD-3-Clause
// R21: after a kill a run continues with the same bits, and every checkpoint is complete.
#include <fcntl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/system_calls.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
namespace fs = std::filesystem;
bool is_long() { return std::getenv("REEL_TEST_LONG") != nullptr; }

struct Model {
  nn::Linear hidden{4, 16, Activation::tanh}, head{16, 1};
  nn::Dropout dropout{0.3};
  Buffer mean{"mean", zeros({4})};
  REEL_FIELDS(hidden, head, dropout, mean)
  Tensor operator()(const Tensor& x) {
    mean.assign(mean * 0.9 + reel::mean(x, 0) * 0.1);
    return head(dropout(hidden(x - mean)));
  }
};
struct Progress {
  Tensor order;  // of the samples in this epoch
  std::int64_t epochs = 0;
  double best = 1e9;
  REEL_FIELDS(order, epochs, best)
};
constexpr int samples = 40, batch = 5, steps_an_epoch = samples / batch, steps = 300;

/// Trains from the latest checkpoint. Calls tell(step, loss) after each step.
template <class Tell>
void train(const std::string& folder, const Tell& tell) {
  const GeneratorScope start(Generator(4));
  const Tensor x = random::normal({samples, 4}), y = sum(x * x, 1, keepdims);
  Model model;
  optim::AdamW adam(parameters(model), {.learning_rate = 0.05});
  Generator noise(11), shuffle(12);
  Progress progress;
  std::int64_t step = 0;
  const io::Checkpoints checkpoints(folder, {.keep = 2, .every = 3});
  checkpoints.resume(step, model, adam, noise, shuffle, progress);
  const GeneratorScope drawing(noise);
  while (step < steps) {
    if (step % steps_an_epoch == 0) {
      const GeneratorScope scope(shuffle);
      progress.order = random::permutation(samples);
      ++progress.epochs;
    }
    const std::int64_t first = step % steps_an_epoch * batch;
    const Tensor picked = progress.order(range(first, first + batch));
    adam.learning_rate().assign(
        0.05 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / steps)));
    GradientTape tape;
    const Tensor loss = mean(square(model(take(x, picked)) - take(y, picked)));
    adam.step(tape.gradient(loss, parameters(model)));
    const float value = loss.item<float>();
    progress.best = std::min(progress.best, static_cast<double>(value));
    tell(++step, value);
    checkpoints.save(step, model, adam, noise, shuffle, progress);
  }
  tell(steps + 1, static_cast<float>(progress.best));
  tell(steps + 2, static_cast<float>(progress.epochs));
}

/// Weights that all hold the number of the step in which they were saved.
struct Marked {
  std::vector<Variable> weights;
  optim::SGD sgd;
  explicit Marked(double mark)
      : weights{Variable("a", full({7}, mark)), Variable("b", full({3, 5}, mark)),
                Variable("c", full({2000}, mark))},
        sgd(weights, {.momentum = 0.5}) {}
  REEL_FIELDS(weights, sgd)
};
/// Checks that all parts of a checkpoint come from one save. Returns its step.
std::int64_t whole_step(const std::string& path) {
  const Marked marked(-1);
  double mark = -1;
  Generator generator(0);
  io::load(path, marked, generator, mark);
  for (const Variable& w : marked.weights) REQUIRE(equal(w, full(w.shape(), mark)));
  REQUIRE(generator.seed() == static_cast<std::uint64_t>(mark));
  return static_cast<std::int64_t>(mark);
}
void save_marked(const io::Checkpoints& checkpoints, std::int64_t step) {
  const auto mark = static_cast<double>(step);
  checkpoints.save(step, Marked(mark), Generator(static_cast<std::uint64_t>(step)), mark);
}
}  // namespace

TEST_CASE("a run that is killed again and again has the same losses, bit by bit", "[cpu][fork]") {
  const Folder whole, killed;
  std::map<std::int64_t, float> wanted;
  train(whole.path, [&](std::int64_t step, float loss) { wanted[step] = loss; });
  REQUIRE(wanted.size() == steps + 2);
  const std::string log = killed.file("log");
  std::mt19937 random(3);
  int kills = 0;
  for (bool ended = false; !ended;) {
    // The child ends some microseconds after a random number of steps, wherever it is then.
    int left = static_cast<int>(random() % 40);
    const itimerval moment{{}, {0, 1 + static_cast<suseconds_t>(random() % 300)}};
    const pid_t child = fork();
    if (child == 0) {
      const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      if (left == 0) setitimer(ITIMER_REAL, &moment, nullptr);
      train(killed.file("checkpoints"), [&](std::int64_t step, float loss) {
        const std::int64_t line[2] = {step, std::bit_cast<std::int32_t>(loss)};
        if (::write(file, line, sizeof line) != sizeof line) _exit(2);
        if (--left == 0) setitimer(ITIMER_REAL, &moment, nullptr);
      });
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ended = WIFEXITED(status);
    if (ended)
      REQUIRE(WEXITSTATUS(status) == 0);
    else
      ++kills;
  }
  const std::string lines = contents(log);
  REQUIRE(lines.size() % 16 == 0);
  std::map<std::int64_t, float> seen;
  for (std::size_t at = 0; at < lines.size(); at += 16) {
    std::int64_t line[2];
    std::memcpy(line, lines.data() + at, sizeof line);
    const float loss = std::bit_cast<float>(static_cast<std::int32_t>(line[1]));
    INFO("step " << line[0]);
    REQUIRE(loss == wanted[line[0]]);
    seen[line[0]] = loss;
  }
  CHECK(seen.size() == wanted.size());
  CHECK(kills > 3);
}

TEST_CASE("a process that is killed while it saves leaves whole checkpoints", "[cpu][fork]") {
  const Folder folder;
  const io::Checkpoints checkpoints(folder.path, {.keep = 3});
  save_marked(checkpoints, 1);
  std::mt19937 random(8);
  std::int64_t last = 1;
  const int rounds = is_long() ? 10'000 : 300;
  for (int i = 0; i < rounds; ++i) {
    const pid_t child = fork();
    if (child == 0)
      for (std::int64_t step = last + 1;; ++step) save_marked(checkpoints, step);
    usleep(static_cast<useconds_t>(random() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::int64_t step = whole_step(checkpoints.latest());
    REQUIRE(step >= last);
    last = step;
    int finished = 0;
    for (const auto& entry : fs::directory_iterator(folder.path)) {
      const bool is_new = entry.path().extension() == ".new";
      if (is_new) continue;
      ++finished;
      whole_step(entry.path());
    }
    // there are more than usual if it was killed before it removed the oldest
    REQUIRE(finished <= 10);
  }
  CHECK(last > 1);
  for (int i = 1; i <= 2; ++i) save_marked(checkpoints, last + i);  // removes incomplete files
  CHECK(folder.count() == 3);
}

TEST_CASE("a process that is killed at any system call of a save leaves whole checkpoints",
          "[cpu][fork]") {
  int killed = 0;
  for (const bool after : {false, true})
    for (int k = 0;; ++k) {
      const Folder folder;
      const io::Checkpoints checkpoints(folder.path, {.keep = 1});
      save_marked(checkpoints, 1);
      const pid_t child = fork();
      if (child == 0) {
        system_calls = {
            .until_failure = k, .kills = true, .kills_after = after, .most_bytes = 4000};
        const Armed armed;
        save_marked(checkpoints, 2);
        _exit(0);
      }
      int status = -1;
      REQUIRE(waitpid(child, &status, 0) == child);
      const std::int64_t step = whole_step(checkpoints.latest());
      CHECK((step == 1 || step == 2));
      save_marked(checkpoints, 3);
      CHECK(whole_step(checkpoints.latest()) == 3);
      CHECK(folder.count() == 1);
      if (WIFEXITED(status)) break;
      ++killed;
    }
  CHECK(killed > 15);
}

TEST_CASE("a folder keeps the latest checkpoints, every so many steps") {
  const Folder folder;
  const std::string path = folder.file("runs/a");
  const io::Checkpoints checkpoints(path + "/", {.keep = 2, .every = 5});
  CHECK(checkpoints.latest().empty());
  nn::Linear model(2, 1);
  Generator generator(5);
  std::int64_t step = 7;
  CHECK_FALSE(checkpoints.resume(step, model, generator));
  CHECK(step == 7);
  for (int i = 1; i <= 22; ++i) {
    model.weight.assign(i);
    generator.set_position(static_cast<std::uint64_t>(i));
    CHECK(checkpoints.save(i, model, generator) == (i % 5 == 0));
  }
  CHECK(checkpoints.latest() == path + "/step-000000000020.safetensors");
  CHECK(std::distance(fs::directory_iterator(path), fs::directory_iterator()) == 2);
  CHECK(fs::exists(path + "/step-000000000015.safetensors"));
  int small = 0;
  CHECK(checkpoints.resume(small, model, generator));
  CHECK(small == 20);
  CHECK(equal(model.weight, full({2, 1}, 20)));
  CHECK(generator.position() == 20);
  CHECK(checkpoints.save(20, model));  // the same step once more
  // Other files are not removed.
  write_file(path + "/step-000000000099.safetensors.bak", "");
  write_file(path + "/step-x.safetensors", "");
  write_file(path + "/notes", "");
  CHECK(checkpoints.latest() == path + "/step-000000000020.safetensors");
  CHECK(checkpoints.save(25, model));
  CHECK(std::distance(fs::directory_iterator(path), fs::directory_iterator()) == 5);
  io::load(checkpoints.latest(), model);
  check_refused<Error>([&] { checkpoints.save(10, model); }, "expected 25 or later, got 10");
  check_refused<Error>([&] { checkpoints.save(-5, model); }, "0 or more");
  check_refused<Error>([&] { io::Checkpoints(path, {.keep = 0}); }, "keep");
  check_refused<Error>([&] { io::Checkpoints(path, {.every = 0}); }, "every");
  check_refused<IoError>([&] { io::Checkpoints(""); }, "byte 0");
  check_refused<IoError>([&] { io::Checkpoints(path + "/notes/a"); }, "a folder that can be made");
  check_refused<IoError>([&] { io::Checkpoints(path + "/notes"); }, "a folder");
  check_refused<IoError>([&] { checkpoints.resume(step, model, generator); }, "1 missing");
  fs::remove_all(path);
  check_refused<IoError>([&] { checkpoints.save(30, model); }, "a folder to read");
}

TEST_CASE("a run is not resumed without a part that its checkpoint has") {
  const Folder folder;
  const io::Checkpoints checkpoints(folder.path);
  nn::Linear model(2, 1), fresh(2, 1);
  optim::SGD sgd(parameters(model)), other(parameters(fresh));
  Generator generator(5), second(1);
  double best = 0.5, read = 0;
  checkpoints.save(3, model, sgd, generator, best);
  std::int64_t step = 0;
  const auto refuse = [&](const std::string& counts, const std::string& line, auto&... parts) {
    std::string text;
    try {
      checkpoints.resume(step, parts...);
    } catch (const IoError& error) {
      text = error.what();
    }
    INFO(text);
    CHECK(text.find("Checkpoints: \"step-000000000003.safetensors\": expected what the program "
                    "has, by name, shape and dtype, got " +
                    counts) != text.npos);
    CHECK(text.find("\n  unexpected: " + line) != text.npos);
    CHECK(step == 0);
  };
  refuse("1 unexpected", "optimizer.learning_rate: () float64", fresh, second, read);
  refuse("1 unexpected", "generator 0", fresh, other, read);
  refuse("1 unexpected", "value 0: float 0.5", fresh, other, second);
  refuse("3 unexpected", "value 0: float 0.5", fresh);
  CHECK(checkpoints.resume(step, {.strict = false}, fresh));
  CHECK(step == 3);
  CHECK(equal(fresh.weight, model.weight));
  CHECK(checkpoints.resume(step, fresh, other, second, read));
  CHECK((read == 0.5 && second.seed() == 5));
}

TEST_CASE("step 0 is a checkpoint, and a file of another name is none") {
  const Folder folder;
  const io::Checkpoints checkpoints(folder.path, {.keep = 1});
  const nn::Linear model(1, 1);
  CHECK(checkpoints.save(0, model));
  CHECK(checkpoints.latest() == folder.file("step-000000000000.safetensors"));
  write_file(folder.file("best-000000000030.safetensors"), "");
  CHECK(checkpoints.latest() == folder.file("step-000000000000.safetensors"));
  CHECK(checkpoints.save(1, model));
  CHECK(names_in(folder.path) ==
        std::vector<std::string>{"best-000000000030.safetensors", "step-000000000001.safetensors"});
  // An error of an earlier system call is none of this one.
  errno = ENOMEM;
  const std::string latest = checkpoints.latest();
  CHECK(latest == folder.file("step-000000000001.safetensors"));
}

TEST_CASE("files of killed writers are no checkpoints, and the next save removes them") {
  const Folder folder;
  const io::Checkpoints checkpoints(folder.path, {.keep = 2});
  const nn::Linear model(1, 1);
  const auto step = [](int n) { return "step-00000000000" + std::to_string(n) + ".safetensors"; };
  const auto add = [&](const std::string& name) { write_file(folder.file(name.c_str()), "part"); };
  checkpoints.save(3, model);
  const std::vector<std::string> others = {"notes.new", "step-5.txt.a1.new", step(5) + ".bak",
                                           "step-x.safetensors.a1.new"};
  for (const std::string& other : others) add(other);
  for (const int n : {2, 4, 9}) add(step(n) + ".a1b2c3.new");
  CHECK(checkpoints.latest() == folder.file(step(3).c_str()));
  checkpoints.save(4, model);  // 9 is not a later checkpoint
  std::vector<std::string> wanted = others;
  wanted.insert(wanted.end(), {step(3), step(4), step(4) + ".a1b2c3.new"});
  std::sort(wanted.begin(), wanted.end());
  CHECK(names_in(folder.path) == wanted);  // another writer may be at step 4
  checkpoints.save(5, model);
  wanted = others;
  wanted.insert(wanted.end(), {step(4), step(5)});
  std::sort(wanted.begin(), wanted.end());
  CHECK(names_in(folder.path) == wanted);
}

TEST_CASE("the folder of checkpoints is made whole, or its path is in the error") {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  const io::Checkpoints relative("a/b/c");
  fs::current_path(before);
  CHECK(fs::is_directory(folder.path / "a" / "b" / "c"));
  write_file(folder.file("notes"), "");
  check_refused<IoError>([&] { io::Checkpoints(folder.file("notes") + "/"); },
                         "Checkpoints: \"notes/\": expected a folder, got something else");
  check_refused<IoError>([&] { io::Checkpoints(""); }, "a path without a byte 0, got none");
  check_refused<IoError>([&] { io::Checkpoints(std::string(1, '\0')); },
                         "a path without a byte 0, got one with it");
}
}  // namespace reel::tests
