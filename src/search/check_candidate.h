// search/check_candidate.h -- is a candidate right? Three steps, each able to fail alone.
//
// 1. In full on a shrunken instance (shrink) that keeps tiles, tails and parts: the loop
//    interpreter runs the candidate's loops, workers in an adversarial order,
//    and looks for races, bounds, unwritten reads; its results and those of the machine code equal
//    those of the plain lowering of the same cone.
// 2. At true size, every element against the first candidate that passed.
// 3. At true size, at random elements and in all boundary tiles against the running-error
//    interpreter of the terms, which
//    knows nothing of cones, loops and code.
// Outputs are poisoned first, twice with different bytes: both runs must give the same bits. NaN
// never passes, on either side.
#pragma once
#include "search/problem.h"
#include <functional>
#include <memory>
#include <string>

namespace luminal::search {

struct CheckOptions {
  int random_elements = 64;
  int most_elements = 1024; ///< step 3, boundary tiles included; of more, evenly chosen ones
  /// step 3 takes fewer boundary tiles where an element costs much: elements times points of one
  double interpreted_points = 4e6;
  /// and fewer random elements, but 8: elements times operations of one (a tenth of a microsecond each)
  double interpreted_operations = 1e7;
  /// step 1: where two tiles of each kind are more, blocks shrink, then tiles; a larger instance is
  /// run as machine code only
  double shrunken_points = 1e6;
  double slack = 4; ///< of the interpreter's error bounds: machine code may round in another order
};

struct Verdict {
  int step = 0;      ///< the step that it failed; 0: it passed
  std::string cause; ///< one line
  std::string loops; ///< step 1: the loop IR of the shrunken instance, for a reproducer
  bool passed() const { return step == 0; }
};

class Checker {
public:
  using MeasurerFactory = std::function<std::unique_ptr<Measurer>(std::shared_ptr<const Workload>)>;
  /// `make` gives measurers for shrunken instances. The problem must outlive the checker. Failure:
  /// the problem itself cannot be judged (its terms give NaN).
  static Result<std::unique_ptr<Checker>> create(const KernelProblem& problem, const BuildOptions& build,
                                                 MeasurerFactory make, const CheckOptions& options = {});
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  /// `measurer` holds the candidate as `number`, on workload_of(problem) at true size. The first
  /// one that passes becomes the reference of step 2.
  Verdict check(const Candidate& candidate, Measurer& measurer, int number);
  bool has_reference() const;

private:
  Checker();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace luminal::search
