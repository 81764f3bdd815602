// tests/consumer/main.cpp -- a small user of the installed library: a graph compiled and run, and a
// mistake reported.
#include <cstdio>
#include <luminal/luminal.h>

int main() {
  luminal::Graph graph;
  luminal::Tensor x = graph.tensor({2, 3});
  luminal::Tensor w = graph.weight("w", {3, 2});
  luminal::Tensor y = (x.matmul(w) + 1).relu().keep();
  x.set({1.f, 2.f, 3.f, -4.f, -5.f, -6.f});
  w.set({1.f, 0.f, 0.f, 1.f, 1.f, 1.f});
  graph.execute();
  const auto values = y.data<float>();
  std::printf("%g %g %g %g\n", values[0], values[1], values[2], values[3]);
  try {
    x.matmul(x);
  } catch (const luminal::Error& error) {
    std::puts(error.what());
  }
}
