// SPDX-License-Identifier: BSD-3-Clause
// Pinned tensors and arrays of other libraries, where a device is not the CPU.
#include <cstdint>

#include <reel/dlpack.hpp>
#include <reel/pinned.hpp>
#include <reel/reel.hpp>

#include "support/far_device.hpp"
#include "support/refused.hpp"
#include "support/resident.hpp"

using namespace reel;
using namespace reel::tests;

namespace {
const Device far = far_device();
}  // namespace

TEST_CASE("a pinned tensor has the elements and the shape of the other one") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  for (const Tensor& part :
       {x, transpose(x), x(1, all, range(0, 4, 2)), x(0, 0, 0), x(range(0, 0))}) {
    const Tensor y = pinned(part, far);
    CHECK(y.device() == cpu());
    CHECK(y.shape() == part.shape());
    CHECK(equal(y, part));
    CHECK(equal(y.to(far).to(cpu()), part));
    CHECK(equal(transpose(y) + 0, transpose(part)));
  }
}

TEST_CASE("the memory of pinned tensors is freed") {
  if (sanitized) SKIP("a sanitizer keeps memory for itself");
  const Tensor x = ones({100'000});
  const auto pin = [&](int times) {
    for (int i = 0; i < times; ++i) pinned(x, far);
  };
  pin(20);
  const std::int64_t bytes = resident_bytes();
  pin(200);
  CHECK(resident_bytes() - bytes < (8 << 20));
}

TEST_CASE("an array does not share the memory of a device, and the error names it") {
  const Tensor there = ones({3}).to(far);
  check_refused<Error>([&] { to_dlpack(there, {Copy::never}); },
                       "to_dlpack: copy: expected memory that an array can share, got a tensor on "
                       "far:0");
}
