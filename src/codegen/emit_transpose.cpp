// codegen/emit_transpose.cpp -- vectors whose lanes lie apart in memory: whole rows are loaded or
// stored, and exchanged in registers.
#include "codegen/emitter.h"
#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace luminal::codegen {
using kernel::Space;
using llvm::Align;
using llvm::Constant;
using llvm::Value;

bool Emitter::stores_to(const kernel::Body& statements, kernel::BufferId buffer) {
  for (const kernel::StmtRef& s : statements) {
    if (const auto* store = s->as<kernel::Store>(); store && store->buffer == buffer) return true;
    if (s->is<kernel::UnitCall>() || s->is<kernel::AsyncCopy>() || s->is<kernel::AsyncUnit>() ||
        s->is<kernel::Barrier>())
      return true; // not looked into
    for (const kernel::Body* inside : bodies_of(*s))
      if (stores_to(*inside, buffer)) return true;
  }
  return false;
}

// A vector load whose lanes lie apart, under an unrolled loop of as many steps along its contiguous
// axis: load contiguous rows once, exchange them, and hand out one column for each step.
void Emitter::transpose(const kernel::Loop& unrolled, const kernel::Body& statements) {
  for (const kernel::StmtRef& s : statements) {
    const auto* loop = s->as<kernel::Loop>();
    if (loop && loop->kind == kernel::LoopKind::vector) transpose_vector_loop(unrolled, *loop);
  }
}

void Emitter::transpose_vector_loop(const kernel::Loop& unrolled, const kernel::Loop& vector) {
  Expr trips = vector.end - vector.begin, steps = unrolled.end - unrolled.begin;
  if (!trips.is_constant() || !steps.is_constant() || trips != steps || !vector.begin.is_constant(0) ||
      !unrolled.begin.is_constant(0))
    return;
  int64_t n = trips.value();
  if (n < 4 || n > 64 || (n & (n - 1)) != 0) return;
  std::vector<const kernel::Value*> loads;
  std::function<void(const kernel::Value&)> collect = [&](const kernel::Value& v) {
    if (v.is<kernel::Load>()) loads.push_back(&v);
    for (const auto& a : args_of(v)) collect(*a);
  };
  for (const kernel::StmtRef& s : vector.body)
    if (s->is<kernel::Store>() || s->is<kernel::LetValue>()) collect(*value_of(*s));
  Int live;
  bool masked = false;
  if (vector.lanes_active && prove(le(n, *vector.lanes_active)) != Truth::yes) {
    if (depends_on(*vector.lanes_active, unrolled.variable)) return;
    masked = true;
    live = integer(*vector.lanes_active);
  }
  int64_t old_lanes = lanes_;
  lanes_ = n;
  for (const kernel::Value* v : loads) {
    const auto& load = *v->as<kernel::Load>();
    const kernel::Buffer& buffer = kernel_.buffers[load.buffer];
    const int element = bits(buffer.dtype); // a load may be of a wider type: words of several elements
    if (buffer.space == Space::registers || element < 8 || bits(v->dtype) % element != 0 ||
        bits(v->dtype) > 32 || !load.guard.is_constant(1))
      continue;
    const int64_t width = bits(v->dtype) / element;
    if (columns_.contains(v) || stores_to(unrolled.body, load.buffer)) continue;
    std::optional<Expr> along = coefficient_of(load.offset, unrolled.variable),
                        across = coefficient_of(load.offset, vector.variable);
    if (!along || !along->is_constant(width) || !across || depends_on(*across, vector.variable)) continue;
    if (across->is_constant() && std::abs(across->value()) < 2 * width) continue;
    bool known = true; // nothing that is defined inside the unrolled loop
    for (Expr s : symbols_of(load.offset))
      known = known && (s == unrolled.variable || s == vector.variable || variables_.contains(s));
    if (!known) continue;
    const int bytes = element / 8;
    llvm::Type* type = with_lanes(memory_type(v->dtype));
    open_scope();
    bind(unrolled.variable, {nullptr, 0}, depth_ + 1);
    std::vector<Value*> rows;
    for (int64_t i = 0; i < n; ++i) {
      Value* p = address(load.buffer, substitute(load.offset, {{vector.variable, Expr(i)}}), bytes);
      if (!masked || buffer.padded) {
        rows.push_back(b_.CreateAlignedLoad(type, p, Align(1)));
      } else {
        Value* row_live = b_.CreateICmpSGT(materialize(live), i64(i));
        rows.push_back(masked_load(type, p, b_.CreateVectorSplat(static_cast<unsigned>(n), row_live)));
      }
    }
    close_scope();
    transpose(rows);
    columns_[v] = std::move(rows);
    column_variable_ = unrolled.variable;
  }
  lanes_ = old_lanes;
}

// Stages that are one instruction each and need no tables: within blocks of 128 bits lanes of two
// rows alternate, which turns the blocks; then the blocks of two rows, the even ones and the odd
// ones, are contiguous.
void Emitter::transpose(std::vector<Value*>& rows) {
  const auto n = static_cast<int>(rows.size());
  const int element = static_cast<int>(rows[0]->getType()->getScalarSizeInBits());
  const int block = std::min(n, 128 / element);
  const auto stage = [&](int apart, const auto& lane_of) { // lane_of(lane, 0 or 1): of x beside y
    llvm::SmallVector<int, 64> pick[2];
    for (int which : {0, 1})
      for (int l = 0; l < n; ++l) pick[which].push_back(lane_of(l, which));
    for (int i = 0; i < n; ++i) {
      if (i & apart) continue;
      Value *&x = rows[static_cast<size_t>(i)],
            *&y = rows[static_cast<size_t>(i) + static_cast<size_t>(apart)];
      Value* first = shuffle(x, y, pick[0]);
      y = opaque(shuffle(x, y, pick[1]));
      x = opaque(first);
    }
  };
  for (int apart = block / 2; apart; apart /= 2)
    stage(apart, [&](int l, int which) {
      return l / block * block + which * (block / 2) + l % block / 2 + l % 2 * n;
    });
  for (int apart = block; apart < n; apart *= 2)
    stage(apart, [&](int l, int which) {
      const int place = 2 * (l / block) + which; // of the blocks of both
      return place * block + l % block;          // y's follow x's
    });
}

/// x, of which LLVM knows nothing: it looks through all shuffles before one for a shorter way,
/// which takes longer than all else and finds none.
Value* Emitter::opaque(Value* x) {
  const auto bits = x->getType()->getPrimitiveSizeInBits().getFixedValue();
  if (bits % 32 != 0) return x;
  llvm::Type* floats = llvm::FixedVectorType::get(b_.getFloatTy(), static_cast<unsigned>(bits / 32));
  Value* fenced = b_.CreateArithmeticFence(b_.CreateBitCast(x, floats), floats);
  return b_.CreateBitCast(fenced, x->getType());
}

// A vector store whose lanes lie apart, under an unrolled loop along which they are contiguous: the
// vectors of all steps are kept, exchanged in blocks of four lanes, and what each lane has is
// written at once.
bool Emitter::transposes_stores(const kernel::Loop& unrolled) {
  const Expr steps = unrolled.end - unrolled.begin;
  if (!options_.transpose || lane_ || !transposed_.empty() || !steps.is_constant() || steps.value() < 2 ||
      steps.value() > 16)
    return false;
  std::map<kernel::BufferId, const kernel::Store*> stores; // one statement writes each buffer
  std::set<kernel::BufferId> read;
  std::vector<const kernel::Loop*> loops{&unrolled};
  std::function<void(const kernel::Value&)> reads = [&](const kernel::Value& v) {
    if (const auto* load = v.as<kernel::Load>()) read.insert(load->buffer);
    for (const auto& a : args_of(v)) reads(*a);
  };
  /// Is there nothing but loops that are written out, lanes that all live, values, and stores that
  /// can be transposed?
  std::function<bool(const kernel::Body&)> plain = [&](const kernel::Body& statements) {
    return std::ranges::all_of(statements, [&](const kernel::StmtRef& s) {
      if (const auto* let = s->as<kernel::LetValue>()) return reads(*let->value), true;
      if (const auto* loop = s->as<kernel::Loop>()) {
        const Expr trips = loop->end - loop->begin;
        const bool vector = loop->kind == kernel::LoopKind::vector;
        if (!(vector || loop->kind == kernel::LoopKind::unrolled) || !trips.is_constant() ||
            loop->lanes_active ||
            (vector &&
             (trips.value() < 4 || trips.value() > 64 || !std::has_single_bit(uint64_t(trips.value())))))
          return false;
        loops.push_back(loop);
        const bool inside = plain(loop->body);
        if (inside && vector)
          for (const kernel::StmtRef& inner : loop->body)
            if (const auto* store = inner->as<kernel::Store>();
                store && stores.contains(store->buffer) && !writes_each_once(*store, loops))
              return false;
        loops.pop_back();
        return inside;
      }
      const auto* store = s->as<kernel::Store>();
      if (!store) return false;
      reads(*store->value);
      const kernel::Buffer& buffer = kernel_.buffers[store->buffer];
      if (buffer.space == Space::registers) return true;
      return bits(buffer.dtype) == 32 && loops.back()->kind == kernel::LoopKind::vector &&
             stores.emplace(store->buffer, store).second;
    });
  };
  if (!plain(unrolled.body) || stores.empty()) return false;
  for (const auto& [buffer, store] : stores)
    if (read.contains(buffer)) return false;
  for (const auto& [buffer, store] : stores) transposed_.insert(store);
  return true;
}

/// In single steps along the first loop and in longer ones along the last, each element once.
bool Emitter::writes_each_once(const kernel::Store& store, std::span<const kernel::Loop* const> loops) {
  std::vector<int64_t> places{0};
  for (const kernel::Loop* l : loops) {
    const auto step = coefficient_of(store.offset, l->variable);
    if (!step || !step->is_constant()) return false;
    const int64_t c = step->value(), n = (l->end - l->begin).value();
    if ((l == loops.front() && c != 1) || (l == loops.back() && std::abs(c) < 2) ||
        int64_t(places.size()) * n > 4096)
      return false;
    std::vector<int64_t> more;
    for (const int64_t p : places)
      for (int64_t i = 0; i < n; i++) more.push_back(p + i * c);
    places = std::move(more);
  }
  std::ranges::sort(places);
  return std::ranges::adjacent_find(places) == places.end();
}

/// Every step of the unrolled loop makes the same stores in the same order.
void Emitter::transpose_lanes(const Access& to, Value* value) {
  LUMINAL_CHECK(to.kind == Access::Kind::pattern, "lanes of a transposed store in unequal steps");
  if (next_transposed_ == transposed_stores_.size()) transposed_stores_.push_back({to, {}});
  transposed_stores_[next_transposed_++].steps.push_back(value);
}

/// The first lanes of all vectors, the second ones, ..: vectors of as many lanes.
std::vector<Value*> Emitter::deinterleaved(const std::vector<Value*>& vectors) {
  if (vectors.size() == 1) return vectors;
  if (vectors.size() % 2) return dealt_one_by_one(vectors);
  std::vector<Value*> half[2], out;
  for (size_t i = 0; i < vectors.size(); i++) half[i % 2].push_back(vectors[i]);
  const std::vector<Value*> even = deinterleaved(half[0]), odd = deinterleaved(half[1]);
  const auto n = static_cast<int>(llvm::cast<llvm::FixedVectorType>(vectors[0]->getType())->getNumElements());
  for (size_t i = 0; i < even.size(); i++)
    for (const int from : {0, n / 2}) {
      llvm::SmallVector<int, 64> pick;
      for (int l = 0; l < n; l++) pick.push_back(from + l / 2 + l % 2 * n);
      out.push_back(opaque(shuffle(even[i], odd[i], pick)));
    }
  return out;
}

/// The same of an odd number: each result takes its lanes from one vector after the other.
std::vector<Value*> Emitter::dealt_one_by_one(const std::vector<Value*>& vectors) {
  const auto n = static_cast<int>(llvm::cast<llvm::FixedVectorType>(vectors[0]->getType())->getNumElements());
  const auto count = static_cast<int>(vectors.size());
  std::vector<Value*> out;
  for (int r = 0; r < count; r++) {
    Value* row = vectors[0];
    for (int v = 1; v < count; v++) {
      llvm::SmallVector<int, 64> pick; // of the row so far, at first lanes of vector 0, and of vector v
      for (int l = 0; l < n; l++) {
        const int place = r * n + l, from = place % count, lane = place / count;
        pick.push_back(from == v ? n + lane : from < v ? (v == 1 ? lane : l) : 0);
      }
      row = opaque(shuffle(row, vectors[size_t(v)], pick));
    }
    out.push_back(row);
  }
  return out;
}

void Emitter::write_transposed() {
  for (const TransposedStore& t : transposed_stores_) write_transposed(t);
  transposed_stores_.clear();
  transposed_.clear();
}

void Emitter::write_transposed(const TransposedStore& t) {
  auto* type = llvm::cast<llvm::FixedVectorType>(t.steps[0]->getType());
  const auto n = static_cast<int>(type->getNumElements());
  const int live = t.live < 0 ? n : int(t.live);
  const auto at = [&](int lane, size_t step) {
    return b_.CreateConstInBoundsGEP1_64(type->getElementType(), t.to.base,
                                         uint64_t(t.to.pattern[size_t(lane)] + int64_t(step)));
  };
  // Of every four lanes the first two or the last two: `width` of x beside as many of y.
  const auto pairs = [&](Value* x, Value* y, int width, bool last) {
    llvm::SmallVector<int, 64> pick;
    for (int block = 0; block < n; block += 4)
      for (int i = 0; i < 4; i++)
        pick.push_back(block + (last ? 2 : 0) + (width == 1 ? i / 2 : i % 2) + (i / width % 2 ? n : 0));
    return opaque(shuffle(x, y, pick));
  };
  const auto write = [&](Value* x, int from, int count, int lane, size_t step) {
    if (lane >= live) return;
    llvm::SmallVector<int, 4> pick;
    for (int i = 0; i < count; i++) pick.push_back(from + i);
    b_.CreateAlignedStore(shuffle(x, x, pick), at(lane, step), Align(1));
  };
  const size_t steps = t.steps.size();
  // Squares: what each lane has fills vectors.
  if (steps % size_t(n) == 0 && std::has_single_bit(unsigned(n))) {
    for (size_t step = 0; step < steps; step += size_t(n)) {
      std::vector<Value*> rows(t.steps.begin() + long(step), t.steps.begin() + long(step) + n);
      transpose(rows);
      for (int l = 0; l < live; l++) b_.CreateAlignedStore(rows[size_t(l)], at(l, step), Align(1));
    }
    return;
  }
  // Nothing lies between: what all lanes have is a run of memory.
  bool run = true;
  for (int l = 0; l < n; l++) run = run && t.to.pattern[size_t(l)] == int64_t(steps) * l;
  if (run) {
    const std::vector<Value*> rows = deinterleaved(t.steps);
    for (size_t r = 0; r < rows.size(); r++) {
      const int64_t left = int64_t(steps) * live - int64_t(r) * n; // of live lanes
      if (left >= n) {
        b_.CreateAlignedStore(rows[r], at(0, r * size_t(n)), Align(1));
      } else if (left > 0) {
        Value* mask = b_.CreateICmpULT(lane_numbers(b_.getInt32Ty()),
                                       b_.CreateVectorSplat(unsigned(n), b_.getInt32(uint32_t(left))));
        b_.CreateMaskedStore(rows[r], at(0, r * size_t(n)), Align(1), mask);
      }
    }
    return;
  }
  size_t step = 0;
  for (; step + 4 <= steps; step += 4)
    for (const int last : {0, 1}) {
      Value *x = pairs(t.steps[step], t.steps[step + 1], 1, last),
            *y = pairs(t.steps[step + 2], t.steps[step + 3], 1, last);
      for (const int second : {0, 1}) {
        Value* rows = pairs(x, y, 2, second);
        for (int block = 0; block < n; block += 4) write(rows, block, 4, block + 2 * last + second, step);
      }
    }
  for (; step + 2 <= steps; step += 2)
    for (const int last : {0, 1}) {
      Value* rows = pairs(t.steps[step], t.steps[step + 1], 1, last);
      for (int l = 0; l < n; l += 2) write(rows, l, 2, l / 4 * 4 + 2 * last + l / 2 % 2, step);
    }
  for (; step < steps; step++)
    for (int l = 0; l < live; l++)
      b_.CreateAlignedStore(b_.CreateExtractElement(t.steps[step], uint64_t(l)), at(l, step), Align(1));
}

// Vector stores of one body whose lanes lie apart, and which are contiguous in each lane: parts of complex
// numbers, results of a butterfly.
void Emitter::find_rows(const kernel::Loop& loop, std::optional<int64_t> live) {
  rows_.clear();
  row_of_.clear();
  if (!options_.transpose || !transposed_.empty() || !live || lanes_ < 4 ||
      !std::has_single_bit(uint64_t(lanes_)))
    return;
  struct Place {
    int64_t at;
    const kernel::Store* store;
  };
  struct Target { // all stores to one buffer: lanes in equal steps from places that differ by constants
    int64_t step = 0;
    Expr first;
    std::vector<Place> places;
    bool suits = true;
  };
  std::map<kernel::BufferId, Target> targets;
  std::set<kernel::BufferId> read;
  std::function<void(const kernel::Value&)> reads = [&](const kernel::Value& v) {
    if (const auto* load = v.as<kernel::Load>()) read.insert(load->buffer);
    for (const auto& a : args_of(v)) reads(*a);
  };
  for (const kernel::StmtRef& s : loop.body) {
    if (const auto* let = s->as<kernel::LetValue>()) {
      reads(*let->value);
      continue;
    }
    const auto* store = s->as<kernel::Store>();
    if (!store) return; // its order is not looked into
    reads(*store->value);
    const kernel::Buffer& buffer = kernel_.buffers[store->buffer];
    Target& target = targets[store->buffer];
    const auto step = coefficient_of(store->offset, loop.variable);
    target.suits &= buffer.space != Space::registers && bits(buffer.dtype) == 32 && step &&
                    step->is_constant() && step->value() >= 2;
    if (!target.suits) continue;
    const Expr rest = resolve(store->offset - loop.variable * *step);
    const int64_t constant = affine_terms(rest).constant;
    const Expr first = rest - constant;
    if (target.places.empty()) target.step = step->value(), target.first = first;
    target.suits = target.step == step->value() && target.first == first && !depends_on(first, loop.variable);
    target.places.push_back({constant, store});
  }
  for (auto& [buffer, target] : targets) {
    if (!target.suits || read.contains(buffer)) continue;
    std::ranges::sort(target.places, {}, &Place::at);
    std::vector<int64_t> all; // elements that are written
    for (const Place& p : target.places)
      for (int64_t l = 0; l < lanes_; l++) all.push_back(p.at + l * target.step);
    std::ranges::sort(all);
    if (std::ranges::adjacent_find(all) != all.end()) continue; // in the order of the stores
    for (size_t begin = 0, end; begin < target.places.size(); begin = end) {
      end = begin + 1;
      while (end < target.places.size() && target.places[end].at == target.places[end - 1].at + 1) end++;
      const auto count = int64_t(end - begin);
      if (count < 2 || count > target.step || (count % 2 && count > 8)) continue;
      for (size_t i = begin; i < end; i++) row_of_[target.places[i].store] = {rows_.size(), i - begin};
      rows_.push_back({{}, std::vector<Value*>(size_t(count)), *live});
    }
  }
}

/// The last one writes all of them.
void Emitter::store_in_row(const kernel::Store& s, const Access& to, Value* value) {
  const auto [row, place] = row_of_.at(&s);
  TransposedStore& t = rows_[row];
  LUMINAL_CHECK(to.kind == Access::Kind::pattern, "lanes of a row of stores in unequal steps");
  if (place == 0) t.to = to;
  t.steps[place] = value;
  if (std::ranges::find(t.steps, nullptr) == t.steps.end()) write_transposed(t);
}

} // namespace luminal::codegen
