// SPDX-License-Identifier: BSD-3-Clause
// while_loop(), repeat(), scan() and cond(): the results and gradients of C++ loops, eagerly and in
// traces, and one step of the graph where trips do the same.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using List = std::vector<Tensor>;
struct State {
  Tensor h, c;
  REEL_FIELDS(h, c)
};
constexpr Tolerance near_enough{.rtol = 1e-5, .atol = 1e-5};

/// Compares a traced function with the function itself, for these arguments, and counts the steps
/// of its graph that are loops.
template <class F>
int check(F f, const List& arguments, std::size_t paths = 1) {
  auto fast = trace<List(Tensor)>(f, {.throw_on_difference = true});
  for (const Tensor& x : arguments) {
    const List found = fast(x), expected = f(x);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("result " << i);
      CHECK(allclose(found[i], expected[i], near_enough));
    }
  }
  INFO(fast.explain());
  CHECK(fast.explain().find("eagerly") == std::string::npos);
  if (paths) CHECK(fast.trace_count() == paths);
  int loops = 0;
  for (const GraphNode& node : fast.graph(arguments[0]).nodes())
    loops += node.op.starts_with("while_loop") || node.op.starts_with("scan") ||
             node.op.starts_with("repeat") || node.op.starts_with("cond");
  return loops;
}
List several(Shape shape, int count = 8) {
  List all;
  for (int i = 0; i < count; ++i) all.push_back(random::normal(shape));
  return all;
}
const auto halves = [](Tensor x) { return x * 0.5; };
const auto is_large = [](Tensor x) { return sum(abs(x)) > 1.0; };
}  // namespace

TEST_CASE("loops run eagerly as C++ loops") {
  CHECK(while_loop([](Tensor x) { return x < 50; }, [](Tensor x) { return x * 2; }, tensor(1))
            .item<int>() == 64);
  CHECK(while_loop([](Tensor x) { return x.item<int>() < 3; }, [](Tensor x) { return x + 1; },
                   tensor(0))
            .item<int>() == 3);
  const auto factorial = [](Operand count) {
    return repeat(count, full({}, 1, int64), [](Tensor x, Tensor i) { return x * (i + 1); });
  };
  CHECK(factorial(5).item<std::int64_t>() == 120);
  CHECK(factorial(tensor(4)).item<std::int64_t>() == 24);
  CHECK(factorial(0).item<std::int64_t>() == 1);
  const auto add = [](Tensor s, Tensor x) { return std::pair(s + x, s + x); };
  auto [total, sums] = scan(tensor(0), tensor({1, 2, 3}), add);
  CHECK(total.item<int>() == 6);
  CHECK(equal(sums, tensor({1, 3, 6})));
  CHECK(
      equal(scan(tensor(0), tensor({1, 2, 3}), add, {.reverse = true}).second, tensor({6, 5, 3})));
  CHECK(cond(
            tensor(3) > 2, [] { return tensor(1); }, [] { return tensor(0); })
            .item<int>() == 1);
  const auto both = scan(State{zeros({2}), ones({2})}, std::pair(ones({3, 2}), ones({3, 2})),
                         [](State s, std::pair<Tensor, Tensor> x) {
                           return std::pair(State{s.h + x.first, s.c * 2.0}, State{s.h, x.second});
                         });
  CHECK(equal(both.first.h, full({2}, 3.0)));
  CHECK(both.second.h.shape() == Shape{3, 2});
}

TEST_CASE("loops refuse what is no condition, no count and no state") {
  const Tensor x = tensor({1, 2});
  const auto same = [](Tensor t) { return t; };
  check_refused<Error>([&] { while_loop(same, same, x); },
                       "condition: expected one bool, got int32(2,)");
  const auto few = [](Tensor t) { return sum(t) < 5; };
  const auto twice = [](Tensor t) { return concat({t, t}); };
  check_refused<ShapeError>([&] { while_loop(few, twice, x); },
                            "state: expected int32(2,), as at first, got int32(4,) after 1 trip");
  const auto wide = [](State s) { return State{s.h, s.c.to(float64)}; };
  check_refused<DTypeError>(
      [&] {
        while_loop([](State) { return true; }, wide, State{ones({1}), ones({1})});
      },
      "state.c: expected float32(1,), as at first, got float64(1,)");
  const auto ever = [](Tensor) { return true; };
  check_refused<Error>([&] { while_loop(ever, same, x, {.most = 3}); },
                       "false after at most 3 trips");
  const auto second = [](Tensor s, Tensor) { return s; };
  check_refused<Error>([&] { repeat(2.5, x, second); }, "count: expected one integer");
  const auto pass = [](Tensor s, Tensor r) { return std::pair(s, r); };
  check_refused<ShapeError>([&] { scan(x, zeros({0, 3}), pass); }, "at least one row");
  const auto firsts = [](Tensor s, std::pair<Tensor, Tensor> r) { return std::pair(s, r.first); };
  check_refused<ShapeError>([&] { scan(x, std::pair(ones({2}), ones({3})), firsts); },
                            "first axes of length 2");
  const auto one = [] { return tensor(1); };
  check_refused<Error>([&] { cond(x, one, one); }, "which: expected one bool");
}

TEST_CASE("one capture of a loop serves every number of trips", "[cpu]") {
  List sizes;
  for (const float size : {0.5f, 5.0f, 0.01f, 30.0f, 0.7f, 0.02f})
    sizes.push_back(full({10}, size));
  CHECK(check([](Tensor v) { return List{while_loop(is_large, halves, v)}; }, sizes) == 1);
  List counts;
  for (const int count : {3, 5, 0, 9, 1}) counts.push_back(tensor(count));
  CHECK(check(
            [](Tensor n) {
              return List{repeat(n, ones({3}), [](Tensor s, Tensor i) { return s * 1.5 + i; })};
            },
            counts) == 1);
  const Tensor k = random::normal({1});
  CHECK(check(
            [&](Tensor v) {
              for (int i = 1; i < 5; ++i)
                v = cond(
                    sum(v * static_cast<float>(i)) > 0.5, [&] { return v * 0.5; },
                    [&] { return v + 1.0 + k; });
              return List{v};
            },
            several({3}, 30), 0) == 4);
}

TEST_CASE("a branch may return a row of the loop around it", "[cpu]") {
  const auto f = [](Tensor x) {
    const auto [last, made] = scan(zeros({2}), x, [](Tensor s, Tensor row) {
      const Tensor next = cond(
          sum(row) > 0, [&] { return row; }, [&] { return s; });
      return std::pair(next, next + row);
    });
    return last * 2 + sum(made, 0);
  };
  auto fast = trace<Tensor(Tensor)>(f);
  for (int i = 0; i < 20; ++i) {
    const Tensor x = random::normal({6, 2});
    CHECK(allclose(fast(x), f(x), near_enough));
  }
}

TEST_CASE("a loop that writes a Variable in some calls is one step in no call", "[cpu]") {
  for (const bool first : {true, false}) {  // whether the first call writes
    Variable w("w", zeros({2}));
    static int runs;
    const auto check_writes = [&](const auto& f) {
      runs = 0;
      w.assign(zeros({2}));
      auto fast = trace<Tensor(Tensor)>(f, {.throw_on_difference = true});
      Tensor total = zeros({2});
      for (int i = 0; i < 40; ++i) {
        const bool writes = (i % 3 != 1) == first;
        const float x = (writes ? 1.0f : -1.0f) * static_cast<float>(i + 1);
        CHECK(allclose(fast(full({2}, x)), full({2}, writes ? x * 2 : x * 3), near_enough));
        if (writes) total += full({2}, x);
        CHECK(allclose(w, total, near_enough));
      }
      INFO(fast.explain());
      CHECK(fast.explain().find("eagerly") == std::string::npos);
      CHECK(fast.trace_count() == 2);
      CHECK(runs < 20);
    };
    check_writes([w](Tensor x) {
      ++runs;
      const auto yes = [&] {
        w.assign_add(x);
        return x * 2.0;
      };
      return cond(sum(x) > 0.0, yes, [&] { return x * 3.0; });
    });
    check_writes([w](Tensor x) {
      ++runs;
      return repeat(2, x, [&](Tensor y, Tensor i) {
        if (sum(x) > 0.0f && i == 1.0f) w.assign_add(x);
        return sum(x) > 0.0f ? y + x * 0.5 : y + x;
      });
    });
  }
}

TEST_CASE("a scan in a trace reads Variables, constants and tensors around it", "[cpu]") {
  Variable w("w", random::normal({4, 4}, {.stddev = 0.3}));
  const Tensor k = random::normal({4});
  const auto f = [&](Tensor xs) {
    const Tensor bias = sum(xs) * 0.1;
    const auto [h, ys] = scan(zeros({3, 4}), xs, [&](Tensor s, Tensor x) {
      const Tensor next = tanh(matmul(s, w) + x + bias + k);
      return std::pair(next, transpose(next));
    });
    return List{h, ys};
  };
  CHECK(check(f, several({6, 3, 4})) == 1);
  auto fast = trace<List(Tensor)>(f);
  const Tensor xs = random::normal({6, 3, 4});
  for (int i = 0; i < 5; ++i) {
    CHECK(allclose(fast(xs)[0], f(xs)[0], near_enough));
    w.assign(w * 0.5);
  }
}

TEST_CASE("loops in traces have gradients, branches and loops inside", "[cpu]") {
  Variable w("w", random::normal({4, 4}, {.stddev = 0.3}));
  const auto cell = [&](Tensor h, Tensor x) {
    const Tensor next = tanh(matmul(h, w) + x);
    return std::pair(next, next);
  };
  SECTION("a state of two tensors, and what trips make") {
    CHECK(check(
              [&](Tensor xs) {
                GradientTape tape;
                tape.watch(xs);
                const auto [last, ys] = scan(State{zeros({4}), xs(0)}, xs, [&](State s, Tensor x) {
                  const Tensor c = sigmoid(matmul(s.h, w)) * s.c + x, h = tanh(c);
                  return std::pair(State{h, c}, h * s.h);
                });
                const Tensor loss = sum(square(last.h)) + sum(ys * ys * 0.5);
                return tape.gradient(loss, {xs, w});
              },
              several({6, 4})) == 2);
  }
  SECTION("any number of trips") {
    List sizes;
    for (const float size : {3.0f, 5.0f, 30.0f, 2.0f, 9.0f}) sizes.push_back(full({4}, size));
    CHECK(check(
              [&](Tensor v) {
                GradientTape tape;
                tape.watch(v);
                const Tensor y = while_loop(
                    is_large, [&](Tensor t) { return tanh(t) * mean(w) * 0.1 + t * 0.5; }, v);
                return tape.gradient(sum(y * y), {v, w});
              },
              sizes) == 2);
  }
  SECTION("a branch in the body") {
    CHECK(check(
              [&](Tensor xs) {
                GradientTape tape;
                tape.watch(xs);
                const auto [h, ys] = scan(zeros({4}), xs, [&](Tensor s, Tensor x) {
                  auto next = cell(s, x);
                  if (sum(x) > 0.0f) next.first = next.first * 2.0;
                  return next;
                });
                return tape.gradient(sum(h * h) + sum(ys), {xs, w});
              },
              several({6, 4}, 20), 0) == 2);
  }
  SECTION("cond") {
    CHECK(check(
              [&](Tensor x) {
                GradientTape tape;
                tape.watch(x);
                const Tensor y = cond(
                    sum(x) > 0.0, [&] { return matmul(x, w) * 2.0; }, [&] { return x * x; });
                return tape.gradient(sum(y * y), {x, w}, Unconnected::zero);
              },
              several({4}, 12), 2) == 0);
  }
  SECTION("a loop inside of a loop") {
    CHECK(check(
              [&](Tensor xs) {
                return List{scan(zeros({4}), xs, [&](Tensor h, Tensor x) {
                              const Tensor next = while_loop(is_large, halves, h * 2.0 + x);
                              return std::pair(next, next);
                            }).first};
              },
              several({6, 4})) == 1);
  }
  SECTION("views, in reverse") {
    CHECK(check(
              [&](Tensor xs) {
                GradientTape tape;
                tape.watch(xs);
                const auto [h, ys] = scan(zeros({2, 2}), xs,
                                          [](Tensor s, Tensor x) {
                                            const Tensor square = reshape(x, {2, 2}),
                                                         next =
                                                             transpose(s) * 0.5 + square * square;
                                            return std::pair(next, transpose(next));
                                          },
                                          {.reverse = true});
                List all = tape.gradient(sum(h * h) + sum(ys * ys * 2.0), {xs});
                all.push_back(transpose(h));
                all.push_back(ys);
                return all;
              },
              several({5, 4})) == 2);
  }
  SECTION("trips that give what they got") {
    CHECK(check(
              [](Tensor xs) {
                const Tensor doubled = xs * 2.0;
                const auto [h, ys] = scan(doubled(0), doubled, [&](Tensor s, Tensor x) {
                  return std::pair(x, std::pair(s, doubled));
                });
                return List{h, ys.first, ys.second};
              },
              several({5, 4})) == 1);
  }
}

TEST_CASE("a loop may read other Variables in other calls", "[cpu]") {
  Variable w("w", ones({3})), u("u", full({3}, 2.0));
  auto f = [&](Tensor xs) {
    GradientTape tape;
    const Tensor h = scan(zeros({3}), xs, [&](Tensor s, Tensor x) {
                       const Tensor next = sum(x) > 0.0 ? s + x * w : s * u + x;
                       return std::pair(next, next);
                     }).first;
    return tape.gradient(sum(h * h), {w, u}, Unconnected::zero);
  };
  auto fast = trace(f, {.throw_on_difference = true});
  for (int i = 0; i < 30; ++i) {
    const Tensor xs = random::normal({2, 3});
    const List found = fast(xs), expected = f(xs);
    for (std::size_t k = 0; k < 2; ++k) CHECK(allclose(found[k], expected[k], near_enough));
  }
}

TEST_CASE("a replay of a loop makes at most so many trips") {
  auto fast = trace([](Tensor x) {
    return while_loop([](Tensor t) { return t < 10; }, [](Tensor t) { return t + 1; }, x,
                      {.most = 5});
  });
  for (const int start : {8, 7, 5}) CHECK(fast(tensor(start)).item<int>() == 10);
  CHECK_THROWS_AS(fast(tensor(4)), Error);
}

TEST_CASE("a training step with a loop is one path", "[cpu]") {
  seed(3);
  nn::LSTMCell cell{4, 8};
  nn::Linear head(8, 2);
  std::vector<Variable> weights = parameters(cell);
  for (const Variable& each : parameters(head)) weights.push_back(each);
  optim::Adam adam(weights, {.learning_rate = 0.01});
  auto step = trace([&](Tensor xs, Tensor y) {
    GradientTape tape;
    const auto last = scan(cell.initial_state(3), xs, [&](nn::LSTMState s, Tensor x) {
                        const nn::LSTMState next = cell(x, s);
                        return std::pair(next, next.h);
                      }).first;
    const Tensor loss = mean(square(head(last.h) - y));
    adam.step(tape.gradient(loss, weights));
    return loss;
  });
  const Tensor xs = random::normal({7, 3, 4}), y = random::normal({3, 2});
  const float first = step(xs, y).item<float>();
  float last = first;
  for (int i = 0; i < 100; ++i) last = step(xs, y).item<float>();
  CHECK(last < first / 100);
  CHECK(step.trace_count() == 1);
}

TEST_CASE("random numbers in a loop are those of the C++ loop") {
  const auto f = [](Tensor xs) {
    const auto [h, ys] = scan(zeros({4}), xs, [](Tensor s, Tensor x) {
      const Tensor next = s * 0.5 + x + random::normal({4});
      return std::pair(next, next);
    });
    return List{h, ys, random::uniform({3})};
  };
  auto fast = trace(f, {.throw_on_difference = true});
  for (std::uint64_t i = 0; i < 5; ++i) {
    const Tensor xs = random::normal({5, 4});
    seed(i);
    const List found = fast(xs);
    seed(i);
    const List expected = f(xs);
    for (std::size_t k = 0; k < expected.size(); ++k) CHECK(equal(found[k], expected[k]));
  }
}

TEST_CASE("trips that no step can repeat are captured one by one", "[cpu]") {
  Variable w("w", random::normal({4, 4}, {.stddev = 0.3}));
  const auto cell = [&](Tensor h, Tensor x) {
    const Tensor next = tanh(matmul(h, w) + x);
    return std::pair(next, next);
  };
  SECTION("a tensor of a trip is used behind the loop") {
    CHECK(check(
              [&](Tensor xs) {
                List kept;
                const Tensor h = scan(zeros({4}), xs, [&](Tensor s, Tensor x) {
                                   kept.push_back(s * 3.0);
                                   return cell(s, x);
                                 }).first;
                return List{h, kept[2]};
              },
              several({5, 4})) == 0);
  }
  SECTION("a C++ number that trips count") {
    CHECK(check(
              [&](Tensor xs) {
                int trip = 0;
                return List{scan(zeros({4}), xs, [&](Tensor s, Tensor x) {
                              return cell(s, x * static_cast<float>(++trip));
                            }).first};
              },
              several({5, 4})) == 0);
  }
  SECTION("an assignment to a Variable") {
    Variable sums("sums", zeros({4}));
    check(
        [&](Tensor xs) {
          return List{scan(zeros({4}), xs, [&](Tensor s, Tensor x) {
                        sums.assign(x * 2.0);
                        return cell(s, x + sums);
                      }).first};
        },
        several({5, 4}));
  }
  SECTION("a tape that goes back twice, and second derivatives") {
    CHECK(check(
              [&](Tensor xs) {
                GradientTape tape({.persistent = true});
                tape.watch(xs);
                const Tensor h = scan(zeros({4}), xs, cell).first;
                List all = tape.gradient(sum(h * h), {xs, w});
                all.push_back(tape.gradient(sum(h), w));
                return all;
              },
              several({5, 4})) == 0);
    CHECK(check(
              [&](Tensor xs) {
                GradientTape outer;
                outer.watch(xs);
                GradientTape tape;
                tape.watch(xs);
                const Tensor h = scan(zeros({4}), xs, cell).first;
                const List slopes = tape.gradient(sum(h * h), {xs, w});
                return outer.gradient(sum(slopes[0] * slopes[0]) + sum(slopes[1]), {xs, w});
              },
              several({5, 4})) == 0);
  }
  SECTION("the gradient of a loop inside of a loop") {
    CHECK(check(
              [&](Tensor xs) {
                GradientTape tape;
                tape.watch(xs);
                const Tensor h = scan(zeros({4}), xs, [&](Tensor s, Tensor x) {
                                   const Tensor next = scan(s, stack({x, x * 2.0}), cell).first;
                                   return std::pair(next, next);
                                 }).first;
                return tape.gradient(sum(h * h), {xs, w});
              },
              several({5, 4})) == 2);  // of the outer one
  }
}

TEST_CASE("the text of a graph shows the body of a loop, and run() runs it", "[cpu]") {
  auto f = trace([](Tensor x) {
    return named(while_loop(is_large, halves, named(x + 1.0, "start")), "end") * 2.0;
  });
  const Tensor x = full({3}, 5.0);
  f(x);
  const Graph graph = graph_of(f, x);
  const std::string text = to_string(graph);
  INFO(text);
  CHECK(text.find("while_loop") != text.npos);
  CHECK(text.find("\n      return") != text.npos);
  graph.verify();
  const Tensor start = full({3}, 40.0);
  CHECK(equal(run(graph, {.feed = {{"start", start}}, .fetch = {"end"}}).at("end"),
              while_loop(is_large, halves, start)));
}
}  // namespace reel::tests
