// bench/harness.h -- ours, the peers and the measured limit side by side: in one process group, in
// the same rounds, on random data.
#pragma once
#include "search/probe.h"
#include <bit>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace luminal {
class ThreadPool;
}

namespace luminal::bench {

struct Arguments {
  std::string json;         ///< file for the rows, or empty
  std::string only;         ///< a part of the names of the works that are run
  std::vector<int> threads; ///< each work runs with each of these counts
  double seconds = 0.15;    ///< of each contender in a round
  int rounds = 6;
  int level = -1; ///< compile: of LLVM's code generator; -1: the usual one
  bool peers = true;
  bool quick = false;     ///< a few of the works only
  bool report = false;    ///< print what was compiled
  bool arguments = false; ///< operations: weights are arguments of each call
  double best = 0;        ///< tune: seconds of a long search that the short one is compared with; 0: none
  std::string schedule;   ///< file with a schedule in place of the default one, or empty
};
/// --json FILE, --only TEXT, --threads N, --seconds S, --rounds N, --no-peers, --quick, --report,
/// --arguments, --schedule FILE. Ends the program for what it does not know.
Arguments parse_arguments(int argc, char** argv, const char* what);

/// Memory on 2 MiB pages where the system gives them; filled, so that every page exists.
template <class T> class Array {
public:
  explicit Array(int64_t count);
  T* data() const { return data_.get(); }
  int64_t size() const { return count_; }
  int64_t bytes() const { return count_ * int64_t(sizeof(T)); }
  T& operator[](int64_t i) const { return data_.get()[i]; }

private:
  std::shared_ptr<T[]> data_;
  int64_t count_;
};
/// About normal, mean 0, deviation `scale`.
Array<float> random_floats(int64_t count, unsigned seed, float scale = 1);
/// The same as bf16.
Array<uint16_t> random_bf16(int64_t count, unsigned seed, float scale = 1);
inline double bf16_value(uint16_t bits) { return double(std::bit_cast<float>(uint32_t(bits) << 16)); }
/// How many copies of `bytes` bytes are needed for the caches to have forgotten the first when its
/// turn comes again.
int copies_beyond_caches(int64_t bytes);

double now();
template <class F> double timed(F&& f) {
  const double start = now();
  f();
  return now() - start;
}

/// One of those who run in turn: a call gives the seconds of one execution.
struct Contender {
  std::string name;
  std::function<double()> once;
  /// instead of `once`: measures for that long itself, gives the seconds of one execution
  std::function<double(double)> block = {};
  std::vector<double> seconds = {};
  std::vector<double> rounds = {}; ///< the low percentile of each round
  /// The low percentile: what the machine gives when nobody disturbs. NaN without measurements.
  double low(double percentile = 0.05) const;
};
/// Rounds in which every contender runs for `seconds`, one after the other; the first call of each
/// block is not counted.
void race(std::vector<Contender>& contenders, const Arguments& arguments);
/// What part of the limits' rate is reached by ours, where `seconds` of all are of the same work:
/// in each round the longest of the limits' times by the time of ours; the median of the rounds. A
/// machine whose memory is twice as fast in one second as in the next gives each round a limit of
/// its own.
double fraction_by_rounds(const Contender& ours, std::span<const Contender> limits);

/// A library of Python in a child process (LUMINAL_PEERS_PYTHON). One that is absent says so in
/// `absent`.
class PythonPeer {
public:
  /// program: prints a line first ("absent REASON" where it cannot work), then answers each line
  /// "WHAT THREADS SECONDS" with a number.
  PythonPeer(const std::string& name, const char* program);
  ~PythonPeer();
  PythonPeer(const PythonPeer&) = delete;
  PythonPeer& operator=(const PythonPeer&) = delete;
  bool present() const { return write_ != nullptr; }
  const std::string& absent() const { return absent_; }
  /// Seconds of one call in a block of `seconds`; what: "sgemm m n k batch copies", "gemm m n k
  /// batch copies bf16|u8s8", "linear n k f32", "fused gelu eager rows columns" ... "eval TEXT":
  /// TEXT is "set-up;;expression" in Python with character 1 in place of spaces; "checksum TEXT"
  /// gives in place of seconds the sum of its (first) result's elements times 1 2 .. 7 1 2 .. in
  /// row-major order.
  double ask(const std::string& what, int threads, double seconds);

private:
  FILE *write_ = nullptr, *read_ = nullptr;
  int child_ = 0;
  std::string absent_;
};
class Torch : public PythonPeer {
public:
  Torch();
};
/// "conv batch in out size kernel stride groups copies", as Torch.
class OnnxRuntime : public PythonPeer {
public:
  OnnxRuntime();
};
/// Row-major C = A B in this process; empty where the library is not installed, and `absent` says
/// so.
using Sgemm = std::function<void(int m, int n, int k, const float* a, const float* b, float* c, int threads)>;
Sgemm openblas(std::string& absent);
Sgemm onednn(std::string& absent);

struct Row {
  std::string work;
  int threads = 1;
  std::string unit; ///< of all rates: "GB/s", "GFLOP/s"
  double ours = 0;
  std::map<std::string, double> peers; ///< rates
  double limit = 0;                    ///< rate
  std::string limit_name;
  double goal = 0; ///< fraction of the limit
  bool correct = false;
};
/// Prints rows as they come, and writes them all at the end.
class Table {
public:
  Table(const Arguments& arguments, std::string title);
  ~Table();
  void add(const Row& row);
  void note(const std::string& text); ///< below the table, and in the file

private:
  std::string json_, title_;
  std::vector<Row> rows_;
  std::vector<std::string> notes_;
};

/// The limits of this machine, measured with the same threads as the works.
struct Machine {
  explicit Machine(int threads);
  ~Machine();
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<search::Probes> probes;
};

/// Largest |got - wanted| / (|wanted| + scale) over samples; infinite where anything is NaN.
class Error {
public:
  void add(double got, double wanted, double scale);
  double largest() const { return largest_; }

private:
  double largest_ = 0;
};

} // namespace luminal::bench
