// SPDX-License-Identifier: BSD-3-Clause
// Products for kernels that compute more than a product.
#pragma once
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
/// c [x.rows, y.columns], row-major, = z + x y. Then the activation is applied, if there is one. z
/// may be c. z.data is null for zeros. Uses scratch(). For float and double (matmul.cpp).
template <class T>
void product(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c,
             Tile activation = nullptr);
extern template void product(const Matrix<float>&, const Matrix<float>&, const Matrix<float>&,
                             float*, Tile);
extern template void product(const Matrix<double>&, const Matrix<double>&, const Matrix<double>&,
                             double*, Tile);
}  // namespace reel::kernels::REEL_ISA
