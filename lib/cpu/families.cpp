// SPDX-License-Identifier: BSD-3-Clause
// All kernels of one instruction set.
#include "lib/cpu/kernels.hpp"

namespace reel::kernels::REEL_ISA {
extern const Family arithmetic_family, lerp_family, bitwise_family, compare_family, where_family,
    math_family, trigonometry_family, activation_family, loss_family, special_family;
extern const Family copy_family, create_family, ctc_family, gather_family, join_family,
    random_family;
extern const Family sequence_gru_family, sequence_lstm_family, matmul_family, normalize_family,
    recurrent_family, reduce_family, scan_family, scatter_family, softmax_family, sort_family,
    update_family;

extern const Family* const families[] = {
    &arithmetic_family, &bitwise_family,      &compare_family,       &where_family,
    &math_family,       &trigonometry_family, &activation_family,    &loss_family,
    &copy_family,       &create_family,       &gather_family,        &join_family,
    &random_family,     &sequence_gru_family, &sequence_lstm_family, &matmul_family,
    &normalize_family,  &recurrent_family,    &reduce_family,        &scan_family,
    &scatter_family,    &special_family,      &softmax_family,       &sort_family,
    &update_family,     &lerp_family,         &ctc_family,           nullptr,
};
}  // namespace reel::kernels::REEL_ISA
