// cli/serve_api.h -- OpenAI's forms of requests and answers, without a word of HTTP.
#pragma once
#include "cli/common.h"
#include "cli/serve_scheduler.h"
#include "models/chat_format.h"

namespace luminal::cli {

/// What a request is answered with instead.
struct ApiError {
  int status = 400;
  std::string message, type = "invalid_request_error", code = {}, parameter = {};
  Json json() const;
};

struct ApiRequest {
  std::shared_ptr<Generation> generation;
  bool stream = false, include_usage = false, chat = false;
  std::string id, model;
  int64_t created = 0;
};

/// What all requests share.
struct ApiModel {
  const ModelFile* file = nullptr;
  const models::ChatFormat* chat = nullptr; ///< nullptr: the model has none
  std::string name;
  int64_t context = 0;
  int64_t most_tokens = 0; ///< of one answer; 0: no limit but the context
};

/// Bodies of /v1/chat/completions and /v1/completions. Throw ApiError.
ApiRequest read_chat(const std::string& body, const ApiModel& model);
ApiRequest read_completion(const std::string& body, const ApiModel& model);
/// The whole answer; `text` of all of it.
Json whole_answer(const ApiRequest& request, const std::string& text);
/// One event of a stream: text, or (`last`) the reason of the end.
Json stream_event(const ApiRequest& request, const std::string& text, bool first, bool last);
/// Behind the last one, where the request asks for it.
Json usage_event(const ApiRequest& request);

/// POST /tokenize {"content", "add_special", "parse_special"} and /detokenize {"tokens"}.
Json tokenized(const std::string& body, const ApiModel& model);
Json detokenized(const std::string& body, const ApiModel& model);

} // namespace luminal::cli
