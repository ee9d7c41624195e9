// SPDX-License-Identifier: BSD-3-Clause
// Programs with state outside of the trace. They run with and without a trace.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <reel/reel.hpp>

namespace reel::tests::outside {
constexpr int calls = 48, change = 20;

/// How a program may differ from its run without a trace.
enum class May {
  nothing,
  run_eagerly,     // it must run eagerly, with a reason
  differ_a_while,  // from the change to the next check; then it must run eagerly
};

struct Program {
  const char* name;
  May may;
  std::function<std::vector<Tensor>()> eager;
  std::function<std::vector<Tensor>(std::string& explained)> traced;
};

/// The body gets a function that wraps its function, and one that takes the result of each call.
template <class Body>
Program program(const char* name, May may, Body body) {
  const auto run = [body](auto wrap) {
    std::vector<Tensor> given;
    seed(7);
    body(wrap, [&](const Tensor& x) { given.push_back(x * 1); });
    return given;
  };
  return {name, may, [run] { return run([](auto f) { return f; }); },
          [run](std::string& explained) {
            std::vector<std::function<std::string()>> all;
            auto given = run([&](auto f) {
              auto traced = trace(f);
              all.push_back([traced] { return traced.explain(); });
              return traced;
            });
            for (const auto& explain : all) explained += explain();
            return given;
          }};
}

inline Tensor input(int i) { return full({3}, 1.0f + 0.25f * static_cast<float>(i)); }

/// The function changes its own state.
void add_kept(std::vector<Program>& list);
}  // namespace reel::tests::outside
