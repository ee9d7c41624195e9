// SPDX-License-Identifier: BSD-3-Clause
#include "support/instances.hpp"

REEL_TEST_INSTANCES()
