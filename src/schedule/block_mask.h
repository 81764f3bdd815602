// schedule/block_mask.h -- private to the lowering: which blocks of a fold's elements have any that counts.
#pragma once
#include "cone/cone.h"

namespace luminal::kernel {

struct Nests;

/// Where the value `any` is 0, a tile of the fold's cascade changes nothing.
struct BlockMask {
  std::string stage; // the fold
  int cascade = 0;   // its number; 0: the fold is not in tiles yet
  ValueId any;
  Expr symbol;             // for what is read from it
  std::vector<Expr> index; // where, over the axes of the fold; in a cascade over its loops
};

/// The directive; a size for each of the axes. Throws ScheduleFailure.
void block_mask(Nests& nests, const std::string& stage, const std::string& mask,
                std::span<const std::string> axes, std::span<const int64_t> sizes);

} // namespace luminal::kernel
