// SPDX-License-Identifier: BSD-3-Clause
#include "lib/flow/interceptor.hpp"

#include <reel/error.hpp>

#include "lib/body/access.hpp"
#include "lib/flow/observer.hpp"
#include "lib/flow/redirect.hpp"

namespace reel {
InterceptorScope::InterceptorScope(Interceptor& interceptor) : interceptor_(interceptor) {
  Context& context = Context::here();
  interceptor.next = context.interceptors;
  context.interceptors = &interceptor;
  context.mode |= intercepted;
}
InterceptorScope::~InterceptorScope() {
  Context& context = Context::here();
  for (Interceptor** link = &context.interceptors; *link; link = &(*link)->next)
    if (*link == &interceptor_) {
      *link = interceptor_.next;
      break;
    }
  if (!context.interceptors) context.mode &= static_cast<std::uint8_t>(~intercepted);
}

InterceptorPause::InterceptorPause() : interceptors_(Context::here().interceptors) {
  Context& context = Context::here();
  context.interceptors = nullptr;
  context.mode &= static_cast<std::uint8_t>(~intercepted);
}
InterceptorPause::~InterceptorPause() {
  Context& context = Context::here();
  context.interceptors = interceptors_;
  if (interceptors_) context.mode |= intercepted;
}

bool run_outside(Context& context, Caller caller, std::string_view name,
                 const detail::Function<void()>& what) {
  if (!context.interceptors) {  // one example, as a plain call
    const SharingScope outside(context, false, false);
    what();
    return true;
  }
  if (context.interceptors->outside(what)) return true;
  fail<Error>(caller, name, "f", "a call outside of vmap()", "one inside",
              "It would run without its own gradient.");
}
bool is_intercepted() { return Context::here().interceptors; }
void run_unrecorded(const detail::Function<void()>& what) {
  const RecordingPause pause(Context::here());
  what();
}
void tell_interceptors(const char* what) {
  for (Interceptor* each = Context::here().interceptors; each; each = each->next)
    each->cannot_follow(what);
}
void tell_host_read(const Tensor& x, HostRead read) {
  Context& context = Context::here();
  for (Interceptor* each = context.interceptors; each; each = each->next) each->host_read(x, read);
  if (context.mode & observed) tell_host_read(context, *Access::body(x), read);
}
void tell_variable_made(Context& context, const Variable& variable) {
  for (Interceptor* each = context.interceptors; each; each = each->next)
    each->variable_made(variable);
  if (context.mode & observed) tell_made(context, variable);
}
const Tensor& find_variable(Context& context, const Variable& variable) {
  if (context.mode & redirected) [[unlikely]]
    if (const Operand other = Redirect::here(context)->read(variable);
        other.kind() != Operand::Kind::variable)
      return other.tensor();
  return own_value(context, variable);
}
const Tensor& own_value(Context& context, const Variable& variable) {
  const Tensor* value = &Access::cell(variable).value;
  for (Interceptor* each = context.interceptors; each; each = each->next)
    if (const Tensor* other = each->variable_read(variable, *value)) value = other;
  return *value;
}
const Tensor& read_variable(Context& context, const Variable& variable) {
  const Tensor& value = find_variable(context, variable);
  if (context.mode & observed) tell_read(context, variable);
  return value;
}
Tensor make_alias(Context& context, Body* body) {
  Tensor made = Access::adopt(allocate_view(context, body));
  if (made.defined() && is_mark(*body)) Access::body(made)->id = body->id;
  for (Interceptor* each = context.interceptors; made.defined() && each; each = each->next)
    each->aliased(*body, *Access::body(made));
  return made;
}
}  // namespace reel
