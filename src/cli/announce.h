// cli/announce.h -- the memory that a model takes, said before it is taken.
#pragma once
#include "models/generator.h"

namespace luminal::cli {

/// Says on stderr what the process takes at its peak with this model: weights, cache, working
/// memory, and their sum. Throws Error, with `advice`, where that is more than `limit` ("8G";
/// empty: what the system has free).
void announce_memory(const std::string& name, const models::Generator::Estimate& estimate,
                     const std::string& limit, const std::string& advice);

} // namespace luminal::cli
