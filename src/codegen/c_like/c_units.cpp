// codegen/c_like/c_units.cpp -- units, exchanges between lanes and asynchronous copies as C-like text.
#include "codegen/c_like/c_emitter.h"
#include <algorithm>

namespace luminal::codegen {
using kernel::LoopKind;
using kernel::Space;

void CEmitter::unit(const kernel::UnitCall& s) {
  if (is_collective(s)) return fragments(s);
  const auto unit = kernel::find_unit(s.unit, kernel_.lanes);
  if (!unit) fail("there is no unit " + s.unit);
  const bool plain = unit->lanes == 1 && !unit->flush_subnormals && unit->sum != kernel::UnitSum::odd &&
                     unit->sum != kernel::UnitSum::pairs;
  const bool words = std::ranges::any_of(s.operands, [&](const kernel::UnitOperand& o) {
    return kernel_.buffers[o.buffer].dtype == DType::u32;
  });
  if (!plain || words) fail(fmt::format("the unit {} does not exist in {}", s.unit, dialect_.name));
  const auto symbol = [&](char axis, int64_t extent) {
    return Expr::symbol(fmt::format("unit.{}", axis), {0, extent - 1});
  };
  const Expr m = symbol('m', unit->m), n = symbol('n', unit->n), k = symbol('k', unit->k),
             p = symbol('p', unit->p);
  const auto at = [&](int operand) {
    const kernel::UnitOperand& o = s.operands[size_t(operand)];
    Expr offset = o.offset;
    const std::string& axes = unit->operand(operand).axes;
    for (size_t d = 0; d < axes.size(); ++d)
      offset = offset + o.strides[d] * (axes[d] == 'm' ? m : axes[d] == 'n' ? n : axes[d] == 'k' ? k : p);
    return offset;
  };
  const auto operand = [&](int i, DType as) {
    const kernel::UnitOperand& o = s.operands[size_t(i)];
    const DType type = kernel_.buffers[o.buffer].dtype;
    kernel::ValueRef x = kernel::load_as(type, o.buffer, at(i));
    if (type != unit->operand(i).dtype) x = kernel::bitcast(unit->operand(i).dtype, x);
    return as == x->dtype ? x : kernel::cast(as, x);
  };
  const DType type = unit->accumulator.dtype;
  const kernel::ValueRef acc = operand(0, type), a = operand(1, type), b = operand(2, type);
  const kernel::ValueRef sum = is_float(type) ? kernel::apply(Op::fma, {a, b, acc})
                                              : kernel::apply(Op::add, {acc, kernel::apply(Op::mul, {a, b})});
  kernel::Body inside{kernel::store(s.operands[0].buffer, at(0), sum)};
  const auto around = [&](Expr variable, int64_t extent) {
    inside = {kernel::loop(LoopKind::serial, variable, 0, extent, std::move(inside))};
  };
  if (unit->k_descending) fail(fmt::format("the unit {} does not exist in {}", s.unit, dialect_.name));
  around(p, unit->p), around(k, unit->k), around(n, unit->n), around(m, unit->m);
  body(inside);
}

/// By the neighbouring lanes together.
void CEmitter::fragments(const kernel::UnitCall& s) {
  const auto found = std::ranges::find(dialect_.units, s.unit, &DialectUnit::unit);
  if (found == dialect_.units.end())
    fail(fmt::format("the unit {} does not exist in {}", s.unit, dialect_.name));
  units_.insert(found->unit);
  std::string arguments;
  for (const kernel::UnitOperand& o : s.operands)
    arguments += fmt::format("{}{} + {}", arguments.empty() ? "" : ", ", buffers_[o.buffer], index(o.offset));
  line(fmt::format("{}({});", found->function, arguments));
}

void CEmitter::exchange(const kernel::Exchange& s) {
  if (!dialect_.exchanges)
    fail(fmt::format("lanes of a group exchange values, and {} has no function for it", dialect_.name));
  const DType type = kernel_.buffers[s.from].dtype;
  const std::string held = held_type(type), x = fmt::format("{}[{}]", buffers_[s.from], index(s.from_offset));
  std::string other;
  if (held == "f32")
    other = fmt::format("lum_f32_of_bits(lum_shuffle_u32(lum_bits_of_f32({}), {}))", x, s.mask);
  else if (held == "f64")
    other = fmt::format("lum_f64_of_bits(lum_shuffle_u64(lum_bits_of_f64({}), {}))", x, s.mask);
  else if (held == "bool")
    other = fmt::format("lum_shuffle_u32((u32){}, {}) != 0", x, s.mask);
  else if (bits(type) == 64)
    other = fmt::format("({})lum_shuffle_u64((u64){}, {})", held, x, s.mask);
  else
    other = fmt::format("({})lum_shuffle_u32((u32){}, {})", held, x, s.mask);
  line(fmt::format("{}[{}] = {};", buffers_[s.to], index(s.to_offset), other));
}

/// By the language's wide copies where a lane copies as many bytes into the group's memory; else at once,
/// which is a legal time.
void CEmitter::async_copy(const kernel::AsyncCopy& s) {
  const kernel::Buffer &to = kernel_.buffers[s.to.buffer], &from = kernel_.buffers[s.from.buffer];
  if (bits(to.dtype) == 4 || bits(from.dtype) != bits(to.dtype))
    fail(fmt::format("a copy from {} to {}", from.name, to.name));
  const std::string target = fmt::format("{} + {}", buffers_[s.to.buffer], index(s.to.offset)),
                    source = fmt::format("{} + {}", buffers_[s.from.buffer], index(s.from.offset));
  const bool fills = !s.fill.is_constant(0), by_lane = inside_level1_ && dialect_.copies;
  const Expr all = fills ? s.fill : s.count;
  const int64_t size = bits(to.dtype) / 8, bytes = all.is_constant() ? all.value() * size : 0;
  const auto begins = [&](const kernel::Buffer& b, Expr offset) {
    return std::max(size, b.alignment) % bytes == 0 && (offset * Expr(size)).multiple() % bytes == 0;
  };
  // Nothing, or all of it: then it needs no loop.
  const bool whole = !fills || (all.is_constant() && s.count.multiple() % all.value() == 0);
  if (by_lane && (bytes == 4 || bytes == 8 || bytes == 16) && whole && to.space == Space::group &&
      from.space == Space::global && begins(to, s.to.offset) && begins(from, s.from.offset)) {
    line(fmt::format("lum_copy{}({}, {}, {});", bytes, target, source, index(s.count * Expr(size))));
    return;
  }
  const bool shared = result_.grouped && !inside_level1_;
  const std::string i = unique("c"), first = shared ? "lum_lane" : "0", step = shared ? "lum_lanes" : "1",
                    count = index(s.count);
  const auto at = [&](const kernel::UnitOperand& o) {
    return fmt::format("{}[{} + {}]", buffers_[o.buffer], index(o.offset), i);
  };
  line(fmt::format("for (idx {0} = {1}; {0} < {2}; {0} += {3}) {4} = {5};", i, first, count, step, at(s.to),
                   at(s.from)));
  if (fills)
    line(fmt::format("for (idx {0} = {1} + {2}; {0} < {3}; {0} += {4}) {5} = 0;", i, count, first,
                     index(s.fill), step, at(s.to)));
  if (by_lane) line("lum_copy_none();");
}

void CEmitter::async_wait(const kernel::AsyncWait& s) {
  if (inside_level1_) {
    // Calls are counted together: where there are several tokens all of them are awaited.
    if (dialect_.copies)
      line(fmt::format("lum_copy_wait({});", tokens_.size() == 1 ? s.behind.value_or(0) : 0));
  } else if (result_.grouped) // each lane has copied a part
    line(std::string(dialect_.group_barrier));
}

} // namespace luminal::codegen
