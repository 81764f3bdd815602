// choose/limits_hash.cpp -- one list of the fields of MachineLimits.
#include "choose/limits_hash.h"

namespace luminal::kernel {

void hash_into(Hasher& hasher, const MachineLimits& limits) {
  // The structured bindings name every field: a new one does not compile until it stands here.
  const auto& [lanes, vector_registers, memory_operands, full_rate, l1, l2, l3, threads, units, gpu] = limits;
  const auto add_units = [&](const std::vector<std::string>& names) {
    hasher.add(names.size());
    for (const std::string& name : names) hasher.add(name);
  };
  hasher.add(lanes).add(vector_registers).add(memory_operands).add(full_rate);
  hasher.add(l1).add(l2).add(l3).add(threads).add(gpu.has_value());
  add_units(units);
  if (!gpu) return;
  const auto& [group_lanes, most_lanes, warp, group_bytes, results, groups, tiles, group_units] = *gpu;
  hasher.add(group_lanes).add(most_lanes).add(warp).add(group_bytes).add(results).add(groups).add(tiles);
  add_units(group_units);
}

} // namespace luminal::kernel
