// models/onnx/control.cpp -- graphs within graphs: If, Loop, Scan, local functions. What is known
// decides while the graph is made; the rest becomes cond, while_loop and loop.
#include "base/text.h"
#include "models/onnx/operators.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::onnx {
namespace {

constexpr int64_t most_unrolled = 4096;
constexpr int64_t crossing = 64; // elements of a constant that a body repeats

/// The body cannot be one function: a shape changes from step to step, or an end is not known.
struct NotOneFunction {};

/// Values from outside that bodies read.
struct Captured {
  std::vector<std::string> names;
  std::vector<Value> values;
  std::vector<Tensor> tensors;
};
Captured capture(Node& n, std::initializer_list<const GraphData*> bodies) {
  Captured captured;
  std::set<std::string> names;
  for (const GraphData* body : bodies) names.merge(free_names(*body));
  for (const std::string& name : names) {
    Value& value = n.importer().find(n.scope(), name, n.title());
    if (value.dims || (value.constant && value.constant->count() <= crossing)) continue;
    captured.names.push_back(name);
    captured.tensors.push_back(n.importer().tensor_of(n.scope(), value));
    captured.values.push_back(value);
  }
  return captured;
}
Scope inner_scope(Node& n, Graph& graph) {
  Scope inner;
  inner.outer = &n.scope();
  inner.graph = &graph;
  inner.attributes = n.scope().attributes;
  inner.opsets = n.scope().opsets;
  return inner;
}
void bind(Scope& scope, const Captured& captured, const std::vector<Tensor>& tensors, size_t first = 0) {
  for (size_t i = 0; i < captured.names.size(); i++) {
    Value value = captured.values[i];
    value.tensor = tensors[first + i];
    scope.values[captured.names[i]] = std::move(value);
  }
}
Value tensor_value(const std::string& name, const Tensor& tensor, ElementType type, bool carried) {
  Value value;
  value.name = name;
  value.tensor = tensor;
  value.type = type;
  value.carried = carried;
  return value;
}
Value constant_value(const std::string& name, DType type, int64_t number, std::vector<int64_t> shape = {}) {
  Value value;
  value.name = name;
  value.type = element_type_of(type);
  HostTensor t{type, std::move(shape), std::vector<std::byte>(size_t(storage_bytes(type, 1)))};
  store_i64(type, t.data.data(), 0, number);
  value.constant = std::make_shared<const HostTensor>(std::move(t));
  return value;
}
void build_body(Node& n, Scope& scope, const GraphData& body) {
  n.importer().add_initializers(scope, body);
  n.importer().build_nodes(scope, body.nodes);
}
Value& output(Node& n, Scope& scope, const GraphData& body, size_t i) {
  return n.importer().find(scope, body.outputs[i].name, n.title());
}
bool same_type(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && a.shape() == b.shape(); }
std::optional<int64_t> known_integer(const Value& value) {
  if (!value.constant || value.constant->count() != 1) return {};
  return load_i64(value.constant->dtype, value.constant->data.data(), 0);
}

/// A loop of ONNX in the three forms that it can take here.
class LoopBuilder {
public:
  explicit LoopBuilder(Node& n) : n_(n), body_(n.body("body")), states_(n.inputs() < 2 ? 0 : n.inputs() - 2) {
    if (body_.inputs.size() != states_ + 2 || body_.outputs.size() < states_ + 1)
      n.refuse(fmt::format("has a body of {} inputs and {} results: for {} carried values {} inputs and at "
                           "least {} results are expected",
                           body_.inputs.size(), body_.outputs.size(), states_, states_ + 2, states_ + 1));
    scans_ = body_.outputs.size() - 1 - states_;
  }
  void build() {
    for (size_t i = 0; i < states_; i++) initial_.push_back(n_.value(i + 2));
    std::optional<int64_t> trips, condition = 1;
    std::optional<Dim> count; // of steps: a number, or an expression over dynamic dimensions
    if (n_.has(0)) {
      trips = known_integer(n_.value(0));
      if (trips) count = Dim(std::max<int64_t>(*trips, 0));
      if (const auto known = n_.known_dims(0); !trips && known && known->list.size() == 1)
        count = known->list[0];
    }
    if (n_.has(1)) condition = known_integer(n_.value(1));
    const bool never = trips && *trips <= 0; // the body may read the first of no values
    const auto function = [&] {
      try {
        counted(*count);
      } catch (const Error&) {
        if (!never) throw;
        throw NotOneFunction{};
      }
    };
    if (condition && *condition != 0 && count && attempt(function)) return;
    if (scans_ == 0 && !never && attempt([&] { conditional(trips); })) return;
    unrolled(trips, condition);
  }

private:
  template <class F> bool attempt(F&& form) {
    try {
      form();
      return true;
    } catch (const NotOneFunction&) {
    } catch (const NotKnown& unknown) {
      if (!unknown.carried) throw;
    }
    return false;
  }
  std::vector<Tensor> initial_tensors() {
    std::vector<Tensor> list;
    for (size_t i = 0; i < states_; i++) list.push_back(n_.in(i + 2));
    return list;
  }
  void bind_states(Scope& scope, const std::vector<Tensor>& carried, size_t first) {
    for (size_t i = 0; i < states_; i++) {
      const std::string& name = body_.inputs[i + 2].name;
      Value value = tensor_value(name, carried[first + i], initial_[i].type, true);
      value.depends = initial_[i].depends;
      scope.values[name] = std::move(value);
    }
  }
  std::vector<Tensor> next_states(Scope& scope, const std::vector<Tensor>& before, size_t first) {
    std::vector<Tensor> next;
    for (size_t i = 0; i < states_; i++) {
      next.push_back(n_.importer().tensor_of(scope, output(n_, scope, body_, i + 1)));
      if (!same_type(next.back(), before[first + i])) throw NotOneFunction{};
    }
    return next;
  }
  void counted(Dim count) {
    const Captured captured = capture(n_, {&body_});
    const std::vector<Tensor> start = initial_tensors();
    const auto made =
        n_.graph().loop(count, start, {}, captured.tensors,
                        [&](Graph& graph, Tensor step, const std::vector<Tensor>& carried,
                            const std::vector<Tensor>&, const std::vector<Tensor>& invariants) {
                          Scope scope = inner_scope(n_, graph);
                          bind(scope, captured, invariants);
                          scope.values[body_.inputs[0].name] =
                              tensor_value(body_.inputs[0].name, step, ElementType::i64, true);
                          scope.values[body_.inputs[1].name] =
                              constant_value(body_.inputs[1].name, DType::boolean, 1);
                          bind_states(scope, carried, 0);
                          build_body(n_, scope, body_);
                          if (known_integer(output(n_, scope, body_, 0)) != std::optional<int64_t>(1))
                            throw NotOneFunction{};
                          Graph::LoopResult result;
                          result.carried = next_states(scope, carried, 0);
                          for (size_t i = 0; i < scans_; i++) {
                            Value& value = output(n_, scope, body_, 1 + states_ + i);
                            result.stacked.push_back(n_.importer().tensor_of(scope, value));
                            scan_types_.push_back(value.type);
                          }
                          return result;
                        });
    for (size_t i = 0; i < states_; i++) n_.out(i, made.carried[i], initial_[i].type);
    for (size_t i = 0; i < scans_; i++) n_.out(states_ + i, made.stacked[i], scan_types_[i]);
  }
  void conditional(std::optional<int64_t> trips) {
    const Captured captured = capture(n_, {&body_});
    Graph& g = n_.graph();
    const Tensor limit = trips       ? g.constant(*trips, DType::i64)
                         : n_.has(0) ? n_.in(0).reshape({})
                                     : g.constant(int64_t(1) << 40, DType::i64);
    Tensor condition = n_.has(1) ? n_.in(1).reshape({}) : g.constant(1, DType::boolean);
    std::vector<Tensor> start{condition & (limit > 0)};
    for (const Tensor& t : initial_tensors()) start.push_back(t);
    std::vector<Tensor> invariants = captured.tensors;
    invariants.push_back(limit);
    const auto made = g.while_loop(
        Dim(trips ? std::max<int64_t>(*trips, 0) : int64_t(1) << 40), start, invariants,
        [](Graph&, const std::vector<Tensor>& carried, const std::vector<Tensor>&) { return carried[0]; },
        [&](Graph& graph, Tensor step, const std::vector<Tensor>& carried,
            const std::vector<Tensor>& outside) {
          Scope scope = inner_scope(n_, graph);
          bind(scope, captured, outside);
          scope.values[body_.inputs[0].name] =
              tensor_value(body_.inputs[0].name, step, ElementType::i64, true);
          scope.values[body_.inputs[1].name] = constant_value(body_.inputs[1].name, DType::boolean, 1);
          bind_states(scope, carried, 1);
          build_body(n_, scope, body_);
          const Tensor more = n_.importer().tensor_of(scope, output(n_, scope, body_, 0)).reshape({});
          std::vector<Tensor> next{more & (step + 1 < outside.back())};
          for (const Tensor& t : next_states(scope, carried, 1)) next.push_back(t);
          return next;
        });
    for (size_t i = 0; i < states_; i++) n_.out(i, made.carried[i + 1], initial_[i].type);
  }
  void unrolled(std::optional<int64_t> trips, std::optional<int64_t> condition) {
    if (n_.has(0) && !trips) trips = n_.integer_at(0);
    if (n_.has(1) && !condition) condition = n_.integer_at(1);
    std::vector<Value> states = initial_;
    std::vector<std::vector<Tensor>> scans(scans_);
    std::vector<ElementType> types(scans_, ElementType::undefined);
    bool more = !condition || *condition != 0;
    for (int64_t step = 0; more && (!trips || step < *trips); step++) {
      if (step >= most_unrolled)
        n_.refuse(fmt::format("makes more than {} steps from which shapes change: give it a smaller count",
                              most_unrolled));
      Scope scope = inner_scope(n_, n_.graph());
      scope.values[body_.inputs[0].name] = constant_value(body_.inputs[0].name, DType::i64, step);
      scope.values[body_.inputs[1].name] = constant_value(body_.inputs[1].name, DType::boolean, 1);
      for (size_t i = 0; i < states_; i++) scope.values[body_.inputs[i + 2].name] = states[i];
      build_body(n_, scope, body_);
      const Value& next = output(n_, scope, body_, 0);
      const auto known = known_integer(next);
      if (!known)
        throw NotKnown{
            fmt::format("{} changes shapes from step to step, and its condition is only known while it runs",
                        n_.title()),
            next.depends, next.carried};
      more = *known != 0;
      for (size_t i = 0; i < states_; i++) states[i] = output(n_, scope, body_, i + 1);
      for (size_t i = 0; i < scans_; i++) {
        Value& value = output(n_, scope, body_, 1 + states_ + i);
        scans[i].push_back(n_.importer().tensor_of(scope, value));
        types[i] = value.type;
      }
    }
    for (size_t i = 0; i < states_; i++) n_.out_value(i, states[i]);
    for (size_t i = 0; i < scans_; i++) {
      if (scans[i].empty())
        n_.refuse(
            "makes no step, so the shapes of its stacked results are not known: a count above 0 is needed");
      n_.out(states_ + i, stack(scans[i]), types[i]);
    }
  }

  Node& n_;
  const GraphData& body_;
  size_t states_, scans_ = 0;
  std::vector<Value> initial_;
  std::vector<ElementType> scan_types_;
};

/// One pass of Scan: values without a batch axis.
struct ScanCall {
  std::vector<Tensor> states, stepped;
  std::vector<ElementType> types; // of the body's results
  std::vector<Tensor> results;
};
void run_scan(Node& n, const GraphData& body, ScanCall& call, size_t first) {
  const Captured captured = capture(n, {&body});
  const auto made =
      n.graph().loop(call.stepped.at(0).dim(0), call.states, call.stepped, captured.tensors,
                     [&](Graph& graph, Tensor, const std::vector<Tensor>& carried,
                         const std::vector<Tensor>& slices, const std::vector<Tensor>& invariants) {
                       Scope scope = inner_scope(n, graph);
                       bind(scope, captured, invariants);
                       const auto put = [&](size_t i, const Tensor& t) {
                         scope.values[body.inputs[i].name] =
                             tensor_value(body.inputs[i].name, t, n.type(first + i), true);
                       };
                       for (size_t i = 0; i < carried.size(); i++) put(i, carried[i]);
                       for (size_t i = 0; i < slices.size(); i++) put(carried.size() + i, slices[i]);
                       build_body(n, scope, body);
                       Graph::LoopResult result;
                       call.types.clear();
                       for (size_t i = 0; i < body.outputs.size(); i++) {
                         Value& value = output(n, scope, body, i);
                         call.types.push_back(value.type);
                         (i < carried.size() ? result.carried : result.stacked)
                             .push_back(n.importer().tensor_of(scope, value));
                       }
                       return result;
                     });
  call.results = made.carried;
  call.results.insert(call.results.end(), made.stacked.begin(), made.stacked.end());
}

} // namespace

void call_function(Node& node, const FunctionData& function) {
  std::map<std::string, Attribute> attributes;
  for (const Attribute& a : function.defaults) attributes[a.name] = a;
  for (const Attribute& a : node.data().attributes)
    if (const Attribute* given = node.attribute(a.name)) {
      attributes[a.name] = *given;
      attributes[a.name].name = a.name;
    }
  Scope inner;
  inner.graph = &node.graph();
  inner.attributes = &attributes;
  inner.opsets = node.scope().opsets;
  for (const auto& [domain, version] : function.opsets) inner.opsets[domain] = version;
  std::set<std::string> missing;
  for (size_t i = 0; i < function.inputs.size(); i++) {
    if (node.has(i))
      inner.values[function.inputs[i]] = node.value(i);
    else
      missing.insert(function.inputs[i]);
  }
  if (missing.empty()) {
    node.importer().build_nodes(inner, function.nodes);
  } else {
    std::vector<NodeData> nodes = function.nodes;
    for (NodeData& n : nodes)
      for (std::string& name : n.inputs)
        if (missing.contains(name)) name.clear();
    node.importer().build_nodes(inner, nodes);
  }
  for (size_t i = 0; i < function.outputs.size(); i++)
    if (node.wants(i)) node.out_value(i, node.importer().find(inner, function.outputs[i], node.title()));
}

namespace ops {

void If(Node& n) {
  const GraphData &then = n.body("then_branch"), &otherwise = n.body("else_branch");
  if (then.outputs.size() != otherwise.outputs.size())
    n.refuse(fmt::format("has branches of {} and {} results: both must have as many", then.outputs.size(),
                         otherwise.outputs.size()));
  if (n.known(0)) {
    const GraphData& body = n.numbers(0).at(0) != 0 ? then : otherwise;
    Scope scope = inner_scope(n, n.graph());
    build_body(n, scope, body);
    for (size_t i = 0; i < body.outputs.size(); i++)
      if (n.wants(i)) n.out_value(i, output(n, scope, body, i));
    return;
  }
  const Captured captured = capture(n, {&then, &otherwise});
  std::vector<ElementType> types;
  std::vector<Dims> shapes;
  bool same = true;
  const auto side = [&](const GraphData& body) {
    return [&](Graph& graph, const std::vector<Tensor>& inputs) {
      Scope scope = inner_scope(n, graph);
      bind(scope, captured, inputs);
      build_body(n, scope, body);
      std::vector<Tensor> results;
      for (size_t i = 0; i < body.outputs.size(); i++) {
        Value& value = output(n, scope, body, i);
        results.push_back(n.importer().tensor_of(scope, value));
        if (types.size() <= i)
          types.push_back(value.type), shapes.push_back(results[i].shape());
        else
          same &= shapes[i] == results[i].shape();
      }
      if (!same)
        throw NotKnown{n.title() +
                           " has branches whose results have different shapes, and its condition is not "
                           "known while the graph is made",
                       n.value(0).depends, n.value(0).carried};
      return results;
    };
  };
  const auto made = n.graph().cond(n.in(0).reshape({}), captured.tensors, side(then), side(otherwise));
  for (size_t i = 0; i < made.size(); i++) n.out(i, made[i], types[i]);
}

void Loop(Node& n) { LoopBuilder(n).build(); }

void Scan(Node& n) {
  const GraphData& body = n.body("body");
  const int64_t scanned = n.integer("num_scan_inputs");
  const size_t first = n.opset() < 9 ? 1 : 0; // opset 8 has lengths first
  if (scanned < 1 || scanned > int64_t(n.inputs()) - int64_t(first))
    n.refuse(fmt::format("has num_scan_inputs = {}, expected 1 to {}", scanned,
                         int64_t(n.inputs()) - int64_t(first)));
  const auto scans = size_t(scanned);
  const size_t states = n.inputs() - first - scans;
  if (body.inputs.size() != states + scans || body.outputs.size() < states)
    n.refuse(
        fmt::format("has a body of {} inputs and {} results: {} inputs and at least {} results are expected",
                    body.inputs.size(), body.outputs.size(), states + scans, states));
  const size_t outputs = body.outputs.size() - states;
  if (first && n.has(0))
    n.refuse("has lengths of its own for each sequence, which is not supported: leave that input out");
  const auto list = [&](const char* name, size_t size) {
    auto values = n.integers(name, std::vector<int64_t>(size, 0));
    if (values.size() != size)
      n.refuse(fmt::format("has {} numbers in {}, {} are expected", values.size(), name, size));
    return values;
  };
  const auto directions = list(first ? "directions" : "scan_input_directions", scans);
  std::vector<int64_t> in_axes(scans, 0), out_axes(outputs, 0), out_directions(outputs, 0);
  if (!first)
    in_axes = list("scan_input_axes", scans), out_axes = list("scan_output_axes", outputs),
    out_directions = list("scan_output_directions", outputs);
  const int64_t batches = first ? n.extents(n.in(first))[0] : 1;
  std::vector<std::vector<Tensor>> results(body.outputs.size());
  ScanCall call;
  for (int64_t b = 0; b < batches; b++) {
    call.states.clear(), call.stepped.clear();
    for (size_t i = 0; i < states + scans; i++) {
      Tensor t = n.in(first + i);
      if (first) t = t.select(0, b);
      if (i < states) {
        call.states.push_back(t);
        continue;
      }
      const size_t k = i - states;
      t = t.movedim({axis_in(n, in_axes[k], t.rank())}, {0});
      call.stepped.push_back(directions[k] ? t.flip({0}) : t);
    }
    run_scan(n, body, call, first);
    for (size_t i = 0; i < call.results.size(); i++) {
      Tensor t = call.results[i];
      if (i >= states) {
        const size_t k = i - states;
        if (out_directions[k]) t = t.flip({0});
        t = t.movedim({0}, {axis_in(n, out_axes[k], t.rank())});
      }
      results[i].push_back(t);
    }
  }
  for (size_t i = 0; i < results.size(); i++)
    n.out(i, first ? stack(results[i]) : results[i][0], call.types[i]);
}

} // namespace ops
} // namespace luminal::onnx
