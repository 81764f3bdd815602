// compile/custom_kernel.cpp -- kernels whose text is the user's: loop IR or LLVM IR.
#include "compile/custom_kernel.h"
#include "codegen/llvm_kernel.h"
#include "compile/expand_sort.h"
#include "ir/host_text.h"
#include "loop/loop_bounds.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::compile {
namespace {

/// CustomAttr::grid: blocks and threads along x, y, z, bytes of shared memory, then the kernel's
/// integers.
constexpr size_t custom_integers = 7;

/// What a user's kernel says of its arguments must be what it gets: it reads and writes memory.
Result<void> check_custom(const PlanState& state, const Function& f, NodeId node,
                          const kernel::Kernel& loops) {
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
    if (std::find(state.plan.symbols.begin(), state.plan.symbols.end(), symbol) == state.plan.symbols.end())
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
    if (!proves_equal(buffer.size, product(types[i].shape), state.module.assumptions))
      return fail(fmt::format("{} has {} elements in the text, the call gives {}", buffer.name,
                              to_string(buffer.size), to_string(types[i])));
  }
  return {};
}

/// The machine code of a custom kernel whose text is LLVM IR.
Result<runtime::KernelCode> llvm_code(const Node& node, const codegen::Target& target) {
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
  auto compiled = codegen::compile(kernel, target.cpu);
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

/// Reads, checks.
Result<kernel::Kernel> custom_loops(const PlanState& state, const Function& f, NodeId node) {
  const auto& attr = std::get<CustomAttr>(f[node].attr);
  const std::string& text = attr.text.at("loops");
  kernel::Kernel loops;
  try {
    loops = kernel::parse_kernel(text, attr.name);
  } catch (const Error& error) {
    return Failure{fmt::format("custom kernel {}", error.what())}; // its text begins with the name
  }
  if (auto mistakes = is_sort_kernel(text) ? verify(loops) : kernel::verify_with_bounds(loops);
      !mistakes.empty())
    return Failure{fmt::format("custom kernel {}: {}", attr.name, mistakes[0])};
  if (auto fits = check_custom(state, f, node, loops); !fits) return fits.failure();
  return loops;
}

} // namespace

Result<runtime::CodeId> custom_kernel(PlanState& state, const Function& f, NodeId node) {
  const auto& attr = std::get<CustomAttr>(f[node].attr);
  const auto add = [&](runtime::KernelCode code, kernel::Kernel loops) {
    code.points = int64_t(1) << 31; // unknown: on all workers
    code.caps.clear();
    state.plan.kernels.push_back(std::move(code));
    return state.kernels.add({std::move(loops), "custom", {.name = attr.name}});
  };
  if (attr.text.contains("loops")) {
    auto loops = custom_loops(state, f, node);
    if (!loops) return loops.failure();
    runtime::KernelCode code;
    code.name = attr.name;
    code.symbols = loops->symbols;
    return add(std::move(code), std::move(*loops));
  }
  if (attr.text.contains("llvm")) {
    auto code = llvm_code(f[node], state.planner.build_options(1).target);
    if (!code) return code.failure();
    return add(std::move(*code), {});
  }
  if (find_host_function(attr.name)) return runtime::CodeId();
  std::string languages;
  for (const auto& [language, _] : attr.text)
    languages += (languages.empty() ? "" : ", ") + language +
                 (language == "c" ? " (clang -S -emit-llvm makes \"llvm\" of it)" : "");
  return Failure{
      fmt::format("custom kernel {} has no text in a language that the device cpu runs (\"loops\" or "
                  "\"llvm\"), and no host function of that name is registered; there is {}",
                  attr.name, languages.empty() ? "no text" : languages)};
}

} // namespace luminal::compile
