// SPDX-License-Identifier: BSD-3-Clause
// Collectives of ranks that are threads, and their gradients.
#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
using dist::Reduce;
using dist::World;

/// x of a rank: 1, 2, 3 times (rank + 1).
Tensor own(const World& world) {
  return tensor({1.0f, 2.0f, 3.0f}) * static_cast<float>(world.rank() + 1);
}
void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}
bool equal(const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && allclose(a, b); }
}  // namespace

TEST_CASE("without a launcher a World has one rank, and collectives return x", "[cpu][dist]") {
  World world;
  CHECK(world.size() == 1);
  CHECK(world.rank() == 0);
  CHECK(world.engine() == "single");
  CHECK(world.board().empty());
  world.barrier();
  const Tensor x = tensor({1.0f, 2.0f});
  CHECK(equal(dist::all_reduce(x, world, {.op = Reduce::mean}), x));
  CHECK(equal(dist::all_gather(x, world), x));
  CHECK(equal(dist::reduce_scatter(x, world), x));
  CHECK(equal(dist::broadcast(x, world), x));
}

TEST_CASE("collectives of 1 to 4 ranks", "[cpu][dist]") {
  for (int ranks = 1; ranks <= 4; ++ranks)
    dist::run_local(ranks, [&](World& world) {
      const auto n = static_cast<float>(ranks), total = n * (n + 1) / 2;
      const Tensor x = own(world), one = tensor({1.0f, 2.0f, 3.0f});
      require(world.size() == ranks && world.engine() == "local", "World");
      require(equal(dist::all_reduce(x, world), one * total), "sum");
      require(equal(dist::all_reduce(x, world, {.op = Reduce::mean}), one * (total / n)), "mean");
      require(equal(dist::all_reduce(x, world, {.op = Reduce::max}), one * n), "max");
      require(equal(dist::all_reduce(x, world, {.op = Reduce::min}), one), "min");
      const Tensor all = dist::all_gather(x, world);
      for (int r = 0; r < ranks; ++r)
        require(equal(all(range(3 * r, 3 * r + 3)), one * static_cast<float>(r + 1)), "gather");
      require(equal(dist::reduce_scatter(all, world), x * n), "scatter");
      for (int root = 0; root < ranks; ++root)
        require(
            equal(dist::broadcast(x, world, {.root = root}), one * static_cast<float>(root + 1)),
            "broadcast");
      require(equal(dist::all_reduce(cast(x, int32), world), cast(one * total, int32)), "int32");
      for (DType half : {float16, bfloat16})
        require(equal(dist::all_reduce(cast(x, half), world), cast(one * total, half)), "half");
      require(equal(dist::all_gather(x > 1.5f, world), all > 1.5f), "bool");
      require(dist::all_reduce(zeros({0, 3}), world).shape() == Shape({0, 3}), "empty");
      require(equal(dist::all_reduce(transpose(reshape(arange(0.0, 6.0), {2, 3})), world),
                    transpose(reshape(arange(0.0, 6.0), {2, 3})) * n),
              "strided");
      world.barrier();
    });
}

TEST_CASE("gradients of collectives are those of the sum over ranks", "[cpu][dist]") {
  // Rank r has loss weights w = r + 1 and x = own(); the loss of all is the sum of the ranks'.
  dist::run_local(3, [](World& world) {
    const auto w = static_cast<float>(world.rank() + 1);
    const Tensor x = own(world);
    const auto slope = [&](auto f) {
      GradientTape tape;
      tape.watch(x);
      return tape.gradient(sum(f(x)) * w, x);
    };
    const float all = 1 + 2 + 3;
    require(
        equal(slope([&](const Tensor& v) { return dist::all_reduce(v, world); }), full({3}, all)),
        "sum");
    require(equal(slope([&](const Tensor& v) {
                    return dist::all_reduce(v, world, {.op = Reduce::mean});
                  }),
                  full({3}, all / 3)),
            "mean");
    require(equal(slope([&](const Tensor& v) {
                    return dist::all_reduce(v, world, {.op = Reduce::max});
                  }),
                  full({3}, world.rank() == 2 ? all : 0)),
            "max");
    require(
        equal(slope([&](const Tensor& v) { return dist::all_gather(v, world); }), full({3}, all)),
        "gather");
    require(equal(slope([&](const Tensor& v) { return dist::broadcast(v, world, {.root = 1}); }),
                  full({3}, world.rank() == 1 ? all : 0)),
            "broadcast");
    // Part r of the result belongs to rank r, whose weight is r + 1.
    require(equal(slope([&](const Tensor& v) { return dist::reduce_scatter(v, world); }),
                  tensor({1.0f, 2.0f, 3.0f})),
            "scatter");
    // Second order: sum of squares of the sum.
    GradientTape outer;
    outer.watch(x);
    GradientTape inner;
    inner.watch(x);
    const Tensor y = sum(square(dist::all_reduce(x, world)));
    const Tensor first = inner.gradient(y, x);
    require(equal(first, dist::all_reduce(x, world) * (2 * 3)), "first order");
    require(equal(outer.gradient(sum(first), x), full({3}, 2.0f * 3 * 3)), "second order");
  });
}

TEST_CASE("a World is split by colors", "[cpu][dist]") {
  CHECK(World().split(7).size() == 1);
  dist::run_local(5, [](World& world) {
    const bool odd = world.rank() % 2 == 1;
    const World part = world.split(odd ? 9 : -4);
    require(part.size() == (odd ? 2 : 3) && part.rank() == world.rank() / 2, "members");
    const Tensor sum = dist::all_reduce(tensor(static_cast<float>(world.rank())), part);
    require(sum.item<float>() == (odd ? 1 + 3 : 0 + 2 + 4), "sum of a part");
    const World again = part.split(0);
    require(again.size() == part.size(), "again");
    again.barrier();
    world.barrier();
  });
}

TEST_CASE("collectives refuse what they cannot send", "[cpu][dist]") {
  World world;
  CHECK_THROWS_AS(dist::all_reduce(Tensor(), world), Error);
  CHECK_THROWS_AS(dist::all_reduce(tensor({true}), world), DTypeError);
  CHECK_THROWS_AS(dist::all_reduce(tensor({1, 2}), world, {.op = Reduce::mean}), DTypeError);
  CHECK_THROWS_AS(dist::all_gather(tensor(1.0f), world), ShapeError);
  CHECK_THROWS_AS(dist::broadcast(tensor(1.0f), world, {.root = 1}), Error);
  CHECK_THROWS_AS(World({.timeout = 0.0}), Error);
  CHECK_THROWS_AS(World({.engine = dist::Engine::local}), Error);
  CHECK_THROWS_AS(World({.engine = dist::Engine::mpi}), DistError);
  CHECK_THROWS_AS(dist::run_local(0, [](World&) {}), Error);
  CHECK_THROWS_AS(dist::run_local(2, [](World& w) { dist::reduce_scatter(ones({3}), w); }),
                  ShapeError);
}

TEST_CASE("a rank that does not come is named by the others", "[cpu][dist]") {
  std::string texts[3];
  dist::run_local(3,
                  [&](World& world) {
                    world.barrier();
                    if (world.rank() == 1) return;  // and calls nothing more
                    try {
                      dist::all_reduce(ones({4}), world);
                    } catch (const DistError& error) {
                      texts[world.rank()] = error.what();
                    }
                  },
                  {.timeout = 0.2});
  const auto names = [](const std::string& text) {
    return text.find(
               "all_reduce: rank 1: expected to come within 0.2 s of step 0, got one that "
               "came to barrier of step 0") != text.npos;
  };
  INFO(texts[0] << "\n" << texts[2]);
  // The first to give up names the rank; then the others may find that it has given up.
  CHECK((names(texts[0]) || names(texts[2])));
  CHECK(!texts[0].empty());
  CHECK(!texts[2].empty());
}

TEST_CASE("an exception of a rank ends the others, and is thrown by run_local()", "[cpu][dist]") {
  std::string other;
  try {
    dist::run_local(2, [&](World& world) {
      if (world.rank() == 1) throw std::runtime_error("out of apples");
      try {
        world.barrier();
      } catch (const DistError& error) {
        other = error.what();
        throw;
      }
    });
    FAIL("no exception");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()) == "out of apples");
  }
  CHECK(other.find("rank 1 has ended by an exception: out of apples") != other.npos);
}

TEST_CASE("ranks that call different collectives are told so", "[cpu][dist]") {
  const auto different = [](auto f) {
    try {
      dist::run_local(2, f);
    } catch (const DistError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(different([](World& w) {
          w.rank() ? static_cast<void>(dist::all_reduce(ones({2}), w)) : w.barrier();
        }).find("different collectives") != std::string::npos);
  CHECK(different([](World& w) {
          dist::all_reduce(ones({2 + w.rank()}), w);
        }).find("different numbers of elements") != std::string::npos);
}

TEST_CASE("a traced function with a collective gives the sum of each call", "[cpu][dist]") {
  dist::run_local(2, [](World& world) {
    auto f = trace([&](Tensor x) { return dist::all_reduce(x * 2, world); });
    for (int i = 0; i < 4; ++i) {
      const Tensor x = full({2}, static_cast<float>(i + world.rank()));
      require(equal(f(x), full({2}, 2.0f * static_cast<float>(2 * i + 1))), "traced");
    }
  });
}
}  // namespace reel::tests
