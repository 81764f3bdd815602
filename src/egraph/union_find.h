// egraph/union_find.h -- classes: parents, use counts and operator signatures, the list of
// displaced ids, the log of unions.
#pragma once
#include "egraph/buffer.h"
#include "egraph/types.h"

namespace luminal::egraph {

/// Why two ids were united.
struct UnionCause {
  enum class Kind : uint32_t { rule, congruence, input, merge };
  Kind kind = Kind::input;
  uint32_t id = absent;   ///< rule, or operator
  uint32_t left = absent; ///< congruence: the row that died; rule: place in the substitution arena, or absent
  uint32_t right = absent; ///< congruence: the row that stayed
};
struct UnionRecord {
  ClassId a = 0, b = 0; ///< as given, not leaders
  UnionCause cause;
};

class Classes {
public:
  /// Path halving; writes are journalled while a rollback may come.
  ClassId find(ClassId id) {
    while (parent_[id] != id) {
      const ClassId above = parent_[parent_[id]];
      if (above != parent_[id]) {
        if (journalling_) journal_.push_back({id, parent_[id]});
        parent_[id] = above;
      }
      id = above;
    }
    return id;
  }
  ClassId find_const(ClassId id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }
  bool is_leader(ClassId id) const { return parent_[id] == id; }
  size_t size() const { return parent_.size(); }
  ClassId fresh() {
    const auto id = static_cast<ClassId>(parent_.size());
    parent_.push_back(id);
    return id;
  }

  /// True where a and b were apart. The leader is the class with more uses, on a tie the smaller
  /// id.
  bool unite(ClassId a, ClassId b, const UnionCause& cause) {
    const ClassId x = find(a), y = find(b);
    if (x == y) return false;
    const uint32_t uses_x = x < uses_.size() ? uses_[x] : 0, uses_y = y < uses_.size() ? uses_[y] : 0;
    const bool x_leads = uses_x != uses_y ? uses_x > uses_y : x < y;
    const ClassId leader = x_leads ? x : y, loser = x_leads ? y : x;
    if (journalling_) journal_.push_back({loser, loser});
    parent_[loser] = leader;
    displaced_.push_back(loser);
    log_.push_back({a, b, cause});
    return true;
  }

  /// Ids that lost their lead since the last rebuild took them.
  Buffer<ClassId>& displaced() { return displaced_; }
  Buffer<UnionRecord>& log() { return log_; }
  const Buffer<UnionRecord>& log() const { return log_; }

  // What is known of the rows of a class; recorded when rows are indexed, so a superset for live
  // rows that are indexed.
  static uint64_t down_bit(OpId op) { return uint64_t{1} << (op & 31); }
  static uint64_t up_bit(OpId op, uint32_t col) { return uint64_t{1} << (32 + ((op * 5 + col * 11) & 31)); }
  uint64_t signature(ClassId id) const { return id < signature_.size() ? signature_[id] : 0; }
  void prepare_records() {
    signature_.resize(parent_.size(), 0);
    uses_.resize(parent_.size(), uint16_t{0});
  }
  void record_down(ClassId id, uint64_t bit) { signature_[id] |= bit; }
  void record_up(ClassId id, uint64_t bit) {
    signature_[id] |= bit;
    if (uses_[id] != 0xFFFF) ++uses_[id];
  }

  void clear() { ///< keeps the memory
    parent_.clear();
    uses_.clear();
    signature_.clear();
    displaced_.clear();
    log_.clear();
  }

  struct Checkpoint {
    size_t classes = 0, log = 0;
  };
  /// No unions may wait for a rebuild.
  Checkpoint begin_journal() {
    journalling_ = true;
    journal_.clear();
    return {parent_.size(), log_.size()};
  }
  void end_journal() {
    journalling_ = false;
    journal_.release();
  }
  void rollback(const Checkpoint& checkpoint) {
    for (size_t i = journal_.size(); i-- > 0;) parent_[journal_[i].id] = journal_[i].parent;
    parent_.truncate(checkpoint.classes);
    log_.truncate(checkpoint.log);
    displaced_.clear();
    end_journal();
  }

  uint64_t bytes() const {
    return parent_.bytes() + uses_.bytes() + signature_.bytes() + displaced_.bytes() + log_.bytes() +
           journal_.bytes();
  }
  void restore(Buffer<ClassId> parents) {
    *this = Classes();
    parent_ = std::move(parents);
  }
  std::span<const ClassId> parents() const { return parent_.span(); }

private:
  struct Write {
    ClassId id, parent;
  };
  Buffer<ClassId> parent_;
  Buffer<uint16_t> uses_; // stops at 65535
  Buffer<uint64_t> signature_;
  Buffer<ClassId> displaced_;
  Buffer<UnionRecord> log_;
  Buffer<Write> journal_;
  bool journalling_ = false;
};

} // namespace luminal::egraph
