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
    without_tiles(options.target.cpu);
    options.limits.units = options.target.cpu.dot_units();
    return options;
  }
  auto target = codegen::CpuTarget::named(name);
  if (!target) return target.failure();
  without_tiles(*target);
  options.target.cpu = *target;
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

bool host_multiplies_bytes() { // where it is absent, the unit of that name stands for several instructions
  const codegen::CpuTarget target = codegen::CpuTarget::host();
  return target.int8_dot && target.triple.starts_with("x86");
}

} // namespace luminal::compile
