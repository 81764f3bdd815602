// choose/default_kernel.cpp -- versions for few and many rows, and what is done where a schedule cannot
// be lowered.
#include "base/log.h"
#include "base/settings.h"
#include "choose/default_scheduler.h"
#include "choose/flat_schedule.h"
#include "choose/group_schedule.h"
#include "schedule/lower.h"
#include <algorithm>

namespace luminal::kernel {

namespace {

using ForRows = DefaultScheduler::ForRows;

/// What a chooser of its own finds for few or many rows of an axis; nothing where it cannot.
template <class Choose>
std::optional<ForRows> chosen(const Cone& cone, const MachineLimits& limits, const Choose& choose) {
  try {
    Decisions own;
    DefaultScheduler chooser(cone, limits, own);
    return choose(chooser);
  } catch (const ScheduleFailure&) {
    return {};
  }
}

bool at_least(const Cone& cone, const std::string& axis, int64_t rows) {
  return prove(le(rows, std::ranges::find(cone.axes, axis, &ConeAxis::name)->extent)) == Truth::yes;
}

/// Versions of a schedule for few and for many rows of an axis.
class Versions {
public:
  Versions(const Cone& cone, const MachineLimits& limits, Decisions& decisions, Schedule schedule)
      : cone_(cone), limits_(limits), decisions_(decisions), schedule_(std::move(schedule)) {}

  /// With `checked`, each version is kept only where the schedule can be lowered with it. Without, the
  /// caller finds out for all of them at once.
  Schedule find(bool checked) {
    checked_ = checked;
    for_one_row();
    for_many_rows();
    for_few_lanes();
    for_rows_on_tiles();
    return std::move(schedule_);
  }

private:
  const Cone& cone_;
  const MachineLimits& limits_;
  Decisions& decisions_;
  Schedule schedule_;
  bool checked_ = false;

  void keep(Schedule schedule) {
    if (!checked_ || lower(cone_, schedule, {.lanes = limits_.lanes})) schedule_ = std::move(schedule);
  }
  /// `few` below so many rows of the axis, `many` from there on.
  void join(Schedule few, const std::string& axis, int64_t from, const Schedule& many) {
    few.add(DirectiveKind::from, {axis}, {from});
    few.directives.insert(few.directives.end(), many.directives.begin(), many.directives.end());
    keep(std::move(few));
  }
  /// One row uses each weight once: another order of reading them than that of a few rows.
  void for_one_row() {
    if (std::ranges::all_of(cone_.axes, [](auto& a) { return a.extent.is_constant(); })) return;
    auto one = chosen(cone_, limits_, [](DefaultScheduler& chooser) { return chooser.one_row(); });
    if (one && std::ranges::find(cone_.axes, one->axis, &ConeAxis::name) != cone_.axes.end() &&
        !at_least(cone_, one->axis, 2) && decisions_.ask_whether("one_row", true))
      join(std::move(one->schedule), one->axis, 2, schedule_);
  }
  /// Where many rows meet weights that lie along the sum, panels of those are worth their making; few
  /// rows read the weights as they lie.
  void for_many_rows() {
    constexpr int64_t fewest = 32;
    auto many = chosen(cone_, limits_, [](DefaultScheduler& chooser) { return chooser.many_rows(fewest); });
    if (!many || !decisions_.ask_whether("many_rows", true)) return;
    if (at_least(cone_, many->axis, fewest))
      keep(std::move(many->schedule));
    else
      join(schedule_, many->axis, fewest, many->schedule);
  }
  /// Tile registers take as many rows as there are, once those pay for copies of the other operand.
  void for_rows_on_tiles() {
    auto many = chosen(cone_, limits_, [](DefaultScheduler& chooser) { return chooser.rows_on_tiles(); });
    if (!many || !decisions_.ask_whether("rows_on_tiles", true)) return;
    if (many->axis.empty() || at_least(cone_, many->axis, many->fewest))
      keep(std::move(many->schedule));
    else
      join(schedule_, many->axis, many->fewest, many->schedule);
  }
  /// Tiles with most of their lanes empty are slower than rows one by one.
  void for_few_lanes() {
    const int64_t most = limits_.lanes / 2;
    auto few = chosen(cone_, limits_, [&](DefaultScheduler& chooser) { return chooser.few_lanes(most); });
    if (few && !at_least(cone_, few->axis, most) && decisions_.ask_whether("few_lanes", true))
      join(std::move(few->schedule), few->axis, most, schedule_);
  }
};

/// Why a simpler schedule is tried.
void explain(const Cone& cone, const std::string& failure) {
  if (debug_level() >= 2) log_debug("{}: a simpler schedule is tried: {}", cone.name, failure);
}

/// What is chosen stage by stage may not fit together: then a simpler choice does. The first from
/// `fallback` on that can be chosen.
std::optional<ProposedSchedule> proposed(const Cone& cone, const MachineLimits& limits,
                                         const Answers& answers, Fallback fallback) {
  // An axis without elements leaves no trace in merged and split indices, and nothing to be fast at.
  const bool nothing = std::ranges::any_of(cone.axes, [](auto& axis) { return axis.extent.is_constant(0); });
  for (const Fallback next : {Fallback::full, Fallback::separate, Fallback::bare}) {
    if (next < fallback || (nothing && next != Fallback::bare)) continue;
    Decisions decisions(answers);
    if (next == Fallback::full && cone.stages.size() > 1 && decisions.ask_whether("separate", false))
      continue;
    try {
      const Schedule one_version = DefaultScheduler(cone, limits, decisions).run(next);
      Schedule schedule = one_version;
      if (next == Fallback::full)
        schedule = Versions(cone, limits, decisions, one_version).find(/*checked=*/false);
      return ProposedSchedule{next, std::move(schedule), one_version, std::move(decisions)};
    } catch (const ScheduleFailure& failure) {
      explain(cone, failure.text);
    }
  }
  return {};
}

} // namespace

std::optional<ProposedSchedule> propose_schedule(const Cone& cone, const MachineLimits& limits,
                                                 const Answers& answers) {
  return wants_flat(limits) ? std::nullopt : proposed(cone, limits, answers, Fallback::full);
}

DefaultKernel default_kernel(const Cone& cone, const MachineLimits& limits, const Answers& answers) {
  return default_kernel(cone, limits, answers, propose_schedule(cone, limits, answers));
}

DefaultKernel default_kernel(const Cone& cone, const MachineLimits& limits, const Answers& answers,
                             std::optional<ProposedSchedule> first) {
  if (wants_flat(limits)) {
    if (limits.gpu)
      if (auto made = group_kernel(cone, *limits.gpu)) return std::move(*made);
    return flat_kernel(cone);
  }
  std::optional<ProposedSchedule> next = std::move(first);
  while (next) {
    auto& [fallback, schedule, one_version, decisions] = *next;
    auto kernel = lower(cone, schedule, {.lanes = limits.lanes});
    if (!kernel && schedule != one_version) {
      schedule = Versions(cone, limits, decisions, one_version).find(/*checked=*/true);
      kernel = lower(cone, schedule, {.lanes = limits.lanes});
    }
    // Unusual answers may lead to remainders of which the ranges alone do not tell that they are
    // inside.
    const bool sound = kernel && (answers.empty() || verify(*kernel).empty());
    if (fallback == Fallback::bare || sound)
      return {std::move(schedule), std::move(kernel), decisions.made()};
    explain(cone, kernel ? "its loops are not sound" : kernel.error());
    if (DefaultScheduler::takes_tiles(schedule))
      return default_kernel(cone, DefaultScheduler::without_tiles(limits), answers);
    next = proposed(cone, limits, answers, Fallback(int(fallback) + 1));
  }
  return {{}, lower(cone, {}, {.lanes = limits.lanes})};
}

Schedule default_schedule(const Cone& cone, const MachineLimits& limits) {
  return default_kernel(cone, limits).schedule;
}

} // namespace luminal::kernel
