// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reel/error.hpp>

#include "lib/pool/process.hpp"
#include "lib/table/op.hpp"

namespace reel {
namespace {
bool before(const Op* op, std::string_view name) { return op->name < name; }
}  // namespace

OpTable& OpTable::the() {
  static OpTable* table = new OpTable;  // outlives every static that runs an op
  return *table;
}
void OpTable::add(Op& op) {
  const Locked held(Lock::table);
  const auto place = std::lower_bound(ops_.begin(), ops_.end(), op.name, before);
  if (place != ops_.end() && *place == &op) return;
  if (place != ops_.end() && (*place)->name == op.name)
    fail<Error>({}, "op table", "name", "a name for each op",
                "\"" + std::string(op.name) + "\" twice");
  ops_.insert(place, &op);
}
Op* OpTable::find(std::string_view name) const {
  const Locked held(Lock::table);
  const auto place = std::lower_bound(ops_.begin(), ops_.end(), name, before);
  return place != ops_.end() && (*place)->name == name ? *place : nullptr;
}
std::vector<Op*> OpTable::ops() const {
  const Locked held(Lock::table);
  return ops_;
}
}  // namespace reel
