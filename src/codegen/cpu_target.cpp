// codegen/cpu_target.cpp -- what the processor is and can do, as LLVM knows it.
#include "base/check.h"
#include "base/contains.h"
#include "base/hash.h"
#include "base/settings.h"
#include "codegen/llvm_target.h"
#include <array>
#include <fmt/format.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Support/TargetSelect.h>
#include <map>
#include <mutex>
#include <sstream>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/prctl.h>
#elif defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace luminal::codegen {
namespace {

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
  });
}

std::string architecture_of(std::string_view cpu) {
  for (std::string_view arm : {"neoverse", "apple", "cortex", "ampere", "a64fx", "oryon", "grace"})
    if (cpu.starts_with(arm)) return "aarch64";
  return "x86_64";
}

/// The width of the scalable vectors of a processor, which its features do not tell: this machine's
/// as the system says, another's by its name.
int sve_bits(std::string_view cpu, bool host) {
#if defined(__aarch64__) && defined(__linux__)
  if (const int bytes = host ? prctl(PR_SVE_GET_VL) : -1; bytes > 0) return 8 * (bytes & PR_SVE_VL_LEN_MASK);
#endif
  if (host) return 128;
  return cpu == "a64fx" ? 512 : cpu == "neoverse-v1" || cpu == "neoverse-512tvb" ? 256 : 128;
}

constexpr std::array<std::string_view, 8> intel_servers{"skylake-avx512", "cascadelake",    "cooperlake",
                                                        "icelake-server", "sapphirerapids", "emeraldrapids",
                                                        "graniterapids",  "graniterapids-d"};

/// Fills in what follows from the features.
template <class Has> Result<CpuTarget> complete(CpuTarget t, bool host, Has has) {
  if (t.triple.starts_with("x86_64")) {
    bool wide = has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq");
    t.vector_bits = wide ? 512 : has("avx2") ? 256 : 128;
    t.vector_registers = wide ? 32 : 16;
    t.masked_memory = wide;
    t.fma = has("fma") && has("avx2") && has("f16c");
    t.f16_convert = has("f16c");
    t.bf16_dot = wide && has("avx512bf16");
    t.slow_bf16_dot = t.bf16_dot && has("amx-bf16");
    t.full_rate = wide && contains(intel_servers, std::string_view(t.cpu));
    t.int8_dot = wide && has("avx512vnni");
    t.scalef = wide;
    t.bf16_tiles = wide && has("amx-tile") && has("amx-bf16");
    t.int8_tiles = wide && has("amx-tile") && has("amx-int8");
  } else if (t.triple.starts_with("aarch64") || t.triple.starts_with("arm64")) {
    t.sve = has("sve");
    t.vector_bits = t.sve ? sve_bits(t.cpu, host) : 128;
    t.masked_memory = t.sve;
    t.vector_registers = 32;
    t.fma = true;
    t.f16_convert = true;
    t.bf16_dot = has("bf16");
    t.int8_dot = has("dotprod");
  } else {
    return Failure{fmt::format("no code is made for {}", t.triple)};
  }
  return t;
}

} // namespace

Result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const CpuTarget& target, int level) {
  initialise();
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (!found) return Failure{fmt::format("this LLVM makes no code for {}: {}", target.triple, error)};
  llvm::TargetOptions options;
  options.AllowFPOpFusion =
      llvm::FPOpFusion::Strict; // a product and a sum are contracted where the loop IR says so
#if LLVM_VERSION_MAJOR >= 18
  auto effort = static_cast<llvm::CodeGenOptLevel>(level);
#else
  auto effort = static_cast<llvm::CodeGenOpt::Level>(level);
#endif
#if LLVM_VERSION_MAJOR >= 21
  llvm::Triple triple(target.triple);
#else
  const std::string& triple = target.triple;
#endif
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_, {}, effort));
  if (!machine) return Failure{fmt::format("LLVM has no code generator for {}", target.triple)};
  return machine;
}

namespace {

/// The processor that this runs on. The features are as the system tells them: no part of the
/// compiler is started for a program whose code is on disk.
CpuTarget this_processor() {
  CpuTarget t;
  t.triple = llvm::sys::getProcessTriple();
  t.cpu = llvm::sys::getHostCPUName().str();
#if LLVM_VERSION_MAJOR >= 19
  auto features = llvm::sys::getHostCPUFeatures();
#else
  llvm::StringMap<bool> features;
  llvm::sys::getHostCPUFeatures(features);
#endif
  std::map<std::string, bool> ordered; // the order of a StringMap follows its hashes
  for (const auto& f : features) ordered[f.first().str()] = f.second;
  for (const auto& [name, present] : ordered)
    t.features += (t.features.empty() ? "" : ",") + std::string(present ? "+" : "-") + name;
  return complete(t, true, [&](const char* name) { return ordered.contains(name) && ordered.at(name); })
      .value();
}

/// Asks the system for the state of tile registers, which a process has only where it wants it (Linux,
/// Documentation/arch/x86/xstate.rst). Without it their instructions are invalid.
bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

/// The first feature of `target` that `processor` says it lacks; empty where it can run the code.
std::string missing(const CpuTarget& target, const CpuTarget& processor) {
  if (target.triple != processor.triple) return fmt::format("the instructions of {}", target.triple);
  auto machine = make_target_machine(target, 2);
  if (!machine) return machine.error();
  const llvm::MCSubtargetInfo& info = *(*machine)->getMCSubtargetInfo();
  std::istringstream features(processor.features);
  for (std::string feature; std::getline(features, feature, ',');)
    if (feature.starts_with('-') && info.checkFeatures("+" + feature.substr(1))) return feature.substr(1);
  return "";
}

} // namespace

const CpuTarget& CpuTarget::host() {
  static const CpuTarget host = [] {
    CpuTarget target = this_processor();
    if (const std::string asked = setting_text("LUMINAL_CPU"); !asked.empty()) {
      auto named = CpuTarget::named(asked);
      if (!named) throw Error(fmt::format("LUMINAL_CPU: {}", named.error()));
      if (const std::string lacks = missing(*named, target); !lacks.empty())
        throw Error(fmt::format("LUMINAL_CPU={}: this processor does not have {}", asked, lacks));
      target = *named;
    }
    if ((target.bf16_tiles || target.int8_tiles) && !may_use_tiles())
      target.bf16_tiles = target.int8_tiles = false;
    return target;
  }();
  return host;
}

Result<CpuTarget> CpuTarget::named(std::string_view cpu) {
  CpuTarget t;
  std::string host_triple = llvm::sys::getProcessTriple();
  const std::string system = host_triple.substr(host_triple.find('-'));
  t.triple = architecture_of(cpu) + system;
  t.cpu = cpu;
  if (cpu == "aarch64" || cpu == "aarch64-neon") { // what every one of them has
    t.triple = "aarch64" + system;
    t.cpu = "generic";
  }
  CpuTarget any = t;
  any.cpu = "generic"; // a machine of a processor that LLVM does not know would say so on stderr
  auto known = make_target_machine(any, 2);
  if (!known) return known.failure();
  if (!(*known)->getMCSubtargetInfo()->isCPUStringValid(t.cpu))
    return Failure{fmt::format("LLVM {} does not know the processor {}", llvm_version(), t.cpu)};
  auto machine = make_target_machine(t, 2);
  if (!machine) return machine.failure();
  const llvm::MCSubtargetInfo& info = *(*machine)->getMCSubtargetInfo();
  return complete(std::move(t), false,
                  [&](const char* name) { return info.checkFeatures(std::string("+") + name); });
}

std::vector<std::string> CpuTarget::instructions() const {
  std::vector<std::string> words;
  auto add = [&](bool present, std::initializer_list<const char*> names) {
    if (present) words.insert(words.end(), names.begin(), names.end());
  };
  if (triple.starts_with("x86_64")) {
    add(vector_bits >= 256, {"avx2"});
    add(fma, {"fma"});
    add(vector_bits >= 512, {"avx512f", "avx512vl", "avx512bw", "avx512dq"});
    add(bf16_dot, {"avx512bf16"});
    add(int8_dot, {"avx512vnni"});
  } else {
    add(int8_dot, {"HWCAP_ASIMDDP"});
    add(bf16_dot, {"HWCAP2_BF16"});
    if (sve) words.insert(words.end(), {"HWCAP_SVE", "SVE_BITS " + std::to_string(vector_bits)});
  }
  return words;
}

uint64_t CpuTarget::hash() const {
  Hasher h;
  h.add(triple).add(cpu).add(features).add(vector_bits).add(vector_registers);
  h.add(bf16_tiles).add(int8_tiles);
  h.add(masked_memory)
      .add(sve)
      .add(fma)
      .add(f16_convert)
      .add(bf16_dot)
      .add(slow_bf16_dot)
      .add(full_rate)
      .add(int8_dot)
      .add(scalef);
  return h.value64();
}

std::vector<std::string> CpuTarget::dot_units() const {
  std::vector<std::string> units;
  const bool arm = triple.starts_with("aarch64") || triple.starts_with("arm64");
  if (bf16_tiles) units.push_back("amx.dpbf16");
  if (bf16_dot && !slow_bf16_dot) units.push_back(arm ? "arm.bfdot" : "avx512.dpbf16");
  if (arm && int8_dot) units.push_back("arm.sdot");
  units.push_back("vnni.dpbusd"); // where it is absent, words are still cheaper than single bytes
  return units;
}

uint64_t CodegenOptions::hash() const { return Hasher().add(level).add(transpose).value64(); }

std::string llvm_version() { return LLVM_VERSION_STRING; }

} // namespace luminal::codegen
