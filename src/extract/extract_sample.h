// extract/extract_sample.h -- random genomes without cycles, and random numbers that are the same
// everywhere.
#pragma once
#include "extract/extract.h"

namespace luminal::egraph {

/// SplitMix64.
class Random {
public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, bound), without the bias of a remainder.
  uint32_t below(uint32_t bound) {
    const uint64_t limit = ~uint64_t(0) - ~uint64_t(0) % bound;
    for (;;)
      if (const uint64_t b = bits(); b < limit) return uint32_t(b % bound);
  }
  double unit() { return double(bits() >> 11) * 0x1p-53; } ///< in [0, 1)

private:
  uint64_t state_;
};

/// Samples genomes that give every class below the roots (over all rows) a row, such that the
/// chosen rows form no cycle anywhere. Each strongly connected component is sampled by itself, by
/// partial rejection sampling (Guo, Jerrum, Liu 2019): what took part in a cycle, and what could
/// have without being told apart from it, is drawn again; that keeps the distribution exactly
/// uniform.
class GenomeSampler {
public:
  explicit GenomeSampler(const ExtractionProblem& problem);
  bool feasible() const { return feasible_; }
  /// Draws a genome; classes that no solution uses hold no_row. Returns whether the draw is
  /// uniform: a component that still has cycles after `max_rounds` of drawing is sampled by Knuth's
  /// algorithm with random costs instead, which favours short terms. Throws Error where no solution
  /// exists.
  bool sample(Random& random, Genome& genome, int max_rounds = 64);
  /// How many genomes there are if cycles are let in; as a power of two.
  double log2_count() const;

private:
  bool sample_component(uint32_t k, Random& random, Genome& genome, int max_rounds);
  void sample_ordered(uint32_t k, Random& random, Genome& genome);

  const ExtractionProblem& problem_;
  bool feasible_ = true;
  std::vector<uint32_t> first_, row_;              ///< usable rows of each class
  std::vector<uint32_t> component_first_, member_; ///< classes of each component
  std::vector<uint32_t> component_of_;
};

} // namespace luminal::egraph
