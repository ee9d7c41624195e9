// SPDX-License-Identifier: BSD-3-Clause
// Products for kernels that are more than one product.
#pragma once
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
/// c [x.rows, y.columns], row-major, = z + x y, bent by a pass if there is one; z may be c, and its
/// data null for zeros. Uses scratch(). For float and double (matmul.cpp).
template <class T>
void product(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c,
             Tile activation = nullptr);
extern template void product(const Matrix<float>&, const Matrix<float>&, const Matrix<float>&,
                             float*, Tile);
extern template void product(const Matrix<double>&, const Matrix<double>&, const Matrix<double>&,
                             double*, Tile);
}  // namespace reel::kernels::REEL_ISA
