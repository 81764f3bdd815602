// cli/embed.cpp -- luminal embed: texts to vectors.
#include "cli/model_verbs.h"
#include "models/embedder.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <memory>
#include <sstream>

namespace luminal::cli {
namespace {

struct EmbedArguments {
  std::string model, file, pooling = "stated";
  std::vector<std::string> texts;
  int threads = 0;
  bool raw = false, similarity = false, json = false;
};

double product(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += double(a[i]) * double(b[i]);
  return sum;
}

int embed(const EmbedArguments& a) {
  std::vector<std::string> texts = a.texts;
  if (!a.file.empty()) {
    std::istringstream lines(read_text(a.file));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) texts.push_back(line);
  }
  if (texts.empty())
    throw UsageError("a text is missing: luminal embed MODEL TEXT, or -f FILE with one a line");
  models::EmbedderOptions options{.normalise = !a.raw, .threads = a.threads};
  if (a.pooling != "stated")
    options.pooling = a.pooling == "mean" ? models::Pooling::mean : models::Pooling::first;
  models::Embedder embedder(a.model, options);
  std::vector<models::Embedder::Result> results;
  for (const std::string& text : texts) results.push_back(embedder.embed(text));
  if (a.json) {
    Json list = Json::array();
    for (size_t i = 0; i < texts.size(); i++)
      list.push_back({{"index", i}, {"tokens", results[i].tokens}, {"embedding", results[i].vector}});
    Json out{{"model", a.model}, {"width", embedder.width()}, {"embeddings", list}};
    if (a.similarity) {
      Json rows = Json::array();
      for (const auto& x : results) {
        Json row = Json::array();
        for (const auto& y : results) row.push_back(product(x.vector, y.vector));
        rows.push_back(row);
      }
      out["similarity"] = rows;
    }
    std::cout << out.dump(-1) << std::endl;
  } else if (a.similarity) {
    for (const auto& x : results) {
      std::string row;
      for (const auto& y : results) row += fmt::format("{:8.4f}", product(x.vector, y.vector));
      std::cout << row << '\n';
    }
  } else {
    for (const auto& result : results) std::cout << fmt::format("{:.7g}\n", fmt::join(result.vector, " "));
  }
  std::cout.flush();
  return std::cout ? ok : failed;
}

} // namespace

void add_embed(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<EmbedArguments>();
  auto* verb = app.add_subcommand("embed", "Vectors of texts, by a model of the BERT family");
  verb->footer("A line for each text: its numbers. Vectors have the length 1, so products are cosines.");
  verb->add_option("model", a->model, "A Hugging Face folder: BERT, MiniLM, BGE, E5")->required();
  verb->add_option("text", a->texts, "One text or several");
  verb->add_option("-f,--file", a->file, "A file with a text a line (-: standard input)");
  verb->add_option("--pooling", a->pooling, "mean of the tokens, first token, or stated: as the folder says")
      ->check(one_of({"stated", "mean", "first"}))
      ->capture_default_str();
  verb->add_flag("--raw", a->raw, "Vectors as they are, not of length 1");
  verb->add_flag("--similarity", a->similarity, "Products of each two vectors, in place of the vectors");
  verb->add_option("-t,--threads", a->threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb->add_flag("--json", a->json, "The result as JSON on standard output");
  verb->callback([a, &exit_code] { exit_code = embed(*a); });
}

} // namespace luminal::cli
