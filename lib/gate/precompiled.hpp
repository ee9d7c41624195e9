// SPDX-License-Identifier: BSD-3-Clause
// What most sources of the library include, compiled once for each target. A source names its
// includes all the same. This file is never included, so it has no #pragma once, for which g++
// warns.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/body/text.hpp"
#include "lib/flow/context.hpp"
#include "lib/gate/gate.hpp"
#include "lib/record/record.hpp"
#include "lib/table/op.hpp"
