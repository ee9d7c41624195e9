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

#include "lib/body/portion.hpp"
#include "lib/io/file.hpp"
#include "lib/io/load.hpp"
#include "lib/io/state.hpp"

namespace reel::io {
namespace {
constexpr std::string_view op = "Checkpoints", beginning = "step-", ending = ".safetensors",
                           unfinished = ".new", part_begin = ".part-", part_of = "-of-";

using Place = detail::Ranks::Place;

/// "step-000000001000.part-1-of-2.safetensors", or without a part
std::string name_of(std::int64_t step, const Place& place) {
  char number[32];
  std::snprintf(number, sizeof number, "%012lld", static_cast<long long>(step));
  std::string name = std::string(beginning) + number;
  if (place.parts > 1)
    name.append(part_begin)
        .append(std::to_string(place.part + 1))
        .append(part_of)
        .append(std::to_string(place.parts));
  return name.append(ending);
}

/// A file of the folder that belongs to a checkpoint.
struct StepFile {
  std::int64_t step, part, parts;
  bool finished;  // false if its writer was killed or still writes
  std::string name;
};
std::optional<StepFile> step_file(std::string_view name) {
  StepFile file{0, 1, 1, true, std::string(name)};
  bool reads = true;
  const auto text = [&](std::string_view expected) {
    reads = reads && name.starts_with(expected);
    if (reads) name.remove_prefix(expected.size());
  };
  const auto number = [&](std::int64_t& found) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found);
    reads = reads && error == std::errc() && found >= 0;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  };
  text(beginning), number(file.step);
  if (name.starts_with(part_begin)) {
    text(part_begin), number(file.part), text(part_of), number(file.parts);
    reads = reads && file.parts > 1 && file.part >= 1 && file.part <= file.parts;
  }
  --file.part;
  text(ending);
  file.finished = name.empty();
  return reads && (file.finished || name.ends_with(unfinished)) ? std::optional(file)
                                                                : std::nullopt;
}

std::string text_of_parts(std::int64_t parts) {
  return parts == 1 ? "checkpoints of whole models"
                    : "checkpoints of " + std::to_string(parts) + " parts of a model";
}
/// The files of a part, or of the first part of any number, in the order of their steps.
std::vector<StepFile> files_in(const Path& folder, const Place* place, Caller caller) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open && errno == ENOMEM) throw std::bad_alloc();
  if (!open) fail_file(caller, op, folder, "a folder to read", std::strerror(errno));
  std::vector<StepFile> files;
  while (const dirent* const entry = ::readdir(open.get())) {
    std::optional<StepFile> file = step_file(entry->d_name);
    if (!file) continue;
    if (place && file->finished && file->parts != place->parts)
      fail_file(caller, op, folder, text_of_parts(place->parts), text_of_parts(file->parts),
                "Divide the model by as many ranks, or take another folder.");
    if (file->part == (place ? place->part : 0)) files.push_back(std::move(*file));
  }
  std::sort(files.begin(), files.end(),
            [](const StepFile& a, const StepFile& b) { return a.step < b.step; });
  return files;
}
/// The last finished one up to this step; null if there is none.
const StepFile* latest_of(const std::vector<StepFile>& files, std::int64_t most = INT64_MAX) {
  const auto last = std::find_if(files.rbegin(), files.rend(), [&](const StepFile& file) {
    return file.finished && file.step <= most;
  });
  return last == files.rend() ? nullptr : &*last;
}
/// The file of the latest step that all parts have; null if there is none.
const StepFile* latest_of_all(const std::vector<StepFile>& files, const detail::RankGroup& ranks) {
  for (const StepFile* own = latest_of(files);;) {
    const std::int64_t least = ranks.least_of_parts(own ? own->step : -1);
    if (least < 0) return nullptr;
    own = latest_of(files, least);
    if (ranks.least_of_parts(own && own->step == least)) return own;
  }
}
/// Else ranks would replace each other's files.
void check_parts(const detail::State& state, const Place& place, Caller caller) {
  if (place.parts > 1) return;
  for (const detail::SavedVariable& known : state.lists->variables)
    if (portion_of(known.variable).count > 1)
      fail<Error>(caller, op, "arguments", "a dist::DataParallel along an axis of the Mesh",
                  "none, beside a part of \"" + escaped(known.name) + "\"",
                  "By its Mesh each part gets a file of its own. The axis may have one rank.");
}
}  // namespace

namespace detail {
RankGroup::RankGroup(std::initializer_list<const Ranks*> arguments, bool everywhere, Caller caller)
    : caller_(caller) {
  for (const Ranks* const each : arguments) {
    if (!each) continue;
    if (!ranks_.empty() && !(each->place() == place_))
      fail<Error>(caller, op, "arguments", "each dist::DataParallel along one axis",
                  "two along different ones");
    place_ = each->place();
    ranks_.push_back(each);
  }
  for (const Ranks* const each : ranks_) each->gather_state(everywhere, caller);
}
RankGroup::~RankGroup() {
  for (const Ranks* const each : ranks_) each->release_state();
}
std::int64_t RankGroup::least_of_parts(std::int64_t number) const {
  return place_.parts == 1 ? number : ranks_[0]->least_of_parts(number, caller_);
}
void RankGroup::check_resumed(std::int64_t step) const {
  for (const Ranks* const each : ranks_) each->check_resumed(step, caller_);
}
}  // namespace detail

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
  const std::vector<StepFile> files = files_in(folder_, nullptr, caller);
  const StepFile* const last = latest_of(files);
  return last ? folder_ + last->name : Path();
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

void Checkpoints::save_state(StepAt step, detail::State state,
                             const detail::RankGroup& ranks) const {
  if (step.step < 0) fail<Error>(step.caller, op, "step", "0 or more", std::to_string(step.step));
  check_parts(state, ranks.place(), step.caller);
  const std::vector<StepFile> files = files_in(folder_, &ranks.place(), step.caller);
  const StepFile* const last = latest_of_all(files, ranks);
  if (last && last->step > step.step)
    fail<Error>(step.caller, op, "step", std::to_string(last->step) + " or later",
                std::to_string(step.step),
                "The folder " + escaped(folder_) +
                    " has later checkpoints: resume() them, or take "
                    "another folder.");
  state.add_value(detail::saved_value("checkpoint.step", step.step));
  bool written = false;
  try {
    detail::save_state({folder_ + name_of(step.step, ranks.place()), step.caller}, state);
    written = true;
  } catch (...) {
    ranks.least_of_parts(written);
    throw;
  }
  if (!ranks.least_of_parts(written))
    fail_file(step.caller, op, folder_, "all parts of step " + std::to_string(step.step),
              "the rank of another part could not write its file", "That rank names the error.");
  // A later file is of a step that not all parts have: a killed run left it.
  std::int64_t kept = 1;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (file->step == step.step) continue;
    if (!file->finished || file->step > step.step || ++kept > options_.keep)
      remove_file(folder_ + file->name);
  }
}

bool Checkpoints::load_state(const StepInto& step, const LoadOptions& options, detail::State state,
                             const detail::RankGroup& ranks) const {
  check_parts(state, ranks.place(), step.caller);
  const std::vector<StepFile> files = files_in(folder_, &ranks.place(), step.caller);
  const StepFile* const last = latest_of_all(files, ranks);
  if (last) {
    const Path path = folder_ + last->name;
    state.add_value(step.value);
    detail::load_from(*open_archive(path, op, step.caller), {path, step.caller}, options, state,
                      {op, true});
  }
  ranks.check_resumed(last ? last->step : -1);
  return last != nullptr;
}
}  // namespace reel::io
