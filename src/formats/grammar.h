// formats/grammar.h -- grammars of texts: GBNF, the form of BNF that llama.cpp has, and JSON schemas as such
// grammars; which bytes may follow a text.
#pragma once
#include "base/result.h"
#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// Rules over bytes: characters are the sequences of UTF-8 that make them. Made by parse_grammar.
struct Grammar {
  enum class Kind : uint8_t { end, bytes, rule };
  struct Element {
    Kind kind = Kind::end;
    uint32_t value = 0; ///< number of a set of bytes, or of a rule
  };
  std::vector<Element> elements; ///< alternatives behind each other, each with `end` behind it
  std::vector<std::bitset<256>> sets;
  std::vector<std::vector<uint32_t>> rules; ///< where their alternatives begin
  std::vector<std::string> names;           ///< of rules; those made of parts have none
  uint32_t root = 0;
};

/// Rules `name ::= alternatives`; "literals" and [classes] with the escapes \n \r \t \\ \" \[ \] \xHH \uHHHH
/// \UHHHHHHHH; `.`; groups; `* + ? {n} {n,} {n,m}`; comments from # on. The text begins with `root`. Rules
/// that begin with themselves are refused. `name` is for messages.
Result<Grammar> parse_grammar(std::string_view text, std::string_view name);

/// A grammar (GBNF) of the JSON texts that fit a schema: see docs/program.md. What would be ignored is
/// refused by name. "{}" gives any JSON text.
Result<std::string> grammar_of_json_schema(std::string_view schema, std::string_view name);

/// The texts of a grammar byte by byte. States are numbers, made as they are met. For one thread at a time.
class GrammarMachine {
public:
  explicit GrammarMachine(std::shared_ptr<const Grammar> grammar);
  using State = int32_t;
  static constexpr State nowhere = -1;
  State start() const { return 0; }
  /// `nowhere` where no text goes on so. Throws Error for a grammar that is too ambiguous to follow.
  State next(State state, uint8_t byte);
  State next(State state, std::string_view bytes);
  bool may_end(State state) const { return states_[size_t(state)].ends; }
  /// Forgets all states but this one, which gets another number, where there are many: for long texts.
  void tidy(State& state);
  /// Whether anything may follow but the end.
  bool may_go_on(State state) const { return !states_[size_t(state)].places.empty(); }

private:
  /// Where in an alternative a text is, and where it goes on behind that one.
  struct Place {
    uint32_t element;
    int32_t behind; // number of a place; -1: the text ends
    auto operator<=>(const Place&) const = default;
  };
  struct Known {
    std::vector<int32_t> places; // sorted; each at a set of bytes
    bool ends = false;
    std::array<State, 256> next;
  };
  int32_t place(Place place);
  State state(std::vector<int32_t> begun);
  State known(std::vector<int32_t> places, bool ends);
  std::shared_ptr<const Grammar> grammar_;
  std::vector<Place> places_;
  std::map<Place, int32_t> numbers_;
  std::vector<Known> states_;
  std::map<std::pair<std::vector<int32_t>, bool>, State> numbers_of_states_;
};

} // namespace luminal
