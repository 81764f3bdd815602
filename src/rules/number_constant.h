// rules/number_constant.h -- numbers of the e-graph as constants of the terms.
#pragma once
#include "rules/region_terms.h"
#include <bit>
#include <memory>
#include <vector>

namespace luminal::rules {

inline ConstantAttr constant_of(const Number& number) {
  std::vector<std::byte> data(size_t(storage_bytes(number.dtype, 1)));
  if (is_float(number.dtype))
    store_f64(number.dtype, data.data(), 0, std::bit_cast<double>(number.bits));
  else
    store_i64(number.dtype, data.data(), 0, int64_t(number.bits));
  return {std::make_shared<const std::vector<std::byte>>(std::move(data)), {number.dtype, {}}};
}

} // namespace luminal::rules
