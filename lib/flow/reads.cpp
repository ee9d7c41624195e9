// SPDX-License-Identifier: BSD-3-Clause
#include <reel/nn/check.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include <reel/error.hpp>

#include "lib/body/access.hpp"
#include "lib/body/text.hpp"
#include "lib/flow/observer.hpp"

namespace reel::detail {
namespace {
bool is_among(const std::vector<Variable>& list, const Variable& variable) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Variable& other) { return other.same_cell(variable); });
}
void note(std::vector<Variable>& list, const Variable& variable) try {
  list.push_back(variable);
} catch (const std::bad_alloc&) {
  fail_memory({}, "check");
}
}  // namespace

struct VariableReads::Listener : Observer {
  std::vector<Variable> read, made;
  ObserverScope scope{*this};
  void variable_read(const Variable& variable) override {
    if (!is_among(read, variable)) note(read, variable);
  }
  void variable_written(const Variable& variable) override { variable_read(variable); }
  void variable_made(const Variable& variable) override { note(made, variable); }
  /// Made since the check began, and held only by the lists of this check and of checks around it.
  bool is_gone(const Variable& variable) const {
    if (!is_among(made, variable)) return false;
    std::uint32_t held = 0;
    for (const Observer* each = Context::here().observers; each; each = each->next)
      if (const auto* check = dynamic_cast<const Listener*>(each))
        held += unsigned{is_among(check->read, variable)} + is_among(check->made, variable);
    return Access::cell(variable).references == held;
  }
};
VariableReads::VariableReads() try : listener_(new Listener) {
} catch (const std::bad_alloc&) {
  fail_memory({}, "check");
}
VariableReads::~VariableReads() { delete listener_; }

void VariableReads::require_listed(const std::vector<Variable>& listed, Caller caller) const {
  Text forgotten = "";
  for (const Variable& variable : listener_->read)
    if (!is_among(listed, variable) && !listener_->is_gone(variable))
      forgotten += (forgotten.empty() ? "\"" : ", \"") + Text(variable.name()) + "\" " +
                   to_text(variable.shape());
  if (!forgotten.empty())
    fail<Error>(caller, "check", "model", "every Variable that f reads in its list of members",
                "none of " + forgotten, "Add them to REEL_FIELDS or fields().");
}
StateGuard::StateGuard(const std::vector<Variable>& variables) try : variables_(variables) {
  for (const Variable& variable : variables_) values_.push_back(Access::cell(variable).value);
} catch (const std::bad_alloc&) {
  fail_memory({}, "check");
}
void StateGuard::add(const Generator& generator) try {
  places_.insert(places_.end(), {seed_of(generator), position_of(generator)});
  generators_.push_back(generator);  // last: the destructor goes by their number
} catch (const std::bad_alloc&) {
  fail_memory({}, "check");
}
StateGuard::~StateGuard() {
  Context& context = Context::here();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    Tensor& value = Access::cell(variables_[i]).value;
    if (Access::body(value) == Access::body(values_[i])) continue;  // not written: a write copies
    value = values_[i];
    if (context.mode & observed) tell_written(context, variables_[i]);
  }
  for (std::size_t i = 0; i < generators_.size(); ++i)
    generators_[i].restore(places_[2 * i], places_[2 * i + 1]);
}
void fail_input_count(std::size_t count, Caller caller) {
  fail<Error>(caller, "check", "inputs", "as many tensors as f takes", to_text(count));
}
}  // namespace reel::detail
