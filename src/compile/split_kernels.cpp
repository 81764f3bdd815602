// compile/split_kernels.cpp -- which values of a kernel are stored so that its products have tiled
// schedules.
#include "compile/split_kernels.h"
#include "base/hash.h"
#include "choose/flat_schedule.h"
#include "choose/tiling.h"
#include "compile/operand_copy.h"
#include "compile/panels.h"
#include "compile/stored_masks.h"
#include "cone/canonical_cone.h"
#include "cone/cone.h"
#include "cone/formula.h"
#include <algorithm>
#include <limits>

namespace luminal::compile {
namespace {

// Nanoseconds of one worker, for comparing parts of one kernel: no more than their ratios counts.
constexpr double of_point = 0.0125, of_element = 1, of_function = 10, of_byte = 0.02, of_launch = 1000;
constexpr double worth_a_look = 2000; // lost by what is not tiled
constexpr double gain = 0.8;          // of the time, or less: then values are stored
constexpr size_t most_stores = 12;

double elements_of(const Shape& shape) {
  double n = 1;
  for (Expr extent : shape) {
    const Interval range = extent.range();
    n *= range.high == unbounded_high ? double(1 << 20) : double(range.high);
  }
  return n;
}
double bytes_of(const TensorType& type) { return elements_of(type.shape) * bits(type.dtype) / 8; }

/// Along whole axes, in the order in which they lie.
bool plainly_read(const ViewAttr& view) {
  if (!view.predicate.is_constant(1) || !view.holes.empty()) return false;
  int last = -1;
  for (Expr e : view.map) {
    if (e.is_constant()) continue;
    int axis = -1;
    for (size_t d = 0; d < view.shape.size(); d++)
      if (e.is_symbol() && e == axis_symbol(int(d), view.shape[d])) axis = int(d);
    if (axis <= last) return false;
    last = axis;
  }
  return true;
}

/// A kernel as a function of what it reads. `from`: the node that each of its nodes stands for.
struct Part {
  Function function;
  IdVector<NodeId, NodeId> from;
};

Part part_of(const Function& f, const std::vector<NodeId>& roots, const std::set<NodeId>& readable,
             const std::set<NodeId>& constants) {
  Part part;
  std::map<NodeId, NodeId> number;
  for (NodeId id : kernel::cone_nodes(f, roots, readable)) {
    Node node = f[id];
    const bool root = std::ranges::find(roots, id) != roots.end();
    if (readable.contains(id) && !root && node.kind != NodeKind::constant) {
      const Role role = constants.contains(id) ? Role::weight : Role::argument;
      const TensorType type = node.type();
      node = Node{NodeKind::input,
                  InputAttr{"x" + std::to_string(part.function.params.size()), role, type},
                  {},
                  {type},
                  {},
                  {},
                  {}};
      part.function.params.push_back(part.function.nodes.end_id());
    }
    for (NodeId& input : node.inputs) input = number.at(input);
    node.name.clear();
    number[id] = part.function.nodes.end_id();
    part.from.push_back(id);
    part.function.nodes.push_back(std::move(node));
  }
  part.function.name = "part";
  for (size_t r = 0; r < roots.size(); r++)
    part.function.results.push_back({"r" + std::to_string(r), number.at(roots[r]), {}, {}});
  return part;
}

/// Combinations of the axes that the view varies with.
double places(const ViewAttr& view) {
  double n = 1;
  for (size_t d = 0; d < view.shape.size(); d++) {
    const Expr axis = axis_symbol(int(d), view.shape[d]);
    const bool varies = std::ranges::any_of(view.map, [&](Expr e) { return depends_on(e, axis); }) ||
                        std::ranges::any_of(view.holes, [&](const Hole& hole) {
                          return std::ranges::find(hole.axes, int(d)) != hole.axes.end();
                        });
    if (axis.is_symbol() && varies) n *= elements_of({view.shape[d]});
  }
  return n;
}

bool computed_in_place(const Node& node) {
  return node.kind == NodeKind::map || node.kind == NodeKind::cast || node.kind == NodeKind::view;
}

/// Folds that read elements of their operands again and again.
struct Product {
  NodeId fold;
  std::vector<NodeId> views; ///< of what changes from step to step, between the fold and what is stored
  std::vector<NodeId> made;  ///< results of other folds that it reads
};

std::vector<Product> products_of(const Function& f) {
  std::vector<Product> products;
  IdVector<NodeId, bool> fixed(f.nodes.size()); // depends on weights and constants alone
  for (NodeId id : f.nodes.ids()) {
    const Node& node = f[id];
    fixed[id] = node.kind == NodeKind::input
                    ? std::get<InputAttr>(node.attr).role == Role::weight
                    : std::ranges::all_of(node.inputs, [&](NodeId i) { return fixed[i]; });
    const auto* fold = std::get_if<FoldAttr>(&node.attr);
    if (!fold) continue;
    const double points = elements_of(fold->space);
    if (points < kernel::fewest_points) continue;
    Product product{id, {}, {}};
    double read = 0;
    std::set<NodeId> seen(node.inputs.begin(), node.inputs.end());
    for (std::vector<NodeId> stack(seen.begin(), seen.end()); !stack.empty();) {
      const NodeId at = stack.back();
      stack.pop_back();
      const Node& below = f[at];
      const bool view = below.kind == NodeKind::view;
      if (view && !fixed[at]) product.views.push_back(at);
      if (const NodeId value = view ? below.inputs[0] : at; f[value].kind == NodeKind::get && !fixed[value])
        product.made.push_back(value);
      if (view && !computed_in_place(f[below.inputs[0]])) {
        read +=
            std::min(elements_of(f[below.inputs[0]].type().shape), places(std::get<ViewAttr>(below.attr)));
      } else if (computed_in_place(below)) {
        const size_t inputs = view ? 1 : below.inputs.size(); // holes are read elsewhere
        for (size_t i = 0; i < inputs; i++)
          if (seen.insert(below.inputs[i]).second) stack.push_back(below.inputs[i]);
      } else {
        read += std::min(elements_of(below.type().shape), points);
      }
    }
    std::ranges::sort(product.views);
    std::ranges::sort(product.made);
    product.made.erase(std::ranges::unique(product.made).begin(), product.made.end());
    if (points >= kernel::fewest_reads * std::max(read, 1.0)) products.push_back(std::move(product));
  }
  return products;
}

/// Is a function computed of the fold's results that takes many operations?
bool computes_more(const Function& f, NodeId fold) {
  IdVector<NodeId, bool> after(f.nodes.size());
  after[fold] = true;
  for (NodeId id = fold + 1; f.nodes.has(id); ++id) {
    const Node& node = f[id];
    after[id] = std::ranges::any_of(node.inputs, [&](NodeId input) { return after[input]; });
    const auto* map = std::get_if<MapAttr>(&node.attr);
    if (after[id] && map && map->user_op.empty() && is_long_chain(map->op)) return true;
  }
  return false;
}

/// One product whose operands, and what its results meet, are read as they lie (weights in any
/// order), with no other fold before it and no function behind it: it has a tiled schedule.
bool is_simple(const Function& f, const std::vector<Product>& products) {
  return products.size() == 1 && products[0].made.empty() && !computes_more(f, products[0].fold) &&
         std::ranges::all_of(f.nodes, [&](const Node& node) {
           const auto* view = std::get_if<ViewAttr>(&node.attr);
           if (!view || plainly_read(*view)) return true;
           const auto* input = std::get_if<InputAttr>(&f[node.inputs[0]].attr);
           return input && input->role == Role::weight && view->holes.empty();
         });
}

/// A result that is only read as a narrower type is stored as that.
NodeId as_stored(const Function& f, NodeId id, const std::set<NodeId>& roots) {
  std::vector<NodeId> readers;
  for (NodeId reader = id + 1; f.nodes.has(reader); ++reader)
    if (std::ranges::find(f[reader].inputs, id) != f[reader].inputs.end()) readers.push_back(reader);
  const bool narrower = readers.size() == 1 && f[readers[0]].kind == NodeKind::cast &&
                        bits(f[readers[0]].type().dtype) < bits(f[id].type().dtype);
  return narrower && !roots.contains(readers[0]) ? readers[0] : id;
}

} // namespace

/// Of all kernels that the part becomes, as far as its products and what passes through memory go.
KernelSplitter::Estimate KernelSplitter::time_of(const Function& part) {
  StepFusion known = fuse_step(part);
  const PackedFunction packed = pack_constants(part, limits_, known);
  const Function& f = packed.function.nodes.empty() ? part : packed.function;
  if (&f != &part) {
    known = fuse_step(f);
    for (const auto& panels : packed.panels) known.step.given.insert(panels.panels);
    known.partition = fuse(known.step);
  }
  const Region& region = known.step;
  const std::set<NodeId> readable = values_in_memory(region, known.partition);
  Estimate estimate;
  for (const auto& roots : known.partition.kernels) {
    const auto cone = kernel::build_cone(f, roots, readable, {.name = "k", .in_place = false});
    if (!cone) return {1e30, 0}; // the builder says why
    const kernel::CanonicalCone canonical = kernel::canonical(*cone);
    const auto nests = kernel::largest_nests(canonical.cone, kernels_.schedule_of(canonical.cone));
    const auto folds = nests ? kernel::tiled_folds(*nests, limits_) : std::vector<kernel::TiledFold>();
    for (const kernel::TiledFold& fold : folds) {
      estimate.time += fold.points * of_point / fold.rate;
      estimate.lost += fold.points * of_point * (1 / fold.rate - 1);
    }
    const double copied = nests ? kernel::copied_one_by_one(*nests) * of_element : 0;
    const double functions = nests ? kernel::functions_one_by_one(*nests) * of_function : 0;
    estimate.time += copied + functions;
    estimate.lost += copied + functions;
    for (const kernel::ConeValue& value : cone->values)
      if (value.role != kernel::ValueRole::interior)
        estimate.time += elements_of(value.shape) * bits(value.dtype) / 8 * of_byte;
    estimate.time += of_launch;
  }
  return estimate;
}

KernelSplitter::Stores KernelSplitter::stores_of(const Function& part) {
  // Folds in tiles have schedules for each number of rows, and what these make is never stored: it may
  // grow with the square of a length.
  for (const Node& node : part.nodes)
    if (const auto* fold = std::get_if<FoldAttr>(&node.attr); fold && goes_in_tiles(*fold)) return {};
  const std::vector<Product> products = products_of(part);
  if (products.empty() || is_simple(part, products)) return {};
  Stores all;
  std::set<NodeId> results;
  for (const auto& result : part.results) results.insert(result.value);
  std::set<NodeId> folds, made, views;
  for (const Product& p : products) {
    folds.insert(p.fold);
    made.insert(p.made.begin(), p.made.end());
    for (NodeId view : p.views)
      if (copy_of_operand(std::get<ViewAttr>(part[view].attr), part[part[view].inputs[0]].type().shape))
        views.insert(view);
  }
  for (NodeId id : part.nodes.ids())
    if (part[id].kind == NodeKind::get && !results.contains(id) &&
        (folds.contains(part[id].inputs[0]) || made.contains(id)))
      all.results.push_back(as_stored(part, id, results));
  all.operands.assign(views.begin(), views.end());
  if (all.empty() || all.results.size() + all.operands.size() > most_stores) return {};
  const Estimate whole = time_of(part);
  if (whole.lost < worth_a_look || whole.lost < whole.time * (1 - gain)) return {};
  double best = time_of(with(part, all)).time;
  if (best > whole.time) return {};
  // What can go again without loss is not stored, the largest first.
  struct One {
    double bytes;
    NodeId id;
    bool operand;
  };
  std::vector<One> order;
  for (NodeId id : all.results) order.push_back({bytes_of(part[id].type()), id, false});
  for (NodeId id : all.operands) {
    const auto copy =
        copy_of_operand(std::get<ViewAttr>(part[id].attr), part[part[id].inputs[0]].type().shape);
    order.push_back({bytes_of({part[id].type().dtype, copy->inner.shape}), id, true});
  }
  std::ranges::stable_sort(order, std::ranges::greater{}, &One::bytes);
  for (const One& one : order) {
    Stores fewer = all;
    std::erase(one.operand ? fewer.operands : fewer.results, one.id);
    if (fewer.empty()) continue;
    if (const double without = time_of(with(part, fewer)).time; without <= best * 1.02)
      best = without, all = std::move(fewer);
  }
  if (best > whole.time * gain) return {};
  return all;
}

Function KernelSplitter::with(const Function& f, const Stores& stores, Boundaries* boundaries) {
  Function to;
  to.name = f.name;
  IdVector<NodeId, NodeId> stands_in(f.nodes.size());
  const auto push = [&](NodeKind kind, Attr attr, std::vector<NodeId> inputs, TensorType type,
                        std::string origin) {
    return to.nodes.add(
        Node{kind, std::move(attr), std::move(inputs), {std::move(type)}, {}, {}, std::move(origin)});
  };
  struct Copy {
    std::vector<NodeId> inputs; // the source, and what fills holes
    ViewAttr inner;
    NodeId fence;
  };
  std::vector<Copy> copies;
  for (NodeId id : f.nodes.ids()) {
    Node node = f[id];
    for (NodeId& input : node.inputs) input = stands_in[input];
    if (std::ranges::find(stores.operands, id) != stores.operands.end()) {
      auto copy = copy_of_operand(std::get<ViewAttr>(node.attr), f[f[id].inputs[0]].type().shape);
      const DType dtype = node.type().dtype;
      auto known = std::ranges::find_if(
          copies, [&](const Copy& c) { return c.inputs == node.inputs && c.inner == copy->inner; });
      if (known == copies.end()) {
        const TensorType type{dtype, copy->inner.shape};
        const NodeId inner = push(NodeKind::view, copy->inner, node.inputs, type, node.origin);
        copies.push_back({node.inputs, copy->inner, push(NodeKind::fence, FenceAttr{}, {inner}, type, {})});
        known = copies.end() - 1;
      }
      node.attr = std::move(copy->outer);
      node.inputs = {known->fence};
    }
    stands_in[id] = to.nodes.add(std::move(node));
    if (std::ranges::find(stores.results, id) != stores.results.end())
      stands_in[id] = push(NodeKind::fence, FenceAttr{}, {stands_in[id]}, f[id].type(), {});
  }
  if (boundaries && !boundaries->empty()) {
    IdVector<NodeId, bool> decided(to.nodes.size());
    for (NodeId id : f.nodes.ids())
      if (boundaries->has(id)) decided[stands_in[id]] = true;
    boundaries->decided = std::move(decided);
    for (auto& kernel : boundaries->partition.kernels)
      for (NodeId& id : kernel) id = stands_in[id];
  }
  for (NodeId id : f.params) to.params.push_back(stands_in[id]);
  for (auto result : f.results) {
    result.value = stands_in[result.value];
    to.results.push_back(std::move(result));
  }
  return to;
}

/// Adds what the kernels of a region store. `constants`: there before the region runs, so that they
/// may lie in panels.
void KernelSplitter::stores_in(const Region& region, const Partition* known_partition,
                               const std::set<NodeId>& constants, const Boundaries* boundaries,
                               Stores& stores) {
  const Function& f = *region.function;
  const std::vector<NodeId> needed = needed_nodes(region);
  const auto is_large_fold = [&](NodeId id) {
    const auto* fold = std::get_if<FoldAttr>(&f[id].attr);
    return fold && elements_of(fold->space) >= kernel::fewest_points;
  };
  if (std::ranges::none_of(needed, is_large_fold)) return;
  const Partition partition = known_partition ? *known_partition : fuse(region);
  const std::set<NodeId> readable = values_in_memory(region, partition);
  for (const auto& roots : partition.kernels) {
    if (boundaries && std::ranges::all_of(roots, [&](NodeId id) { return boundaries->has(id); })) continue;
    const Part part = part_of(f, roots, readable, constants);
    const uint64_t key = structural_hash(part.function);
    auto known = known_.find(key);
    if (known == known_.end()) known = known_.emplace(key, stores_of(part.function)).first;
    for (NodeId id : known->second.results) stores.results.push_back(part.from[id]);
    for (NodeId id : known->second.operands) stores.operands.push_back(part.from[id]);
  }
}

std::vector<KernelSplitter::KernelTime>
KernelSplitter::step_times(const Function& function, const Split& made,
                           std::span<const std::map<std::string, int64_t>> sizes,
                           const search::EstimateRates& rates) {
  const Function& given = made.function.nodes.empty() ? function : made.function;
  StepFusion known = made.fusion;
  known.step.function = &given;
  if (!verify(known.partition, known.step).empty()) return {};
  const PackedFunction packed = pack_constants(given, limits_, known);
  const Function& f = packed.function.nodes.empty() ? given : packed.function;
  if (&f != &given) {
    const Partition before = std::move(known.partition);
    known = {whole_region(f), load_time_values(whole_region(f)), {}};
    for (const auto& [panels, from] : packed.panels) {
      std::erase(known.load_values, from);
      known.load_values.push_back(panels);
    }
    known.step.given.insert(known.load_values.begin(), known.load_values.end());
    known.partition = packed_partition(packed, before, known.load_values);
  }
  const std::set<NodeId> readable = values_in_memory(known.step, known.partition);
  std::vector<KernelTime> out;
  std::set<NodeId> results;
  for (const FunctionResult& r : f.results) results.insert(r.value);
  const auto stored = [&](const std::vector<NodeId>& roots, const std::map<std::string, int64_t>& at) {
    double bytes = 0;
    for (const NodeId id : roots) {
      if (results.contains(id)) continue;
      double own = bits(f[id].type().dtype) / 8.0;
      for (const Expr e : f[id].type().shape) {
        ExprMap<int64_t> bound;
        for (const Expr symbol : symbols_of(e))
          if (const auto size = at.find(std::string(symbol.name())); size != at.end())
            bound[symbol] = size->second;
        if (const auto extent = evaluate(e, bound)) own *= double(*extent);
      }
      bytes += own;
    }
    return bytes;
  };
  for (const auto& roots : known.partition.kernels) {
    const auto cone = kernel::build_cone(f, roots, readable, {.name = "k", .in_place = false});
    if (!cone) return {};
    const kernel::CanonicalCone canonical = kernel::canonical(*cone);
    const kernel::Schedule& schedule = kernels_.schedule_of(canonical.cone);
    KernelTime& time = out.emplace_back();
    time.kernel = kernel::structural_hash128(canonical.cone);
    for (const auto& at : sizes) {
      std::map<std::string, int64_t> bound; // the canonical cone's own dimensions
      for (const auto& [symbol, dimension] : canonical.dimensions) {
        const auto found = at.find(std::string(dimension.name()));
        // (Counters of loops around the region are no dimensions of the module: their first step.)
        bound[std::string(symbol.name())] = found != at.end() ? found->second : dimension.range().low;
      }
      std::vector<int64_t> key{int64_t(time.kernel.low), int64_t(time.kernel.high)};
      for (const auto& [name, size] : bound) key.push_back(size);
      auto known_ns = ns_.find(key);
      if (known_ns == ns_.end())
        known_ns = ns_.emplace(key, search::kernel_ns(canonical.cone, schedule, limits_, bound, rates)).first;
      time.ns.push_back(known_ns->second);
      time.stored.push_back(stored(roots, at));
    }
  }
  return out;
}

KernelSplitter::Split KernelSplitter::split(const Function& function, const std::vector<NodeId>* load_values,
                                            const Boundaries* boundaries) {
  constexpr int most_rounds = 8; // each stores a value; what is left then stays as it is
  Function split;
  Boundaries decided;
  if (boundaries) decided = *boundaries;
  for (int round = 0;; round++) {
    const Function& f = split.nodes.empty() ? function : split;
    StepFusion known = fuse_step(f, round == 0 ? load_values : nullptr, &decided);
    const Region& step = known.step;
    Region load = step; // what comes before: of weights alone
    load.given = {f.params.begin(), f.params.end()};
    load.wanted.clear();
    std::set<NodeId> constants;
    for (NodeId id : step.given) {
      const auto* input = std::get_if<InputAttr>(&f[id].attr);
      if (!input || input->role == Role::weight) constants.insert(id);
      if (!load.given.contains(id)) load.wanted.push_back(id);
    }
    Stores stores;
    if (round < most_rounds && !kernel::wants_flat(limits_)) {
      stores_in(load, nullptr, {}, nullptr, stores);
      stores_in(step, &known.partition, constants, &decided, stores);
    }
    if (stores.empty()) {
      MaskedFunction masked;
      if (!kernel::wants_flat(limits_)) masked = mask_stored(f, known.partition);
      if (!masked.function.nodes.empty()) {
        move_to(masked, known, decided);
        split = std::move(masked.function);
      }
      return {std::move(split), std::move(known), std::move(decided)};
    }
    split = with(f, stores, &decided);
  }
}

} // namespace luminal::compile
