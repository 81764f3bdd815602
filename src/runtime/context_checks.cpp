// runtime/context_checks.cpp -- checks among the steps of a plan: integers in their ranges,
// conditions over sizes.
#include "runtime/context.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace luminal::runtime {

namespace {
/// Least and greatest in one pass of vectors. Beyond int64_t's range nothing is within.
template <class T> bool all_within(const std::byte* data, int64_t count, Interval allowed) {
  const T* values = reinterpret_cast<const T*>(data);
  T least = std::numeric_limits<T>::max(), greatest = std::numeric_limits<T>::min();
  for (int64_t i = 0; i < count; i++) {
    least = std::min(least, values[i]);
    greatest = std::max(greatest, values[i]);
  }
  return count == 0 || (std::in_range<int64_t>(least) && std::in_range<int64_t>(greatest) &&
                        allowed.contains(int64_t(least)) && allowed.contains(int64_t(greatest)));
}
#if defined(__x86_64__)
/// Whole blocks of four vectors of 64 bytes: the highest bit of the result is set where one of their
/// integers is outside. The indices of a gather are often read from beyond the nearest cache, where vectors
/// of 16 bytes are slower than that memory.
template <class U>
[[gnu::target("avx512f")]] U outside_in_blocks(const std::byte* data, int64_t blocks, U low, U high) {
  using Vector [[gnu::vector_size(64)]] = U;
  const Vector lows = Vector{} + low, highs = Vector{} + high;
  Vector a{}, b{}, c{}, d{};
  for (int64_t i = 0; i < blocks; i++, data += 4 * sizeof(Vector)) {
    Vector e, f, g, h;
    std::memcpy(&e, data, sizeof(Vector));
    std::memcpy(&f, data + sizeof(Vector), sizeof(Vector));
    std::memcpy(&g, data + 2 * sizeof(Vector), sizeof(Vector));
    std::memcpy(&h, data + 3 * sizeof(Vector), sizeof(Vector));
    a |= (e - lows) | (highs - e);
    b |= (f - lows) | (highs - f);
    c |= (g - lows) | (highs - g);
    d |= (h - lows) | (highs - h);
  }
  const Vector all = a | b | c | d;
  U lanes[sizeof(Vector) / sizeof(U)], any = 0;
  std::memcpy(lanes, &all, sizeof(all));
  for (U lane : lanes) any |= lane;
  return any;
}
#endif
/// The same for indices from 0 <= low <= high on: one of v - low and high - v is negative where v
/// is outside, with or without a carry. Four vectors of sums are independent of each other. (Vectors
/// by name: the compiler makes none of a loop over an array of sums.)
template <class T> bool indices_within(const std::byte* data, int64_t count, T low, T high) {
  using U = std::make_unsigned_t<T>;
  using Vector [[gnu::vector_size(16)]] = U;
  constexpr int64_t lanes = sizeof(Vector) / sizeof(U);
  const Vector lows = Vector{} + U(low), highs = Vector{} + U(high);
  Vector outside[4] = {};
  int64_t i = 0;
  U any = 0;
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f");
  if (const int64_t blocks = count / (16 * lanes); wide && blocks > 0) {
    any = outside_in_blocks<U>(data, blocks, U(low), U(high));
    i = blocks * 16 * lanes;
  }
#endif
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    Vector v[4];
    std::memcpy(v, data + i * int64_t(sizeof(U)), sizeof(v));
    outside[0] |= (v[0] - lows) | (highs - v[0]);
    outside[1] |= (v[1] - lows) | (highs - v[1]);
    outside[2] |= (v[2] - lows) | (highs - v[2]);
    outside[3] |= (v[3] - lows) | (highs - v[3]);
  }
  const Vector all = outside[0] | outside[1] | outside[2] | outside[3];
  for (int64_t k = 0; k < lanes; k++) any |= all[k];
  for (; i < count; i++) {
    U v;
    std::memcpy(&v, data + i * int64_t(sizeof(U)), sizeof(v));
    any |= (v - U(low)) | (U(high) - v);
  }
  return T(any) >= 0;
}
bool all_within(DType type, const std::byte* data, int64_t count, Interval allowed) {
  if (allowed.low >= 0 && allowed.low <= allowed.high && type == DType::i64)
    return indices_within<int64_t>(data, count, allowed.low, allowed.high);
  if (allowed.low >= 0 && allowed.low <= allowed.high && allowed.low <= INT32_MAX && type == DType::i32)
    return indices_within<int32_t>(data, count, int32_t(allowed.low),
                                   int32_t(std::min<int64_t>(allowed.high, INT32_MAX)));
  switch (type) {
  case DType::i8: return all_within<int8_t>(data, count, allowed);
  case DType::u8: return all_within<uint8_t>(data, count, allowed);
  case DType::i16: return all_within<int16_t>(data, count, allowed);
  case DType::u16: return all_within<uint16_t>(data, count, allowed);
  case DType::i32: return all_within<int32_t>(data, count, allowed);
  case DType::u32: return all_within<uint32_t>(data, count, allowed);
  case DType::i64: return all_within<int64_t>(data, count, allowed);
  case DType::u64: return all_within<uint64_t>(data, count, allowed);
  default: return false; // one by one
  }
}
} // namespace

std::string Context::symbol_values(Expr e) const {
  const std::vector<Expr> used = symbols_of(e);
  std::string values;
  for (Expr symbol : used.empty() ? executable_->plan().symbols : used)
    values +=
        fmt::format("{}{} = {}", values.empty() ? "" : ", ", symbol.name(), *this->symbol(symbol.name()));
  return values;
}

luminal::Result<void> Context::check_accesses(const AccessCheck& check, std::byte* arena) {
  if (condition_holds_[check.enough]) return {};
  if (check.violation) {
    if (auto done = run_steps(check.body, arena); !done) return done;
    if (check_range({.slot = check.violation, .range = {0, 0}, .text = check.text})) return {};
  }
  const std::string values = symbol_values(executable_->plan().conditions[check.enough]);
  return Failure{values.empty() ? check.text : fmt::format("{} ({})", check.text, values)};
}

luminal::Result<void> Context::check_range(const RangeCheck& check) const {
  const Slot& slot = executable_->plan().slots[check.slot];
  int64_t count = element_count(check.slot);
  Interval allowed = check.range;
  if (!check.limit.is_constant(0)) {
    const Plan& plan = executable_->plan();
    ExprMap<int64_t> bindings;
    for (size_t i = 0; i < plan.symbols.size(); i++) bindings[plan.symbols[i]] = symbols_[i];
    auto limit = evaluate(check.limit, bindings);
    if (!limit) return limit.failure();
    allowed.high = std::min(allowed.high, *limit - 1);
  }
  const auto held = on_host(check.slot);
  if (!held) return held.failure();
  const std::byte* data = held->bytes.data();
  if (all_within(slot.type.dtype, data, count, allowed)) return {};
  for (int64_t i = 0; i < count; i++) {
    int64_t value = load_i64(slot.type.dtype, data, i);
    if (slot.type.dtype == DType::u64 && value < 0) value = INT64_MAX; // beyond every extent
    if (!allowed.contains(value))
      return Failure{fmt::format("{}: element {} is {}, allowed are {}..{}", check.text, i, value,
                                 allowed.low, allowed.high)};
  }
  return {};
}

} // namespace luminal::runtime
