// SPDX-License-Identifier: BSD-3-Clause
// REEL_API marks what the shared library shows; everything else is hidden.
#pragma once
#define REEL_API __attribute__((visibility("default")))
