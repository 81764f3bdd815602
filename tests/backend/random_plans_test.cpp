// backend/random_plans_test.cpp -- the default plans of random modules give what the interpreters
// give; tests/slow runs thousands more.
#include "random_plans.h"
#include <algorithm>

namespace luminal {
namespace {
using testing_plans::check_random_plans, testing_plans::Trial;

TEST(RandomPlans, Seeds0To40) { check_random_plans(0, 40); }
TEST(RandomPlans, Seeds40To80) { check_random_plans(40, 40); }
/// Any legal set of stored values, in any legal groups, gives the same results.
TEST(RandomPlans, PartitionsOfSeeds0To40) { check_random_plans(0, 40, Trial::partitions); }

/// Any terms and boundaries that the search over regions could choose do, too.
TEST(RandomPlans, RegionsOfSeeds0To40) { check_random_plans(0, 40, Trial::regions); }

/// Networks as programs write them.
TEST(RandomPlans, NetworksOfSeeds0To40) { check_random_plans(0, 40, Trial::networks); }
TEST(RandomPlans, NetworkRegionsOfSeeds0To20) { check_random_plans(0, 20, Trial::network_regions); }
/// Rules stand on their own: what is found without one of them is right.
TEST(RandomPlans, FewerRulesOfSeeds0To20) { check_random_plans(0, 20, Trial::fewer_rules); }

/// What is saved of a failure is the same program with the same values, in types that files hold.
TEST(RandomPlans, InputsOf4BitsAreSavedAsBytes) {
  int found = 0;
  for (uint64_t seed = 0; found < 8 && seed < 400; seed++) {
    const testing_plans::Failing f = testing_plans::module_of(seed, 0, seed % 2 == 0);
    const auto narrow = [](const testing_plans::Failing& g) {
      int count = 0;
      for (const auto& [name, t] : g.bindings.inputs) count += bits(t.dtype) == 4 && t.count() > 0;
      return count;
    };
    const auto states = std::ranges::any_of(f.module.entry().params, [&](NodeId id) {
      return std::get<InputAttr>(f.module.entry()[id].attr).role == Role::state;
    });
    if (narrow(f) == 0 || states) continue;
    found++;
    const testing_plans::Failing saved = testing_plans::with_bytes(f);
    ASSERT_EQ(verify(saved.module), std::vector<std::string>()) << seed;
    EXPECT_EQ(narrow(saved), 0) << seed;
    const auto want = interpret_naively(f.module, f.bindings);
    for (const auto& [name, value] : interpret_naively(saved.module, saved.bindings))
      EXPECT_EQ(value.data, want.at(name).data) << seed << " " << name;
  }
  EXPECT_EQ(found, 8);
}

} // namespace
} // namespace luminal
