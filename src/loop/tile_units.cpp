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
  /// A loop over words that tiles can do.
  struct Steps {
    const Loop* words = nullptr;
    std::vector<const Prefetch*> prefetches; // of each word, before its steps
    std::vector<const Loop*> unrolled;       // outermost first
    const Loop* rows = nullptr;              // one of them, or a loop around the words
    BufferId sum;
    UnitOperand accumulator, a, b; // at the first row of a tile, the first lane
  };

  /// `around`: a loop over rows, in which it stands.
  std::optional<Steps> steps(const Stmt& stmt, const Loop* around = nullptr) const {
    Steps s;
    s.rows = around;
    s.words = stmt.as<Loop>();
    if (!s.words || s.words->kind != LoopKind::serial) return {};
    const Loop* lanes = s.words;
    do {
      std::span<const StmtRef> inner = lanes->body;
      for (; lanes == s.words && !inner.empty() && inner[0]->is<Prefetch>(); inner = inner.subspan(1))
        s.prefetches.push_back(inner[0]->as<Prefetch>());
      if (inner.size() != 1) return {};
      lanes = inner[0]->as<Loop>();
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
    if (!s.rows || !s.rows->begin.is_constant(0) || (!around && !s.rows->end.is_constant()) ||
        !depends_on(a->offset, s.rows->variable) || depends_on(b->offset, s.rows->variable) ||
        depends_on(s.words->begin, s.rows->variable) || depends_on(s.words->end, s.rows->variable))
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
    for (const StmtRef& s : old) {
      const auto* rows = s->as<Loop>();
      if (const auto apart = rows ? rows_apart(*rows) : std::nullopt)
        now.insert(now.end(), apart->begin(), apart->end());
      else
        now.push_back(with_bodies(*s, [&](const Body& inner) { return body(inner); }));
    }
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
    Body out;
    for (const StmtRef& s : body) append(out, *s, sum);
    return in_memory(out, sum, k_.buffers[sum].size);
  }

  /// The accumulators, so many elements, lie in local memory in these statements.
  Body in_memory(const Body& body, BufferId sum, Expr size) {
    Buffer buffer = k_.buffers[sum];
    buffer.size = size;
    const std::string name = buffer.name + ".tiles";
    buffer.name = name;
    for (int n = 2; contains(k_.buffers, buffer.name, &Buffer::name); ++n)
      buffer.name = name + std::to_string(n);
    buffer.space = Space::local;
    buffer.alignment = 64;
    IdVector<BufferId, BufferId> numbers(k_.buffers.size());
    std::iota(numbers.begin(), numbers.end(), BufferId(0));
    moved_.insert(sum);
    numbers[sum] = add_buffer(k_, std::move(buffer));
    return renumbered(body, std::move(numbers));
  }

  // ---- rows one after the other ----

  /// Elements of `sum` that the statement reaches in one row, from 0 on; none where that is not known.
  std::optional<int64_t> reach(const Stmt& stmt, BufferId sum) const {
    int64_t most = 0;
    bool known = true;
    const auto element = [&](BufferId buffer, Expr offset) {
      if (buffer != sum) return;
      const Interval range = offset.range();
      known = known && range.low >= 0 && range.high != unbounded_high;
      most = std::max(most, known ? range.high + 1 : 0);
    };
    const auto value = [&](const auto& self, const Value& v) -> void {
      if (const auto* load = v.as<Load>()) element(load->buffer, load->offset);
      for (const ValueRef& arg : args_of(v)) self(self, *arg);
    };
    const auto walk = [&](const auto& self, const Stmt& s) -> void {
      if (const auto* store = s.as<Store>()) element(store->buffer, store->offset);
      if (const Value* v = value_of(s)) value(value, *v);
      for (const Body* inner : bodies_of(s))
        for (const StmtRef& at : *inner) self(self, *at);
    };
    walk(walk, stmt);
    return known ? std::optional(most) : std::nullopt;
  }

  /// The statement with the accumulators of each row behind those of the row before.
  StmtRef shifted(const Stmt& stmt, BufferId sum, Expr by) const {
    const auto value = [&](const auto& self, const ValueRef& v) -> ValueRef {
      if (const auto* load = v->as<Load>())
        return load->buffer == sum ? load_as(v->dtype, sum, load->offset + by, load->guard) : v;
      return with_args(*v, [&](const ValueRef& arg) { return self(self, arg); });
    };
    if (const auto* s = stmt.as<Store>())
      return store(s->buffer, s->buffer == sum ? s->offset + by : s->offset, value(value, s->value));
    if (const auto* s = stmt.as<LetValue>()) return let(s->let, value(value, s->value));
    if (const auto* s = stmt.as<LetIndex>()) return let_index(s->symbol, value(value, s->value));
    return with_bodies(stmt, [&](const Body& inner) {
      Body changed;
      for (const StmtRef& s : inner) changed.push_back(shifted(*s, sum, by));
      return changed;
    });
  }

  /// Where rows are summed up one after the other, each in the same accumulators: all are set up, then tiles
  /// take their steps, then all are finished. Nothing else goes from row to row.
  std::optional<Body> rows_apart(const Loop& rows) {
    const int64_t most = rows.end.range().high;
    if (rows.kind != LoopKind::serial || !rows.begin.is_constant(0) || most > most_rows) return {};
    std::optional<BufferId> sum;
    size_t place = 0;
    for (size_t i = 0; i < rows.body.size(); ++i)
      if (const auto found = steps(*rows.body[i], &rows)) {
        if (sum) return {};
        sum = found->sum, place = i;
      }
    if (!sum || !is_set_up(rows.body, *sum) || !apart(rows, *sum)) return {};
    int64_t columns = 0;
    for (const StmtRef& s : rows.body) {
      const auto reached = reach(*s, *sum);
      if (!reached) return {};
      columns = std::max(columns, (*reached + unit_.n - 1) / unit_.n * unit_.n);
    }
    Body body;
    for (const StmtRef& s : rows.body) body.push_back(shifted(*s, *sum, rows.variable * columns));
    const auto found = steps(*body[place], &rows);
    const Expr tiles = found ? tiles_of(*found) : Expr(0);
    if (prove(eq(tiles, 0)) == Truth::yes) return {};
    ++found_;
    const auto each_row = [&](auto first, auto last) {
      return loop(LoopKind::serial, rows.variable, 0, rows.end, Body(first, last));
    };
    const auto at = body.begin() + std::ptrdiff_t(place);
    Body out;
    if (place > 0) out.push_back(each_row(body.begin(), at));
    const Expr begin = found->words->begin, rest = begin + tiles * unit_.k,
               whole = floordiv(rows.end, unit_.m), left = mod(rows.end, unit_.m),
               tile = fresh(rows.variable, {0, std::max<int64_t>(0, whole.range().high - 1)});
    if (prove(eq(whole, 0)) != Truth::yes)
      out.push_back(
          loop(LoopKind::serial, tile, 0, whole, {on_words(*found, begin, tiles, tile * unit_.m, {})}));
    if (prove(eq(left, 0)) != Truth::yes)
      out.push_back(if_then(lt(0, left), {on_words(*found, begin, tiles, whole * unit_.m, left)}));
    if (prove(ge(rest, found->words->end)) != Truth::yes) {
      const Body one{lanes(*found->words, rest)};
      out.push_back(each_row(one.begin(), one.end()));
    }
    if (place + 1 < body.size()) out.push_back(each_row(at + 1, body.end()));
    return in_memory(out, *sum, Expr(std::max(most, int64_t{1}) * columns));
  }

  /// Does nothing but the accumulators go from statement to statement, or from row to row? What the rows
  /// store they read, if at all, where they store it.
  bool apart(const Loop& rows, BufferId sum) const {
    std::vector<std::pair<BufferId, Expr>> stored, loaded;
    bool plain = true;
    const auto value = [&](const auto& self, const Value& v) -> void {
      if (const auto* load = v.as<Load>()) loaded.emplace_back(load->buffer, load->offset);
      for (const ValueRef& arg : args_of(v)) self(self, *arg);
    };
    const auto walk = [&](const auto& self, const Stmt& s, bool outermost) -> void {
      if (const auto* store = s.as<Store>())
        stored.emplace_back(store->buffer, store->offset);
      else if (s.is<LetValue>() || s.is<LetIndex>())
        plain = plain && !outermost;
      else
        plain = plain && (s.is<Loop>() || s.is<If>() || s.is<Prefetch>());
      if (const Value* v = value_of(s)) value(value, *v);
      for (const Body* inner : bodies_of(s))
        for (const StmtRef& at : *inner) self(self, *at, false);
    };
    for (const StmtRef& s : rows.body) walk(walk, *s, true);
    return plain && std::ranges::all_of(stored, [&](const auto& to) {
             return to.first == sum || (depends_on(to.second, rows.variable) &&
                                        std::ranges::all_of(loaded,
                                                            [&](const auto& from) {
                                                              return from.first != to.first ||
                                                                     from.second == to.second;
                                                            }) &&
                                        std::ranges::all_of(stored, [&](const auto& other) {
                                          return other.first != to.first || other.second == to.second;
                                        }));
           });
  }

  void append(Body& out, const Stmt& stmt, BufferId sum) {
    if (const auto found = steps(stmt); found && found->sum == sum) {
      ++found_;
      const Expr begin = found->words->begin, tiles = tiles_of(*found), rest = begin + tiles * unit_.k;
      const int64_t rows = found->rows->end.value(), whole = rows / unit_.m, left = rows % unit_.m;
      if (prove(eq(tiles, 0)) != Truth::yes) {
        if (whole > 0) out.push_back(on_words(*found, begin, tiles, 0, {}));
        if (left > 0) out.push_back(on_words(*found, begin, tiles, whole * unit_.m, left));
      }
      if (prove(ge(rest, found->words->end)) != Truth::yes) out.push_back(lanes(*found->words, rest));
      return;
    }
    const StmtRef changed = with_bodies(stmt, [&](const Body& inner) {
      Body made;
      for (const StmtRef& s : inner) append(made, *s, sum);
      return made;
    });
    // Tiles of other rows have loops of their own: those of one loop stay in their registers.
    const auto* loop = changed->as<Loop>();
    if (loop && loop->kind == LoopKind::serial && loop->body.size() > 1 &&
        std::ranges::all_of(loop->body, [](const StmtRef& s) { return steps_only(*s); }))
      for (const StmtRef& s : loop->body)
        out.push_back(with_bodies(*changed, [&](const Body&) { return Body{s}; }));
    else
      out.push_back(changed);
  }

  /// Loops around unit statements and prefetches, and nothing else.
  static bool steps_only(const Stmt& stmt) {
    const std::vector<const Body*> bodies = bodies_of(stmt);
    return stmt.is<UnitCall>() || stmt.is<Prefetch>() ||
           (stmt.is<Loop>() &&
            std::ranges::all_of(*bodies[0], [](const StmtRef& s) { return steps_only(*s); }));
  }

  /// Whole tiles of words.
  Expr tiles_of(const Steps& s) const { return floordiv(max(s.words->end - s.words->begin, 0), unit_.k); }

  /// The steps as they were, from a word on.
  static StmtRef lanes(Loop words, Expr first) {
    words.begin = first, words.jam = 1;
    return std::make_shared<const Stmt>(std::move(words));
  }

  /// Tiles of rows from `first` on: one of `rows` of them, or all whole ones of an unrolled loop.
  StmtRef on_words(const Steps& s, Expr begin, Expr tiles, Expr first, std::optional<Expr> rows) {
    const Expr tile = fresh(s.words->variable, {0, std::max<int64_t>(0, tiles.range().high - 1)});
    const bool all = !rows && s.rows->kind == LoopKind::unrolled;
    const Expr row = all ? fresh(s.rows->variable, {0, s.rows->end.value() / unit_.m - 1}) : Expr(0);
    const ExprMap<Expr> at{{s.words->variable, begin + tile * unit_.k},
                           {s.rows->variable, first + row * unit_.m}};
    std::vector<UnitOperand> operands{s.accumulator, s.a, s.b};
    for (UnitOperand& o : operands) o.offset = luminal::substitute(o.offset, at);
    Body inside{unit(unit_.name, std::move(operands), rows)};
    for (size_t i = s.unrolled.size(); i-- > 0;) {
      const Loop& old = *s.unrolled[i];
      if (&old != s.rows)
        inside = {loop(LoopKind::unrolled, old.variable, old.begin, old.end, std::move(inside))};
      else if (all)
        inside = {loop(LoopKind::unrolled, row, 0, old.end.value() / unit_.m, std::move(inside))};
    }
    Body step = prefetches(s, begin + tile * unit_.k, first);
    step.insert(step.end(), inside.begin(), inside.end());
    return loop(LoopKind::serial, tile, 0, tiles, std::move(step));
  }

  /// What the words of one tile ask for, each line once where that is known.
  Body prefetches(const Steps& s, Expr begin, Expr row) const {
    std::vector<std::pair<BufferId, Expr>> places;
    for (const Prefetch* p : s.prefetches)
      for (int64_t word = 0; word < unit_.k; ++word) {
        const std::pair place{p->buffer, luminal::substitute(p->offset, {{s.words->variable, begin + word},
                                                                         {s.rows->variable, row}})};
        if (!contains(places, place)) places.push_back(place);
      }
    Body out;
    for (const auto& [buffer, offset] : places) out.push_back(prefetch(buffer, offset));
    return out;
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

  static constexpr int64_t most_rows = 64; // of a loop over rows
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
