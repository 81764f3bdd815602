// fuzz/formats_chat_template_fuzz.cpp -- chat templates: what can be read is rendered twice, to equal texts.
#include "formats/chat_template.h"
#include "luminal/error.h"
#include <cstdlib>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = ChatTemplate::parse(text, "f");
  if (!parsed) return 0;
  const auto variables = [] {
    return *template_value(R"({"messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
        "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "tools": null, "n": 3})",
                           "v")
                .value()
                .dict();
  };
  const auto render = [&]() -> std::string {
    try {
      return parsed->render(variables());
    } catch (const Error& error) {
      return error.what();
    }
  };
  if (render() != render()) std::abort();
  return 0;
}
