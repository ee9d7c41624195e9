// SPDX-License-Identifier: BSD-3-Clause
// Random programs of two to four threads. Tapes of each thread follow tensors of the other threads.
// The reference computes derivatives forward, and knows which values another thread computed from
// tensors that a tape follows.
#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// A thread that runs the given calls one after the other.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() {
    give(nullptr);
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void run(const detail::Function<void()>& call) {
    give(&call);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void give(const detail::Function<void()>* call) {
    const std::lock_guard lock(mutex_);
    call_ = call;
    waiting_ = true;
    changed_.notify_all();
  }
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return waiting_; });
      if (!call_) return;
      try {
        (*call_)();
      } catch (...) {
        error_ = std::current_exception();
      }
      waiting_ = false;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  const detail::Function<void()>* call_ = nullptr;
  std::exception_ptr error_;
  bool waiting_ = false;
  std::thread thread_;
};

struct Value {
  Tensor tensor;
  double number = 0;
  std::map<int, double> slopes;  // by the serial number of each tape that follows it
  // serial numbers of tapes that lost the derivative, because another thread computed the value
  std::set<int> lost;
};
struct Tape {
  int serial;
  std::size_t thread;
  std::unique_ptr<GradientTape> tape;
  std::unique_ptr<GradientTape::Pause> pause;
  Tensor source;
};

class Program {
 public:
  Program(unsigned seed, int actions) : random_(seed), workers_(2 + seed % 3) {
    for (const double number : {0.7, -0.4, 1.1})
      values_.push_back({tensor<double>({number}), number, {}, {}});
    variable_.emplace("v", tensor<double>({0.3}));
    kept_ = {Tensor(), 0.3, {}, {}};
    traced_ = trace([](const Tensor& x, const Tensor& y) { return tanh(x * y + x); });
    for (int i = 0; i < actions; ++i) {
      INFO("seed " << seed << ", action " << i);
      act();
    }
    while (!tapes_.empty()) end_tape(tapes_.size() - 1);
  }
  int gradients = 0, refused = 0, passed = 0;

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  Value& some() { return values_[below(values_.size())]; }

  void act() {
    const std::size_t thread = below(workers_.size()), what = below(20);
    if (what < 3) return open_tape(thread);
    if (what < 5 && !tapes_.empty()) return take_gradient(below(tapes_.size()));
    if (what == 5 && !tapes_.empty()) return end_tape(below(tapes_.size()));
    if (what == 6 && !tapes_.empty()) return turn_pause(tapes_[below(tapes_.size())]);
    if (what == 7) return stop(thread);
    if (what == 8) return assign(thread);
    if (what == 9) return read(thread);
    compute(thread, what);
  }

  void open_tape(std::size_t thread) {
    if (tapes_.size() > 7) return;
    Tape tape{serials_++, thread, nullptr, nullptr, some().tensor};
    owner_[tape.serial] = thread;
    const bool persistent = below(2) == 0;
    workers_[thread].run([&] {
      tape.tape = std::make_unique<GradientTape>(
          TapeOptions{.persistent = persistent, .watch_variables = false});
      tape.tape->watch(tape.source);
    });
    make_source(tape);
    tapes_.push_back(std::move(tape));
  }
  void make_source(const Tape& tape) {
    for (Value& value : values_) {
      if (Access::body(value.tensor) != Access::body(tape.source)) continue;
      value.slopes[tape.serial] = 1;
      value.lost.erase(tape.serial);
    }
  }
  void end_tape(std::size_t i) {
    workers_[tapes_[i].thread].run([&] {
      tapes_[i].pause.reset();
      tapes_[i].tape.reset();
    });
    for (Value& value : values_) value.slopes.erase(tapes_[i].serial);
    tapes_.erase(tapes_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void turn_pause(Tape& tape) {
    workers_[tape.thread].run([&] {
      if (tape.pause)
        tape.pause.reset();
      else
        tape.pause.reset(new GradientTape::Pause(tape.tape->pause()));
    });
  }
  bool follows(const Tape& tape, std::size_t thread) const {
    return tape.thread == thread && !tape.pause;
  }
  /// f must throw a TapeError if an input lost the derivative of a tape that records on this
  /// thread. f may throw one if an input lost the derivative of another tape of this thread.
  /// Returns whether f threw nothing.
  bool runs(std::size_t thread, const std::vector<const Value*>& inputs, const Tape* played,
            const detail::Function<void()>& f) {
    bool must = false, may = false;
    for (const Value* input : inputs) {
      for (const int serial : input->lost) may = may || owner_[serial] == thread;
      for (const Tape& tape : tapes_)
        must =
            must || (input->lost.count(tape.serial) && (follows(tape, thread) || &tape == played));
    }
    bool threw = false;
    try {
      workers_[thread].run(f);
    } catch (const TapeError&) {
      threw = true;
    }
    CHECK((must ? threw : may || !threw));
    ++(threw ? refused : passed);
    return !threw;
  }
  /// A value that this thread computes. Tapes of other threads that followed an input lose its
  /// derivative.
  Value from(std::size_t thread, const std::vector<const Value*>& inputs) const {
    Value made;
    for (const Value* input : inputs) {
      made.lost.insert(input->lost.begin(), input->lost.end());
      for (const Tape& tape : tapes_)
        if (tape.thread != thread && input->slopes.count(tape.serial))
          made.lost.insert(tape.serial);
    }
    return made;
  }
  void keep(Value value) {
    if (values_.size() < 12)
      values_.push_back(std::move(value));
    else
      some() = std::move(value);
  }

  void compute(std::size_t thread, std::size_t what) {
    const Value a = some(), b = some();
    Value made = from(thread, {&a, &b});
    double by_a, by_b;
    detail::Function<Tensor()> f;
    if (what < 13) {
      made.number = a.number * b.number, by_a = b.number, by_b = a.number;
      f = [&] { return a.tensor * b.tensor; };
    } else if (what < 15) {
      made.number = a.number - b.number, by_a = 1, by_b = -1;
      f = [&] { return transpose(reshape(a.tensor, {1, 1}) - b.tensor)(0); };
    } else {
      made.number = std::tanh(a.number * b.number + a.number);
      const double outer = 1 - made.number * made.number;
      by_a = outer * (b.number + 1), by_b = outer * a.number;
      if (what < 18)
        f = [&] { return traced_(a.tensor, b.tensor); };
      else
        f = [&] { return tanh(a.tensor * b.tensor + a.tensor); };
    }
    if (!runs(thread, {&a, &b}, nullptr, [&] { made.tensor = f(); })) return;
    CHECK(made.tensor.item<double>() == Approx(made.number));
    for (const Tape& tape : tapes_) {
      const auto in_a = a.slopes.find(tape.serial), in_b = b.slopes.find(tape.serial);
      const bool has_a = in_a != a.slopes.end(), has_b = in_b != b.slopes.end();
      if (!follows(tape, thread) || (!has_a && !has_b)) continue;
      made.slopes[tape.serial] =
          (has_a ? by_a * in_a->second : 0) + (has_b ? by_b * in_b->second : 0);
    }
    keep(std::move(made));
  }
  void stop(std::size_t thread) {
    const Value a = some();
    Value made;
    made.number = a.number;
    workers_[thread].run([&] { made.tensor = stop_gradient(a.tensor); });
    keep(std::move(made));
  }
  /// Tapes do not follow what is assigned, but marks are kept.
  void assign(std::size_t thread) {
    const Value a = some();
    const bool adds = below(2) == 0;
    workers_[thread].run(
        [&] { adds ? variable_->assign_add(a.tensor) : variable_->assign(a.tensor); });
    Value made = from(thread, {&a});
    made.number = a.number;
    if (adds) {
      made.number += kept_.number;
      made.lost.insert(kept_.lost.begin(), kept_.lost.end());
    }
    kept_ = std::move(made);
    if (std::abs(kept_.number) < 3) return;
    workers_[thread].run([&] { variable_->assign(0.3); });
    kept_ = {Tensor(), 0.3, {}, {}};
  }
  void read(std::size_t thread) {
    const Value a = kept_;
    Value made = from(thread, {&a});
    made.number = 2 * a.number;
    if (runs(thread, {&a}, nullptr, [&] { made.tensor = *variable_ * 2; })) keep(std::move(made));
  }
  void take_gradient(std::size_t i) {
    Tape& tape = tapes_[i];
    const Value target = some();
    Tensor got;
    if (runs(tape.thread, {&target}, &tape,
             [&] { got = tape.tape->gradient(target.tensor, tape.source, Unconnected::zero); })) {
      const auto slope = target.slopes.find(tape.serial);
      CHECK(got.item<double>() ==
            Approx(slope == target.slopes.end() ? 0 : slope->second).epsilon(1e-9).margin(1e-12));
      ++gradients;
    }
    end_tape(i);
  }

  std::mt19937 random_;
  std::vector<Worker> workers_;
  std::vector<Value> values_;
  std::vector<Tape> tapes_;
  std::map<int, std::size_t> owner_;  // the thread of each tape, ended ones included
  int serials_ = 0;
  std::optional<Variable> variable_;
  Value kept_;  // the value of the Variable
  detail::Function<Tensor(const Tensor&, const Tensor&)> traced_;
};
}  // namespace

TEST_CASE("programs of several threads give the right gradient or a TapeError", "[threads]") {
  const unsigned count = sanitized ? 30 : std::getenv("REEL_TEST_LONG") ? 20'000 : 300;
  int gradients = 0, refused = 0, passed = 0;
  for (unsigned seed = 0; seed < count; ++seed) {
    const Program program(seed, 120);
    gradients += program.gradients;
    refused += program.refused;
    passed += program.passed;
  }
  INFO("gradients " << gradients << ", refused " << refused << ", passed " << passed);
  CHECK(gradients > static_cast<int>(count));
  CHECK(refused > static_cast<int>(count));
  CHECK(passed > 2 * refused);
}
}  // namespace reel::tests
