// SPDX-License-Identifier: BSD-3-Clause
#include <reel/io/checkpoints.hpp>

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "lib/io/file.hpp"
#include "lib/io/load.hpp"

namespace reel::io {
namespace {
constexpr std::string_view op = "Checkpoints", beginning = "step-", ending = ".safetensors",
                           unfinished = ".new";

std::string name_of(std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof name, "step-%012lld.safetensors", static_cast<long long>(step));
  return name;
}

/// A file of the folder that belongs to a checkpoint.
struct StepFile {
  std::int64_t step;
  bool finished;  // false if its writer was killed or still writes
  std::string name;
};
std::optional<StepFile> step_file(std::string_view name) {
  if (!name.starts_with(beginning)) return std::nullopt;
  StepFile file{0, true, std::string(name)};
  const char *const first = name.data() + beginning.size(), *const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(first, last, file.step);
  const std::string_view rest(end, static_cast<std::size_t>(last - end));
  file.finished = rest == ending;
  const bool ours = file.finished || (rest.starts_with(ending) && rest.ends_with(unfinished));
  return error == std::errc() && file.step >= 0 && ours ? std::optional(file) : std::nullopt;
}

/// In the order of their steps.
std::vector<StepFile> files_in(const Path& folder, Caller caller) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open && errno == ENOMEM) throw std::bad_alloc();
  if (!open) fail_file(caller, op, folder, "a folder to read", std::strerror(errno));
  std::vector<StepFile> files;
  while (const dirent* const entry = ::readdir(open.get()))
    if (std::optional<StepFile> file = step_file(entry->d_name)) files.push_back(std::move(*file));
  std::sort(files.begin(), files.end(),
            [](const StepFile& a, const StepFile& b) { return a.step < b.step; });
  return files;
}
const StepFile* latest_of(const std::vector<StepFile>& files) {
  const auto last = std::find_if(files.rbegin(), files.rend(),
                                 [](const StepFile& file) { return file.finished; });
  return last == files.rend() ? nullptr : &*last;
}
}  // namespace

Checkpoints::Checkpoints(const Path& folder, CheckpointOptions options, Caller caller) try
    : folder_(folder.ends_with('/') ? folder : folder + "/"), options_(options) {
  const auto check = [&](std::string_view name, std::int64_t count) {
    if (count < 1) fail<Error>(caller, op, name, "1 or more", std::to_string(count));
  };
  check("keep", options.keep);
  check("every", options.every);
  if (folder.empty() || folder.find('\0') != folder.npos)
    fail_file(caller, op, folder, "a path without a byte 0",
              folder.empty() ? "none" : "one with it");
  make_folders(folder_, op, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

Path Checkpoints::latest(Caller caller) const try {
  const std::vector<StepFile> files = files_in(folder_, caller);
  const StepFile* const last = latest_of(files);
  return last ? folder_ + last->name : Path();
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

void Checkpoints::save_state(StepAt step, detail::State state) const {
  if (step.step < 0) fail<Error>(step.caller, op, "step", "0 or more", std::to_string(step.step));
  const std::vector<StepFile> files = files_in(folder_, step.caller);
  const StepFile* const last = latest_of(files);
  if (last && last->step > step.step)
    fail<Error>(step.caller, op, "step", std::to_string(last->step) + " or later",
                std::to_string(step.step),
                "The folder " + escaped(folder_) +
                    " has later checkpoints: resume() them, or take "
                    "another folder.");
  state.add_value(detail::saved_value("checkpoint.step", step.step));
  detail::save_state({folder_ + name_of(step.step), step.caller}, state);

  std::int64_t kept = 1;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (file->step == step.step) continue;
    if (!file->finished || ++kept > options_.keep) remove_file(folder_ + file->name);
  }
}

bool Checkpoints::load_state(const StepInto& step, const LoadOptions& options,
                             detail::State state) const {
  const Path path = latest(step.caller);
  if (path.empty()) return false;
  state.add_value(step.value);
  detail::load_from(*open_archive(path, op, step.caller), {path, step.caller}, options, state,
                    {op, true});
  return true;
}
}  // namespace reel::io
