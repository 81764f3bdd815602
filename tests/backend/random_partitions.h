// backend/random_partitions.h -- any legal partition of a region: which values are stored and which
// kernel computes them is drawn, beside what must be.
#pragma once
#include "compile/compile.h"
#include "ir/partition.h"
#include <random>

namespace luminal::testing_plans {

class RandomPartition {
public:
  RandomPartition(uint64_t seed, const Region& region) : random_(seed), region_(region) {}

  Partition run() {
    constexpr double shares[] = {0, 0.1, 0.3, 0.6, 1};
    const double stored = shares[below(std::size(shares))], merged = shares[below(std::size(shares))];
    std::set<NodeId> values;
    for (const auto& [id, why] : required_values(region_)) values.insert(id);
    for (NodeId id : needed_nodes(region_))
      if (chance(stored) && verify({{{id}}}, only(id)).empty()) values.insert(id);
    for (NodeId id : values) partition_.kernels.push_back({id});
    const auto attempts = size_t(merged * 3 * double(partition_.kernels.size()));
    for (size_t i = 0; i < attempts && partition_.kernels.size() > 1; i++) merge();
    return std::move(partition_);
  }

private:
  size_t below(size_t n) { return size_t(random_() % n); }
  bool chance(double share) { return double(random_() % 1000) < 1000 * share; }

  /// The region that computes this value alone, which asks whether it may be stored at all.
  Region only(NodeId id) const {
    Region region = region_;
    for (const auto& [other, why] : required_values(region_))
      if (other != id) region.given.insert(other);
    region.wanted = {id};
    region.read.clear();
    return region;
  }

  /// Two kernels become one where that is legal.
  void merge() {
    Partition tried = partition_;
    const size_t a = below(tried.kernels.size()), b = below(tried.kernels.size());
    if (a == b) return;
    auto& into = tried.kernels[a];
    into.insert(into.end(), tried.kernels[b].begin(), tried.kernels[b].end());
    tried.kernels.erase(tried.kernels.begin() + long(b));
    if (verify(tried, region_).empty()) partition_ = std::move(tried);
  }

  std::mt19937_64 random_;
  const Region& region_;
  Partition partition_;
};

/// Draws a partition for each region of a module; `drawn` gets the texts.
inline compile::Partitioner random_partitioner(uint64_t seed, std::string* drawn = nullptr) {
  return [seed, drawn, regions = std::make_shared<uint64_t>(0)](const Region& region) {
    Partition partition = RandomPartition(seed * 1009 + (*regions)++, region).run();
    if (drawn) *drawn += to_string(partition, *region.function);
    return Result<std::optional<Partition>>(std::move(partition));
  };
}

} // namespace luminal::testing_plans
