// search/machine_profile.h -- what this machine can do: peaks, bandwidths, caches. Measured once
// with generated kernels and kept on disk, or guessed.
#pragma once
#include "base/result.h"
#include "choose/default_schedule.h"
#include "codegen/codegen.h"
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace luminal::search {

/// GB/s (1e9 bytes); every byte counts once for each read and each write. 0: not measured.
struct Bandwidth {
  double read = 0, write = 0, copy = 0, triad = 0;
  bool operator==(const Bandwidth&) const = default;
};

/// LUMINAL_MACHINE names the file of a profile that every function here gives in the place of this
/// machine's, for the asked number of threads; a file that is not one throws.
struct MachineProfile {
  std::string processor;    ///< as the system names it
  std::string cpu;          ///< as LLVM names it
  uint64_t fingerprint = 0; ///< of processor, instruction set, caches and thread count
  int threads = 1;
  int vector_bits = 128, vector_registers = 16;
  int64_t l1 = 0, l2 = 0, l3 = 0; ///< bytes: of one core, of one core, shared

  // GFLOP/s (int8: GOP/s), a multiply-add is two. 0: the instruction is absent.
  double fma_f32_1 = 0, fma_f32 = 0, fma_f64_1 = 0, fma_f64 = 0; ///< _1: on one thread, else on all
  double bf16_dot_1 = 0, bf16_dot = 0, int8_dot_1 = 0, int8_dot = 0;
  double bf16_tile_1 = 0, bf16_tile = 0; ///< of tile registers, operands in the first cache

  Bandwidth memory_1, memory, l1_1, l2_1, l3_all; ///< _1: one thread, else all
  double fork_join_us = 0, barrier_us = 0;
  bool guessed = true;
  std::string measured_at; ///< "2026-11-23 18:05 UTC"; empty: guessed, or not known
  /// "memory.read", "fma_f64_1": numbers that others contradicted after several attempts, because
  /// other programs ran meanwhile. They are raised to what the others prove, so that no consumer
  /// ever meets an impossible profile.
  std::vector<std::string> doubtful;
  /// Rates that programs reached, by the names of the numbers that they prove: "memory.read". No
  /// number is less, whatever a busy machine gives later.
  std::map<std::string, double> reached;

  /// Cautious values from what the processor says of itself; measures nothing.
  static MachineProfile guess(int threads);
  /// The measured profile where there is one on disk, else the guess. Never measures.
  static MachineProfile present(int threads);
  /// From disk, or measured now (below 2 s on an idle machine; while nobody else measures) and
  /// kept. What is kept with doubtful numbers is measured again. fresh: measured in any case.
  /// Failure: the generated kernels do not run here.
  static Result<MachineProfile> measured(int threads, bool fresh = false);

  /// Numbers that are less than others prove, in the spelling of the JSON: all threads together
  /// slower than one, or faster than one times their count; f64 faster than half of f32; a cache
  /// slower than what lies behind it. Empty for every machine that nobody disturbs.
  std::vector<std::string> contradicted() const;
  /// Raises these numbers, and those below what programs reached, until none is left, and adds them
  /// to `doubtful`.
  void reconcile();
  /// A program reached this rate, in the profile's unit, in "memory.read", "fma_f32", ...: where
  /// the profile that is kept says less, it is raised, kept, and measured again by the next who
  /// measures. What has changed, for people; empty: nothing. A profile that was not measured stays
  /// a guess.
  static std::string reached_rate(int threads, const std::string& name, double rate);

  /// What streams so many bytes again and again reads main memory: the caches hold a quarter of
  /// them at most.
  int64_t beyond_caches() const { return 4 * std::max(l2 * threads, l3); }
  /// Bytes per second from main memory with all threads; 0: not measured.
  double read_bandwidth() const { return guessed ? 0 : memory.read * 1e9; }
  /// For schedules: what the default schedule has to know.
  kernel::MachineLimits limits() const;

  std::string to_json() const;
  static Result<MachineProfile>
  from_json(std::string_view text); ///< Failure: no JSON, or a field is missing or wrong
  std::string to_string() const;    ///< a table for people
  bool operator==(const MachineProfile&) const = default;
};

} // namespace luminal::search
