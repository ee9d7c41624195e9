// SPDX-License-Identifier: BSD-3-Clause
// A program that shares memory with other libraries. It uses the headers that reel.hpp does not
// include.
#include <utility>
#include <vector>

#include <reel/dlpack.hpp>
#include <reel/eigen.hpp>
#include <reel/reel.hpp>
#include <reel/share.hpp>
#include <reel/xtensor.hpp>

int main() {
  using namespace reel;
  const Tensor x = adopt(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor y = from_dlpack(to_dlpack(transpose(x)));
  const Tensor twice = from_xtensor(as_xtensor<float>(y) * 2.0f);
  const Eigen::MatrixXf product = as_eigen<float>(x) * as_eigen<float>(twice);
  return equal(from_eigen(product), matmul(x, 2 * transpose(x))) ? 0 : 1;
}
