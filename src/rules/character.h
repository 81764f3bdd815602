// rules/character.h -- how a family moves with a statistic r: H(r) = b^(slope r) r^power, or an
// indicator.
#pragma once
#include <cstdint>
#include <optional>

namespace luminal::rules {

/// b is e, or 2. An indicator: H is [r == .], and `other` stands where they differ.
struct Character {
  double slope = 0, power = 0;
  bool base2 = false;
  std::optional<double> other = {};
  bool operator==(const Character&) const = default;
  uint64_t hash() const;
  bool is_one() const { return slope == 0 && power == 0 && !other; }
};

/// Of H J; nothing where that is none of them.
std::optional<Character> product(const Character& h, const Character& j);
/// Of 1 / H.
std::optional<Character> inverse(const Character& h);
/// Of the square root of H.
std::optional<Character> root(const Character& h);

} // namespace luminal::rules
