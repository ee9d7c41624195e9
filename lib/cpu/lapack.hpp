// SPDX-License-Identifier: BSD-3-Clause
// Kernels of linear algebra, compiled once.
#pragma once
#include "lib/table/kernel_call.hpp"

namespace reel::kernels::lapack {
KernelResult cholesky(const KernelCall& call);
KernelResult cofactors(const KernelCall& call);
KernelResult det(const KernelCall& call);
KernelResult eigh(const KernelCall& call);
KernelResult eigvalsh(const KernelCall& call);
KernelResult function_curve(const KernelCall& call);
KernelResult function_slope(const KernelCall& call);
KernelResult inverse(const KernelCall& call);
KernelResult matrix_function(const KernelCall& call);
KernelResult qr(const KernelCall& call);
KernelResult slogdet(const KernelCall& call);
KernelResult solve(const KernelCall& call);
KernelResult svd(const KernelCall& call);
KernelResult triangular_solve(const KernelCall& call);
}  // namespace reel::kernels::lapack
