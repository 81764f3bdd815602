// ir/passes/dead.cpp -- what no result of the entry needs: nodes, functions, and results,
// parameters and carried values of inner functions.
//
// A function whose host nodes do something keeps its results and parameters. So do functions of
// conditions (cond, while), whose signatures are tied together.
#include "ir/passes/edit.h"
#include <algorithm>
#include <set>

namespace luminal::passes {
namespace {

struct Site {
  size_t function;
  NodeId node;
};
enum class Use : uint8_t { none, call, loop, tied };

class DeadCode {
public:
  explicit DeadCode(Module& module) : m_(module) {}

  int64_t run() {
    int64_t total = 0;
    for (;;) {
      int64_t changes = 0;
      for (Function& f : m_.functions) changes += sweep(f) + shorten(f);
      changes += unreachable();
      if (m_.functions.size() > 1) {
        find_sites();
        for (size_t k = 0; k + 1 < m_.functions.size(); ++k) changes += signature(k);
      }
      total += changes;
      if (changes == 0) return total;
    }
  }

private:
  template <class F> static void each_callee(const Node& node, F&& f) {
    if (auto* call = std::get_if<CallAttr>(&node.attr)) f(call->function, Use::call);
    if (auto* loop = std::get_if<LoopAttr>(&node.attr)) {
      f(loop->body, loop->condition.empty() ? Use::loop : Use::tied);
      if (!loop->condition.empty()) f(loop->condition, Use::tied);
    }
    if (auto* cond = std::get_if<CondAttr>(&node.attr)) {
      f(cond->then_function, Use::tied);
      f(cond->else_function, Use::tied);
    }
  }

  /// Folds and scans over tuples end with the last component that is read: a component looks at
  /// earlier ones only.
  static int64_t shorten(Function& f) {
    std::map<NodeId, size_t> read; // components, from the first one on
    for (const Node& node : f.nodes)
      if (node.kind == NodeKind::get) {
        size_t& count = read[node.inputs[0]];
        count = std::max(count, size_t(std::get<GetAttr>(node.attr).index) + 1);
      }
    int64_t removed = 0;
    for (auto [id, count] : read) {
      Node& node = f.nodes[id];
      auto* fold = std::get_if<FoldAttr>(&node.attr);
      auto* scan = std::get_if<ScanAttr>(&node.attr);
      if ((!fold && !scan) || (fold && !fold->holes.empty()))
        continue; // the inputs behind the bodies have numbers
      Monoid& monoid = fold ? fold->monoid : scan->monoid;
      if (size_t(monoid.size()) == count) continue;
      const auto& components = monoid.components();
      removed += monoid.size() - int64_t(count);
      monoid = Monoid::intern({components.begin(), components.begin() + std::ptrdiff_t(count)});
      (fold ? fold->body_axes : scan->body_axes).resize(count);
      node.inputs.resize(count);
      node.types.resize(count);
    }
    return removed;
  }

  int64_t unreachable() {
    std::set<std::string> reached{m_.entry().name};
    for (size_t k = m_.functions.size(); k-- > 0;)
      if (reached.contains(m_.functions[k].name))
        for (const Node& node : m_.functions[k].nodes)
          each_callee(node, [&](const std::string& name, Use) { reached.insert(name); });
    int64_t removed = 0;
    std::erase_if(m_.functions, [&](const Function& f) {
      if (reached.contains(f.name)) return false;
      removed += int64_t(f.nodes.size());
      return true;
    });
    return removed;
  }

  void find_sites() {
    sites_.clear();
    use_.clear();
    effects_.clear();
    for (size_t k = 0; k < m_.functions.size(); ++k) {
      const Function& f = m_.functions[k];
      bool effect = false;
      for (NodeId id : f.nodes.ids()) {
        effect |= f[id].kind == NodeKind::host;
        each_callee(f[id], [&](const std::string& name, Use use) {
          Use& known = use_[name];
          known = known == Use::none || known == use ? use : Use::tied;
          sites_[name].push_back({k, id});
          effect |= effects_.contains(name);
        });
      }
      if (effect) effects_.insert(f.name);
    }
  }

  /// Is result `i` of the tuple read in its function?
  static std::vector<bool> read_results(const Function& f, NodeId tuple) {
    std::vector<bool> read(f[tuple].types.size(), false);
    for (const Node& node : f.nodes)
      if (node.kind == NodeKind::get && node.inputs[0] == tuple)
        read[size_t(std::get<GetAttr>(node.attr).index)] = true;
    return read;
  }
  /// Parameters that the results named in `live` need.
  static std::vector<bool> needed_params(const Function& f, const std::vector<bool>& live) {
    IdVector<NodeId, bool> needed(f.nodes.size(), false);
    for (size_t i = 0; i < f.results.size(); ++i)
      if (live[i]) needed[f.results[i].value] = true;
    for (NodeId id : f.nodes.ids_down())
      if (needed[id])
        for (NodeId input : f.nodes[id].inputs) needed[input] = true;
    std::vector<bool> params;
    for (NodeId p : f.params) params.push_back(needed[p]);
    return params;
  }

  int64_t signature(size_t k) {
    Function& f = m_.functions[k];
    const Use use = use_[f.name];
    if ((use != Use::call && use != Use::loop) || effects_.contains(f.name)) return 0;
    if (std::any_of(f.results.begin(), f.results.end(), [](const auto& r) { return !r.after.empty(); }))
      return 0;
    const std::vector<Site>& sites = sites_[f.name];
    std::vector<bool> live(f.results.size(), false);
    for (const Site& site : sites) {
      const std::vector<bool> read = read_results(m_.functions[site.function], site.node);
      for (size_t i = 0; i < live.size(); ++i) live[i] = live[i] || read[i];
    }
    size_t carried = 0, stepped = 0;
    if (use == Use::loop) {
      const auto& loop = std::get<LoopAttr>(m_.functions[sites[0].function][sites[0].node].attr);
      carried = size_t(loop.carried), stepped = size_t(loop.stepped);
      for (const Site& site : sites) { // one body, several loops: only where they agree
        const auto& other = std::get<LoopAttr>(m_.functions[site.function][site.node].attr);
        if (size_t(other.carried) != carried || size_t(other.stepped) != stepped) return 0;
      }
    }
    std::vector<bool> params = needed_params(f, live);
    for (bool grows = true;
         grows && carried > 0;) { // a carried value that a live one needs is live at the next step
      grows = false;
      for (size_t i = 0; i < carried; ++i)
        if (params[i + 1] && !live[i]) live[i] = grows = true;
      if (grows) params = needed_params(f, live);
    }
    if (use ==
        Use::loop) { // the step's number stays; a carried value has its parameter and its result, or neither
      params[0] = true;
      for (size_t i = 0; i < carried; ++i) params[i + 1] = live[i];
    }
    const auto dead_results = std::count(live.begin(), live.end(), false);
    const auto dead_params = std::count(params.begin(), params.end(), false);
    if (dead_results == 0 && dead_params == 0) return 0;
    if (size_t(dead_results) == live.size()) return 0; // nobody reads it: the caller's sweep takes it away
    for (const Site& site : sites)
      edit_site(m_.functions[site.function], site.node, live, params, use == Use::loop);
    edit_function(f, live, params);
    return dead_results + dead_params;
  }

  static void edit_site(Function& f, NodeId id, const std::vector<bool>& live,
                        const std::vector<bool>& params, bool is_loop) {
    Node& node = f.nodes[id];
    std::vector<NodeId> inputs;
    std::vector<TensorType> types;
    const size_t first = is_loop ? 1 : 0; // parameter of the first input
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (params[i + first]) inputs.push_back(node.inputs[i]);
    std::vector<int> place(live.size());
    for (size_t i = 0; i < live.size(); ++i) {
      place[i] = int(types.size());
      if (live[i]) types.push_back(node.types[i]);
    }
    if (auto* loop = std::get_if<LoopAttr>(&node.attr)) {
      auto left = [&](int from, int count) {
        return int(std::count(params.begin() + from, params.begin() + from + count, true));
      };
      const int carried = left(1, loop->carried), stepped = left(1 + loop->carried, loop->stepped);
      loop->carried = carried;
      loop->stepped = stepped;
    }
    node.inputs = std::move(inputs);
    node.types = std::move(types);
    for (Node& get : f.nodes)
      if (get.kind == NodeKind::get && get.inputs[0] == id) {
        int& index = std::get<GetAttr>(get.attr).index;
        index = place[size_t(index)];
      }
  }

  /// A parameter that goes is read by nothing any more once the dead results are gone.
  static void edit_function(Function& f, const std::vector<bool>& live, const std::vector<bool>& params) {
    std::vector<FunctionResult> results;
    for (size_t i = 0; i < live.size(); ++i)
      if (live[i]) results.push_back(std::move(f.results[i]));
    f.results = std::move(results);
    std::vector<NodeId> kept;
    for (size_t i = 0; i < params.size(); ++i)
      if (params[i]) kept.push_back(f.params[i]);
    const bool fewer = kept.size() != f.params.size();
    f.params = std::move(kept);
    if (sweep(f) == 0 && fewer) sweep(f);
  }

  Module& m_;
  std::map<std::string, std::vector<Site>> sites_;
  std::map<std::string, Use> use_;
  std::set<std::string> effects_;
};

} // namespace

int64_t remove_dead(Module& module) { return DeadCode(module).run(); }

} // namespace luminal::passes
