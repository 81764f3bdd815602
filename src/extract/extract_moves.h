// extract/extract_moves.h -- small changes of a genome: one class or several together, mutation,
// and a climb with any cost.
#pragma once
#include "extract/extract.h"
#include "extract/extract_sample.h"

namespace luminal::egraph {

struct Move {
  uint32_t row; ///< taken by its class
};

/// A genome whose chosen rows form no cycle, and stay so. Classes without a row (no_row) count as
/// leaves; classes that the roots do not reach may change as well: their rows wait for a later
/// change of the route.
class GenomeEditor {
public:
  /// Throws Error for a genome with a cycle or a row of another class.
  GenomeEditor(const ExtractionProblem& problem, Genome genome);
  const Genome& genome() const { return genome_; }
  /// Makes all moves or, where they would close a cycle or a class is named twice with different
  /// rows, none (false).
  bool apply(std::span<const Move> moves);
  bool apply(Move move) { return apply({&move, 1}); }
  /// Takes the last successful apply() back; once.
  void undo();
  /// Gives `count` random classes (of those with more than one row) another row of theirs, where no
  /// cycle follows. Returns how many have changed.
  uint32_t mutate(Random& random, uint32_t count);

private:
  bool closes_cycle(std::span<const Move> moves);
  const ExtractionProblem& problem_;
  Genome genome_;
  std::vector<Move> last_;
  std::vector<uint32_t> with_choice_, stack_, next_;
  std::vector<uint8_t> state_;
  std::vector<uint32_t> visited_;
};

/// What a climb changes: the rows, and which classes' values are stored (whatever that means to the
/// cost).
struct Candidate {
  Genome genome;
  std::vector<uint8_t> stored; ///< by class
};
/// What a candidate costs; infinite for what cannot be built. The evaluation is that of its genome.
using CandidateCost = std::function<double(const Candidate& candidate, const Evaluation& evaluation)>;

struct ClimbOptions {
  /// Whether a row is tried where another stands; all by default. Rows that cost what another of
  /// their class costs may be left out.
  std::function<bool(uint32_t row)> consider;
  /// Classes whose storing is tried (in both directions) for a candidate; none by default.
  std::function<std::vector<uint32_t>(const Candidate&, const Evaluation&)> store_choices;
  /// Groups of classes whose storing changes together: all of them become stored, or none where all
  /// are. Tried when no single change helps: values that one computation gives may be worth storing
  /// only all at once.
  std::function<std::vector<std::vector<uint32_t>>(const Candidate&, const Evaluation&)> joint_stores;
  /// Groups of moves that are tried together when no single one helps; asked again for each
  /// candidate that the climb stands on.
  std::function<std::vector<std::vector<Move>>(const Candidate&, const Evaluation&)> joint_moves;
  double least_gain = 1e-9;          ///< relative
  uint64_t max_evaluations = 100000; ///< of the cost
};
struct ClimbResult {
  Candidate candidate;
  double cost = infinite_cost;
  uint64_t evaluations = 0;
  bool finished = true; ///< no change helps; false where max_evaluations came first
};
/// First improvement: a reached class takes another row; a value is stored or no longer; then the
/// joint stores; then the joint moves, with what is stored as it is and with the joint classes' new
/// store choices added. The start must be a valid genome.
ClimbResult climb(const ExtractionProblem& problem, Candidate start, const CandidateCost& cost,
                  const ClimbOptions& options = {});

} // namespace luminal::egraph
