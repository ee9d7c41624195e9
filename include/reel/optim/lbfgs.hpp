// SPDX-License-Identifier: BSD-3-Clause
// L-BFGS: a quasi-Newton method for losses that are the same at each call.
#pragma once  // defined in lib/optim
#include <string_view>
#include <type_traits>
#include <vector>

#include <reel/variable.hpp>

namespace reel::optim {
/// Options of LBFGS.
struct LBFGSOptions {
  std::int64_t iterations = 20;   // at most, in one call of step()
  std::int64_t evaluations = 25;  // of the loss at most, in one line search
  std::int64_t history = 10;      // pairs of a step and a change of the gradient that it keeps
  double learning_rate = 1;       // the first length that a line search tries
  /// It stops where no element of the gradient is larger. It is not relative to the loss.
  double gradient_tolerance = 1e-7;
  /// Or where the loss changes less, relative to max(1, |loss|).
  double change_tolerance = 1e-9;
};
/// What a call of LBFGS::step() has done.
struct LBFGSResult {
  double loss;               // at the Variables' new values
  std::int64_t iterations;   // steps of the Variables
  std::int64_t evaluations;  // of the loss and its gradient
  bool converged;            // whether a tolerance has ended it, or the precision of the dtype
  std::string_view reason;   // why it has ended, for a line of text
};
/// Limited-memory BFGS (Nocedal 1980) with a line search for the strong Wolfe conditions (Nocedal
/// and Wright, "Numerical Optimization", algorithms 3.5 and 3.6, with 1e-4 and 0.9). It suits small
/// problems whose loss is the same function at each call: all data in one batch, no dropout.
///
///     Variable x("x", tensor({-1.0, 2.0}));
///     optim::LBFGS lbfgs({x});
///     lbfgs.step([&] { return sum(square(x - 3)); });
///     x.value()  // [3., 3.]
///
/// The Variables are floating, of one dtype, on one device. It keeps 2 history vectors as large as
/// all of them. Throws Error for no Variables, one twice, or an option out of range; DTypeError or
/// DeviceError for Variables of other kinds.
class REEL_API LBFGS {
 public:
  explicit LBFGS(std::vector<Variable> variables, LBFGSOptions options = {},
                 Caller caller = Caller::here());
  /// Minimizes a loss: a function without arguments that returns one number. It is called under a
  /// tape of step() for each point, after the Variables have been assigned. A point whose loss is
  /// not finite is too far away. The loss never rises. It has not converged where the loss falls to
  /// -infinity, or still falls after a line search over 1e10 times its first step. Throws
  /// ShapeError unless the loss is one number, Error if the first loss or its gradient is not
  /// finite. After an exception the Variables have the values of the last finished iteration.
  template <class Loss>
  LBFGSResult step(Loss&& loss, Caller caller = Caller::here()) {
    return minimize(
        [](void* function) -> Tensor {
          return (*static_cast<std::remove_reference_t<Loss>*>(function))();
        },
        const_cast<void*>(static_cast<const void*>(&loss)), caller);
  }
  /// The Variables that it updates.
  const std::vector<Variable>& variables() const { return variables_; }
  std::vector<Variable>& bound_variables() { return variables_; }  // see Optimizer
  /// The state, which a checkpoint must contain.
  void fields(auto&& field) {
    field("step", steps_);
    field("change", changes_);
    field("pairs", pairs_);
  }

 private:
  struct Search;
  LBFGSResult minimize(Tensor (*loss)(void*), void* function, Caller caller);
  Tensor direction(const Tensor& gradient) const;
  void remember(const Tensor& step, const Tensor& change);
  std::vector<Variable> variables_, steps_, changes_;  // a ring of pairs
  Variable pairs_;                                     // how many there were
  LBFGSOptions options_;
};
}  // namespace reel::optim
