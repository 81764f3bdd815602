// extract/extract_kbest.h -- the cheapest terms of a class one after the other, found lazily (Huang
// and Chiang 2005, algorithm 3).
#pragma once
#include "extract/extract.h"
#include <queue>

namespace luminal::egraph {

/// Terms by tree cost. A term may use different rows of a class at different places; terms through
/// cycles of classes count, as long as they are finite, so a class can have endlessly many. Equal
/// costs come in the order of (height, row, ranks of the children).
class KBest {
public:
  /// Throws Error for negative costs. The problem must outlive this.
  explicit KBest(const ExtractionProblem& problem);

  /// One term: a row, and for each child the rank of its term among those of the child's class.
  struct Term {
    double cost = 0;
    uint32_t height = 1; ///< rows on the longest path down
    uint32_t row = no_row;
    std::vector<uint32_t> ranks;
  };
  /// The term of that rank, from 0; null where the class has no more.
  const Term* get(uint32_t c, uint32_t rank);
  /// Writes the rows of a term into the genome. False where the term uses two rows of one class, or
  /// a class in the genome has another row; what was written by then stays.
  bool write(uint32_t c, uint32_t rank, Genome& genome);

private:
  struct Later {
    bool operator()(const Term& a, const Term& b) const;
  };
  struct State {
    std::vector<Term> terms;
    std::priority_queue<Term, std::vector<Term>, Later> candidates;
    bool started = false;  ///< the other rows are among the candidates
    uint32_t followed = 0; ///< terms whose successors are among the candidates
  };
  void first_terms();
  bool push_successors(uint32_t c);
  Term term_of(uint32_t row, std::vector<uint32_t> ranks) const;

  const ExtractionProblem& problem_;
  std::vector<State> state_;
  std::vector<std::pair<uint32_t, uint32_t>> wanted_; ///< (class, rank): a stack
};

/// The k cheapest genomes by tree cost, over the sum of all roots: terms that use one row for each
/// class. Looks at no more than `max_terms` terms; fewer than k come back where there are no more,
/// or none within that limit.
std::vector<Extraction> k_best_genomes(const ExtractionProblem& problem, uint32_t k,
                                       uint32_t max_terms = 100000);

} // namespace luminal::egraph
