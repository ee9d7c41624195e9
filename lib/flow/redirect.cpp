// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/redirect.hpp"

namespace reel {
Redirect::Redirect() {
  Context& context = open_scope(*this, &Flow::redirects);
  context.mode |= redirected;
  tapes_before_ = context.reel->alive;
}
Redirect::~Redirect() {
  close_scope(*this, &Flow::redirects, [](Flow& flow, OpenScope* innermost) {
    if (!innermost) flow.mode &= static_cast<std::uint8_t>(~redirected);
  });
}

void Redirect::watch_as(const Variable& variable, const Tensor& value, Caller caller) const {
  const Context& context = Context::here();
  Reel& reel = *context.reel;
  Body* const body = Access::body(value);
  std::uint64_t tapes = reel.watching_variables & reel.active & ~tapes_before_;
  if (!tapes || !is_floating(body->dtype)) return;
  const std::uint32_t record = reel.find(*body);
  if (record != no_record) tapes &= ~(reel[record].tapes | reel[record].watchers);
  if (tapes) reel.watch(body, &Access::cell(variable), tapes, context.caller_of(caller));
}
}  // namespace reel
