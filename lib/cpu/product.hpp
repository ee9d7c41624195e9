// SPDX-License-Identifier: BSD-3-Clause
// Products for kernels that compute more than a product.
#pragma once
#include "lib/cpu/panels.hpp"

namespace reel::kernels::REEL_ISA {
/// c [x.rows, y.columns], row-major, = z + x y. Then the activation is applied, if there is one. z
/// may be c. z.data is null for zeros. Uses scratch(). For float and double (matmul.cpp).
template <class T>
void product(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c,
             PassFunction activation = nullptr);
extern template void product(const Matrix<float>&, const Matrix<float>&, const Matrix<float>&,
                             float*, PassFunction);
extern template void product(const Matrix<double>&, const Matrix<double>&, const Matrix<double>&,
                             double*, PassFunction);

/// The product p by tiles in registers, of blocks that stay in the caches. For float and double
/// (matmul.cpp).
template <class T>
void product_of_tiles(Product<T> p);
extern template void product_of_tiles(Product<float>);
extern template void product_of_tiles(Product<double>);
/// c = x y, where rows of c are c_row elements apart. Elements of x's rows and of y's columns are
/// contiguous. For float and double (matmul.cpp).
template <class T>
void product_of_dots(const Matrix<T>& x, const Matrix<T>& y, T* c, std::int64_t c_row);
extern template void product_of_dots(const Matrix<float>&, const Matrix<float>&, float*,
                                     std::int64_t);
extern template void product_of_dots(const Matrix<double>&, const Matrix<double>&, double*,
                                     std::int64_t);

/// Whether half_products() computes this call of float16 or bfloat16 (matmul_half.cpp).
bool takes_halves(const KernelCall& call);
/// The products of a call. z is the body that is added to them, or null.
KernelResult half_products(const KernelCall& call, const Body* z, PassFunction activation);
}  // namespace reel::kernels::REEL_ISA
