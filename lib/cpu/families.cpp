// SPDX-License-Identifier: BSD-3-Clause
// All that one instruction set has to offer.
#include "lib/cpu/kernels.hpp"

namespace reel::kernels::REEL_ISA {
extern const Family arithmetic_family, bitwise_family, compare_family, where_family, math_family,
    activation_family;
extern const Family copy_family, fill_family, gather_family, join_family, random_family;
extern const Family gru_family, lstm_family, matmul_family, normalize_family, recurrent_family,
    reduce_family, softmax_family, update_family;

extern const Family* const families[] = {
    &arithmetic_family, &bitwise_family, &compare_family, &where_family,  &math_family,
    &activation_family, &copy_family,    &fill_family,    &gather_family, &join_family,
    &random_family,     &gru_family,     &lstm_family,    &matmul_family, &normalize_family,
    &recurrent_family,  &reduce_family,  &softmax_family, &update_family, nullptr,
};
}  // namespace reel::kernels::REEL_ISA
