// train/model_scope.h -- what a model's function asked for while it made its terms.
#pragma once
#include "luminal/random.h"
#include "luminal/train.h"

namespace luminal {

struct ModelScope::State {
  Graph& graph;
  bool training;
  DType precision;
  uint64_t seed;
  Dim batch;
  std::vector<std::pair<std::string, Tensor>> inputs = {};

  struct Parameter {
    std::string name;
    Tensor stored; // a state where it trains, else a weight
    Init first;
    Group group = {};
  };
  std::vector<Parameter> parameters = {};
  struct Running {
    std::string name;
    Tensor stored;
    double first;
  };
  std::vector<Running> running = {};
  std::vector<std::string> frozen = {};
  mutable std::vector<std::string> keys = {};
};

namespace train {
/// A tensor for each field of the data.
void add_inputs(ModelScope::State& scope, const DataSet& data);
/// First values, all in one program; those that the file `weights` names come from there.
void set_first_values(ModelScope::State& scope, const std::string& weights, const CompileOptions& compile,
                      std::source_location where);
/// Frozen values. Throws Error for those that the file does not have.
void load_frozen(ModelScope::State& scope, const std::string& weights, std::source_location where);
} // namespace train

} // namespace luminal
