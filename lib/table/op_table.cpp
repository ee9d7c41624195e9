// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reel/error.hpp>

#include "lib/body/text.hpp"
#include "lib/pool/process.hpp"
#include "lib/table/entries.hpp"

namespace reel {
std::string_view suffix_of(Part part) {
  switch (part) {
    case Part::value:
      return "";
    case Part::gradient_0:
      return ".d0";
    case Part::gradient_1:
      return ".d1";
    case Part::gradients:
      return ".d";
  }
  return "";
}

namespace {
bool before(const Op* op, std::string_view name) { return op->name < name; }
}  // namespace

OpTable& OpTable::the() {
  static OpTable* table = new OpTable;  // outlives every static that runs an op
  return *table;
}
void OpTable::add(Op& op) {
  const Op* other = nullptr;
  {
    const Locked held(Lock::table);
    const auto place = std::lower_bound(ops_.begin(), ops_.end(), op.name, before);
    if (place == ops_.end() || (*place)->name != op.name)
      ops_.insert(place, &op);
    else
      other = *place;
  }
  if (other && other != &op)  // errors look names up
    fail<Error>({}, "op table", "name", "a name for each op", "\"" + Text(op.name) + "\" twice");
}
Op* OpTable::find(std::string_view name) const {
  const Locked held(Lock::table);
  const auto place = std::lower_bound(ops_.begin(), ops_.end(), name, before);
  return place != ops_.end() && (*place)->name == name ? *place : nullptr;
}
OpTable::NamedPart OpTable::find_kernel(std::string_view name) const {
  const std::size_t point = name.rfind('.');
  if (point == name.npos) return {find(name), Part::value};
  Op* const op = find(name.substr(0, point));
  for (const Part part : {Part::gradient_0, Part::gradient_1, Part::gradients})
    if (name.substr(point) == suffix_of(part)) return {op, part};
  return {nullptr, Part::value};
}
void OpTable::copy_for_views(Device::Kind kind) const {
  for (Op* const op : ops())
    if (op->fusion == Fusion::layout && !op->on(kind).computes())
      op->on(kind) = core_ops.cast.on(kind);
}
std::vector<Op*> OpTable::ops() const {
  const Locked held(Lock::table);
  return ops_;
}
}  // namespace reel
