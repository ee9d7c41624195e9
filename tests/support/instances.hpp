// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string>
#include <typeinfo>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

/// Templates that most tests use: at -O0 each object would have them. instances.cpp has them once.
#define REEL_TEST_INSTANCES(EXTERN)                                                        \
  EXTERN template class std::basic_string<char>;                                           \
  EXTERN template std::string::basic_string(const char*, const std::allocator<char>&);     \
  EXTERN template void std::string::_M_construct(const char*, const char*,                 \
                                                 std::forward_iterator_tag);               \
  EXTERN template void std::string::_M_construct(char*, char*, std::forward_iterator_tag); \
  EXTERN template class std::vector<char>;                                                 \
  EXTERN template class std::vector<int>;                                                  \
  EXTERN template class std::vector<std::int64_t>;                                         \
  EXTERN template class std::vector<std::size_t>;                                          \
  EXTERN template class std::vector<float>;                                                \
  EXTERN template class std::vector<double>;                                               \
  EXTERN template class std::vector<const void*>;                                          \
  EXTERN template class std::vector<std::string>;                                          \
  EXTERN template class std::vector<reel::Tensor>;                                         \
  EXTERN template class std::vector<reel::Tensor*>;                                        \
  EXTERN template class std::vector<std::pair<std::string, const void*>>;                  \
  EXTERN template class reel::Traced<reel::Tensor(reel::Tensor)>;                          \
  EXTERN template class reel::Traced<reel::Tensor(reel::Tensor, reel::Tensor)>;            \
  EXTERN template class Catch::UnaryExpr<bool>;                                            \
  EXTERN template class Catch::BinaryExpr<const int&, const int&>;                         \
  EXTERN template class Catch::BinaryExpr<const std::int64_t&, const int&>;                \
  EXTERN template class Catch::BinaryExpr<const std::int64_t&, const std::int64_t&>;       \
  EXTERN template class Catch::BinaryExpr<const std::size_t&, const int&>;                 \
  EXTERN template class Catch::BinaryExpr<const std::size_t&, const std::size_t&>;         \
  EXTERN template class Catch::BinaryExpr<const float&, const int&>;                       \
  EXTERN template class Catch::BinaryExpr<const float&, const float&>;                     \
  EXTERN template class Catch::BinaryExpr<const double&, const int&>;                      \
  EXTERN template class Catch::BinaryExpr<const double&, const double&>;                   \
  EXTERN template class Catch::BinaryExpr<const reel::DType&, const reel::DType&>;         \
  EXTERN template class Catch::BinaryExpr<const reel::Shape&, const reel::Shape&>;         \
  EXTERN template class Catch::BinaryExpr<const std::type_info&, const std::type_info&>;   \
  EXTERN template class Catch::BinaryExpr<const std::string&, const std::string&>;
