// examples/10_lora.cpp -- lesson 10: low-rank changes of a Llama. A model is trained and saved under
// the names of Hugging Face's files; then it learns another text through matrices of rank 4 alone,
// while its own weights stay as they are in the file. A real one: luminal train, model kind "llama".
#include "luminal/luminal.h"
#include "luminal/train_models.h"
#include <cstdio>
#include <string>

using namespace luminal;

int main() {
  const auto repeated = [](const std::string& line) {
    std::string text;
    while (text.size() < 1500) text += line;
    return text;
  };
  const std::string first = repeated("one fish two fish red fish blue fish. "),
                    second = repeated("blue bird red bird two bird one bird. ");
  const Vocabulary letters = Vocabulary::characters(first + second);
  const auto data = [&](const std::string& text) {
    return datasets::from_tokens(letters.encode(text), {.context = 24, .stride = 1});
  };
  train_models::LlamaOptions llama{
      .vocabulary = letters.size(), .layers = 2, .heads = 4, .kv_heads = 2, .width = 32, .hidden = 64};
  const std::string file =
      std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/lesson_10.safetensors";
  const auto options = [&](const std::string& weights) {
    return TrainerOptions{.steps = 60,
                          .batch = 16,
                          .seed = 2,
                          .optimizer = [](Graph& g) { return adamw(g, 1e-2, {.weight_decay = 0}); },
                          .clip_norm = 1,
                          .weights = weights};
  };
  Trainer base(train_models::llama(llama), data(first), options(""));
  std::printf("the first text: %s\n", base.run().loss < 0.5 ? "learnt" : "not learnt");
  base.save_model(file);

  llama.lora_rank = 4;
  TrainerOptions lora = options(file);
  lora.validation = datasets::part(data(second), 0, 32);
  Trainer tuned(train_models::llama(llama), data(second), lora);
  int64_t trained = 0;
  for (const std::string& name : tuned.parameter_names()) trained += tuned.parameter(name).element_count();
  const double before = tuned.validate().loss;
  tuned.run();
  const double after = tuned.validate().loss;
  std::remove(file.c_str());
  std::printf("%d numbers are trained, the second text is %s\n", int(trained),
              after < 0.5 * before ? "learnt" : "not learnt");
}
