// SPDX-License-Identifier: BSD-3-Clause
// Programs that share memory with arrays of other libraries.
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <reel/dlpack.hpp>
#include <reel/xtensor.hpp>
#if __has_include(<Eigen/Core>)
#include <reel/eigen.hpp>
#endif

#include "exhaustion/programs.hpp"

namespace reel::tests {
namespace {
/// For an array that may not be taken over.
template <class M>
struct Deleter {
  void operator()(M* array) const { array->deleter(array); }
};

struct Exchange : Program {
  Tensor x;
  std::shared_ptr<std::vector<float>> common = std::make_shared<std::vector<float>>(6, 1.5f);
  std::vector<float> mine;
  xt::xarray<float> a, moved;
  explicit Exchange(unsigned variant)
      : x(numbers({side(variant), 3}, variant / 2 * 2)),
        a(xt::xarray<float>::from_shape({static_cast<std::size_t>(side(variant)), 3})) {
    a.fill(2);
  }
  void reset() override {
    mine.assign(6, 2.5f);
    moved = a;
  }
  template <class M>
  void there_and_back(Results& results, Copy copy) const {
    std::unique_ptr<M, Deleter<M>> array(to_dlpack<M>(x, {copy}));
    Tensor back = from_dlpack(array.get());
    array.release();
    results.add(back * 2);
    array.reset(to_dlpack<M>(transpose(x)));
    back = from_dlpack(array.get(), {Copy::always});
    array.release();
    results.add(back);
  }
  void run(Results& results) override {
    results.add(share(std::span<const float>(*common), {2, 3}, common) * 2);
    results.add(adopt(std::move(mine), {3, 2})(1));
    for (const Copy copy : {Copy::if_needed, Copy::always}) {
      there_and_back<dlpack::ManagedTensor>(results, copy);
      there_and_back<dlpack::ManagedTensorVersioned>(results, copy);
    }
    results.add(from_xtensor(a * 2.0f) + from_xtensor(std::move(moved)));
    results.add(static_cast<double>(as_xtensor<float>(x)(1, 2)));
#if __has_include(<Eigen/Core>)
    results.add(from_eigen(2 * as_eigen<float>(x)));
    results.add(from_eigen(Eigen::Vector3f(1, 2, 3)));
#endif
  }
};
}  // namespace

std::unique_ptr<Program> exchange_program(unsigned variant) { return make<Exchange>(variant); }
}  // namespace reel::tests
