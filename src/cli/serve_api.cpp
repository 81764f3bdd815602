// cli/serve_api.cpp -- requests and answers. Fields: https://platform.openai.com/docs/api-reference.
#include "cli/serve_api.h"
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <random>

namespace luminal::cli {
namespace {

[[noreturn]] void refuse(const std::string& parameter, const std::string& message) {
  throw ApiError{.message = message, .parameter = parameter};
}

Json parsed(const std::string& body) {
  // Deep nesting would go through the stack: nothing that a client means is that deep.
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < body.size(); i++) {
    const char c = body[i];
    if (quoted) {
      if (c == '\\') i++;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > 64) refuse("", "the body is nested too deep");
    } else if (c == '}' || c == ']') {
      depth--;
    }
  }
  Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded()) refuse("", "the body is not JSON");
  if (!json.is_object()) refuse("", "the body is not a JSON object");
  return json;
}

const Json* find(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at == json.end() || at->is_null() ? nullptr : &*at;
}
double number(const Json& json, const char* name, double otherwise, double low, double high) {
  const Json* value = find(json, name);
  if (!value) return otherwise;
  if (!value->is_number()) refuse(name, fmt::format("{} is not a number", name));
  const auto n = value->get<double>();
  if (!(n >= low && n <= high)) refuse(name, fmt::format("{} is {}, expected {} to {}", name, n, low, high));
  return n;
}
int64_t integer(const Json& json, const char* name, int64_t otherwise, int64_t low, int64_t high) {
  const Json* value = find(json, name);
  if (!value) return otherwise;
  if (!value->is_number_integer()) refuse(name, fmt::format("{} is not an integer", name));
  const double n = value->get<double>();
  if (n < double(low) || n > double(high))
    refuse(name, fmt::format("{} is {}, expected {} to {}", name, value->dump(), low, high));
  return value->get<int64_t>();
}
bool boolean(const Json& json, const char* name, bool otherwise) {
  const Json* value = find(json, name);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(name, fmt::format("{} is not true or false", name));
  return value->get<bool>();
}

/// What changes an answer and is not there must not be passed over in silence.
void refuse_what_is_missing(const Json& json) {
  if (integer(json, "n", 1, 1, 1 << 20) != 1) refuse("n", "n: one answer for a request is what can be given");
  for (const char* name : {"logprobs", "top_logprobs", "logit_bias", "best_of", "suffix", "echo", "audio"})
    if (const Json* value = find(json, name); value && *value != false && *value != 0 && !value->empty())
      refuse(name, fmt::format("{} is not supported", name));
  if (const Json* choice = find(json, "tool_choice"); choice && *choice != "auto" && *choice != "none")
    refuse("tool_choice", "tool_choice: auto and none are supported");
}

/// response_format: {"type": "json_object"} or "json_schema"; grammar: GBNF, json_schema: a schema, as
/// llama.cpp's server has them.
std::shared_ptr<const Grammar> read_format(const Json& json) {
  std::string grammar, schema, from;
  const auto take = [&](const char* name, std::string& into, std::string text) {
    if (!from.empty()) refuse(name, fmt::format("{} and {} both say what the text is like", from, name));
    from = name, into = std::move(text);
  };
  if (const Json* format = find(json, "response_format")) {
    const Json* type = format->is_object() ? find(*format, "type") : nullptr;
    if (!type || !type->is_string()) refuse("response_format", "response_format has no type");
    if (*type == "json_object") {
      const Json* own = find(*format, "schema");
      take("response_format", schema, own ? own->dump() : R"({"type":"object"})");
    } else if (*type == "json_schema") {
      const Json* outer = find(*format, "json_schema");
      const Json* own = outer && outer->is_object() ? find(*outer, "schema") : nullptr;
      if (!own) own = find(*format, "schema");
      if (!own) refuse("response_format", "response_format json_schema has no schema");
      take("response_format", schema, own->dump());
    } else if (*type != "text") {
      refuse("response_format", fmt::format("response_format {} is not supported", type->dump()));
    }
  }
  if (const Json* text = find(json, "grammar")) {
    if (!text->is_string()) refuse("grammar", "grammar is not a text");
    if (!text->get<std::string>().empty()) take("grammar", grammar, text->get<std::string>());
  }
  if (const Json* own = find(json, "json_schema")) take("json_schema", schema, own->dump());
  if (from.empty()) return nullptr;
  try {
    return models::read_grammar(grammar, schema);
  } catch (const Error& error) {
    refuse(from, error.what());
  }
}

Generation::Wanted read_sampling(const Json& json, const ApiModel& model, bool chat) {
  refuse_what_is_missing(json);
  Generation::Wanted wanted;
  const int64_t limit = model.most_tokens > 0 ? model.most_tokens : -1;
  // OpenAI's completions end after 16 tokens unless told otherwise; chats go on.
  wanted.most = integer(json, "max_tokens", chat ? limit : 16, 1, int64_t(1) << 40);
  wanted.most = integer(json, "max_completion_tokens", wanted.most, 1, int64_t(1) << 40);
  if (limit > 0) wanted.most = wanted.most < 0 ? limit : std::min(wanted.most, limit);
  SamplerOptions& s = wanted.sampling;
  s.temperature = number(json, "temperature", s.temperature, 0, 100);
  s.top_p = number(json, "top_p", s.top_p, 0, 1);
  s.min_p = number(json, "min_p", s.min_p, 0, 1);
  s.top_k = int(integer(json, "top_k", s.top_k, 0, 1 << 30));
  s.frequency_penalty = number(json, "frequency_penalty", 0, -100, 100);
  s.presence_penalty = number(json, "presence_penalty", 0, -100, 100);
  s.repeat_penalty = number(json, "repeat_penalty", 1, 0.001, 1000);
  s.seed = find(json, "seed") ? uint64_t(integer(json, "seed", 0, INT64_MIN / 2, INT64_MAX / 2))
                              : std::random_device{}();
  wanted.ignore_end = boolean(json, "ignore_eos", false);
  wanted.grammar = read_format(json);
  if (const Json* stop = find(json, "stop")) {
    const Json list = stop->is_array() ? *stop : Json::array({*stop});
    if (list.size() > 16) refuse("stop", fmt::format("{} stop texts, at most 16 are supported", list.size()));
    for (const Json& text : list) {
      if (!text.is_string()) refuse("stop", "stop is not a text or a list of texts");
      if (!text.get<std::string>().empty()) wanted.stops.push_back(text.get<std::string>());
    }
  }
  return wanted;
}

ApiRequest finished(const Json& json, Generation::Wanted wanted, const ApiModel& model, bool chat) {
  const auto count = int64_t(wanted.prompt.size());
  if (count >= model.context)
    throw ApiError{.message = fmt::format("the prompt has {} tokens, the context of the model holds {}",
                                          count, model.context),
                   .code = "context_length_exceeded",
                   .parameter = chat ? "messages" : "prompt"};
  ApiRequest request;
  request.stream = boolean(json, "stream", false);
  if (const Json* options = find(json, "stream_options"); options && options->is_object())
    request.include_usage = boolean(*options, "include_usage", false);
  request.chat = chat;
  static std::random_device device;
  request.id = fmt::format("{}-{:08x}{:08x}", chat ? "chatcmpl" : "cmpl", device(), device());
  request.model = model.name;
  request.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  request.generation = std::make_shared<Generation>(std::move(wanted));
  return request;
}

/// A list of text parts is their text.
Json with_plain_content(Json message) {
  if (!message.is_object()) refuse("messages", "a message is not an object");
  const Json* role = find(message, "role");
  if (!role || !role->is_string()) refuse("messages", "a message has no role");
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    message["content"] = "";
    return message;
  }
  if (content->is_string()) return message;
  if (!content->is_array())
    refuse("messages", "the content of a message is neither a text nor a list of parts");
  std::string text;
  for (const Json& part : *content) {
    const Json* type = part.is_object() ? find(part, "type") : nullptr;
    const Json* words = part.is_object() ? find(part, "text") : nullptr;
    if (!type || *type != "text" || !words || !words->is_string())
      refuse("messages", fmt::format("a part of a message of type {} is not supported: text is",
                                     type ? type->dump() : "none"));
    text += words->get<std::string>();
  }
  message["content"] = text;
  return message;
}

jinja::Value as_value(const Json& json, const char* name) {
  auto value = template_value(json.dump(-1, ' ', false, Json::error_handler_t::replace), name);
  if (!value) refuse(name, value.error());
  return *value;
}

const char* reason_of(models::StopReason reason) {
  switch (reason) {
  case models::StopReason::end_of_text:
  case models::StopReason::stop_string: return "stop";
  default: return "length";
  }
}

Json usage_of(const Generation& g) {
  return {{"prompt_tokens", g.prompt_tokens},
          {"completion_tokens", g.generated},
          {"total_tokens", g.prompt_tokens + g.generated},
          {"prompt_tokens_details", {{"cached_tokens", g.reused}}}};
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

} // namespace

Json ApiError::json() const {
  const auto text = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  return {
      {"error", {{"message", message}, {"type", type}, {"param", text(parameter)}, {"code", text(code)}}}};
}

ApiRequest read_chat(const std::string& body, const ApiModel& model) {
  const Json json = parsed(body);
  if (!model.chat)
    throw ApiError{.message =
                       "the model has no chat template: /v1/completions takes a prompt, and the server "
                       "--chat-template"};
  const Json* messages = find(json, "messages");
  if (!messages || !messages->is_array() || messages->empty())
    refuse("messages", "messages is not a list of messages");
  Json plain = Json::array();
  for (const Json& message : *messages) plain.push_back(with_plain_content(message));
  jinja::Dict more;
  if (const Json* tools = find(json, "tools")) {
    if (!tools->is_array()) refuse("tools", "tools is not a list");
    if (!tools->empty() && (!find(json, "tool_choice") || json["tool_choice"] != "none"))
      more.emplace_back("tools", as_value(*tools, "tools"));
  }
  if (const Json* variables = find(json, "chat_template_kwargs")) {
    if (!variables->is_object()) refuse("chat_template_kwargs", "chat_template_kwargs is not an object");
    for (const auto& [name, value] : variables->items())
      more.emplace_back(name, as_value(value, "chat_template_kwargs"));
  }
  Generation::Wanted wanted = read_sampling(json, model, true);
  try {
    wanted.prompt = model.chat->tokens(as_value(plain, "messages"), true, more);
  } catch (const Error& error) { // of the template, or text that no token stands for
    refuse("messages", error.what());
  }
  return finished(json, std::move(wanted), model, true);
}

ApiRequest read_completion(const std::string& body, const ApiModel& model) {
  const Json json = parsed(body);
  const Json* prompt = find(json, "prompt");
  if (!prompt) refuse("prompt", "prompt is missing");
  Generation::Wanted wanted = read_sampling(json, model, false);
  const Tokenizer& tokenizer = *model.file->tokenizer;
  const Json& given =
      prompt->is_array() && prompt->size() == 1 && (*prompt)[0].is_string() ? (*prompt)[0] : *prompt;
  if (given.is_string()) {
    try {
      wanted.prompt =
          tokenizer.encode(given.get<std::string>(), {.add_special = true, .parse_special = true});
    } catch (const Error& error) {
      refuse("prompt", error.what());
    }
  } else if (given.is_array()) {
    for (const Json& id : given) {
      if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= double(tokenizer.size()))
        refuse("prompt", "prompt is neither one text nor a list of token ids");
      wanted.prompt.push_back(id.get<int32_t>());
    }
  } else {
    refuse("prompt", "prompt is neither one text nor a list of token ids");
  }
  if (wanted.prompt.empty() && tokenizer.bos()) wanted.prompt.push_back(*tokenizer.bos());
  if (wanted.prompt.empty())
    refuse("prompt", "the prompt is empty, and the model names no token to begin with");
  return finished(json, std::move(wanted), model, false);
}

Json whole_answer(const ApiRequest& r, const std::string& text) {
  Json answer = head_of(r, r.chat ? "chat.completion" : "text_completion");
  Json choice{{"index", 0}};
  if (r.chat)
    choice["message"] = {{"role", "assistant"}, {"content", text}};
  else
    choice["text"] = text;
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = reason_of(r.generation->reason);
  answer["choices"] = Json::array({choice});
  answer["usage"] = usage_of(*r.generation);
  answer["timings"] = timings_of(*r.generation);
  return answer;
}

Json stream_event(const ApiRequest& r, const std::string& text, bool first, bool last) {
  Json event = head_of(r, r.chat ? "chat.completion.chunk" : "text_completion");
  Json choice{{"index", 0}};
  if (r.chat) {
    Json delta = Json::object();
    if (first) delta["role"] = "assistant";
    if (!last) delta["content"] = text;
    choice["delta"] = delta;
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = last ? Json(reason_of(r.generation->reason)) : Json(nullptr);
  event["choices"] = Json::array({choice});
  if (last) event["timings"] = timings_of(*r.generation);
  return event;
}

Json usage_event(const ApiRequest& r) {
  Json event = head_of(r, r.chat ? "chat.completion.chunk" : "text_completion");
  event["choices"] = Json::array();
  event["usage"] = usage_of(*r.generation);
  return event;
}

Json tokenized(const std::string& body, const ApiModel& model) {
  const Json json = parsed(body);
  const Json* content = find(json, "content");
  if (!content || !content->is_string()) refuse("content", "content is not a text");
  try {
    return {
        {"tokens", model.file->tokenizer->encode(content->get<std::string>(),
                                                 {.add_special = boolean(json, "add_special", false),
                                                  .parse_special = boolean(json, "parse_special", true)})}};
  } catch (const Error& error) {
    refuse("content", error.what());
  }
}

Json detokenized(const std::string& body, const ApiModel& model) {
  const Json json = parsed(body);
  const Json* tokens = find(json, "tokens");
  if (!tokens || !tokens->is_array()) refuse("tokens", "tokens is not a list of token ids");
  std::vector<int32_t> ids;
  for (const Json& id : *tokens) {
    if (!id.is_number_integer() || id.get<double>() < 0 ||
        id.get<double>() >= double(model.file->tokenizer->size()))
      refuse("tokens", "tokens is not a list of token ids");
    ids.push_back(id.get<int32_t>());
  }
  return {{"content", model.file->tokenizer->decode(ids)}};
}

} // namespace luminal::cli
