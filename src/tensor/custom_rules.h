// tensor/custom_rules.h -- rules that came with operations of the user.
#pragma once
#include "luminal/pattern.h"
#include <optional>

namespace luminal {

void remember_rules(const std::string& operation, Rules rules);
/// The exact ones of all operations, again and again until nothing changes; nothing where no
/// operation has rules.
std::optional<Pass> pass_of_operations();
/// Null where the operation has none.
std::optional<Rules> rules_of(const std::string& operation);

} // namespace luminal
