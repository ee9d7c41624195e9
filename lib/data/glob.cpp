// SPDX-License-Identifier: BSD-3-Clause
// Names of files, and what errors say about their text.
#include <glob.h>

#include <algorithm>
#include <cerrno>

#include <reel/data/files.hpp>

#include <reel/error.hpp>

#include "lib/data/files.hpp"
#include "lib/io/wire.hpp"

namespace reel::data {
std::int64_t line_of(const std::string& path, std::int64_t offset) try {
  Files text({path}, {}, Files::Kind::text, "line_of", {});
  std::int64_t line = 1;
  if (!text.begin()) return line;
  for (auto left =
           static_cast<std::uint64_t>(offset) - static_cast<std::uint64_t>(text.place().offset);
       left > 0 && left <= static_cast<std::uint64_t>(offset);) {
    std::string_view ahead = text.ahead();
    if (ahead.empty()) return 0;
    ahead = ahead.substr(0, left);
    line += std::count(ahead.begin(), ahead.end(), '\n');
    text.skip(ahead.size());
    left -= ahead.size();
  }
  return line;
} catch (const IoError&) {
  return 0;
}

std::string quoted(std::string_view text) {
  return "'" + io::escaped(text.substr(0, 40)) + (text.size() > 40 ? "...'" : "'");
}

std::vector<std::string> glob(const std::string& pattern, Caller caller) try {
  struct Found : glob_t {
    Found() : glob_t() {}
    ~Found() { ::globfree(this); }
  } found;
  const auto ends = [](const char*, int error) { return static_cast<int>(error == ENOMEM); };
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, ends, &found);
  if (status == GLOB_NOSPACE || status == GLOB_ABORTED) throw std::bad_alloc();
  if (status != 0)
    fail<IoError>(caller, "glob", "pattern", "a pattern that files fit",
                  "\"" + io::escaped(pattern) + "\"");
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::sort(paths.begin(), paths.end());
  return paths;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "glob");
}
}  // namespace reel::data
