// rules/interpolation.h -- the constant matrices of short convolutions with few products: F(m, r), m results
// of a window of r at once from m + r - 1 samples and as many products.
//
// A polynomial of degree m + r - 2 is known by its values at m + r - 1 points, of which infinity is one (the
// leading coefficient): a product of polynomials is one product at each point (Toom, 1963; Cook, 1966), and
// its transpose is a window that slides (Winograd, Arithmetic Complexity of Computations, 1980). For m = 2
// and 4 and r = 3 the matrices are those of Lavin and Gray, Fast Algorithms for Convolutional Neural
// Networks, 2015, up to signs of rows.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace luminal::rules {

class Interpolation {
public:
  static constexpr int64_t most_points = 6;
  /// tile: m >= 2, window: r >= 2, tile + window - 1 <= most_points.
  Interpolation(int64_t tile, int64_t window);
  int64_t points() const { return points_; }
  int64_t sample(int64_t point, int64_t q) const { return samples_[size_t(point)][size_t(q)]; } ///< B
  int64_t result(int64_t point, int64_t j) const;                                               ///< A
  /// G is weight / divisor.
  int64_t weight(int64_t point, int64_t s) const;
  int64_t divisor(int64_t point) const { return divisors_[size_t(point)]; }

private:
  int64_t power(int64_t point, int64_t exponent, int64_t last) const;
  int64_t tile_, window_, points_;
  std::array<std::array<int64_t, most_points>, most_points> samples_{};
  std::array<int64_t, most_points> divisors_{};
};

} // namespace luminal::rules
