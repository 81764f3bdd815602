// examples/04_loop.cpp -- lesson 4: an LSTM (Hochreiter and Schmidhuber 1997) as a loop: the cell
// is compiled once and run for every step.
#include "luminal/luminal.h"
#include <cmath>
#include <cstdio>
#include <vector>

using namespace luminal;

int main() {
  constexpr int64_t steps = 6, inputs = 3, hidden = 4;
  Graph g;
  Tensor xs = g.tensor({steps, inputs});
  Tensor w = g.weight("w", {inputs + hidden, 4 * hidden});
  Tensor h0 = g.tensor({hidden}), c0 = g.tensor({hidden});

  auto lstm = g.loop(steps, {h0, c0}, {xs}, {w},
                     [&](Graph&, Tensor, const std::vector<Tensor>& carried,
                         const std::vector<Tensor>& slices, const std::vector<Tensor>& invariants) {
                       Tensor h = carried[0], c = carried[1], x = slices[0];
                       Tensor gates = concat({x, h}, 0).matmul(
                           invariants[0]); // [4 * hidden]: input, forget, output, candidate
                       auto part = [&](int64_t i) { return gates.slice(0, i * hidden, (i + 1) * hidden); };
                       Tensor cell = part(1).sigmoid() * c + part(0).sigmoid() * part(3).tanh();
                       Tensor out = part(2).sigmoid() * cell.tanh();
                       return Graph::LoopResult{{out, cell}, {out}};
                     });
  Tensor last = lstm.carried[0].keep(), all = lstm.stacked[0].keep(); // [hidden], [steps, hidden]

  std::vector<float> x, weights;
  for (int64_t i = 0; i < steps * inputs; i++) x.push_back(std::sin(float(i)));
  for (int64_t i = 0; i < (inputs + hidden) * 4 * hidden; i++) weights.push_back(std::cos(float(i) * 0.7f));
  xs.set(x);
  w.set(weights);
  h0.set(std::vector<float>(hidden, 0));
  c0.set(std::vector<float>(hidden, 0));
  g.execute();
  auto values = last.data<float>();
  std::printf("last: %.4f %.4f %.4f %.4f\n", values[0], values[1], values[2], values[3]);
  std::printf("%zu values in all\n", all.data<float>().size());
}
