// choose/decisions.h -- what the default schedule decides, one question after the other, open to be
// decided otherwise: the space a tuner searches.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::kernel {

/// One question: a name ("y.rows"), the answers that make sense, the one that the cone and the
/// machine's limits suggest, the one taken.
struct Decision {
  std::string name;
  std::vector<int64_t> options; ///< ascending, without repeats, `usual` among them
  int64_t usual = 0, taken = 0;
  bool operator==(const Decision&) const = default;
};

/// Answers that differ from the usual ones, by the question's name.
using Answers = std::map<std::string, int64_t>;

/// Asked while a schedule is chosen. Which questions come up depends on the answers before them.
class Decisions {
public:
  Decisions() = default;
  explicit Decisions(Answers wanted) : wanted_(std::move(wanted)) {}

  /// The wanted answer where it is one of the options, else `usual` (which becomes an option).
  int64_t ask(std::string name, int64_t usual, std::vector<int64_t> options);
  bool ask_whether(std::string name, bool usual) { return ask(std::move(name), usual, {0, 1}) != 0; }
  /// In the order in which they were asked; of a name that was asked again, the last.
  const std::vector<Decision>& made() const { return made_; }

private:
  Answers wanted_;
  std::vector<Decision> made_;
};

/// "y.rows=6 y.pack=1"; empty where all is as usual. parse_answers reads it; failure throws Error.
std::string to_string(const Answers& answers);
Answers parse_answers(std::string_view text);

} // namespace luminal::kernel
