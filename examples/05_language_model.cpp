// examples/05_language_model.cpp -- lesson 5: a language model: texts and tokens, one step by hand,
// sampling. MODEL is what `luminal run` takes.
#include "luminal/llama.h"
#include <algorithm>
#include <cstdio>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::puts("usage: lesson_05_language_model MODEL [PROMPT]");
    return 0;
  }
  const std::string prompt = argc > 2 ? argv[2] : "Once upon a time";
  try {
    luminal::LanguageModel model(argv[1], {.sampler = {.temperature = 0}});
    std::cout << model.name() << ": " << model.vocabulary() << " tokens, context " << model.context() << "\n";

    // By hand: the logits of what follows, and the likeliest token.
    const auto logits = model.step(model.encode(prompt));
    const auto best = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
    std::cout << "after \"" << prompt << "\" comes \"" << model.decode({&best, 1}) << "\"\n";

    // All at once, piece by piece.
    model.reset();
    std::cout << prompt;
    model.generate(prompt, 40, [](std::string_view piece) {
      std::cout << piece << std::flush;
      return true;
    });
    std::cout << "\n";
  } catch (const luminal::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
