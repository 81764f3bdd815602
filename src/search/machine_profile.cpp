// search/machine_profile.cpp -- guessing, keeping and printing profiles; measuring is in
// machine_measure.cpp.
#include "search/machine_profile.h"
#include "base/check.h"
#include "base/contains.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/settings.h"
#include "search/machine_measure.h"
#include "search/measure_lock.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace luminal::search {
namespace {
using Json = nlohmann::ordered_json;

std::string processor_line(std::string_view key) {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with(key))
      if (auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "";
}

/// Bytes of a data or unified cache of core 0, from sysfs, else from the C library; 0: unknown.
int64_t cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index), type, size;
    int found = 0;
    if (!(std::ifstream(folder + "level") >> found) || found != level) continue;
    if (!(std::ifstream(folder + "type") >> type) || type == "Instruction") continue;
    if (!(std::ifstream(folder + "size") >> size) || size.empty()) continue;
    int64_t bytes = std::atoll(size.c_str());
    if (size.back() == 'K') bytes <<= 10;
    if (size.back() == 'M') bytes <<= 20;
    if (bytes > 0) return bytes;
  }
#ifdef _SC_LEVEL1_DCACHE_SIZE
  long bytes = sysconf(level == 1   ? _SC_LEVEL1_DCACHE_SIZE
                       : level == 2 ? _SC_LEVEL2_CACHE_SIZE
                                    : _SC_LEVEL3_CACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return 0;
}

double clock_ghz() {
  double khz = 0;
  if (std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") >> khz && khz > 0)
    return khz * 1e-6;
  std::string mhz = processor_line("cpu MHz");
  double value = mhz.empty() ? 0 : std::atof(mhz.c_str()) * 1e-3;
  return value > 0.5 && value < 10 ? value : 2.0;
}

/// Every number of a profile with its name, for both directions of the text form.
template <class P, class F> void each_number(P& p, F f) {
  f("fma_f32_1", p.fma_f32_1), f("fma_f32", p.fma_f32), f("fma_f64_1", p.fma_f64_1), f("fma_f64", p.fma_f64);
  f("bf16_dot_1", p.bf16_dot_1), f("bf16_dot", p.bf16_dot), f("int8_dot_1", p.int8_dot_1),
      f("int8_dot", p.int8_dot);
  f("bf16_tile_1", p.bf16_tile_1), f("bf16_tile", p.bf16_tile);
  f("fork_join_us", p.fork_join_us), f("barrier_us", p.barrier_us);
}
template <class P, class F> void each_bandwidth(P& p, F f) {
  f("memory_1", p.memory_1), f("memory", p.memory), f("l1_1", p.l1_1), f("l2_1", p.l2_1),
      f("l3_all", p.l3_all);
}

/// Each rate that programs may prove to be higher, by the name of each_order.
template <class P> auto* rate_named(P& p, std::string_view name) {
  using Rate = std::remove_reference_t<decltype(p.fma_f32)>;
  Rate* found = nullptr;
  each_number(p, [&](std::string_view own, Rate& x) {
    if (own == name && !own.ends_with("_us")) found = &x;
  });
  each_bandwidth(p, [&](std::string_view own, auto& b) {
    if (!name.starts_with(own) || name.size() <= own.size() || name[own.size()] != '.') return;
    const std::string_view part = name.substr(own.size() + 1);
    Rate* const of[] = {&b.read, &b.write, &b.copy, &b.triad};
    const std::string_view parts[] = {"read", "write", "copy", "triad"};
    for (size_t i = 0; i < 4; i++)
      if (part == parts[i]) found = of[i];
  });
  return found;
}

/// `low` of the profile is at least `part` of what `proof` says; where it is not, it becomes that.
template <class P, class F> void each_order(P& p, F f) {
  constexpr double noise = 0.85;
  const auto rates = [&](const std::string& name, auto& one, auto& all) {
    f(name, all, one, noise);
    f(name + "_1", one, all / p.threads, noise);
  };
  rates("fma_f32", p.fma_f32_1, p.fma_f32);
  rates("fma_f64", p.fma_f64_1, p.fma_f64);
  rates("bf16_dot", p.bf16_dot_1, p.bf16_dot);
  rates("int8_dot", p.int8_dot_1, p.int8_dot);
  rates("bf16_tile", p.bf16_tile_1, p.bf16_tile);
  // A vector holds twice as many f32 as f64, and a dot instruction does no less than a
  // multiply-add.
  f("fma_f32_1", p.fma_f32_1, 2 * p.fma_f64_1, 0.75);
  f("fma_f32", p.fma_f32, 2 * p.fma_f64, 0.75);
  f("fma_f64_1", p.fma_f64_1, p.fma_f32_1 / 2, 0.75);
  f("fma_f64", p.fma_f64, p.fma_f32 / 2, 0.75);
  if (p.int8_dot_1 > 0)
    f("int8_dot_1", p.int8_dot_1, p.fma_f32_1, 0.75), f("int8_dot", p.int8_dot, p.fma_f32, 0.75);
  for (auto [name, part] : {std::pair{".read", &Bandwidth::read},
                            {".write", &Bandwidth::write},
                            {".copy", &Bandwidth::copy},
                            {".triad", &Bandwidth::triad}}) {
    const auto named = [&](const char* level) { return level + std::string(name); };
    f(named("memory"), p.memory.*part, p.memory_1.*part, noise);
    f(named("memory_1"), p.memory_1.*part, p.memory.*part / p.threads, noise);
    f(named("l2_1"), p.l2_1.*part, p.memory_1.*part, noise);
    f(named("l1_1"), p.l1_1.*part, p.l2_1.*part, noise);
    f(named("l3_all"), p.l3_all.*part, p.memory.*part, noise);
  }
}

bool is_given() { return !setting_text("LUMINAL_MACHINE").empty(); }

/// The profile that LUMINAL_MACHINE names, for so many threads: one that programs take as it is, and
/// that is neither measured nor kept. What is tuned with it is not confused with this machine's.
std::optional<MachineProfile> given_profile(int threads) {
  const std::string file = setting_text("LUMINAL_MACHINE");
  if (file.empty()) return std::nullopt;
  const auto text = read_file(file, 1 << 20);
  if (!text) throw Error(fmt::format("LUMINAL_MACHINE: {}", text.error()));
  auto p = MachineProfile::from_json(*text);
  if (!p) throw Error(fmt::format("LUMINAL_MACHINE={}: {}", file, p.error()));
  p->threads = threads;
  p->fingerprint = Hasher().add("given").add(p->fingerprint).add(threads).value64();
  p->reconcile();
  return *p;
}

/// "2026-11-23 18:05 UTC"
std::string present_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts)};
}

std::string file_of(const MachineProfile& p) {
  std::string folder = cache_folder();
  return folder.empty() ? "" : fmt::format("{}/machine/{:016x}.json", folder, p.fingerprint);
}

void keep(const MachineProfile& p) {
  const std::string file = file_of(p);
  if (file.empty()) return;
  auto written = make_folder_of(file);
  if (written) written = write_file(file, p.to_json());
  if (!written) log_info("the machine profile is not kept: {}", written.error());
}

} // namespace

MachineProfile MachineProfile::guess(int threads) {
  if (const auto given = given_profile(threads)) return *given;
  const codegen::CpuTarget& target = codegen::CpuTarget::host();
  MachineProfile p;
  p.processor = processor_line("model name");
  if (p.processor.empty()) p.processor = target.cpu;
  p.cpu = target.cpu;
  p.threads = threads;
  p.vector_bits = target.vector_bits;
  p.vector_registers = target.vector_registers;
  p.l1 = cache_bytes(1) ? cache_bytes(1) : 32 << 10;
  p.l2 = cache_bytes(2) ? cache_bytes(2) : 512 << 10;
  p.l3 = cache_bytes(3) ? cache_bytes(3) : 8 << 20;
  p.fingerprint =
      Hasher().add(p.processor).add(target.hash()).add(p.l1).add(p.l2).add(p.l3).add(threads).value64();
  // Two 256-bit multiply-adds a cycle, as halves of 512-bit ones where these are not full rate; one
  // of 128 bits on the rest.
  double ghz = clock_ghz(), lanes = std::min(p.vector_bits, 256) / 32.0;
  p.fma_f32_1 = ghz * lanes * 4;
  p.fma_f64_1 = p.fma_f32_1 / 2;
  p.bf16_dot_1 = target.bf16_dot ? p.fma_f32_1 * 2 : 0;
  p.int8_dot_1 = target.int8_dot ? p.fma_f32_1 * 4 : 0;
  p.bf16_tile_1 = target.bf16_tiles ? p.fma_f32_1 * 16 : 0;
  p.fma_f32 = p.fma_f32_1 * threads;
  p.fma_f64 = p.fma_f64_1 * threads;
  p.bf16_dot = p.bf16_dot_1 * threads;
  p.int8_dot = p.int8_dot_1 * threads;
  p.bf16_tile = p.bf16_tile_1 * threads;
  double several = std::min(threads, 4);
  p.memory_1 = {10, 6, 8, 8};
  p.memory = {10 + 5 * (several - 1), 6 + 3 * (several - 1), 8 + 4 * (several - 1), 8 + 4 * (several - 1)};
  double l1 = ghz * p.vector_bits / 8;
  p.l1_1 = {l1, l1 / 2, l1, l1};
  p.l2_1 = {l1 / 2, l1 / 4, l1 / 2, l1 / 2};
  p.l3_all = {l1 / 4 * threads, l1 / 8 * threads, l1 / 4 * threads, l1 / 4 * threads};
  p.fork_join_us = threads > 1 ? 0.5 : 0;
  p.barrier_us = threads > 1 ? 0.2 : 0;
  return p;
}

MachineProfile MachineProfile::present(int threads) {
  MachineProfile p = guess(threads);
  if (is_given()) return p;
  std::string file = file_of(p);
  if (file.empty() || !file_exists(file)) return p;
  auto text = read_file(file, 1 << 20);
  if (!text) return p;
  auto kept = from_json(*text);
  if (kept && kept->fingerprint == p.fingerprint && !kept->guessed) {
    kept->reconcile();
    return *kept;
  }
  log_info("{}: not a profile of this machine{}", file, kept ? "" : ": " + kept.error());
  return p;
}

Result<MachineProfile> MachineProfile::measured(int threads, bool fresh) {
  MachineProfile p = present(threads);
  if (is_given() || (!p.guessed && !fresh && p.doubtful.empty())) return p;
  auto reached = std::move(p.reached);
  p = guess(threads);
  const auto lock = MeasureLock::acquire(MeasureLock::default_path());
  if (!lock) log_info("measuring without a lock: {}", lock.error());
  if (auto done = measure(p); !done) return done.failure();
  p.guessed = false;
  p.measured_at = present_time();
  for (const auto& [name, rate] : reached) // what was reached is known as well as what is measured
    if (double* const known = rate_named(p, name)) *known = std::max(*known, rate);
  p.reached = std::move(reached);
  p.reconcile();
  keep(p);
  return p;
}

std::string MachineProfile::reached_rate(int threads, const std::string& name, double rate) {
  constexpr double noise = 1.02; // of two clocks that are read at different moments
  MachineProfile p = present(threads);
  double* const known = rate_named(p, name);
  LUMINAL_CHECK(known, "rate {}", name);
  if (is_given() || p.guessed || !std::isfinite(rate) || !(rate > *known * noise)) return "";
  const double before = *known;
  p.reached[name] = rate;
  p.reconcile();
  keep(p);
  return fmt::format(
      "the profile of this machine{} said {:.1f} for {}, and {:.1f} were reached: it is raised to that "
      "and kept; luminal devices measures again",
      p.measured_at.empty() ? "" : fmt::format(" (measured {})", p.measured_at), before, name, rate);
}

std::vector<std::string> MachineProfile::contradicted() const {
  std::vector<std::string> names;
  each_order(*this, [&](const std::string& name, double low, double proof, double part) {
    if (low < part * proof && !contains(names, name)) names.push_back(name);
  });
  return names;
}

void MachineProfile::reconcile() {
  const auto doubt = [&](const std::string& name) {
    if (!contains(doubtful, name)) doubtful.push_back(name);
  };
  for (const auto& [name, rate] : reached)
    if (double* const known = rate_named(*this, name); known && *known < rate) {
      *known = rate;
      doubt(name);
    }
  bool raised = true;
  while (raised) { // each raise is by a seventh at least, up to what the largest number proves
    raised = false;
    each_order(*this, [&](const std::string& name, double& low, double proof, double part) {
      if (!(low < part * proof)) return;
      low = proof;
      raised = true;
      doubt(name);
    });
  }
}

kernel::MachineLimits MachineProfile::limits() const {
  kernel::MachineLimits limits;
  limits.lanes = vector_bits / 32;
  limits.vector_registers = vector_registers;
  limits.memory_operands = codegen::CpuTarget::host().memory_operands();
  limits.l1 = l1;
  limits.l2 = l2;
  limits.l3 = l3;
  limits.threads = threads;
  const codegen::CpuTarget& target = codegen::CpuTarget::host();
  if (target.cpu == cpu) { // a profile of another machine does not tell
    limits.units = target.dot_units();
    limits.full_rate = target.full_rate;
  }
  return limits;
}

std::string MachineProfile::to_json() const {
  Json j;
  j["processor"] = processor;
  j["cpu"] = cpu;
  j["fingerprint"] = fmt::format("{:016x}", fingerprint);
  j["threads"] = threads;
  j["vector_bits"] = vector_bits;
  j["vector_registers"] = vector_registers;
  j["l1"] = l1;
  j["l2"] = l2;
  j["l3"] = l3;
  each_number(*this, [&](const char* name, double x) { j[name] = x; });
  each_bandwidth(*this, [&](const char* name, const Bandwidth& b) {
    j[name] = Json{{"read", b.read}, {"write", b.write}, {"copy", b.copy}, {"triad", b.triad}};
  });
  j["guessed"] = guessed;
  j["measured_at"] = measured_at;
  j["doubtful"] = doubtful;
  j["reached"] = reached;
  return j.dump(2) + "\n";
}

Result<MachineProfile> MachineProfile::from_json(std::string_view text) {
  Json j = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!j.is_object()) return Failure{"machine profile: no JSON object"};
  try {
    MachineProfile p;
    p.processor = j.at("processor").get<std::string>();
    p.cpu = j.at("cpu").get<std::string>();
    p.fingerprint = std::stoull(j.at("fingerprint").get<std::string>(), nullptr, 16);
    auto integer = [&](const char* name, int64_t low, int64_t high) {
      const Json& value = j.at(name);
      if (!value.is_number_integer() || value < low || value > high)
        throw std::out_of_range(fmt::format("{} is not within {}..{}", name, low, high));
      return value.get<int64_t>();
    };
    p.threads = int(integer("threads", 1, 1 << 16));
    p.vector_bits = int(integer("vector_bits", 64, 1 << 16));
    p.vector_registers = int(integer("vector_registers", 1, 1 << 16));
    p.l1 = integer("l1", 1, int64_t(1) << 50);
    p.l2 = integer("l2", 1, int64_t(1) << 50);
    p.l3 = integer("l3", 1, int64_t(1) << 50);
    auto number = [](const Json& value) {
      auto x = value.get<double>();
      if (!std::isfinite(x) || x < 0) throw std::out_of_range("a number is negative or not finite");
      return x;
    };
    each_number(p, [&](std::string_view name, double& x) { // (older profiles do not know tiles)
      x = name.starts_with("bf16_tile") && !j.contains(name) ? 0 : number(j.at(name));
    });
    each_bandwidth(p, [&](const char* name, Bandwidth& b) {
      const Json& o = j.at(name);
      b = {number(o.at("read")), number(o.at("write")), number(o.at("copy")), number(o.at("triad"))};
    });
    p.guessed = j.at("guessed").get<bool>();
    p.measured_at = j.value("measured_at", "");
    p.doubtful = j.value("doubtful", std::vector<std::string>());
    const Json rates = j.value("reached", Json::object());
    for (const auto& [name, value] : rates.items())
      if (rate_named(p, name)) p.reached[name] = number(value);
    return p;
  } catch (const std::exception& e) {
    return Failure{fmt::format("machine profile: {}", e.what())};
  }
}

std::string MachineProfile::to_string() const {
  std::string out = fmt::format("{} ({}), {} thread{}, vectors of {} bits, {} registers\n", processor, cpu,
                                threads, threads == 1 ? "" : "s", vector_bits, vector_registers);
  out += fmt::format("caches            L1 {} KiB, L2 {} KiB, L3 {:.1f} MiB\n", l1 >> 10, l2 >> 10,
                     double(l3) / (1 << 20));
  auto rate = [&](const char* name, double one, double all) {
    if (one > 0) out += fmt::format("{:<18}{:>9.1f} on 1 thread {:>9.1f} on {}\n", name, one, all, threads);
  };
  out += guessed ? "guessed, not measured (luminal devices measures)\n" : "";
  rate("f32 FMA GFLOP/s", fma_f32_1, fma_f32);
  rate("f64 FMA GFLOP/s", fma_f64_1, fma_f64);
  rate("bf16 dot GFLOP/s", bf16_dot_1, bf16_dot);
  rate("int8 dot GOP/s", int8_dot_1, int8_dot);
  rate("bf16 tile GFLOP/s", bf16_tile_1, bf16_tile);
  out += "GB/s                   read    write     copy    triad\n";
  auto line = [&](const std::string& name, const Bandwidth& b) {
    out += fmt::format("{:<18}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}\n", name, b.read, b.write, b.copy, b.triad);
  };
  line("memory, 1 thread", memory_1);
  if (threads > 1) line(fmt::format("memory, {} threads", threads), memory);
  line("L1, 1 thread", l1_1);
  line("L2, 1 thread", l2_1);
  line(fmt::format("L3, {} thread{}", threads, threads == 1 ? "" : "s"), l3_all);
  if (threads > 1)
    out += fmt::format("fork and join     {:>9.2f} us\nbarrier           {:>9.2f} us\n", fork_join_us,
                       barrier_us);
  for (const auto& [name, highest] : reached)
    out += fmt::format("a program reached {:.1f} in {}\n", highest, name);
  if (!measured_at.empty()) out += fmt::format("measured {}\n", measured_at);
  if (!doubtful.empty())
    out += fmt::format("doubtful, since other numbers contradict them (were other programs running?): {}; "
                       "luminal devices measures again\n",
                       fmt::join(doubtful, ", "));
  return out;
}

} // namespace luminal::search
