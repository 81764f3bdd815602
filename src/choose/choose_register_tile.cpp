// choose/choose_register_tile.cpp -- how many rows and vectors of results a product keeps in registers.
#include "choose/default_scheduler.h"
#include <algorithm>

namespace luminal::kernel {

namespace {

/// What one step of the sum costs in a tile of so many rows and vectors, in multiply-adds of whole
/// vectors: at least its loads, and what the latency of one asks for. Measured: tiles of 4 x 4 are
/// the best ones, many rows beside several vectors the worst. `saved`: of the last vector, where it
/// is narrower than the others. `streamed`: the vectors pass by from the second cache, at some 20
/// bytes a cycle.
double body_cost(int64_t rows, int64_t vectors, bool streamed, double saved = 0) {
  if (rows == 0 || vectors == 0) return 0;
  const double latency = streamed ? std::max(6.0, 3 * (double(vectors) - saved)) : 6;
  const double more = 0.0018 * double(std::max<int64_t>(0, rows * vectors - 16)) +
                      0.006 * double(std::max<int64_t>(0, rows - 6) * (vectors - 1));
  return std::max({double(rows) * (double(vectors) - saved), double(rows + vectors), latency}) * (1 + more);
}

/// Of a block of rows x columns in such tiles; what is left over has smaller bodies.
double block_cost(int64_t rows, int64_t columns, int64_t lanes, int64_t tile_rows, int64_t tile_vectors,
                  bool streamed) {
  const int64_t vectors = round_up(columns, lanes) / lanes, rest = columns % lanes;
  // Vectors of 512 bits are worked off in halves by some processors, and narrower ones take as long
  // as these elsewhere.
  const double saved = lanes >= 16 && rest > 0 && rest <= lanes / 2 ? 0.5 : 0;
  const int64_t r = rows / tile_rows, odd_r = rows % tile_rows, odd_v = vectors % tile_vectors,
                last = odd_v > 0 ? odd_v : std::min(tile_vectors, vectors),
                v = (vectors - last) / tile_vectors;
  // Tiles that load more for each multiply-add are a little slower than their multiply-adds.
  const double loads = 1 + 0.02 * double(tile_rows + tile_vectors) / double(tile_rows * tile_vectors);
  return loads *
         (double(r * v) * body_cost(tile_rows, tile_vectors, streamed) +
          double(v) * body_cost(odd_r, tile_vectors, streamed) +
          double(r) * body_cost(tile_rows, last, streamed, saved) + body_cost(odd_r, last, streamed, saved));
}

} // namespace

/// Of rows x columns results in tiles of both, beside so many vectors.
double DefaultScheduler::tile_cost(int64_t rows, int64_t columns, int64_t tile_rows, int64_t tile_columns,
                                   int64_t vectors, bool streamed) {
  const int64_t r = rows / tile_rows, odd_r = rows % tile_rows, c = columns / tile_columns,
                odd_c = columns % tile_columns;
  return double(r * c) * body_cost(tile_rows * tile_columns, vectors, streamed) +
         double(c) * body_cost(odd_r * tile_columns, vectors, streamed) +
         double(r) * body_cost(tile_rows * odd_c, vectors, streamed) +
         body_cost(odd_r * odd_c, vectors, streamed);
}

/// The accumulators, the vectors of one step, one broadcast (one of each row and four to spare,
/// where they are fetched ahead of their use).
bool DefaultScheduler::tile_fits(int64_t rows, int64_t vectors) const {
  return (rows + 1) * vectors + (limits_.memory_operands ? 1 : rows + 4) <= limits_.vector_registers;
}

/// The rows and vectors of a register tile that suit a block of so many best.
std::pair<int64_t, int64_t> DefaultScheduler::register_tile(StageId s, int64_t rows, int64_t columns,
                                                            double parts_cost, bool streamed) {
  const bool wide = limits_.vector_registers >= 32;
  const std::vector<int64_t> sizes{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14};
  const auto fits = [&](int64_t r, int64_t v) { return tile_fits(r, v); };
  std::pair<int64_t, int64_t> usual = wide ? std::pair(4, 4) : std::pair(6, 2);
  double best = block_cost(rows, columns, limits_.lanes, usual.first, usual.second, streamed) * 0.995;
  for (int64_t v : wide ? std::vector<int64_t>{4, 3, 2, 1} : std::vector<int64_t>{2, 3, 1})
    for (int64_t r : sizes)
      if (const double cost = block_cost(rows, columns, limits_.lanes, r, v, streamed) *
                              (v * limits_.lanes < columns ? parts_cost : 1);
          fits(r, v) && r <= rows && cost < best)
        best = cost, usual = {r, v};
  const int64_t vectors = ask(s, "vectors", usual.second,
                              wide ? std::vector<int64_t>{1, 2, 3, 4} : std::vector<int64_t>{1, 2, 3});
  std::vector<int64_t> tiles;
  for (int64_t r : sizes)
    if (r * vectors >= 8 && fits(r, vectors)) tiles.push_back(r);
  while (!fits(usual.first, vectors)) --usual.first;
  return {ask(s, "rows", usual.first, tiles), vectors};
}

} // namespace luminal::kernel
