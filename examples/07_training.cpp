// examples/07_training.cpp -- lesson 7: training. Gradients, the optimizer and its schedule are
// terms of the same graph: an execute is a step. A small network learns to tell two spirals apart.
#include "luminal/luminal.h"
#include <cmath>
#include <cstdio>
#include <numbers>

int main() {
  using namespace luminal;
  constexpr int pairs = 128, points = 2 * pairs, hidden = 32;
  std::vector<float> places, classes;
  for (int i = 0; i < points; ++i) {
    const int pair = i / 2;
    const double turn = std::sqrt(double(pair) / pairs) * 2 * std::numbers::pi;
    const double side = i % 2 == 0 ? 1 : -1;
    places.push_back(float(side * turn * std::cos(turn) / 6));
    places.push_back(float(side * turn * std::sin(turn) / 6));
    classes.push_back(float(i % 2));
  }

  Graph g;
  Tensor x = g.tensor({points, 2}, DType::f32, "x"), y = g.tensor({points, 1}, DType::f32, "y");
  x.set(places);
  y.set(classes);

  // Parameters are states: they live from step to step. Their first values come from a second graph.
  std::vector<Tensor> parameters;
  const auto parameter = [&](const char* name, Dims shape, double deviation, uint64_t seed) {
    Graph first;
    Tensor values = random_normal(random_key(first, seed), shape, 0, deviation).keep();
    first.execute();
    Tensor p = g.state(name, shape);
    p.set(values.data<float>());
    parameters.push_back(p);
    return p;
  };
  Tensor w1 = parameter("w1", {2, hidden}, 1, 1), b1 = parameter("b1", {hidden}, 0.5, 2);
  Tensor w2 = parameter("w2", {hidden, hidden}, 0.25, 3), b2 = parameter("b2", {hidden}, 0, 4);
  Tensor w3 = parameter("w3", {hidden, 1}, 0.25, 5);

  Tensor h = (x.matmul(w1) + b1).tanh();
  h = (h.matmul(w2) + b2).tanh();
  Tensor logits = h.matmul(w3);
  Tensor loss = binary_cross_entropy_with_logits(logits, y).keep();
  Tensor right = equal(logits > 0, y > 0.5).cast(DType::f32).mean().keep();

  // Backward and update: clipped gradients, AdamW, a rate that falls by half a cosine.
  constexpr int steps = 400;
  ClippedGradients clipped = clip_grad_norm(gradients(loss, parameters), 1);
  adamw(g, schedules::cosine(0.02, steps)).update(parameters, clipped.gradients);

  for (int step = 0; step <= steps; ++step) {
    g.execute();
    if (step % 100 == 0)
      std::printf("step %3d: loss %.1f, %3.0f %% right\n", step, double(loss.item<float>()),
                  100 * double(right.item<float>()));
  }

  // A gradient is a tensor like any other: how much does each coordinate of a point matter?
  Tensor matters = gradient(logits.sum(), x).abs().mean(0).keep();
  g.execute();
  const auto [first, second] = std::pair(matters.data<float>()[0], matters.data<float>()[1]);
  std::printf("both coordinates matter: %s\n", first > 0.1f && second > 0.1f ? "yes" : "no");
}
