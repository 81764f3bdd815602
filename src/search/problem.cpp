// search/problem.cpp -- inputs, arguments, machine code and keys of a kernel that is tuned.
#include "search/problem.h"
#include "base/check.h"
#include "codegen/version.h"
#include "cone/canonical_cone.h"
#include "search/machine_profile.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <random>

namespace luminal::search {
namespace {

/// Elements after which the numbers of a large input repeat: even, for types of four bits, and no
/// multiple of usual row lengths.
constexpr int64_t period = 1'000'002;

std::vector<std::byte> random_bytes(DType dtype, int64_t count, const std::string& name,
                                    const KernelProblem& problem) {
  std::vector<std::byte> data(size_t(storage_bytes(dtype, count)));
  std::mt19937_64 random(hash64(name, problem.seed));
  const auto known = problem.integers.find(name);
  const auto [low, high] = known != problem.integers.end()
                               ? known->second
                               : std::pair<int64_t, int64_t>{0, dtype == DType::boolean ? 1 : 3};
  for (int64_t i = 0; i < std::min(count, period); i++)
    if (is_float(dtype))
      store_f64(dtype, data.data(), i,
                problem.floats.first +
                    (problem.floats.second - problem.floats.first) * double(random() % 4001) / 4000);
    else
      store_i64(dtype, data.data(), i, low + int64_t(random() % uint64_t(high - low + 1)));
  const size_t whole = size_t(storage_bytes(dtype, period));
  for (size_t at = whole; at < data.size(); at += whole)
    std::memcpy(data.data() + at, data.data(), std::min(whole, data.size() - at));
  return data;
}

int64_t element_count(const Shape& shape, const ExprMap<int64_t>& bound) {
  int64_t count = 1;
  for (const Expr extent : shape) count *= evaluate(extent, bound).value();
  return count;
}

} // namespace

Candidate candidate_of(kernel::Schedule schedule, const kernel::LowerOptions& options) {
  Candidate candidate{std::move(schedule), {}};
  candidate.lower = [options](const kernel::Cone& cone, const kernel::Schedule& how) {
    return kernel::lower(cone, how, options);
  };
  return candidate;
}

ExprMap<int64_t> bound_symbols(const std::vector<Expr>& symbols,
                               const std::map<std::string, int64_t>& values) {
  ExprMap<int64_t> bound;
  for (const Expr symbol : symbols) {
    const auto found = values.find(std::string(symbol.name()));
    if (found == values.end()) throw Error(fmt::format("the size {} is not given", symbol.name()));
    bound[symbol] = found->second;
  }
  return bound;
}

Result<CandidateCode> build(const kernel::Kernel& kernel, const std::map<std::string, int64_t>& symbols,
                            const BuildOptions& options) {
  auto compiled = codegen::compile(kernel, options.target.cpu, options.codegen);
  if (!compiled) return compiled.failure();
  CandidateCode code{nullptr, compiled->entry};
  code.object = std::make_shared<const std::vector<std::byte>>(std::move(compiled->object));
  code.barriers = kernel::has_barriers(kernel);
  return at_sizes(std::move(code), kernel, symbols);
}

Result<CandidateCode> at_sizes(CandidateCode code, const kernel::Kernel& kernel,
                               const std::map<std::string, int64_t>& symbols) {
  const auto bound = bound_symbols(kernel.symbols, symbols);
  const codegen::ScratchBytes scratch = codegen::scratch_bytes(kernel);
  const auto shared = evaluate(scratch.shared, bound), local = evaluate(scratch.local, bound);
  if (!shared) return shared.failure();
  if (!local) return local.failure();
  code.shared_bytes = *shared;
  code.local_bytes = *local;
  return code;
}

int workers_of(const kernel::Schedule& schedule, const kernel::Cone& cone,
               const std::map<std::string, int64_t>& symbols, int threads) {
  for (const kernel::Directive& d : schedule.directives)
    if (d.kind == kernel::DirectiveKind::serial && points_of(cone, symbols) <= double(d.numbers[0]))
      threads = std::min(threads, d.numbers.size() > 1 ? int(d.numbers[1]) : 1);
  return threads;
}

Bindings inputs_of(const KernelProblem& problem) {
  Bindings bindings;
  bindings.symbols = problem.symbols;
  const auto bound = bound_symbols(problem.module.symbols, problem.symbols);
  const Function& entry = problem.module.entry();
  for (const NodeId id : entry.params) {
    const std::string& name = std::get<InputAttr>(entry[id].attr).name;
    HostTensor tensor;
    tensor.dtype = entry[id].type().dtype;
    for (const Expr extent : entry[id].type().shape) tensor.shape.push_back(evaluate(extent, bound).value());
    tensor.data = random_bytes(tensor.dtype, tensor.count(), name, problem);
    bindings.inputs[name] = std::move(tensor);
  }
  return bindings;
}

Workload workload_of(const KernelProblem& problem, const kernel::Cone& cone,
                     const std::map<std::string, int64_t>& symbols, int threads) {
  Workload work;
  work.threads = threads;
  const auto bound = bound_symbols(cone.symbols, symbols);
  for (const Expr symbol : cone.symbols) work.symbols.push_back(bound.at(symbol));
  const Function& entry = problem.module.entry();
  for (const kernel::ConeValue& value : cone.values) {
    if (value.role == kernel::ValueRole::interior) continue;
    WorkArgument argument;
    argument.name = value.name;
    argument.dtype = value.dtype;
    const int64_t count = element_count(value.shape, bound);
    argument.bytes = storage_bytes(value.dtype, count);
    argument.access = value.role == kernel::ValueRole::input    ? kernel::Access::in
                      : value.role == kernel::ValueRole::output ? kernel::Access::out
                                                                : kernel::Access::inout;
    if (argument.access != kernel::Access::out) {
      const NodeId id = value.role == kernel::ValueRole::inout ? value.base : value.origin;
      if (!entry.nodes.has(id)) throw Error(fmt::format("{}: not of the module's entry", value.name));
      const Node& node = entry[id];
      if (const auto* constant = std::get_if<ConstantAttr>(&node.attr))
        argument.content = *constant->data;
      else if (const auto* input = std::get_if<InputAttr>(&node.attr))
        argument.content = random_bytes(value.dtype, count, input->name, problem);
      else
        throw Error(fmt::format("{}: neither an input nor a constant of the module's entry", value.name));
      argument.content.resize(size_t(argument.bytes));
    }
    work.arguments.push_back(std::move(argument));
  }
  return work;
}

std::vector<std::string> results_of(const KernelProblem& problem) {
  std::vector<std::string> names;
  const Function& entry = problem.module.entry();
  for (const kernel::ConeValue& value : problem.cone.values) {
    if (value.role == kernel::ValueRole::interior) continue;
    names.emplace_back();
    if (value.role == kernel::ValueRole::input) continue;
    for (const FunctionResult& result : entry.results) {
      const Node& node = entry[result.value];
      const auto* get = std::get_if<GetAttr>(&node.attr);
      const bool of_tuple = get && node.inputs[0] == value.origin && get->index == value.result;
      if (result.value == value.origin || of_tuple) names.back() = result.name;
    }
    if (names.back().empty()) throw Error(fmt::format("{}: no result of the module's entry", value.name));
  }
  return names;
}

double points_of(const kernel::Cone& cone, const std::map<std::string, int64_t>& symbols) {
  const auto bound = bound_symbols(cone.symbols, symbols);
  double total = 0;
  for (const kernel::Stage& stage : cone.stages) {
    double points = 1;
    for (const kernel::AxisId axis : stage.axes)
      points *= double(evaluate(cone.axes[axis].extent, bound).value());
    total += points;
  }
  return total;
}

TuningKey tuning_key(const KernelProblem& problem, const BuildOptions& options, std::string numeric,
                     uint64_t rules) {
  return tuning_key(problem.cone, problem.symbols, machine_key(options, std::move(numeric), rules));
}

TuningKey machine_key(const BuildOptions& options, std::string numeric, uint64_t rules) {
  TuningKey key;
  key.layouts =
      "rows/64"; // row-major in the order of the dimensions, aligned to 64 bytes: what the runtime gives
  key.numeric = std::move(numeric);
  key.instructions = fmt::format("{} {} {:016x}", options.target.cpu.triple, options.target.cpu.cpu,
                                 options.target.cpu.hash());
  key.llvm = codegen::llvm_version();
  key.rules = rules;
  key.codegen = Hasher()
                    .add(codegen::codegen_version)
                    .add(options.codegen.hash())
                    .add(options.lower.lanes)
                    .add(options.lower.contract)
                    .value64();
  key.device = MachineProfile::guess(options.threads).fingerprint;
  key.threads = options.threads;
  return key;
}

TuningKey tuning_key(const kernel::Cone& cone, const std::map<std::string, int64_t>& sizes,
                     TuningKey machine) {
  TuningKey key = std::move(machine);
  key.structure = kernel::structural_hash128(cone);
  for (const auto& value : cone.values) {
    if (value.role == kernel::ValueRole::interior) continue;
    if (!key.dtypes.empty()) key.dtypes += ' ';
    key.dtypes += to_string(value.dtype);
  }
  for (const Expr symbol : cone.symbols) {
    const std::string name(symbol.name());
    const Interval range = symbol.range();
    key.bucket += fmt::format("{}{}={}", key.bucket.empty() ? "" : " ", name, sizes.at(name));
    if (range.is_bounded()) key.bucket += fmt::format(" of {}..{}", range.low, range.high);
  }
  return key;
}

} // namespace luminal::search
