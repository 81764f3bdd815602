// schedule/versions.cpp -- a schedule becomes a kernel: several schedules of one cone in one, where
// which of them runs is told by the sizes of a launch.
#include "schedule/versions.h"
#include "base/check.h"
#include "base/contains.h"
#include "loop/renumber.h"
#include "loop/tile_units.h"
#include "schedule/lower.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {

std::vector<Version> versions_of(const Cone& cone, const Schedule& schedule) {
  std::vector<Version> versions{{1, {}}};
  for (const Directive& d : schedule.directives) {
    if (d.kind != DirectiveKind::from) {
      versions.back().schedule.directives.push_back(d);
      continue;
    }
    const auto axis = std::ranges::find(cone.axes, d.words[0], &ConeAxis::name);
    if (axis == cone.axes.end()) refuse("`{}`: there is no axis {}", to_string(d), d.words[0]);
    versions.push_back({le(d.numbers[0], axis->extent), {}});
  }
  for (size_t v = versions.size(); v-- > 1;)
    if (prove(versions[v].condition) == Truth::yes) {
      versions.erase(versions.begin(), versions.begin() + std::ptrdiff_t(v));
      versions[0].condition = 1;
      break;
    }
  std::erase_if(versions, [](const Version& v) { return prove(v.condition) == Truth::no; });
  return versions;
}

Kernel with_version(Kernel kernel, Expr condition, Kernel next) {
  IdVector<BufferId, BufferId> buffers;
  for (const BufferId b : next.buffers.ids()) {
    Buffer& buffer = next.buffers[b];
    if (buffer.space == Space::global) { // the arguments are those of the cone
      LUMINAL_CHECK(kernel.buffers.has(b) && kernel.buffers[b].name == buffer.name,
                    "versions of {} have other arguments", kernel.name);
      kernel.buffers[b].streaming |= buffer.streaming;
      buffers.push_back(b);
      continue;
    }
    const std::string name = buffer.name;
    for (int n = 2; contains(kernel.buffers, buffer.name, &Buffer::name); n++)
      buffer.name = name + ".v" + std::to_string(n);
    buffers.push_back(add_buffer(kernel, std::move(buffer)));
  }
  Body body = renumbered(next.body, std::move(buffers), kernel.lets);
  kernel.lets += next.lets;
  kernel.notes.insert(kernel.notes.end(), next.notes.begin(), next.notes.end());
  kernel.body = {if_then(condition, std::move(body), std::move(kernel.body))};
  return kernel;
}

namespace {

/// Calls f; what is not legal in it is a failure.
template <class F> auto legal(const Cone& cone, const F& f) -> Result<decltype(f())> {
  try {
    return f();
  } catch (const ScheduleFailure& failure) {
    return Failure{fmt::format("[schedule] {}: {}", cone.name, failure.text)};
  } catch (const Error& error) {
    return Failure{fmt::format("[schedule] {}: {}", cone.name, error.what())};
  }
}

} // namespace

Result<bool> arranges(const Cone& cone, const Schedule& schedule, const LowerOptions& options) {
  return legal(cone, [&] {
    for (const Version& version : versions_of(cone, schedule))
      if (const Nests nests = apply(cone, version.schedule); !in_groups(nests))
        Lowering(nests, options).arrange();
    return true;
  });
}

Result<Kernel> lower(const Cone& cone, const Schedule& schedule, const LowerOptions& options) {
  return legal(cone, [&] {
    std::optional<Kernel> kernel;
    for (const Version& version : versions_of(cone, schedule)) {
      const Nests nests = apply(cone, version.schedule);
      Lowering masked(nests, options);
      Kernel next = in_groups(nests) ? masked.run_groups() : masked.run();
      if (auto lanes = masked.lanes_that_run(); contains(lanes, Lanes::whole))
        next = Lowering(nests, options, std::move(lanes)).run();
      for (const std::string& unit : nests.tile_units)
        if (use_tiles(next, unit) == 0) refuse("no loop takes whole tiles of {}", unit);
      kernel =
          kernel ? with_version(std::move(*kernel), version.condition, std::move(next)) : std::move(next);
    }
    return std::move(*kernel);
  });
}

} // namespace luminal::kernel
