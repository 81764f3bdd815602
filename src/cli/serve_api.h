// cli/serve_api.h -- OpenAI's forms of requests and answers, without a word of HTTP.
#pragma once
#include "cli/serve_json.h"
#include "cli/serve_scheduler.h"
#include "models/chat_format.h"

namespace luminal::cli {

class PictureService;

/// One of the texts that a request asks for, and what was said of it so far.
struct ApiChoice {
  std::shared_ptr<Generation> generation;
  bool begun = false;     ///< an event of the stream has told who speaks
  int64_t characters = 0; ///< of the tokens whose logarithms were given
};
struct ApiRequest {
  std::vector<ApiChoice> choices; ///< by their index
  bool stream = false, include_usage = false, chat = false;
  bool tools = false; ///< the text may be calls of them
  std::string id, model;
  int64_t created = 0;
};

/// What all requests share.
struct ApiModel {
  const ModelFile* file = nullptr;
  const models::ChatFormat* chat = nullptr; ///< nullptr: the model has none
  PictureService* pictures = nullptr;       ///< nullptr: the model sees none
  std::string name;
  int64_t context = 0;
  int64_t most_tokens = 0; ///< of one answer; 0: no limit but the context
  int64_t most_texts = 1;  ///< of one request
};

/// Bodies of /v1/chat/completions and /v1/completions. Throw ApiError.
ApiRequest read_chat(const std::string& body, const ApiModel& model);
ApiRequest read_completion(const std::string& body, const ApiModel& model);

/// The whole answer; the pieces of each choice, joined.
Json whole_answer(ApiRequest& request, const std::vector<Generation::Piece>& pieces, const ApiModel& model);
/// An event of a stream with a piece of one choice.
Json stream_event(ApiRequest& request, size_t choice, const Generation::Piece& piece, const ApiModel& model);
/// The last event of a choice: the reason of its end.
Json end_event(ApiRequest& request, size_t choice, bool called_tools);
/// Behind the last one, where the request asks for it.
Json usage_event(const ApiRequest& request);

/// POST /tokenize {"content", "add_special", "parse_special"} and /detokenize {"tokens"}.
Json tokenized(const std::string& body, const ApiModel& model);
Json detokenized(const std::string& body, const ApiModel& model);

} // namespace luminal::cli
