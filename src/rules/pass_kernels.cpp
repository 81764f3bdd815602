// rules/pass_kernels.cpp -- the passes of a choice, which of them share a kernel, and its traffic.
#include "base/check.h"
#include "rules/pass_cost.h"
#include <algorithm>

namespace luminal::rules {

using egraph::Genome;
using egraph::infinite_cost;
using egraph::no_row;

namespace {
/// Of their time that passes which do not need each other have to spare as one kernel: that they are one
/// launch less counts for small ones only, and schedules serve a product alone best.
constexpr double least_gain = 0.01;
} // namespace

void PassCost::arrange(const Genome& genome, std::span<const uint8_t> stored) {
  genome_ = &genome;
  stored_ = stored;
  for (uint32_t c = 0; c < state_.size(); ++c) state_[c] = genome[c] * 2 + (stored[c] != 0);
  ++round_;
  units_.clear();
  needs_.clear();
  epilogues_.clear();
  epilogues_of_.clear();
  for (const uint32_t c : p_.problem().roots()) make(c);
  find_readers();
  order_kernels();
  join_kernels();
}

/// May maps of this unit's results be computed where these are finished? Not where they have more
/// points than the results.
bool PassCost::follows(uint32_t c, uint32_t unit) const {
  const Pass& pass = *units_[unit].pass;
  if (!units_[unit].fold)
    return pass.points <= p_.elements[c] * 1.001 && p_.elements[c] <= pass.points * 1.001;
  double widest = 0;
  for (const uint32_t f : pass.folds) {
    const LoopRow& row = p_.row_of(*genome_, f);
    for (uint32_t i = 0; i < row.component_count; ++i)
      widest = std::max(
          widest, p_.volume(p_.components[p_.components_of_rows[row.first_component + i]].axes & ~row.over));
  }
  return p_.elements[c] <= widest * 1.001;
}

/// The unit whose loops make the value; no_row of what is there before.
uint32_t PassCost::make(uint32_t c) {
  if (made_mark_[c] == round_) return made_in_[c];
  const LoopRow& row = p_.row_of(*genome_, c);
  made_mark_[c] = round_;
  made_in_[c] = no_row;
  if (row.kind == LoopKind::input || row.kind == LoopKind::constant || p_.is_static[c]) return no_row;
  const uint32_t tuple = row.kind == LoopKind::get ? p_.problem().children(genome_->at(c))[0] : c;
  const LoopKind kind = p_.row_of(*genome_, tuple).kind;
  const bool fold = kind == LoopKind::fold;
  const Pass* pass = nullptr;
  Pass opaque;
  if (kind == LoopKind::opaque) {
    if (made_mark_[tuple] == round_ && tuple != c) return made_in_[c] = made_in_[tuple];
    for (const uint32_t x : p_.problem().children(genome_->at(tuple))) {
      const LoopRow& operand = p_.row_of(*genome_, x);
      if (operand.kind != LoopKind::input && operand.kind != LoopKind::constant && !p_.is_static[x])
        opaque.uses.push_back(x);
    }
    opaque.points = p_.elements[c];
    pass = find_known(alone_[tuple]);
    if (!pass) {
      start_pass();
      look(tuple);
      for (const uint32_t x : p_.problem().children(genome_->at(tuple))) look(x);
      pass = &keep(alone_[tuple], std::move(opaque));
    }
  } else if (fold) {
    if (made_mark_[tuple] == round_) return made_in_[c] = made_in_[tuple];
    pass = &fold_pass({&tuple, 1});
  } else {
    pass = &map_pass(c);
  }
  std::vector<uint32_t> needs;
  for (const uint32_t u : pass->uses)
    if (const uint32_t unit = make(u); unit != no_row) needs.push_back(unit);
  std::ranges::sort(needs);
  needs.erase(std::ranges::unique(needs).begin(), needs.end());
  if (kind != LoopKind::opaque && !fold) {
    epilogues_.emplace_back(c, pass);
    // Of results of several passes it is a unit of its own: these may become one pass (join_kernels).
    if (needs.size() == 1 && !pass->loops_again && follows(c, needs[0])) {
      const uint32_t unit = needs[0];
      epilogues_of_[unit].emplace_back(c, pass);
      return made_in_[c] = unit;
    }
  }
  const auto unit = uint32_t(units_.size());
  units_.push_back({fold || kind == LoopKind::opaque ? tuple : c, pass, fold});
  needs_.push_back(std::move(needs));
  epilogues_of_.emplace_back();
  made_in_[c] = unit;
  if (tuple != c) {
    made_mark_[tuple] = round_;
    made_in_[tuple] = unit;
  }
  return unit;
}

void PassCost::find_readers() {
  for (const uint32_t c : read_classes_) readers_[c].clear();
  read_classes_.clear();
  const auto add = [&](uint32_t c, uint32_t unit) {
    if (readers_[c].empty()) read_classes_.push_back(c);
    readers_[c].push_back(unit);
  };
  for (uint32_t u = 0; u < units_.size(); ++u) {
    for (const uint32_t c : units_[u].pass->uses) add(c, u);
    for (const auto& [made, pass] : epilogues_of_[u])
      for (const uint32_t c : pass->uses) add(c, u);
  }
  for (const uint32_t c : p_.problem().roots())
    if (made_in_[c] != no_row && readers_[c].empty()) read_classes_.push_back(c);
}

void PassCost::order_kernels() {
  const size_t n = units_.size();
  words_ = n / 64 + 1;
  before_.assign(n, std::vector<uint64_t>(words_, 0));
  kernels_.assign(n, {});
  for (uint32_t u = 0; u < n; ++u) {
    for (const uint32_t v : needs_[u]) {
      before_[u][v / 64] |= uint64_t(1) << (v % 64);
      for (size_t w = 0; w < words_; ++w) before_[u][w] |= before_[v][w];
    }
    kernels_[u].units = {u};
    if (units_[u].fold) kernels_[u].folds = {units_[u].pass};
    price(kernels_[u]);
  }
}

/// One kernel of two leaves an order where no third one comes between them.
bool PassCost::may_join(uint32_t a, uint32_t b) const {
  for (uint32_t k = 0; k < kernels_.size(); ++k)
    if (kernels_[k].alive && k != a && k != b &&
        ((reaches(a, k) && reaches(k, b)) || (reaches(b, k) && reaches(k, a))))
      return false;
  return true;
}

/// Do both walk the same rows, so that what the first one finds of a row is there when the second one
/// walks it again?
bool PassCost::shares_rows(uint32_t a, uint32_t b) const {
  LoopAxes rows = ~LoopAxes(0), wider = ~LoopAxes(0);
  double points = 0, again = 0;
  for (const uint32_t u : kernels_[a].units) {
    const Pass& pass = *units_[u].pass;
    if (!pass.plain || (units_[u].fold && rows != ~LoopAxes(0) && pass.rows != rows)) return false;
    if (units_[u].fold) rows = pass.rows;
    points = std::max(points, pass.points);
  }
  for (const uint32_t u : kernels_[b].units) {
    const Pass& pass = *units_[u].pass;
    wider &= pass.rows;
    again = std::max(again, pass.points);
  }
  return rows != ~LoopAxes(0) && rows != 0 && (rows & ~wider) == 0 && again >= points * 0.999;
}

/// Are the maps of kernel b computed where the results of kernel a are finished?
bool PassCost::ends(uint32_t a, uint32_t b) const {
  const Kernel &first = kernels_[a], &last = kernels_[b];
  if (last.units.size() != 1) return false;
  const Unit& maps = units_[last.units[0]];
  return !maps.fold && !maps.pass->loops_again && !is_opaque(last.units[0]) &&
         std::ranges::any_of(first.units, [&](uint32_t u) { return !is_opaque(u) && follows(maps.id, u); });
}

PassCost::Kernel PassCost::joined(uint32_t a, uint32_t b) {
  const Kernel &first = kernels_[a], &second = kernels_[b];
  Kernel out;
  std::ranges::merge(first.units, second.units, std::back_inserter(out.units));
  const bool apart = reaches(a, b) || reaches(b, a);
  const bool one_pass = !apart && first.folds.size() == 1 && second.folds.size() == 1 &&
                        p_.row_of(*genome_, first.folds[0]->folds[0]).over ==
                            p_.row_of(*genome_, second.folds[0]->folds[0]).over;
  if (one_pass) {
    union_key_ = first.folds[0]->folds;
    union_key_.insert(union_key_.end(), second.folds[0]->folds.begin(), second.folds[0]->folds.end());
    out.folds = {&fold_pass(std::vector<uint32_t>(union_key_))};
  } else {
    out.folds = first.folds;
    out.folds.insert(out.folds.end(), second.folds.begin(), second.folds.end());
  }
  price(out);
  return out;
}

void PassCost::join_kernels() {
  const auto one_pass = [&](uint32_t a, uint32_t b) {
    const Kernel &first = kernels_[a], &second = kernels_[b];
    return first.folds.size() == 1 && second.folds.size() == 1 && !reaches(a, b) && !reaches(b, a) &&
           p_.row_of(*genome_, first.folds[0]->folds[0]).over ==
               p_.row_of(*genome_, second.folds[0]->folds[0]).over;
  };
  for (uint32_t b = 0; b < units_.size(); ++b) {
    double best = 1e-6;
    uint32_t with = no_row;
    Kernel made;
    for (uint32_t a = 0; a < b; ++a) {
      if (!kernels_[a].alive) continue;
      const bool needed = reaches(a, b);
      if (!one_pass(a, b) && !(needed && (shares_rows(a, b) || ends(a, b)))) continue;
      if (!may_join(a, b)) continue;
      Kernel both = joined(a, b);
      const double apart = kernels_[a].time + kernels_[b].time, gain = apart - both.time;
      if (!(gain > best) || (!needed && gain < least_gain * apart)) continue;
      best = gain;
      with = a;
      made = std::move(both);
    }
    if (with == no_row) continue;
    const std::vector<uint64_t> earlier = before_[with];
    for (size_t w = 0; w < words_; ++w) before_[b][w] |= earlier[w];
    before_[b][with / 64] &= ~(uint64_t(1) << (with % 64));
    for (uint32_t k = 0; k < units_.size(); ++k) { // who needs one of them needs both, and what these need
      if (!kernels_[k].alive || k == b || k == with) continue;
      if (!reaches(with, k) && !reaches(b, k)) continue;
      before_[k][with / 64] &= ~(uint64_t(1) << (with % 64));
      before_[k][b / 64] |= uint64_t(1) << (b % 64);
      for (size_t w = 0; w < words_; ++w) before_[k][w] |= before_[b][w];
    }
    kernels_[with].alive = false;
    kernels_[b] = std::move(made);
  }
}

/// Of bytes that a kernel reads or writes, from the memory that holds them.
double PassCost::traffic(uint32_t c) const {
  const double bytes = p_.bytes[c];
  if (p_.is_weight[c] || bytes > rates_.l3_bytes / 2) return bytes * rates_.memory_byte;
  return bytes * (bytes > rates_.l2_bytes / 2 ? rates_.l3_byte : rates_.l2_byte);
}

std::vector<uint32_t> PassCost::stored_by(const Kernel& kernel) const {
  std::vector<uint32_t> out;
  const auto inside = [&](uint32_t u) { return std::ranges::binary_search(kernel.units, u); };
  for (const uint32_t c : read_classes_) {
    if (made_mark_[c] != round_ || made_in_[c] == no_row || !inside(made_in_[c])) continue;
    if (p_.is_root[c] || std::ranges::any_of(readers_[c], [&](uint32_t u) { return !inside(u); }))
      out.push_back(c);
  }
  std::ranges::sort(out);
  return out;
}

void PassCost::price(Kernel& kernel) {
  double compute = 0, moved = 0, kept = 0;
  ++cone_;
  const auto read = [&](uint32_t c, double share) {
    if (read_mark_[c] == cone_) return;
    read_mark_[c] = cone_;
    if (made_mark_[c] == round_ && made_in_[c] != no_row &&
        std::ranges::binary_search(kernel.units, made_in_[c]))
      return;
    moved += traffic(c) * share;
  };
  const auto add = [&](const Pass& pass) {
    compute += pass.compute;
    for (const uint32_t c : pass.reads) read(c, 1);
    for (const uint32_t c : pass.uses) read(c, 1);
  };
  for (const Pass* pass : kernel.folds) add(*pass);
  for (const uint32_t u : kernel.units) {
    if (!units_[u].fold) add(*units_[u].pass);
    for (const auto& [c, pass] : epilogues_of_[u]) add(*pass);
  }
  for (const uint32_t c : stored_by(kernel)) {
    moved += traffic(c);
    if (!p_.is_root[c]) kept += p_.bytes[c];
  }
  kernel.time = std::max(compute, moved) + rates_.overlap * std::min(compute, moved) + rates_.launch +
                rates_.barrier * double(kernel.units.size() - 1) + rates_.stored_byte * kept;
}

} // namespace luminal::rules
