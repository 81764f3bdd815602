// tensor/runner.cpp -- Runner: a step over memory of the caller.
#include "luminal/runner.h"
#include "tensor/graph_run.h"
#include <fmt/format.h>

namespace luminal {

struct Runner::State {
  std::shared_ptr<GraphState> graph;
  std::vector<std::string> dimensions;
  std::vector<Tensor> inputs, outputs;
  std::shared_ptr<const runtime::Executable> executable; // whose slots these are
  std::vector<runtime::SlotId> input_slots;              // none: nothing that runs reads it
  std::vector<runtime::SlotId> output_slots;

  void find_slots(Where where);
};

void Runner::State::find_slots(Where where) {
  const runtime::Plan& plan = graph->executable()->plan();
  executable = graph->programs[graph->running]->executable;
  input_slots.clear();
  output_slots.clear();
  for (const Tensor& input : inputs) {
    const auto& attr = std::get<InputAttr>(graph->builder[node_id(input)].attr);
    const bool state = attr.role == Role::state;
    const runtime::SlotId slot =
        plan.find_slot(attr.name, state ? runtime::SlotKind::state : runtime::SlotKind::argument);
    input_slots.push_back(slot && plan.slots[slot].used ? slot : runtime::SlotId());
  }
  for (const Tensor& output : outputs) {
    const auto label = graph->readable.find(node_id(output));
    if (label == graph->readable.end())
      throw Error("run", fmt::format("{} is not kept any more", described(*graph, node_id(output))), where);
    for (const runtime::PlanResult& result : plan.results)
      if (result.name == label->second) output_slots.push_back(result.slot);
  }
}

Runner::Runner(Graph& graph, std::vector<std::string> dimensions, std::vector<Tensor> inputs,
               std::vector<Tensor> outputs, Where where)
    : state_(std::make_unique<State>()) {
  state_->graph = graph.state("run", where);
  const GraphState& g = *state_->graph;
  for (const std::string& name : dimensions)
    if (!g.dims.contains(name)) throw Error("run", no_dimension(g, name), where);
  for (const Tensor& input : inputs) {
    check_graph("run", state_->graph, input, where);
    const auto* attr = std::get_if<InputAttr>(&g.builder[node_id(input)].attr);
    if (!attr || attr->role == Role::weight)
      throw Error("run",
                  fmt::format("{} is not an input: only a tensor made by tensor reads the caller's memory",
                              described(g, node_id(input))),
                  where);
  }
  for (const Tensor& output : outputs) {
    check_graph("run", state_->graph, output, where);
    Tensor(output).keep(where);
  }
  state_->dimensions = std::move(dimensions);
  state_->inputs = std::move(inputs);
  state_->outputs = std::move(outputs);
}
Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;
Runner::~Runner() = default;
const std::shared_ptr<GraphState>& Runner::state() const { return state_->graph; }

void Runner::run(std::span<const int64_t> sizes, std::span<const void* const> inputs,
                 std::span<void* const> outputs, Where where) {
  State& s = *state_;
  if (sizes.size() != s.dimensions.size() || inputs.size() != s.inputs.size() ||
      outputs.size() != s.outputs.size())
    throw Error("run",
                fmt::format("{} sizes, {} inputs and {} outputs are needed; {}, {} and {} were given",
                            s.dimensions.size(), s.inputs.size(), s.outputs.size(), sizes.size(),
                            inputs.size(), outputs.size()),
                where);
  GraphState& g = *s.graph;
  for (size_t i = 0; i < sizes.size(); i++) g.dim_values[s.dimensions[i]] = sizes[i];
  prepare_program(s.graph, where);
  if (g.empty()) return;
  runtime::Context& context = *g.context();
  if (s.executable != g.programs[g.running]->executable) s.find_slots(where);
  const auto is_state = [&](size_t i) {
    return s.executable->plan().slots[s.input_slots[i]].kind == runtime::SlotKind::state;
  };
  bool states = false;
  std::vector<bool> copied(inputs.size()); // states that lie in memory of the device
  for (size_t i = 0; i < inputs.size(); i++) {
    if (!s.input_slots[i]) continue;
    if (is_state(i)) {
      const auto bound = context.bind_state_slot(s.input_slots[i], const_cast<void*>(inputs[i]));
      if (!bound) throw_failure("run", bound.failure(), where);
      copied[i] = !*bound;
      states = true;
      continue;
    }
    if (auto done = context.bind_argument_slot(s.input_slots[i], inputs[i]); !done)
      throw_failure("run", done.failure(), where);
  }
  std::vector<bool> written(outputs.size());
  for (size_t i = 0; i < outputs.size(); i++)
    written[i] = context.bind_result_slot(s.output_slots[i], outputs[i]);
  const auto done = context.run();
  for (size_t i = 0; i < outputs.size(); i++)
    if (written[i]) context.release_result_slot(s.output_slots[i]);
  if (states) context.release_states();
  check_run(g, done, where);
  for (size_t i = 0; i < outputs.size(); i++)
    if (!written[i]) check_run(g, context.read_slot(s.output_slots[i], outputs[i]), where);
  for (size_t i = 0; i < inputs.size(); i++)
    if (copied[i]) check_run(g, context.read_slot(s.input_slots[i], const_cast<void*>(inputs[i])), where);
}

} // namespace luminal
