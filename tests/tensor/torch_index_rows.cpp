// tests/tensor/torch_index_rows.cpp -- movement, gather and scatter, scans, sorting, generators,
// casts as PyTorch names them.
#include "ir/dtype.h"
#include "torch_cases.h"

namespace luminal::test {
namespace {

Dims dims_of(const std::vector<int>& list) { return {list.begin(), list.end()}; }
std::optional<Dim> bound_of(const CaseAttrs& attrs, const std::string& name) {
  return attrs.has(name) ? std::optional<Dim>(attrs.integer(name)) : std::nullopt;
}
ScatterOp scatter_op(const std::string& name) {
  return name == "sum"    ? ScatterOp::add
         : name == "prod" ? ScatterOp::mul
         : name == "amin" ? ScatterOp::min
                          : ScatterOp::max;
}
PadMode pad_mode(const std::string& name) {
  return name == "reflect"     ? PadMode::reflect
         : name == "replicate" ? PadMode::replicate
         : name == "circular"  ? PadMode::circular
                               : PadMode::constant;
}
CaseOutputs both(const Indexed& x) { return {x.values, x.indices}; }
CaseOutputs both(const Bounded& x) { return {x.values, x.count}; }
DType dtype_named(std::string name) {
  static const std::map<std::string, DType> names{
      {"float32", DType::f32}, {"float64", DType::f64}, {"float16", DType::f16}, {"bfloat16", DType::bf16},
      {"int64", DType::i64},   {"int32", DType::i32},   {"int16", DType::i16},   {"int8", DType::i8},
      {"uint8", DType::u8},    {"bool", DType::boolean}};
  return names.at(name);
}

/// "[:,1:-1,::2]"
std::vector<Slice> parse_slices(const std::string& text) {
  std::vector<Slice> slices;
  std::string part;
  for (char c : text.substr(1)) {
    if (c != ',' && c != ']') {
      part += c;
      continue;
    }
    Slice slice;
    std::vector<std::string> pieces(1);
    for (char p : part)
      if (p == ':')
        pieces.emplace_back();
      else
        pieces.back() += p;
    if (!pieces[0].empty()) slice.start = Dim(std::stoi(pieces[0]));
    if (pieces.size() > 1 && !pieces[1].empty()) slice.end = Dim(std::stoi(pieces[1]));
    if (pieces.size() > 2 && !pieces[2].empty()) slice.step = std::stoi(pieces[2]);
    slices.push_back(slice);
    part.clear();
  }
  return slices;
}

Tensor pad_case(const CaseCall& c) {
  const double value = c.attrs.number("value", 0);
  if (c.attrs.has("pad_last_first")) {
    auto p = c.attrs.integers("pad_last_first");
    return c[0].pad({{-1, p[0], p[1]}, {-2, p[2], p[3]}}, PadMode::constant, value);
  }
  auto p = c.attrs.integers("pad");
  return c[0].pad({{-1, p[0], p[1]}}, pad_mode(c.attrs.text("mode")), value);
}
Tensor pad_axes_case(const CaseCall& c) {
  std::vector<Padding> padding;
  auto axes = c.attrs.integers("axes"), before = c.attrs.integers("before"),
       after = c.attrs.integers("after");
  for (size_t i = 0; i < axes.size(); i++) padding.push_back({axes[i], before[i], after[i]});
  return c[0].pad(padding, pad_mode(c.attrs.text("mode")), c.attrs.number("value", 0));
}

#define ROW [](const CaseCall& c) -> CaseOutputs

const TorchOps movement_rows{{"permute", ROW{return c[0].permute(c.attrs.integers("dims"));
} // namespace
} // namespace luminal::test
, {"transpose", ROW{return c[0].swapaxes(c.attrs.integer("a"), c.attrs.integer("b"));
}
}
, {"t", ROW{return c[0].t();
}
}
, {"movedim", ROW{return c[0].movedim(c.attrs.integers("a"), c.attrs.integers("b"));
}
}
, {"reshape", ROW{return c[0].reshape(dims_of(c.attrs.integers("shape")));
}
}
, {"reshape_t", ROW{return c[0].transpose(0, 2).reshape(dims_of(c.attrs.integers("shape")));
}
}
, {"flatten", ROW{return c[0].flatten(c.attrs.integer("a"), c.attrs.integer("b"));
}
}
, {"unflatten", ROW{return c[0].unflatten(c.attrs.integer("axis"), dims_of(c.attrs.integers("shape")));
}
}
, {"squeeze", ROW{return c.attrs.has("dims") ? c[0].squeeze(c.attrs.integers("dims")) : c[0].squeeze();
}
}
, {"unsqueeze", ROW{return c[0].unsqueeze(c.attrs.integer("axis"));
}
}
, {"expand", ROW{return c[0].expand(dims_of(c.attrs.integers("shape")));
}
}
, {"flip", ROW{return c[0].flip(c.attrs.integers(c.attrs.has("dims") ? "dims" : "dim"));
}
}
, {"roll", ROW{const bool list = c.attrs.has("dims");
return c[0].roll(dims_of(c.attrs.integers("shift")), c.attrs.integers(list ? "dims" : "dim"));
}
}
, {"rot90", ROW{return rot90(c[0], c.attrs.integer("k"), c.attrs.integer("a"), c.attrs.integer("b"));
}
}
, {"repeat", ROW{return c[0].repeat(dims_of(c.attrs.integers("times")));
}
}
, {"tile", ROW{return c[0].tile(dims_of(c.attrs.integers("times")));
}
}
, {"repeat_interleave", ROW{return c[0].repeat_interleave(c.attrs.integer("repeats"), c.attrs.integer("dim"));
}
}
, {"unfold",
   ROW{return windows(c[0], {c.attrs.integer("axis")}, {c.attrs.integer("size")}, {c.attrs.integer("step")});
}
}
, {"unfold1d", ROW{return c[0].windows(-1, c.attrs.integer("size"), c.attrs.integer("step"));
}
}
, {"tril", ROW{return c[0].tril(c.attrs.integer("k"));
}
}
, {"triu", ROW{return c[0].triu(c.attrs.integer("k"));
}
}
, {"diagonal", ROW{return c[0].diagonal(c.attrs.integer("k"), c.attrs.integer("a"), c.attrs.integer("b"));
}
}
, {"diag", ROW{return diag(c[0], c.attrs.integer("k"));
}
}
, {"diag_embed",
   ROW{return diag_embed(c[0], c.attrs.integer("k"), c.attrs.integer("a"), c.attrs.integer("b"));
}
}
, {"trace", ROW{return trace(c[0]);
}
}
, {"meshgrid", ROW{return meshgrid(c.in, c.attrs.flag("xy"));
}
}
, {"cartesian_prod", ROW{return cartesian_prod(c.in);
}
}
, {"slice", ROW{return c[0].slice(parse_slices(c.attrs.text("slices")));
}
}
, {"slice_one", ROW{return c[0].slice(std::vector<Slice>{{.start = bound_of(c.attrs, "start"),
                                                          .end = bound_of(c.attrs, "end"),
                                                          .step = c.attrs.integer("step")}});
}
}
, {"narrow",
   ROW{return c[0].narrow(c.attrs.integer("axis"), c.attrs.integer("start"), c.attrs.integer("length"));
}
}
, {"select_index", ROW{return c[0].select(c.attrs.integer("axis"), c.attrs.integer("index"));
}
}
, {"split", ROW{return c[0].split(int64_t(c.attrs.integer("size")), c.attrs.integer("axis"));
}
}
, {"split_sizes", ROW{return c[0].split(dims_of(c.attrs.integers("sizes")), c.attrs.integer("axis"));
}
}
, {"chunk", ROW{return c[0].chunk(c.attrs.integer("parts"), c.attrs.integer("axis"));
}
}
, {"unbind", ROW{return c[0].unbind(c.attrs.integer("axis"));
}
}
, {"pad", ROW{return pad_case(c);
}
}
, {"pad_axes", ROW{return pad_axes_case(c);
}
}
, {"cat", ROW{return concat(c.in, c.attrs.integer("dim"));
}
}
, {"stack", ROW{return stack(c.in, c.attrs.integer("dim"));
}
}
, {"hstack", ROW{return hstack(c.in);
}
}
, {"vstack", ROW{return vstack(c.in);
}
}
,
}
;

const TorchOps indexing_rows{{"gather", ROW{return c[0].gather(c.attrs.integer("dim"), c[1]);
}
}
, {"take_along", ROW{return c[0].take_along(c[1], c.attrs.integer("dim"));
}
}
, {"index_select", ROW{return c[0].index_select(c.attrs.integer("dim"), c[1]);
}
}
, {"embedding", ROW{return c.attrs.has("padding_idx") ? embedding(c[0], c[1], c.attrs.integer("padding_idx"))
                           : is_float(c[0].dtype())   ? embedding(c[0], c[1])
                                                      : embedding(c[1], c[0]);
}
}
, {"index_get", ROW{return index_get(c[0], {c.in.begin() + 1, c.in.end()});
}
}
, {"gather_nd", ROW{return gather_nd(c[0], c[1]);
}
}
, {"scatter", ROW{return c[0].scatter(c.attrs.integer("dim"), c[1], c[2]);
}
}
, {"scatter_add", ROW{return c[0].scatter(c.attrs.integer("dim"), c[1], c[2], ScatterOp::add);
}
}
, {"scatter_value", ROW{return c[0].scatter(c.attrs.integer("dim"), c[1], c.attrs.number("value"));
}
}
, {"scatter_reduce", ROW{return scatter_reduce(c[0], c.attrs.integer("dim"), c[1], c[2],
                                               scatter_op(c.attrs.text("how")), c.attrs.flag("include"));
}
}
, {"index_add", ROW{return index_add(c[0], c.attrs.integer("dim"), c[1], c[2], c.attrs.number("alpha"));
}
}
, {"index_copy", ROW{return index_copy(c[0], c.attrs.integer("dim"), c[1], c[2]);
}
}
, {"index_fill", ROW{return index_fill(c[0], c.attrs.integer("dim"), c[1], c.attrs.number("value"));
}
}
, {"index_put", ROW{return index_put(c[0], {c[1], c[2]}, c[3],
                                     c.attrs.flag("accumulate") ? ScatterOp::add : ScatterOp::set);
}
}
, {"one_hot", ROW{return one_hot(c[0], c.attrs.integer("classes"));
}
}
, {"nonzero", ROW{return both(nonzero(c[0], c.attrs.integer("capacity")));
}
}
, {"masked_select",
   ROW{return both(masked_select(c[0], c[1], c.attrs.integer("capacity"), c.attrs.number("fill")));
}
}
, {"unique", ROW{Unique u = unique(c[0], c.attrs.integer("capacity"));
return {u.values, u.inverse, u.counts, u.count};
}
}
, {"searchsorted", ROW{return searchsorted(c[0], c[1], c.attrs.flag("right"));
}
}
, {"bucketize", ROW{return bucketize(c[0], c[1], c.attrs.flag("right"));
}
}
, {"bincount", ROW{return bincount(c[0], c.attrs.integer("bins"), c.in.size() > 1 ? c[1] : Tensor());
}
}
, {"histc", ROW{return histc(c[0], c.attrs.integer("bins"), c.attrs.number("low"), c.attrs.number("high"));
}
}
,
}
;

const TorchOps order_rows{{"cumsum", ROW{return c[0].cumsum(c.attrs.integer("dim"));
}
}
, {"cumprod", ROW{return c[0].cumprod(c.attrs.integer("dim"));
}
}
, {"cummax", ROW{return both(c[0].cummax(c.attrs.integer("dim")));
}
}
, {"cummin", ROW{return both(c[0].cummin(c.attrs.integer("dim")));
}
}
, {"logcumsumexp", ROW{return c[0].logcumsumexp(c.attrs.integer("dim"));
}
}
, {"diff", ROW{return diff(c[0], c.attrs.integer("n"), c.attrs.integer("dim"));
}
}
, {"sort", ROW{return both(c[0].sort(c.attrs.integer("dim"), c.attrs.flag("descending")));
}
}
, {"argsort", ROW{return c[0].argsort(c.attrs.integer("dim"), c.attrs.flag("descending"));
}
}
, {"topk", ROW{return both(c[0].topk(c.attrs.integer("k"), c.attrs.integer("dim"), c.attrs.flag("largest")));
}
}
, {"topk_values",
   ROW{return c[0].topk(c.attrs.integer("k"), c.attrs.integer("dim"), c.attrs.flag("largest")).values;
}
}
, {"kthvalue",
   ROW{return both(kthvalue(c[0], c.attrs.integer("k"), c.attrs.integer("dim"), c.attrs.flag("keep")));
}
}
, {"median", ROW{return both(median(c[0], c.attrs.integer("dim"), c.attrs.flag("keep")));
}
}
,
}
;

const TorchOps generator_rows{{"arange", ROW{return arange(c.graph, c.attrs.integer("start"),
                                                           c.attrs.integer("end"), c.attrs.integer("step"));
}
}
, {"arange_float",
   ROW{return arange(c.graph, c.attrs.number("start"), c.attrs.number("end"), c.attrs.number("step"));
}
}
, {"linspace", ROW{return linspace(c.graph, c.attrs.number("start"), c.attrs.number("end"),
                                   c.attrs.integer("count"), c.attrs.flag("f64") ? DType::f64 : DType::f32);
}
}
, {"logspace", ROW{return logspace(c.graph, c.attrs.number("start"), c.attrs.number("end"),
                                   c.attrs.integer("count"), c.attrs.number("base"));
}
}
, {"eye", ROW{return eye(c.graph, c.attrs.integer("n"), c.attrs.integer("m"));
}
}
, {"tri", ROW{return tri(c.graph, c.attrs.integer("n"), c.attrs.integer("m"), c.attrs.integer("k"));
}
}
, {"full", ROW{return full(c.graph, dims_of(c.attrs.integers("shape")), c.attrs.number("value"));
}
}
, {"like", ROW{return {full_like(c[0], 7), zeros_like(c[0]), ones_like(c[0])};
}
}
, {"cast", ROW{return c[0].cast(dtype_named(c.attrs.text("to")));
}
}
, {"bitcast", ROW{return c[0].bitcast(dtype_named(c.attrs.text("to")));
}
}
,
}
;

} // namespace
} // namespace luminal::test
