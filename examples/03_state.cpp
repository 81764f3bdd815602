// examples/03_state.cpp -- lesson 3: values that live from step to step. A step is a function of
// inputs and old states to outputs and new states.
#include "luminal/luminal.h"
#include <cstdio>

int main() {
  using namespace luminal;
  Graph g;
  Dim past = g.dim("past", 0, 7);
  Tensor row = g.tensor({1, 2});
  Tensor cache = g.state("cache", {8, 2}); // zero at first

  // `update` is a value like any other: the cache with a row written. That it happens in place is
  // proved by the planner.
  Tensor next = cache.update(0, past, row);
  g.update(cache, next);
  Tensor total = next.slice(0, 0, past + 1).sum({0}).keep();

  for (int64_t step = 0; step < 3; step++) {
    g.set_dim("past", step);
    row.set({float(step + 1), 10.f});
    g.execute();
    auto t = total.data<float>();
    std::printf("after step %lld: %g %g\n", static_cast<long long>(step), t[0], t[1]);
  }
}
