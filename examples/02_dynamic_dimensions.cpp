// examples/02_dynamic_dimensions.cpp -- lesson 2: sizes that change from step to step, without
// compiling again.
#include "luminal/luminal.h"
#include <cstdio>
#include <vector>

int main() {
  using namespace luminal;
  Graph g;
  Dim batch = g.dim("batch", 1, 1024); // a name and a range
  Tensor x = g.tensor({batch, 4});
  Tensor mean = x.mean({0}).keep();
  Tensor first_differences = (x.slice(1, 1, 4) - x.slice(1, 0, 3)).keep();
  std::printf("x is %s\n", to_string(x.shape()).c_str());

  g.compile();
  for (int64_t rows : {1, 3, 1000}) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * 4; i++) values.push_back(float(i % 7));
    g.set_dim("batch", rows);
    x.set(values);
    g.execute();
    auto m = mean.data<float>();
    std::printf("%4lld rows: mean %.4f %.4f %.4f %.4f, %zu differences\n", static_cast<long long>(rows), m[0],
                m[1], m[2], m[3], first_differences.data<float>().size());
  }
}
