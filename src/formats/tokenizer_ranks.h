// formats/tokenizer_ranks.h -- a byte-level tokenizer from the bytes of its tokens, by rank.
#pragma once
#include "base/result.h"
#include "formats/tokenizer.h"
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal::detail {

/// Splits text as GPT-2 does. `special`: control tokens with their ids, which lie behind the ranks, in
/// order; the first one ends a text. `name` is for Tokenizer::description.
Result<Tokenizer> tokenizer_from_ranks(const std::vector<std::string>& ranks,
                                       std::span<const std::pair<std::string, int32_t>> special,
                                       std::string_view name, std::string_view file_name);

} // namespace luminal::detail
