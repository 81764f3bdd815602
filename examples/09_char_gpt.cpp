// examples/09_char_gpt.cpp -- lesson 9: a GPT on the characters of a text, from the models that are
// there already. Training that is stopped and resumed gives the same bits. Give it a text file
// (tinyshakespeare, say) and a folder for the run; without them it learns a rhyme by heart.
#include "luminal/luminal.h"
#include "luminal/train_models.h"
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

using namespace luminal;

int main(int argc, char** argv) {
  std::string text;
  if (argc > 1) {
    std::ifstream file(argv[1]);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const bool real = !text.empty();
  while (!real && text.size() < 2000) text += "the cat sat on the mat and the rat sat on the cat. ";
  const Vocabulary letters = Vocabulary::characters(text);
  const int64_t context = real ? 128 : 24, steps = real ? 2000 : 80;
  const DataSetPtr data = datasets::from_tokens(letters.encode(text), {.context = context, .stride = 1});
  const auto [train, held] = datasets::split(data, 0.98, 1);
  const ModelFunction gpt = train_models::gpt({.vocabulary = letters.size(),
                                               .context = context,
                                               .layers = real ? 4 : 2,
                                               .heads = 4,
                                               .width = real ? 128 : 32,
                                               .dropout = real ? 0.1 : 0.0});
  TrainerOptions options{.folder = argc > 2 ? argv[2] : "",
                         .steps = steps,
                         .batch = 16,
                         .seed = 5,
                         .optimizer =
                             [&](Graph& g) {
                               return adamw(
                                   g, schedules::warm_up(10, schedules::cosine(real ? 1e-3 : 1e-2, steps)),
                                   {.weight_decay = 0.1});
                             },
                         .clip_norm = 1,
                         .validation = datasets::part(held, 0, 32),
                         .progress = real,
                         .save_every = 500};
  Trainer trainer(gpt, train, options);
  const double before = trainer.validate().loss;
  trainer.run();
  const double after = trainer.validate().loss;
  if (real) std::printf("validation loss %.4f before, %.4f after\n", before, after);
  std::printf("the loss is %s\n", after < 0.3 * before ? "less than a third of what it was" : "too large");

  // Twenty steps in one go, and ten and ten with a file between them.
  Trainer whole(gpt, train, options), first(gpt, train, options), second(gpt, train, options);
  for (int i = 0; i < 20; ++i) whole.step();
  for (int i = 0; i < 10; ++i) first.step();
  const std::string file =
      std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") + "/lesson_09.safetensors";
  first.save(file);
  second.resume(file);
  for (int i = 0; i < 10; ++i) second.step();
  std::remove(file.c_str());
  std::printf("resumed: %s\n",
              second.parameter("wte.weight").data<float>() == whole.parameter("wte.weight").data<float>()
                  ? "the same bits"
                  : "other bits");
}
