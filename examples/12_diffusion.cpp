// examples/12_diffusion.cpp -- lesson 12: a diffusion model. A small U-Net learns which noise was added
// to pictures; from noise alone it then draws new ones, step by step, with the averaged weights.
#include "luminal/luminal.h"
#include "luminal/train_models.h"
#include <cmath>
#include <cstdio>

using namespace luminal;

namespace {
constexpr int size = 8;
/// A bright square of 4 x 4 somewhere on a dark ground.
DataSetPtr squares(int count) {
  std::vector<float> x(size_t(count) * size * size, 0.0F);
  for (int i = 0; i < count; ++i)
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < 4; ++c)
        x[(size_t(i) * size + size_t(r + i % 5)) * size + size_t(c + i / 5 % 5)] = 1;
  return datasets::from_values({{{"x", DType::f32, {size, size}}, x}});
}
} // namespace

int main(int argc, char**) {
  const train_models::DiffusionOptions diffusion{.width = 16, .steps = 100};
  Trainer trainer(train_models::diffusion(diffusion), squares(50),
                  {.steps = 300,
                   .batch = 16,
                   .seed = 1,
                   .optimizer = [](Graph& g) { return adamw(g, schedules::cosine(4e-3, 300)); },
                   .clip_norm = 1});
  double first = 0, last = 0;
  for (int i = 0; i < 300; ++i) {
    const double loss = trainer.step().loss;
    first += i < 30 ? loss / 30 : 0;
    last += i >= 270 ? loss / 30 : 0;
  }
  std::printf("the noise is told from the picture: %s\n", last < 0.5 * first ? "yes" : "no");

  // From noise to a picture: at each time the noise is guessed, and less of it is added again (Song et
  // al. 2021). One program for all times.
  Tensor x, now, later;
  Graph g = trainer.with_values([&](ModelScope& m) {
    x = m.graph().state("x", {4, 1, size, size});
    now = m.graph().tensor({1}, DType::i64, "now");
    later = m.graph().tensor({1}, DType::i64, "later");
    const Tensor noise = train_models::diffusion_noise(m, x, now.expand({4}), diffusion);
    const auto signal = [&](const Tensor& t) {
      return train_models::diffusion_signal(t, diffusion).reshape({1, 1, 1, 1});
    };
    const Tensor clean = clip((x - noise * (1.0 - signal(now)).sqrt()) / signal(now).sqrt(), -1.0, 1.0);
    m.graph().update(x, clean * signal(later).sqrt() + noise * (1.0 - signal(later)).sqrt());
  });
  Graph made;
  Tensor start = random_normal(random_key(made, 7), {4, 1, size, size}).keep();
  made.execute();
  x.set(start.data<float>());
  for (int64_t t = diffusion.steps; t > 0; t -= 5) {
    now.set({t});
    later.set({t - 5});
    g.execute();
  }
  const std::vector<float> drawn = x.data<float>();
  for (int r = 0; argc > 1 && r < size; ++r, std::printf("\n"))
    for (int i = 0; i < 4 * size; ++i)
      std::printf("%s",
                  drawn[(size_t(i / size) * size + size_t(r)) * size + size_t(i % size)] > 0 ? "#" : ".");
  int bright = 0;
  for (float value : drawn) bright += value > 0;
  std::printf("four drawn pictures have about 16 bright points each: %s\n",
              bright > 40 && bright < 90 ? "yes" : "no");
}
