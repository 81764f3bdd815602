// examples/01_tensor.cpp -- lesson 1: a graph is written down, compiled for this machine, and run.
#include "luminal/luminal.h"
#include <cstdio>

int main() {
  using namespace luminal;
  Graph g;

  // Tensors are handles in a lazy graph: nothing is computed here.
  Tensor x = g.tensor({2, 3});                // given at each execute
  Tensor w = g.weight("w", {3, 2});           // given once
  Tensor y = (x.matmul(w) + 1).relu().keep(); // kept: readable after execute

  x.set({1.f, 2.f, 3.f, -4.f, -5.f, -6.f});
  w.set({1.f, 0.f, 0.f, 1.f, 1.f, 1.f});
  g.execute(); // compiles first

  auto values = y.data<float>();
  std::printf("%g %g\n%g %g\n", values[0], values[1], values[2], values[3]);

  // A mistake is reported where it was made.
  try {
    x.matmul(x);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}
