// loop/loop_random.h -- random kernels: any that the language can write, and correct ones that can
// be run.
#pragma once
#include "loop/loop.h"
#include "loop/unit.h"
#include <random>

namespace luminal::kernel {

/// Well-formed text, no meaning: every statement, value and field occurs.
class RandomText {
public:
  explicit RandomText(uint64_t seed) : random_(seed) {}

  Kernel kernel() {
    Kernel k;
    k.name = pick(2) ? "random" : "a name with spaces \"and quotes\"";
    k.lanes = 1 << pick(6);
    for (int i = 0; i < int(pick(3)); ++i) {
      const int64_t low = int64_t(pick(5)), multiple = 1 + int64_t(pick(2)) * 7;
      const Interval range{pick(4) ? low : unbounded_low, pick(4) ? low + 100 : unbounded_high};
      k.symbols.push_back(Expr::symbol("n" + std::to_string(i), range, multiple));
    }
    scope_ = k.symbols;
    for (int i = 0; i < 6; ++i) {
      Buffer b;
      b.name = "b" + std::to_string(i);
      b.space = i < 3 ? Space::global : Space(1 + pick(5));
      b.access = Access(i < 3 ? pick(4) : 3);
      b.dtype = DType(pick(dtype_count));
      b.size = expr(2);
      b.alignment = pick(2) ? 64 : 0;
      b.padded = pick(2);
      add_buffer(k, b);
    }
    if (pick(3) == 0) k.notes = {"a note", "m0: 0..1024 split by 240"};
    kernel_ = &k;
    k.body = body(3);
    k.lets = lets_;
    return k;
  }

private:
  uint64_t pick(uint64_t below) { return random_() % below; }

  Expr expr(int depth) {
    if (depth == 0 || pick(4) == 0)
      return !scope_.empty() && pick(3) ? scope_[pick(scope_.size())] : Expr(int64_t(pick(40)) - 10);
    const Expr a = expr(depth - 1), b = expr(depth - 1);
    const int64_t c = 1 + int64_t(pick(9));
    switch (pick(10)) {
    case 0: return a - b;
    case 1: return a * c;
    case 2: return floordiv(a, c);
    case 3: return mod(a, c);
    case 4: return min(a, b);
    case 5: return max(a, b);
    case 6: return a * b;
    case 7: return ceildiv(a, c);
    default: return a + b;
    }
  }

  Expr condition() {
    const Expr a = expr(1), b = expr(1);
    switch (pick(5)) {
    case 0: return lt(a, b);
    case 1: return eq(a, b);
    case 2: return logical_or(le(a, b), ne(a, 3));
    case 3: return logical_and(ge(a, b), ne(b, 5));
    default: return a;
    }
  }

  double number(DType type) {
    static const double numbers[] = {0,         1,   -1.5, 0.1, 1e30,      -3,   INFINITY,
                                     -INFINITY, NAN, -0.0, 7,   123456789, 1e-40};
    const double x = numbers[pick(std::size(numbers))];
    return is_float(type) ? x : double(int64_t(pick(1000)) - 500);
  }

  ValueRef value(DType type, int depth) {
    switch (depth == 0 ? pick(4) : pick(14)) {
    case 0: return constant(type, number(type));
    case 1: {
      const BufferId id = BufferId(pick(kernel_->buffers.size()));
      // Another dtype as well.
      return pick(4) ? load_as(type, id, expr(2)) : load_as(type, id, expr(2), condition());
    }
    case 2: return index(pick(2) ? expr(2) : condition(), type);
    case 3: {
      std::vector<LetId> fitting;
      for (const auto& [let, dtype] : known_)
        if (dtype == type) fitting.push_back(let);
      return fitting.empty() ? constant(type, number(type)) : let_value(type, fitting[pick(fitting.size())]);
    }
    case 4: return cast(type, value(DType(pick(dtype_count)), depth - 1));
    case 5:
      for (int t = int(pick(dtype_count)), tries = 0; tries < dtype_count; ++tries, t = (t + 1) % dtype_count)
        if (bits(DType(t)) == bits(type)) return bitcast(type, value(DType(t), depth - 1));
      break;
    case 6: {
      ValueRef x = value(type, depth - 1);
      if (pick(4) == 0) return last_lane(std::move(x));
      const Op op = pick(2) ? Op::add : Op::max;
      return pick(2) ? scan_lanes(op, std::move(x)) : reduce_lanes(op, std::move(x));
    }
    default: break;
    }
    // An op whose result is of this type.
    for (;;) {
      const Op op = Op(pick(op_count));
      const OpRow& r = row(op);
      const bool truth = r.signature == Signature::comparison || r.signature == Signature::test;
      if (truth != (type == DType::boolean) && !(type == DType::boolean && r.signature == Signature::bits))
        continue;
      const DType argument = truth ? DType(pick(dtype_count)) : type;
      std::vector<DType> types(size_t(r.arity), argument);
      if (r.signature == Signature::choice) types[0] = DType::boolean;
      if (!result_type(r, types.data())) continue;
      std::vector<ValueRef> args;
      for (const DType t : types) args.push_back(value(t, depth - 1));
      return apply(op, std::move(args));
    }
  }

  UnitOperand operand(size_t strides) {
    UnitOperand o{BufferId(pick(kernel_->buffers.size())), expr(1), {}};
    for (size_t i = 0; i < strides; ++i) o.strides.push_back(expr(1));
    return o;
  }

  Expr new_symbol(Expr begin, Expr end, bool& fits) {
    const Interval a = begin.range(), b = end.range();
    const Interval follows{a.low, b.high == unbounded_high ? b.high : b.high - 1};
    fits = follows.low <= follows.high;
    const std::string name = "i" + std::to_string(symbols_++);
    if (fits && pick(4)) return Expr::symbol(name, follows);
    return Expr::symbol(name, {pick(2) ? 0 : unbounded_low, pick(2) ? 1000 : unbounded_high},
                        1 + int64_t(pick(2)));
  }

  StmtRef statement(int depth) {
    switch (depth == 0 ? 8 + pick(10) : pick(18)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: {
      Loop s;
      s.kind = LoopKind(pick(4));
      s.begin = pick(2) ? Expr(0) : expr(1);
      s.end = expr(2);
      bool fits = false;
      s.variable = new_symbol(s.begin, s.end, fits);
      if (s.kind == LoopKind::parallel) s.level = int(pick(3));
      if (s.kind == LoopKind::serial && pick(2)) s.jam = 4;
      if (s.kind == LoopKind::vector && pick(2)) s.lanes_active = expr(2);
      scope_.push_back(s.variable);
      s.body = body(depth - 1);
      scope_.pop_back();
      return std::make_shared<const Stmt>(std::move(s));
    }
    case 5:
    case 6: {
      Body then = body(depth - 1), otherwise;
      if (pick(2)) otherwise = body(depth - 1);
      return if_then(condition(), then, otherwise);
    }
    case 7: {
      bool fits = false;
      const Expr begin = 0, end = expr(1);
      const Expr variable = new_symbol(begin, end, fits);
      scope_.push_back(variable);
      Body producers = pick(4) ? body(depth - 1) : Body{}, consumers = body(depth - 1);
      scope_.pop_back();
      return roles(variable, begin, end, 1 + int(pick(4)), producers, consumers);
    }
    case 8: return barrier(int(pick(3)));
    case 9: return prefetch(BufferId(pick(kernel_->buffers.size())), expr(2));
    case 10: return unit(name(), {operand(2), operand(2), operand(3)});
    case 11: return async_copy(operand(0), operand(0), expr(1), TokenId(pick(4)));
    case 12: return async_unit(name(), {operand(1), operand(0), operand(2)}, TokenId(pick(4)));
    case 13: return async_wait(TokenId(pick(4)));
    case 14: {
      const ValueRef v = value(DType(pick(dtype_count)), 3);
      const LetId number(lets_++);
      known_[number] = v->dtype;
      return let(number, v);
    }
    case 15: {
      const ValueRef v = value(DType::i32, 2);
      const Expr s =
          Expr::symbol("j" + std::to_string(symbols_++), {-int64_t(pick(3)), 511}, 1 + int64_t(pick(2)));
      scope_.push_back(s); // to the end of the block
      return let_index(s, v);
    }
    default: {
      const BufferId id = BufferId(pick(kernel_->buffers.size()));
      return store(id, expr(2), value(kernel_->buffers[id].dtype, 4));
    }
    }
  }

  std::string name() {
    const auto names = unit_names();
    return names[pick(names.size())];
  }

  Body body(int depth) {
    const auto scope = scope_;
    const auto known = known_;
    Body out;
    for (int i = 0, n = 1 + int(pick(3)); i < n; ++i) out.push_back(statement(depth));
    scope_ = scope;
    known_ = known;
    return out;
  }

  std::mt19937_64 random_;
  const Kernel* kernel_ = nullptr;
  std::vector<Expr> scope_;
  std::map<LetId, DType> known_;
  int lets_ = 0, symbols_ = 0;
};

/// Correct kernels: phases between barriers; each distributes the elements of one buffer, read what
/// earlier phases wrote, with tails, registers, local memory, conditions and lets. Arguments: x,
/// ids (in), y0 .. (out), n.
class RandomProgram {
public:
  /// exact: only ops that every code generator rounds correctly, so that results are equal bit for
  /// bit.
  explicit RandomProgram(uint64_t seed, bool exact = false) : random_(seed), exact_(exact) {}
  int outputs = 0;

  Kernel kernel() {
    k_.name = "program";
    k_.lanes = pick(2) ? 16 : 8;
    n_ = Expr::symbol("n", {1, 100});
    k_.symbols = {n_};
    x_ = add_buffer(k_, {"x", Space::global, Access::in, DType::f32, n_});
    ids_ = add_buffer(k_, {"ids", Space::global, Access::in, DType::i32, n_});
    outputs = 1 + int(pick(3));
    std::vector<BufferId> outs;
    for (int i = 0; i < outputs; ++i)
      outs.push_back(add_buffer(k_, {"y" + std::to_string(i), Space::global, Access::out, DType::f32, n_}));
    readable_ = {x_};
    std::vector<BufferId> scratch;
    for (int i = 0, count = int(pick(3)); i < count; ++i)
      scratch.push_back(add_buffer(k_, {"s" + std::to_string(i), Space::shared, Access::scratch,
                                        pick(3) ? DType::f32 : DType::bf16, n_}));
    std::vector<BufferId> order = scratch;
    order.insert(order.end(), outs.begin(), outs.end());
    for (const BufferId target : order) {
      phase(target);
      k_.body.push_back(barrier());
      readable_.push_back(target);
    }
    return std::move(k_);
  }

private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  Expr symbol(int64_t high) { return Expr::symbol("i" + std::to_string(symbols_++), {0, high}); }
  ValueRef as_f32(ValueRef v) { return v->dtype == DType::f32 ? v : cast(DType::f32, v); }

  /// Any element of what is written already, near `at`, or one that may lie outside and is then 0.
  ValueRef read(Expr at) {
    const BufferId id = readable_[pick(readable_.size())];
    if (pick(4) == 0) {
      const Expr shifted = at * int64_t(1 + pick(3)) + (int64_t(pick(11)) - 5);
      Expr inside = logical_and(ge(shifted, 0), lt(shifted, n_));
      if (pick(3) == 0) inside = logical_and(inside, ne(mod(at, 3), 1));
      return as_f32(load_as(k_.buffers[id].dtype, id, shifted, inside));
    }
    const Expr offset = pick(3) ? at : mod(at * int64_t(1 + pick(5)) + int64_t(pick(7)), n_);
    return as_f32(load(k_, id, offset));
  }

  ValueRef value(Expr at, int depth, const std::vector<ValueRef>& leaves) {
    if (depth == 0 || pick(5) == 0) {
      if (!leaves.empty() && pick(3) == 0) return leaves[pick(leaves.size())];
      if (pick(5) == 0) return constant(DType::f32, double(pick(9)) - 4);
      if (pick(6) == 0) return index(at, DType::f32);
      return read(at);
    }
    const auto sub = [&] { return value(at, depth - 1, leaves); };
    switch (pick(9)) {
    case 0: return apply(Op::sub, {sub(), sub()});
    case 1: return apply(Op::mul, {sub(), sub()});
    case 2: return apply(Op::max, {sub(), sub()});
    case 3: return apply(Op::fma, {sub(), sub(), sub()});
    case 4: return apply(Op::select, {apply(Op::lt, {sub(), sub()}), sub(), sub()});
    case 5: return cast(DType::f32, cast(DType::bf16, sub()));
    case 6: return apply(Op::abs, {sub()});
    case 7: return apply(exact_ ? Op::neg : Op::tanh, {sub()});
    default: return apply(Op::add, {sub(), sub()});
    }
  }

  ValueRef fitting(BufferId target, ValueRef v) {
    const DType type = k_.buffers[target].dtype;
    return v->dtype == type ? v : cast(type, v);
  }

  /// Element `at` of the target by one worker, without lanes: sometimes a sum over a serial loop in
  /// a local buffer.
  Body scalar(BufferId target, Expr at) {
    Body out;
    std::vector<ValueRef> leaves;
    if (pick(2)) {
      const BufferId t = add_buffer(
          k_, {"t" + std::to_string(k_.buffers.size()), Space::local, Access::scratch, DType::f32, 2});
      out.push_back(store(t, 1, constant(DType::f32, 0)));
      const Expr k = Expr::symbol("k" + std::to_string(symbols_++), {0, 99});
      const ValueRef step =
          apply(Op::fma, {value(mod(at + k, n_), 1, {}), constant(DType::f32, 0.5), load(k_, t, 1)});
      out.push_back(loop(LoopKind::serial, k, 0, n_, {store(t, 1, step)}));
      leaves.push_back(load(k_, t, 1));
    }
    if (pick(2)) {
      const LetId number(k_.lets++);
      out.push_back(let(number, value(at, 2, leaves)));
      leaves.push_back(let_value(DType::f32, number));
    }
    if (pick(3) == 0) {
      const Expr j = Expr::symbol("j" + std::to_string(symbols_++), {0, 99});
      out.push_back(let_index(j, load(k_, ids_, at)));
      leaves.push_back(load(k_, x_, mod(j, n_)));
    }
    const StmtRef direct = store(target, at, fitting(target, value(at, 3, leaves)));
    if (pick(3) == 0)
      out.push_back(if_then(lt(at, int64_t(pick(50))), {direct},
                            {store(target, at, fitting(target, value(at, 2, leaves)))}));
    else
      out.push_back(direct);
    return out;
  }

  /// A block of lanes from `base` on, the tail masked; sometimes through registers, unrolled.
  Body lanes(BufferId target, Expr base, int width) {
    const Expr l = symbol(width - 1);
    if (pick(3) == 0) {
      const int rows = 1 + int(pick(3));
      const BufferId r = add_buffer(k_, {"r" + std::to_string(k_.buffers.size()), Space::registers,
                                         Access::scratch, DType::f32, rows * width, 0, pick(2) == 0});
      const Expr u = symbol(rows - 1), l2 = symbol(width - 1);
      Body out;
      out.push_back(loop(
          LoopKind::unrolled, u, 0, rows,
          {masked_loop(
              l, 0, width, n_ - base,
              {store(r, u * width + l, apply(Op::mul, {value(base + l, 1, {}), index(u, DType::f32)}))})}));
      ValueRef sum = value(base + l2, 1, {});
      for (int row = 0; row < rows; ++row) sum = apply(Op::add, {sum, load(k_, r, l2 + row * width)});
      out.push_back(masked_loop(l2, 0, width, n_ - base, {store(target, base + l2, fitting(target, sum))}));
      return out;
    }
    Body body;
    std::vector<ValueRef> leaves;
    if (pick(2)) {
      const LetId number(k_.lets++);
      body.push_back(let(number, value(base + l, 2, {})));
      leaves.push_back(let_value(DType::f32, number));
    }
    if (pick(4) == 0) {
      const Expr j = Expr::symbol("j" + std::to_string(symbols_++), {0, 99});
      body.push_back(let_index(j, load(k_, ids_, base + l)));
      leaves.push_back(load(k_, x_, mod(j, n_)));
    }
    if (pick(4) == 0)
      body.push_back(if_then(lt(mod(base + l, 5), 2),
                             {store(target, base + l, fitting(target, value(base + l, 2, leaves)))},
                             {store(target, base + l, fitting(target, value(base + l, 1, leaves)))}));
    else
      body.push_back(store(target, base + l, fitting(target, value(base + l, 3, leaves))));
    return {masked_loop(l, 0, width, n_ - base, body)};
  }

  void phase(BufferId target) {
    const int width = int(k_.lanes) * (pick(4) == 0 ? 2 : 1);
    const bool vector = pick(3) != 0;
    const Expr i = symbol(vector ? 99 / width : 99);
    const Expr end = vector ? ceildiv(n_, width) : n_;
    k_.body.push_back(parallel_loop(i, 0, end, vector ? lanes(target, i * width, width) : scalar(target, i)));
  }

  std::mt19937_64 random_;
  bool exact_;
  Kernel k_;
  Expr n_;
  BufferId x_, ids_;
  std::vector<BufferId> readable_;
  int symbols_ = 0;
};

} // namespace luminal::kernel
