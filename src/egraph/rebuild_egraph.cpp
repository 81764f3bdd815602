// egraph/rebuild_egraph.cpp -- congruence closure: rows that mention displaced ids are replaced by
// rows of leaders, to a fixpoint.
#include "base/check.h"
#include "egraph/state.h"

namespace luminal::egraph {

namespace {

/// One round for one table: finds the rows to replace and replaces them.
class TableRebuild {
public:
  TableRebuild(State& state, OpId op, std::span<const ClassId> displaced, uint64_t signature)
      : state_(state), op_(op), displaced_(displaced), signature_(signature),
        key_(state.tables[op].stride()) {}

  void run() {
    Table& table = state_.tables[op_];
    if (table.live() == 0) return;
    bool eq = false, container = false;
    for (const uint8_t flag : table.eq_cols()) eq |= flag != 0;
    for (const uint8_t flag : table.container_cols()) container |= flag != 0;
    if (!eq && !container) return;
    collect(container);
    // Merges other than unions depend on which row came first: all displaced rows leave before the
    // first comes back.
    const MergeKind merge = state_.ops[op_].merge;
    if (merge == MergeKind::unite || state_.sorts[state_.ops[op_].out].kind == SortKind::unit)
      replace_one_by_one();
    else
      replace_together();
  }

private:
  void collect(bool container) {
    Table& table = state_.tables[op_];
    const std::vector<uint8_t>& eq_cols = table.eq_cols();
    RowId scan_from = 0;
    if (!container) {
      bool involved = false;
      if ((eq_cols[table.keys()] != 0) && (signature_ & Classes::down_bit(op_)) != 0) involved = true;
      for (uint32_t col = 0; col < table.keys() && !involved; ++col)
        involved = eq_cols[col] != 0 && (signature_ & Classes::up_bit(op_, col)) != 0;
      if (!involved) {
        scan_from = table.recorded;
      } else if (table.recorded > 512 && displaced_.size() * 8 < table.recorded) {
        for (uint32_t col = 0; col < table.stride(); ++col)
          if (eq_cols[col] != 0) table.index(col).wanted = true;
        table.extend_indexes();
        for (const ClassId id : displaced_) follow(id);
        std::sort(dirty_.begin(), dirty_.end());
        dirty_.truncate(static_cast<size_t>(std::unique(dirty_.begin(), dirty_.end()) - dirty_.begin()));
        return;
      }
    }
    const uint32_t stride = table.stride(), keys = table.keys();
    uint32_t cols[256];
    uint32_t count = 0;
    std::vector<uint32_t> many;
    for (uint32_t col = 0; col < stride; ++col)
      if (eq_cols[col] != 0) {
        if (count < 256)
          cols[count++] = col;
        else
          many.push_back(col);
      }
    const uint64_t* bits = state_.displaced_bits.data();
    const Value* cells = table.row(scan_from);
    for (RowId row = scan_from; row < table.rows(); ++row, cells += stride) {
      if (cells[keys] == absent) continue;
      uint64_t hit = 0;
      for (uint32_t i = 0; i < count; ++i) hit |= bits[cells[cols[i]] / 64] >> (cells[cols[i]] % 64) & 1;
      for (const uint32_t col : many) hit |= bits[cells[col] / 64] >> (cells[col] % 64) & 1;
      if (hit == 0 && container) hit = container_moves(cells) ? 1 : 0;
      if (hit != 0) dirty_.push_back(row);
    }
  }

  void follow(ClassId id) {
    Table& table = state_.tables[op_];
    for (uint32_t col = 0; col < table.stride(); ++col) {
      if (table.eq_cols()[col] == 0) continue;
      const Index& index = table.index(col);
      for (RowId row = index.head(id); row != absent; row = index.next(row))
        if (!table.is_dead(row)) dirty_.push_back(row);
    }
  }

  bool container_moves(const Value* cells) {
    const Table& table = state_.tables[op_];
    for (uint32_t col = 0; col < table.stride(); ++col)
      if (table.container_cols()[col] != 0 && canonical(col, cells[col]) != cells[col]) return true;
    return false;
  }
  Value canonical(uint32_t col, Value value) {
    const OpSpec& spec = state_.ops[op_];
    return state_.canonical(col < spec.args.size() ? spec.args[col] : spec.out, value);
  }
  /// key_ := the row's cells with leaders; true where an argument changed.
  bool canonical_row(RowId row) {
    const Table& table = state_.tables[op_];
    const Value* cells = table.row(row);
    bool changed = false;
    for (uint32_t col = 0; col < table.stride(); ++col) {
      Value value = cells[col];
      if (table.eq_cols()[col] != 0)
        value = state_.classes.find(value);
      else if (table.container_cols()[col] != 0)
        value = canonical(col, value);
      changed |= col < table.keys() && value != cells[col];
      key_[col] = value;
    }
    return changed;
  }

  void replace_one_by_one() {
    Table& table = state_.tables[op_];
    const uint32_t keys = table.keys();
    for (const RowId row : dirty_) {
      if (table.is_dead(row)) continue;
      const bool subsumed = table.is_subsumed(row);
      const RuleId creator = table.creator(row);
      canonical_row(row);
      const Value out = key_[keys];
      state_.kill(op_, row);
      const uint32_t hash = table.hash(key_.data());
      const RowId found = table.find(key_.data(), hash);
      RowId stays = found;
      if (found == absent)
        stays = state_.append(op_, key_.data(), out, hash, creator);
      else if (state_.ops[op_].merge == MergeKind::unite)
        state_.unite(out, table.out(found), {UnionCause::Kind::congruence, op_, row, found});
      if (subsumed) table.mark_subsumed(stays);
    }
  }

  void replace_together() {
    const Table& table = state_.tables[op_];
    const uint32_t stride = table.stride();
    Buffer<Value> rows;
    std::vector<std::pair<RuleId, bool>> kept;
    for (const RowId row : dirty_) {
      canonical_row(row);
      rows.append({key_.data(), stride});
      kept.push_back({table.creator(row), table.is_subsumed(row)});
      state_.kill(op_, row);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      const Value* cells = rows.data() + i * stride;
      state_.put(op_, cells, cells[stride - 1], kept[i].first, {UnionCause::Kind::merge, op_, absent, absent},
                 kept[i].second);
    }
  }

  State& state_;
  OpId op_;
  std::span<const ClassId> displaced_;
  uint64_t signature_;
  std::vector<Value> key_;
  Buffer<RowId> dirty_;
};

} // namespace

void State::rebuild() {
  Buffer<ClassId> round;
  while (!classes.displaced().empty()) {
    round.clear();
    std::swap(round, classes.displaced());
    if (displaced_bits.size() * 64 < classes.size()) displaced_bits.resize(classes.size() / 64 + 1, 0);
    uint64_t signature = 0;
    for (const ClassId id : round) {
      displaced_bits[id / 64] |= uint64_t{1} << (id % 64);
      signature |= classes.signature(id);
    }
    for (OpId op = 0; op < tables.size(); ++op) TableRebuild(*this, op, round.span(), signature).run();
    for (const ClassId id : round) displaced_bits[id / 64] = 0;
  }
}

void State::extend_indexes() {
  classes.prepare_records();
  for (OpId op = 0; op < tables.size(); ++op) {
    Table& table = tables[op];
    table.extend_indexes();
    if (table.recorded == table.rows()) continue;
    const uint32_t keys = table.keys();
    for (RowId row = table.recorded; row < table.rows(); ++row) {
      const Value* cells = table.row(row);
      if (cells[keys] == absent) continue;
      for (uint32_t col = 0; col < keys; ++col)
        if (table.eq_cols()[col] != 0) classes.record_up(cells[col], Classes::up_bit(op, col));
      if (table.eq_cols()[keys] != 0) classes.record_down(cells[keys], Classes::down_bit(op));
    }
    table.recorded = table.rows();
  }
}

void State::compact_where_worth() {
  Buffer<RowId> remap;
  for (OpId op = 0; op < tables.size(); ++op) {
    Table& table = tables[op];
    if (table.dead() < 1024 || table.dead() * 2 < table.rows()) continue;
    table.compact(remap);
    for (UnionRecord& record : classes.log())
      if (record.cause.kind == UnionCause::Kind::congruence && record.cause.id == op) {
        record.cause.left = record.cause.left == absent ? absent : remap[record.cause.left];
        record.cause.right = record.cause.right == absent ? absent : remap[record.cause.right];
      }
    ++generation;
  }
}

} // namespace luminal::egraph
