// SPDX-License-Identifier: BSD-3-Clause
#include <reel/dist/latest.hpp>

#include <algorithm>
#include <cstring>

#include "lib/dist/send.hpp"
#include "lib/io/load.hpp"
#include "lib/io/values.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::dist::detail {
namespace {
constexpr std::string_view op = "take_latest";

/// What another rank would save.
class Received final : public io::Archive {
 public:
  /// Numbers and texts, each with its length before it.
  static std::string text_of(const io::detail::Contents& contents) {
    std::string text;
    const auto add = [&](std::string_view part) {
      const std::uint64_t length = part.size();
      text.append(reinterpret_cast<const char*>(&length), sizeof length).append(part);
    };
    for (const auto& [name, tensor] : contents.tensors) {
      const std::vector<std::int64_t> sizes(tensor.shape().begin(), tensor.shape().end());
      const DType dtype = tensor.dtype();
      add({reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof sizes[0]});
      add({reinterpret_cast<const char*>(&dtype), sizeof dtype});
      add(name);
    }
    add("end");  // no shape
    for (const auto& [key, value] : contents.metadata) {
      add(key);
      add(value);
    }
    return text;
  }
  Received(std::string_view text, Caller caller) : caller_(caller) {
    const auto next = [&] {
      std::uint64_t length;
      std::memcpy(&length, text.data(), sizeof length);
      const std::string part(text.substr(sizeof length, length));
      text.remove_prefix(sizeof length + length);
      return part;
    };
    for (std::string sizes = next(); sizes != "end"; sizes = next()) {
      std::vector<std::int64_t> all(sizes.size() / sizeof(std::int64_t));
      std::memcpy(all.data(), sizes.data(), sizes.size());
      DType dtype;
      std::memcpy(&dtype, next().data(), sizeof dtype);
      entries_.push_back({next(), dtype, Shape(std::span<const std::int64_t>(all))});
      tensors_.push_back(raw_tensor(dtype, entries_.back().shape));
      if (!tensors_.back().tensor.defined()) fail_memory(caller, op);
    }
    while (!text.empty()) {
      const std::string key = next();
      metadata_.emplace_back(key, next());
    }
  }
  const std::vector<RawTensor>& tensors() const { return tensors_; }
  Tensor read(std::size_t i) const override { return tensors_[i].tensor; }

 private:
  Caller caller_;
  std::vector<RawTensor> tensors_;
};
}  // namespace

void take_latest(const World& world, const io::StepInto& step, io::detail::State state) {
  const Caller caller = step.caller;
  const CallerScope here(caller, op);
  if (world.size() == 1) return;
  not_traced();
  Lane& main = *world.state().main;
  state.add_value(step.value);
  const std::string own = io::text_of(step.value);  // "int 17"
  const std::int64_t taken = std::stoll(own.substr(own.find(' ')));
  std::vector<std::int64_t> steps(static_cast<std::size_t>(world.size()));
  main.run({Kind::all_gather, Wire::int64, Combine::sum, &taken, steps.data(), 1}, {op}, caller);
  const auto root = static_cast<int>(std::max_element(steps.begin(), steps.end()) - steps.begin());
  const auto send = [&](void* bytes, std::size_t count) {
    main.run(
        {Kind::broadcast, Wire::bytes, {}, nullptr, bytes, static_cast<std::int64_t>(count), root},
        {op}, caller);
  };
  io::detail::Contents contents;
  std::string text;
  if (world.rank() == root) text = Received::text_of(contents = io::detail::contents_of(state));
  std::uint64_t length = text.size();
  send(&length, sizeof length);
  text.resize(length);
  send(text.data(), length);
  if (world.rank() == root) {
    for (const auto& [name, tensor] : contents.tensors) {
      const void* first = nullptr;
      const Tensor host = reel::detail::contiguous_host(tensor, tensor.dtype(), &first, op, caller);
      send(const_cast<void*>(first), static_cast<std::size_t>(host.size()) * size_of(host.dtype()));
    }
    return;
  }
  const Received received(text, caller);
  for (const RawTensor& each : received.tensors()) send(each.elements, each.bytes);
  const std::string name = "rank " + std::to_string(root);
  io::detail::load_from(received, {name, caller}, {}, state, {op, true});
}
}  // namespace reel::dist::detail
