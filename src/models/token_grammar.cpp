// models/token_grammar.cpp -- tokens that a grammar lets follow.
#include "models/token_grammar.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::models {

TokenGrammar::TokenGrammar(std::shared_ptr<const Grammar> grammar, Tokenizer tokenizer,
                           std::vector<int32_t> ends)
    : machine_(std::move(grammar)), state_(machine_.start()), tokenizer_(std::move(tokenizer)),
      ends_(std::move(ends)), bytes_(size_t(tokenizer_.size())), known_(bytes_.size(), false) {}

bool TokenGrammar::is_end(int32_t token) const {
  return (token < tokenizer_.size() && tokenizer_.is_eos(token)) ||
         std::ranges::find(ends_, token) != ends_.end();
}

const std::string& TokenGrammar::bytes_of(int32_t token) {
  const auto at = size_t(token);
  if (!known_[at]) bytes_[at] = tokenizer_.token_bytes(token), known_[at] = true;
  return bytes_[at];
}

bool TokenGrammar::allows(int32_t token) {
  if (is_end(token)) return machine_.may_end(state_);
  if (token < 0 || token >= tokenizer_.size()) return false; // a model may have more logits than tokens
  const std::string& bytes = bytes_of(token);
  return !bytes.empty() && machine_.next(state_, bytes) != GrammarMachine::nowhere;
}

void TokenGrammar::push(int32_t token) {
  if (!allows(token)) throw Error(fmt::format("token {} does not fit the grammar", token));
  if (is_end(token)) return;
  state_ = machine_.next(state_, bytes_of(token));
  machine_.tidy(state_);
}

int32_t sample(Sampler& sampler, std::span<const float> logits, std::span<const int32_t> recent,
               TokenGrammar* grammar) {
  if (grammar == nullptr) return sampler.sample(logits, recent);
  const int32_t token = sampler.sample(logits, recent, [&](int32_t t) { return grammar->allows(t); });
  grammar->push(token);
  return token;
}

std::shared_ptr<const Grammar> read_grammar(std::string_view grammar, std::string_view schema) {
  std::string text(grammar);
  if (grammar.empty()) text = grammar_of_json_schema(schema, "JSON schema").value();
  return std::make_shared<const Grammar>(parse_grammar(text, "grammar").value());
}

} // namespace luminal::models
