// SPDX-License-Identifier: BSD-3-Clause
// What nearly every test includes. A test names its includes all the same. This file is never
// included, so it has no #pragma once, for which g++ warns.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

#ifdef REEL_SHARES_INSTANCES
#include "support/instances.hpp"
REEL_TEST_INSTANCES(extern)
#endif
