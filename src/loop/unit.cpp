// loop/unit.cpp -- the table of described instructions, and what they compute.
#include "loop/unit.h"
#include "base/check.h"
#include "ir/ops.h"
#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace luminal::kernel {

Expr unit_lane() {
  static const Expr lane = Expr::symbol("lane", {0, 1023});
  return lane;
}

Expr unit_place() {
  static const Expr place = Expr::symbol("place", {0, 1023});
  return place;
}

namespace {

constexpr std::string_view intel = "Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2";
constexpr std::string_view ptx = "PTX ISA 8.5, matrix fragments of mma and wgmma";

Unit fma_f32(int lanes) {
  Unit u;
  u.name = "fma.f32";
  u.n = lanes;
  u.accumulator = {DType::f32, "n", {lanes, unit_place(), 0}};
  u.a = u.b = u.accumulator;
  u.targets = {"fma", "avx512f", "neon", "sm_80", "gfx90a", "metal"};
  u.source = "IEEE 754 fusedMultiplyAdd";
  return u;
}

/// acc[n] += a[n, 1] * b[n, 1], then += a[n, 0] * b[n, 0]; subnormals are zeros on the way in and
/// out, MXCSR is ignored.
Unit avx512_dpbf16(int lanes) {
  Unit u;
  u.name = "avx512.dpbf16";
  u.n = lanes;
  u.k = 2;
  u.accumulator = {DType::f32, "n", {lanes, unit_place(), 0}};
  u.a = u.b = {DType::bf16, "nk", {2 * lanes, floordiv(unit_place(), 2), mod(unit_place(), 2)}};
  u.k_descending = true;
  u.flush_subnormals = true;
  u.targets = {"avx512bf16"};
  u.source = std::string(intel) + ", VDPBF16PS";
  return u;
}

/// a is unsigned, b signed.
Unit vnni_dpbusd(int lanes) {
  Unit u;
  u.name = "vnni.dpbusd";
  u.n = lanes;
  u.k = 4;
  u.accumulator = {DType::i32, "n", {lanes, unit_place(), 0}};
  u.a = {DType::u8, "nk", {4 * lanes, floordiv(unit_place(), 4), mod(unit_place(), 4)}};
  u.b = {DType::i8, "nk", u.a.map};
  u.sum = UnitSum::integer;
  u.targets = {"avx512vnni", "avxvnni"};
  u.source = std::string(intel) + ", VPDPBUSD";
  return u;
}

/// Tiles of 16 rows of 64 bytes. The sums over the first and the second elements of the pairs are apart until
/// all pairs are in; subnormals are zeros on the way in and out, MXCSR is ignored.
Unit amx_dpbf16() {
  Unit u;
  u.name = "amx.dpbf16";
  u.m = u.n = u.k = 16;
  u.p = 2;
  u.accumulator = {DType::f32, "mn", {}};
  u.a = {DType::bf16, "mkp", {}};
  u.b = {DType::bf16, "knp", {}};
  u.sum = UnitSum::pairs;
  u.flush_subnormals = u.tiles = true;
  u.lane_unit = "avx512.dpbf16";
  u.targets = {"amx-bf16"};
  u.source = std::string(intel) + ", TDPBF16PS";
  return u;
}

/// Tiles of bytes: a is unsigned for `name` dpbusd, signed for dpbssd; b is signed.
Unit amx_bytes(std::string name, DType a) {
  Unit u = amx_dpbf16();
  u.name = std::move(name);
  u.p = 4;
  u.accumulator.dtype = DType::i32;
  u.a.dtype = a;
  u.b.dtype = DType::i8;
  u.sum = UnitSum::integer;
  u.flush_subnormals = false;
  u.lane_unit = a == DType::u8 ? "vnni.dpbusd" : "";
  u.targets = {"amx-int8"};
  u.source = std::string(intel) + ", TDPBUSD, TDPBSSD";
  return u;
}

Unit arm_bfdot() {
  Unit u;
  u.name = "arm.bfdot";
  u.n = 4;
  u.k = 2;
  u.accumulator = {DType::f32, "n", {4, unit_place(), 0}};
  u.a = u.b = {DType::bf16, "nk", {8, floordiv(unit_place(), 2), mod(unit_place(), 2)}};
  u.sum = UnitSum::odd;
  u.flush_subnormals = true;
  u.targets = {"neon+bf16"};
  u.source = "Arm Architecture Reference Manual, BFDOT with FPCR.EBF = 0";
  return u;
}

Unit arm_sdot() {
  Unit u;
  u.name = "arm.sdot";
  u.n = 4;
  u.k = 4;
  u.accumulator = {DType::i32, "n", {4, unit_place(), 0}};
  u.a = u.b = {DType::i8, "nk", {16, floordiv(unit_place(), 4), mod(unit_place(), 4)}};
  u.sum = UnitSum::integer;
  u.targets = {"neon+dotprod"};
  u.source = "Arm Architecture Reference Manual, SDOT (vector)";
  return u;
}

/// Sums of tensor cores: exact products, aligned and truncated in an order that is not published.
void tensor_core(Unit& u) {
  u.sum = UnitSum::wide;
  u.tolerance = 0x1p-21;
}

Unit nvidia_mma(DType type) {
  const Expr lane = unit_lane(), place = unit_place();
  const Expr group = floordiv(lane, 4), in_group = mod(lane, 4);
  Unit u;
  u.name = fmt::format("nvidia.mma.m16n8k16.{}", luminal::to_string(type));
  u.m = 16;
  u.n = 8;
  u.k = 16;
  u.lanes = 32;
  u.a = {type,
         "mk",
         {8, group + 8 * mod(floordiv(place, 2), 2), 2 * in_group + mod(place, 2) + 8 * floordiv(place, 4)}};
  u.b = {type, "kn", {4, 2 * in_group + mod(place, 2) + 8 * floordiv(place, 2), group}};
  u.accumulator = {DType::f32, "mn", {4, group + 8 * floordiv(place, 2), 2 * in_group + mod(place, 2)}};
  tensor_core(u);
  u.targets = {"sm_80", "sm_89", "sm_90", "sm_100", "sm_120"};
  u.source = ptx;
  return u;
}

/// A and B come from shared memory (A may come from registers: four mma fragments of 16 rows each).
Unit nvidia_wgmma(int n) {
  const Expr lane = unit_lane(), place = unit_place();
  Unit u;
  u.name = "nvidia.wgmma.m64n" + std::to_string(n) + "k16.bf16";
  u.m = 64;
  u.n = n;
  u.k = 16;
  u.lanes = 128;
  u.a = {DType::bf16, "mk", {}};
  u.b = {DType::bf16, "kn", {}};
  const Expr row = 16 * floordiv(lane, 32) + floordiv(mod(lane, 32), 4) + 8 * mod(floordiv(place, 2), 2);
  const Expr column = 8 * floordiv(place, 4) + 2 * mod(lane, 4) + mod(place, 2);
  u.accumulator = {DType::f32, "mn", {n / 2, row, column}};
  tensor_core(u);
  u.asynchronous = true;
  u.targets = {"sm_90a"};
  u.source = ptx;
  return u;
}

/// `tile` 32: k = 8, 16: k = 16. Lane l holds four consecutive k of row (column) l mod tile.
Unit amd_mfma(int tile, DType type) {
  const Expr lane = unit_lane(), place = unit_place();
  const Expr line = mod(lane, tile), block = floordiv(lane, tile);
  Unit u;
  u.m = u.n = tile;
  u.k = 256 / tile;
  u.name = fmt::format("amd.mfma.{0}x{0}x{1}.{2}", tile, u.k, luminal::to_string(type));
  u.lanes = 64;
  u.a = {type, "mk", {4, line, 4 * block + place}};
  u.b = {type, "kn", {4, 4 * block + place, line}};
  const Expr row = tile == 32 ? 8 * floordiv(place, 4) + 4 * block + mod(place, 4) : 4 * block + place;
  u.accumulator = {DType::f32, "mn", {tile * tile / 64, row, line}};
  tensor_core(u);
  u.targets = {"gfx942", "gfx950"}; // gfx90a has it too, but flushes subnormals
  u.source = "AMD Instinct MI300 instruction set architecture, V_MFMA_F32_*_BF16 and _F16; AMD matrix "
             "instruction calculator";
  return u;
}

Unit apple_simdgroup() {
  const Expr lane = unit_lane(), place = unit_place();
  const Expr row = 4 * floordiv(lane, 16) + mod(floordiv(lane, 2), 4);
  const Expr column = 4 * mod(floordiv(lane, 8), 2) + 2 * mod(lane, 2) + place;
  Unit u;
  u.name = "apple.simdgroup.8x8x8";
  u.m = u.n = u.k = 8;
  u.lanes = 32;
  u.a = {DType::f32, "mk", {2, row, column}};
  u.b = {DType::f32, "kn", {2, row, column}};
  u.accumulator = {DType::f32, "mn", {2, row, column}};
  tensor_core(u);
  u.targets = {"metal"};
  u.source = "Metal Shading Language 3.1, simdgroup_matrix; the lane map is not documented, it is that of "
             "MLX (steel/gemm/mma.h)";
  return u;
}

/// The exact value of high + low, |low| at most half a unit of high, rounded to odd as a float:
/// truncated, the last bit set if anything was lost.
float to_odd(double high, double low) {
  if (!std::isfinite(high)) return float(high);
  if (std::fabs(high) >= 0x1p128) return std::copysign(INFINITY, float(high));
  float f = float(high);
  if (std::isinf(f)) f = std::copysign(0x1.fffffep127f, f);
  const bool exact = double(f) == high && low == 0;
  if (exact) return f;
  const bool too_far = std::fabs(double(f)) > std::fabs(high) ||
                       (double(f) == high && high != 0 && std::signbit(low) != std::signbit(high));
  if (too_far) f = std::nextafterf(f, 0.0f);
  const uint32_t odd = std::bit_cast<uint32_t>(f) | 1;
  // A sum that is lost against zero keeps the sign of what is left.
  return f == 0 ? std::copysign(std::bit_cast<float>(1u), float(high != 0 ? high : low))
                : std::bit_cast<float>(odd);
}

float add_odd(double x, double y) {
  const double high = x + y, part = high - x;
  const double low = std::isfinite(high) ? (x - (high - part)) + (y - part) : 0;
  return to_odd(high, low);
}

double flushed(const Unit& unit, DType type, double x) {
  if (!unit.flush_subnormals || type == DType::f64) return x;
  return std::fabs(x) < 0x1p-126 ? std::copysign(0.0, x) : x; // f32 and bf16 have the same exponents
}

/// Flat position of an element in a dense operand.
int position(const Unit& unit, const std::string& axes, int m, int n, int k, int p = 0) {
  int flat = 0;
  for (const char axis : axes)
    flat = flat * unit.extent(axis) + (axis == 'm' ? m : axis == 'n' ? n : axis == 'k' ? k : p);
  return flat;
}

} // namespace

std::string UnitOperandInfo::axes_in(DType buffer) const {
  if (buffer == dtype) return axes;
  std::string whole = axes;
  return buffer == DType::u32 && std::erase(whole, 'p') > 0 ? whole : std::string();
}

std::optional<Unit> find_unit(std::string_view name, int lanes) {
  if (name == "fma.f32") return fma_f32(lanes);
  if (name == "avx512.dpbf16") return avx512_dpbf16(lanes);
  if (name == "vnni.dpbusd") return vnni_dpbusd(lanes);
  if (name == "amx.dpbf16") return amx_dpbf16();
  if (name == "amx.dpbusd") return amx_bytes("amx.dpbusd", DType::u8);
  if (name == "amx.dpbssd") return amx_bytes("amx.dpbssd", DType::i8);
  if (name == "arm.bfdot") return arm_bfdot();
  if (name == "arm.sdot") return arm_sdot();
  for (const DType type : {DType::bf16, DType::f16})
    if (name == nvidia_mma(type).name) return nvidia_mma(type);
  for (const DType type : {DType::bf16, DType::f16})
    for (const int tile : {32, 16})
      if (name == amd_mfma(tile, type).name) return amd_mfma(tile, type);
  if (name == "apple.simdgroup.8x8x8") return apple_simdgroup();
  constexpr std::string_view head = "nvidia.wgmma.m64n", tail = "k16.bf16";
  if (name.starts_with(head) && name.ends_with(tail) && name.size() > head.size() + tail.size()) {
    const std::string_view digits = name.substr(head.size(), name.size() - head.size() - tail.size());
    int n = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error == std::errc{} && end == digits.data() + digits.size() && n >= 8 && n <= 256 && n % 8 == 0 &&
        digits[0] != '0')
      return nvidia_wgmma(n);
  }
  return std::nullopt;
}

std::vector<std::string> unit_names() {
  return {"fma.f32",
          "avx512.dpbf16",
          "vnni.dpbusd",
          "amx.dpbf16",
          "amx.dpbusd",
          "amx.dpbssd",
          "arm.bfdot",
          "arm.sdot",
          "nvidia.mma.m16n8k16.bf16",
          "nvidia.mma.m16n8k16.f16",
          "nvidia.wgmma.m64n64k16.bf16",
          "amd.mfma.32x32x8.bf16",
          "amd.mfma.16x16x16.bf16",
          "amd.mfma.32x32x8.f16",
          "amd.mfma.16x16x16.f16",
          "apple.simdgroup.8x8x8"};
}

void execute_unit(const Unit& unit, const double* a, const double* b, double* accumulator) {
  LUMINAL_CHECK(unit.sum != UnitSum::integer, "{} works on integers", unit.name);
  const auto product = [&](int m, int n, int k, double& x, double& y, int p = 0) {
    x = flushed(unit, unit.a.dtype, a[position(unit, unit.a.axes, m, n, k, p)]);
    y = flushed(unit, unit.b.dtype, b[position(unit, unit.b.axes, m, n, k, p)]);
  };
  const auto flush = [&](double value) { return flushed(unit, unit.accumulator.dtype, value); };
  for (int m = 0; m < unit.m; ++m)
    for (int n = 0; n < unit.n; ++n) {
      double& acc = accumulator[position(unit, unit.accumulator.axes, m, n, 0)];
      double sum = flushed(unit, unit.accumulator.dtype, acc), x, y;
      switch (unit.sum) {
      case UnitSum::fused:
        for (int step = 0; step < unit.k; ++step) {
          product(m, n, unit.k_descending ? unit.k - 1 - step : step, x, y);
          sum = flushed(unit, unit.accumulator.dtype, double(std::fmaf(float(x), float(y), float(sum))));
        }
        break;
      case UnitSum::pairs: {
        double parts = 0;
        for (int p = 0; p < unit.p; ++p) {
          double part = 0;
          for (int k = 0; k < unit.k; ++k) {
            product(m, n, k, x, y, p);
            part = flush(double(std::fmaf(float(x), float(y), float(part))));
          }
          parts = p ? flush(double(float(parts) + float(part))) : part;
        }
        sum = flush(double(float(sum) + float(parts)));
        break;
      }
      case UnitSum::odd:
        for (int step = 0; step < unit.k; step += 2) {
          double z, w;
          product(m, n, step, x, y);
          product(m, n, step + 1, z, w);
          // A product of two bf16 values is exact in f32 but for its exponent.
          const double first = flushed(unit, DType::f32, x * y), second = flushed(unit, DType::f32, z * w);
          const double pair = flushed(unit, DType::f32, double(add_odd(first, second)));
          sum = flushed(unit, DType::f32, double(add_odd(sum, pair)));
        }
        break;
      case UnitSum::wide:
        for (int k = 0; k < unit.k; ++k) {
          product(m, n, k, x, y);
          sum += x * y;
        }
        sum = round_to(unit.accumulator.dtype, sum);
        break;
      case UnitSum::integer: break;
      }
      acc = sum;
    }
}

const Unit* find_lane_unit(std::string_view name) {
  static const std::vector<Unit> units = [] {
    std::vector<Unit> found;
    for (const std::string& unit_name : unit_names()) {
      Unit u = *find_unit(unit_name);
      if (u.lanes != 1 || u.accumulator.axes != "n" || u.a.axes != "nk" || u.b.axes != "nk" || u.k < 2 ||
          u.k * bits(u.a.dtype) != 32 || u.k * bits(u.b.dtype) != 32 || bits(u.accumulator.dtype) != 32)
        continue;
      u.n = 1;
      found.push_back(std::move(u));
    }
    return found;
  }();
  for (const Unit& u : units)
    if (u.name == name) return &u;
  return nullptr;
}

namespace {
template <class T> void unpack(const UnitOperandInfo& info, int k, uint32_t word, T* out) {
  for (int i = 0; i < k; ++i, word >>= bits(info.dtype) % 32) {
    const uint32_t low = word & ((1u << bits(info.dtype)) - 1);
    if constexpr (std::is_same_v<T, int64_t>)
      out[i] = wrap(info.dtype, low);
    else
      out[i] = double(std::bit_cast<float>(low << 16)); // bf16
  }
}
template <class T> T lane(const Unit& unit, uint32_t a, uint32_t b, T accumulator) {
  T x[4], y[4];
  unpack(unit.a, unit.k, a, x);
  unpack(unit.b, unit.k, b, y);
  execute_unit(unit, x, y, &accumulator);
  return accumulator;
}
} // namespace

double execute_lane_unit(const Unit& unit, uint32_t a, uint32_t b, double accumulator) {
  return lane(unit, a, b, accumulator);
}
int64_t execute_lane_unit(const Unit& unit, uint32_t a, uint32_t b, int64_t accumulator) {
  return lane(unit, a, b, accumulator);
}

void execute_unit(const Unit& unit, const int64_t* a, const int64_t* b, int64_t* accumulator) {
  LUMINAL_CHECK(unit.sum == UnitSum::integer, "{} works on floats", unit.name);
  for (int m = 0; m < unit.m; ++m)
    for (int n = 0; n < unit.n; ++n) {
      int64_t& acc = accumulator[position(unit, unit.accumulator.axes, m, n, 0)];
      int64_t sum = acc;
      for (int k = 0; k < unit.k; ++k)
        for (int p = 0; p < unit.p; ++p)
          sum += a[position(unit, unit.a.axes, m, n, k, p)] * b[position(unit, unit.b.axes, m, n, k, p)];
      acc = wrap(unit.accumulator.dtype, sum);
    }
}

} // namespace luminal::kernel
