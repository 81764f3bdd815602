// compile/target.cpp -- limits and instructions of other processors.
#include "compile/target.h"

namespace luminal::compile {
namespace {

/// A process has to ask for tile registers before it uses them: programs that are written to files do not.
void without_tiles(codegen::CpuTarget& target) { target.bf16_tiles = target.int8_tiles = false; }

} // namespace

Result<Options> options_for_target(std::string_view name, int threads) {
  Options options = Options::host(threads);
  if (name == "host") {
    without_tiles(options.target);
    options.limits.units = options.target.dot_units();
    return options;
  }
  auto target = codegen::CpuTarget::named(name);
  if (!target) return target.failure();
  without_tiles(*target);
  options.target = *target;
  options.limits = {.lanes = target->vector_bits / 32,
                    .vector_registers = target->vector_registers,
                    .memory_operands = target->memory_operands(),
                    .full_rate = target->full_rate,
                    .l2 = int64_t(target->vector_bits == 512 ? 1 << 20 : 512 << 10),
                    .l3 = 16 << 20,
                    .threads = threads,
                    .units = target->dot_units()};
  return options;
}

std::vector<std::string> instructions_of(const codegen::CpuTarget& target) {
  std::vector<std::string> words;
  auto add = [&](bool present, std::initializer_list<const char*> names) {
    if (present) words.insert(words.end(), names.begin(), names.end());
  };
  if (target.triple.starts_with("x86_64")) {
    add(target.vector_bits >= 256, {"avx2"});
    add(target.fma, {"fma"});
    add(target.vector_bits >= 512, {"avx512f", "avx512vl", "avx512bw", "avx512dq"});
    add(target.bf16_dot, {"avx512bf16"});
    add(target.int8_dot, {"avx512vnni"});
  } else {
    add(target.int8_dot, {"HWCAP_ASIMDDP"});
    add(target.bf16_dot, {"HWCAP2_BF16"});
    if (target.sve)
      words.insert(words.end(), {"HWCAP_SVE", "SVE_BITS " + std::to_string(target.vector_bits)});
  }
  return words;
}

bool host_multiplies_bytes() { // where it is absent, the unit of that name stands for several instructions
  const codegen::CpuTarget target = codegen::CpuTarget::host();
  return target.int8_dot && target.triple.starts_with("x86");
}

} // namespace luminal::compile
