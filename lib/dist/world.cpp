// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dist/world.hpp>

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include <reel/random.hpp>

#include "lib/body/text.hpp"
#include "lib/dist/local.hpp"
#include "lib/dist/send.hpp"
#include "lib/dist/state.hpp"
#include "lib/dist/watchdog.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/backend.hpp"

namespace reel::dist {
namespace detail {
namespace {
/// So long may MPI take to end the other ranks.
constexpr unsigned abort_seconds = 2;
}  // namespace

void Pause::operator()() {
  constexpr long most = 30'000;  // nanoseconds
  if (++times_ < yields_) {
    ::sched_yield();
    return;
  }
  const timespec time{0, std::min((times_ - yields_ + 1) * 10'000L, most)};
  ::nanosleep(&time, nullptr);
}

WorldState::WorldState(EngineTable table, std::shared_ptr<Board> of, WorldOptions options)
    : engine(table),
      timeout(options.timeout.value),
      survives(options.survive && table.ranks > 1),
      shared_board(std::move(of)),
      board(*shared_board) {
  register_steps();
}
WorldState::~WorldState() {
  delete device;
  delete main;
  if (!engine.run || process != ::getpid() || shrunk) return;
  if (has_failed()) end_all(failure.c_str());
  if (std::uncaught_exceptions() > 0)
    engine.leave(engine.self);
  else
    board.remove();
}
void WorldState::give_up(std::string_view why) {
  const Locked held(Lock::registration);
  if (failed) return;
  failure = why;
  __atomic_store_n(&failed, 1, __ATOMIC_RELEASE);
}
void WorldState::end_all(const char* why) {
  std::fprintf(stderr, "rank %d: %s\n", engine.rank, why);
  std::fflush(stderr);
  // When a rank aborts, a launcher may drop what ranks have written and it has not read.
  constexpr timespec fifth{0, 200'000'000};
  ::nanosleep(&fifth, nullptr);
  // Open MPI tells the others of a death, and not of an exit.
  if (survives) ::raise(SIGKILL);
  // Where MPI does not return: the kernel ends the process.
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(abort_seconds);
  engine.abort(engine.self);
  ::_exit(1);
}

std::string WorldState::path_of_part(int number, std::int64_t place) const {
  if (board.path().empty()) return {};
  char end[48];
  std::snprintf(end, sizeof end, "-%d-%lld", number, static_cast<long long>(place));
  return board.path() + end;
}

void WorldState::open_device(int index, Caller caller) {
  struct Place {
    char host[64] = {}, problem[256] = {};
  };
  Place mine;
  ::gethostname(mine.host, sizeof mine.host - 1);
  std::vector<Place> all(static_cast<std::size_t>(engine.ranks), mine);
  const auto gather = [&] {
    main->run({Kind::all_gather, Wire::bytes, Combine::sum, &mine, all.data(), sizeof mine},
              {"World", "device"}, caller);
  };
  gather();
  int before = 0, on_host = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (std::strcmp(all[rank].host, mine.host) != 0) continue;
    ++on_host;
    before += static_cast<int>(rank) < engine.rank;
  }
  std::string problem;
  try {
    const int count = cuda_device_count();
    if (count == 0)
      problem = cuda_status();
    else if (index < 0 && count > 1 &&
             count < on_host)  // one: the launcher gives each rank its own
      problem = std::to_string(count) + " GPUs for " + std::to_string(on_host) + " ranks of a host";
    if (problem.empty()) {
      device_index = index < 0 ? before % count : index;
      device_engine.rank = engine.rank;
      device_engine.ranks = engine.ranks;
      const char* const why =
          backend_of(Device::Kind::cuda)->collectives(device_index, device_engine);
      if (why) problem = why;
    }
  } catch (const std::exception& error) {
    problem = error.what();
  }
  problem.copy(mine.problem, sizeof mine.problem - 1);
  all.assign(all.size(), mine);
  gather();
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].problem[0])
      fail<DistError>(caller, "World", "options.engine", "a GPU and NCCL on each rank",
                      std::string(all[rank].problem) + ", on rank " + std::to_string(rank));
  device = new Lane(*this, caller, true);
}

Lane::Lane(WorldState& world, Caller caller, bool on_device)
    : world_(world),
      engine_(on_device ? world.device_engine : world.engine),
      number_(world.lanes++) {
  if (world.engine.ranks == 1) return;
  char id[EngineTable::id_bytes] = {};
  const CallName name{"World", "open"};
  const char* why = nullptr;
  if (engine_.identify) {
    if (world.engine.rank == 0) why = engine_.identify(engine_.self, id);
    if (why) fail_engine(why, name, caller);
    world.main->run({Kind::broadcast, Wire::bytes, {}, nullptr, id, sizeof id}, name, caller);
  }
  require_usable(name, caller);
  Watchdog::add(*this);
  try {
    if (world.survives) enter(name, caller);
    why = engine_.open(engine_.self, id, &channel_);
    if (world.survives) leave();
    if (why) fail_engine(why, name, caller);
    if (!engine_.identify) return;
    post(name);
    wait_for(name, caller, [&] {
      bool ready = false;
      if (const char* const wrong = engine_.test(channel_, nullptr, &ready))
        fail_engine(wrong, name, caller);
      world.board.touch(world.engine.rank, number_);
      return ready;
    });
    world.board.leave(world.engine.rank, number_);
  } catch (...) {
    Watchdog::remove(*this);
    throw;
  }
}
Lane::~Lane() {
  Watchdog::remove(*this);
  give_up();
  if (channel_) engine_.close(channel_);
}

void Lane::give_up() {
  if (requests_.empty()) return;
  world_.give_up("a rank has left a collective that it had started");
  abandon();
  requests_.clear();
}

void Lane::abandon() {
  if (ends_) return;
  if (world_.survives) {
    world_.survival()->revoke(world_.engine.self);
    drain();
  }
  for (const EngineTable* const each : {&world_.device_engine, &world_.engine})
    if (each->abort && !each->run) each->abort(each->self);
}

void Lane::require_usable(const CallName& name, Caller caller) const {
  if (world_.process != ::getpid())
    fail<DistError>(caller, name.function, "process", "the process that made the World",
                    "a child of fork()");
  if (world_.has_failed())
    fail<DistError>(caller, name.function, "world", "one with all of its ranks",
                    "one in which a collective has failed");
}
void Lane::post(const CallName& name) {
  __atomic_store_n(&calls_, calls_ + 1, __ATOMIC_RELAXED);
  world_.board.post(world_.engine.rank, number_, world_.step, calls_,
                    name.posted.empty() ? name.function : name.posted);
}

void Lane::start(const Message& message, const CallName& name, Caller caller) {
  if (!channel_) return;
  require_usable(name, caller);
  requests_.reserve(requests_.size() + 1);
  post(name);
  Request* request = nullptr;
  if (const char* const why = engine_.start(channel_, message, &request))
    fail_engine(why, name, caller);
  requests_.push_back(request);
}
bool Lane::test(const CallName& name, Caller caller) {
  bool done = false;
  if (const char* const why = engine_.test(channel_, requests_.front(), &done)) {
    requests_.erase(requests_.begin());
    if (!world_.survives) requests_.clear();
    fail_engine(why, name, caller);
  }
  if (done) {
    requests_.erase(requests_.begin());
    if (requests_.empty()) world_.board.leave(world_.engine.rank, number_);
  } else {
    world_.board.touch(world_.engine.rank, number_);
  }
  return done;
}

template <class F>
void Lane::wait_for(const CallName& name, Caller caller, const F& ended) {
  Pause pause;
  for (double end = seconds_now() + world_.timeout; !ended(); pause())
    if (is_late(name, seconds_now(), end)) fail_late(name, caller);
}
bool Lane::is_late(const CallName& name, double now, double& end) {
  constexpr double seconds = 0.2;  // between two looks
  if (now < looked_ + seconds) return now > end;
  looked_ = now;
  int stopped = 0;
  while (stopped < world_.engine.ranks && !world_.board.is_stopped(stopped)) ++stopped;
  const bool none = stopped == world_.engine.ranks;
  if (none && std::exchange(stopped_rank_, -1) < 0) return now > end;
  end = now + world_.timeout;
  if (none) return false;
  if (std::exchange(stopped_rank_, stopped) != stopped)
    std::fprintf(stderr, "rank %d waits in %.*s of step %lld: rank %d is stopped in a debugger\n",
                 world_.engine.rank, static_cast<int>(name.function.size()), name.function.data(),
                 static_cast<long long>(world_.step), stopped);
  return false;
}
void Lane::run(const Message& message, const CallName& name, Caller caller) {
  if (!channel_) return;
  // A call that has started can be left.
  if (!engine_.run || world_.survives) {
    start(message, name, caller);
    return wait_for(name, caller, [&] { return test(name, caller); });
  }
  require_usable(name, caller);
  enter(name, caller);
  const char* const why = engine_.run(channel_, message);
  leave();
  if (why) fail_engine(why, name, caller);
}
void Lane::enter(const CallName& name, Caller caller) {
  post(name);
  caller_ = caller;
  __atomic_store_n(&inside_, &name, __ATOMIC_RELEASE);
}
void Lane::leave() {
  // The watchdog has taken it: it is about to end the process.
  while (!__atomic_exchange_n(&inside_, nullptr, __ATOMIC_ACQ_REL)) ::pause();
  world_.board.leave(world_.engine.rank, number_);
}

Lane::Late Lane::late(const std::vector<int>& dead) const {
  constexpr double alive = 1;  // a rank that waits shows more often that it lives
  Late found;
  for (int rank = 0; rank < world_.engine.ranks; ++rank) {
    const Post post = world_.board.read(rank, number_);
    const bool died = std::find(dead.begin(), dead.end(), rank) != dead.end();
    const bool stopped = !died && post.call == calls_ && post.waits && post.seconds_ago > alive;
    if (dead.empty() ? rank == world_.engine.rank || (post.call >= calls_ && !stopped) : !died)
      continue;
    found.ranks += (found.ranks.empty() ? "rank " : ", ") + std::to_string(rank);
    if (!found.got.empty()) continue;
    char text[160];
    if (stopped)
      std::snprintf(text, sizeof text, "one that stopped inside of it %.3g s ago",
                    post.seconds_ago);
    else if (post.call == 0)
      std::snprintf(text, sizeof text, "one that has %s", died ? "died" : "called nothing");
    else
      std::snprintf(text, sizeof text, "one that %scame to %s of step %lld %.3g s ago",
                    died ? "has died: it " : "", post.collective.c_str(),
                    static_cast<long long>(post.step), post.seconds_ago);
    found.got = text;
  }
  if (found.ranks.empty()) return {"network", "none, although all ranks have come"};
  return found;
}
std::string Lane::advice(const CallName& name) const {
  char begin[96];
  std::snprintf(begin, sizeof begin, "It waited in step %lld, call %lld of this kind",
                static_cast<long long>(world_.step), static_cast<long long>(calls_));
  std::string text = begin;
  if (!name.variables.empty()) text.append(", for ").append(name.variables);
  text += '.';
  if (!world_.board.path().empty())
    text.append(" ").append(world_.board.path()).append(" has a line for each rank.");
  if (world_.survives) text += " shrink() makes a World of the ranks that live.";
  return text;
}
/// What a rank should have done.
std::string Lane::expected(const CallName& name, bool in_time) const {
  char within[32] = {}, text[128];
  if (in_time) std::snprintf(within, sizeof within, " within %.3g s", world_.timeout);
  std::snprintf(text, sizeof text, "to come%s%s%.*s of step %lld", within,
                name.posted.empty() ? "" : " for ", static_cast<int>(name.posted.size()),
                name.posted.data(), static_cast<long long>(world_.step));
  return text;
}
void Lane::fail_late(const CallName& name, Caller caller) {
  const Late who = late();
  fail_with(name, who.ranks, expected(name, true), who.got, caller);
}
void Lane::fail_engine(const char* why, const CallName& name, Caller caller) {
  if (world_.survives) {
    const std::string kept = why;
    abandon();
    const std::vector<int> ranks = dead();
    const Late who = ranks.empty() ? Late{"ranks", "one that has given up: " + kept} : late(ranks);
    fail_with(name, who.ranks, expected(name, false), who.got, caller);
  }
  fail_with(name, "engine", "the data of all ranks", why, caller);
}
void Lane::fail_with(const CallName& name, std::string_view argument, std::string_view expected,
                     std::string_view got, Caller caller) try {
  // No other rank may write to buffers that end with their callers.
  abandon();
  fail<DistError>(caller, name.function, argument, expected, got, advice(name));
} catch (const std::exception& error) {
  world_.give_up(error.what());
  throw;
}
}  // namespace detail

namespace {
/// The file of the run: all ranks take the name that rank 0 has chosen.
std::string board_path(EngineTable& engine, Caller caller) {
  char name[32] = {};
  std::snprintf(name, sizeof name, "%lld-%lld", static_cast<long long>(::time(nullptr)),
                static_cast<long long>(::getpid()));
  Channel* channel = nullptr;
  const char* why = engine.open(engine.self, nullptr, &channel);
  if (!why)
    why = engine.run(channel, {Kind::broadcast, Wire::bytes, {}, nullptr, name, sizeof name});
  if (why) fail<DistError>(caller, "World", "engine", "a running MPI", std::string(why));
  engine.close(channel);
  const char* folder = "/tmp";
  for (const char* const other : {std::getenv("TMPDIR"), std::getenv("REEL_DIST_FOLDER")})
    if (other && *other) folder = other;
  return std::string(folder) + "/reel-" + std::to_string(::geteuid()) + "-" + name;
}
void check(const WorldOptions& options, bool in_threads, Caller caller) {
  if (!(options.timeout.value > 0))
    fail<Error>(caller, "World", "options.timeout", "more than 0 seconds",
                to_text(options.timeout.value));
  if (options.survive && (in_threads || options.engine == Engine::nccl))
    fail<Error>(caller, "World", "options.survive", "false in run_local() and with nccl", "true");
}
}  // namespace

World::World(WorldOptions options, Caller caller) try : state_(nullptr) {
  check(options, false, caller);
  if (options.engine == Engine::local)
    fail<Error>(caller, "World", "options.engine", "automatic, single or mpi", "local",
                "run_local() makes the Worlds of threads.");
  EngineTable table;
  std::snprintf(table.name, sizeof table.name, "single");
  const bool joins =
      options.engine == Engine::mpi || (options.engine != Engine::single && detail::has_launcher());
  if (joins) detail::open_mpi(table, caller);
  if (options.survive && table.ranks > 1) {
    if (!table.survival)
      fail<DistError>(caller, "World", "options.survive",
                      "Open MPI 5 or newer, started as mpirun --with-ft ulfm", Text(table.name));
    table.survival->begin();
  }
  state_ = new detail::WorldState(
      table, std::make_shared<Board>(table.ranks, table.ranks > 1 ? board_path(table, caller) : ""),
      options);
  try {
    state_->main = new detail::Lane(*state_, caller);
    if (options.engine == Engine::nccl) state_->open_device(-1, caller);
  } catch (...) {
    delete state_;
    throw;
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "World");
}
World::World(const World& other) noexcept : state_(other.state_) {
  __atomic_add_fetch(&state_->references, 1, __ATOMIC_RELAXED);
}
World& World::operator=(World other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
World::~World() {
  if (__atomic_sub_fetch(&state_->references, 1, __ATOMIC_ACQ_REL) == 0) delete state_;
}
std::int64_t World::rank() const { return state_->engine.rank; }
std::int64_t World::size() const { return state_->engine.ranks; }
std::string_view World::engine() const { return state_->engine.name; }
Device World::device() const { return state_->device ? cuda(state_->device_index) : cpu(); }
std::string World::board() const { return state_->board.path(); }
World World::split(std::int64_t color, Caller caller) const {
  const CallerScope here(caller, "split");
  if (state_->survives)
    fail<Error>(caller, "split", "world", "one without .survive", "one with it");
  const std::int64_t own[] = {color, rank()};
  std::vector<std::int64_t> all(static_cast<std::size_t>(2 * size()));
  state_->main->run({Kind::all_gather, Wire::int64, Combine::sum, own, all.data(), 2}, {"split"},
                    caller);
  if (size() == 1) all.assign({color, 0});
  std::int64_t members = 0, before = 0, place = 0;  // place: of the color among the ranks' colors
  for (std::size_t i = 0; i < all.size(); i += 2) {
    members += all[i] == color;
    before += all[i] == color && all[i + 1] < rank();
    place += all[i] < color;
  }
  const int number = state_->splits++;
  const WorldOptions options{.timeout = state_->timeout};
  EngineTable part = state_->engine;
  std::shared_ptr<Board> posts = state_->shared_board;
  LocalGroup* group = nullptr;
  if (state_->group) {
    group = &state_->group->part(number, color, static_cast<int>(members));
    part = group->engine(static_cast<int>(before));
    posts = group->posts();
  } else if (part.split) {
    if (const char* const why = part.split(part.self, static_cast<int>(place), &part))
      fail<DistError>(caller, "split", "engine", "a part of the ranks", std::string(why));
    posts = std::make_shared<Board>(part.ranks, state_->path_of_part(number, place));
  }
  World made(new detail::WorldState(part, std::move(posts), options));
  made.state_->group = group;
  made.state_->main = new detail::Lane(*made.state_, caller);
  if (state_->device) made.state_->open_device(state_->device_index, caller);
  return made;
}
void World::barrier(Caller caller) const {
  const CallerScope here(caller, "barrier");
  detail::not_traced();
  if (state_->survives) return state_->main->barrier(caller);
  state_->main->run({Kind::barrier}, {"barrier"}, caller);
}

void run_local(std::int64_t ranks, const reel::detail::Function<void(World&)>& f,
               WorldOptions options, Caller caller) try {
  check(options, true, caller);
  if (ranks < 1 || ranks > 64)
    fail<Error>(caller, "run_local", "ranks", "1 to 64", std::to_string(ranks));
  LocalGroup group(static_cast<int>(ranks));
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::int64_t first = -1;  // of the ranks that threw, the first in time
  const Generator own = thread_generator();
  const auto run_rank = [&](std::int64_t rank) {
    try {
      seed(own.seed());
      World world(
          new detail::WorldState(group.engine(static_cast<int>(rank)), group.posts(), options));
      world.state_->group = &group;
      world.state_->main = new detail::Lane(*world.state_, caller);
      if (options.engine == Engine::nccl) world.state_->open_device(-1, caller);
      f(world);
    } catch (...) {
      failures[static_cast<std::size_t>(rank)] = std::current_exception();
      std::int64_t none = -1;
      __atomic_compare_exchange_n(&first, &none, rank, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
      char why[192];
      const char* what = "that is no std::exception";
      try {
        throw;
      } catch (const std::exception& error) {
        what = error.what();
      } catch (...) {
      }
      std::snprintf(why, sizeof why, "rank %lld has ended by an exception: %.100s",
                    static_cast<long long>(rank), what);
      group.fail(why);
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first >= 0) std::rethrow_exception(failures[static_cast<std::size_t>(first)]);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "run_local");
}
}  // namespace reel::dist
