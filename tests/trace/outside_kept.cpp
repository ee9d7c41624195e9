// SPDX-License-Identifier: BSD-3-Clause
// R33: functions that keep their own state.
#include "trace/outside.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <utility>

namespace reel::tests::outside {
namespace {
struct State {
  Tensor h = zeros({3});
  int steps = 0;
  void fields(auto&& field) {
    field("h", h);
    field("steps", steps);
  }
};
struct Model {
  int steps = 0;
  std::vector<float> weights = {1, 2, 3};
  Tensor step(const Tensor& x) { return x * static_cast<float>(++steps); }
  Tensor rotate(const Tensor& x) {
    std::rotate(weights.begin(), weights.begin() + 1, weights.end());
    return x * tensor(weights);
  }
};
struct Functor {
  float total = 0;
  Tensor operator()(Tensor x) { return x * (total += 1); }
};
struct FieldFunctor {
  std::vector<float> totals = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  Tensor operator()(Tensor x) { return x * (totals[17] += 1); }
  void fields(auto&& field) { field("totals", totals); }
};
}  // namespace

void add_kept(std::vector<Program>& list) {
  list.push_back(
      program("a counter decides on every fourth call", May::run_eagerly, [](auto wrap, auto emit) {
        int n = 0;
        Variable w("w", zeros({3}));
        auto f = wrap([&](Tensor x) {
          if (++n % 4 == 0) w.assign_add(x);
          return w.value() + x;
        });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(program("a counter inside of the function object", May::run_eagerly,
                         [](auto wrap, auto emit) {
                           auto f = wrap([n = 0](Tensor x) mutable { return x * (++n % 3); });
                           for (int i = 0; i < calls; ++i) emit(f(input(i)));
                         }));
  list.push_back(program("a rate that decays by steps", May::run_eagerly, [](auto wrap, auto emit) {
    double rate = 1;
    int step = 0;
    auto f = wrap([&](Tensor x) {
      if (++step % 5 == 0) rate *= 0.5;
      return x * rate;
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(
      program("a target network copied now and then", May::run_eagerly, [](auto wrap, auto emit) {
        Variable online("online", zeros({3})), target("target", zeros({3}));
        std::int64_t step = 0;
        auto f = wrap([&](Tensor x) {
          online.assign_add(x);
          if (++step % 10 == 0) target.assign(online);
          return target.value() * 1;
        });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(
      program("a running best in a captured tensor", May::run_eagerly, [](auto wrap, auto emit) {
        Tensor best = full({}, 100.0f);
        auto f = wrap([&](Tensor x) {
          best = minimum(best, sum(x));
          return best;
        });
        for (int i = 0; i < calls; ++i) emit(f(input(calls - i)));
      }));
  for (const bool warm : {false, true})
    list.push_back(program(
        "C++ random numbers of a captured engine", May::run_eagerly, [warm](auto wrap, auto emit) {
          std::mt19937 engine(3);
          if (warm) engine.discard(5);
          auto f = wrap([&](Tensor x) {
            return std::uniform_real_distribution<float>()(engine) < 0.3f ? x * 2 : x;
          });
          for (int i = 0; i < calls; ++i) emit(f(input(i)));
        }));
  list.push_back(program("an engine inside of the function object", May::run_eagerly,
                         [](auto wrap, auto emit) {
                           auto f = wrap([engine = std::mt19937(4)](Tensor x) mutable {
                             return x * std::uniform_real_distribution<float>()(engine);
                           });
                           for (int i = 0; i < calls; ++i) emit(f(input(i)));
                         }));
  list.push_back(program("a history of tensors", May::run_eagerly, [](auto wrap, auto emit) {
    std::vector<Tensor> history;
    auto f = wrap([&](Tensor x) {
      history.push_back(x * 2);
      return history[history.size() / 2];
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program("a history of numbers", May::run_eagerly, [](auto wrap, auto emit) {
    std::deque<float> history;
    auto f = wrap([&](Tensor x) {
      history.push_back(sum(x).template item<float>());
      return x * history.front();
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i % 2)));
  }));
  list.push_back(program("a history in a static", May::run_eagerly, [](auto wrap, auto emit) {
    static std::vector<Tensor> history;
    history.clear();
    auto f = wrap([](Tensor x) {
      history.push_back(x * 2);
      return history[history.size() / 2];
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
    history.clear();
  }));
  list.push_back(
      program("a static keeps the last argument", May::run_eagerly, [](auto wrap, auto emit) {
        static Tensor last;
        last = zeros({3});
        auto f = wrap([](Tensor x) { return x + std::exchange(last, x); });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
        last = Tensor();
      }));
  list.push_back(
      program("a static keeps a Variable's old value", May::run_eagerly, [](auto wrap, auto emit) {
        static Tensor old;
        old = zeros({3});
        Variable w("w", zeros({3}));
        auto f = wrap([&](Tensor x) {
          const Tensor y = old + x;
          old = w.value();
          w.assign_add(x);
          return y;
        });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
        old = Tensor();
      }));
  list.push_back(program("a map that is written", May::run_eagerly, [](auto wrap, auto emit) {
    std::map<int, float> sums;
    int n = 0;
    auto f = wrap([&](Tensor x) { return x * (sums[++n % 3] += 1); });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(
      program("an element of a captured vector", May::run_eagerly, [](auto wrap, auto emit) {
        std::vector<float> sums(4, 1.0f);
        auto f = wrap([&](Tensor x) { return x * (sums[2] *= 1.5f); });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(program("a flag that toggles", May::run_eagerly, [](auto wrap, auto emit) {
    bool odd = false;
    auto f = wrap([&](Tensor x) { return (odd = !odd) ? x * 2 : x; });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(
      program("an object behind a captured shared_ptr", May::run_eagerly, [](auto wrap, auto emit) {
        auto count = std::make_shared<int>(0);
        auto f = wrap([count](Tensor x) { return x * ++*count; });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(program("an object behind a reference to a unique_ptr", May::run_eagerly,
                         [](auto wrap, auto emit) {
                           auto count = std::make_unique<std::int64_t>(0);
                           auto f = wrap([&](Tensor x) { return x * ++*count; });
                           for (int i = 0; i < calls; ++i) emit(f(input(i)));
                         }));
  list.push_back(program("a method that counts", May::run_eagerly, [](auto wrap, auto emit) {
    auto model = std::make_unique<Model>();
    auto f = wrap([m = model.get()](Tensor x) { return m->step(x); });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program("a method that rotates a vector of its object", May::run_eagerly,
                         [](auto wrap, auto emit) {
                           auto model = std::make_shared<Model>();
                           auto f = wrap([model](Tensor x) { return model->rotate(x); });
                           for (int i = 0; i < calls; ++i) emit(f(input(i)));
                         }));
  list.push_back(program("a functor that adds up", May::run_eagerly, [](auto wrap, auto emit) {
    auto f = wrap(Functor());
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(
      program("a functor with fields that adds up", May::run_eagerly, [](auto wrap, auto emit) {
        auto f = wrap(FieldFunctor());
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(
      program("a captured function that counts", May::run_eagerly, [](auto wrap, auto emit) {
        std::function<float()> next = [n = 0.0f]() mutable { return n += 1; };
        auto f = wrap([next](Tensor x) { return x * next(); });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(program("a queue of batches", May::run_eagerly, [](auto wrap, auto emit) {
    std::queue<Tensor> batches;
    for (int i = 0; i < 2 * calls; ++i) batches.push(input(i));
    auto f = wrap([&](Tensor x) {
      const Tensor batch = batches.front();
      batches.pop();
      return x * batch;
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program("a position in a data set", May::run_eagerly, [](auto wrap, auto emit) {
    std::vector<Tensor> data;
    for (int i = 0; i < 5; ++i) data.push_back(input(i));
    auto next = data.begin();
    auto f = wrap([&](Tensor x) {
      if (next == data.end()) next = data.begin();
      return x * *next++;
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program("a handle that turns to another Variable", May::run_eagerly,
                         [](auto wrap, auto emit) {
                           Variable a("a", ones({3})), b("b", full({3}, 2.0f)), now = a;
                           auto f = wrap([&](Tensor x) {
                             now = now.same_cell(a) ? b : a;
                             return x * now;
                           });
                           for (int i = 0; i < calls; ++i) emit(f(input(i)));
                         }));
  list.push_back(
      program("a tape that outlives the call", May::run_eagerly, [](auto wrap, auto emit) {
        std::unique_ptr<GradientTape> tape;
        Tensor y, at;
        auto f = wrap([&](Tensor x) {
          tape = nullptr;
          tape = std::make_unique<GradientTape>();
          tape->watch(x);
          at = x;
          return y = x * x;
        });
        for (int i = 0; i < calls; ++i) {
          f(input(i));
          emit(tape->gradient(sum(y), at));
          tape = nullptr;
        }
      }));
  list.push_back(
      program("an object behind a shared_ptr argument", May::run_eagerly, [](auto wrap, auto emit) {
        const auto state = std::make_shared<State>();
        auto f = wrap([](Tensor x, std::shared_ptr<State> s) {
          s->h = s->h + x;
          return s->h * 2;
        });
        for (int i = 0; i < calls; ++i) {
          emit(f(input(i), state));
          emit(state->h);
        }
      }));
  list.push_back(
      program("a number behind a shared_ptr argument", May::nothing, [](auto wrap, auto emit) {
        const auto state = std::make_shared<State>();
        auto f = wrap([](Tensor x, std::shared_ptr<State> s) {
          s->steps = (s->steps + 1) % 3;
          return x * static_cast<float>(s->steps);
        });
        for (int i = 0; i < calls; ++i) emit(f(input(i), state));
      }));
}
}  // namespace reel::tests::outside
