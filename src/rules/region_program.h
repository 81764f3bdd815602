// rules/region_program.h -- a region as a program of rules (docs/egraph.md) that makes the e-graph of its
// search: terms, rules and schedule as text. The region itself stands in comments at its head, since the
// payloads of terms (leaves, places, monoids ..) are numbers of the host, which makes them of it again.
#pragma once
#include "rules/enter_region.h"
#include <memory>
#include <string>
#include <string_view>

namespace luminal::rules {

/// The program of a region that was entered and not yet saturated. Error where the text form of terms does
/// not hold the region: functions that it calls, large constants.
std::string region_program(RegionTerms& terms, const Entered& entered);

/// The language of a program that region_program wrote: payloads are defined, there are no rules and no
/// terms. Null: the text is no such program. Error: its head is not what was written.
std::unique_ptr<RegionTerms> terms_of_program(std::string_view text, const egraph::EggOptions& options);

} // namespace luminal::rules
