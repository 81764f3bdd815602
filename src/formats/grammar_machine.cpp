// formats/grammar_machine.cpp -- following a grammar byte by byte: all places where a text may be in it.
#include "formats/grammar.h"
#include <algorithm>
#include <set>

namespace luminal {
namespace {

constexpr size_t most_places = 1024;            // of a state
constexpr size_t most_states = size_t(1) << 17; // a kilobyte each
constexpr size_t many_states = size_t(1) << 12;

} // namespace

GrammarMachine::GrammarMachine(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  std::vector<int32_t> begun;
  for (const uint32_t start : grammar_->rules[grammar_->root]) begun.push_back(place({start, -1}));
  state(std::move(begun));
}

int32_t GrammarMachine::place(Place place) {
  const auto [at, is_new] = numbers_.emplace(place, int32_t(places_.size()));
  if (is_new) places_.push_back(place);
  return at->second;
}

/// The state of a text that may be at these places: rules are entered, ends of rules left.
GrammarMachine::State GrammarMachine::state(std::vector<int32_t> begun) {
  std::set<int32_t> seen(begun.begin(), begun.end());
  std::vector<int32_t> at_bytes;
  bool ends = false;
  const auto reach = [&](Place next) {
    const int32_t number = place(next);
    if (seen.insert(number).second) begun.push_back(number);
  };
  for (size_t i = 0; i < begun.size(); i++) {
    const Place here = places_[size_t(begun[i])];
    const Grammar::Element element = grammar_->elements[here.element];
    switch (element.kind) {
    case Grammar::Kind::bytes: at_bytes.push_back(begun[i]); break;
    case Grammar::Kind::end:
      if (here.behind < 0)
        ends = true;
      else
        reach(places_[size_t(here.behind)]);
      break;
    case Grammar::Kind::rule: {
      // A rule that ends an alternative goes on where that goes on, so repetitions need no room.
      const bool last = grammar_->elements[here.element + 1].kind == Grammar::Kind::end;
      const int32_t behind = last ? here.behind : place({here.element + 1, here.behind});
      for (const uint32_t start : grammar_->rules[element.value]) reach({start, behind});
      break;
    }
    }
    if (begun.size() > most_places * 16 || at_bytes.size() > most_places)
      throw Error("the grammar is too ambiguous: a text may be at thousands of places in it");
  }
  std::ranges::sort(at_bytes);
  return known(std::move(at_bytes), ends);
}

GrammarMachine::State GrammarMachine::known(std::vector<int32_t> places, bool ends) {
  const auto [at, is_new] = numbers_of_states_.emplace(std::pair(places, ends), State(states_.size()));
  if (is_new) {
    if (states_.size() >= most_states)
      throw Error("the grammar has too many states: more than are kept are reached by one token");
    states_.push_back({std::move(places), ends, {}});
    states_.back().next.fill(-2); // not looked at yet
  }
  return at->second;
}

void GrammarMachine::tidy(State& state) {
  if (states_.size() < many_states) return;
  const std::vector<Place> old = std::move(places_);
  const Known here = std::move(states_[size_t(state)]);
  places_.clear(), numbers_.clear(), states_.clear(), numbers_of_states_.clear();
  std::vector<int32_t> kept;
  for (const int32_t number : here.places) {
    std::vector<uint32_t> chain; // from the place to the end of the text
    for (int32_t at = number; at >= 0; at = old[size_t(at)].behind) chain.push_back(old[size_t(at)].element);
    int32_t behind = -1;
    for (size_t i = chain.size(); i-- > 0;) behind = place({chain[i], behind});
    kept.push_back(behind);
  }
  std::ranges::sort(kept);
  state = known(std::move(kept), here.ends);
}

GrammarMachine::State GrammarMachine::next(State from, uint8_t byte) {
  if (from < 0) return nowhere;
  if (const State known = states_[size_t(from)].next[byte]; known != -2) return known;
  std::vector<int32_t> begun;
  for (const int32_t number : states_[size_t(from)].places) {
    const Place here = places_[size_t(number)];
    if (grammar_->sets[grammar_->elements[here.element].value][byte])
      begun.push_back(place({here.element + 1, here.behind}));
  }
  const State to = begun.empty() ? nowhere : state(std::move(begun));
  return states_[size_t(from)].next[byte] = to;
}

GrammarMachine::State GrammarMachine::next(State from, std::string_view bytes) {
  for (const char byte : bytes)
    if ((from = next(from, uint8_t(byte))) < 0) break;
  return from;
}

} // namespace luminal
