// bench/tiles.cpp -- convolutions with a window of 3 by 3 as they are written, and with `--max-error 1e-3`.
//
//   ./bench.sh tiles [--only TEXT] [--threads N] [--rounds N]
//
// Channels, filters and sizes of ResNet, at batch 1 and 8; weights and inputs are random. Both run by
// turns; the time is the least of all. Off by: the largest difference, as a share of the largest result.
#include "loaded_plan.h"

using namespace luminal;
using namespace luminal::bench;

namespace {

std::string text_of(int64_t batch, int64_t channels, int64_t size) {
  const std::string space =
      fmt::format("[n: {}, k: {}, h: {}, w: {}, c: {}, r: 3, s: 3]", batch, channels, size, size, channels);
  return fmt::format(R"(fn @main(%x: f32[{0}, {1}, {2}, {2}], weight %w: f32[{1}, {1}, 3, 3]) {{
  %a = view %x {3} -> [n, c, h + r - 1, w + s - 1] where 1 <= h + r and h + r < {2} + 1 and 1 <= w + s and w + s < {2} + 1
  %b = view %w {3} -> [k, c, r, s]
  %p = mul %a, %b
  %f = fold {3} over [c, r, s] {{ sum %p[n, k, h, w, c, r, s] }}
  %y = get %f, 0
  return y = %y
}})",
                     batch, channels, size, space);
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv, "convolutions as written and in tiles");
  fmt::print("{:<28}{:>8}{:>12}{:>12}{:>8}{:>10}\n", "batch, channels, size", "threads", "written, ms",
             "tiles, ms", "ratio", "off by");
  constexpr std::pair<int64_t, int64_t> shapes[] = {{64, 56}, {128, 28}, {256, 14}, {512, 7}};
  for (const int threads : arguments.threads)
    for (const int64_t batch : {1, 8})
      for (const auto& [channels, size] : shapes) {
        const std::string name = fmt::format("{} x {} at {}x{}", batch, channels, size, size);
        if (name.find(arguments.only) == std::string::npos) continue;
        ThreadPool pool(threads);
        const Module module = parse_module(text_of(batch, channels, size), name);
        compile::Options options = compile::Options::host(threads);
        const auto written = load_plan(module, options, pool, arguments.report ? name : "");
        options.rules.choice.max_error = 1e-3;
        const auto tiles = load_plan(module, options, pool, arguments.report ? name + ", tiles" : "");
        double first = 1e9, second = 1e9;
        for (int round = 0; round < 10 * arguments.rounds; round++) {
          first = std::min(first, written->run());
          second = std::min(second, tiles->run());
        }
        fmt::print("{:<28}{:>8}{:>12.3f}{:>12.3f}{:>8.2f}{:>10.1e}\n", name, threads, first * 1e3,
                   second * 1e3, first / second, difference(*written, *tiles));
      }
}
