// rules/round_trip.h -- a module into the e-graph and back, without rules: what must be the
// same afterwards.
#pragma once
#include "compile/fuse.h"
#include "ir/interp.h"
#include "ir/random_module.h"
#include "ir/shrink.h"
#include "rules/through_regions.h"
#include "support/seeds.h"
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <optional>

namespace luminal::testing_rules {

/// The module with its entry taken through the e-graph as one region.
inline Result<Module> round_trip(const Module& module, rules::RegionTerms& terms,
                                 const rules::EmitOptions& options = {}) {
  const rules::FlatFunction flat(module, module.entry());
  rules::RegionNodes region;
  for (const FunctionResult& r : module.entry().results) region.roots.push_back(r.value);
  const auto entered = rules::enter(terms, flat, region);
  if (!entered) return entered.failure();
  rules::FunctionWriter writer(module.entry());
  writer.place(rules::emit(terms, *entered, rules::first_rows(terms), options));
  Module out = module;
  out.functions.back() = writer.finish();
  return out;
}

/// The same, region by region.
inline Module round_trip_by_regions(const Module& module, rules::RegionTerms& terms,
                                    const rules::RegionLimits& limits = {},
                                    rules::ThroughReport* report = nullptr) {
  const rules::FlatFunction flat(module, module.entry());
  Module out = module;
  out.functions.back() = rules::through_regions(
      terms, flat, rules::cut_regions(flat, limits),
      [](rules::RegionTerms& t, const rules::Entered&) { return rules::first_rows(t); }, report);
  return out;
}

inline bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (is_float(a.dtype)) {
      const double x = a.at(i), y = b.at(i);
      if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
    } else if (load_i64(a.dtype, a.data.data(), i) != load_i64(b.dtype, b.data.data(), i)) {
      return false;
    }
  }
  return true;
}

/// Whether every result of both modules is the same, bit for bit (zeros of either sign alike).
inline std::optional<std::string> different_values(const Module& before, const Module& after,
                                                   const Bindings& bindings) {
  const auto want = Interpreter(before, bindings).run(), got = Interpreter(after, bindings).run();
  for (const auto& [name, value] : want)
    if (!same_bits(value, got.at(name))) return "result " + name + " has other values";
  return {};
}

/// What is wrong with a module that came back, values not looked at. A second time changes nothing, or
/// a third one where dimensions without a point let axes go.
inline std::optional<std::string> broken(const Module& before, rules::RegionTerms& terms, Module& after,
                                         int settled = 1) {
  auto back = round_trip(before, terms);
  if (!back) return back.error();
  after = std::move(*back);
  if (const auto mistakes = verify(after); !mistakes.empty()) return "it does not verify: " + mistakes[0];
  if (dynamic_checks(after).size() > dynamic_checks(before).size())
    return "more is to be checked at run time";
  Module last = after;
  for (int k = 0;; ++k) {
    auto again = round_trip(last, terms);
    if (!again) return again.error();
    if (to_string(*again) == to_string(last)) return {};
    if (k + 1 == settled) return "another time gives another text:\n" + to_string(*again);
    last = std::move(*again);
  }
}

/// What is wrong with a module that goes through the e-graph, if anything.
inline std::optional<std::string> wrong_round_trip(const Module& module, const Bindings& bindings,
                                                   rules::RegionTerms& terms, int settled = 1) {
  Module after;
  try {
    if (auto wrong = broken(module, terms, after, settled)) return wrong;
    if (auto wrong = different_values(module, after, bindings)) return *wrong + "\n" + to_string(after);
    after = round_trip_by_regions(module, terms, {.nodes = 4});
    if (const auto mistakes = verify(after); !mistakes.empty()) return "by regions: " + mistakes[0];
    if (auto wrong = different_values(module, after, bindings))
      return "by regions, " + *wrong + "\n" + to_string(after);
  } catch (const std::exception& error) {
    return std::string("it throws: ") + error.what();
  }
  return {};
}

/// Zeros lose their sign, of which sums promise nothing: a reciprocal would show it.
inline Bindings without_signs_of_zeros(Bindings bindings) {
  for (auto& [name, t] : bindings.inputs)
    for (int64_t i = 0; is_float(t.dtype) && i < t.count(); ++i)
      if (t.at(i) == 0) store_f64(t.dtype, t.data.data(), i, 0);
  return bindings;
}

/// Random modules first .. first + count - 1, or those of the environment; a failure is made small.
inline void check_random_round_trips(uint64_t first, uint64_t count) {
  const test::Seeds seeds = test::seeds(first, count);
  rules::RegionTerms terms;
  uint64_t refused = 0;
  for (uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    testing_ir::RandomModuleOptions options;
    options.nodes = 6 + int(seed % 20);
    const testing_ir::RandomModule g(seed, options);
    for (const int which : {0, 1}) {
      const testing_ir::Failing f{g.module, without_signs_of_zeros(g.bindings(which))};
      const auto fails = [&](const testing_ir::Failing& k) {
        const auto wrong = wrong_round_trip(k.module, k.bindings, terms, 4);
        if (wrong && wrong->starts_with("a region has more")) {
          refused += k.module.functions.size() == f.module.functions.size();
          return std::optional<std::string>();
        }
        return wrong;
      };
      if (!fails(f)) continue;
      const auto small =
          testing_ir::Shrinker(f, [&](const testing_ir::Failing& k) { return fails(k).has_value(); }).run();
      ADD_FAILURE() << "seed " << seed << " (" << which << "): " << *fails(small) << "\nof\n"
                    << to_string(small.module);
      return;
    }
  }
  EXPECT_LE(refused, seeds.count / 20) << "few modules have too many axes";
}

inline size_t kernels(const Module& module) {
  return compile::fuse_step(module.entry()).partition.kernels.size();
}

} // namespace luminal::testing_rules
