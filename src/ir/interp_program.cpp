// ir/interp_program.cpp -- which values the interpreter keeps, and the programs of those that it
// does not.
#include "ir/interp_program.h"
#include "base/check.h"
#include "ir/access.h"
#include "ir/infer.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::interp {
namespace {

/// A value whose computation takes more operations than this for one element is kept: bounds the
/// work where values are looked at through overlapping windows or shared again and again.
constexpr double most_operations = 256;

bool is_structure(NodeKind kind) { // their inputs are read as a whole, or in another function
  switch (kind) {
  case NodeKind::scatter:
  case NodeKind::sort:
  case NodeKind::collective:
  case NodeKind::call:
  case NodeKind::loop:
  case NodeKind::cond:
  case NodeKind::host:
  case NodeKind::custom: return true;
  default: return false;
  }
}

/// Two calls in a row in each of many functions are more levels than there are numbers.
constexpr int most_levels = 1 << 20;

/// Levels of recursion that a node of structure adds: itself and the deepest path through the
/// function that it runs lazily.
int own_depth(const Node& node, const std::map<std::string_view, int>& functions) {
  auto of = [&](const std::string& name) {
    auto at = functions.find(name);
    return at == functions.end() ? 0 : at->second;
  };
  if (auto* call = std::get_if<CallAttr>(&node.attr)) return 1 + of(call->function);
  if (auto* cond = std::get_if<CondAttr>(&node.attr))
    return 1 + std::max(of(cond->then_function), of(cond->else_function));
  if (auto* loop = std::get_if<LoopAttr>(&node.attr)) return 1 + of(loop->body) + of(loop->condition);
  return node.is_tuple() || node.kind == NodeKind::scatter || node.kind == NodeKind::collective;
}

} // namespace

std::map<std::string_view, int> function_depths(const Module& module) {
  std::map<std::string_view, int> depths;
  for (const Function& f : module.functions) { // callees come first
    IdVector<NodeId, int> depth(f.nodes.size(), 0);
    int deepest = 0;
    for (NodeId id : f.nodes.ids()) {
      for (NodeId input : f[id].inputs) depth[id] = std::max(depth[id], depth[input]);
      depth[id] = std::min(most_levels, depth[id] + own_depth(f[id], depths));
      deepest = std::max(deepest, depth[id]);
    }
    depths[f.name] = deepest;
  }
  return depths;
}

CompiledFunction::CompiledFunction(const Module& module, const Function& function,
                                   const std::map<std::string, int64_t>& symbols,
                                   const std::map<std::string_view, int>& depths)
    : module_(module), function_(function) {
  for (Expr s : module.symbols)
    if (auto at = symbols.find(std::string(s.name())); at != symbols.end())
      dimensions_.emplace(s, Expr(at->second));
  for (const Node& node : function.nodes) {
    std::vector<Extents> results;
    for (const TensorType& type : node.types) {
      Extents extents;
      int64_t count = 1;
      for (Expr e : type.shape) {
        extents.push_back(evaluate(e));
        if (extents.back() < 0)
          throw Error(
              fmt::format("[interp] @{}: the extent {} is {}", function.name, to_string(e), extents.back()));
        if (__builtin_mul_overflow(count, extents.back(), &count) || count > int64_t(1) << 40)
          throw Error(fmt::format("[interp] @{}: {} has too many elements", function.name, to_string(type)));
      }
      results.push_back(std::move(extents));
    }
    extents_.push_back(std::move(results));
  }
  decide_storage(depths);
}

int64_t CompiledFunction::evaluate(Expr e) const {
  Expr value = substitute(e, dimensions_);
  if (value.is_constant()) return value.value();
  auto result = luminal::evaluate(value, {});
  if (!result) throw Error(fmt::format("[interp] @{}: {}: {}", function_.name, to_string(e), result.error()));
  return *result;
}
int64_t CompiledFunction::count(Source s) const {
  int64_t n = 1;
  for (int64_t e : extents(s)) n *= e;
  return n;
}
Source CompiledFunction::resolve(NodeId id) const {
  int result = 0;
  for (;;) {
    const Node& node = function_[id];
    if (node.kind == NodeKind::get)
      result = std::get<GetAttr>(node.attr).index;
    else if (node.kind != NodeKind::fence)
      return {id, result};
    id = node.inputs[0];
  }
}

std::vector<NodeId> CompiledFunction::effects_below(NodeId id) const {
  IdVector<NodeId, bool> below(id.index() + 1, false);
  std::vector<NodeId> effects;
  below[id] = true;
  for (NodeId at : below.ids_down()) {
    if (!below[at]) continue;
    for (NodeId input : function_[at].inputs) below[input] = true;
    if (at != id && function_[at].kind == NodeKind::host) effects.push_back(at);
  }
  std::reverse(effects.begin(), effects.end());
  return effects;
}

void CompiledFunction::decide_storage(const std::map<std::string_view, int>& depths) {
  const size_t n = function_.nodes.size();
  IdVector<NodeId, bool> asked(n, false); // as a whole
  for (const FunctionResult& r : function_.results) asked[resolve(r.value).node] = true;
  for (const Node& node : function_.nodes)
    if (is_structure(node.kind))
      for (NodeId input : node.inputs) asked[resolve(input).node] = true;
  IdVector<NodeId, double> cost(n, 1);
  stored_.assign(n, false);
  depth_.assign(n, 0);
  for (NodeId id : function_.nodes.ids()) {
    const Node& node = function_[id];
    for (NodeId input : node.inputs) depth_[id] = std::max(depth_[id], depth_[input]);
    switch (node.kind) {
    case NodeKind::input:
    case NodeKind::constant: stored_[id] = true; continue;
    case NodeKind::get:
    case NodeKind::fence: cost[id] = cost[node.inputs[0]]; continue; // an alias of its input
    case NodeKind::iota:
    case NodeKind::random:
    case NodeKind::map:
    case NodeKind::cast:
    case NodeKind::bitcast:
    case NodeKind::view: break;
    default: // folds, scans and whatever has structure
      stored_[id] = true;
      depth_[id] = std::min(most_levels, depth_[id] + std::max(1, own_depth(node, depths)));
      continue;
    }
    double operations = 1, times = 1;
    if (auto* cast = std::get_if<BitcastAttr>(&node.attr))
      times = std::max(1, bits(cast->to) / bits(function_[node.inputs[0]].type().dtype));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      bool again = std::find(node.inputs.begin(), node.inputs.begin() + std::ptrdiff_t(i), node.inputs[i]) !=
                   node.inputs.begin() + std::ptrdiff_t(i);
      if (!again || node.kind == NodeKind::view)
        operations += times * (stored_[resolve(node.inputs[i]).node] ? 1 : cost[node.inputs[i]]);
    }
    cost[id] = operations;
    if (asked[id] || operations > most_operations) stored_[id] = true, cost[id] = 1, ++depth_[id];
  }
  if (n > 0 && *std::max_element(depth_.begin(), depth_.end()) >= most_levels)
    throw Error(fmt::format("[call] @{}: with its calls more than {} values wait for one another",
                            function_.name, most_levels));
}

/// Makes one program.
class Compiler {
public:
  Compiler(CompiledFunction& f, Program& program, const Shape& space) : f_(f), program_(program) {
    Context root;
    for (size_t d = 0; d < space.size(); ++d) root.axes.push_back(IndexRegister(d));
    program_.axes = program_.index_registers = int(space.size());
    root_ = context(std::move(root));
  }
  int root() const { return root_; }

  /// The value register of a node looked at in a context.
  ValueRegister value(NodeId id, int at, bool top = false) {
    Source s = f_.resolve(id);
    if (auto found = values_.find({s.node, s.result, at}); found != values_.end()) return found->second;
    ValueRegister out = !top && f_.stored(s.node) ? load(s, at) : compute(s.node, at);
    values_[{s.node, s.result, at}] = out;
    return out;
  }
  /// The context that sees the axes `axes` of another one.
  int project(int at, const std::vector<int>& axes) {
    Context c;
    c.mask = contexts_[size_t(at)].mask;
    for (int d : axes) c.axes.push_back(contexts_[size_t(at)].axes[size_t(d)]);
    return context(std::move(c));
  }
  /// The same place, for the lanes of a mask only.
  int masked(int at, MaskRegister mask) {
    Context c = contexts_[size_t(at)];
    c.mask = mask;
    return context(std::move(c));
  }
  /// Opens the holes of a node at a context: index registers, and the mask of lanes within range.
  /// Values of the holes go to `operands`.
  struct Opened {
    std::vector<IndexRegister> registers;
    MaskRegister mask = MaskRegister::all;
    std::vector<ValueRegister> operands;
  };
  Opened open(const Node& node, NodeId id, int at) {
    Opened result;
    const std::vector<Hole>& holes = holes_of(node.attr);
    result.mask = contexts_[size_t(at)].mask;
    for (size_t h = 0; h < holes.size(); ++h) {
      const Hole& hole = holes[h];
      NodeId operand = node.inputs[size_t(hole.input)];
      if (is_empty(f_.function()[operand].type().shape)) { // along an axis that no result of the fold has
        result.registers.push_back(number_index(hole.range.low));
        continue;
      }
      const ValueRegister x = value(operand, project(at, hole.axes));
      OpenHole i{.mask = result.mask, .x = x, .hole = &hole, .node = id};
      i.type = f_.function().nodes[operand].type().dtype;
      if (node.kind != NodeKind::fold)
        for (Expr extent : hole_extents(node.attr, f_.function()[node.inputs[0]].type().shape, h))
          i.extent = std::min(i.extent, f_.evaluate(extent));
      i.out = next_index();
      if (hole.policy == OutOfRange::fill) i.inside = result.mask = next_mask();
      result.registers.push_back(i.out);
      result.operands.push_back(x);
      program_.code.emplace_back(i);
    }
    return result;
  }
  /// With the sizes put in. Where it then divides by zero it stays as it is: that is an error of
  /// the points that ask, if there are any.
  Expr with_dimensions(Expr e) const {
    try {
      return substitute(e, f_.dimensions_);
    } catch (const Error&) {
      return e;
    }
  }
  bool is_empty(const Shape& space) const {
    return std::any_of(space.begin(), space.end(), [&](Expr extent) { return f_.evaluate(extent) == 0; });
  }
  /// The index register of an expression over the axes of a context and its holes.
  IndexRegister index(Expr e, const Shape& space, int at, const Opened& holes, const std::vector<Hole>& list,
                      MaskRegister mask, NodeId node, std::optional<bool> empty = {}) {
    if (empty.value_or(is_empty(space))) return number_index(0); // no point asks; what it divides by may be 0
    const Expr x = with_dimensions(e);
    const Context here = contexts_[size_t(at)];
    std::vector<Expr> symbols = symbols_of(x);
    std::vector<IndexRegister> registers;
    for (Expr s : symbols)
      if (auto size = f_.dimensions_.find(s); size != f_.dimensions_.end())
        registers.push_back(number_index(size->second.value()));
      else
        registers.push_back(register_of(s, space, here, holes, list));
    if (x.is_symbol()) return registers[0];
    if (x.is_constant()) return number_index(x.value());
    Affine affine = affine_terms(x);
    bool linear = std::all_of(affine.terms.begin(), affine.terms.end(),
                              [](const auto& term) { return term.first.is_symbol(); });
    ExprMap<Interval> box; // without overflow: the general way detects it
    for (size_t d = 0; d < space.size(); ++d)
      if (Expr axis = axis_symbol(int(d), space[d]); axis.is_symbol())
        box[axis] = {0, std::max<int64_t>(0, f_.evaluate(space[d]) - 1)};
    linear = linear && evaluate_range(x, box).is_bounded();
    if (!linear) return general(x, symbols, registers, mask, node);
    AffineIndex i{.constant = affine.constant};
    for (const auto& [symbol, coefficient] : affine.terms) {
      i.args.push_back(registers[size_t(std::ranges::find(symbols, symbol) - symbols.begin())]);
      i.weights.push_back(coefficient);
    }
    return remembered(x, MaskRegister::all, std::move(i));
  }
  /// `empty`: no point of the space is asked for.
  MaskRegister condition(Expr e, const Shape& space, int at, const Opened& holes,
                         const std::vector<Hole>& list, NodeId node, std::optional<bool> empty = {}) {
    if (empty.value_or(is_empty(space))) return holes.mask;
    const Expr x = with_dimensions(e);
    if (x.is_constant() && x.value() != 0) return holes.mask;
    NarrowMask i{.mask = holes.mask, .condition = index(x, space, at, holes, list, holes.mask, node, false)};
    i.out = next_mask();
    program_.code.emplace_back(i);
    return i.out;
  }
  /// Bounds that are not proved are checked lane by lane.
  void check(const Node& node, const std::vector<IndexRegister>& map, const Shape& space, MaskRegister mask,
             NodeId id) {
    const Extents& have = f_.extents(f_.resolve(node.inputs[0]));
    for (const BoundCheck& bound :
         bound_checks(node.attr, space, f_.function()[node.inputs[0]].type().shape, &f_.module_)) {
      if (in_bounds(bound) == Truth::yes) continue;
      program_.code.emplace_back(CheckBounds{.index = map[size_t(bound.axis)],
                                             .mask = mask,
                                             .extent = have[size_t(bound.axis)],
                                             .node = id,
                                             .axis = bound.axis});
    }
  }
  ValueRegister taint(ValueRegister x, const Opened& holes) {
    if (holes.operands.empty()) return x;
    return emit(TaintValue{.x = x, .holes = holes.operands});
  }

private:
  struct Context {
    std::vector<IndexRegister> axes;
    MaskRegister mask = MaskRegister::all;
    auto operator<=>(const Context&) const = default;
  };
  int context(Context c) {
    auto [at, fresh] = known_.try_emplace(c, int(contexts_.size()));
    if (fresh) contexts_.push_back(std::move(c));
    return at->second;
  }
  IndexRegister register_of(Expr symbol, const Shape& space, const Context& here, const Opened& holes,
                            const std::vector<Hole>& list) const {
    for (size_t d = 0; d < space.size(); ++d)
      if (symbol == axis_symbol(int(d), space[d])) return here.axes[d];
    for (size_t h = 0; h < list.size(); ++h)
      if (symbol == hole_symbol(int(h), list[h].range)) return holes.registers[h];
    throw Error(fmt::format("[interp] symbol {} has no value", symbol.name()));
  }
  IndexRegister next_index() { return IndexRegister(program_.index_registers++); }
  MaskRegister next_mask() { return MaskRegister(program_.mask_registers++); }
  template <class I> ValueRegister emit(I i) {
    const auto out = i.out = ValueRegister(program_.value_registers++);
    program_.code.emplace_back(std::move(i));
    return out;
  }
  /// The register of an index, which is computed once from the same arguments at the same lanes.
  template <class I> IndexRegister remembered(Expr x, MaskRegister mask, I i) {
    auto [found, fresh] = indices_.try_emplace({x, i.args, mask}, IndexRegister(program_.index_registers));
    if (!fresh) return found->second;
    i.out = next_index();
    program_.code.emplace_back(std::move(i));
    return found->second;
  }
  IndexRegister general(Expr x, std::span<const Expr> symbols, const std::vector<IndexRegister>& args,
                        MaskRegister mask, NodeId node) {
    return remembered(x, mask,
                      GeneralIndex{.mask = mask,
                                   .args = args,
                                   .expr = ExprProgram(std::span<const Expr>(&x, 1), symbols),
                                   .node = node});
  }
  IndexRegister number_index(int64_t number) {
    return remembered(Expr(number), MaskRegister::all, AffineIndex{.constant = number});
  }
  ValueRegister load(Source s, int at) {
    const Context& here = contexts_[size_t(at)];
    LoadValue i{.mask = here.mask, .source = s, .args = here.axes};
    const Extents& extents = f_.extents(s);
    i.strides.assign(extents.size(), 1);
    for (size_t d = extents.size(); d-- > 1;) i.strides[d - 1] = i.strides[d] * extents[d];
    return emit(std::move(i));
  }

  ValueRegister compute(NodeId id, int at) {
    const Node& node = f_.function()[id];
    const DType result = node.type().dtype;
    auto dtype_of = [&](NodeId input) { return f_.function()[input].type().dtype; };
    switch (node.kind) {
    case NodeKind::map: {
      const auto& attr = std::get<MapAttr>(node.attr);
      MapValues i{.op = attr.op, .user = attr.user_op.empty() ? nullptr : find_user_op(attr.user_op)};
      for (NodeId input : node.inputs) i.args.push_back(value(input, at));
      i.type = dtype_of(node.inputs.back()); // the last argument: of select, too, a value
      return emit(std::move(i));
    }
    case NodeKind::cast:
      return emit(CastValue{.x = value(node.inputs[0], at), .from = dtype_of(node.inputs[0]), .to = result});
    case NodeKind::iota: {
      const Expr e = std::get<IotaAttr>(node.attr).value;
      return emit(IndexValue{.index = index(e, node.type().shape, at, {}, {}, contexts_[size_t(at)].mask, id),
                             .type = result});
    }
    case NodeKind::random: return random(node, id, at);
    case NodeKind::bitcast: return bitcast(node, id, at);
    case NodeKind::view: return view(node, id, at);
    default: LUMINAL_CHECK(false, "{} is kept, not computed", to_string(node.kind)); return {};
    }
  }
  ValueRegister random(const Node& node, NodeId id, int at) {
    const MaskRegister mask = contexts_[size_t(at)].mask;
    const Expr counter = std::get<RandomAttr>(node.attr).counter;
    RandomValue i{.counter = index(counter, node.type().shape, at, {}, {}, mask, id),
                  .type = node.type().dtype};
    for (int word : {0, 1}) i.key[word] = value(node.inputs[0], context({{number_index(word)}, mask}));
    return emit(i);
  }
  ValueRegister bitcast(const Node& node, NodeId id, int at) {
    const DType from = f_.function()[node.inputs[0]].type().dtype, to = node.type().dtype;
    BitcastValues i{.from = from, .to = to};
    Context c = contexts_[size_t(at)];
    if (bits(from) == bits(to)) {
      i.parts = {value(node.inputs[0], at)};
    } else if (bits(from) > bits(to)) {
      const int64_t parts = bits(from) / bits(to);
      const Expr last = Expr::symbol("i0", {0, unbounded_high}); // any axis: only its register counts
      const std::vector<IndexRegister> args = {c.axes.back()};
      i.part = general(mod(last, parts), std::span(&last, 1), args, c.mask, id);
      c.axes.back() = general(floordiv(last, parts), std::span(&last, 1), args, c.mask, id);
      i.parts = {value(node.inputs[0], context(c))};
    } else {
      const int parts = bits(to) / bits(from);
      const IndexRegister whole = c.axes.back();
      for (int part = 0; part < parts; ++part) {
        c.axes.back() = next_index();
        program_.code.emplace_back(
            AffineIndex{.out = c.axes.back(), .constant = part, .args = {whole}, .weights = {parts}});
        i.parts.push_back(value(node.inputs[0], context(c)));
      }
    }
    return emit(std::move(i));
  }
  ValueRegister view(const Node& node, NodeId id, int at) {
    const auto& attr = std::get<ViewAttr>(node.attr);
    const MaskRegister outside = contexts_[size_t(at)].mask;
    Opened holes = open(node, id, at);
    Context inner;
    inner.mask = condition(attr.predicate, attr.shape, at, holes, attr.holes, id);
    for (Expr e : attr.map) {
      inner.axes.push_back(index(e, attr.shape, at, holes, attr.holes, inner.mask, id));
    }
    check(node, inner.axes, attr.shape, inner.mask, id);
    const MaskRegister mask = inner.mask;
    ValueRegister x = value(node.inputs[0], context(std::move(inner)));
    if (mask != outside)
      x = emit(FillValue{.x = x, .mask = mask, .number = attr.fill, .type = node.type().dtype});
    return taint(x, holes);
  }

  CompiledFunction& f_;
  Program& program_;
  int root_ = 0;
  std::vector<Context> contexts_;
  std::map<Context, int> known_;
  std::map<std::tuple<NodeId, int, int>, ValueRegister> values_;
  struct IndexLess {
    using Key = std::tuple<Expr, std::vector<IndexRegister>, MaskRegister>;
    bool operator()(const Key& a, const Key& b) const {
      if (std::get<0>(a) != std::get<0>(b)) return ExprLess{}(std::get<0>(a), std::get<0>(b));
      return std::tie(std::get<1>(a), std::get<2>(a)) < std::tie(std::get<1>(b), std::get<2>(b));
    }
  };
  std::map<IndexLess::Key, IndexRegister, IndexLess> indices_;
};

std::vector<NodeId> CompiledFunction::landmarks(NodeId id, int every) const {
  IdVector<NodeId, bool> below(id.index() + 1, false);
  below[id] = true;
  std::vector<NodeId> result;
  for (NodeId at : below.ids_down()) {
    if (!below[at]) continue;
    int before = 0;
    for (NodeId input : function_[at].inputs) {
      below[input] = true;
      before = std::max(before, depth_[input]);
    }
    if (at != id && stored_[at] && depth_[at] / every > before / every) result.push_back(at);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

const CompiledFunction::FoldPlan& CompiledFunction::fold_plan(Source s) {
  auto at = fold_plans_.find({s.node, s.result});
  if (at != fold_plans_.end()) return at->second;
  const Node& node = function_[s.node];
  auto* fold = std::get_if<FoldAttr>(&node.attr);
  auto* scan = std::get_if<ScanAttr>(&node.attr);
  const Monoid whole = fold ? fold->monoid : scan->monoid;
  std::vector<int> components = whole.dependencies(s.result);
  components.push_back(s.result);
  const TypedMonoid part(part_of(whole, components));
  FoldPlan plan{
      std::move(components), part, fold ? result_axes(*fold, s.result) : result_axes(*scan, s.result), {}};
  if (fold)
    for (int d : fold->reduced) plan.reduced_extents.push_back(evaluate(fold->space[size_t(d)]));
  return fold_plans_.emplace(std::pair(s.node, s.result), std::move(plan)).first->second;
}

const Program& CompiledFunction::value_program(NodeId id) {
  auto [at, fresh] = value_programs_.try_emplace(id);
  if (fresh) {
    Compiler compiler(*this, at->second, function_[id].type().shape);
    at->second.results = {compiler.value(id, compiler.root(), true)};
  }
  return at->second;
}

const Program& CompiledFunction::body_program(NodeId id, const std::vector<int>& components) {
  auto [at, fresh] = body_programs_.try_emplace({id, components});
  if (!fresh) return at->second;
  const Node& node = function_[id];
  auto* fold = std::get_if<FoldAttr>(&node.attr);
  auto* scan = std::get_if<ScanAttr>(&node.attr);
  const Shape& space = fold ? fold->space : scan->space;
  Compiler compiler(*this, at->second, space);
  Compiler::Opened holes;
  int root = compiler.root();
  if (fold) {
    holes = compiler.open(node, id, root);
    Shape asked; // a component may do without an axis that is empty
    for (int d : fold->reduced) asked.push_back(space[size_t(d)]);
    for (int d : result_axes(*fold, components.back())) asked.push_back(space[size_t(d)]);
    at->second.where =
        compiler.condition(fold->where, space, root, holes, fold->holes, id, compiler.is_empty(asked));
    root = compiler.masked(root, at->second.where);
  }
  const auto& body_axes = fold ? fold->body_axes : scan->body_axes;
  for (int c : components)
    at->second.results.push_back(compiler.taint(
        compiler.value(node.inputs[size_t(c)], compiler.project(root, body_axes[size_t(c)])), holes));
  return at->second;
}

const CompiledFunction::ScatterProgram& CompiledFunction::scatter_program(NodeId id) {
  auto [at, fresh] = scatter_programs_.try_emplace(id);
  if (!fresh) return at->second;
  const Node& node = function_[id];
  const auto& attr = std::get<ScatterAttr>(node.attr);
  const Shape& space = function_[node.inputs[1]].type().shape;
  Compiler compiler(*this, at->second.program, space);
  const int root = compiler.root();
  Compiler::Opened holes = compiler.open(node, id, root);
  at->second.program.where = compiler.condition(attr.predicate, space, root, holes, attr.holes, id);
  for (Expr e : attr.map)
    at->second.map.push_back(compiler.index(e, space, root, holes, attr.holes, at->second.program.where, id));
  compiler.check(node, at->second.map, space, at->second.program.where, id);
  const ValueRegister values =
      compiler.value(node.inputs[1], compiler.masked(root, at->second.program.where));
  at->second.program.results = {compiler.taint(values, holes)};
  return at->second;
}

} // namespace luminal::interp
