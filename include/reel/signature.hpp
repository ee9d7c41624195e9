// SPDX-License-Identifier: BSD-3-Clause
// The signature of a callable that is not generic.
#pragma once
namespace reel::detail {
template <class F>
struct Signature;
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> {
  using type = R(A...);
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> {
  using type = R(A...);
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const noexcept> {
  using type = R(A...);
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) noexcept> {
  using type = R(A...);
};
/// Empty where the callable is generic or overloaded, or is none.
template <class F>
struct SignatureOf {};
template <class F>
requires requires { typename Signature<decltype(&F::operator())>::type; }
struct SignatureOf<F> : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> {
  using type = R(A...);
};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> {
  using type = R(A...);
};
}  // namespace reel::detail
