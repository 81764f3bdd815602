// runtime/plan.cpp -- plans as text, and the arena.
#include "runtime/plan.h"
#include "base/check.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace luminal::runtime {
namespace {

constexpr std::string_view slot_words[] = {"argument", "weight", "state", "loaded", "constant", "arena"};

void print_steps(const Plan& plan, const std::vector<Step>& steps, int indent, std::string& out) {
  auto line = [&](const std::string& text) { out += std::string(size_t(indent), ' ') + text + "\n"; };
  auto slot = [&](SlotId s) { return plan.slots[s].name; };
  auto list = [&](const std::vector<SlotId>& slots) {
    std::string text;
    for (SlotId s : slots) text += (text.empty() ? "" : ", ") + slot(s);
    return text;
  };
  for (const Step& step : steps) switch (step.kind) {
    case StepKind::launch:
      line(fmt::format("launch {}({})", plan.kernels[step.kernel].name, list(step.slots)));
      break;
    case StepKind::copy: line(fmt::format("copy {} <- {}", slot(step.slots[0]), slot(step.slots[1]))); break;
    case StepKind::zero: line(fmt::format("zero {}", slot(step.slots[0]))); break;
    case StepKind::check:
      if (!step.enough) {
        line(fmt::format("check {} in {}..{}  # {}", slot(step.slots[0]), step.range.low, step.range.high,
                         step.text));
        break;
      }
      line(fmt::format("check {}  # {}", to_string(plan.conditions[step.enough]), step.text));
      print_steps(plan, step.body, indent + 2, out);
      break;
    case StepKind::loop:
      line(fmt::format("loop {} in 0..{}", to_string(step.counter), to_string(step.count)));
      if (step.condition) {
        line("while " + slot(step.condition));
        print_steps(plan, step.otherwise, indent + 4, out);
      }
      print_steps(plan, step.body, indent + 2, out);
      break;
    case StepKind::cond:
      line("if " + slot(step.slots[0]));
      print_steps(plan, step.body, indent + 2, out);
      line("else");
      print_steps(plan, step.otherwise, indent + 2, out);
      break;
    case StepKind::host: line(fmt::format("host {}({})", step.host.kind, list(step.slots))); break;
    }
}

/// Steps from the first to the last that name a slot.
struct Life {
  int first = 0, last = 0;
};

void touch(std::optional<Life>& life, int at) {
  if (!life) life = {at, at};
  life->last = at;
}

void collect(const Step& step, std::vector<SlotId>& slots) {
  slots.insert(slots.end(), step.slots.begin(), step.slots.end());
  if (step.condition) slots.push_back(step.condition);
  if (step.taken) slots.push_back(step.taken);
  for (const auto* part : {&step.body, &step.otherwise})
    for (const Step& inner : *part) collect(inner, slots);
}

std::string workers_text(const std::vector<WorkerCap>& caps) {
  std::string text;
  for (const WorkerCap& cap : caps)
    text += fmt::format("{}on {} worker{} to {}", text.empty() ? "" : ", ", cap.workers,
                        cap.workers == 1 ? "" : "s", cap.points);
  return text.empty() ? "on all workers" : text;
}

} // namespace

int KernelCode::workers_at(int64_t launch_points, int all) const {
  for (const WorkerCap& cap : caps)
    if (launch_points <= cap.points) all = std::min(all, cap.workers);
  return all;
}

SlotId Plan::find_slot(std::string_view slot_name, SlotKind kind) const {
  for (const SlotId i : slots.ids())
    if (slots[i].kind == kind && slots[i].name == slot_name) return i;
  return {};
}

int64_t Plan::memory_bytes() const {
  int64_t total = arena_bytes;
  for (const Slot& slot : slots)
    if (slot.kind == SlotKind::state || slot.kind == SlotKind::loaded) total += slot.max_bytes;
  return total;
}

int64_t Plan::memory_bytes(const IdVector<SlotId, int64_t>& slot_bytes) const {
  std::vector<SlotId> used;
  for (const Step& step : steps) collect(step, used);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (SlotId s : used)
    if (const Slot& slot = slots[s]; slot.kind == SlotKind::arena && slot.offset >= 0)
      parts.emplace_back(slot.offset, slot.offset + slot_bytes[s]);
  std::sort(parts.begin(), parts.end());
  int64_t total = 0, end = 0;
  for (auto [first, last] : parts) {
    if (last > end) total += last - std::max(first, end);
    end = std::max(end, last);
  }
  for (const SlotId s : slots.ids())
    if (slots[s].kind == SlotKind::state || slots[s].kind == SlotKind::loaded) total += slot_bytes[s];
  return total;
}

std::string memory_text(int64_t bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = double(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 5; unit++) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

Result<void> check_memory_limit(const Plan& plan, int64_t max_memory) {
  if (max_memory <= 0 || plan.memory_bytes() <= max_memory) return {};
  return Failure{fmt::format(
      "plan {} may need {} (arena {}, the rest states and loaded weights), the limit is {}", plan.name,
      memory_text(plan.memory_bytes()), memory_text(plan.arena_bytes), memory_text(max_memory))};
}

std::string to_string(const Plan& plan) {
  std::string out = fmt::format("plan {}\n", plan.name);
  for (const std::string& device : plan.devices)
    if (plan.devices.size() > 1 || device != "cpu") out += fmt::format("device {}\n", device);
  for (Expr symbol : plan.symbols) {
    Interval range = symbol.range();
    out += fmt::format("symbol {}: {}..{}\n", symbol.name(), range.low, range.high);
  }
  for (const Slot& slot : plan.slots) {
    out += fmt::format("slot {}: {} {}", slot.name, slot_words[size_t(slot.kind)], to_string(slot.type));
    if (slot.offset >= 0) out += fmt::format(" at {}", slot.offset);
    if (slot.pinned) out += " pinned";
    out += "\n";
  }
  for (const KernelCode& kernel : plan.kernels)
    out += fmt::format("kernel {}: {} points of about {:.2g} ns, {}{}{}\n", kernel.name,
                       to_string(kernel.points), kernel.point_ns, workers_text(kernel.caps),
                       kernel.barriers ? ", barriers" : "", kernel.note.empty() ? "" : ", " + kernel.note);
  if (!plan.load_steps.empty()) {
    out += "load\n";
    print_steps(plan, plan.load_steps, 2, out);
  }
  out += "step\n";
  print_steps(plan, plan.steps, 2, out);
  for (const PlanResult& result : plan.results)
    out += fmt::format("result {} = {}\n", result.name, plan.slots[result.slot].name);
  for (const std::string& note : plan.notes) out += note + "\n";
  return out;
}

void mark_used_slots(Plan& plan) {
  std::vector<SlotId> used;
  for (const auto* steps : {&plan.load_steps, &plan.steps})
    for (const Step& step : *steps) collect(step, used);
  for (const PlanResult& result : plan.results) used.push_back(result.slot);
  for (Slot& slot : plan.slots) slot.used = false;
  for (const SlotId slot : used) plan.slots[slot].used = true;
}

int64_t place_in_arena(const std::vector<Step>& steps, IdVector<SlotId, Slot>& slots) {
  IdVector<SlotId, std::optional<Life>> lives(slots.size());
  for (size_t at = 0; at < steps.size(); at++) {
    std::vector<SlotId> used;
    collect(steps[at], used);
    for (SlotId s : used) touch(lives[s], int(at));
  }
  std::vector<SlotId> order;
  for (const SlotId i : slots.ids()) {
    if (slots[i].kind != SlotKind::arena || !lives[i]) continue;
    if (slots[i].pinned) lives[i] = Life{0, int(steps.size())};
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](SlotId a, SlotId b) { return slots[a].max_bytes > slots[b].max_bytes; });

  int64_t size = 0;
  std::vector<SlotId> placed;
  for (const SlotId i : order) {
    std::vector<std::pair<int64_t, int64_t>> taken; // of slots alive at the same time
    for (const SlotId p : placed)
      if (lives[p]->first <= lives[i]->last && lives[i]->first <= lives[p]->last)
        taken.push_back({slots[p].offset, slots[p].offset + slots[p].max_bytes});
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (auto [begin, end] : taken) {
      if (at + slots[i].max_bytes <= begin) break;
      at = std::max(at, (end + 63) / 64 * 64);
    }
    slots[i].offset = at;
    LUMINAL_CHECK(!__builtin_add_overflow(at, slots[i].max_bytes, &at), "arena overflow at slot {}",
                  slots[i].name);
    size = std::max(size, at);
    placed.push_back(i);
  }
  return (size + 63) / 64 * 64;
}

} // namespace luminal::runtime
