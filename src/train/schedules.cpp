// train/schedules.cpp -- learning rates as terms over the number of finished steps.
#include "luminal/functions.h"
#include "luminal/optimizers.h"
#include "luminal/random.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace luminal::schedules {
namespace {

void need_steps(std::string_view op, int64_t steps) {
  if (steps < 1) throw Error(fmt::format("[{}] {} steps: at least 1 is expected", op, steps));
}
/// 0 at step 0, 1 from the last step on.
Tensor part(const Tensor& step, double steps) { return minimum(step / steps, 1.0); }
/// From a to b by half a cosine.
Tensor half_cosine(const Tensor& at, double a, double b) {
  return b + (a - b) * 0.5 * (1.0 + (at * std::numbers::pi).cos());
}

} // namespace

Schedule constant(double rate) {
  return [=](const Tensor& step) { return full_like(step, rate); };
}
Schedule cosine(double rate, int64_t steps, double least) {
  need_steps("cosine", steps);
  return [=](const Tensor& step) { return half_cosine(part(step, double(steps)), rate, least); };
}
Schedule linear(double from, double to, int64_t steps) {
  need_steps("linear", steps);
  return [=](const Tensor& step) { return from + part(step, double(steps)) * (to - from); };
}
Schedule polynomial(double rate, int64_t steps, double power) {
  need_steps("polynomial", steps);
  return [=](const Tensor& step) { return rate * (1.0 - part(step, double(steps))).pow(power); };
}
Schedule exponential(double rate, double gamma) {
  return [=](const Tensor& step) { return rate * pow(full_like(step, gamma), step); };
}
Schedule step(double rate, int64_t every, double gamma) {
  need_steps("step", every);
  return [=](const Tensor& at) { return rate * pow(full_like(at, gamma), (at / double(every)).floor()); };
}
Schedule steps_at(double rate, std::vector<int64_t> milestones, double gamma) {
  return [=](const Tensor& at) {
    Tensor passed = full_like(at, 0);
    for (int64_t milestone : milestones) passed = passed + (at >= double(milestone)).cast(DType::f64);
    return rate * pow(full_like(at, gamma), passed);
  };
}
Schedule warm_up(int64_t steps, Schedule after) {
  need_steps("warm_up", steps);
  return [=](const Tensor& at) {
    const Tensor rest = after(maximum(at - double(steps), 0.0));
    return select(at < double(steps), rest * ((at + 1.0) / double(steps)), rest);
  };
}
Schedule one_cycle(double most, int64_t steps, double first_part, double divisor, double last_divisor) {
  need_steps("one_cycle", steps);
  if (!(first_part > 0 && first_part < 1) || !(divisor > 0) || !(last_divisor > 0))
    throw Error("[one_cycle] the first part lies between 0 and 1, and divisors are above 0");
  return [=](const Tensor& at) {
    const double turn = first_part * double(steps) - 1, end = double(steps) - 1;
    const double first = most / divisor, last = first / last_divisor;
    const Tensor rise = half_cosine(at / std::max(turn, 1e-9), first, most);
    const Tensor fall = half_cosine(minimum((at - turn) / std::max(end - turn, 1e-9), 1.0), most, last);
    return select(at <= turn, rise, fall);
  };
}
Schedule plateau(Graph& graph, const Tensor& metric, double rate, double factor, int64_t patience,
                 double threshold, const std::string& name) {
  if (!(factor > 0 && factor < 1))
    throw Error(fmt::format("[plateau] a factor of {} does not lie between 0 and 1", factor));
  const Tensor seen = graph.state(name + ".seen", {}, DType::boolean),
               best = graph.state(name + ".best", {}, DType::f64),
               bad = graph.state(name + ".bad", {}, DType::i64),
               falls = graph.state(name + ".falls", {}, DType::i64);
  const Tensor now = metric.cast(DType::f64).reshape(Dims{});
  const Tensor better = (now < best - best.abs() * threshold) | !Operand(seen);
  const Tensor waited = select(better, 0, bad + 1), fall = waited > patience;
  graph.update(seen, ones_like(seen));
  graph.update(best, select(better, now, best));
  graph.update(bad, select(fall, 0, waited));
  graph.update(falls, falls + fall.cast(DType::i64));
  return [=](const Tensor& at) { return rate * pow(full_like(at, factor), falls.cast(DType::f64)); };
}

} // namespace luminal::schedules
