// SPDX-License-Identifier: BSD-3-Clause
// R33: state outside of a trace. These programs keep, change or read something that a trace does
// not see. Each of them gives the same result as without a trace, or runs eagerly with a reason, or
// is found at the next check.
#include "trace/outside.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests::outside {
namespace {
struct Settings {
  double rate = 0.5;
  void fields(auto&& field) { field("rate", rate); }
};
struct Hidden {
  Tensor x;
  float scale = 1;  // not listed in the fields
  void fields(auto&& field) { field("x", x); }
};

/// State that changes outside of the function, between two calls.
void add_changed(std::vector<Program>& list) {
  list.push_back(program("a captured rate", May::run_eagerly, [](auto wrap, auto emit) {
    double rate = 1;
    auto f = wrap([&](Tensor x) { return x * rate; });
    for (int i = 0; i < calls; ++i) {
      if (i == change) rate = 0.5;
      emit(f(input(i)));
    }
  }));
  list.push_back(program("a captured tensor", May::run_eagerly, [](auto wrap, auto emit) {
    Tensor scale = ones({3});
    auto f = wrap([&](Tensor x) { return x * scale; });
    for (int i = 0; i < calls; ++i) {
      if (i == change) scale = full({3}, 3.0f);
      emit(f(input(i)));
    }
  }));
  list.push_back(
      program("a captured vector of tensors", May::run_eagerly, [](auto wrap, auto emit) {
        std::vector<Tensor> scales = {ones({3})};
        auto f = wrap([&](Tensor x) {
          for (const Tensor& s : scales) x = x * s;
          return x;
        });
        for (int i = 0; i < calls; ++i) {
          if (i == change) scales.push_back(full({3}, 2.0f));
          emit(f(input(i)));
        }
      }));
  list.push_back(program("a captured flag", May::run_eagerly, [](auto wrap, auto emit) {
    bool twice = false;
    auto f = wrap([&](Tensor x) { return twice ? x * 2 : x + 1; });
    for (int i = 0; i < calls; ++i) {
      twice = i >= change;
      emit(f(input(i)));
    }
  }));
  list.push_back(program("a list of layers", May::run_eagerly, [](auto wrap, auto emit) {
    std::vector<nn::Linear> layers;
    layers.emplace_back(3, 3);
    auto f = wrap([&](Tensor x) {
      for (auto& layer : layers) x = layer(x);
      return x;
    });
    for (int i = 0; i < calls; ++i) {
      if (i == change) layers.emplace_back(3, 3);
      emit(f(input(i).reshape({1, 3})));
    }
  }));
  list.push_back(
      program("a captured choice of training", May::run_eagerly, [](auto wrap, auto emit) {
        bool train = false;
        auto f = wrap([&](Tensor x) {
          const TrainScope scope(train);
          return training() ? x * 2 : x;
        });
        for (int i = 0; i < calls; ++i) {
          train = i >= change;
          emit(f(input(i)));
        }
      }));
  list.push_back(program("a TrainScope outside", May::nothing, [](auto wrap, auto emit) {
    std::optional<TrainScope> scope;
    auto f = wrap([&](Tensor x) { return training() ? x * 2 : x; });
    for (int i = 0; i < calls; ++i) {
      scope.reset();
      scope.emplace(i % 3 == 0);
      emit(f(input(i)));
    }
  }));
  list.push_back(
      program("a number behind a pointer argument", May::nothing, [](auto wrap, auto emit) {
        const auto settings = std::make_shared<Settings>();
        auto f = wrap([](Tensor x, std::shared_ptr<Settings> s) { return x * s->rate; });
        for (int i = 0; i < calls; ++i) {
          settings->rate = i / 8;
          emit(f(input(i), settings));
        }
      }));
  list.push_back(
      program("a member that is no field", May::differ_a_while, [](auto wrap, auto emit) {
        Hidden hidden{ones({3})};
        auto f = wrap([](Tensor x, Hidden h) { return x * h.x * h.scale; });
        for (int i = 0; i < calls; ++i) {
          if (i == change) hidden.scale = 4;
          emit(f(input(i), hidden));
        }
      }));
  list.push_back(program("a global", May::differ_a_while, [](auto wrap, auto emit) {
    static float scale;
    scale = 1;
    auto f = wrap([](Tensor x) { return x * scale; });
    for (int i = 0; i < calls; ++i) {
      if (i == change) scale = 2;
      emit(f(input(i)));
    }
  }));
  list.push_back(program("a captured Shape", May::run_eagerly, [](auto wrap, auto emit) {
    Shape shape({3});
    auto f = wrap([&](Tensor x) { return sum(broadcast_to(x, shape)); });
    for (int i = 0; i < calls; ++i) {
      if (i == change) shape = Shape({2, 3});
      emit(f(input(i)));
    }
  }));
}

/// What a function asks that is no element of a tensor, and what the library does for eager calls
/// only.
void add_told(std::vector<Program>& list) {
  list.push_back(program("the number of threads", May::run_eagerly, [](auto wrap, auto emit) {
    const int before = num_threads();
    auto f = wrap([](Tensor x) { return x * num_threads(); });
    for (int i = 0; i < calls; ++i) {
      set_num_threads(i < change ? 1 : 2);
      emit(f(input(i)));
    }
    set_num_threads(before);
  }));
  list.push_back(program("the position of a generator", May::run_eagerly, [](auto wrap, auto emit) {
    const Generator numbers(5);
    auto f = wrap([&](Tensor x) {
      const GeneratorScope scope(numbers);
      return x * static_cast<float>(numbers.position());
    });
    for (int i = 0; i < calls; ++i) {
      Generator(numbers).set_position(static_cast<std::uint64_t>(i));
      emit(f(input(i)));
    }
  }));
  list.push_back(program("ops on another thread", May::run_eagerly, [](auto wrap, auto emit) {
    auto f = wrap([](Tensor x) {
      Tensor y;
      std::thread([&] { y = x * 2; }).join();
      return y + 1;
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i / 3)));
  }));
  list.push_back(program("a read on another thread", May::run_eagerly, [](auto wrap, auto emit) {
    auto f = wrap([](Tensor x) {
      bool large = false;
      const Tensor total = sum(x);
      std::thread([&] { large = total.item<float>() > 10; }).join();
      return large ? x : x * 2;
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program("an error that is caught", May::nothing, [](auto wrap, auto emit) {
    const Tensor table = arange(0, 5);
    auto f = wrap([table](Tensor x, Tensor at) {
      try {
        return x + take(table, at);
      } catch (const IndexError&) {
        return x * 100;
      }
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i), tensor({std::int64_t{i % 8}})));
  }));
  list.push_back(program("text of a tensor", May::nothing, [](auto wrap, auto emit) {
    auto f = wrap([](Tensor x) { return to_string(sum(x)).size() > 3 ? x * 2 : x; });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program("text of a large tensor", May::run_eagerly, [](auto wrap, auto emit) {
    auto f = wrap([](Tensor x) {
      return x * static_cast<float>(fmt::format("{}", broadcast_to(x, Shape({9, 3})) * 1).size());
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program("text of a Variable", May::nothing, [](auto wrap, auto emit) {
    Variable w("w", zeros({}));
    auto f = wrap([&](Tensor x) { return x * static_cast<float>(to_string(w).size()); });
    for (int i = 0; i < calls; ++i) {
      w.assign(i / 8 * 7);
      emit(f(input(i)));
    }
  }));
  list.push_back(
      program("the same tensor behind 16 others", May::nothing, [](auto wrap, auto emit) {
        auto f = wrap([](std::vector<Tensor> all) {
          GradientTape tape;
          tape.watch(all[18]);
          return tape.gradient(sum(all[18] * all[19]), all[18]);
        });
        for (int i = 0; i < calls; ++i) {
          std::vector<Tensor> list;
          for (int k = 0; k < 20; ++k) list.push_back(input(i + k));
          if (i % 3) list[19] = list[18];
          emit(f(list));
        }
      }));
  list.push_back(program("a Variable's own value as the argument, and a tape inside", May::nothing,
                         [](auto wrap, auto emit) {
                           Variable w("w", full({3}, 2.0f));
                           auto f = wrap([&](Tensor x) {
                             GradientTape tape;
                             return tape.gradient(sum(w * x), w);
                           });
                           for (int i = 0; i < calls; ++i) {
                             w.assign(input(i));
                             if (i % 4 == 3)
                               emit(f(w.value()));
                             else
                               emit(f(input(i)));
                           }
                         }));
  list.push_back(program("strides of axes of length 1", May::nothing, [](auto wrap, auto emit) {
    auto f = wrap([](Tensor x) {
      const Tensor column = broadcast_to(x, Shape({2, 3}))(reel::all, range(0, 1));
      return transpose(column) + column(range(0, 1), reel::all);
    });
    for (int i = 0; i < calls; ++i) emit(f(input(i)));
  }));
  list.push_back(program(
      "an update that fails behind another, and is caught", May::nothing, [](auto wrap, auto emit) {
        Variable v("v", zeros({3})), w("w", zeros({3})), rate("rate", tensor(0.5));
        auto f = wrap([&](Tensor x) {
          try {
            sgd_update(v, x, tensor(1.0));
            sgd_update(w, x, rate);
          } catch (const Error&) {
            v.assign(x);
          }
          return v + w;
        });
        for (int i = 0; i < calls; ++i) {
          rate.assign(i % 7 == 6 ? INFINITY : 0.5);
          emit(f(input(i)));
        }
      }));
  list.push_back(program("a file that is read", May::differ_a_while, [](auto wrap, auto emit) {
    const std::string path = "/tmp/reel_test_outside_" + std::to_string(getpid());
    auto f = wrap([path](Tensor x) {
      float scale = 1;
      std::ifstream(path) >> scale;
      return x * scale;
    });
    for (int i = 0; i < calls; ++i) {
      if (i == 0 || i == change) std::ofstream(path) << i + 2;
      emit(f(input(i)));
    }
    std::remove(path.c_str());
  }));
}

void check(const Program& program) {
  INFO(program.name);
  std::string explained;
  const std::vector<Tensor> expected = program.eager(), got = program.traced(explained);
  INFO(explained);
  REQUIRE(got.size() == expected.size());
  std::size_t other = 0, last = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (got[i].shape() != expected[i].shape() || !allclose(got[i], expected[i])) ++other, last = i;
  const bool eager = explained.find("runs eagerly: ") != std::string::npos;
  if (program.may == May::run_eagerly) CHECK(eager);
  if (program.may != May::differ_a_while) {
    CHECK(other == 0);
    return;
  }
  CHECK(eager);
  // replays 17 to 31 may differ; replay 32 is checked, on the path that calls 1 to 4 began
  CHECK(other <= 20);
  CHECK(last < 40);
  CHECK(explained.find(", is ") != std::string::npos);
}
}  // namespace
}  // namespace reel::tests::outside

namespace reel::tests {
TEST_CASE("state outside of a trace is never frozen in silence", "[cpu]") {
  using namespace outside;
  std::vector<Program> all;
  add_kept(all);
  add_changed(all);
  add_told(all);
  CHECK(all.size() >= 40);
  for (const Program& one : all) check(one);
}
}  // namespace reel::tests
