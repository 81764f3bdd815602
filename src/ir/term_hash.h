// ir/term_hash.h -- the structural hash of one node, for hash-consing within a function.
#pragma once
#include "ir/term.h"

namespace luminal {

uint64_t node_hash(const Attr& attr, const std::vector<NodeId>& inputs);

} // namespace luminal
