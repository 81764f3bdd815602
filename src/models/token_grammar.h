// models/token_grammar.h -- tokens that a grammar lets follow.
#pragma once
#include "formats/grammar.h"
#include "formats/tokenizer.h"
#include "models/sampler.h"

namespace luminal::models {

/// A text in a grammar, token by token. For one thread at a time.
class TokenGrammar {
public:
  /// `ends`: tokens that end a text, besides those of the tokenizer.
  TokenGrammar(std::shared_ptr<const Grammar> grammar, Tokenizer tokenizer, std::vector<int32_t> ends = {});
  /// Ends may follow where the text is whole; tokens that carry no text may never.
  bool allows(int32_t token);
  /// Throws Error for a token that is not allowed.
  void push(int32_t token);
  /// Nothing but the end may follow.
  bool done() const { return machine_.may_end(state_) && !machine_.may_go_on(state_); }

private:
  bool is_end(int32_t token) const;
  const std::string& bytes_of(int32_t token);
  GrammarMachine machine_;
  GrammarMachine::State state_;
  Tokenizer tokenizer_;
  std::vector<int32_t> ends_;
  std::vector<std::string> bytes_; // by token, as they are asked for
  std::vector<bool> known_;
};

/// The next token, one that the grammar allows (nullptr: any), which takes it.
int32_t sample(Sampler& sampler, std::span<const float> logits, std::span<const int32_t> recent,
               TokenGrammar* grammar);

/// From the text of a grammar, or of a JSON schema: one of them is not empty. Throws Error for what cannot be
/// read.
std::shared_ptr<const Grammar> read_grammar(std::string_view grammar, std::string_view schema);

} // namespace luminal::models
