// SPDX-License-Identifier: BSD-3-Clause
// The keys of signatures: what the arguments of a call are, without their elements.
#include <algorithm>
#include <cstring>

#include "lib/body/access.hpp"
#include "lib/trace/progress.hpp"

namespace reel::detail {
namespace {
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}
}  // namespace

std::uint64_t hash_of(const Key& key) {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) hash = mix(hash, word);
  return hash;
}
void TraceCall::begin_argument() { progress_->key.push_back(~std::uint64_t{0}); }
void TraceCall::add_tensor(std::string_view path, Tensor& x) {
  Key& key = progress_->key;
  const Body* body = Access::body(x);
  if (!path.empty()) key.push_back(hash_of(path));
  if (!body) return key.push_back(~std::uint64_t{1});
  key.push_back(tensor_word | static_cast<std::uint64_t>(body->dtype) | body->shape.rank() << 8 |
                std::uint64_t{body->device_kind} << 16 |
                std::uint64_t{static_cast<std::uint8_t>(body->device_index)} << 24);
  for (const std::int64_t length : body->shape) key.push_back(static_cast<std::uint64_t>(length));
  // A tensor that is passed twice is one value. A tape treats it in the same way.
  auto& before = progress_->arguments;
  const std::size_t i = before.empty() ? 0 : progress_->place_of(body);
  if (i == before.size()) return before.push_back(&x);
  progress_->again.emplace_back(&x, before[i]);
  key.push_back(~std::uint64_t{2} - i);
}
void TraceCall::add_variable(std::string_view path, const Variable& x) {
  progress_->key.push_back(hash_of(path));
  progress_->key.push_back(reinterpret_cast<std::uintptr_t>(&Access::cell(x)));
  progress_->variables.push_back(&x);
}
void TraceCall::add_plain(std::string_view path, std::string_view bytes) {
  Key& key = progress_->key;
  key.push_back(hash_of(path));
  key.push_back(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    key.push_back(word);
  }
}
void TraceCall::add_identity(std::string_view path, const Tensor& x) {
  progress_->key.push_back(hash_of(path));
  progress_->key.push_back(reinterpret_cast<std::uintptr_t>(Access::body(x)));
  progress_->tensors.push_back(&x);
}
void TraceCall::end_read(std::string_view path) {
  if (progress_->read_paths) progress_->read_paths->emplace_back(path, progress_->key.size());
}
void TraceCall::add_reads() {
  progress_->rest = progress_->key.size();
  for (const ReadObject& each : progress_->cache->reads) {
    begin_argument();
    each.add(each.object, *this);
  }
}
/// Names the first listed value that is different now. Empty if there is none.
std::string TraceCall::changed_read() {
  TraceProgress& call = *progress_;
  if (call.cache->reads.empty()) return {};
  std::vector<std::pair<std::string, std::size_t>> paths;
  Key key(call.key.begin(), call.key.begin() + static_cast<std::ptrdiff_t>(call.rest));
  std::swap(key, call.key);
  call.read_paths = &paths;
  add_reads();
  call.read_paths = nullptr;
  std::swap(key, call.key);
  if (key == call.key) return {};
  const auto at = std::mismatch(key.begin(), key.end(), call.key.begin(), call.key.end()).first;
  for (const auto& [path, end] : paths)
    if (at - key.begin() < static_cast<std::ptrdiff_t>(end) && !path.empty())
      return '"' + path + '"';
  return "a value";
}
}  // namespace reel::detail
