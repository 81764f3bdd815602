// runtime/plan.cpp -- plans as text, and what their steps name.
#include "runtime/plan.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::runtime {
namespace {

constexpr std::string_view slot_words[] = {"argument", "weight", "state", "loaded", "constant", "arena"};

void print_steps(const Plan& plan, const Steps& steps, int indent, std::string& out) {
  const auto line = [&](const std::string& text) { out += std::string(size_t(indent), ' ') + text + "\n"; };
  const auto slot = [&](SlotId s) { return plan.slots[s].name; };
  const auto list = [&](std::initializer_list<std::span<const SlotId>> parts) {
    std::string text;
    for (const auto part : parts)
      for (const SlotId s : part) text += (text.empty() ? "" : ", ") + slot(s);
    return text;
  };
  for (const Step& step : steps)
    visit(
        step,
        [&](const Launch& s) {
          line(fmt::format("launch {}({})", plan.kernels[s.kernel].name, list({s.slots})));
        },
        [&](const Copy& s) { line(fmt::format("copy {} <- {}", slot(s.to), slot(s.from))); },
        [&](const Zero& s) { line(fmt::format("zero {}", slot(s.slot))); },
        [&](const RangeCheck& s) {
          line(fmt::format("check {} in {}..{}  # {}", slot(s.slot), s.range.low, s.range.high, s.text));
        },
        [&](const AccessCheck& s) {
          line(fmt::format("check {}  # {}", to_string(plan.conditions[s.enough]), s.text));
          print_steps(plan, s.body, indent + 2, out);
        },
        [&](const Loop& s) {
          line(fmt::format("loop {} in 0..{}", to_string(s.counter), to_string(s.count)));
          if (s.condition) {
            line("while " + slot(s.condition));
            print_steps(plan, s.test, indent + 4, out);
          }
          print_steps(plan, s.body, indent + 2, out);
        },
        [&](const Cond& s) {
          line("if " + slot(s.condition));
          print_steps(plan, s.then, indent + 2, out);
          line("else");
          print_steps(plan, s.otherwise, indent + 2, out);
        },
        [&](const HostCall& s) {
          line(fmt::format("host {}({})", s.function.kind, list({s.inputs, s.results})));
        });
}

std::string workers_text(const std::vector<WorkerCap>& caps) {
  std::string text;
  for (const WorkerCap& cap : caps)
    text += fmt::format("{}on {} worker{} to {}", text.empty() ? "" : ", ", cap.workers,
                        cap.workers == 1 ? "" : "s", cap.points);
  return text.empty() ? "on all workers" : text;
}

} // namespace

std::vector<SlotId> slots_of(const Step& step) {
  using Slots = std::vector<SlotId>;
  Slots slots = visit(
      step, [](const Launch& s) { return s.slots; }, [](const Copy& s) { return Slots{s.to, s.from}; },
      [](const Zero& s) { return Slots{s.slot}; }, [](const RangeCheck& s) { return Slots{s.slot}; },
      [](const AccessCheck& s) { return Slots{s.violation}; },
      [](const Loop& s) { return Slots{s.condition, s.taken}; },
      [](const Cond& s) { return Slots{s.condition}; },
      [](const HostCall& s) {
        Slots all = s.inputs;
        all.insert(all.end(), s.results.begin(), s.results.end());
        return all;
      });
  std::erase(slots, SlotId());
  return slots;
}

std::vector<const Steps*> bodies_of(const Step& step) {
  using Bodies = std::vector<const Steps*>;
  return visit(
      step, [](const AccessCheck& s) { return Bodies{&s.body}; },
      [](const Loop& s) { return Bodies{&s.body, &s.test}; },
      [](const Cond& s) { return Bodies{&s.then, &s.otherwise}; }, [](const auto&) { return Bodies(); });
}

void for_each_step(const Steps& steps, const std::function<void(const Step&)>& see) {
  for (const Step& step : steps) {
    see(step);
    for (const Steps* body : bodies_of(step)) for_each_step(*body, see);
  }
}

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

} // namespace luminal::runtime
