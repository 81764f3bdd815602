// ir/infer.cpp -- what each kind of node asks of its inputs, and the types of its results.
#include "ir/infer.h"
#include "base/check.h"
#include "ir/host_text.h"
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <set>

namespace luminal {
namespace {

using Types = std::vector<TensorType>;

/// Is the name one of the canonical index names i0, i1, ... or h0, h1, ...?
bool is_index_name(std::string_view name) {
  if (name.size() < 2 || (name[0] != 'i' && name[0] != 'h')) return false;
  return std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string ordinal_text(const std::vector<int>& axes) {
  std::string text;
  for (int d : axes) text += fmt::format("{}{}", text.empty() ? "" : ", ", d);
  return "[" + text + "]";
}

class Infer {
public:
  Infer(const Attr& attr, const Types& in, const Module* module) : attr_(attr), in_(in), module_(module) {}
  Types run() {
    return std::visit([this](const auto& a) { return types(a); }, attr_);
  }

private:
  template <class... Args> [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw TermMistake{operation_name(attr_), fmt::format(text, std::forward<Args>(args)...)};
  }
  std::span<const Expr> assumptions() const {
    return module_ ? std::span<const Expr>(module_->assumptions) : std::span<const Expr>();
  }
  bool equal(const Shape& a, const Shape& b) const { return same_shape(a, b, assumptions()); }
  bool equal(const TensorType& a, const TensorType& b) const {
    return a.dtype == b.dtype && equal(a.shape, b.shape);
  }
  void inputs(size_t n) const {
    if (in_.size() != n) fail("expected {} input{}, found {}", n, n == 1 ? "" : "s", in_.size());
  }
  void extents(const Shape& shape) const {
    for (Expr e : shape) {
      if (e.range().high < 0 || (e.range().low < 0 && prove(ge(e, 0), assumptions()) != Truth::yes))
        fail("the extent {} in {} {} negative", to_string(e), to_string(shape),
             e.range().high < 0 ? "is" : "may be");
      for (Expr s : symbols_of(e))
        if (is_index_name(s.name()))
          fail("the extent {} in {} depends on an index", to_string(e), to_string(shape));
    }
  }
  static bool is_axis(Expr e, const Shape& space) {
    for (size_t d = 0; d < space.size() && e.is_symbol(); ++d)
      if (e == axis_symbol(int(d), space[d])) return true;
    return false;
  }
  /// Every index symbol of `e` is an axis of the space or a hole.
  void expression(Expr e, const Shape& space, const std::vector<Hole>& holes) const {
    if (is_axis(e, space)) return;
    for (Expr s : symbols_of(e)) {
      if (!is_index_name(s.name())) continue;
      size_t number = 0;
      std::string_view digits = s.name().substr(1);
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
      bool axis = s.name()[0] == 'i';
      if (axis && number < space.size() && s == axis_symbol(int(number), space[number])) continue;
      if (!axis && number < holes.size() && s == hole_symbol(int(number), holes[number].range)) continue;
      if (axis && number < space.size())
        fail("{} reads {} with range {}..{}, its axis has extent {}", to_string(e), s.name(), s.range().low,
             s.range().high, to_string(space[number]));
      fail("{} reads {}, which is not an axis of {}{}", to_string(e), s.name(), to_string(space),
           axis ? "" : " and no hole");
    }
  }
  void hole_inputs(const std::vector<Hole>& holes, const Shape& space, size_t first) const {
    if (in_.size() < first || in_.size() > first + holes.size() || (in_.size() == first) != holes.empty())
      fail("expected {} inputs, found {}", first + holes.size(), in_.size());
    std::set<int> used;
    for (size_t h = 0; h < holes.size(); ++h) {
      const Hole& hole = holes[h];
      if (hole.input < int(first) || hole.input >= int(in_.size()))
        fail("hole {} reads input {} of {}", h, hole.input, in_.size());
      used.insert(hole.input);
      const TensorType& operand = in_[size_t(hole.input)];
      if (!is_integer(operand.dtype))
        fail("hole {} must be filled by integers, found {}", h, to_string(operand.dtype));
      if (hole.range.low > hole.range.high) fail("hole {} has an empty range", h);
      Shape wanted;
      std::set<int> seen;
      for (int d : hole.axes) {
        if (d < 0 || d >= int(space.size())) fail("hole {} is read at axis {} of {}", h, d, to_string(space));
        if (!seen.insert(d).second) fail("hole {} is read at axis {} twice", h, d);
        wanted.push_back(space[size_t(d)]);
      }
      if (!equal(operand.shape, wanted))
        fail("hole {}: shapes differ: {} x {}", h, to_string(operand.shape), to_string(wanted));
    }
    if (used.size() + first != in_.size()) fail("an input fills no hole");
  }
  void axis_lists(const Monoid& monoid, const Shape& space,
                  const std::vector<std::vector<int>>& lists) const {
    if (monoid.size() == 0) fail("the monoid has no component");
    if (int(lists.size()) != monoid.size()) fail("{} components and {} bodies", monoid.size(), lists.size());
    if (in_.size() < lists.size()) fail("expected {} bodies, found {} inputs", lists.size(), in_.size());
    for (size_t c = 0; c < lists.size(); ++c) {
      Shape wanted;
      for (size_t k = 0; k < lists[c].size(); ++k) {
        int d = lists[c][k];
        if (d < 0 || d >= int(space.size()) || (k > 0 && d <= lists[c][k - 1]))
          fail("body {} has axes {}: they must ascend within {}", c, ordinal_text(lists[c]),
               to_string(space));
        wanted.push_back(space[size_t(d)]);
      }
      if (in_[c].dtype != monoid.components()[c].dtype)
        fail("body {} is {}, its component {}", c, to_string(in_[c].dtype),
             to_string(monoid.components()[c].dtype));
      if (!equal(in_[c].shape, wanted))
        fail("body {}: shapes differ: {} x {}", c, to_string(in_[c].shape), to_string(wanted));
    }
  }
  static TensorType with_axes(DType dtype, const Shape& space, const std::vector<int>& axes) {
    TensorType type{dtype, {}};
    for (int d : axes) type.shape.push_back(space[size_t(d)]);
    return type;
  }
  void bounds(const std::vector<Expr>& map, const Shape& space, const Shape& target) const {
    if (plainly_inside(map, space, target)) return;
    for (const BoundCheck& check : bound_checks(attr_, space, target, module_))
      if (in_bounds(check) == Truth::no)
        fail("the index {} leaves axis {} of extent {}", to_string(check.index), check.axis,
             to_string(check.extent));
  }
  const Function& function(const std::string& name) const {
    if (!module_) fail("@{}: no module to find the function in", name);
    const Function* f = module_->find(name);
    if (!f) fail("there is no function @{} before this one", name);
    return *f;
  }
  /// The function's parameters have the types `wanted`.
  void parameters(const Function& f, const Types& wanted) const {
    if (f.params.size() != wanted.size())
      fail("@{} takes {} arguments, found {}", f.name, f.params.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      const TensorType& have = f[f.params[i]].type();
      if (!equal(have, wanted[i]))
        fail("argument {} of @{} is {}, expected {}", i, f.name, to_string(wanted[i]), to_string(have));
      if (std::get<InputAttr>(f[f.params[i]].attr).role == Role::state)
        fail("@{} has a state: only the entry function may", f.name);
    }
  }
  static Types result_types(const Function& f) {
    Types list;
    for (const FunctionResult& r : f.results) list.push_back(f[r.value].type());
    return list;
  }

  // ---- leaves ----
  Types types(const InputAttr& a) {
    inputs(0);
    if (a.name.empty()) fail("an input needs a name");
    extents(a.type.shape);
    return {a.type};
  }
  Types types(const ConstantAttr& a) {
    inputs(0);
    int64_t count = 1;
    for (Expr e : a.type.shape) {
      if (!e.is_constant()) fail("the shape {} must be constant", to_string(a.type.shape));
      if (e.value() < 0 || __builtin_mul_overflow(count, e.value(), &count) || count > INT64_MAX / 8)
        fail("the shape {} is not possible", to_string(a.type.shape));
    }
    if (!a.data) fail("no data");
    if (int64_t(a.data->size()) != storage_bytes(a.type.dtype, count))
      fail("{} needs {} bytes, found {}", to_string(a.type), storage_bytes(a.type.dtype, count),
           a.data->size());
    return {a.type};
  }
  Types types(const IotaAttr& a) {
    inputs(0);
    extents(a.type.shape);
    expression(a.value, a.type.shape, {});
    return {a.type};
  }
  Types types(const RandomAttr& a) {
    inputs(1);
    extents(a.type.shape);
    if (in_[0].dtype != DType::u32 || !equal(in_[0].shape, {2}))
      fail("the key is {}, expected u32[2]", to_string(in_[0]));
    if (a.type.dtype != DType::u32 && a.type.dtype != DType::f32)
      fail("the result is {}, expected u32 or f32", to_string(a.type.dtype));
    expression(a.counter, a.type.shape, {});
    return {a.type};
  }

  // ---- values ----
  Types types(const MapAttr& a) {
    const UserOp* user = a.user_op.empty() ? nullptr : find_user_op(a.user_op);
    if (!a.user_op.empty() && !user)
      fail("there is no operation '{}'; register_op makes one known", a.user_op);
    Signature signature = user ? user->signature : row(a.op).signature;
    int arity = user ? user->arity : row(a.op).arity;
    inputs(size_t(arity));
    DType dtypes[3];
    for (int i = 0; i < arity; ++i) dtypes[i] = in_[size_t(i)].dtype;
    for (int i = 1; i < arity; ++i)
      if (!equal(in_[0].shape, in_[size_t(i)].shape))
        fail("shapes differ: {} x {}", to_string(in_[0].shape), to_string(in_[size_t(i)].shape));
    std::string why;
    auto result = result_type(signature, arity, dtypes, &why);
    if (!result) fail("{}", why);
    if (user && !is_float(dtypes[arity - 1]) && !user->i64)
      fail("the operation has no value on {}", to_string(dtypes[arity - 1]));
    return {{*result, in_[0].shape}};
  }
  Types types(const CastAttr& a) {
    inputs(1);
    return {{a.to, in_[0].shape}};
  }
  Types types(const BitcastAttr& a) {
    inputs(1);
    const TensorType& x = in_[0];
    if (x.dtype == DType::boolean || a.to == DType::boolean) fail("bool has no bit pattern to reinterpret");
    int from = bits(x.dtype), to = bits(a.to);
    TensorType type{a.to, x.shape};
    if (from == to) return {type};
    if (x.shape.empty()) fail("{} to {}: a scalar has no last axis", to_string(x), to_string(a.to));
    if (from > to) {
      type.shape.back() = x.shape.back() * (from / to);
    } else {
      if (prove(eq(mod(x.shape.back(), to / from), 0), assumptions()) != Truth::yes)
        fail("{} to {}: the last axis must be a multiple of {}", to_string(x), to_string(a.to), to / from);
      type.shape.back() = floordiv(x.shape.back(), to / from);
    }
    return {type};
  }
  Types types(const ViewAttr& a) {
    if (in_.empty()) fail("expected an input");
    extents(a.shape);
    hole_inputs(a.holes, a.shape, 1);
    if (a.map.size() != in_[0].shape.size())
      fail("the map has {} indices for {}", a.map.size(), to_string(in_[0]));
    for (Expr e : a.map) expression(e, a.shape, a.holes);
    expression(a.predicate, a.shape, a.holes);
    bounds(a.map, a.shape, in_[0].shape);
    return {{in_[0].dtype, a.shape}};
  }
  Types types(const ScatterAttr& a) {
    if (in_.size() < 2) fail("expected a base and values");
    const Shape& space = in_[1].shape;
    hole_inputs(a.holes, space, 2);
    if (in_[0].dtype != in_[1].dtype)
      fail("the base is {}, the values are {}", to_string(in_[0].dtype), to_string(in_[1].dtype));
    if (a.map.size() != in_[0].shape.size())
      fail("the map has {} indices for {}", a.map.size(), to_string(in_[0]));
    for (Expr e : a.map) expression(e, space, a.holes);
    expression(a.predicate, space, a.holes);
    if (a.op) {
      DType same[2] = {in_[0].dtype, in_[0].dtype};
      std::string why;
      if (row(*a.op).monoid.empty()) fail("'{}' does not fold", row(*a.op).name);
      if (!result_type(row(*a.op), same, &why)) fail("{}: {}", row(*a.op).name, why);
    }
    bounds(a.map, space, in_[0].shape);
    return {in_[0]};
  }
  Types types(const FoldAttr& a) {
    extents(a.space);
    axis_lists(a.monoid, a.space, a.body_axes);
    hole_inputs(a.holes, a.space, a.body_axes.size());
    if (a.reduced.empty()) fail("no axis to fold");
    for (size_t k = 0; k < a.reduced.size(); ++k)
      if (a.reduced[k] < 0 || a.reduced[k] >= int(a.space.size()) ||
          (k > 0 && a.reduced[k] <= a.reduced[k - 1]))
        fail("the folded axes {} must ascend within {}", ordinal_text(a.reduced), to_string(a.space));
    expression(a.where, a.space, a.holes);
    Types list;
    for (int c = 0; c < a.monoid.size(); ++c)
      list.push_back(with_axes(a.monoid.components()[size_t(c)].dtype, a.space, result_axes(a, c)));
    return list;
  }
  Types types(const ScanAttr& a) {
    extents(a.space);
    axis_lists(a.monoid, a.space, a.body_axes);
    inputs(a.body_axes.size());
    if (a.axis < 0 || a.axis >= int(a.space.size())) fail("axis {} of {}", a.axis, to_string(a.space));
    Types list;
    for (int c = 0; c < a.monoid.size(); ++c)
      list.push_back(with_axes(a.monoid.components()[size_t(c)].dtype, a.space, result_axes(a, c)));
    return list;
  }
  Types types(const SortAttr& a) {
    if (in_.empty()) fail("expected an input");
    if (a.axis < 0 || a.axis >= int(in_[0].shape.size()))
      fail("axis {} of {}", a.axis, to_string(in_[0].shape));
    for (const TensorType& t : in_)
      if (!equal(t.shape, in_[0].shape))
        fail("shapes differ: {} x {}", to_string(in_[0].shape), to_string(t.shape));
    return in_;
  }
  Types types(const CollectiveAttr& a) {
    inputs(1);
    size_t colon = a.group.rfind(':');
    int64_t members = 0;
    if (colon != std::string::npos)
      std::from_chars(a.group.data() + colon + 1, a.group.data() + a.group.size(), members);
    if (members < 1) fail("the group '{}' must be name:members", a.group);
    TensorType type = in_[0];
    static const std::set<std::string_view> plain{"all_reduce_sum", "all_reduce_prod", "all_reduce_max",
                                                  "all_reduce_min", "broadcast"};
    if (plain.contains(a.kind)) return {type};
    if (a.axis < 0 || a.axis >= int(type.shape.size())) fail("axis {} of {}", a.axis, to_string(type.shape));
    Expr& extent = type.shape[size_t(a.axis)];
    if (a.kind == "all_gather") {
      extent = extent * members;
    } else if (a.kind == "reduce_scatter_sum") {
      if (prove(eq(mod(extent, members), 0), assumptions()) != Truth::yes)
        fail("axis {} of {} must be a multiple of {}", a.axis, to_string(type.shape), members);
      extent = floordiv(extent, members);
    } else {
      fail("unknown kind '{}'", a.kind);
    }
    return {type};
  }

  // ---- structure ----
  Types types(const CallAttr& a) {
    const Function& f = function(a.function);
    parameters(f, in_);
    return result_types(f);
  }
  Types types(const LoopAttr& a) {
    const Function& f = function(a.body);
    if (a.carried < 0 || a.stepped < 0 || size_t(a.carried) + size_t(a.stepped) > in_.size())
      fail("{} carried and {} stepped values, found {} inputs", a.carried, a.stepped, in_.size());
    extents({a.count});
    auto carried = in_.begin() + a.carried, stepped = carried + a.stepped;
    Types wanted{{DType::i64, {}}};
    wanted.insert(wanted.end(), in_.begin(), carried);
    for (auto x = carried; x != stepped; ++x) {
      if (x->shape.empty() || !equal({x->shape[0]}, {a.count}))
        fail("stepped value {} is {}, its first axis must have extent {}", x - carried, to_string(*x),
             to_string(a.count));
      wanted.push_back({x->dtype, Shape(x->shape.begin() + 1, x->shape.end())});
    }
    wanted.insert(wanted.end(), stepped, in_.end());
    parameters(f, wanted);
    Types results = result_types(f);
    if (int(results.size()) < a.carried)
      fail("@{} gives {} results, {} values are carried", a.body, results.size(), a.carried);
    for (size_t i = 0; i < results.size(); ++i) {
      if (int(i) >= a.carried)
        results[i].shape.insert(results[i].shape.begin(), a.count);
      else if (!equal(results[i], in_[i]))
        fail("carried value {} is {}, @{} gives {}", i, to_string(in_[i]), a.body, to_string(results[i]));
    }
    if (!a.condition.empty()) {
      const Function& condition = function(a.condition);
      Types seen(in_.begin(), carried);
      seen.insert(seen.end(), stepped, in_.end());
      parameters(condition, seen);
      Types truth = result_types(condition);
      if (truth.size() != 1 || !equal(truth[0], TensorType{DType::boolean, {}}))
        fail("@{} must give one bool", a.condition);
      results.push_back({DType::i64, {}});
    }
    return results;
  }
  Types types(const CondAttr& a) {
    if (in_.empty() || !equal(in_[0], TensorType{DType::boolean, {}})) fail("input 0 must be one bool");
    Types args(in_.begin() + 1, in_.end());
    const Function &then = function(a.then_function), &otherwise = function(a.else_function);
    parameters(then, args);
    parameters(otherwise, args);
    Types x = result_types(then), y = result_types(otherwise);
    if (x.size() != y.size())
      fail("@{} gives {} results, @{} gives {}", then.name, x.size(), otherwise.name, y.size());
    for (size_t i = 0; i < x.size(); ++i)
      if (!equal(x[i], y[i]))
        fail("result {} is {} in @{} and {} in @{}", i, to_string(x[i]), then.name, to_string(y[i]),
             otherwise.name);
    return x;
  }
  Types types(const HostAttr& a) {
    if (a.kind.empty()) fail("no kind");
    if (!passes_input_on(a.kind)) {
      for (const TensorType& t : a.results) extents(t.shape);
      return a.results;
    }
    inputs(a.kind == "diff" ? 2 : 1);
    if (a.kind == "diff" && !equal(in_[0], in_[1]))
      fail("{} and {} cannot be compared", to_string(in_[0]), to_string(in_[1]));
    if (!a.results.empty() && (a.results.size() != 1 || !equal(a.results[0], in_[0])))
      fail("the result must be {}", to_string(in_[0]));
    return {in_[0]};
  }
  Types types(const CustomAttr& a) {
    if (a.name.empty()) fail("no name");
    if (a.results.empty()) fail("no result");
    for (const TensorType& t : a.results) extents(t.shape);
    extents(a.grid);
    return a.results;
  }
  Types types(const FenceAttr&) { // inputs after the first one are only waited for
    if (in_.empty()) inputs(1);
    return {in_[0]};
  }
  Types types(const GetAttr& a) { // the inputs are the results of the tuple
    if (a.index < 0 || a.index >= int(in_.size())) fail("result {} of {}", a.index, in_.size());
    return {in_[size_t(a.index)]};
  }

  const Attr& attr_;
  const Types& in_;
  const Module* module_;
};

} // namespace

std::string operation_name(const Attr& attr) {
  if (auto* map = std::get_if<MapAttr>(&attr))
    return map->user_op.empty() ? std::string(to_string(map->op)) : map->user_op;
  return std::string(to_string(kind_of(attr)));
}

std::vector<TensorType> infer_or_throw(const Attr& attr, const std::vector<TensorType>& inputs,
                                       const Module* module) {
  return Infer(attr, inputs, module).run();
}
std::vector<TensorType> infer_types(const Attr& attr, const std::vector<TensorType>& inputs,
                                    const Module* module) {
  try {
    return infer_or_throw(attr, inputs, module);
  } catch (const TermMistake& mistake) {
    throw Error(fmt::format("[{}] {}", mistake.operation, mistake.text));
  }
}

bool plainly_inside(const std::vector<Expr>& map, const Shape& space, const Shape& target) {
  const auto inside = [&](Expr index, Expr extent) {
    const Interval range = index.range();
    if (range.low >= 0 && range.high < extent.range().low) return true;
    for (size_t d = 0; d < space.size() && index.is_symbol(); ++d)
      if (space[d] == extent && index == axis_symbol(int(d), extent)) return true;
    return false;
  };
  for (size_t k = 0; k < map.size(); ++k)
    if (!inside(map[k], target[k])) return false;
  return true;
}

namespace {
bool divides_by_unknown(Expr e) {
  if ((e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod) && !e.args()[1].is_constant())
    return true;
  return std::ranges::any_of(e.args(), divides_by_unknown);
}
} // namespace

Expr simplified_within(Expr e, const Shape& space) {
  if (!divides_by_unknown(e)) return e;
  std::vector<Expr> inside;
  for (size_t d = 0; d < space.size(); ++d)
    if (const Expr axis = axis_symbol(int(d), space[d]); axis.is_symbol() && depends_on(e, axis))
      inside.push_back(lt(axis, space[d]));
  return simplify_under(e, inside);
}

std::vector<BoundCheck> bound_checks(const Attr& attr, const Shape& space, const Shape& target,
                                     const Module* module) {
  const auto* view = std::get_if<ViewAttr>(&attr);
  const auto* scatter = std::get_if<ScatterAttr>(&attr);
  if (!view && !scatter) return {};
  for (Expr extent : space)
    if (extent.is_constant(0)) return {}; // no point, nothing to read
  const std::vector<Expr>& map = view ? view->map : scatter->map;
  std::vector<Expr> assumptions;
  if (module) assumptions = module->assumptions;
  for (size_t d = 0; d < space.size(); ++d)
    if (Expr i = axis_symbol(int(d), space[d]); i.is_symbol() && !space[d].is_constant())
      assumptions.push_back(lt(i, space[d]));
  Expr predicate = view ? view->predicate : scatter->predicate;
  if (!predicate.is_constant()) assumptions.push_back(predicate);
  bool unconditional = predicate.is_constant(1); // and no axis can be empty
  for (Expr extent : space) unconditional &= extent.range().low >= 1;
  std::vector<BoundCheck> checks;
  for (size_t k = 0; k < map.size(); ++k) {
    bool everywhere = unconditional;
    for (Expr s : symbols_of(map[k])) {
      bool constant_axis = false;
      for (size_t d = 0; d < space.size(); ++d)
        constant_axis |= space[d].is_constant() && s == axis_symbol(int(d), space[d]);
      everywhere &= constant_axis;
    }
    checks.push_back({map[k], target[k], int(k), assumptions, everywhere});
  }
  return checks;
}

Truth in_bounds(const BoundCheck& check) {
  Truth low = prove(ge(check.index, 0), check.assumptions),
        high = prove(lt(check.index, check.extent), check.assumptions);
  if (low == Truth::yes && high == Truth::yes) return Truth::yes;
  if (check.everywhere && check.extent.is_constant()) { // an affine index takes its extreme values
    Affine affine = affine_terms(check.index);
    bool linear = true;
    for (const auto& [term, coefficient] : affine.terms) linear &= term.is_symbol();
    Interval range = check.index.range();
    if (linear && (range.low < 0 || range.high >= check.extent.value())) return Truth::no;
  }
  return Truth::unknown;
}

} // namespace luminal
