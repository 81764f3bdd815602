// cli/run_image.cpp -- a picture through the vision part of a model.
#include "cli/run_image.h"
#include "base/print.h"
#include "cli/announce.h"
#include "cli/common.h"
#include <chrono>
#include <fmt/format.h>

namespace luminal::cli {

SeenImage see_image(const ModelFile& file, const ImageArguments& a, models::LlamaOptions& options) {
  const auto picture = open_image(a.picture, 3);
  if (!picture) throw Error(picture.error());
  models::Moondream model(file, a.projector);
  model.prepare(options);
  SeenImage seen{model.text(), {}, model.prompt(a.question)};
  if (int64_t(seen.prompt.size()) > options.context)
    throw Error(fmt::format("the picture and the prompt have {} tokens, the context holds {}: raise --ctx or "
                            "shorten the prompt",
                            seen.prompt.size(), options.context));
  announce_memory(file.path, {.weights = model.vision_bytes()}, a.max_memory,
                  a.max_memory.empty() ? "" : "--max-memory allows more");
  {
    Progress progress("compile");
    progress.update(0.1, "the vision part");
    const auto begin = std::chrono::steady_clock::now();
    model.compile(a.threads, a.cache);
    progress.done(
        fmt::format("the vision part in {:.2f} s",
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()));
  }
  const auto begin = std::chrono::steady_clock::now();
  seen.rows = model.rows_of(*picture);
  seen.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  print_stderr("picture {} x {}: {} tokens in {:.2f} s\n", picture->width, picture->height, model.rows(),
               seen.seconds);
  return seen;
}

ModelFile text_part(ModelFile file) {
  if (!models::Moondream::is_one(file)) return file;
  return models::Moondream(file, "").text();
}

} // namespace luminal::cli
