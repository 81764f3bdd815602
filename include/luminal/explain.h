// luminal/explain.h -- why a graph runs as it does: its kernels with the lines that asked for them, where
// each schedule comes from, which limit of the machine it is near, and what the rules made of the terms.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace luminal {

/// A kernel of a plan. Times are in seconds, of one launch at the typical sizes; 0: not known.
struct KernelExplanation {
  enum class Choice : uint8_t {
    usual,  ///< the default schedule: nothing better was measured
    tuned,  ///< found by measuring, kept in the tuning cache
    given,  ///< the caller's
    custom, ///< a kernel that the program brings (luminal/custom.h)
  };
  std::string name;               ///< "k3", as report() has it
  std::string computes;           ///< its results: "y[32, 48]"
  std::string about;              ///< weights that it reads; empty: none
  std::vector<std::string> lines; ///< of the program, for what it computes: "matmul at train.cpp:41"
  int steps = 0, load_steps = 0;  ///< places in the plan that launch it: at each step, at load
  std::string sizes;              ///< typical ones of dynamic dimensions: "n=1 past=64"
  std::string stages;             ///< its terms, as stages over named axes
  std::string schedule;           ///< its directives
  std::string names;              ///< what these call values, loops and stages: "v0 x, a0 m"
  Choice choice = Choice::usual;
  double estimate = 0;            ///< from stages and schedule
  double by_memory = 0;           ///< the least that its bytes take from main memory; 0: devices not measured
  double by_arithmetic = 0;       ///< the least that its operations take
  double measured = 0, usual = 0; ///< of this schedule, and of the default one where both were measured
  int tried = 0;                  ///< schedules, in this compile
  std::map<std::string, int> rejected; ///< how many of these, by cause
  std::string note;                    ///< why it is not tuned, what was wrong; may be empty
  std::string untiled;                 ///< folds whose loops reach less than a tenth of the machine, and why
};

/// One way to compute a region. Times are in seconds.
struct RegionPlanExplanation {
  std::string name;    ///< "3f9c0a1b22d4e671": a hash of its kernels
  double estimate = 0; ///< of a step
  size_t kernels = 0;
  bool written = false; ///< the terms as they came, greedily fused
  bool taken = false;
};

/// A region of the terms that the rules were applied to, and all regions of the same structure.
struct RegionExplanation {
  size_t nodes = 0, instances = 1;
  std::vector<std::string> lines;           ///< of the program, for the first of them
  std::vector<std::string> rules;           ///< that made something equal, in the order of their sets
  std::string before, after;                ///< its terms; `after` is empty where they stay as they are
  double written = 0, estimate = 0;         ///< seconds of a step, of the terms as they came and as they are
  double stored = 0;                        ///< bytes that the kernels of what it became store for each other
  size_t kernels = 0;                       ///< of what it became; 0: it stays as it is
  std::string outcome;                      ///< why it stays as it is; empty: it was replaced
  std::string limit;                        ///< at which the rules ended; empty: by themselves
  std::vector<RegionPlanExplanation> plans; ///< the least estimate first; empty: nothing to choose from
  bool measured = false;                    ///< the plan that is taken won by measuring
  bool approximate = false;                 ///< what is taken needs a rule of class `approx`
};

struct Explanation {
  std::vector<KernelExplanation> kernels; ///< in the order of report()
  std::vector<RegionExplanation> regions; ///< those with something to tell: rules that applied
  double max_error = 0;                   ///< RuleChoice::max_error
  double error = 0; ///< of the results, as it was measured, where a region is approximate
};

/// For people: kernels first, `colour` marks their heads.
std::string to_string(const Explanation& explanation, bool colour = false);
/// Kernels whose name, results, weights or lines have this in them, and regions with these lines.
Explanation filtered(const Explanation& explanation, const std::string& word);

} // namespace luminal
