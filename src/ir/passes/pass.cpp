// ir/passes/pass.cpp -- passes as values: sequences, loops, times, and the list of those that have
// a name.
#include "luminal/pass.h"
#include "ir/passes/edit.h"
#include "ir/text_names.h"
#include "luminal/error.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace luminal {

struct Pass::Data {
  std::string name, description;
  Work work;
  std::vector<Pass> parts;
};

namespace {

bool is_pass_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}
/// Letters of a composed name that a pass of its own could not have.
Pass composed(std::string name, std::string description, Pass::Work work) {
  for (char& c : name)
    if (!is_pass_name({&c, 1})) c = '-';
  return Pass(std::move(name), std::move(description), std::move(work));
}

/// What a caller knows of a module: inputs, results and states by name.
void expect_same_interface(const std::string& pass, const Module& before, const Module& after) {
  auto fail = [&](const std::string& what) { throw Error(fmt::format("[pass] {} {}", pass, what)); };
  const Function &f = before.entry(), &g = after.entry();
  if (before.symbols != after.symbols) fail("has changed the dimension symbols");
  if (f.params.size() != g.params.size())
    fail(fmt::format("has made {} inputs of {}", g.params.size(), f.params.size()));
  for (size_t i = 0; i < f.params.size(); ++i)
    if (!(f[f.params[i]].attr == g[g.params[i]].attr))
      fail(fmt::format("has changed input {}", std::get<InputAttr>(f[f.params[i]].attr).name));
  if (f.results.size() != g.results.size())
    fail(fmt::format("has made {} results of {}", g.results.size(), f.results.size()));
  for (size_t i = 0; i < f.results.size(); ++i) {
    const FunctionResult &x = f.results[i], &y = g.results[i];
    if (x.name != y.name || x.state != y.state || x.after != y.after)
      fail(fmt::format("has changed result {}", x.name));
    const TensorType &have = g[y.value].type(), &want = f[x.value].type();
    if (have.dtype != want.dtype || !same_shape(have.shape, want.shape, before.assumptions))
      fail(fmt::format("has made result {} {}, it was {}", x.name, to_string(have), to_string(want)));
  }
}

} // namespace

Pass::Pass(std::string name, std::string description, Work work) {
  if (!is_pass_name(name))
    throw Error(fmt::format("[pass] '{}' cannot name a pass: letters, digits, - and _ can", name));
  if (!work) throw Error(fmt::format("[pass] {} has nothing to do", name));
  data_ = std::make_shared<const Data>(Data{std::move(name), std::move(description), std::move(work), {}});
}
const std::string& Pass::name() const { return data_->name; }
const std::string& Pass::description() const { return data_->description; }
int64_t Pass::run(Module& module) const { return data_->work(module); }
const std::vector<Pass>& Pass::parts() const { return data_->parts; }

Pass sequence(std::vector<Pass> parts, std::string name) {
  std::string joined;
  for (const Pass& part : parts) joined += (joined.empty() ? "" : ",") + part.name();
  auto work = [parts](Module& module) {
    int64_t changes = 0;
    for (const Pass& part : parts) changes += part.run(module);
    return changes;
  };
  return Pass(std::make_shared<const Pass::Data>(
      Pass::Data{name.empty() ? joined : std::move(name), "in order: " + joined, std::move(work), parts}));
}
Pass operator|(const Pass& first, const Pass& second) {
  std::vector<Pass> parts = first.parts().empty() ? std::vector{first} : first.parts();
  if (second.parts().empty())
    parts.push_back(second);
  else
    parts.insert(parts.end(), second.parts().begin(), second.parts().end());
  return sequence(std::move(parts));
}

Pass looped(const Pass& pass, int most) {
  if (most < 1)
    throw Error(fmt::format("[looped] {} times {}: at least once is expected", most, pass.name()));
  return composed("looped-" + pass.name(),
                  fmt::format("{}, until nothing changes, at most {} times", pass.name(), most),
                  [pass, most](Module& module) {
                    int64_t total = 0;
                    for (int round = 0; round < most; ++round) {
                      const int64_t changes = pass.run(module);
                      total += changes;
                      if (changes == 0) break;
                    }
                    return total;
                  });
}

Pass timed(const Pass& pass, std::shared_ptr<PassTable> table) {
  if (!table) throw Error("[timed] there is no table to write to");
  if (!pass.parts().empty()) {
    std::vector<Pass> parts;
    for (const Pass& part : pass.parts()) parts.push_back(timed(part, table));
    return sequence(std::move(parts), pass.name());
  }
  return Pass(pass.name(), pass.description(), [pass, table](Module& module) {
    PassTime row;
    row.name = pass.name();
    row.nodes_before = node_count(module);
    const auto start = std::chrono::steady_clock::now();
    row.changes = pass.run(module);
    row.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    row.nodes_after = node_count(module);
    table->rows.push_back(row);
    return row.changes;
  });
}

Pass checked(const Pass& pass) {
  if (!pass.parts().empty()) {
    std::vector<Pass> parts;
    for (const Pass& part : pass.parts()) parts.push_back(checked(part));
    return sequence(std::move(parts), pass.name());
  }
  return composed(pass.name(), pass.description() + "; then verified", [pass](Module& module) {
    const Module before = module;
    const int64_t changes = pass.run(module);
    if (auto mistakes = verify(module); !mistakes.empty())
      throw Error(
          fmt::format("[pass] {} has made a module that is not well formed: {}", pass.name(), mistakes[0]));
    return changes;
  });
}

std::string PassTable::to_string() const {
  size_t width = 4;
  for (const PassTime& row : rows) width = std::max(width, row.name.size());
  std::string text =
      fmt::format("{:<{}} {:>10} {:>8} {:>8} {:>8}\n", "pass", width, "ms", "before", "after", "changes");
  for (const PassTime& row : rows)
    text += fmt::format("{:<{}} {:>10.3f} {:>8} {:>8} {:>8}\n", row.name, width, row.ms, row.nodes_before,
                        row.nodes_after, row.changes);
  return text;
}

namespace {

std::optional<NodeId> simpler(passes::Rebuild& r, const Node& node) {
  if (auto id = passes::view_rule(r, node, Numerics::exact)) return id;
  if (auto id = passes::known_indices_rule(r, node)) return id;
  if (auto id = passes::hole_axes_rule(r, node)) return id;
  if (auto id = passes::scan_order_rule(r, node)) return id;
  if (auto id = passes::scatter_order_rule(r, node)) return id;
  if (auto id = passes::fold_order_rule(r, node)) return id;
  if (auto id = passes::fold_digits_rule(r, node)) return id;
  if (auto id = passes::constant_rule(r, node, 4096)) return id;
  if (auto id = passes::arithmetic_rule(r, node, Numerics::exact)) return id;
  if (auto id = passes::reduction_rule(r, node, Numerics::exact)) return id;
  return passes::commuted(r, node);
}

/// One walk: what a rule makes goes through the rules again, until none has anything to say.
int64_t simplify(Module& module) {
  int64_t changes = 0;
  for (Function& f : module.functions)
    changes += passes::Rebuild::walk(f, &module, [](passes::Rebuild& r, Node node) -> NodeId {
      std::optional<NodeId> best;
      for (int steps = 0; steps < 16; ++steps) {
        const NodeId known = r.end_id();
        const auto id = simpler(r, node);
        if (!id) break;
        ++r.changes;
        best = id;
        if (*id < known) break; // it has been here already
        node = r[*id];
      }
      return best ? *best : r.put(std::move(node));
    });
  return changes;
}

template <class Rule> int64_t walk_all(Module& module, const Rule& rule) {
  int64_t changes = 0;
  for (Function& f : module.functions)
    changes += passes::Rebuild::walk(f, &module, [&](passes::Rebuild& r, Node node) -> NodeId {
      if (auto id = rule(r, node)) return ++r.changes, *id;
      return r.put(std::move(node));
    });
  return changes;
}

} // namespace

Pass text_pass(std::string name, std::string description,
               std::function<std::string(const std::string& module)> edit) {
  if (!edit) throw Error(fmt::format("[text_pass] {} has no function", name));
  return Pass(name, std::move(description), [name, edit = std::move(edit)](Module& module) -> int64_t {
    const std::string before = to_string(module);
    const std::string after = edit(before);
    if (after == before) return 0;
    Module parsed = parse_module(after, name);
    expect_same_interface(name, module, parsed);
    module = std::move(parsed);
    return 1;
  });
}

namespace passes {

static std::string name_with(const char* name, Numerics allowed) {
  const char* const suffixes[] = {"", "-reassoc", "-range"};
  return std::string(name) + suffixes[int(allowed)];
}

Pass common_subexpressions() {
  return Pass("cse", "equal values, functions and results become one", [](Module& module) {
    int64_t changes = walk_all(module, [](Rebuild& r, const Node& node) { return commuted(r, node); });
    return changes + merge_functions(module);
  });
}
Pass dead_code() { return Pass("dead-code", "removes what no result of the entry needs", remove_dead); }
Pass constants(int64_t limit) {
  return Pass("constants", "computes what depends on constants only", [limit](Module& module) {
    return walk_all(module, [&](Rebuild& r, const Node& node) { return constant_rule(r, node, limit); });
  });
}
Pass arithmetic(Numerics allowed) {
  return Pass(name_with("arithmetic", allowed), "operations that change nothing, or two that are one",
              [allowed](Module& module) {
                return walk_all(
                    module, [&](Rebuild& r, const Node& node) { return arithmetic_rule(r, node, allowed); });
              });
}
Pass reductions(Numerics allowed) {
  return Pass(name_with("reductions", allowed), "folds over nothing, over what does not vary, and of folds",
              [allowed](Module& module) {
                return walk_all(
                    module, [&](Rebuild& r, const Node& node) { return reduction_rule(r, node, allowed); });
              });
}
Pass views() {
  return Pass("views", "chains of views become one view", [](Module& module) {
    return walk_all(module, [](Rebuild& r, const Node& node) { return view_rule(r, node, Numerics::exact); });
  });
}
Pass defaults() {
  static const Pass pass = sequence(
      {Pass("simplify", "views, constants, arithmetic, reductions and common operands in one walk", simplify),
       Pass("folds", "a fold that is a component of another one is read there", merge_folds),
       Pass("functions", "equal functions and results of functions become one", merge_functions),
       dead_code()},
      "default");
  return pass;
}
Pass none() {
  return Pass("none", "changes nothing", [](Module&) -> int64_t { return 0; });
}

} // namespace passes

const std::vector<Pass>& all_passes() {
  using namespace passes;
  static const std::vector<Pass> list{common_subexpressions(),
                                      dead_code(),
                                      constants(),
                                      arithmetic(),
                                      arithmetic(Numerics::range),
                                      reductions(),
                                      reductions(Numerics::reassoc),
                                      reductions(Numerics::range),
                                      views(),
                                      depth_first(),
                                      defaults(),
                                      none()};
  return list;
}

Pass parse_passes(std::string_view names) {
  std::vector<Pass> chosen;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string_view name = names.substr(at, end - at);
    const auto found = std::find_if(all_passes().begin(), all_passes().end(),
                                    [&](const Pass& p) { return p.name() == name; });
    if (found == all_passes().end()) {
      std::string known;
      for (const Pass& p : all_passes()) known += (known.empty() ? "" : ", ") + p.name();
      throw Error(fmt::format("[passes] there is no pass '{}'; the passes are {}", name, known));
    }
    chosen.push_back(*found);
    at = end + 1;
  }
  return chosen.size() == 1 ? chosen[0] : sequence(std::move(chosen));
}

int64_t node_count(const Module& module) {
  int64_t count = 0;
  for (const Function& f : module.functions) count += int64_t(f.nodes.size());
  return count;
}

} // namespace luminal
