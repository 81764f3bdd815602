// tensor/passes.cpp -- passes and rules on the terms of a graph. They work on copies: handles of
// the user name nodes of the graph itself.
#include "luminal/pattern.h"
#include "tensor/custom_rules.h"
#include "tensor/graph_state.h"

namespace luminal {

Pass passes_of(const GraphState& graph, const CompileOptions& options) {
  Pass asked = options.passes == passes::defaults() ? options.passes : checked(options.passes);
  if (const auto rules = pass_of_operations()) asked = checked(*rules) | asked;
  if (graph.passes.empty()) return asked;
  return checked(sequence(graph.passes)) | asked;
}

PassTable Graph::run(const Pass& pass, Where where) {
  auto table = std::make_shared<PassTable>();
  Module module = state("run", where)->snapshot();
  try {
    for (const Pass& earlier : state_->passes) earlier.run(module);
    timed(checked(pass), table).run(module);
  } catch (const Error& error) {
    std::string text = error.what();
    if (text.starts_with("[")) text = text.substr(text.find("] ") + 2);
    throw Error("run", text.substr(0, text.rfind(" at ")), where);
  }
  state_->passes.push_back(pass);
  state_->stale = true;
  return *table;
}

std::vector<Match> Graph::find(const Rules& rules, Where where) const {
  return rules.find(state("find", where)->snapshot());
}

std::string Graph::to_string(const Pass& pass, Where where) const {
  Module module = state("to_string", where)->snapshot();
  pass.run(module);
  return luminal::to_string(module);
}

} // namespace luminal
