// SPDX-License-Identifier: BSD-3-Clause
// LAPACK, in the file of a BLAS library.
#pragma once
namespace reel::kernels {
/// Functions of LAPACK, and two of BLAS, as Fortran has them: arguments by address, column-major
/// matrices, and the length of each text at the end.
enum class Fortran { potrf, getrf, getri, getrs, trsm, gemm, gelqf, orglq, syevd, gesdd, gesvd };
inline constexpr int fortran_functions = 11;
using AnyFunction = void (*)();
/// Null if there is no library with this function, or no memory for it. Opens the library at the
/// first call of a process, whose answer holds for this process.
AnyFunction fortran(Fortran function, bool is_double);
/// Calls f(work), which calls such functions. They use one thread meanwhile. f throws nothing.
void call_fortran(void (*f)(const void* work), const void* work);
}  // namespace reel::kernels
