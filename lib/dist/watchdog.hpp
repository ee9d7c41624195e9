// SPDX-License-Identifier: BSD-3-Clause
// A thread that looks after ranks inside of MPI, which cannot leave a collective by themselves.
#pragma once

namespace reel::dist::detail {
class Lane;
struct Watchdog {
  /// Looks at the lane from now on, several times a second; starts the thread.
  static void add(Lane& lane);
  static void remove(Lane& lane);

 private:
  static void watch();
  static void look(Lane& lane);
};
}  // namespace reel::dist::detail
