// SPDX-License-Identifier: BSD-3-Clause
// R33: functions that keep state far from the function object: behind several pointers, deep inside
// of objects, on the stack. The state changes a result only sometimes, so no check would find it
// soon.
#include "trace/outside.hpp"

#include <any>
#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

namespace reel::tests::outside {
namespace {
constexpr int often = 20;  // the state changes the result of every 20th call

struct Schedule {
  int step = 0;
  double rate = 1;
  double next() {
    if (++step % often == 0) rate *= 0.1;
    return rate;
  }
};
struct Trainer {
  nn::Linear layer{3, 3};
  std::string name = "trainer";
  std::vector<double> log;
  double table[40] = {};
  std::unique_ptr<Schedule> schedule = std::make_unique<Schedule>();
  Tensor step(const Tensor& x) { return x * schedule->next(); }
};
struct Layer {
  virtual ~Layer() = default;
  virtual Tensor step(Tensor x) = 0;
};
struct Counting : Layer {
  std::array<double, 30> table{};
  std::vector<int> counts = {0, 0, 0};
  Tensor step(Tensor x) override { return ++counts[1] % often ? x : x * 2; }
};
struct Node {
  std::unique_ptr<Node> next;
  int n = 0;
};
struct Inner {
  int n = 0;
};
struct Middle {
  std::unique_ptr<Inner> inner = std::make_unique<Inner>();
};
struct Outer {
  std::unique_ptr<Middle> middle = std::make_unique<Middle>();
};

Tensor decide(int& n, const Tensor& x) { return ++n % often ? x : x * 2; }

/// A program whose function is `make(state)`. The state is on the stack.
template <class State, class Make>
void add(std::vector<Program>& list, const char* name, Make make) {
  list.push_back(program(name, May::run_eagerly, [make](auto wrap, auto emit) {
    State state{};
    auto f = wrap(make(state));
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
}
}  // namespace

void add_deep(std::vector<Program>& list) {
  add<Trainer>(list, "a schedule behind a unique_ptr of an object on the stack",
               [](auto& s) { return [&s](Tensor x) { return s.step(x); }; });
  add<std::unique_ptr<Trainer>>(list, "the same on the heap", [](auto& s) {
    s = std::make_unique<Trainer>();
    return [&s](Tensor x) { return s->step(x); };
  });
  add<int>(list, "the same behind a captured shared_ptr",
           [](int&) { return [s = std::make_shared<Trainer>()](Tensor x) { return s->step(x); }; });
  add<std::vector<std::unique_ptr<Layer>>>(list, "layers that count, in a vector of pointers",
                                           [](auto& s) {
                                             for (int i = 0; i < 3; ++i)
                                               s.push_back(std::make_unique<Counting>());
                                             return [&s](Tensor x) {
                                               for (const auto& layer : s) x = layer->step(x);
                                               return x;
                                             };
                                           });
  add<std::vector<std::shared_ptr<Schedule>>>(
      list, "the last of twenty schedules behind shared_ptrs", [](auto& s) {
        for (int i = 0; i < 20; ++i) s.push_back(std::make_shared<Schedule>());
        return [&s](Tensor x) { return x * s[19]->next(); };
      });
  add<Node>(list, "a node five pointers away", [](auto& s) {
    Node* last = &s;
    for (int i = 0; i < 4; ++i) last = (last->next = std::make_unique<Node>()).get();
    return [&s](Tensor x) {
      Node* node = &s;
      while (node->next) node = node->next.get();
      return decide(node->n, x);
    };
  });
  add<Outer>(list, "an object behind a pointer behind a pointer",
             [](auto& s) { return [&s](Tensor x) { return decide(s.middle->inner->n, x); }; });
  add<std::map<int, int>>(list, "the only counter in a map",
                          [](auto& s) { return [&s](Tensor x) { return decide(s[1], x); }; });
  add<std::map<std::string, int>>(list, "a counter of many in a map", [](auto& s) {
    for (char c = 'a'; c <= 'z'; ++c) s[std::string(1, c)] = 0;
    return [&s](Tensor x) { return decide(s["t"], x); };
  });
  add<std::unordered_map<std::string, int>>(list, "the same in an unordered_map", [](auto& s) {
    for (char c = 'a'; c <= 'z'; ++c) s[std::string(1, c)] = 0;
    return [&s](Tensor x) { return decide(s["t"], x); };
  });
  add<std::deque<int>>(list, "an element of a deque", [](auto& s) {
    s.assign(300, 0);
    return [&s](Tensor x) { return decide(s[200], x); };
  });
  add<std::list<int>>(list, "an element in the middle of a list", [](auto& s) {
    s.assign(9, 0);
    return [&s](Tensor x) { return decide(*std::next(s.begin(), 4), x); };
  });
  add<std::any>(list, "an object in an any", [](auto& s) {
    s = std::make_shared<Schedule>();
    return [&s](Tensor x) { return x * std::any_cast<std::shared_ptr<Schedule>&>(s)->next(); };
  });
  add<Counting>(list, "a bound method of an object on the stack", [](auto& s) {
    return std::function<Tensor(Tensor)>(std::bind(&Counting::step, &s, std::placeholders::_1));
  });
  add<int>(list, "a bound method of a shared object", [](int&) {
    return std::function<Tensor(Tensor)>(
        std::bind(&Counting::step, std::make_shared<Counting>(), std::placeholders::_1));
  });
  add<std::vector<std::function<Tensor(Tensor)>>>(list, "functions that count", [](auto& s) {
    for (int k = 0; k < 5; ++k)
      s.push_back([n = 0, k, table = std::array<int, 10>{}](Tensor x) mutable {
        return ++n % (often + k) ? x : x * (2 + table[1]);
      });
    return [&s](Tensor x) {
      for (auto& f : s) x = f(x);
      return x;
    };
  });
  add<std::vector<int>>(list, "an element far into a vector", [](auto& s) {
    s.assign(10000, 0);
    return [&s](Tensor x) { return decide(s[5000], x); };
  });
  add<std::vector<int>>(list, "an element that a pointer into a vector leads to", [](auto& s) {
    s.assign(800, 0);
    return [n = &s[700]](Tensor x) { return decide(*n, x); };
  });
  list.push_back(
      program("an engine of a model on the stack", May::run_eagerly, [](auto wrap, auto emit) {
        struct {
          double table[5] = {};
          std::unique_ptr<std::mt19937_64> engine = std::make_unique<std::mt19937_64>(3);
        } model;
        auto f = wrap(
            [&](Tensor x) { return std::bernoulli_distribution(0.1)(*model.engine) ? x * 2 : x; });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(
      program("lambdas that lead to each other", May::run_eagerly, [](auto wrap, auto emit) {
        const auto n = std::make_unique<int>(0);
        const auto a = [&] { return ++*n; };
        const auto b = [&] { return a(); };
        const auto c = [&] { return b(); };
        auto f = wrap([&](Tensor x) { return c() % often ? x : x * 2; });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
  list.push_back(
      program("a number behind four pointers", May::run_eagerly, [](auto wrap, auto emit) {
        int n = 0, *first = &n, **second = &first, ***third = &second;
        auto f = wrap([third](Tensor x) { return decide(***third, x); });
        for (int i = 0; i < calls; ++i) emit(f(input(i)));
      }));
}
}  // namespace reel::tests::outside
