// golden/schedule_fuzz.h -- directives and changes of schedules at random, legal or not. Include as
// "golden/schedule_fuzz.h".
#pragma once
#include "cone/formula.h"
#include "golden/golden_support.h"
#include "schedule/nest.h"

namespace luminal::kernel {

/// What stands behind the last `from`: directives of one version.
inline Schedule last_version(const Schedule& schedule) {
  Schedule last;
  for (const Directive& d : schedule.directives)
    if (d.kind == DirectiveKind::from)
      last.directives.clear();
    else
      last.directives.push_back(d);
  return last;
}

class ScheduleFuzz {
public:
  /// units: names of dot instructions that may be proposed.
  ScheduleFuzz(const Cone& cone, uint64_t seed, std::vector<std::string> units = {})
      : cone_(cone), random_(seed), units_(std::move(units)) {}

  int64_t pick(int64_t n) { return n <= 0 ? 0 : int64_t(random_() % uint64_t(n)); }
  template <class T> const T& any(const std::vector<T>& list) {
    return list[size_t(pick(int64_t(list.size())))];
  }

  /// A directive that may or may not be legal, about what there is after `schedule` (which can be
  /// applied).
  Directive propose(const Schedule& schedule) {
    Nests nests = apply(cone_, last_version(schedule));
    auto& stages = nests.cone.stages;
    const StageId s(pick(int64_t(stages.size())));
    std::string stage = stages[s].name;
    auto& loops = nests.stages[s].loops;
    std::string loop = loops.empty() ? "none" : any(loops).name;
    std::string value = any(nests.cone.values).name;
    std::string axis = nests.cone.axes.empty() ? "none" : any(nests.cone.axes).name;
    std::string who = pick(3) ? stage : "*";
    const std::string fresh = fresh_name();
    if (std::ranges::any_of(stages, [](const Stage& in) { return in.monoid.has_value(); }) && pick(16) == 0) {
      if (pick(2)) return {DirectiveKind::block_mask, {stage, fresh, axis}, {1 + pick(4)}};
      return {DirectiveKind::block_mask,
              {stage, fresh, axis, any(nests.cone.axes).name},
              {2 + 2 * pick(2), 2 + 2 * pick(2)}};
    }
    switch (pick(29)) {
    case 0:
    case 1:
    case 2:
      return {DirectiveKind::split,
              {who, loop, fresh + "o", fresh + "i"},
              {any(std::vector<int64_t>{1, 2, 3, 4, 5, 8, 16, 100})}};
    case 3:
    case 4: {
      std::vector<std::string> words{stage};
      for (auto& l : loops) words.push_back(l.name);
      std::shuffle(words.begin() + 1, words.end(), random_);
      return {DirectiveKind::order, words, {}};
    }
    case 5: return {DirectiveKind::vector, {stage, loop}, {}};
    case 6: return {DirectiveKind::unroll, {stage, loop}, {}};
    case 7: return {DirectiveKind::parallel, {who, loop}, {}};
    case 8: return {DirectiveKind::jam, {stage, loop}, {1 + pick(5)}};
    case 9:
    case 10: return {DirectiveKind::at, {stage, pick(4) ? loop : "root"}, {}};
    case 11: return {DirectiveKind::fuse, {any(stages).name, stage}, {}};
    case 12: return {DirectiveKind::stage, {value, fresh}, {}};
    case 13: return {DirectiveKind::padded_copy, {value, fresh}, {}};
    case 14: return {DirectiveKind::cascade, {stage, pick(2) ? loop : "root"}, {}};
    case 15:
      return {DirectiveKind::split_reduction,
              {stage, loop, pick(3) ? "serial" : "pairs"},
              pick(2) ? std::vector<int64_t>{2 + pick(3)} : std::vector<int64_t>{2, 8}};
    case 16: {
      if (loops.size() < 2) return {DirectiveKind::predicate_bound, {stage, loop}, {}};
      size_t l = size_t(pick(int64_t(loops.size()) - 1));
      return {DirectiveKind::merge, {stage, loops[l].name, loops[l + 1].name, fresh}, {}};
    }
    case 17: return {DirectiveKind::predicate_split, {loop}, {}};
    case 18: return {DirectiveKind::predicate_bound, {stage, loop}, {}};
    case 19: return {DirectiveKind::store, {value, loop}, {}};
    case 20:
      if (pick(3) == 0) return {DirectiveKind::rolling, {stage}, {}};
      if (pick(2)) return {DirectiveKind::stream, {value}, {}};
      return {DirectiveKind::prefetch, {stage, value, loop, loops.empty() ? loop : any(loops).name}, {1}};
    case 21:
      if (pick(3) == 0) return {DirectiveKind::before, {stage, any(stages).name}, {}};
      return {DirectiveKind::operand, {stage, axis, fresh}, {}};
    case 22: return {DirectiveKind::from, {axis}, {pick(40)}};
    case 23:
      if (pick(2)) return {DirectiveKind::serial, {}, {pick(2000)}};
      return {DirectiveKind::serial, {}, {pick(2000), pick(5)}};
    case 24: {
      if (units_.empty()) return {DirectiveKind::segments, {stage, axis}, {}};
      std::vector<std::string> words{stage, any(units_)};
      for (int64_t copies = pick(3); copies-- > 0;) words.push_back(fresh_name());
      return {DirectiveKind::unit, words, {}};
    }
    case 27: return {DirectiveKind::blocked_sum, {who, loop}, {any(std::vector<int64_t>{1, 2, 3, 5, 8})}};
    case 25: return {DirectiveKind::roles, {stage, loop}, {1 + pick(3)}};
    case 26: {
      std::vector<std::string> nodes{"none"};
      for (const Stage& in : stages)
        visit_stage(in, [&](const Formula& f) {
          if (!f.origin.empty()) nodes.push_back(f.origin);
        });
      return {DirectiveKind::materialize, {any(nodes), fresh}, {}};
    }
    default:
      if (pick(3) == 0) return {DirectiveKind::segments, {stage, axis}, {}};
      if (pick(2)) return {DirectiveKind::split_at, {stage, axis}, {1 + pick(40)}};
      return {DirectiveKind::inline_, {value}, {}};
    }
  }

  /// The schedule with one thing changed: a directive more or less, another number, another name,
  /// another order, one version more.
  Schedule change(const Schedule& schedule) {
    Schedule out = schedule;
    auto& list = out.directives;
    const auto place = [&] { return list.begin() + pick(int64_t(list.size())); };
    if (list.empty() || pick(2)) {
      // At the end of a version most of the time; before something that needs the loops as they
      // were, else.
      const auto at = pick(3) ? list.end() : list.begin() + pick(int64_t(list.size()) + 1);
      try {
        list.insert(at, propose({{list.begin(), at}}));
      } catch (const ScheduleFailure&) { // a version that never runs may hold anything
      } catch (const Error&) {
      }
      return out;
    }
    switch (pick(6)) {
    case 0:
    case 1: list.erase(place()); return out;
    case 2: {
      Directive& d = *place();
      if (d.numbers.empty()) return out;
      d.numbers[size_t(pick(int64_t(d.numbers.size())))] =
          any(std::vector<int64_t>{-1, 0, 1, 2, 3, 4, 6, 7, 8, 16, 17, 32, 33, 64, 129, int64_t{1} << 40});
      return out;
    }
    case 3: {
      const auto at = place();
      if (at + 1 != list.end()) std::iter_swap(at, at + 1);
      return out;
    }
    case 4: {
      Directive& d = *place();
      const Directive& other = *place();
      if (!d.words.empty() && !other.words.empty())
        d.words[size_t(pick(int64_t(d.words.size())))] = any(other.words);
      return out;
    }
    default: { // the last version once more, or what it is without directives
      const Schedule last = last_version(schedule);
      if (cone_.axes.empty()) return out;
      list.push_back({DirectiveKind::from, {any(cone_.axes).name}, {2 + pick(100)}});
      if (pick(2)) list.insert(list.end(), last.directives.begin(), last.directives.end());
      return out;
    }
    }
  }

private:
  std::string fresh_name() { return "x" + std::to_string(++number_); }

  const Cone& cone_;
  std::mt19937_64 random_;
  std::vector<std::string> units_;
  int number_ = 0;
};

/// Bodies that would be written out in the longest nest of the last version, loops of a constant
/// extent alone.
inline int64_t written_out(const Cone& cone, const Schedule& schedule) {
  int64_t most = 1;
  for (auto& nest : apply(cone, last_version(schedule)).stages) {
    int64_t copies = 1;
    for (auto& l : nest.loops) {
      if (l.kind == LoopKind::unrolled && l.extent.is_constant()) copies *= l.extent.value();
      copies *= l.jam;
      copies = std::min<int64_t>(copies, 1 << 20);
    }
    most = std::max(most, copies);
  }
  return most;
}

} // namespace luminal::kernel
