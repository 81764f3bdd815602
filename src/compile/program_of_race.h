// compile/program_of_race.h -- private: a program of a ProgramRace, and what fills its inputs.
#pragma once
#include "compile/program_race.h"
#include "ir/term.h"

namespace luminal::compile {

struct ProgramRace::Program {
  std::shared_ptr<const runtime::Plan> plan;
  std::shared_ptr<const runtime::Executable> executable;
  std::unique_ptr<runtime::Context> context;
  bool filled = false;
};

/// Floats between -1 and 1, integers in their range; a function of the name.
void make_content(DType dtype, std::span<std::byte> bytes, const std::string& name, Interval range);

} // namespace luminal::compile
