// cli/classify_verb.cpp -- luminal classify: what is in a picture, by an ONNX model or a folder.
#include "cli/model_verbs.h"
#include "cli/vision_options.h"
#include <fmt/format.h>
#include <iostream>
#include <memory>

namespace luminal::cli {
namespace {

using namespace models;

struct ClassifyArguments : VisionArguments {
  int64_t top = 5;
};

int classify(const ClassifyArguments& a) {
  end_on_interrupt();
  std::vector<Image> images; // a wrong file is told before the model loads
  for (const std::string& path : a.images) images.push_back(open_image(path, 3).value());
  VisionModel model(a.model, size_of(a), a.threads);
  const std::vector<std::string> names = class_names(model, a.labels);
  const PixelOptions pixels =
      pixels_of(a, model.stated_pixels().value_or(pixel_preset(model.channels() == 3 ? "imagenet" : "unit")));
  Json results = Json::array();
  for (size_t i = 0; i < images.size(); i++) {
    model.run(images[i], pixels);
    const Tensor output = model.outputs().at(0).tensor;
    const auto shape = output.extents();
    if (output.element_count() < 2 ||
        std::ranges::count_if(shape, [](int64_t extent) { return extent != 1; }) != 1)
      throw Error(fmt::format("{}: the output {} [{}] has no classes, [1, classes] is expected", a.model,
                              model.outputs()[0].name, fmt::join(shape, ", ")));
    const auto scores = classes_of(output.data<float>(), size_t(a.top));
    if (a.json) {
      Json list = Json::array();
      for (const ClassScore& s : scores)
        list.push_back({{"class", s.index}, {"label", class_text(names, s.index)}, {"score", s.score}});
      results.push_back({{"image", a.images[i]}, {"classes", list}});
      continue;
    }
    if (images.size() > 1) fmt::print("{}\n", shown_lines(a.images[i]));
    for (const ClassScore& s : scores)
      fmt::print("{:.4f}  {}\n", s.score, shown_lines(class_text(names, s.index)));
  }
  if (a.json) std::cout << json_text(Json{{"model", a.model}, {"results", results}}) << std::endl;
  return std::cout ? ok : failed;
}

} // namespace

void add_classify(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<ClassifyArguments>();
  auto* verb =
      app.add_subcommand("classify", "What is in a picture, by an ONNX model or a Hugging Face folder");
  verb->footer(
      "A line for each class: how likely it is, its name. Without --preset a folder says what its model "
      "reads, an ONNX model of three channels "
      "reads pictures as those of ImageNet do, one of a single channel 0 (black) to 1.");
  add_vision_options(*verb, *a);
  verb->add_option("-k,--top", a->top, "How many classes")->check(whole(1, 1000000))->capture_default_str();
  verb->callback([a, &exit_code] { exit_code = classify(*a); });
}

} // namespace luminal::cli
