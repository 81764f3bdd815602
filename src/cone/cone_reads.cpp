// cone/cone_reads.cpp -- leaves that are arithmetic: bitcasts of stored bytes and counter-based
// random numbers.
#include "base/check.h"
#include "cone/cone_build.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

DType unsigned_of(int width) {
  switch (width) {
  case 4: return DType::u4;
  case 8: return DType::u8;
  case 16: return DType::u16;
  case 32: return DType::u32;
  default: return DType::u64;
  }
}

} // namespace

FormulaRef ConeBuilder::read_bitcast(const Node& node, const Index& at) {
  DType to = std::get<BitcastAttr>(node.attr).to;
  NodeId source = node.inputs[0];
  DType from = function_[source].type().dtype;
  int from_bits = bits(from), to_bits = bits(to);
  if (from_bits == to_bits) return formula_bitcast(to, read(source, at));
  LUMINAL_CHECK(!at.empty(), "bitcast of a scalar to another width");
  Index where = at;
  if (to_bits < from_bits) { // a part of a wider element; the position is static wherever the index says so
    int parts = from_bits / to_bits;
    where.back() = floordiv(at.back(), parts);
    Expr part = mod(at.back(), parts);
    DType word = unsigned_of(from_bits);
    FormulaRef x = read(source, where);
    // 4-bit words are handled as bytes.
    x = formula_bitcast(word, x);
    if (!part.is_constant(0)) x = formula_op(Op::shr, {x, formula_index(part * to_bits, word)});
    DType piece = unsigned_of(to_bits);
    if (to_bits < 8) x = formula_op(Op::bit_and, {x, formula_constant(word, (1 << to_bits) - 1)});
    return formula_bitcast(to, formula_cast(piece, x));
  }
  int parts = to_bits / from_bits;
  // A wider element is one load where its parts are contiguous in memory.
  Expr step = Expr::symbol("part_of_wide", {0, parts - 1});
  where.back() = at.back() * parts + step;
  FormulaRef probe = read(source, where);
  const FormulaLoad* load = load_of(*probe);
  if (load && !load->index.empty() && probe->dtype == from && from_bits >= 8 &&
      cone_.values[load->value].role == ValueRole::input) {
    Expr last = load->index.back();
    bool fits = !depends_on(load->guard, step);
    for (size_t d = 0; d + 1 < load->index.size(); d++) fits &= !depends_on(load->index[d], step);
    auto coefficient = coefficient_of(last, step);
    if (fits && coefficient && coefficient->is_constant(1)) {
      Index index = load->index;
      index.back() = last - step;
      return formula_load(load->value, to, index, load->guard);
    }
  }
  DType word = unsigned_of(to_bits), piece = unsigned_of(from_bits);
  FormulaRef whole;
  for (int p = 0; p < parts; p++) {
    where.back() = at.back() * parts + p;
    FormulaRef x = formula_cast(word, formula_bitcast(piece, read(source, where)));
    if (p > 0) x = formula_op(Op::shl, {x, formula_constant(word, p * from_bits)});
    whole = whole ? formula_op(Op::bit_or, {whole, x}) : x;
  }
  return formula_bitcast(to, whole);
}

FormulaRef ConeBuilder::read_random(const Node& node, const Index& at) {
  // Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011).
  auto& attr = std::get<RandomAttr>(node.attr);
  ExprMap<Expr> map;
  for (size_t d = 0; d < at.size(); d++)
    if (Expr a = axis_symbol(int(d), node.type().shape[d]); a.is_symbol()) map[a] = at[d];
  Expr counter = luminal::substitute(attr.counter, map);
  Expr block = floordiv(counter, 4), lane = mod(counter, 4);
  auto u32 = [](double v) { return formula_constant(DType::u32, v); };
  auto low = [](FormulaRef x) { return formula_cast(DType::u32, std::move(x)); };
  FormulaRef wide = formula_index(block, DType::u64);
  auto shifted = [](FormulaRef x) {
    return formula_cast(DType::u32, formula_op(Op::shr, {std::move(x), formula_constant(DType::u64, 32)}));
  };
  FormulaRef c[4] = {low(wide), shifted(wide), u32(0), u32(0)};
  FormulaRef key[2] = {read(node.inputs[0], {0}), read(node.inputs[0], {1})};
  auto product = [](double factor, const FormulaRef& x) {
    return formula_op(Op::mul, {formula_constant(DType::u64, factor), formula_cast(DType::u64, x)});
  };
  auto exclusive = [](FormulaRef a, FormulaRef b) {
    return formula_op(Op::bit_xor, {std::move(a), std::move(b)});
  };
  for (int r = 0; r < 10; r++) {
    FormulaRef p0 = product(0xD2511F53u, c[0]), p1 = product(0xCD9E8D57u, c[2]);
    FormulaRef next[4] = {exclusive(exclusive(shifted(p1), c[1]), key[0]), low(p1),
                          exclusive(exclusive(shifted(p0), c[3]), key[1]), low(p0)};
    for (int i = 0; i < 4; i++) c[i] = next[i];
    key[0] = formula_op(Op::add, {key[0], u32(0x9E3779B9u)});
    key[1] = formula_op(Op::add, {key[1], u32(0xBB67AE85u)});
  }
  FormulaRef bits32 = c[3];
  for (int i = 2; i >= 0; i--)
    bits32 = formula_op(Op::select, {formula_index(eq(lane, i), DType::boolean), c[i], bits32});
  if (node.type().dtype == DType::u32) return bits32;
  FormulaRef top = formula_op(Op::shr, {bits32, u32(8)});
  return formula_op(Op::mul, {formula_cast(DType::f32, top), formula_constant(DType::f32, 0x1p-24)});
}

} // namespace luminal::kernel
