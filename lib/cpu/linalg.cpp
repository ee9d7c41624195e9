// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra. The kernels are the same for all instruction sets.
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/lapack.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
const NamedKernel kernels[] = {{"cholesky", lapack::cholesky},
                               {"cofactors", lapack::cofactors},
                               {"det", lapack::det},
                               {"eigh", lapack::eigh},
                               {"eigvalsh", lapack::eigvalsh},
                               {"function_curve", lapack::function_curve},
                               {"function_slope", lapack::function_slope},
                               {"inverse", lapack::inverse},
                               {"matrix_function", lapack::matrix_function},
                               {"qr", lapack::qr},
                               {"slogdet", lapack::slogdet},
                               {"solve", lapack::solve},
                               {"svd", lapack::svd},
                               {"triangular_solve", lapack::triangular_solve},
                               {nullptr, nullptr}};
}  // namespace
extern const Family linalg_family;
const Family linalg_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
