// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string_view>

/// Returns the exit status. It is 0 if the results are right and no fault was found.
int run_program(std::string_view name, bool fault);
