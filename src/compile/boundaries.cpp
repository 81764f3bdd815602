// compile/boundaries.cpp -- steps of a plan that are not kernels of ours: host functions, loops,
// conditions, custom kernels.
#include "base/check.h"
#include "codegen/llvm_kernel.h"
#include "compile/builder.h"
#include "compile/expand_sort.h"
#include "compile/rewrite.h"
#include "ir/host_text.h"
#include "loop/loop_bounds.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::compile {

using runtime::SlotKind;
using runtime::Step;
using runtime::StepKind;

namespace {

/// CustomAttr::grid: blocks and threads along x, y, z, bytes of shared memory, then the kernel's
/// integers.
constexpr size_t custom_integers = 7;

} // namespace

Result<void> PlanBuilder::emit_boundary(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  switch (f[node].kind) {
  case NodeKind::fence: slots[node] = slots.at(f[node].inputs[0]); return {};
  case NodeKind::loop: return emit_loop(f, node, slots, steps);
  case NodeKind::cond: return emit_cond(f, node, slots, steps);
  case NodeKind::custom: return emit_custom(f, node, slots, steps);
  case NodeKind::host: {
    Step step;
    step.kind = StepKind::host;
    step.host = std::get<HostAttr>(f[node].attr);
    for (NodeId input : f[node].inputs) step.slots.push_back(slots.at(input));
    std::vector<int> results;
    if (passes_input_on(step.host.kind)) // no copy: the result is the input
      results.push_back(slots.at(f[node].inputs[0]));
    else
      for (const TensorType& type : f[node].types)
        results.push_back(add_slot(fmt::format("host{}", plan_.slots.size()), SlotKind::arena, type));
    step.slots.insert(step.slots.end(), results.begin(), results.end());
    steps.push_back(std::move(step));
    for (NodeId id = 0; id < f.nodes.size(); id++)
      if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
        slots[id] = results[size_t(std::get<GetAttr>(f[id].attr).index)];
    if (results.empty())
      slots[node] = add_slot(fmt::format("effect{}", plan_.slots.size()), SlotKind::arena, {DType::u8, {1}});
    else
      slots[node] = results[0];
    return {};
  }
  case NodeKind::collective: {
    const auto& attr = std::get<CollectiveAttr>(f[node].attr);
    return Failure{fmt::format("{} over the group {}: the other members are other processes, and the device "
                               "cpu runs plans of one; a group of one member (\"{}:1\") runs",
                               attr.kind, attr.group, attr.group.substr(0, attr.group.rfind(':')))};
  }
  default: LUMINAL_CHECK(false, "{} is not a kernel of its own", to_string(f[node].kind)); return {};
  }
}

Result<PlanBuilder::Steps> PlanBuilder::run_function(const Function& body,
                                                     const std::vector<int>& param_slots,
                                                     const std::vector<Rebinding>& rebindings,
                                                     std::vector<int>& results) {
  Region region;
  region.function = &body;
  Slots slots;
  for (size_t i = 0; i < body.params.size(); i++) {
    region.given.insert(body.params[i]);
    slots[body.params[i]] = param_slots[i];
  }
  for (const auto& result : body.results) region.wanted.push_back(result.value);
  auto steps = lower(region, slots, rebindings);
  if (!steps) return steps;
  for (const auto& result : body.results) results.push_back(slots.at(result.value));
  return steps;
}

Result<void> PlanBuilder::emit_loop(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  const auto& attr = std::get<LoopAttr>(f[node].attr);
  const Function* source = module_.find(attr.body);
  LUMINAL_CHECK(source, "loop body {}", attr.body);
  const auto& inputs = f[node].inputs;
  const size_t carried = size_t(attr.carried), stepped = size_t(attr.stepped),
               invariants = inputs.size() - carried - stepped;
  const size_t stacked = source->results.size() - carried;
  Interval turns = attr.count.range();
  Expr counter = Expr::symbol(fmt::format("turn{}", loops_++), {0, std::max<int64_t>(0, turns.high - 1)});
  plan_.symbols.push_back(counter);
  counters_.push_back(counter);
  facts_.push_back(lt(counter, attr.count));

  // The body over whole arrays: slices are views at the counter, stacked rows are scattered.
  FunctionBuilder b(fmt::format("{}.turn", attr.body), &module_);
  std::vector<NodeId> arguments{b.iota({}, counter, DType::i64)};
  std::vector<NodeId> carried_params, stack_params;
  for (size_t i = 0; i < carried; i++) {
    carried_params.push_back(b.input(fmt::format("carried{}", i), f[inputs[i]].type(), Role::state));
    arguments.push_back(carried_params.back());
  }
  for (size_t i = 0; i < stepped; i++) {
    const TensorType& type = f[inputs[carried + i]].type();
    NodeId whole = b.input(fmt::format("stepped{}", i), type);
    Shape slice(type.shape.begin() + 1, type.shape.end());
    std::vector<Expr> map{counter};
    for (size_t d = 0; d < slice.size(); d++) map.push_back(axis_symbol(int(d), slice[d]));
    arguments.push_back(b.view(whole, slice, map));
  }
  for (size_t i = 0; i < invariants; i++)
    arguments.push_back(b.input(fmt::format("invariant{}", i), f[inputs[carried + stepped + i]].type()));
  for (size_t i = 0; i < stacked; i++)
    stack_params.push_back(b.input(fmt::format("stack{}", i), f[node].types[carried + i], Role::state));
  std::vector<NodeId> values = copy_into(b, inline_calls(module_, *source), arguments);
  for (size_t i = 0; i < carried; i++)
    b.result(fmt::format("carried{}_next", i), values[i], fmt::format("carried{}", i));
  for (size_t i = 0; i < stacked; i++) {
    ScatterAttr scatter;
    scatter.unique = true;
    scatter.map.push_back(counter);
    const Shape& shape = b[values[carried + i]].type().shape;
    for (size_t d = 0; d < shape.size(); d++) scatter.map.push_back(axis_symbol(int(d), shape[d]));
    b.result(fmt::format("stack{}_next", i), b.add(scatter, {stack_params[i], values[carried + i]}),
             fmt::format("stack{}", i));
  }
  const Function& body = checked(prepared(keep(b.finish())));

  std::vector<int> param_slots;
  std::vector<Rebinding> rebindings;
  std::vector<int> result_slots;
  for (NodeId param : body.params) {
    const std::string& name = std::get<InputAttr>(body[param].attr).name;
    size_t index = size_t(std::stol(name.substr(name.find_first_of("0123456789"))));
    if (name.starts_with("carried")) {
      int slot =
          add_slot(fmt::format("carried{}", plan_.slots.size()), SlotKind::arena, f[inputs[index]].type());
      steps.push_back(copy(slot, slots.at(inputs[index])));
      param_slots.push_back(slot);
      result_slots.push_back(slot);
    } else if (name.starts_with("stepped"))
      param_slots.push_back(slots.at(inputs[carried + index]));
    else if (name.starts_with("invariant"))
      param_slots.push_back(slots.at(inputs[carried + stepped + index]));
    else {
      int slot = add_slot(fmt::format("stacked{}", plan_.slots.size()), SlotKind::arena,
                          f[node].types[carried + index]);
      Step zero;
      zero.kind = StepKind::zero;
      zero.slots = {slot};
      steps.push_back(zero);
      param_slots.push_back(slot);
      result_slots.push_back(slot);
    }
  }
  for (const auto& result : body.results)
    for (NodeId param : body.params)
      if (std::get<InputAttr>(body[param].attr).name == result.state)
        rebindings.push_back({param, result.value});

  Step loop;
  loop.kind = StepKind::loop;
  loop.count = attr.count;
  loop.counter = counter;
  std::vector<int> ignored;
  auto turn = run_function(body, param_slots, rebindings, ignored);
  if (!turn) return turn.failure();
  loop.body = std::move(*turn);
  if (!attr.condition.empty()) {
    const Function* condition = module_.find(attr.condition);
    LUMINAL_CHECK(condition, "loop condition {}", attr.condition);
    std::vector<int> condition_slots(result_slots.begin(), result_slots.begin() + long(carried));
    for (size_t i = 0; i < invariants; i++)
      condition_slots.push_back(slots.at(inputs[carried + stepped + i]));
    std::vector<int> holds;
    auto test = run_function(checked(prepared(*condition)), condition_slots, {}, holds);
    if (!test) return test.failure();
    loop.otherwise = std::move(*test);
    loop.condition = holds[0];
    loop.taken = add_slot(fmt::format("taken{}", plan_.slots.size()), SlotKind::arena, {DType::i64, {}});
    result_slots.push_back(loop.taken);
  }
  steps.push_back(std::move(loop));
  for (NodeId id = 0; id < f.nodes.size(); id++)
    if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
      slots[id] = result_slots[size_t(std::get<GetAttr>(f[id].attr).index)];
  return {};
}

Result<void> PlanBuilder::emit_cond(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  const auto& attr = std::get<CondAttr>(f[node].attr);
  std::vector<int> arguments, results;
  for (size_t i = 1; i < f[node].inputs.size(); i++) arguments.push_back(slots.at(f[node].inputs[i]));
  for (const TensorType& type : f[node].types)
    results.push_back(add_slot(fmt::format("cond{}", plan_.slots.size()), SlotKind::arena, type));
  Step step;
  step.kind = StepKind::cond;
  step.slots = {slots.at(f[node].inputs[0])};
  for (bool then : {true, false}) {
    const Function* callee = module_.find(then ? attr.then_function : attr.else_function);
    LUMINAL_CHECK(callee, "branch {}", then ? attr.then_function : attr.else_function);
    std::vector<int> branch;
    auto part = run_function(checked(prepared(*callee)), arguments, {}, branch);
    if (!part) return part.failure();
    for (size_t i = 0; i < results.size(); i++) part->push_back(copy(results[i], branch[i]));
    (then ? step.body : step.otherwise) = std::move(*part);
  }
  steps.push_back(std::move(step));
  for (NodeId id = 0; id < f.nodes.size(); id++)
    if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
      slots[id] = results[size_t(std::get<GetAttr>(f[id].attr).index)];
  return {};
}

/// What a user's kernel says of its arguments must be what it gets: it reads and writes memory.
Result<void> PlanBuilder::check_custom(const Function& f, NodeId node, const kernel::Kernel& loops) const {
  const auto& name = std::get<CustomAttr>(f[node].attr).name;
  auto fail = [&](const std::string& text) {
    return Failure{fmt::format("custom kernel {}: {}", name, text)};
  };
  std::vector<TensorType> types;
  for (NodeId input : f[node].inputs) types.push_back(f[input].type());
  const size_t inputs = types.size();
  types.insert(types.end(), f[node].types.begin(), f[node].types.end());
  std::vector<const kernel::Buffer*> arguments;
  for (const kernel::Buffer& buffer : loops.buffers)
    if (buffer.space == kernel::Space::global) arguments.push_back(&buffer);
  if (arguments.size() != types.size())
    return fail(fmt::format("the text has {} arguments, the call {} inputs and {} results", arguments.size(),
                            inputs, types.size() - inputs));
  for (Expr symbol : loops.symbols)
    if (std::find(plan_.symbols.begin(), plan_.symbols.end(), symbol) == plan_.symbols.end())
      return fail(fmt::format("{}: {}..{} is not a dimension of the graph: name and range must be the same",
                              symbol.name(), symbol.range().low, symbol.range().high));
  for (size_t i = 0; i < types.size(); i++) {
    const kernel::Buffer& buffer = *arguments[i];
    if (buffer.dtype != types[i].dtype)
      return fail(fmt::format("{} is {} in the text and {} in the call", buffer.name, to_string(buffer.dtype),
                              to_string(types[i])));
    if (i < inputs ? buffer.access != kernel::Access::in : buffer.access == kernel::Access::in)
      return fail(fmt::format("{} must be {}", buffer.name,
                              i < inputs ? "in: it is an input" : "out: it is a result"));
    if (!proves_equal(buffer.size, product(types[i].shape), module_.assumptions))
      return fail(fmt::format("{} has {} elements in the text, the call gives {}", buffer.name,
                              to_string(buffer.size), to_string(types[i])));
  }
  return {};
}

/// The machine code of a custom kernel whose text is LLVM IR.
static Result<runtime::KernelCode> llvm_code(const Node& node, const codegen::CpuTarget& target) {
  const auto& attr = std::get<CustomAttr>(node.attr);
  codegen::LlvmKernel kernel;
  kernel.name = attr.name;
  kernel.text = attr.text.at("llvm");
  kernel.inputs = int(node.inputs.size());
  kernel.outputs = int(attr.results.size());
  for (size_t d = 0; d < 3 && d < attr.grid.size(); d++) kernel.grid[d] = attr.grid[d];
  if (attr.grid.size() > custom_integers) // behind blocks, threads and shared memory
    kernel.integers.assign(attr.grid.begin() + custom_integers, attr.grid.end());
  for (Expr e : attr.grid)
    for (Expr symbol : symbols_of(e))
      if (std::find(kernel.symbols.begin(), kernel.symbols.end(), symbol) == kernel.symbols.end())
        kernel.symbols.push_back(symbol);
  auto compiled = codegen::compile(kernel, target);
  if (!compiled) return Failure{fmt::format("custom kernel {}: {}", attr.name, compiled.error())};
  runtime::KernelCode code;
  code.name = attr.name;
  code.symbols = kernel.symbols;
  code.entry = compiled->entry;
  code.shared_bytes = compiled->shared_bytes;
  code.local_bytes = compiled->local_bytes;
  code.object = std::make_shared<const std::vector<std::byte>>(std::move(compiled->object));
  return code;
}

/// On this machine a custom kernel is loop IR (language "loops"), LLVM IR ("llvm"), or the host
/// function of its name.
Result<void> PlanBuilder::emit_custom(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  const auto& attr = std::get<CustomAttr>(f[node].attr);
  Step step;
  auto add = [&](runtime::KernelCode code, kernel::Kernel loops) {
    code.points = int64_t(1) << 31; // unknown: on all workers
    code.caps.clear();
    plan_.kernels.push_back(std::move(code));
    kernels_.push_back({std::move(loops), "custom", {.name = attr.name}});
    step.kernel = int(kernels_.size()) - 1;
  };
  if (auto text = attr.text.find("loops"); text != attr.text.end()) {
    kernel::Kernel loops;
    try {
      loops = kernel::parse_kernel(text->second, attr.name);
    } catch (const Error& error) {
      return Failure{fmt::format("custom kernel {}", error.what())}; // its text begins with the name
    }
    if (auto mistakes = is_sort_kernel(text->second) ? verify(loops) : kernel::verify_with_bounds(loops);
        !mistakes.empty())
      return Failure{fmt::format("custom kernel {}: {}", attr.name, mistakes[0])};
    if (auto fits = check_custom(f, node, loops); !fits) return fits;
    runtime::KernelCode code;
    code.name = attr.name;
    code.symbols = loops.symbols;
    add(std::move(code), std::move(loops));
  } else if (attr.text.contains("llvm")) {
    auto code = llvm_code(f[node], chooser_.build_options(1).target);
    if (!code) return code.failure();
    add(std::move(*code), {});
  } else if (find_host_function(attr.name)) {
    step.kind = StepKind::host;
    step.host = {attr.name, "", attr.results};
  } else {
    std::string languages;
    for (const auto& [language, _] : attr.text)
      languages += (languages.empty() ? "" : ", ") + language +
                   (language == "c" ? " (clang -S -emit-llvm makes \"llvm\" of it)" : "");
    return Failure{
        fmt::format("custom kernel {} has no text in a language that the device cpu runs (\"loops\" or "
                    "\"llvm\"), and no host function of that name is registered; there is {}",
                    attr.name, languages.empty() ? "no text" : languages)};
  }
  for (NodeId input : f[node].inputs) step.slots.push_back(slots.at(input));
  std::vector<int> results;
  for (const TensorType& type : f[node].types)
    results.push_back(add_slot(fmt::format("{}{}", attr.name, plan_.slots.size()), SlotKind::arena, type));
  step.slots.insert(step.slots.end(), results.begin(), results.end());
  steps.push_back(std::move(step));
  for (NodeId id = 0; id < f.nodes.size(); id++)
    if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
      slots[id] = results[size_t(std::get<GetAttr>(f[id].attr).index)];
  return {};
}

} // namespace luminal::compile
