// cli/serve_answer.cpp -- answers, whole and as events of a stream.
#include "cli/serve_api.h"
#include "cli/serve_tools.h"
#include <algorithm>
#include <utility>

namespace luminal::cli {
namespace {

const char* reason_of(models::StopReason reason) {
  switch (reason) {
  case models::StopReason::end_of_text:
  case models::StopReason::stop_string: return "stop";
  default: return "length";
  }
}

/// The prompt of several choices counts once for each, as each of them reads it.
Json usage_of(const ApiRequest& r) {
  int64_t prompt = 0, generated = 0, reused = 0;
  for (const ApiChoice& choice : r.choices) {
    prompt += choice.generation->prompt_tokens;
    generated += choice.generation->generated;
    reused += choice.generation->reused;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", reused}}}};
}

/// As llama.cpp's server has them, in milliseconds. The prompt's begin with its place in the batch.
Json timings_of(const Generation& g) {
  Json timings = {{"cache_n", g.reused}};
  const auto part = [&](const std::string& name, int64_t count, double seconds) {
    timings[name + "_n"] = count;
    timings[name + "_ms"] = 1000 * seconds;
    timings[name + "_per_token_ms"] = count > 0 ? 1000 * seconds / double(count) : 0;
    timings[name + "_per_second"] = seconds > 0 ? double(count) / seconds : 0;
  };
  part("prompt", g.prompt_tokens - g.reused, g.times.first_token);
  part("predicted", g.generated, g.times.generation);
  if (g.proposed > 0) {
    timings["draft_n"] = g.proposed;
    timings["draft_n_accepted"] = g.accepted;
  }
  return timings;
}

Json head_of(const ApiRequest& r, const char* object) {
  return {{"id", r.id}, {"object", object}, {"created", r.created}, {"model", r.model}};
}

/// The text of a token as a client sees it: of a control token its name.
std::string shown_token(const Tokenizer& tokenizer, int32_t token) {
  if (token >= tokenizer.size()) return ""; // a row that only pads the model's table
  const std::string bytes = tokenizer.token_bytes(token);
  return bytes.empty() ? tokenizer.token_text(token) : bytes;
}

Json chat_logprob(const Tokenizer& tokenizer, int32_t token, double logprob) {
  const std::string text = shown_token(tokenizer, token);
  return {{"token", text}, {"logprob", logprob}, {"bytes", std::vector<uint8_t>(text.begin(), text.end())}};
}

int64_t characters_of(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

Json logprobs_of(const ApiRequest& r, ApiChoice& choice, const std::vector<models::TokenLogprobs>& tokens,
                 const Tokenizer& tokenizer) {
  if (choice.generation->wanted.likeliest < 0) return nullptr;
  if (r.chat) {
    Json content = Json::array();
    for (const auto& token : tokens) {
      Json row = chat_logprob(tokenizer, token.token, token.logprob);
      row["top_logprobs"] = Json::array();
      for (const auto& [other, logprob] : token.likeliest)
        row["top_logprobs"].push_back(chat_logprob(tokenizer, other, logprob));
      content.push_back(std::move(row));
    }
    return {{"content", content}, {"refusal", nullptr}};
  }
  Json texts = Json::array(), own = Json::array(), likeliest = Json::array(), offsets = Json::array();
  for (const auto& token : tokens) {
    const std::string text = shown_token(tokenizer, token.token);
    texts.push_back(text);
    own.push_back(token.logprob);
    Json row = Json::object();
    for (const auto& [other, logprob] : token.likeliest) row[shown_token(tokenizer, other)] = logprob;
    likeliest.push_back(std::move(row));
    offsets.push_back(choice.characters);
    choice.characters += characters_of(text);
  }
  return {{"tokens", texts}, {"token_logprobs", own}, {"top_logprobs", likeliest}, {"text_offset", offsets}};
}

} // namespace

Json whole_answer(ApiRequest& r, const std::vector<Generation::Piece>& pieces, const ApiModel& model) {
  Json answer = head_of(r, r.chat ? "chat.completion" : "text_completion");
  answer["choices"] = Json::array();
  for (size_t i = 0; i < r.choices.size(); i++) {
    Json choice{{"index", i}, {"finish_reason", reason_of(r.choices[i].generation->reason)}};
    if (r.chat) {
      Json& message = choice["message"] = {{"role", "assistant"}, {"content", pieces[i].text}};
      if (const Json calls = r.tools ? tool_calls(pieces[i].text) : Json(); !calls.empty()) {
        message["content"] = nullptr;
        message["tool_calls"] = calls;
        choice["finish_reason"] = "tool_calls";
      }
    } else {
      choice["text"] = pieces[i].text;
    }
    choice["logprobs"] = logprobs_of(r, r.choices[i], pieces[i].tokens, *model.file->tokenizer);
    answer["choices"].push_back(std::move(choice));
  }
  answer["usage"] = usage_of(r);
  answer["timings"] = timings_of(*r.choices[0].generation);
  return answer;
}

Json stream_event(ApiRequest& r, size_t index, const Generation::Piece& piece, const ApiModel& model) {
  Json event = head_of(r, r.chat ? "chat.completion.chunk" : "text_completion");
  ApiChoice& own = r.choices[index];
  Json choice{{"index", index}, {"finish_reason", nullptr}};
  if (r.chat) {
    Json delta = Json::object();
    if (!std::exchange(own.begun, true)) delta["role"] = "assistant";
    Json calls = r.tools ? tool_calls(piece.text) : Json();
    if (calls.empty()) {
      delta["content"] = piece.text;
    } else {
      for (size_t i = 0; i < calls.size(); i++) calls[i]["index"] = i;
      delta["tool_calls"] = std::move(calls);
    }
    choice["delta"] = delta;
  } else {
    own.begun = true;
    choice["text"] = piece.text;
  }
  choice["logprobs"] = logprobs_of(r, own, piece.tokens, *model.file->tokenizer);
  event["choices"] = Json::array({choice});
  if (r.include_usage) event["usage"] = nullptr;
  return event;
}

Json end_event(ApiRequest& r, size_t index, bool called_tools) {
  Json event = head_of(r, r.chat ? "chat.completion.chunk" : "text_completion");
  const Generation& g = *r.choices[index].generation;
  Json choice{{"index", index}, {"logprobs", nullptr}};
  choice["finish_reason"] = called_tools ? "tool_calls" : reason_of(g.reason);
  if (r.chat)
    choice["delta"] = Json::object();
  else
    choice["text"] = "";
  event["choices"] = Json::array({choice});
  event["timings"] = timings_of(g);
  if (r.include_usage) event["usage"] = nullptr;
  return event;
}

Json usage_event(const ApiRequest& r) {
  Json event = head_of(r, r.chat ? "chat.completion.chunk" : "text_completion");
  event["choices"] = Json::array();
  event["usage"] = usage_of(r);
  return event;
}

} // namespace luminal::cli
