// SPDX-License-Identifier: BSD-3-Clause
// What most sources of the debugger include, compiled once. A source names its includes all the
// same. This file is never included, so it has no #pragma once, for which g++ warns.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lib/debug/interpreter.hpp"
