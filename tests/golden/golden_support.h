// golden/golden_support.h -- golden cases: terms and schedules from files, inputs from a seed,
// kernels run by the loop interpreter.
#pragma once
#include "choose/default_schedule.h"
#include "ir/interp.h"
#include "loop/loop_interp.h"
#include "schedule/lower.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sstream>

namespace luminal::kernel {

inline std::filesystem::path golden_folder() {
  return std::filesystem::path(LUMINAL_SOURCE_DIR) / "tests/golden";
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct GoldenCase {
  std::string name;
  std::map<std::string, int64_t> symbols;
  bool in_place = false;
  double tolerance = 2e-6;                                     // relative to the largest element of a result
  std::map<std::string, std::pair<int64_t, int64_t>> integers; // ranges of integer inputs
};

/// Inputs of a function: floats in -2 .. 2, integers in their range, bytes of packed blocks whose
/// f16 parts are small numbers.
inline Bindings random_bindings(const Function& function, const GoldenCase& c, uint64_t seed) {
  Bindings bindings;
  bindings.symbols = c.symbols;
  ExprMap<int64_t> values;
  for (const Node& node : function.nodes)
    for (auto& type : node.types)
      for (Expr s : symbols_of(type.shape))
        if (auto found = c.symbols.find(std::string(s.name())); found != c.symbols.end())
          values[s] = found->second;
  for (NodeId id : function.params) {
    const Node& node = function[id];
    const std::string& name = std::get<InputAttr>(node.attr).name;
    HostTensor t;
    t.dtype = node.type().dtype;
    int64_t count = 1;
    for (Expr e : node.type().shape) {
      t.shape.push_back(*evaluate(e, values));
      count *= t.shape.back();
    }
    t.data.resize(size_t(storage_bytes(t.dtype, count)));
    std::mt19937_64 random(seed * 1000003 + std::hash<std::string>()(name) % 1000);
    auto range = c.integers.contains(name) ? c.integers.at(name) : std::pair<int64_t, int64_t>{0, 3};
    for (int64_t i = 0; i < count; i++)
      if (is_float(t.dtype))
        store_f64(t.dtype, t.data.data(), i, double(int64_t(random() % 4001) - 2000) / 1000);
      else
        store_i64(t.dtype, t.data.data(), i,
                  range.first + int64_t(random() % uint64_t(range.second - range.first + 1)));
    bindings.inputs[name] = std::move(t);
  }
  return bindings;
}

struct KernelRun {
  std::map<std::string, std::vector<std::byte>> results; // by result name
  LoopRun run;
};

/// Runs a kernel of a cone on the inputs.
inline KernelRun run_cone(const Function& function, const Cone& cone, const Kernel& kernel,
                          const Bindings& bindings, const LoopRunOptions& options) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::span<std::byte>> spans;
  std::vector<int64_t> symbols;
  ExprMap<int64_t> values;
  for (Expr s : kernel.symbols) {
    symbols.push_back(bindings.symbols.at(std::string(s.name())));
    values[s] = symbols.back();
  }
  for (const ConeValue& v : cone.values) {
    if (v.role == ValueRole::interior) continue;
    const Buffer& buffer = kernel.buffers[BufferId(bytes.size())];
    EXPECT_EQ(buffer.name, v.name);
    auto size = size_t(storage_bytes(v.dtype, *evaluate(buffer.size, values)));
    NodeId source = v.role == ValueRole::inout ? v.base : v.origin;
    const Node& node = function[source];
    if (v.role == ValueRole::output)
      bytes.emplace_back(size);
    else if (node.kind == NodeKind::constant)
      bytes.push_back(*std::get<ConstantAttr>(node.attr).data);
    else
      bytes.push_back(bindings.inputs.at(std::get<InputAttr>(node.attr).name).data);
    EXPECT_EQ(bytes.back().size(), size) << v.name;
  }
  for (auto& b : bytes) spans.emplace_back(b);
  KernelRun out;
  out.run = run_kernel(kernel, spans, symbols, options);
  size_t i = 0;
  for (const ConeValue& v : cone.values) {
    if (v.role == ValueRole::interior) continue;
    if (v.role != ValueRole::input)
      for (auto& result : function.results)
        if (result.value == v.origin) out.results[result.name] = bytes[i];
    i++;
  }
  return out;
}

/// The largest difference, relative to the largest element; infinite where one is NaN and the other
/// is not.
inline double difference(DType type, const std::vector<std::byte>& got, const HostTensor& want) {
  if (got.size() != want.data.size()) return INFINITY;
  double worst = 0, largest = 1e-30;
  for (int64_t i = 0; i < want.count(); i++) {
    double a = load_f64(type, got.data(), i), b = want.at(i);
    if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return INFINITY;
    worst = std::max(worst, std::fabs(a - b));
  }
  return worst / largest;
}

inline int count_of(std::string_view text, std::string_view what) {
  int count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at++) count++;
  return count;
}

inline Result<Cone> cone_of(const Function& function, bool in_place) {
  std::vector<NodeId> roots;
  for (auto& r : function.results) roots.push_back(r.value);
  ConeOptions options;
  options.name = function.name;
  options.in_place = in_place;
  return build_cone(function, roots, {}, options);
}

} // namespace luminal::kernel
