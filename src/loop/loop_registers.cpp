// loop/loop_registers.cpp -- how many vector registers a kernel needs, and roles as a plain loop.
#include "loop/loop.h"
#include <algorithm>
#include <map>
#include <set>

namespace luminal::kernel {
namespace {

enum Kind { kept, loaded, broadcast, let_vector };

/// A hardware vector that is held: one of a register buffer, a loaded one, or a let.
struct VectorKey {
  Kind kind;
  int id;
  Expr offset;
  int part; // of a vector wider than a register
  bool operator<(const VectorKey& o) const {
    if (kind != o.kind) return kind < o.kind;
    if (id != o.id) return id < o.id;
    if (part != o.part) return part < o.part;
    return ExprLess{}(offset, o.offset);
  }
};

/// A run is what stands between loops, unrolled ones written out. Vectors of register buffers live
/// from the first to the last run that touches them.
class PressureCounter {
public:
  PressureCounter(const Kernel& kernel, int vector_lanes) : k_(kernel), vector_lanes_(vector_lanes) {}

  RegisterPressure run() {
    body(k_.body, {});
    flush();
    std::map<VectorKey, std::pair<size_t, size_t>> registers; // register vectors: first and last run
    for (size_t r = 0; r < runs_.size(); ++r)
      for (const Use& use : runs_[r].uses)
        for (const VectorKey& key : use.vectors)
          if (key.kind == kept) registers.try_emplace(key, r, r).first->second.second = r;
    std::vector<int> change(runs_.size() + 1);
    for (const auto& [key, life] : registers) {
      ++change[life.first];
      --change[life.second + 1];
    }
    int accumulators = 0;
    for (size_t r = 0; r < runs_.size(); ++r) count(runs_[r], accumulators += change[r]);
    return best_;
  }

private:
  struct Use {
    std::vector<VectorKey> vectors;
    int scratch = 0;
    std::map<const Value*, int> needs; // of shared parts
    const Stmt* stmt = nullptr;
  };

  struct Run {
    std::vector<Use> uses;
    std::vector<std::pair<size_t, BufferId>> stored; // position in the run, buffer in memory
  };

  int parts(int64_t lanes) const { return int((lanes + vector_lanes_ - 1) / vector_lanes_); }

  void body(const Body& statements, const ExprMap<Expr>& at) {
    for (const StmtRef& s : statements) statement(*s, at);
  }

  static Expr at_constants(Expr e, const ExprMap<Expr>& at) {
    if (at.empty()) return e;
    try {
      return substitute(e, at);
    } catch (const Error&) {
      return e;
    }
  }

  void statement(const Stmt& stmt, const ExprMap<Expr>& at) {
    if (const auto* s = stmt.as<Loop>()) return loop(*s, at);
    if (const auto* s = stmt.as<If>()) {
      const Expr condition = at_constants(s->condition, at);
      if (condition.is_constant()) return body(condition.value() ? s->then : s->otherwise, at);
    }
    for (const Body* inside : bodies_of(stmt)) body(*inside, at);
    if (value_of(stmt)) return value(stmt, at);
    if (const auto* s = stmt.as<UnitCall>()) unit(stmt, *s, at);
    if (const auto* s = stmt.as<AsyncUnit>()) unit(stmt, s->call, at);
  }

  /// A store or a let.
  void value(const Stmt& stmt, const ExprMap<Expr>& at) {
    Use use;
    use.stmt = &stmt;
    // The last op of an accumulation works in place.
    use.scratch = needs(*value_of(stmt), at, use, accumulates(stmt)) * parts(lanes_);
    if (const auto* s = stmt.as<Store>()) {
      const bool in_registers = k_.buffers[s->buffer].space == Space::registers;
      if (in_registers && vector_) touch(kept, s->buffer.number(), s->offset, at, use);
      if (!in_registers) run_.stored.emplace_back(run_.uses.size(), s->buffer);
    }
    if (const auto* s = stmt.as<LetValue>(); s && vector_) touch(let_vector, s->let.number(), 0, {}, use);
    if (use.vectors.empty() && use.scratch == 0) return;
    run_.uses.push_back(std::move(use));
  }

  void unit(const Stmt& stmt, const UnitCall& call, const ExprMap<Expr>& at) {
    Use use;
    use.stmt = &stmt;
    use.scratch = 2;
    for (const UnitOperand& o : call.operands)
      if (k_.buffers[o.buffer].space == Space::registers)
        use.vectors.push_back({kept, o.buffer.number(), at_constants(o.offset, at), 0});
    run_.uses.push_back(std::move(use));
  }

  void loop(const Loop& s, const ExprMap<Expr>& at) {
    const Expr begin = at_constants(s.begin, at), end = at_constants(s.end, at);
    if (s.kind == LoopKind::unrolled && begin.is_constant() && end.is_constant() &&
        end.value() - begin.value() <= 4096) {
      for (int64_t v = begin.value(); v < end.value(); ++v) {
        ExprMap<Expr> inner = at;
        inner[s.variable] = Expr(v);
        body(s.body, inner);
      }
      return;
    }
    if (s.kind == LoopKind::vector) {
      vector_ = &s;
      const Expr extent = end - begin;
      lanes_ = extent.is_constant() ? extent.value() : vector_lanes_;
      body(s.body, at);
      vector_ = nullptr;
      lanes_ = 1;
      return;
    }
    // A loop is a run of its own; what register buffers hold lives across it.
    flush();
    body(s.body, at);
    flush();
  }

  /// Registers for intermediate results of a value (Sethi and Ullman), loads noted as used.
  int needs(const Value& v, const ExprMap<Expr>& at, Use& use, bool in_place = false) {
    if (!vector_) return 0;
    if (v.is<Constant>() || v.is<Index>()) return 0;
    if (const auto* named = v.as<Let>()) {
      touch(let_vector, named->number.number(), 0, {}, use);
      return 0;
    }
    if (const auto* load = v.as<Load>()) {
      touch(k_.buffers[load->buffer].space == Space::registers ? kept : loaded, load->buffer.number(),
            load->offset, at, use);
      return 0;
    }
    if (const auto known = use.needs.find(&v); known != use.needs.end()) return known->second;
    std::vector<int> below;
    for (const ValueRef& arg : args_of(v)) below.push_back(needs(*arg, at, use));
    std::sort(below.rbegin(), below.rend());
    int most = in_place ? 0 : 1;
    for (size_t i = 0; i < below.size(); ++i)
      if (below[i] > 0) most = std::max(most, below[i] + int(i));
    return use.needs[&v] = most;
  }

  void touch(Kind kind, int id, Expr offset, const ExprMap<Expr>& at, Use& use) {
    offset = at_constants(offset, at);
    const bool wide = kind == let_vector || (vector_ && depends_on(offset, vector_->variable));
    // The same vector by whatever name its lanes go. A broadcast of a scalar takes a register of
    // its own.
    if (wide && vector_) offset = at_constants(offset, {{vector_->variable, vector_->begin}});
    if (!wide && kind == loaded) kind = broadcast;
    for (int part = 0; part < (wide ? parts(lanes_) : 1); ++part)
      use.vectors.push_back({kind, id, offset, part});
  }

  static bool accumulates(const Stmt& stmt) {
    const auto* s = stmt.as<Store>();
    if (!s || !(s->value->is<Apply>() || s->value->is<ApplyUser>())) return false;
    return std::ranges::any_of(args_of(*s->value), [&](const ValueRef& arg) {
      const auto* load = arg->as<Load>();
      return load && load->buffer == s->buffer && load->offset == s->offset;
    });
  }

  void flush() {
    if (!run_.uses.empty()) runs_.push_back(std::move(run_));
    run_ = {};
  }

  /// Loaded vectors and lets live from first to last use; a store to memory ends the life of what
  /// was loaded from that buffer.
  void count(const Run& run, int accumulators) {
    std::map<std::pair<VectorKey, int>, std::pair<size_t, size_t>> lives;
    std::map<BufferId, int> version;
    size_t next_store = 0;
    for (size_t i = 0; i < run.uses.size(); ++i) {
      for (const VectorKey& key : run.uses[i].vectors)
        if (key.kind != kept)
          lives
              .try_emplace({key, key.kind == loaded || key.kind == broadcast ? version[BufferId(key.id)] : 0},
                           i, i)
              .first->second.second = i;
      for (; next_store < run.stored.size() && run.stored[next_store].first <= i; ++next_store)
        ++version[run.stored[next_store].second];
    }
    std::vector<int> change(run.uses.size() + 1);
    for (const auto& [key, life] : lives) {
      ++change[life.first];
      --change[life.second + 1];
    }
    int temporaries = 0;
    for (size_t i = 0; i < run.uses.size(); ++i) {
      temporaries += change[i];
      const int total = accumulators + temporaries + run.uses[i].scratch;
      if (total <= best_.total) continue;
      best_ = {accumulators, temporaries + run.uses[i].scratch, total,
               kernel::to_string(k_, *run.uses[i].stmt)};
    }
  }

  const Kernel& k_;
  int vector_lanes_;
  RegisterPressure best_;
  const Loop* vector_ = nullptr;
  int64_t lanes_ = 1;
  Run run_;
  std::vector<Run> runs_;
};

Body without_roles(const Body& statements) {
  Body out;
  for (const StmtRef& s : statements) {
    const auto* roles = s->as<Roles>();
    if (!roles) {
      out.push_back(bodies_of(*s).empty() ? s : with_bodies(*s, without_roles));
      continue;
    }
    Body steps = without_roles(roles->producers), consumers = without_roles(roles->consumers);
    steps.push_back(barrier(1));
    steps.insert(steps.end(), consumers.begin(), consumers.end());
    steps.push_back(barrier(1));
    out.push_back(
        kernel::loop(LoopKind::serial, roles->variable, roles->begin, roles->end, std::move(steps)));
  }
  return out;
}

} // namespace

RegisterPressure register_pressure(const Kernel& kernel, int vector_lanes) {
  return PressureCounter(kernel, std::max(1, vector_lanes)).run();
}

Kernel expand_roles(const Kernel& kernel) {
  Kernel out = kernel;
  out.body = without_roles(kernel.body);
  return out;
}

} // namespace luminal::kernel
