// nn/scope.h -- what the modules of one scope share: their parameters, buffers and mode.
#pragma once
#include "luminal/nn.h"
#include "tensor/graph_state.h"

namespace luminal::nn {

/// Uniform within 1 / sqrt(fan), as PyTorch's layers begin.
Init uniform_of_fan(double fan);

/// A parameter or buffer under its whole name.
struct Entry {
  std::string name;
  Tensor tensor;
  std::vector<int64_t> shape;
  bool is_buffer = false;
  std::optional<QuantizedWeight> codes; // [rows, all other axes]
};

struct Registry {
  explicit Registry(std::shared_ptr<GraphState> g, const ScopeOptions& o)
      : graph(std::move(g)), options(o), training(o.trained) {}
  std::shared_ptr<GraphState> graph;
  ScopeOptions options;
  bool training;
  int64_t keys = 0; // given out by random_key
  Tensor key;       // of this execute
  std::map<std::string, std::shared_ptr<Entry>> entries;
};

/// Throws Error("[op] ...") unless all these sizes are at least 1.
void need_sizes(std::string_view op, std::initializer_list<std::pair<const char*, int64_t>> sizes,
                std::source_location where);

} // namespace luminal::nn
