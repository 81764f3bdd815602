// cli/serve_tools.h -- calls of tools, as models write them and as OpenAI's interface has them.
#pragma once
#include "cli/common.h"
#include <string>

namespace luminal::cli {

/// The calls in a text, a list in OpenAI's form; null where the text is none. Forms: <tool_call>{"name": ..,
/// "arguments": {..}}</tool_call> one after the other (Hermes, Qwen), and {"name": .., "parameters": {..}} or
/// a list of these alone (Llama 3, Mistral).
Json tool_calls(const std::string& text);
/// Arguments of calls in a message of before are texts with JSON in OpenAI's form; templates read objects.
void read_call_arguments(Json& message);

} // namespace luminal::cli
