// SPDX-License-Identifier: BSD-3-Clause
// The processes of one program: ranks that an MPI launcher or a test has started.
#pragma once  // defined in lib/dist
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/device.hpp>
#include <reel/error.hpp>
#include <reel/function.hpp>
#include <reel/pointer.hpp>

namespace reel::dist {
/// What carries the data between ranks. `automatic` is MPI if a launcher of MPI has started the
/// process, else `single`, a world of one rank. `local` are threads of one process: run_local().
/// `nccl` adds NCCL to them: each rank has a GPU, World::device(), and NCCL carries tensors that
/// are there. libnccl.so.2 is opened at run time.
enum class Engine : std::uint8_t { automatic, single, mpi, local, nccl };

/// A time: a number of seconds, or a duration of <chrono>.
struct Seconds {
  double value;
  constexpr Seconds(double seconds) : value(seconds) {}
  template <class D>
  requires requires(const D& duration) {
    duration.count();
    D::period::num;
  }
  constexpr Seconds(const D& duration)
      : value(static_cast<double>(duration.count()) * static_cast<double>(D::period::num) /
              static_cast<double>(D::period::den)) {}
};

/// Options of a World.
struct WorldOptions {
  /// The longest time that a rank waits in one collective for the others. The time starts when the
  /// rank begins to wait, so it must exceed the time by which ranks run apart.
  Seconds timeout = 300.0;
  Engine engine = Engine::automatic;
  /// If a rank dies, the others throw DistError, and shrink() makes a World of them. Needs Open MPI
  /// 5 or newer and `mpirun --with-ft ulfm`, else DistError, unless there is one rank. Not with
  /// `nccl` and run_local(). Such a World has no parts: split(), Mesh and .shard_optimizer throw
  /// Error.
  bool survive = false;
};

namespace detail {
struct WorldState;
}

/// The ranks that run this program together. Each of them makes its World, and calls the same
/// collectives in the same order.
///
///     dist::World world({.timeout = 60});
///     world.size()                          // 1
///
/// Without a launcher it is a world of one rank, in which collectives return their arguments. With
/// `mpirun -n 4 program` there are four processes. Copies share one state. Throws DistError if the
/// launcher's MPI has no library here, if the ranks are not those that the launcher announced, or,
/// with Engine::nccl, if a rank has no GPU or no NCCL.
///
/// If a rank does not come within the timeout, the other ranks throw DistError, or, while they wait
/// inside MPI, write it to stderr and end. Without all of its ranks a World cannot go on: the
/// destructor of one that has failed ends an MPI process. A child of fork() must not use it.
class REEL_API World {
 public:
  explicit World(WorldOptions options = {}, Caller caller = Caller::here());
  World(const World& other) noexcept;
  World& operator=(World other) noexcept;
  ~World();
  /// The number of this process, from 0, and how many there are.
  std::int64_t rank() const;
  std::int64_t size() const;
  /// "single", "local", or the name and version of the MPI library.
  std::string_view engine() const;
  /// The GPU of this rank with Engine::nccl, else the CPU. The ranks of a host get its GPUs in
  /// their order; a rank that sees one GPU only, as a batch system can arrange it, gets this one.
  Device device() const;
  /// The ranks that give the same color, as a World of their own, in the order of their ranks here.
  /// All ranks of this World call it. For a grid of 2 rows and 2 columns:
  ///
  ///     dist::World row = world.split(world.rank() / 2), column = world.split(world.rank() % 2);
  World split(std::int64_t color, Caller caller = Caller::here()) const;
  /// Returns when all ranks have called it. With .survive, it returns on all ranks that live, or
  /// throws DistError on all of them: if it is the last call of a loop, all leave the loop, or
  /// none.
  void barrier(Caller caller = Caller::here()) const;
  /// With .survive, after a DistError: the ranks that live, in their order, as a World of their
  /// own, which can be shrunk too. All of them call it. This World, and each DataParallel over it,
  /// cannot be used any more. Throws DistError if no collective of this World has failed. A process
  /// in which it is not called ends with its World.
  ///
  ///     world = world.shrink();
  World shrink(Caller caller = Caller::here()) const;
  /// Where ranks of this host post the collective that they are in: a text with a line for each. It
  /// stays if a rank dies. The folder is REEL_DIST_FOLDER, else TMPDIR, else /tmp. Empty unless
  /// there are several processes.
  std::string board() const;
  /// For the library.
  detail::WorldState& state() const { return *state_; }

 private:
  friend REEL_API void run_local(std::int64_t, const reel::detail::Function<void(World&)>&,
                                 WorldOptions, Caller);
  explicit World(detail::WorldState* state) : state_(state) {}
  detail::WorldState* state_;
};

/// Calls f(world) on `ranks` threads of this process, each with its rank of one world: for tests,
/// and to try a program. The threads start with the seed of this thread. If a rank throws, the
/// collectives of the others throw DistError; the first exception is thrown here when all have
/// ended. With options.engine == Engine::nccl, thread r has the GPU r. Throws Error unless
/// 1 <= ranks <= 64.
REEL_API void run_local(std::int64_t ranks, const reel::detail::Function<void(World&)>& f,
                        WorldOptions options = {}, Caller caller = Caller::here());
}  // namespace reel::dist
