// cli/serve_api.cpp -- requests. Fields: https://platform.openai.com/docs/api-reference.
#include "cli/serve_api.h"
#include "base/text.h"
#include "cli/serve_pictures.h"
#include "cli/serve_tools.h"
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <random>

namespace luminal::cli {
namespace {

// Fields that both kinds of requests have.
constexpr std::string_view common_fields =
    "model max_tokens max_completion_tokens temperature top_p top_k min_p frequency_penalty presence_penalty "
    "repeat_penalty seed ignore_eos response_format grammar json_schema stop stream stream_options n "
    "logit_bias logprobs";
constexpr std::string_view chat_fields =
    "messages top_logprobs tools tool_choice parallel_tool_calls chat_template_kwargs";
// What a server keeps, sorts or bills by: it changes no text.
constexpr std::string_view fields_without_effect =
    "user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention";
// What changes an answer and is not there must not be passed over in silence, unless it asks for nothing.
constexpr std::string_view fields_not_supported =
    "best_of suffix echo audio modalities prediction functions function_call web_search_options "
    "reasoning_effort verbosity";

void refuse_what_is_missing(const Json& json) {
  for (const std::string_view field : split(fields_not_supported, ' ')) {
    const std::string name(field);
    const Json* value = find(json, name.c_str());
    if (value == nullptr || *value == false || *value == 0) continue;
    if (value->is_string() && value->get_ref<const std::string&>().empty()) continue;
    if (value->is_structured() && value->empty()) continue;
    if ((name == "best_of" && *value == 1) || (name == "modalities" && *value == Json::array({"text"})))
      continue;
    refuse(name, fmt::format("{} is not supported", name));
  }
  if (const Json* name = find(json, "model"); name && !name->is_string())
    refuse("model", "model is not a text");
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

std::map<int32_t, double> read_bias(const Json& json, const ApiModel& model) {
  std::map<int32_t, double> result;
  const Json* bias = find(json, "logit_bias");
  if (bias == nullptr) return result;
  const auto wrong = [] {
    refuse("logit_bias", "logit_bias is not an object of token ids with numbers from -100 to 100");
  };
  if (!bias->is_object()) wrong();
  for (const auto& [name, value] : bias->items()) {
    int32_t token = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc() || end != name.data() + name.size() || token < 0 || !value.is_number() ||
        !(std::abs(value.get<double>()) <= 100))
      wrong();
    if (token >= model.file->tokenizer->size())
      refuse("logit_bias", fmt::format("logit_bias names the token {}, there are {}", token,
                                       model.file->tokenizer->size()));
    result[token] = value.get<double>();
  }
  return result;
}

/// How many tokens are named with each of the text: -1 where their logarithms are not wanted.
int64_t read_logprobs(const Json& json, bool chat) {
  if (!chat) {
    const Json* count = find(json, "logprobs");
    return count && *count == false ? -1 : integer(json, "logprobs", -1, 0, 20);
  }
  const int64_t likeliest = integer(json, "top_logprobs", 0, 0, 20);
  if (boolean(json, "logprobs", false)) return likeliest;
  if (likeliest > 0) refuse("top_logprobs", "top_logprobs asks for logprobs: true");
  return -1;
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
  s.logit_bias = read_bias(json, model);
  s.seed = find(json, "seed") ? uint64_t(integer(json, "seed", 0, INT64_MIN / 2, INT64_MAX / 2))
                              : std::random_device{}();
  wanted.ignore_end = boolean(json, "ignore_eos", false);
  wanted.grammar = read_format(json);
  wanted.likeliest = read_logprobs(json, chat);
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

/// `n` choices for each prompt, those of the first one first.
ApiRequest finished(const Json& json, const Generation::Wanted& wanted,
                    const std::vector<std::vector<int32_t>>& prompts, const ApiModel& model, bool chat) {
  ApiRequest request;
  request.stream = boolean(json, "stream", false);
  if (const Json* options = find(json, "stream_options")) {
    if (!options->is_object()) refuse("stream_options", "stream_options is not an object");
    request.include_usage = boolean(*options, "include_usage", false);
  }
  const int64_t n = integer(json, "n", 1, 1, 128), texts = n * int64_t(prompts.size());
  if (texts > model.most_texts)
    refuse("n", fmt::format("{} texts in one request, the server takes {} at most", texts, model.most_texts));
  const auto bell = std::make_shared<Generation::Bell>();
  for (const auto& prompt : prompts) {
    if (int64_t(prompt.size()) >= model.context)
      throw ApiError{.message = fmt::format("the prompt has {} tokens, the context of the model holds {}",
                                            prompt.size(), model.context),
                     .code = "context_length_exceeded",
                     .parameter = chat ? "messages" : "prompt"};
    for (int64_t i = 0; i < n; i++) {
      Generation::Wanted one = wanted;
      one.prompt = prompt;
      one.sampling.seed += uint64_t(request.choices.size());
      request.choices.push_back({std::make_shared<Generation>(std::move(one), bell)});
    }
  }
  request.chat = chat;
  static std::random_device device;
  request.id = fmt::format("{}-{:08x}{:08x}", chat ? "chatcmpl" : "cmpl", device(), device());
  request.model = model.name;
  request.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  return request;
}

/// A list of text parts is their text; the developer of OpenAI's models is the system of others.
Json with_plain_content(Json message, const ApiModel& model) {
  if (!message.is_object()) refuse("messages", "a message is not an object");
  const Json* role = find(message, "role");
  if (!role || !role->is_string()) refuse("messages", "a message has no role");
  if (*role == "developer" && !model.chat->reads("developer")) message["role"] = "system";
  read_call_arguments(message);
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
    if (type && *type == "image_url")
      refuse("messages", fmt::format("a part of a message is a picture, and {} takes none", model.name));
    if (!type || *type != "text" || !words || !words->is_string())
      refuse("messages", fmt::format("a part of a message of type {} is not supported: text is",
                                     type ? type->dump() : "none"));
    text += words->get<std::string>();
  }
  message["content"] = text;
  return message;
}

jinja::Value as_value(const Json& json, const char* name) {
  auto value = template_value(json_text(json, -1), name);
  if (!value) refuse(name, value.error());
  return *value;
}

/// The variables of the template beside the messages.
jinja::Dict read_variables(const Json& json, const ApiModel& model, bool& tools_are_there) {
  jinja::Dict more;
  const Json* choice = find(json, "tool_choice");
  if (choice && *choice != "auto" && *choice != "none")
    refuse("tool_choice", "tool_choice: auto and none are supported");
  if (const Json* tools = find(json, "tools")) {
    if (!tools->is_array()) refuse("tools", "tools is not a list");
    if (!tools->empty() && (!choice || *choice != "none")) {
      if (!model.chat->reads("tools"))
        refuse("tools", "the chat template of the model has no place for tools");
      more.emplace_back("tools", as_value(*tools, "tools"));
      tools_are_there = true;
    }
  }
  if (const Json* variables = find(json, "chat_template_kwargs")) {
    if (!variables->is_object()) refuse("chat_template_kwargs", "chat_template_kwargs is not an object");
    for (const auto& [name, value] : variables->items())
      more.emplace_back(name, as_value(value, "chat_template_kwargs"));
  }
  return more;
}

/// A text, or a list of token ids.
std::vector<int32_t> read_prompt(const Json& given, const ApiModel& model) {
  const auto wrong = [] {
    refuse("prompt", "prompt is neither a text or a list of token ids nor a list of these");
  };
  const Tokenizer& tokenizer = *model.file->tokenizer;
  std::vector<int32_t> prompt;
  if (given.is_string()) {
    try {
      prompt = tokenizer.encode(given.get<std::string>(), {.add_special = true, .parse_special = true});
    } catch (const Error& error) {
      refuse("prompt", error.what());
    }
  } else if (given.is_array()) {
    for (const Json& id : given) {
      if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= double(tokenizer.size()))
        wrong();
      prompt.push_back(id.get<int32_t>());
    }
  } else {
    wrong();
  }
  if (prompt.empty() && tokenizer.bos()) prompt.push_back(*tokenizer.bos());
  if (prompt.empty()) refuse("prompt", "the prompt is empty, and the model names no token to begin with");
  return prompt;
}

} // namespace

ApiRequest read_chat(const std::string& body, const ApiModel& model) {
  const Json json = parsed(body);
  refuse_unknown(json, {common_fields, chat_fields, fields_without_effect, fields_not_supported});
  if (!model.chat && !model.pictures)
    throw ApiError{.message =
                       "the model has no chat template: /v1/completions takes a prompt, and the server "
                       "--chat-template"};
  const Json* messages = find(json, "messages");
  if (!messages || !messages->is_array() || messages->empty())
    refuse("messages", "messages is not a list of messages");
  Generation::Wanted wanted = read_sampling(json, model, true);
  if (model.pictures) {
    for (const char* name : {"tools", "chat_template_kwargs"})
      if (find(json, name)) refuse(name, fmt::format("{} is not supported: the model has no template", name));
    auto prompt = model.pictures->read(*messages);
    wanted.picture = std::move(prompt.rows);
    return finished(json, wanted, {std::move(prompt.tokens)}, model, true);
  }
  Json plain = Json::array();
  for (const Json& message : *messages) plain.push_back(with_plain_content(message, model));
  bool tools = false;
  const jinja::Dict more = read_variables(json, model, tools);
  std::vector<int32_t> prompt;
  try {
    prompt = model.chat->tokens(as_value(plain, "messages"), true, more);
  } catch (const Error& error) { // of the template, or text that no token stands for
    refuse("messages", error.what());
  }
  if (prompt.empty()) refuse("messages", "the chat template makes an empty prompt of these messages");
  ApiRequest request = finished(json, wanted, {std::move(prompt)}, model, true);
  request.tools = tools;
  return request;
}

ApiRequest read_completion(const std::string& body, const ApiModel& model) {
  const Json json = parsed(body);
  refuse_unknown(json, {common_fields, "prompt", fields_without_effect, fields_not_supported});
  const Json* prompt = find(json, "prompt");
  if (!prompt) refuse("prompt", "prompt is missing");
  const Generation::Wanted wanted = read_sampling(json, model, false);
  const bool several = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (several && int64_t(prompt->size()) > model.most_texts)
    refuse("prompt", fmt::format("{} texts in one request, the server takes {} at most", prompt->size(),
                                 model.most_texts));
  std::vector<std::vector<int32_t>> prompts;
  if (several)
    for (const Json& one : *prompt) prompts.push_back(read_prompt(one, model));
  else
    prompts.push_back(read_prompt(*prompt, model));
  return finished(json, wanted, prompts, model, false);
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
