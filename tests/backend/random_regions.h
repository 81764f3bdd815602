// backend/random_regions.h -- any choice of terms and boundaries for each region: what the search over
// regions may come to, drawn.
#pragma once
#include "compile/compile.h"
#include "rules/cheapest.h"
#include "rules/saturate.h"
#include <memory>
#include <random>

namespace luminal::testing_plans {

/// Terms of a saturated region drawn at random; for two of three regions also what is stored, in kernels
/// of one value or two.
class RandomRegion {
public:
  explicit RandomRegion(uint64_t seed) : random_(seed) {}

  std::optional<rules::Choice> draw(rules::RegionTerms& terms) {
    rules::saturate(terms, {.rows = 3000});
    rules::Choice choice =
        rules::cheapest_rows(terms, [&](const egraph::RowView&) { return 1 + double(random_() % 1000); });
    if (random_() % 3 == 0) return choice;
    choice.decided = true;
    const uint64_t share = random_() % 4;
    for (egraph::ClassId c = 0; c < choice.rows.size(); ++c) {
      if (choice.rows[c].op == egraph::absent || terms.graph().find(c) != c || random_() % 4 > share)
        continue;
      const rules::RegionTerms::Ops& ops = terms.ops();
      const egraph::OpId op = choice.rows[c].op;
      if (op == ops.fold || op == ops.scan || op == ops.opaque_tuple || op == ops.in || op == ops.par ||
          op == ops.number || op == ops.index)
        continue;
      if (random_() % 8 == 0)
        choice.open.push_back(c);
      else if (!choice.kernels.empty() && random_() % 6 == 0)
        choice.kernels[random_() % choice.kernels.size()].push_back(c);
      else
        choice.kernels.push_back({c});
    }
    return choice;
  }

private:
  std::mt19937_64 random_;
};

inline compile::RuleOptions random_regions(uint64_t seed) {
  compile::RuleOptions rules;
  rules.choose = [seed, regions = std::make_shared<uint64_t>(0)](rules::RegionTerms& terms,
                                                                 const rules::Entered&) {
    return RandomRegion(seed * 1013 + (*regions)++).draw(terms);
  };
  return rules;
}

} // namespace luminal::testing_plans
