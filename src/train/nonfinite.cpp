// train/nonfinite.cpp -- where the first number came from that is not finite: terms are looked at in
// their order, some hundred in one program, without the updates of the step.
#include "base/text.h"
#include "luminal/functions.h"
#include "luminal/inspect.h"
#include "luminal/train.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

constexpr size_t terms_a_program = 200;

/// What the graph gives back and changes, put aside for a while.
class WithoutResults {
public:
  explicit WithoutResults(GraphState& g) : g_(g), options_(g.options) { swap(); }
  ~WithoutResults() {
    swap();
    g_.options = options_;
  }
  WithoutResults(const WithoutResults&) = delete;

private:
  void swap() {
    std::swap(g_.kept, kept_);
    std::swap(g_.updates, updates_);
    std::swap(g_.effects, effects_);
    g_.stale = true;
  }
  GraphState& g_;
  CompileOptions options_;
  decltype(GraphState::kept) kept_;
  decltype(GraphState::updates) updates_;
  decltype(GraphState::effects) effects_;
};

/// What results and updates are made from.
IdVector<NodeId, bool> needed_nodes(const GraphState& g) {
  IdVector<NodeId, bool> needed(g.end_node.index());
  const auto need = [&](NodeId id) { needed[id] = true; };
  for (const auto& [id, _] : g.kept) need(id);
  for (const auto& [_, next] : g.updates) need(next);
  for (NodeId id : needed.ids_down())
    if (needed[id])
      for (NodeId input : g.builder[id].inputs) need(input);
  return needed;
}

/// Masks are views and constants that say so.
bool may_be_infinite(const Node& node) {
  return node.kind == NodeKind::view || node.kind == NodeKind::constant;
}

NonFinite described(const GraphState& g, NodeId id, bool nan) {
  const Node& node = g.builder[id];
  NonFinite found{std::string(to_string(node.kind)), to_string(node.type()), nan};
  if (const auto* input = std::get_if<InputAttr>(&node.attr)) {
    found.operation = fmt::format("{} {}",
                                  input->role == Role::state    ? "the state"
                                  : input->role == Role::weight ? "the weight"
                                                                : "the input",
                                  input->name);
    return found;
  }
  // "log at model.cpp:41, its gradient"; movements and results of tuples are told by what they read.
  NodeId at = id;
  while (g.builder[at].origin.empty() && !g.builder[at].inputs.empty())
    at = *std::max_element(g.builder[at].inputs.begin(), g.builder[at].inputs.end());
  if (!g.builder[at].origin.empty())
    found.operation = at == id ? node.origin : fmt::format("{} of {}", found.operation, g.builder[at].origin);
  return found;
}

} // namespace

std::vector<NonFinite> find_nonfinite(Graph& graph, Where where) {
  const auto state = graph.state("find_nonfinite", where);
  GraphState& g = *state;
  const IdVector<NodeId, bool> needed = needed_nodes(g);
  std::vector<NodeId> terms;
  for (NodeId id : needed.ids()) {
    const Node& node = g.builder[id];
    if (needed[id] && !node.is_tuple() && is_float(node.type().dtype)) terms.push_back(id);
  }
  const WithoutResults aside(g);
  const int threads = g.options.threads;
  IdVector<NodeId, uint8_t> found(needed.size()); // 2: a NaN, 1: infinite
  std::vector<NonFinite> list;
  for (size_t begin = 0; begin < terms.size(); begin += terms_a_program) {
    const size_t end = std::min(terms.size(), begin + terms_a_program);
    std::vector<Tensor> worst;
    for (size_t i = begin; i < end; ++i) {
      const Tensor x = wrap(state, terms[i]);
      const Tensor number = luminal::select(x.isnan(), 2, luminal::select(x.isinf(), 1, 0)).cast(DType::i32);
      worst.push_back(number.rank() == 0 ? number : number.max());
      worst.back().keep(where);
    }
    graph.compile({.threads = threads, .cache = false}, where);
    graph.execute(where);
    const auto inputs_of = [&](NodeId id) {
      uint8_t most = 0;
      for (NodeId input : g.builder[id].inputs) most = std::max(most, found[input]);
      return most;
    };
    NodeId next = begin == 0 ? NodeId(0) : terms[begin - 1] + 1;
    for (size_t i = begin; i < end; ++i) {
      const NodeId id = terms[i];
      for (; next < id; ++next) // a tuple passes on what it reads: its results are looked at by themselves
        if (needed[next] && g.builder[next].is_tuple()) found[next] = inputs_of(next);
      const int own = worst[i - begin].element_count() == 0 ? 0 : std::max(0, worst[i - begin].item<int>());
      found[id] = uint8_t(own);
      const int before = inputs_of(id);
      if (own == 2 && before < 2) {
        list.push_back(described(g, id, true));
        return list;
      }
      if (own == 1 && before == 0 && list.empty() && !may_be_infinite(g.builder[id]))
        list.push_back(described(g, id, false));
    }
    for (Tensor& number : worst) number.drop(where);
  }
  return list;
}

} // namespace luminal
