// SPDX-License-Identifier: BSD-3-Clause
// A thread that looks after ranks inside of MPI, which cannot leave a collective by themselves.
#pragma once

namespace reel::dist::detail {
class Lane;
struct Watchdog {
  /// Looks at the lane from now on, several times a second; starts the thread.
  static void add(Lane& lane);
  static void remove(Lane& lane);
  /// Tells other ranks that a debugger stops this thread, or lets it go on.
  static void stop(bool stopped);

 private:
  static void watch();
  static void look(Lane& lane);
};
}  // namespace reel::dist::detail
