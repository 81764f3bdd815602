// formats/tokenizer_json_stages.h -- the stages of a tokenizer.json, each read on its own.
#pragma once
#include "formats/json.h"
#include "formats/tokenizer_model.h"
#include <string_view>

namespace luminal::detail {

/// Each appends to the model what the JSON says, and refuses by name what is not supported. `json`
/// may be null.
void read_normalizer(const Json* json, std::string_view file, TokenizerModel& model);
void read_pre_tokenizer(const Json* json, std::string_view file, TokenizerModel& model);
void read_decoder(const Json* json, std::string_view file, TokenizerModel& model);
void read_post_processor(const Json* json, std::string_view file, TokenizerModel& model);

/// The tokenizer.json that vocab.json and merges.txt stand for, by the class that
/// tokenizer_config.json names. `file` is that of the vocabulary.
Json tokenizer_of_vocabulary(std::string_view vocab_json, std::string_view merges_txt, std::string_view file,
                             std::string_view tokenizer_config_json);

/// The "type" of a stage.
const std::string& stage_type(const Json& json, std::string_view file, std::string_view what);
/// Refuses members other than "type" and those named.
void expect_members(const Json& json, std::string_view file, std::string_view what,
                    std::initializer_list<std::string_view> names);

} // namespace luminal::detail
