// egg/egg_program.cpp -- texts, commands and the host's part of a rule program.
#include "egg/egg_program.h"
#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "egg/egg_state.h"
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace luminal::egraph {
namespace {

constexpr uint32_t max_include_depth = 64;
constexpr uint64_t max_pushes = 1000;

struct CommandEntry {
  std::string_view head;
  void (*run)(EggProgram::Impl&, NodeId);
};

using Impl = EggProgram::Impl;

constexpr CommandEntry commands[] = {
    {"let", [](Impl& p, NodeId c) { p.let_global(c); }},
    {"sort", [](Impl& p, NodeId c) { p.declare_sort(c); }},
    {"datatype", [](Impl& p, NodeId c) { p.declare_datatype(c); }},
    {"datatype*", [](Impl& p, NodeId c) { p.declare_datatypes(c); }},
    {"constructor", [](Impl& p, NodeId c) { p.declare_constructor(c); }},
    {"relation", [](Impl& p, NodeId c) { p.declare_relation(c); }},
    {"function", [](Impl& p, NodeId c) { p.declare_function(c); }},
    {"ruleset", [](Impl& p, NodeId c) { p.declare_ruleset(c); }},
    {"unstable-combined-ruleset", [](Impl& p, NodeId c) { p.declare_ruleset(c); }},
    {"rule", [](Impl& p, NodeId c) { p.declare_rule(c); }},
    {"rewrite", [](Impl& p, NodeId c) { p.declare_rewrite(c, false); }},
    {"birewrite", [](Impl& p, NodeId c) { p.declare_rewrite(c, true); }},
    {"run", [](Impl& p, NodeId c) { p.run_iterations(c); }},
    {"run-schedule", [](Impl& p, NodeId c) { p.run_schedule(c); }},
    {"check", [](Impl& p, NodeId c) { p.check(c); }},
    {"fail", [](Impl& p, NodeId c) { p.fail_command(c); }},
    {"extract", [](Impl& p, NodeId c) { p.extract_command(c); }},
    {"explain", [](Impl& p, NodeId c) { p.explain_command(c); }},
    {"print-size", [](Impl& p, NodeId c) { p.print_size(c); }},
    {"print-function", [](Impl& p, NodeId c) { p.print_function(c); }},
    {"print-stats", [](Impl& p, NodeId c) { p.print_stats(c); }},
    {"push", [](Impl& p, NodeId c) { p.push(c); }},
    {"pop", [](Impl& p, NodeId c) { p.pop(c); }},
    {"foreach", [](Impl& p, NodeId c) { p.syntax.fail(c, "foreach can only stand at the top level"); }},
    {"include", [](Impl& p, NodeId c) { p.include(c); }},
    {"input", [](Impl& p, NodeId c) { p.add_input(c); }},
    {"output", [](Impl& p, NodeId c) { p.output_command(c); }},
};

/// The folder of a file; the working folder where that cannot be found out.
std::string folder_of(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  return failed ? "." : whole.parent_path().string();
}

} // namespace

EggProgram::Impl::Impl(EggOptions given) : options(std::move(given)), schema(syntax) { add_builtins(*this); }

void EggProgram::Impl::run_text(std::string file, std::string text) {
  const std::vector<NodeId> commands_read = syntax.parse(std::move(file), std::move(text));
  add_big_numbers(*this);
  const auto all = expand_foreach(syntax, commands_read);
  // What rules matched is kept where somebody will ask.
  if (std::any_of(all.begin(), all.end(), [&](NodeId c) { return syntax.head(c) == "explain"; }))
    graph.record_substitutions(true);
  for (const NodeId command : all) run_command(command);
}

void EggProgram::Impl::run_command(NodeId command) {
  const std::string_view head = syntax.head(command);
  if (head.empty()) syntax.fail(command, "expected a command in parentheses, such as (let $x (Num 1))");
  try {
    for (const CommandEntry& entry : commands)
      if (entry.head == head) return entry.run(*this, command);
    action(command);
  } catch (const ProgramError&) {
    throw;
  } catch (const Error& error) {
    // What the engine says gets the place of the command, unless it has one already.
    const std::string text = error.what();
    if (text.find("\n  ") != std::string::npos) throw;
    throw Error(syntax.message(syntax.span(command), text));
  }
}

void EggProgram::Impl::fail_run(NodeId at, std::string_view text) const {
  throw Error(syntax.message(syntax.span(at), text));
}

void EggProgram::Impl::fail_command(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() != 2 || !syntax.is_list(items[1])) syntax.fail(command, "usage: (fail <command>)");
  const NodeId inner = items[1];
  if (syntax.head(inner) == "include") syntax.fail(command, "include cannot stand in (fail ...)");
  try {
    run_command(inner);
  } catch (const ProgramError&) {
    throw; // a mistake in the text is not a failure of the command
  } catch (const LimitError&) {
    throw;
  } catch (const Error&) {
    return;
  }
  fail_run(command, "this command should have failed");
}

std::string EggProgram::Impl::find_file(NodeId node) const {
  if (syntax[node].kind != NodeKind::string) syntax.fail(node, "expected the name of a file in quotes");
  const std::string name(syntax.text(syntax[node].symbol));
  // Beside the file that names it, in the folders above that, and in the working folder.
  if (!folders.empty() && std::filesystem::path(name).is_relative()) {
    for (std::filesystem::path folder = folders.back();; folder = folder.parent_path()) {
      const std::string path = (folder / name).string();
      if (file_exists(path)) return path;
      if (folder.empty() || folder == folder.parent_path()) break;
    }
  }
  return name;
}

void EggProgram::Impl::include(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() != 2) syntax.fail(command, "usage: (include \"<file>\")");
  if (!options.files) syntax.fail(command, "files cannot be read here");
  const std::string path = find_file(items[1]);
  if (include_depth >= max_include_depth)
    syntax.fail(command, fmt::format("files are included deeper than {} levels", max_include_depth));
  Result<std::string> text = read_file(path);
  if (!text.ok()) fail_run(items[1], text.error());
  folders.push_back(folder_of(path));
  ++include_depth;
  const auto leave = [this] {
    --include_depth;
    folders.pop_back();
  };
  try {
    run_text(path, std::move(*text));
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

void EggProgram::Impl::push(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() > 2) syntax.fail(command, "usage: (push <number>?)");
  const uint64_t times = items.size() == 2 ? count(items[1], "how often to push") : 1;
  if (saved.size() + times > max_pushes)
    fail_run(command, fmt::format("more than {} copies are kept", max_pushes));
  for (uint64_t i = 0; i < times; ++i) {
    graph.push();
    saved.push_back({schema, rulesets, global_ops});
  }
}

void EggProgram::Impl::pop(NodeId command) {
  const auto items = syntax.children(command);
  if (items.size() > 2) syntax.fail(command, "usage: (pop <number>?)");
  const uint64_t times = items.size() == 2 ? count(items[1], "how often to pop") : 1;
  for (uint64_t i = 0; i < times; ++i) {
    if (saved.empty()) fail_run(command, "there is no push left to go back to");
    graph.pop();
    Saved& last = saved.back();
    schema = std::move(last.schema);
    rulesets = std::move(last.rulesets);
    global_ops = std::move(last.global_ops);
    saved.pop_back();
  }
}

// ---- options of commands

std::vector<EggProgram::Impl::Option> EggProgram::Impl::options_of(std::span<const NodeId> nodes) const {
  const auto is_key = [&](NodeId node) {
    return syntax.is_symbol(node) && syntax.text(syntax[node].symbol).starts_with(':');
  };
  std::vector<Option> out;
  for (size_t i = 0; i < nodes.size();) {
    if (!is_key(nodes[i])) syntax.fail(nodes[i], "expected an option, which starts with ':'");
    size_t end = i + 1;
    while (end < nodes.size() && !is_key(nodes[end])) ++end;
    out.push_back({syntax.text(syntax[nodes[i]].symbol), nodes[i], nodes.subspan(i + 1, end - i - 1)});
    for (size_t j = 0; j + 1 < out.size(); ++j)
      if (out[j].name == out.back().name)
        syntax.fail(nodes[i], fmt::format("{} stands here twice", out[j].name));
    i = end;
  }
  return out;
}

void EggProgram::Impl::unknown_option(const Option& option, std::string_view known) const {
  syntax.fail(option.node, fmt::format("unknown option '{}'; known: {}", option.name, known));
}

NodeId EggProgram::Impl::one_value(const Option& option, std::string_view what) const {
  if (option.values.size() != 1) syntax.fail(option.node, fmt::format("{} takes {}", option.name, what));
  return option.values[0];
}

void EggProgram::Impl::no_value(const Option& option) const {
  if (!option.values.empty()) syntax.fail(option.values[0], fmt::format("{} takes no value", option.name));
}

std::string EggProgram::Impl::string_value(const Option& option) const {
  const NodeId node = one_value(option, "a string");
  if (syntax[node].kind != NodeKind::string) syntax.fail(node, fmt::format("{} takes a string", option.name));
  return std::string(syntax.text(syntax[node].symbol));
}

uint64_t EggProgram::Impl::count(NodeId node, std::string_view what) const {
  if (syntax[node].kind != NodeKind::integer || syntax[node].integer < 0)
    syntax.fail(node, fmt::format("expected {}: an integer that is not negative", what));
  return static_cast<uint64_t>(syntax[node].integer);
}

Symbol EggProgram::Impl::name(NodeId node, std::string_view what) const {
  if (!syntax.is_symbol(node)) syntax.fail(node, fmt::format("expected {}", what));
  const std::string_view text = syntax.text(syntax[node].symbol);
  if (text.starts_with(':')) syntax.fail(node, fmt::format("expected {}, found the option '{}'", what, text));
  if (text.starts_with('@'))
    syntax.fail(node, fmt::format("'{}': names that start with '@' are reserved", text));
  return syntax[node].symbol;
}

std::span<const NodeId> EggProgram::Impl::list(NodeId node, std::string_view what) const {
  if (!syntax.is_list(node)) syntax.fail(node, fmt::format("expected {} in parentheses", what));
  return syntax.children(node);
}

// ---- the public class

EggProgram::EggProgram(EggOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
EggProgram::~EggProgram() = default;
EggProgram::EggProgram(EggProgram&&) noexcept = default;
EggProgram& EggProgram::operator=(EggProgram&&) noexcept = default;

SortId EggProgram::add_sort(HostSort host) {
  Impl& p = *impl_;
  SortSpec spec;
  spec.name = host.name;
  spec.kind = host.rebuild ? SortKind::container : SortKind::value;
  spec.rebuild = std::move(host.rebuild);
  spec.print = std::move(host.print);
  spec.parse = std::move(host.parse);
  Sort sort;
  sort.name = p.syntax.symbols().intern(host.name);
  sort.type = SortType::host;
  sort.holds_classes = spec.kind == SortKind::container;
  if (p.schema.find(sort.name).kind != NameKind::none)
    throw Error(fmt::format("the name '{}' of a sort is taken", host.name));
  const SortId id = p.graph.add_sort(std::move(spec));
  LUMINAL_CHECK(id == p.schema.sorts.size(), "sort {}", host.name);
  p.schema.declare(sort.name, NameKind::sort, id, 0);
  p.schema.sorts.push_back(std::move(sort));
  return id;
}

namespace {
Overload overload_of(const Schema& schema, const std::vector<std::string>& inputs,
                     const std::string& output) {
  const auto sort = [&](const std::string& name) {
    if (name == "*") return any_sort;
    const SortId id = schema.find_sort(name);
    if (id == no_sort) throw Error(fmt::format("there is no sort '{}'", name));
    return id;
  };
  Overload overload;
  for (const std::string& name : inputs) overload.inputs.push_back(sort(name));
  overload.output = sort(output);
  return overload;
}
} // namespace

void EggProgram::add_primitive(HostPrimitive host) {
  if (host.variadic && host.inputs.size() != 1)
    throw Error(fmt::format("the variadic primitive '{}' needs one sort for all arguments", host.name));
  Overload overload = overload_of(impl_->schema, host.inputs, host.output);
  overload.variadic = host.variadic;
  overload.reads = host.reads;
  egraph::add_primitive(*impl_, host.name, std::move(overload), std::move(host.call), host.thread_safe);
}

void EggProgram::add_action(HostAction host) {
  Overload overload = overload_of(impl_->schema, host.inputs, host.output);
  overload.writes = true;
  overload.id = static_cast<uint32_t>(impl_->host_actions.size());
  impl_->schema.add_primitive(host.name, std::move(overload));
  impl_->host_actions.push_back(std::move(host));
}

void EggProgram::define(std::string_view global, EggValue value) {
  Impl& p = *impl_;
  const Symbol name = p.syntax.symbols().intern(global);
  if (p.schema.find(name).kind != NameKind::none) throw Error(fmt::format("the name '{}' is taken", global));
  p.schema.declare(name, NameKind::global, static_cast<uint32_t>(p.schema.globals.size()), 0);
  p.schema.globals.push_back({name, value.sort, value.value});
  p.global_ops.push_back(absent);
}

void EggProgram::run(std::string text, std::string file) {
  impl_->run_text(std::move(file), std::move(text));
}

void EggProgram::run_file(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text.ok()) throw Error(text.error());
  impl_->folders.push_back(folder_of(path));
  try {
    impl_->run_text(path, std::move(*text));
  } catch (...) {
    impl_->folders.pop_back();
    throw;
  }
  impl_->folders.pop_back();
}

uint64_t EggProgram::saturate(std::string_view name, uint64_t most) {
  Impl& p = *impl_;
  const auto found = p.schema.find(p.syntax.symbols().intern(name));
  if (!name.empty() && found.kind != NameKind::ruleset)
    throw Error(fmt::format("there is no ruleset '{}'", name));
  for (uint64_t i = 0; i < most; ++i)
    if (!p.run_once(name.empty() ? 0 : found.index, nullptr, 0).changed) return i + 1;
  return most;
}

EggValue EggProgram::evaluate(std::string expression) {
  const auto nodes = impl_->syntax.parse("<expression>", std::move(expression));
  if (nodes.size() != 1) throw Error("expected one expression");
  return impl_->evaluate(nodes[0], no_sort);
}

bool EggProgram::holds(std::string facts) {
  const auto nodes = impl_->syntax.parse("<facts>", std::move(facts));
  return impl_->holds(check_query(impl_->schema, nodes));
}

EggExtracted EggProgram::extract(EggValue value) {
  TermWriter writer(*impl_, {value.sort});
  return {writer.text(value.sort, value.value), writer.cost(value.sort, value.value)};
}

std::string EggProgram::print(EggValue value) { return extract(value).text; }

SortId EggProgram::sort(std::string_view name) const {
  const SortId id = impl_->schema.find_sort(name);
  if (id == no_sort) throw Error(fmt::format("there is no sort '{}'", name));
  return id;
}

OpId EggProgram::op(std::string_view function) const {
  const NameEntry entry = impl_->schema.find(impl_->syntax.symbols().intern(function));
  if (entry.kind != NameKind::function) throw Error(fmt::format("there is no function '{}'", function));
  return impl_->schema.functions[entry.index].op;
}

RulesetId EggProgram::ruleset(std::string_view name) const {
  if (name.empty()) return impl_->rulesets[0].id;
  const NameEntry entry = impl_->schema.find(impl_->syntax.symbols().intern(name));
  if (entry.kind != NameKind::ruleset) throw Error(fmt::format("there is no ruleset '{}'", name));
  if (impl_->rulesets[entry.index].combined)
    throw Error(fmt::format("'{}' is a combined ruleset, expected one of its parts", name));
  return impl_->rulesets[entry.index].id;
}

EggValue EggProgram::last_class() const {
  const auto& globals = impl_->schema.globals;
  for (size_t i = globals.size(); i-- > 0;)
    if (impl_->schema.sorts[globals[i].sort].type == SortType::classes)
      return {globals[i].sort, globals[i].value};
  throw Error("no global of this program is a class");
}

std::string_view EggProgram::sort_name(SortId sort) const { return impl_->schema.sort_name(sort); }
EGraph& EggProgram::graph() { return impl_->graph; }
const EGraph& EggProgram::graph() const { return impl_->graph; }
ValuePool& EggProgram::values() { return impl_->pool; }
Value EggProgram::string(std::string_view text) { return impl_->syntax.symbols().intern(text); }
std::string_view EggProgram::string_of(Value value) const { return impl_->syntax.text(value); }
const EggTotals& EggProgram::totals() const { return impl_->totals; }
std::string EggProgram::sizes() const { return impl_->all_sizes(); }
uint64_t EggProgram::bytes() const {
  return impl_->graph.bytes() + impl_->pool.bytes() + impl_->syntax.bytes();
}

std::string format_egg(std::string text, std::string file) {
  Syntax syntax;
  const auto nodes = syntax.parse(std::move(file), std::move(text));
  return syntax.print_program(nodes);
}

} // namespace luminal::egraph
