// loop/tile_units.cpp -- steps of a dot instruction on values become steps of a unit with tile registers.
#include "loop/tile_units.h"
#include "base/contains.h"
#include "loop/renumber.h"
#include "loop/unit.h"
#include <algorithm>
#include <numeric>
#include <set>

namespace luminal::kernel {
namespace {

bool any_value(const Value& value, BufferId buffer) {
  const auto* load = value.as<Load>();
  return (load && load->buffer == buffer) ||
         std::ranges::any_of(args_of(value), [&](const ValueRef& arg) { return any_value(*arg, buffer); });
}

bool loads(const Stmt& stmt, BufferId buffer) {
  const Value* value = value_of(stmt);
  return (value && any_value(*value, buffer)) || std::ranges::any_of(bodies_of(stmt), [&](const Body* body) {
           return std::ranges::any_of(*body, [&](const StmtRef& s) { return loads(*s, buffer); });
         });
}

bool stores(const Stmt& stmt, BufferId buffer) {
  return written_by(stmt) == buffer || std::ranges::any_of(bodies_of(stmt), [&](const Body* body) {
           return std::ranges::any_of(*body, [&](const StmtRef& s) { return stores(*s, buffer); });
         });
}

class TilePass {
public:
  TilePass(Kernel& kernel, const Unit& unit) : k_(kernel), unit_(unit) { note_symbols(k_.body); }

  int run() {
    const BufferId old = k_.buffers.end_id();
    k_.body = body(k_.body);
    for (BufferId b = old; --b;)
      if (moved_.contains(b) &&
          std::ranges::none_of(k_.body, [&](const StmtRef& s) { return stores(*s, b) || loads(*s, b); }))
        erase(b);
    return found_;
  }

private:
  /// A loop over words that whole tiles can do.
  struct Steps {
    const Loop* words = nullptr;
    std::vector<const Loop*> unrolled; // outermost first, the rows among them
    const Loop* rows = nullptr;
    BufferId sum;
    UnitOperand accumulator, a, b; // at the first row of a tile, the first lane
  };

  std::optional<Steps> steps(const Stmt& stmt) const {
    Steps s;
    s.words = stmt.as<Loop>();
    if (!s.words || s.words->kind != LoopKind::serial) return {};
    const Loop* lanes = s.words;
    do {
      if (lanes->body.size() != 1) return {};
      lanes = lanes->body[0]->as<Loop>();
      if (lanes && lanes->kind == LoopKind::unrolled) s.unrolled.push_back(lanes);
    } while (lanes && lanes->kind == LoopKind::unrolled);
    if (!lanes || lanes->kind != LoopKind::vector || lanes->lanes_active || lanes->body.size() != 1 ||
        !lanes->begin.is_constant(0) || !lanes->end.is_constant(unit_.n))
      return {};
    const auto* result = lanes->body[0]->as<Store>();
    const auto* step = result ? result->value->as<ApplyUser>() : nullptr;
    if (!step || step->name != unit_.lane_unit) return {};
    const auto* before = step->args[0]->as<Load>();
    s.sum = result->buffer;
    if (!before || before->buffer != s.sum || before->offset != result->offset ||
        k_.buffers[s.sum].space != Space::registers)
      return {};
    const Load* factors[] = {step->args[1]->as<Load>(), step->args[2]->as<Load>()};
    if (!factors[0] || !factors[1]) return {};
    if (unit_.a.dtype == unit_.b.dtype && depends_on(factors[0]->offset, lanes->variable))
      std::swap(factors[0], factors[1]);
    const auto [a, b] = factors;
    if (depends_on(a->offset, lanes->variable)) return {};
    for (const Loop* loop : s.unrolled)
      if (depends_on(a->offset, loop->variable)) {
        if (s.rows || depends_on(b->offset, loop->variable)) return {};
        s.rows = loop;
      }
    if (!s.rows || !s.rows->begin.is_constant(0) || !s.rows->end.is_constant() ||
        s.rows->end.value() < unit_.m)
      return {};
    const Expr row = s.rows->variable, lane = lanes->variable, word = s.words->variable;
    const std::vector<std::pair<char, Expr>> steps{{'m', row}, {'n', lane}, {'k', word}};
    const auto operand = [&](BufferId buffer, Expr offset, const UnitOperandInfo& info) {
      std::optional<UnitOperand> made = UnitOperand{buffer, luminal::substitute(offset, {{lane, 0}}), {}};
      const DType held = k_.buffers[buffer].dtype;
      for (const char axis : info.axes_in(held)) {
        if (axis == 'p') {
          made->strides.emplace_back(1);
          continue;
        }
        const Expr symbol = std::ranges::find(steps, axis, &std::pair<char, Expr>::first)->second;
        const std::optional<Expr> stride = coefficient_of(offset, symbol);
        if (!stride) return std::optional<UnitOperand>();
        made->strides.push_back(*stride);
      }
      return made->strides.empty() ? std::optional<UnitOperand>() : made;
    };
    const auto guarded = [](const Load& load) { return !load.guard.is_constant(1); };
    const auto sum = operand(s.sum, result->offset, unit_.accumulator),
               x = operand(a->buffer, a->offset, unit_.a), y = operand(b->buffer, b->offset, unit_.b);
    if (guarded(*a) || guarded(*b) || !sum || !x || !y || !are_rows(*sum, unit_.accumulator) ||
        !are_rows(*x, unit_.a) || !are_rows(*y, unit_.b))
      return {};
    s.accumulator = *sum, s.a = *x, s.b = *y;
    return s;
  }

  /// All axes but the first are contiguous: a row of a tile is.
  bool are_rows(const UnitOperand& operand, const UnitOperandInfo& info) const {
    const std::string axes = info.axes_in(k_.buffers[operand.buffer].dtype);
    int64_t run = 1;
    for (size_t i = axes.size(); i-- > 1;) {
      if (!operand.strides[i].is_constant(run)) return false;
      run *= unit_.extent(axes[i]);
    }
    return true;
  }

  /// Inner bodies first: accumulators move where they are set up.
  Body body(const Body& old) {
    Body now;
    for (const StmtRef& s : old)
      now.push_back(with_bodies(*s, [&](const Body& inner) { return body(inner); }));
    std::set<BufferId> sums;
    for (const StmtRef& s : now) collect(*s, sums);
    for (const BufferId sum : sums)
      if (is_set_up(now, sum)) now = on_tiles(now, sum);
    return now;
  }

  void collect(const Stmt& stmt, std::set<BufferId>& sums) const {
    if (const auto found = steps(stmt)) sums.insert(found->sum);
    for (const Body* inner : bodies_of(stmt))
      for (const StmtRef& s : *inner) collect(*s, sums);
  }

  /// Does a statement of the body store the accumulators, before any of them is read?
  static bool is_set_up(const Body& body, BufferId sum) {
    const auto first =
        std::ranges::find_if(body, [&](const StmtRef& s) { return stores(*s, sum) || loads(*s, sum); });
    return first != body.end() && !loads(**first, sum);
  }

  Body on_tiles(const Body& body, BufferId sum) {
    Buffer buffer = k_.buffers[sum];
    const std::string name = buffer.name + ".tiles";
    buffer.name = name;
    for (int n = 2; contains(k_.buffers, buffer.name, &Buffer::name); ++n)
      buffer.name = name + std::to_string(n);
    buffer.space = Space::local;
    buffer.alignment = 64;
    IdVector<BufferId, BufferId> numbers(k_.buffers.size());
    std::iota(numbers.begin(), numbers.end(), BufferId(0));
    Body out;
    for (const StmtRef& s : body) append(out, *s, sum);
    moved_.insert(sum);
    numbers[sum] = add_buffer(k_, std::move(buffer));
    return renumbered(out, std::move(numbers));
  }

  void append(Body& out, const Stmt& stmt, BufferId sum) {
    if (const auto found = steps(stmt); found && found->sum == sum) {
      ++found_;
      const Expr begin = found->words->begin, end = found->words->end;
      const Expr tiles = floordiv(max(end - begin, 0), unit_.k), rest = begin + tiles * unit_.k;
      if (prove(eq(tiles, 0)) != Truth::yes) out.push_back(whole(*found, begin, tiles));
      const int64_t rows = found->rows->end.value(), whole_rows = rows / unit_.m * unit_.m;
      if (prove(ge(rest, end)) != Truth::yes) out.push_back(lanes(*found, rest, 0, whole_rows));
      if (whole_rows < rows) out.push_back(lanes(*found, begin, whole_rows, rows));
      return;
    }
    out.push_back(with_bodies(stmt, [&](const Body& inner) {
      Body changed;
      for (const StmtRef& s : inner) append(changed, *s, sum);
      return changed;
    }));
  }

  /// The steps as they were, from a word on, of some of the rows.
  StmtRef lanes(const Steps& s, Expr first_word, int64_t first_row, int64_t end_of_rows) const {
    const auto some = [&](const auto& self, const Stmt& stmt) -> StmtRef {
      const auto* old = stmt.as<Loop>();
      if (!old || old->kind == LoopKind::vector) return std::make_shared<const Stmt>(stmt);
      Loop now = *old;
      if (old == s.rows) now.begin = first_row, now.end = end_of_rows;
      now.body = {self(self, *old->body[0])};
      return std::make_shared<const Stmt>(std::move(now));
    };
    Loop words = *s.words;
    words.begin = first_word, words.jam = 1;
    words.body = {some(some, *words.body[0])};
    return std::make_shared<const Stmt>(std::move(words));
  }

  StmtRef whole(const Steps& s, Expr begin, Expr tiles) {
    const Expr tile = fresh(s.words->variable, {0, std::max<int64_t>(0, tiles.range().high - 1)});
    const Expr rows = fresh(s.rows->variable, {0, s.rows->end.value() / unit_.m - 1});
    const ExprMap<Expr> at{{s.words->variable, begin + tile * unit_.k}, {s.rows->variable, rows * unit_.m}};
    std::vector<UnitOperand> operands{s.accumulator, s.a, s.b};
    for (UnitOperand& o : operands) o.offset = luminal::substitute(o.offset, at);
    Body inside{unit(unit_.name, std::move(operands))};
    for (size_t i = s.unrolled.size(); i-- > 0;) {
      const Loop& old = *s.unrolled[i];
      inside = {&old == s.rows
                    ? loop(LoopKind::unrolled, rows, 0, old.end.value() / unit_.m, std::move(inside))
                    : loop(LoopKind::unrolled, old.variable, old.begin, old.end, std::move(inside))};
    }
    return loop(LoopKind::serial, tile, 0, tiles, std::move(inside));
  }

  /// A buffer that no statement names any more.
  void erase(BufferId buffer) {
    IdVector<BufferId, BufferId> numbers;
    for (const BufferId b : k_.buffers.ids()) numbers.push_back(b - (b > buffer ? 1 : 0));
    k_.buffers.erase(k_.buffers.begin() + buffer.number());
    k_.body = renumbered(k_.body, std::move(numbers));
  }

  void note_symbols(const Body& body) {
    for (const Expr s : k_.symbols) names_.emplace(s.name());
    for (const StmtRef& s : body) {
      if (const auto* l = s->as<Loop>()) names_.emplace(l->variable.name());
      if (const auto* l = s->as<Roles>()) names_.emplace(l->variable.name());
      if (const auto* l = s->as<LetIndex>()) names_.emplace(l->symbol.name());
      for (const Body* inner : bodies_of(*s)) note_symbols(*inner);
    }
  }

  /// A symbol of its own.
  Expr fresh(Expr of, Interval range) {
    const std::string wish = std::string(of.name()) + ".t";
    std::string name = wish;
    for (int n = 2; !names_.insert(name).second; ++n) name = wish + std::to_string(n);
    return Expr::symbol(name, range);
  }

  Kernel& k_;
  const Unit& unit_;
  std::set<std::string, std::less<>> names_;
  std::set<BufferId> moved_; // accumulators
  int found_ = 0;
};

} // namespace

int use_tiles(Kernel& kernel, std::string_view name) {
  const std::optional<Unit> unit = find_unit(name);
  if (!unit || !unit->tiles || unit->lane_unit.empty() || kernel.lanes != unit->n) return 0;
  return TilePass(kernel, *unit).run();
}

} // namespace luminal::kernel
