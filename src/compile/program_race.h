// compile/program_race.h -- whole programs against each other: the same inputs, weights and states,
// run by turns. The last word of a search.
#pragma once
#include "base/id.h"
#include "base/result.h"
#include "runtime/context.h"
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace luminal {
class ThreadPool;
namespace search {
class MeasureLog;
}
} // namespace luminal

namespace luminal::compile {

using ProgramId = Id<struct ProgramTag>; ///< of a race

/// The bytes of a weight, alive as long as the race; empty: random ones are made.
using WeightSource = std::function<std::span<const std::byte>(const std::string& name)>;

class ProgramRace {
public:
  struct Options {
    ThreadPool* pool = nullptr; ///< never null
    WeightSource weights;
    std::map<std::string, int64_t> sizes; ///< of all symbols of the plans
    double epsilon = 0x1p-24;             ///< of the least precise float that is rounded to; see difference
    /// weights that are made, states and working memory of all programs
    int64_t most_bytes = int64_t(1) << 62;
    search::MeasureLog* log = nullptr; ///< gets what all of this tells; or gives it, and nothing runs
  };
  explicit ProgramRace(Options options);
  ~ProgramRace();
  ProgramRace(const ProgramRace&) = delete;
  ProgramRace& operator=(const ProgramRace&) = delete;

  /// Loads a program. Failure: too much memory, or steps that only the program's owner
  /// can run (host functions).
  Result<ProgramId> add(std::shared_ptr<const runtime::Plan> plan);
  void drop(ProgramId program); ///< its memory
  /// Low percentiles of the seconds of a step, of both, run by turns in at least `rounds` rounds
  /// and until the time is spent.
  struct Times {
    double first = 0, second = 0;
    int rounds = 0;
  };
  /// pause: seconds that pass between steps, as where somebody chooses a token; then each program
  /// runs several steps in its turn.
  Result<Times> compare(ProgramId first, ProgramId second, double seconds, int rounds,
                        const std::function<bool()>& stop, double pause = 0);
  /// From now on these values; false: an assumption of the plans does not hold then, or no inputs are
  /// known that a program runs with, and nothing has changed.
  bool set_sizes(const std::map<std::string, int64_t>& sizes);

  /// Whether a step of `second` gives what one of `first` gives: results and states, on the same inputs and
  /// states, into memory that held NaN. Empty, or what is different: "y: 0.5 in place of 0.25, 1e-06 is
  /// allowed". Of a result with elements of largest magnitude m, allowed is 32 * (epsilon * m + how far it
  /// moves where all floats that go in are moved by epsilon). Integers have to be equal, but for four times
  /// as many as that moves.
  Result<std::string> difference(ProgramId first, ProgramId second);
  /// How far what `second` gives is off from what `first` gives: the largest distance of two elements of a
  /// result or a state, as a share of the largest magnitude among those of the first. Infinite where one of
  /// them is finite and the other is not, or integers differ.
  Result<double> error(ProgramId first, ProgramId second);

private:
  struct Program;
  struct Outcome;
  Result<void> load(std::shared_ptr<const runtime::Plan> plan);
  bool take_sizes(const std::map<std::string, int64_t>& sizes);
  Result<Times> time(ProgramId first, ProgramId second, double seconds, int rounds,
                     const std::function<bool()>& stop, double pause);
  Result<std::string> difference_now(ProgramId first, ProgramId second);
  Result<std::pair<Outcome, Outcome>> outcomes(ProgramId first, ProgramId second);
  Result<Outcome> outcome(Program& program);
  Result<void> put_in(Program& program, const Outcome& given, double moved);
  Result<void> fill_states(Program& program);
  Result<std::unique_ptr<Program>> with_moved_weights(const Program& program);
  Result<void> fill(Program& program);
  Result<double> run(Program& program);
  Options options_;
  std::unique_ptr<device::Device> device_;
  std::shared_ptr<runtime::Store> store_;
  IdVector<ProgramId, std::unique_ptr<Program>> programs_;
};

} // namespace luminal::compile
