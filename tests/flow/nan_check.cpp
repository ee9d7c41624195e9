// SPDX-License-Identifier: BSD-3-Clause
// The observer of docs/extending.md, which shows it as it is here.
#include <string>

#include <reel/reel.hpp>

#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "support/catch.hpp"

using namespace reel;

namespace {
/// Throws at the first op or gradient kernel whose result is not finite.
class NaNCheck : public Observer {
 public:
  void op_ends(const GateCall& call) override { check(call, "result"); }
  void gradient_ends(const GateCall& call) override { check(call, "gradient"); }

 private:
  static void check(const GateCall& call, const char* what) {
    for (int i = 0; i < call.output_count; ++i) {
      const Body* body = call.outputs[i];
      if (!body || !is_floating(body->dtype)) continue;
      const Tensor y = contiguous_copy(*body);
      if (!all(y - y == 0))
        fail<Error>(call.caller, call.op.name, what, "finite numbers", "others");
    }
  }
};
}  // namespace

TEST_CASE("a NaN check names the op and the line, forward and backward") {
  const Variable w("w", tensor({4.0f, 0.0f}));
  NaNCheck check;
  const ObserverScope scope(check);
  const auto text_of = [](const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(0, text.find('\n'));
    }
    return std::string();
  };
  CHECK(text_of([&] { sqrt(w) + 1.0f; }).empty());
  const unsigned forward = __LINE__ + 1;
  const std::string found = text_of([&] { log(w); });
  CHECK(found == "nan_check.cpp:" + std::to_string(forward) +
                     ": log: result: expected finite numbers, got others");
  GradientTape tape;
  const unsigned backward = __LINE__ + 1;
  const Tensor y = sqrt(w);
  CHECK(text_of([&] { tape.gradient(y, w); }) ==
        "nan_check.cpp:" + std::to_string(backward) +
            ": gradient: gradient of sqrt: expected finite numbers, got others");
}
