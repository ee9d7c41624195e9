// SPDX-License-Identifier: BSD-3-Clause
// Kernels of a device in a profile.
#include <reel/reel.hpp>

#include <string>

#include "flow/event_log.hpp"
#include "io/folder.hpp"
#include "support/far_device.hpp"

using namespace reel;
using namespace reel::tests;

namespace {
const Device far = far_device();
}  // namespace

TEST_CASE("a profile has the kernels of a device and their launches") {
  const Tensor x = ones({3}).to(far);
  const Profile profile = reel::profile([&] {
    for (int i = 0; i < 3; ++i) exp(x);
    synchronize(far);
  });
  double seconds = 0;
  std::int64_t calls = 0;
  for (const ProfileRow& row : profile.rows()) {
    if (row.name == "exp") calls = row.calls;
    seconds += row.device_seconds;
  }
  CHECK(calls == 3);
  CHECK(seconds >= 0);
  const Folder folder;
  const std::string path = folder.file("trace.json");
  profile.write_chrome_trace(path);
  const std::string text = contents(path);
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count(R"("ph":"s")") == 3);
  CHECK(count(R"("ph":"f","bp":"e")") == 3);
  CHECK(count(R"("name":"far:0")") == 1);
  CHECK(count(R"("ph":"X","pid":1,"tid":1000000,"name":"exp")") == 3);
}
