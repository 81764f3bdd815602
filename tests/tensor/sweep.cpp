// tests/tensor/sweep.cpp -- builds the variants, gives them values, compares plan and interpreter.
#include "sweep.h"
#include "ir/interp.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace luminal::test {
namespace {

constexpr int64_t dynamic_sizes[] = {0, 1, 7};

struct Input {
  std::string name;
  TensorType type;
  double low, high;
  bool special;
};
struct Output {
  std::string label;
  Tensor value;
  double ulp, scale;
};

/// A graph under construction: dynamic (the size that varies is n) or of fixed sizes.
class SweepGraph {
public:
  SweepGraph(bool dynamic, uint64_t seed) : dynamic_(dynamic), random_(seed) {}

  void add(const SweepOp& op, DType dtype, int layout, int64_t size) {
    const std::string label = fmt::format("{} {} layout {} size {}", op.name, to_string(dtype), layout,
                                          dynamic_ ? "n" : std::to_string(size));
    try {
      std::vector<Tensor> in;
      for (size_t i = 0; i < op.shapes.size(); ++i)
        in.push_back(operand(op, i, dtype, Layout((size_t(layout) + i) % layout_count), size));
      for (const Tensor& value : op.make(in)) {
        outputs_.push_back({label, value, op.ulp, op.scale});
        outputs_.back().value.keep();
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << label << ": " << error.what();
    }
  }

  size_t size() const { return outputs_.size(); }

  void run() {
    if (outputs_.empty()) return;
    const Module module = graph_.state()->snapshot();
    if (getenv("SWEEP_PRINT"))
      fprintf(stderr, "%s .. %s\n", outputs_.front().label.c_str(), outputs_.back().label.c_str());
    for (int64_t n : dynamic_sizes) {
      Bindings bindings;
      if (dynamic_) {
        for (int64_t least : {0, 1, 2, 3, 4})
          if (used_[least]) {
            bindings.symbols[symbol(least)] = std::max(n, least);
            graph_.set_dim(symbol(least), std::max(n, least));
          }
      }
      for (auto& [input, tensor] : inputs_) {
        bindings.inputs[input.name] = values(input, bindings);
        tensor.set_bytes(bindings.inputs[input.name].data, input.type.dtype);
      }
      try {
        graph_.execute();
        Interpreter interpreter(module, bindings);
        for (const Output& output : outputs_) compare(output, interpreter, n);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "a graph from " << outputs_.front().label << " to " << outputs_.back().label
                      << " at " << n << ": " << error.what();
        return;
      }
      if (!dynamic_) break;
    }
  }

private:
  static std::string symbol(int64_t least) { return fmt::format("n{}", least); }

  Dim extent(int64_t written, int64_t size, int64_t least) {
    if (written != -1) return written;
    if (!dynamic_) return size;
    used_[least] = true;
    return graph_.dim(symbol(least), least, 8);
  }

  Tensor operand(const SweepOp& op, size_t i, DType dtype, Layout layout, int64_t size) {
    Dims shape;
    for (int64_t e : op.shapes[i]) shape.push_back(extent(e, size, op.least));
    Input input{fmt::format("x{}", inputs_.size()), {dtype, {}}, op.low, op.high, op.special};
    for (auto [at, type] : op.fixed)
      if (at == i) input.type.dtype = type;
    for (const auto& [at, range] : op.ranges)
      if (at == i) input.low = range.first, input.high = range.second, input.special = false;
    const int rank = int(shape.size());
    if (rank == 0 || (rank == 1 && layout == Layout::permuted)) layout = Layout::contiguous;
    Dims stored = shape;
    if (layout == Layout::permuted) std::reverse(stored.begin(), stored.end());
    if (layout == Layout::stepped) stored.back() = stored.back() * 2 + 1;
    if (layout == Layout::broadcast) stored[0] = 1;
    input.type.shape = to_shape(stored);
    Tensor t = graph_.tensor(stored, input.type.dtype, input.name);
    inputs_.emplace_back(input, t);
    switch (layout) {
    case Layout::contiguous: return t;
    case Layout::permuted: {
      std::vector<int> order;
      for (int d = rank; d-- > 0;) order.push_back(d);
      return t.permute(order);
    }
    case Layout::stepped: return t.slice(-1, 1, shape.back() * 2 + 1, 2);
    case Layout::flipped: return rank > 1 ? t.flip(0).flip(-1) : t.flip(0);
    case Layout::broadcast: return t.expand(shape);
    }
    return t;
  }

  HostTensor values(const Input& input, const Bindings& bindings) {
    ExprMap<int64_t> bound;
    for (const auto& [name, value] : bindings.symbols)
      bound[to_expr(graph_.dim(name, name[1] - '0', 8))] = value;
    HostTensor t{input.type.dtype, {}, {}};
    for (Expr e : input.type.shape) t.shape.push_back(evaluate(e, bound).value());
    t.data.resize(size_t(storage_bytes(t.dtype, t.count())));
    for (int64_t i = 0; i < t.count(); ++i)
      if (is_float(t.dtype))
        store_f64(t.dtype, t.data.data(), i, float_value(input));
      else
        store_i64(t.dtype, t.data.data(), i, integer_value(input));
    return t;
  }
  double float_value(const Input& input) {
    static constexpr double inf = std::numeric_limits<double>::infinity();
    static const double special[] = {0.0,   -0.0,    1,    -1,     inf, -inf, std::nan(""),
                                     1e-40, -1e-310, 3e38, -65504, 2.5, 0.5,  -7};
    if (input.special && random_() % 3 == 0) return special[random_() % std::size(special)];
    return input.low + (input.high - input.low) * double(random_() >> 11) * 0x1p-53;
  }
  int64_t integer_value(const Input& input) {
    const DType type = input.type.dtype;
    if (type == DType::boolean) return int64_t(random_() % 2);
    if (input.special && random_() % 3 == 0) {
      const int64_t greatest = identity_i64(Op::min, type), least = identity_i64(Op::max, type);
      const int64_t special[] = {0, 1, -1, greatest, least, 2, 7, int64_t(random_())};
      return special[random_() % std::size(special)];
    }
    double value = std::floor(input.low + (input.high - input.low + 1) * double(random_() >> 11) * 0x1p-53);
    return int64_t(value);
  }

  void compare(const Output& output, Interpreter& interpreter, int64_t n) {
    const HostTensor want = interpreter.result(graph_.state()->kept.at(node_id(output.value)));
    std::vector<std::byte> got(size_t(storage_bytes(want.dtype, want.count())));
    ASSERT_EQ(output.value.element_count(), want.count()) << output.label;
    output.value.read(got.data(), want.dtype);
    int wrong = 0;
    std::string text;
    for (int64_t i = 0; i < want.count(); ++i) {
      if (!is_float(want.dtype)) {
        const int64_t a = load_i64(want.dtype, got.data(), i), b = load_i64(want.dtype, want.data.data(), i);
        if (a != b && wrong++ < 3) text += fmt::format("\n  element {}: plan {}, interpreter {}", i, a, b);
        continue;
      }
      const double a = load_f64(want.dtype, got.data(), i), b = want.at(i);
      const double unit = 2 * unit_roundoff(want.dtype), size = std::fmax(std::fabs(b), output.scale);
      const bool same = std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b)
                        : std::isinf(a) || std::isinf(b)
                            ? a == b
                            : a == b || std::fabs(a - b) <=
                                            output.ulp * std::fmax(unit * size, least_subnormal(want.dtype));
      if (!same && wrong++ < 3)
        text += fmt::format("\n  element {}: plan {:.9g}, interpreter {:.9g}", i, a, b);
    }
    EXPECT_EQ(wrong, 0) << output.label << (dynamic_ ? fmt::format(" = {}", n) : "") << " of " << want.count()
                        << text;
  }

  bool dynamic_;
  std::mt19937_64 random_;
  Graph graph_;
  bool used_[8] = {};
  std::vector<std::pair<Input, Tensor>> inputs_;
  std::vector<Output> outputs_;
};

} // namespace

void sweep(const std::vector<SweepOp>& ops, const SweepOptions& options) {
  SCOPED_TRACE(fmt::format("seed {}", options.seed));
  std::unique_ptr<SweepGraph> graphs[2];
  uint64_t made = 0;
  auto graph = [&](bool dynamic) -> SweepGraph& {
    auto& slot = graphs[dynamic];
    if (slot && slot->size() >= options.outputs_in_a_graph) slot->run(), slot.reset();
    if (!slot) slot = std::make_unique<SweepGraph>(dynamic, options.seed * 1000 + made++);
    return *slot;
  };
  size_t turn = options.seed;
  for (const SweepOp& op : ops) {
    bool varies = false;
    for (const auto& shape : op.shapes)
      for (int64_t e : shape) varies |= e == -1;
    for (DType dtype : op.dtypes) {
      for (int layout = 0; layout < (options.every_layout ? layout_count : 1); ++layout) {
        const int chosen = options.every_layout ? layout : int(turn % layout_count);
        graph(varies).add(op, dtype, chosen, 0);
      }
      if (varies)
        for (int64_t size : {0, 1, 7})
          if (size >= op.least)
            graph(false).add(op, dtype, int((turn + size_t(size) + 1) % layout_count), size);
      ++turn;
    }
  }
  for (auto& slot : graphs)
    if (slot) slot->run();
}

} // namespace luminal::test
