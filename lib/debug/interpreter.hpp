// SPDX-License-Identifier: BSD-3-Clause
// Reads commands, and answers them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "lib/debug/answer.hpp"
#include "lib/debug/moment.hpp"

namespace reel::debugger {
/// The words of a command.
class Words {
 public:
  explicit Words(std::string_view text);
  bool empty() const { return words_.empty(); }
  std::size_t size() const { return words_.size(); }
  const std::string& operator[](std::size_t i) const { return words_[i]; }
  /// The rest of the line, from word i on; "" if there is none.
  std::string from(std::size_t i) const;
  /// Removes `name=...`, and gives what follows; "" if there is none.
  std::string option(std::string_view name);
  bool flag(std::string_view name);
  /// A whole number from `least` on, or `otherwise`. Throws Mistake.
  std::int64_t number(std::size_t i, std::int64_t otherwise, std::int64_t least = 1) const;

 private:
  std::string text_;
  std::vector<std::string> words_;
  std::vector<std::size_t> places_;
};

class Interpreter {
 public:
  explicit Interpreter(Recorder& recorder) : recorder_(recorder) {}
  /// Never throws for what the user has written.
  Answer run(std::string_view command);
  /// The program has stopped: commands look at this result.
  void stopped(const Reason& reason);
  /// The program goes on: nothing is stopped.
  void goes_on() { is_stopped_ = false; }
  bool is_stopped() const { return is_stopped_; }

 private:
  using Handler = void (Interpreter::*)(Words& words, Answer& answer);
  struct Command {
    std::string_view name, arguments, help;
    Handler handler;
  };
  static const std::vector<Command>& commands();
  /// The command of that name, of a name of tfdbg, or of the beginning of a name. Throws Mistake.
  static const Command& command(std::string_view name);

  // interpreter.cpp
  void help(Words& words, Answer& answer);
  void config(Words& words, Answer& answer);
  void run_on(Words& words, Answer& answer);
  void step(Words& words, Answer& answer);
  void back(Words& words, Answer& answer);
  void go_on(Words& words, Answer& answer);
  void add_break(Words& words, Answer& answer);
  void remove(Words& words, Answer& answer);
  void except(Words& words, Answer& answer);
  void only(Words& words, Answer& answer);
  void eager(Words& words, Answer& answer);
  void look(Words& words, Answer& answer);
  void search(std::string_view pattern, Answer& answer);
  // look.cpp
  void info(Words& words, Answer& answer);
  void inputs(Words& words, Answer& answer);
  void tensors(Words& words, Answer& answer);
  void op(Words& words, Answer& answer);
  void from(Words& words, Answer& answer);
  void to(Words& words, Answer& answer);
  void variables(Words& words, Answer& answer);
  // show.cpp
  void print(Words& words, Answer& answer);
  void summary(Words& words, Answer& answer);
  void show(Words& words, Answer& answer);
  void eval(Words& words, Answer& answer);
  void try_value(Words& words, Answer& answer);
  void set_value(Words& words, Answer& answer);
  void replay(Words& words, Answer& answer);
  // program.cpp
  void source(Words& words, Answer& answer);
  void sources(Words& words, Answer& answer);
  void profile(Words& words, Answer& answer);
  void memory(Words& words, Answer& answer);
  void history(Words& words, Answer& answer);
  void draw(Words& words, Answer& answer);  // draw_step.cpp
  // gradients.cpp
  void path(Words& words, Answer& answer);
  void why(Words& words, Answer& answer);
  void gradients(Words& words, Answer& answer);
  void updates(Words& words, Answer& answer);

  /// The step that commands look at. Throws Mistake where it is gone.
  Step& looked();
  int node_of(std::string_view text);
  void require_stopped();
  void say_node(int node, Answer& answer);
  void tree(int root, int depth, bool down, Answer& answer);
  std::string text_of(const Input& input);
  std::vector<std::string> row_of(const Output& output) const;
  Statistics statistics_of_output(int node, int output);
  /// Steps from the loss back to a Variable, or to a result; nodes of the loss first. Empty: none.
  std::vector<int> path_to(int loss, std::string_view source);
  /// The gradient of the loss with respect to the result of a node; false: none was made.
  bool gradient_at(int node, Statistics& found);
  void go(Goal goal, Answer& answer);
  Stop parsed_stop(std::string_view text);
  std::pair<int, int> assigned(std::string_view text, Ref& value, Body*& whole);

  Recorder& recorder_;
  std::string reason_;
  std::int64_t step_ = -1;  // the one that commands look at; -1: the newest
  int cursor_ = -1;
  bool is_stopped_ = false;
  int next_stop_ = 1;
  std::string last_answer_;
  std::int64_t digits_ = 4, rows_ = 40, width_ = 64;
  friend class Watcher;
};
std::regex parse_regex(std::string_view text);

/// A recorder with an interpreter.
class Watcher : public Recorder {
 public:
  explicit Watcher(const Settings& settings) : Recorder(settings) {}
  Interpreter interpreter{*this};
  /// Adds what a Watch stops at. Throws Mistake.
  void add_stop(const debug::Condition& condition, std::string_view except, Action action);
};
}  // namespace reel::debugger
