// SPDX-License-Identifier: BSD-3-Clause
// What a World has inside, and how a rank waits in a collective.
#pragma once
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reel/dist/world.hpp>

#include "lib/dist/board.hpp"
#include "lib/dist/numbered.hpp"
#include "lib/table/engine.hpp"

namespace reel::dist {
class LocalGroup;
}
namespace reel::dist::detail {
class Lane;
struct WorldState : Numbered<WorldState> {
  WorldState(EngineTable engine, std::shared_ptr<Board> board, WorldOptions options);
  ~WorldState();
  /// Writes why, and ends this process, and the others as far as MPI can, unless they survive.
  [[noreturn]] void end_all(const char* why);
  /// It cannot be used any more. The first reason counts.
  void give_up(std::string_view why);
  /// Of the board of some of the ranks.
  std::string path_of_part(int number, std::int64_t place) const;
  bool has_failed() const { return __atomic_load_n(&failed, __ATOMIC_ACQUIRE); }
  /// How ranks go on without one that has died; null without .survive.
  const Survival* survival() const { return survives ? engine.survival : nullptr; }
  /// Makes the device's engine. -1: the GPU is that of the number of this rank on its host.
  void open_device(int index, Caller caller);
  std::int64_t references = 1;
  EngineTable engine;
  double timeout;
  bool survives;
  std::shared_ptr<Board> shared_board;  // of all ranks that are threads
  Board& board;
  std::int64_t step = 0;        // of the last DataParallel that took one, for errors
  int lanes = 0;                // opened so far
  int splits = 0;               // made so far
  LocalGroup* group = nullptr;  // of threads
  // Along an axis of a Mesh: the ranks with other parts of the model that this rank has.
  std::unique_ptr<World> parts = {};
  Lane* main = nullptr;  // of the public collectives
  // The engine of tensors in memory of this rank's GPU, if there is one.
  EngineTable device_engine = {};
  int device_index = -1;
  Lane* device = nullptr;    // of its public collectives
  std::string failure = {};  // why it cannot be used any more
  char failed = 0;           // atomic
  bool disagreed = false;    // barrier() has thrown on all ranks that live
  bool shrunk = false;       // there is a World of the ranks that live
  pid_t process = ::getpid();
  pthread_t thread = ::pthread_self();
  char is_stopped = 0;  // in a debugger; atomic
};

/// What an error says of a collective.
struct CallName {
  std::string_view function;        // "all_reduce"
  std::string_view posted = {};     // in one word; the function, if empty
  std::string_view variables = {};  // those that it carries
};

/// Collectives that all ranks call in one order. Calls that have started end in any order.
class Lane {
 public:
  /// Of the device's engine, or of the other one.
  Lane(WorldState& world, Caller caller, bool on_device = false);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// From the start to the end. Throws DistError.
  void run(const Message& message, const CallName& name, Caller caller);
  void start(const Message& message, const CallName& name, Caller caller);
  /// Whether the oldest call that has started has ended; its request is gone then.
  bool test(const CallName& name, Caller caller);
  /// With .survive: returns on all ranks that live, or throws on all of them.
  void barrier(Caller caller);
  /// With .survive: whether all ranks that live say yes, and if `complete`, none has died.
  bool agree(bool yes, bool complete, const CallName& name, Caller caller);
  /// With .survive: the engine of the ranks that live.
  EngineTable shrink(const CallName& name, Caller caller);
  /// Throws DistError: the others have not come for so long.
  [[noreturn]] void fail_late(const CallName& name, Caller caller);
  std::size_t running() const { return requests_.size(); }
  /// Whether the time to wait is over. It begins again when a rank goes on that was stopped in a
  /// debugger. The first such rank is written to stderr.
  bool is_late(const CallName& name, double now, double& end);
  /// The buffers of what runs are about to go: the World cannot be used any more.
  void give_up();
  /// Throws DistError in a child of fork(), and in a World that has failed.
  void require_usable(const CallName& name, Caller caller) const;

 private:
  friend struct Watchdog;
  /// Other ranks that are threads, and the device, get no more data from this rank. With .survive,
  /// no call of this World is running afterwards on any rank.
  void abandon();
  /// With .survive, after all channels were revoked: waits until no call is running.
  void drain();
  /// Around a call that may block inside of MPI: the watchdog ends the process if it is late.
  void enter(const CallName& name, Caller caller);
  void leave();
  /// The ranks that are late, in words.
  struct Late {
    std::string ranks, got;
  };
  Late late(const std::vector<int>& dead = {}) const;
  std::vector<int> dead() const;
  std::string expected(const CallName& name, bool in_time) const;
  std::string advice(const CallName& name) const;
  [[noreturn]] void fail_engine(const char* why, const CallName& name, Caller caller);
  [[noreturn]] void fail_with(const CallName& name, std::string_view argument,
                              std::string_view expected, std::string_view got, Caller caller);
  void post(const CallName& name);
  /// Polls until f() says that it has ended.
  template <class F>
  void wait_for(const CallName& name, Caller caller, const F& ended);
  WorldState& world_;
  const EngineTable& engine_;
  Channel* channel_ = nullptr;
  int number_;
  std::int64_t calls_ = 0;
  std::vector<Request*> requests_;  // the oldest first
  // For the watchdog, while run() is inside MPI.
  std::int64_t watched_ = 0;  // the call that it saw last
  double deadline_ = 0;
  double looked_ = 0;      // when it last looked for ranks that are stopped
  int stopped_rank_ = -1;  // the one that stderr names
  const CallName* inside_ = nullptr;
  bool ends_ = false;  // the process, because inside_ is late
  Caller caller_ = {};
};

/// Waits a little: first it gives its core to others, then it sleeps, at most 30 us.
class Pause {
 public:
  /// First gives the processor to others so often.
  explicit Pause(int yields = 200) : yields_(yields) {}
  void operator()();

 private:
  int yields_, times_ = 0;
};

/// Fills the table from the library of the launcher's MPI.
void open_mpi(EngineTable& table, Caller caller);
/// Whether a launcher of MPI has started this process.
bool has_launcher();
}  // namespace reel::dist::detail
