// tensor/search_between_steps.h -- a graph that runs while better kernels for it are searched: in turns, so
// that neither disturbs the other, and what is found takes the place of what runs between two steps.
#pragma once
#include "base/result.h"
#include "luminal/graph.h"
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace luminal {

namespace compile {
struct Compiled;
}

/// The graph runs this program from now on, for the sizes of its first one; its states keep their values.
/// Failure: it is not compiled, or the states of the two do not lie in the same way.
Result<void> exchange_program(Graph& graph, compile::Compiled compiled);

class SearchBetweenSteps {
public:
  /// The graph is compiled and must outlive this. `seconds`: of the search, without the turns of the graph.
  SearchBetweenSteps(Graph& graph, double seconds);
  /// Ends the search soon; what is found so far is in the tuning cache.
  ~SearchBetweenSteps();
  SearchBetweenSteps(const SearchBetweenSteps&) = delete;
  SearchBetweenSteps& operator=(const SearchBetweenSteps&) = delete;

  /// Between two steps: the search goes on for about so many seconds (until a candidate is built or
  /// measured), and a better program that it has found is the graph's afterwards.
  void turn(double seconds);
  bool over() const { return over_; }
  int exchanges() const { return exchanges_; } ///< of programs, so far
  /// One line: how long was searched, what came of it. For after the last turn.
  std::string told() const;

private:
  void search();
  bool pause();
  Graph& graph_;
  const double seconds_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false, ending_ = false, over_ = false;
  double until_ = 0;
  double searched_ = 0; // seconds of turns
  int tried_ = 0, exchanges_ = 0;
  double before_ = 0, after_ = 0; // a step, of the searches that found something
  std::string failure_;
  std::unique_ptr<compile::Compiled> found_;
  std::thread thread_;
};

} // namespace luminal
