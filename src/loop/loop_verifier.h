// loop/loop_verifier.h -- private to verify: one pass over a kernel, with what is known at each place.
#pragma once
#include "base/contains.h"
#include "loop/loop.h"
#include "loop/unit.h"
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace luminal::kernel {

class KernelVerifier {
public:
  KernelVerifier(const Kernel& kernel, bool strict) : k_(kernel), strict_(strict) {}

  std::vector<std::string> run();

private:
  // ---- reporting
  void complain(const std::string& text);
  const std::string& name(BufferId id) const { return k_.buffers[id].name; }
  bool known(BufferId id);

  // ---- the kernel's head
  void kernel();

  // ---- what is written and awaited anywhere
  void collect(const Body& statements);

  /// Register buffers that a body loads from, or writes to.
  void registers_of(const Body& statements, std::set<BufferId>& loaded, std::set<BufferId>& stored) const;

  // ---- symbols
  bool in_scope(Expr symbol) const { return contains(scope_, symbol); }
  void expression(Expr e, std::string_view what);
  bool on_lane(Expr e) const;
  bool on_lane(const Value& v) const;
  void define(Expr symbol);
  bool proved(Expr condition) const;
  bool refuted(Expr condition) const;

  /// No run comes here: one of the conditions around this place is false where the others hold.
  bool unreachable() const;

  // ---- values
  void constant(DType dtype, double x);
  void value(const ValueRef& ref);
  void let(const Value& v, const Let& let);
  void reduce_lanes(const Value& v, const ReduceLanes& r);
  static std::vector<DType> types_of(std::span<const ValueRef> args);

  /// `type`: of the result of the operation on these arguments; else `why` there is none.
  void applied(const Value& v, std::optional<DType> type, const std::string& why);
  bool takes(std::string_view name, int arity, size_t given);
  void apply(const Value& v, const Apply& a);
  void apply_user(const Value& v, const ApplyUser& a);
  void load(const Value& v, const Load& l);

  // ---- places
  /// `offset` and the `count` elements from it on are inside the buffer, as far as can be told.
  void element(BufferId id, Expr offset, int64_t count = 1);
  static Expr substituted(Expr e, Expr symbol, Expr by);
  void register_index(const Buffer& b, Expr offset, int64_t count);

  /// A value outside 0..last that the constant index takes somewhere, conditions respected as far
  /// as they are constant too.
  std::optional<int64_t> reached_outside(Expr offset, int64_t last, size_t depth) const;

  // ---- statements
  void body(const Body& statements);
  void statement(const Stmt& s);
  void prefetch(const Prefetch& s);

  /// The variable's range holds begin .. end-1; then the body, with what is known inside it.
  void enter(Expr variable, Expr begin, Expr end, const std::function<void()>& inside);
  void loop(const Loop& s);
  void store(const Store& s);
  void let_value(const LetValue& s);
  void let_index(const LetIndex& s);
  void branch(const If& s);
  void barrier(const Barrier& s);
  void meet(int level, std::string_view what);
  void fragments(const UnitCall& s, const Unit& unit);
  void exchange(const Exchange& s);
  void operand(const UnitOperand& o, const UnitOperandInfo& info, const Unit& unit, std::optional<Expr> rows,
               bool written);
  void async_unit(const AsyncUnit& s);
  void unit(const UnitCall& s);
  void token(TokenId number);
  void async_copy(const AsyncCopy& s);
  void wait(const AsyncWait& s);
  void roles(const Roles& s);

  const Kernel& k_;
  const bool strict_; // what is not proved to be inside is outside
  std::vector<std::string> mistakes_;
  std::vector<std::pair<const Stmt*, std::string_view>> path_; // statements around this place, and words
  std::vector<Expr> scope_;                                    // symbols that are defined here
  std::vector<Expr> facts_;                                    // conditions that hold here
  std::vector<const Loop*> open_loops_;                        // around this place
  std::vector<std::pair<Expr, size_t>> conditions_; // around this place, and how many loops are around them
  int open_roles_ = 0;                              // as of loops
  int64_t lanes_of_group_ = 0;                      // that loops of level 1 ask for
  int lane_conditions_ = 0;                         // conditions around this place that differ between lanes
  int never_ = 0;                                   // open loops that have no trip
  const Loop* vector_ = nullptr;                    // the vector loop around this place
  std::set<Expr, ExprLess> unrolled_, lane_symbols_;
  std::map<LetId, DType> lets_; // in scope
  std::set<LetId> lane_lets_, let_numbers_;
  std::set<BufferId> written_;
  std::set<const Value*> checked_;               // of this statement
  mutable std::map<const Value*, bool> on_lane_; // of this statement
  std::set<TokenId> produced_, awaited_;
};

} // namespace luminal::kernel
