// SPDX-License-Identifier: BSD-3-Clause
// A plugin that uses the library.
#include "ends/places.hpp"

extern "C" [[gnu::visibility("default")]] bool make_subject(const char* subject,
                                                            const char* place) {
  return reel::tests::make(reel::tests::subjects(), subject, place) && reel::tests::trains();
}
