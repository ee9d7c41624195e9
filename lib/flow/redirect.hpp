// SPDX-License-Identifier: BSD-3-Clause
// Changes what ops read: other weights, or the values that a checkpoint has noted.
#pragma once
#include "lib/flow/context.hpp"

namespace reel {
struct RandomOptions;  // lib/table/options/random.hpp

/// While it lives, ops of this flow read through it. The innermost one is called first, and calls
/// those around it. With one, ops take the general path of the gate, and traced functions run
/// eagerly.
class Redirect : OpenScope {
 public:
  Redirect();
  virtual ~Redirect();
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;

  /// The operand that is read instead of x. It lives as long as x or this object.
  virtual Operand read(const Operand& x) { return next() ? next()->read(x) : Operand(x); }
  /// Whether an update may write this Variable. If not, the write is left out. May throw.
  virtual bool writes(const Variable& x, std::string_view op, Caller caller) {
    return !next() || next()->writes(x, op, caller);
  }
  /// Draws random numbers. `now` draws from the generator, and stores seed and position in its
  /// options.
  using Draw = Tensor (*)(RandomOptions& options, Caller caller);
  virtual Tensor draw(RandomOptions& options, Caller caller, Draw now) {
    return next() ? next()->draw(options, caller, now) : now(options, caller);
  }

  /// The innermost one; null outside.
  static Redirect* here(const Flow& flow) { return static_cast<Redirect*>(flow.redirects); }
  /// The operand that is read instead of x, with or without a Redirect.
  static const Tensor& read_tensor(const Flow& flow, const Tensor& x) {
    return flow.mode & redirected && x.defined() ? here(flow)->read(x).tensor() : x;
  }

 protected:
  /// Tapes that were made after the Redirect, and that watch Variables, watch `value` as this
  /// Variable.
  void watch_as(const Variable& variable, const Tensor& value, Caller caller) const;
  Redirect* next() const { return static_cast<Redirect*>(outer); }

 private:
  std::uint64_t tapes_before_;
};
}  // namespace reel
