// SPDX-License-Identifier: BSD-3-Clause
// Runs a function for many examples, or independent functions of one, and the ops of all of them
// together.
#include <reel/batched.hpp>

#include <cstdint>
#include <deque>
#include <optional>

#include "lib/batch/agenda.hpp"
#include "lib/batch/fiber.hpp"
#include "lib/body/hash.hpp"
#include "lib/body/text.hpp"
#include "lib/pool/process.hpp"

namespace reel {
namespace batch {
namespace {
constexpr std::ptrdiff_t least_stack = 16 << 10;
constexpr std::size_t most_branches = 1024;  // on fibers of their own
constexpr char draws_text[] = "it draws random numbers inside of batched()";

std::uint64_t seed_of_batch(std::uint64_t seed, std::uint64_t position) {
  return mix_bits(mix_bits(seed) + position);
}
std::uint64_t seed_of_example(std::uint64_t seed, std::size_t index) {
  return mix_bits(seed + index + 1);
}

/// What functions of a batch inherit from where they are called.
struct Modes {
  explicit Modes(const Context& context)
      : training(context.training),
        autocast(context.autocast),
        device(context.device),
        observers(context.observers) {}
  void give(Context& fiber) const {
    fiber.mode = 0;
    fiber.training = training;
    fiber.shares_variables = fiber.refuses_tapes = true;
    fiber.autocast = autocast;
    fiber.device = device;
    if (autocast != DType::float32) fiber.mode |= autocasts;
    watch(fiber);
  }
  void watch(Context& fiber) const {
    fiber.observers = observers;
    if (observers) fiber.mode |= observed;
  }
  bool training;
  DType autocast;
  Device device;
  Observer* observers;
};
/// Where a generator begins.
struct Stream {
  std::uint64_t seed, position;
};

struct Example;
/// A call of parallel(). Its branches run one after another on the fiber of the call. When this
/// fiber waits, the branches that have not begun get fibers of their own.
struct Fork {
  std::size_t branches;
  detail::Branches run;
  const void* what;
  Modes modes;
  std::uint64_t seed;
  Fork* outer;  // around this one on the same fiber
  Example* caller;
  std::size_t next = 0;     // the first branch that has not begun
  std::size_t running = 0;  // on fibers of their own
  std::size_t failed = branches;
  std::exception_ptr error = {};  // of branch `failed`
  bool drew = false, joins = false;

  void fail(std::size_t branch) {
    if (branch >= failed) return;
    failed = branch;
    error = std::current_exception();
  }
};

class Batch;
/// One example, or a branch of one: its fiber, and what its ops do.
struct Example : Interceptor {
  Example(Batch& b, std::size_t i, std::size_t stack, Stream s, Fork* of = nullptr,
          std::size_t number = 0)
      : batch(b), index(i), stream(s), fork(of), branch(number) {
    fiber.emplace(stack, &Example::begin, this);
  }
  static void begin(void* self) { static_cast<Example*>(self)->run(); }
  void run();
  bool takes(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             SmallVector<Tensor, 2>& outputs) override;
  bool before(const GateCall& call) override;
  const Tensor* variable_read(const Variable& variable, const Tensor& value) override;
  void aliased(const Body& x, Body& made) override;
  void host_read(const Tensor& x, HostRead how) override;
  bool outside(const detail::Function<void()>& what) override;
  /// Waits until the elements are there.
  void await(Body& body);
  /// Goes back to the thread. What it has begun to watch, such as a debugger, watches this too.
  void wait();
  void require_stack(Caller caller, std::string_view op) const {
    if (fiber->room() < least_stack) [[unlikely]]
      fail_stack(caller, op);
  }
  [[noreturn]] void fail_stack(Caller caller, std::string_view op) const;
  /// A call of parallel() on this fiber.
  void branch_out(std::size_t branches, detail::Branches run, const void* what);
  void require_going_on() const;

  Batch& batch;
  std::size_t index;
  Stream stream;
  Fork* fork;  // of which this is a branch; null for an example
  std::size_t branch;
  std::optional<Fiber> fiber = {};
  std::optional<Generator> generator = {};  // from which `asked` draws
  Fork* forks = nullptr;                    // the innermost that has not ended
  Node* awaited = nullptr;
  const Tensor* read = nullptr;  // which a trace around batched() must know
  HostRead read_as = {};
  const detail::Function<void()>* asked = nullptr;  // to call outside
  std::exception_ptr answer = {};                   // its exception
  std::exception_ptr error = {};
};

/// What this thread does.
struct Running {
  bool any = false, alone = false;  // alone: one example, as a plain call
  std::size_t stack = BatchedOptions().stack;
  Example* example = nullptr;  // whose fiber runs
};
constinit thread_local Running running;

class Batch {
 public:
  Batch(std::size_t examples, const detail::Function<void(std::size_t)>& f, std::size_t stack)
      : f_(f),
        outer_(Context::here()),
        followers_(outer_.interceptors),
        modes_(outer_),
        stack_(stack),
        agenda_(outer_) {
    const Generator& now = current_generator();
    const std::uint64_t seed = seed_of_batch(seed_of(now), position_of(now));
    for (std::size_t i = 0; i < examples; ++i)
      ready_.push_back(
          &examples_.emplace_back(*this, i, stack, Stream{seed_of_example(seed, i), 0}));
    count_ = examples;
  }
  /// One function that calls parallel(). It draws as if nothing were around it.
  Batch(const detail::Function<void(std::size_t)>& f, std::size_t stack)
      : f_(f),
        outer_(Context::here()),
        followers_(outer_.interceptors),
        modes_(outer_),
        stack_(stack),
        count_(1),
        agenda_(outer_) {
    const Generator& now = current_generator();
    ready_.push_back(
        &examples_.emplace_back(*this, 0, stack, Stream{seed_of(now), position_of(now)}));
    continues_ = true;
  }

  void run() {
    BatchingReport& report = last_report();
    report = {};
    report.examples = static_cast<std::int64_t>(count_);
    try {
      while (!ready_.empty()) {
        resume_ready();
        ++report.rounds;
        agenda_.run();
        show_awaited();
      }
    } catch (...) {
      stop_all(std::current_exception());
      throw;
    }
    if (drew_) {
      Generator outer = thread_generator();
      outer.set_position(continues_ ? last_position_ : outer.position() + 1);
    }
    agenda_.show_kept();
    agenda_.find_errors([&](std::size_t i) -> std::exception_ptr& { return examples_[i].error; });
    agenda_.report(report);
    agenda_.end();
    for (std::size_t i = 0; i < count_; ++i)
      if (examples_[i].error) {
        last_report().failed = static_cast<std::int64_t>(i);
        std::rethrow_exception(examples_[i].error);
      }
  }

 private:
  friend struct Example;

  void resume_ready() {
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      Example& each = *ready_[i];
      resume(each);
      if (each.fiber)
        for (Fork* fork = each.forks; fork; fork = fork->outer) begin_branches(*fork);
    }
    ready_.clear();
  }
  void resume(Example& example) {
    Example* const before = std::exchange(running.example, &example);
    const std::size_t calls = agenda_.calls();
    example.fiber->resume();
    agenda_.let_go(calls);
    running.example = before;
    if (!example.fiber->ended()) return;
    example.fiber.reset();
    if (Fork* const fork = example.fork) {
      --live_branches_;
      if (!--fork->running && fork->joins) ready_.push_back(fork->caller);
    }
  }
  void begin_branches(Fork& fork) {
    for (; fork.next < fork.branches && live_branches_ < most_branches; ++fork.next) {
      ready_.push_back(&examples_.emplace_back(*this, fork.caller->index, stack_,
                                               Stream{seed_of_example(fork.seed, fork.next), 0},
                                               &fork, fork.next));
      ++fork.running;
      ++live_branches_;
    }
  }
  /// A fiber that waits is never destroyed: its function ends by this exception.
  void stop_all(std::exception_ptr why) {
    stopped_ = std::move(why);
    for (auto each = examples_.rbegin(); each != examples_.rend(); ++each)  // branches first
      while (each->fiber && (each->fork || each->fiber->started())) resume(*each);
  }
  /// The elements that fibers wait for, and what they ask for.
  void show_awaited() {
    for (Example& each : examples_)
      if (Node* const node = std::exchange(each.awaited, nullptr)) {
        agenda_.show(*node);
        ready_.push_back(&each);
      }
    for (Example& each : examples_)
      if (const Tensor* const x = std::exchange(each.read, nullptr)) {
        for (Interceptor* one = followers_; one; one = one->next) one->host_read(*x, each.read_as);
        ready_.push_back(&each);
      }
    bool shown = false;
    for (Example& each : examples_) {
      const auto* const what = std::exchange(each.asked, nullptr);
      if (!what) continue;
      if (!std::exchange(shown, true)) agenda_.show_kept();  // it may hold any tensor
      try {
        const GeneratorScope draws(*each.generator);
        (*what)();
      } catch (...) {
        each.answer = std::current_exception();
      }
      modes_.observers = outer_.observers;
      ready_.push_back(&each);
    }
  }

  /// A trace around batched() runs its function eagerly, and gives this reason.
  void cannot_follow(const char* what) {
    for (Interceptor* each = followers_; each; each = each->next) each->cannot_follow(what);
  }

  const detail::Function<void(std::size_t)>& f_;
  Context& outer_;
  Interceptor* followers_;  // of the thread around batched(), such as a trace
  Modes modes_;
  std::size_t stack_, count_, live_branches_ = 0;
  bool drew_ = false, continues_ = false;
  std::uint64_t last_position_ = 0;
  std::exception_ptr stopped_ = {};
  Agenda agenda_;
  std::deque<Example> examples_;  // and branches behind them
  std::vector<Example*> ready_;   // those that can go on
};

void Example::run() try {
  Context& context = Context::here();
  struct Entered {  // the flow of the fiber is used again
    Context& context;
    ~Entered() {
      context.observers = nullptr;
      context.mode = 0;
      context.example = -1;
    }
  } const entered{context};
  (fork ? fork->modes : batch.modes_).give(context);
  if (!batch.continues_) context.example = static_cast<std::int64_t>(index);
  Generator own = thread_generator();
  own.restore(stream.seed, stream.position);
  const InterceptorScope scope(*this);
  require_going_on();
  if (fork)
    fork->run(fork->what, branch);
  else
    batch.f_(index);
  if (const std::uint64_t position = position_of(current_generator());
      position != stream.position) {
    (fork ? fork->drew : batch.drew_) = true;
    batch.last_position_ = position;
  }
} catch (...) {
  if (fork)
    fork->fail(branch);
  else
    error = std::current_exception();
}

void Example::branch_out(std::size_t branches, detail::Branches f, const void* what) {
  require_stack({}, "parallel");
  Context& context = Context::here();
  const Generator& now = current_generator();
  Fork made{branches, f,   what, Modes(context), seed_of_batch(seed_of(now), position_of(now)),
            forks,    this};
  forks = &made;
  {
    Generator own(0);
    const GeneratorScope draws(own);
    while (made.next < branches && !batch.stopped_) {
      const std::size_t i = made.next++;
      own.restore(seed_of_example(made.seed, i), 0);
      try {
        f(what, i);
      } catch (...) {
        made.fail(i);
      }
      made.drew |= position_of(own) != 0;
    }
  }
  made.joins = true;
  while (made.running) wait();
  forks = made.outer;
  require_going_on();
  if (made.drew) {
    Generator outer = thread_generator();
    outer.set_position(position_of(outer) + 1);
  }
  if (made.error) std::rethrow_exception(made.error);
}

void Example::require_going_on() const {
  if (batch.stopped_) std::rethrow_exception(batch.stopped_);
}

void Example::fail_stack(Caller caller, std::string_view op) const {
  fail<Error>(caller, op, "stack of an example",
              "at least " + to_text(static_cast<std::int64_t>(least_stack)) + " bytes",
              to_text(static_cast<std::int64_t>(fiber->room())) + " in example " + to_text(index),
              "f recurses deeply: batched(examples, f, {.stack = bytes}) gives it more.");
}

bool Example::takes(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
                    SmallVector<Tensor, 2>& outputs) {
  require_stack(caller, op.name);
  if (op.random) batch.cannot_follow(draws_text);
  bool waits = false;
  for (const Operand& x : operands) {
    if (x.kind() == Operand::Kind::variable) waits = true;
    if (x.kind() > Operand::Kind::temporary) continue;
    const Body* const body = Access::body(x.tensor());
    if (!body) return false;  // the gate says so
    if (!waits) waits = batch.followers_ || batch.agenda_.concerns(*body);
  }
  if (!waits) return false;  // it needs nothing that others make
  batch.agenda_.add(static_cast<std::uint32_t>(index), op, operands, options, caller, outputs);
  return true;
}
bool Example::before(const GateCall& call) {
  if (call.op.random) batch.cannot_follow(draws_text);
  for (int i = 0; i < call.input_count; ++i)
    if (call.inputs[i]) await(*const_cast<Body*>(call.inputs[i]));
  return true;
}
/// An op that takes the tensor takes the Variable, so that a tape around batched() sees it.
const Tensor* Example::variable_read(const Variable& variable, const Tensor& value) {
  if (!batch.followers_) return batch.agenda_.read(variable, value), nullptr;
  const Tensor* current = &value;
  for (Interceptor* each = batch.followers_; each; each = each->next)
    if (const Tensor* const other = each->variable_read(variable, *current)) current = other;
  return &batch.agenda_.read(variable, make_alias(Context::here(), Access::body(*current)));
}
void Example::aliased(const Body& x, Body& made) {
  batch.agenda_.alias(x, made);
  if (batch.agenda_.node_of(x)) {
    await(const_cast<Body&>(x));
    StandIns::show(made, Access::share(const_cast<Body*>(&x)));
  }
  for (Interceptor* each = batch.followers_; each; each = each->next) each->aliased(x, made);
}
void Example::wait() {
  Context& context = Context::here();
  const bool inherits = context.observers == batch.modes_.observers;
  fiber->wait();
  if (inherits) batch.modes_.watch(context);
}
void Example::await(Body& body) {
  Node* const node = batch.agenda_.node_of(body);
  if (!node) return;
  if (!batch.stopped_) {
    awaited = node;
    wait();
  }
  require_going_on();
  if (node->error) std::rethrow_exception(node->error);
}
/// A trace around batched() records the read on the thread's own flow, where it records the ops.
void Example::host_read(const Tensor& x, HostRead how) {
  await(*Access::body(x));
  if (!batch.followers_ || batch.stopped_) return;
  read = &x;
  read_as = how;
  wait();
  require_going_on();
}
bool Example::outside(const detail::Function<void()>& what) {
  require_going_on();
  generator = thread_generator();
  asked = &what;
  wait();
  require_going_on();
  if (answer) std::rethrow_exception(std::exchange(answer, nullptr));
  return true;
}
/// One example is a plain call, with the generator that it would have among others.
void run_alone(const detail::Function<void(std::size_t)>& f) {
  Context& context = Context::here();
  Generator outer = thread_generator(), own(0);
  own.restore(seed_of_example(seed_of_batch(seed_of(outer), position_of(outer)), 0), 0);
  BatchingReport& report = last_report();
  report = {};
  report.examples = 1;
  const SharingScope shares(context, true, true);
  try {
    const GeneratorScope scope(own);
    f(0);
  } catch (...) {
    report.failed = 0;
    throw;
  }
  if (own.position()) outer.set_position(outer.position() + 1);
}

/// What the thread does while a batch runs.
struct RunningScope {
  explicit RunningScope(const Running& now) : before(std::exchange(running, now)) {}
  ~RunningScope() { running = before; }
  Running before;
};
}  // namespace
}  // namespace batch

void detail::run_batched(std::size_t examples, const Function<void(std::size_t)>& f,
                         BatchedOptions options, Caller caller) try {
  if (batch::running.any)
    fail<Error>(caller, "batched", "f", "no batched() inside of another, or of parallel()", "one");
  if (options.stack < 4 * batch::least_stack)
    fail<Error>(caller, "batched", "options.stack", "at least 65536 bytes", to_text(options.stack));
  const bool alone = examples == 1;
  const batch::RunningScope scope({.any = true, .alone = alone, .stack = options.stack});
  if (alone)
    batch::run_alone(f);
  else
    batch::Batch(examples, f, options.stack).run();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "batched");
}

void detail::run_parallel(std::size_t branches, Branches f, const void* what) try {
  batch::Running& running = batch::running;
  Context& context = Context::here();
  if (running.example && context.interceptors == running.example)
    return running.example->branch_out(branches, f, what);
  if (branches < 2 || context.interceptors || (running.any && !running.alone)) {
    const SharingScope shares(context, context.shares_variables || !context.interceptors, true);
    for (std::size_t i = 0; i < branches; ++i) f(what, i);
    return;
  }
  const batch::RunningScope scope({.any = true, .stack = running.stack});
  const Function<void(std::size_t)> whole = [&](std::size_t) {
    batch::running.example->branch_out(branches, f, what);
  };
  batch::Batch(whole, scope.before.stack).run();
} catch (const std::bad_alloc&) {
  fail_memory({}, "parallel");
}
}  // namespace reel
