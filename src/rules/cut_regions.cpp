// rules/cut_regions.cpp -- articulation points, segments, their repetition, regions.
#include "rules/cut_regions.h"
#include "egraph/types.h"
#include "ir/passes/edit.h"
#include "ir/term_hash.h"
#include <algorithm>
#include <unordered_map>

namespace luminal::rules {
namespace {

using egraph::absent;

/// Positions in the list of what is computed in a step: [begin, end).
struct Span {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

class Cutter {
public:
  Cutter(const FlatFunction& flat, const RegionLimits& limits)
      : flat_(flat), f_(flat.function), limits_(limits) {}

  Regions run() {
    find_steps();
    find_lives();
    find_segments();
    hash_segments();
    arrange({0, segments_.size()});
    Regions out;
    for (const Span& span : spans_) out.regions.push_back(region_of(span));
    find_kinds(out);
    return out;
  }

private:
  bool is_fixed_term(NodeId id) const { return flat_.fixed[id] && flat_.kinds[id] != TermKind::leaf; }

  /// What the results need and a step computes, in order; the results of a tuple follow it at once, so
  /// that no cut parts them.
  void find_steps() {
    position_.assign(f_.nodes.size(), absent);
    is_result_.assign(f_.nodes.size(), false);
    IdVector<NodeId, bool> needed(f_.nodes.size());
    for (const FunctionResult& r : f_.results) needed[r.value] = is_result_[r.value] = true;
    for (NodeId id : f_.nodes.ids_down())
      if (needed[id])
        for (const NodeId in : f_[id].inputs) needed[in] = true;
    const auto add = [&](NodeId id) {
      if (!needed[id] || flat_.fixed[id] || flat_.kinds[id] == TermKind::leaf) return;
      position_[id] = uint32_t(steps_.size());
      steps_.push_back(id);
    };
    IdVector<NodeId, std::vector<NodeId>> results(f_.nodes.size()); // of each tuple
    for (NodeId id : f_.nodes.ids())
      if (f_[id].kind == NodeKind::get) results[f_[id].inputs[0]].push_back(id);
    for (NodeId id : f_.nodes.ids()) {
      if (f_[id].kind == NodeKind::get) continue; // its tuple is above
      add(id);
      for (const NodeId result : results[id]) add(result);
    }
  }

  /// A view costs nothing where it is read, and may repeat its source along more axes: each region that
  /// reads it has it, and what goes from region to region is what it views.
  bool is_free(NodeId id) const {
    const auto* view = std::get_if<ViewAttr>(&f_[id].attr);
    return view && view->holes.empty() && !flat_.fixed[id] && flat_.kinds[id] != TermKind::leaf &&
           !is_result_[id];
  }
  NodeId viewed(NodeId id) const {
    while (is_free(id)) id = f_[id].inputs[0];
    return id;
  }

  /// How many values go on at each position.
  void find_lives() {
    last_use_.assign(steps_.size(), 0);
    last_read_.assign(steps_.size(), 0);
    for (size_t k = 0; k < steps_.size(); ++k) {
      last_use_[k] = last_read_[k] = uint32_t(k);
      for (const NodeId in : f_[steps_[k]].inputs) {
        if (position_[in] != absent) last_use_[position_[in]] = uint32_t(k);
        if (is_free(steps_[k])) continue; // those that read it do
        if (const uint32_t from = position_[viewed(in)]; from != absent) last_read_[from] = uint32_t(k);
      }
    }
    alive_.assign(steps_.size() + 1, 0);
    std::vector<int> change(steps_.size() + 2, 0);
    for (size_t k = 0; k < steps_.size(); ++k) {
      const bool tuple = f_[steps_[k]].is_tuple();
      if (last_use_[k] - k > limits_.nodes && !tuple) continue;
      const int weight = tuple ? int(steps_.size()) : 1;
      change[k + 1] += weight;
      change[last_use_[k] + 1] -= weight;
    }
    for (size_t k = 1; k <= steps_.size(); ++k) alive_[k] = alive_[k - 1] + change[k];
  }

  void find_segments() {
    size_t begin = 0;
    for (size_t k = 1; k <= steps_.size(); ++k) {
      if (k < steps_.size() && alive_[k] > 1) continue;
      split({begin, k});
      begin = k;
    }
  }
  /// A segment that is too large is cut where the fewest values go on, never between a tuple and its
  /// results.
  void split(Span span) {
    const auto parts = [&](size_t k) { return f_[steps_[k]].kind == NodeKind::get; };
    while (span.size() > limits_.nodes) {
      size_t best = span.begin + limits_.nodes;
      while (best < span.end && parts(best)) ++best;
      if (best == span.end) break;
      for (size_t k = span.begin + limits_.nodes; k > span.begin + limits_.nodes / 2; --k)
        if (!parts(k) && alive_[k] < alive_[best]) best = k;
      segments_.push_back({span.begin, best});
      span.begin = best;
    }
    segments_.push_back(span);
  }

  void hash_segments() {
    for (const Span& segment : segments_) {
      const FunctionRegion region = region_of(segment);
      hashes_.push_back(quick_hash(region));
      sizes_.push_back(sizes_.back() + segment.size());
    }
  }
  uint64_t quick_hash(const FunctionRegion& region) const {
    uint64_t h = region.nodes.size();
    const IdVector<NodeId, uint32_t>& number = numbers_of(region);
    for (const NodeId id : region.nodes) {
      Node anonymous{f_[id].kind, f_[id].attr, {}, {}, {}, {}, {}};
      h = hash_mix(h, passes::quick_hash(anonymous));
      for (const NodeId in : f_[id].inputs) h = hash_mix(h, number[in]);
    }
    for (const NodeId id : region.leaves) h = hash_mix(h, leaf_hash(id));
    for (const NodeId id : region.roots) h = hash_mix(h, number[id]);
    reset(region);
    return h;
  }
  uint64_t leaf_hash(NodeId id) const {
    const Node& node = f_[id];
    uint64_t h = hash_mix(flat_.fixed[id], uint64_t(flat_.stored[id]));
    h = hash_mix(h, uint64_t(node.type().dtype));
    for (const Expr e : node.type().shape) h = hash_mix(h, e.id());
    return h;
  }

  // ---- numbers of a region's nodes and leaves
  /// By node: its number in the region; `scratch_` is reused and cleared by reset().
  const IdVector<NodeId, uint32_t>& numbers_of(const FunctionRegion& region) const {
    scratch_.resize(f_.nodes.size(), absent);
    uint32_t next = 0;
    for (const NodeId id : region.nodes) scratch_[id] = next++;
    for (const NodeId id : region.leaves) scratch_[id] = next++;
    return scratch_;
  }
  void reset(const FunctionRegion& region) const {
    for (const NodeId id : region.nodes) scratch_[id] = absent;
    for (const NodeId id : region.leaves) scratch_[id] = absent;
  }

  FunctionRegion region_of(const Span& span) {
    FunctionRegion out;
    mark_.resize(f_.nodes.size(), 0);
    ++stamp_;
    for (size_t k = span.begin; k < span.end; ++k)
      if (!is_free(steps_[k])) add(out, steps_[k], span);
    for (size_t k = span.begin; k < span.end; ++k)
      if (is_result_[steps_[k]] || (last_read_[k] >= span.end && !is_free(steps_[k]))) {
        // What leaves of a tuple are the results that are read; a tuple itself never does.
        if (!f_[steps_[k]].is_tuple()) out.roots.push_back(steps_[k]);
      }
    return out;
  }
  void add(FunctionRegion& out, NodeId id, const Span& span) {
    if (mark_[id] == stamp_) return;
    mark_[id] = stamp_;
    const bool inside =
        is_free(id) || (position_[id] != absent ? position_[id] >= span.begin && position_[id] < span.end
                                                : is_fixed_term(id));
    if (!inside) {
      out.leaves.push_back(id);
      return;
    }
    for (const NodeId in : f_[id].inputs) add(out, in, span);
    out.nodes.push_back(id);
  }

  // ---- repetition
  struct Run {
    size_t begin = 0, period = 0, times = 0; // in segments
    size_t covered = 0;                      // steps
  };
  size_t steps_in(size_t begin, size_t end) const { return sizes_[end] - sizes_[begin]; }

  Run longest_run(const Span& range) const {
    Run best;
    // Equal hashes at a distance of `period` that follow each other are repetitions.
    for (size_t period = 1; 2 * period <= range.size(); ++period) {
      size_t equal = 0;
      for (size_t k = range.begin + period; k <= range.end; ++k) {
        if (k < range.end && hashes_[k] == hashes_[k - period]) {
          ++equal;
          continue;
        }
        const size_t begin = k - equal - period, times = (equal + period) / period;
        const size_t covered = steps_in(begin, begin + times * period);
        if (times >= 2 && covered > best.covered) best = {begin, period, times, covered};
        equal = 0;
      }
    }
    return best;
  }

  /// Regions of a range of segments.
  void arrange(const Span& range) {
    if (range.size() == 0) return;
    const Run run = longest_run(range);
    // A repetition of less than this is joined with what is around it.
    if (run.covered < 16 || run.times < 2) return join(range);
    arrange({range.begin, run.begin});
    for (size_t t = 0; t < run.times; ++t)
      join({run.begin + t * run.period, run.begin + (t + 1) * run.period});
    arrange({run.begin + run.times * run.period, range.end});
  }
  /// Neighbours are one region as long as they fit.
  void join(const Span& range) {
    for (size_t k = range.begin; k < range.end;) {
      size_t end = k + 1;
      while (end < range.end && steps_in(k, end + 1) <= limits_.nodes) ++end;
      spans_.push_back({segments_[k].begin, segments_[end - 1].end});
      k = end;
    }
  }

  // ---- equal regions
  void find_kinds(Regions& out) const {
    std::unordered_map<uint64_t, std::vector<size_t>> by_hash;
    for (size_t k = 0; k < out.regions.size(); ++k) {
      FunctionRegion& region = out.regions[k];
      region.kind = k;
      auto& same = by_hash[quick_hash(region)];
      for (const size_t other : same)
        if (equal(region, out.regions[other])) {
          region.kind = other;
          break;
        }
      if (region.kind == k) same.push_back(k);
    }
  }
  bool equal(const FunctionRegion& a, const FunctionRegion& b) const {
    if (a.nodes.size() != b.nodes.size() || a.leaves.size() != b.leaves.size() ||
        a.roots.size() != b.roots.size())
      return false;
    IdVector<NodeId, NodeId> other(f_.nodes.size()); // node of a -> node of b
    for (size_t k = 0; k < a.leaves.size(); ++k) {
      const NodeId x = a.leaves[k], y = b.leaves[k];
      if (f_[x].types != f_[y].types || flat_.fixed[x] != flat_.fixed[y] ||
          flat_.stored[x] != flat_.stored[y])
        return false;
      other[x] = y;
    }
    for (size_t k = 0; k < a.nodes.size(); ++k) other[a.nodes[k]] = b.nodes[k];
    for (size_t k = 0; k < a.nodes.size(); ++k) {
      const Node &x = f_[a.nodes[k]], &y = f_[b.nodes[k]];
      if (x.kind != y.kind || x.inputs.size() != y.inputs.size() || x.types != y.types || !(x.attr == y.attr))
        return false;
      for (size_t i = 0; i < x.inputs.size(); ++i)
        if (other[x.inputs[i]] != y.inputs[i]) return false;
    }
    for (size_t k = 0; k < a.roots.size(); ++k)
      if (other[a.roots[k]] != b.roots[k]) return false;
    return true;
  }

  const FlatFunction& flat_;
  const Function& f_;
  const RegionLimits& limits_;
  std::vector<NodeId> steps_;
  IdVector<NodeId, uint32_t> position_; // by node, in steps_
  IdVector<NodeId, bool> is_result_;    // by node
  std::vector<uint32_t> last_use_;      // by position
  std::vector<uint32_t> last_read_;     // the same through views
  std::vector<int> alive_;              // by position: values that go on from before it
  std::vector<Span> segments_;          // of positions
  std::vector<uint64_t> hashes_;        // of segments
  std::vector<size_t> sizes_{0};        // steps before each segment
  std::vector<Span> spans_;             // regions, as positions
  IdVector<NodeId, uint32_t> mark_;     // by node
  uint32_t stamp_ = 0;
  mutable IdVector<NodeId, uint32_t> scratch_;
};

} // namespace

size_t Regions::kinds() const {
  size_t n = 0;
  for (size_t k = 0; k < regions.size(); ++k) n += regions[k].kind == k;
  return n;
}

Regions cut_regions(const FlatFunction& flat, const RegionLimits& limits) {
  return Cutter(flat, limits).run();
}

Hash128 structural_hash(const FlatFunction& flat, const FunctionRegion& region) {
  const Function& f = flat.function;
  std::unordered_map<NodeId, NodeId> number;
  for (const NodeId id : region.leaves) number.emplace(id, NodeId(number.size()));
  for (const NodeId id : region.nodes) number.emplace(id, NodeId(number.size()));
  Hasher hasher;
  hasher.add(region.leaves.size());
  for (const NodeId id : region.leaves) {
    hasher.add(bool(flat.fixed[id])).add(flat.stored[id]).add(to_string(f[id].type()));
  }
  for (const NodeId id : region.nodes) {
    std::vector<NodeId> inputs;
    for (const NodeId in : f[id].inputs) inputs.push_back(number.at(in));
    hasher.add(node_hash(f[id].attr, inputs));
  }
  for (const NodeId id : region.roots) hasher.add(number.at(id).number());
  return hasher.value128();
}

} // namespace luminal::rules
