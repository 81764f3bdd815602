// train/optimizer.cpp -- Optimizer: states, steps, groups; the rules are in optimizer_rules.cpp.
#include "train/optimizer.h"
#include "luminal/random.h"
#include "tensor/graph_state.h"
#include <fmt/format.h>

namespace luminal {

LearningRate::LearningRate(double constant)
    : at([constant](const Tensor& step) { return full_like(step, constant); }) {}
LearningRate::LearningRate(const Tensor& given)
    : at([given](const Tensor& step) { return given.cast(DType::f64).reshape(step.shape()); }) {}

namespace {
std::string own_name(const Tensor& state) {
  return std::get<InputAttr>(state.graph()->builder[node_id(state)].attr).name;
}
/// `next` where the condition holds, else the old value.
Tensor chosen(const Tensor& when, const Tensor& next, const Tensor& old) {
  return when.defined() ? select(when, next, old) : next;
}
} // namespace

Tensor ParameterStep::remembered(const std::string& what) {
  const std::string full = name + "." + what;
  const auto known = parameter.graph()->inputs.find(full);
  const Tensor state = known != parameter.graph()->inputs.end()
                           ? wrap(parameter.graph(), known->second)
                           : graph.state(full, parameter.shape(), memory);
  return state.cast(compute);
}
Tensor ParameterStep::remember(const std::string& what, const Tensor& next) {
  const Tensor state = wrap(parameter.graph(), parameter.graph()->inputs.at(name + "." + what));
  const Tensor rounded = next.cast(memory);
  graph.update(state, chosen(when, rounded, state));
  return rounded.cast(compute);
}
Tensor ParameterStep::correction(double beta) const {
  return (1.0 - pow(full_like(step, beta), step)).cast(compute);
}

Optimizer::Optimizer(Graph& graph, std::string name, LearningRate rate, double weight_decay, DType memory,
                     Rule rule, Where where)
    : name_(std::move(name)), weight_decay_(weight_decay), memory_(memory), rule_(std::move(rule)) {
  if (!is_float(memory))
    throw Error(name_, fmt::format("what is remembered cannot be {}", to_string(memory)), where);
  std::string state = name_ + ".step";
  for (int k = 2; graph.state(name_, where)->inputs.contains(state); ++k)
    state = fmt::format("{}{}.step", name_, k);
  step_ = graph.state(state, {}, DType::i64, where);
  rate_ = rate.at(step_.cast(DType::f64));
  if (rate_.dtype() != DType::f64 || rate_.rank() != 0)
    throw Error(name_,
                fmt::format("the learning rate is {}, a schedule gives f64", to_string(type_of(rate_))),
                where);
}

void Optimizer::update(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
                       const GroupOptions& group, Where where) {
  if (parameters.size() != gradients.size())
    throw Error(name_, fmt::format("{} gradients for {} parameters", gradients.size(), parameters.size()),
                where);
  Graph graph(step_.graph());
  const Tensor when = group.when.value_or(Tensor());
  if (when.defined() && !(type_of(when) == TensorType{DType::boolean, {}}))
    throw Error(name_, fmt::format("the condition is {}, one bool is expected", to_string(type_of(when))),
                where);
  if (!counted_) graph.update(step_, chosen(when, step_ + 1, step_), where);
  counted_ = true;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    check_graph(name_, step_.graph(), p, where);
    check_graph(name_, step_.graph(), gradients[i], where);
    if (input_attr(*step_.graph(), node_id(p), name_, where).role != Role::state || !is_float(p.dtype()))
      throw Error(
          name_,
          fmt::format("parameter {} ({}) is not a state of floating-point numbers: Graph::state makes one", i,
                      own_name(p)),
          where);
    if (!same_shape(type_of(p).shape, type_of(gradients[i]).shape))
      throw Error(name_,
                  fmt::format("the gradient of {} is {}, the parameter {}", own_name(p),
                              to_string(type_of(gradients[i])), to_string(type_of(p))),
                  where);
    const DType compute = p.dtype() == DType::f64 ? DType::f64 : DType::f32;
    ParameterStep one{graph,
                      own_name(p),
                      compute,
                      p.dtype() == DType::f64 && memory_ == DType::f32 ? DType::f64 : memory_,
                      p.cast(compute),
                      gradients[i].cast(compute),
                      (rate_ * group.rate).cast(compute),
                      (step_ + 1).cast(DType::f64),
                      group.weight_decay.value_or(weight_decay_),
                      when,
                      p};
    const Tensor next = rule_(one).cast(p.dtype());
    graph.update(p, chosen(when, next, p), where);
  }
}

} // namespace luminal
