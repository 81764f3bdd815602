// cli/detect.cpp -- luminal detect: where things are in a picture, by an ONNX model.
#include "base/file.h"
#include "base/print.h"
#include "cli/model_verbs.h"
#include "cli/vision_options.h"
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <memory>

namespace luminal::cli {
namespace {

using namespace models;

const std::vector<std::string> form_names{"auto", "yolox", "yolov5", "yolov8", "pairs"};

struct DetectArguments : VisionArguments {
  std::string out, form = "auto";
  BoxOptions boxes;
};

/// Colours that stand apart, one a class.
Colour colour_of(int64_t index) {
  constexpr Colour colours[] = {{230, 25, 75},  {60, 180, 75},  {255, 225, 25}, {0, 130, 200},
                                {245, 130, 48}, {145, 30, 180}, {70, 240, 240}, {240, 50, 230},
                                {210, 245, 60}, {250, 190, 212}};
  return colours[size_t(index) % std::size(colours)];
}

Image drawn(Image image, const std::vector<Box>& boxes, const std::vector<std::string>& names) {
  const int64_t side = std::min(image.height, image.width), scale = std::max<int64_t>(1, side / 400);
  for (size_t i = boxes.size(); i-- > 0;) { // the likeliest one above all
    const Box& box = boxes[i];
    const std::array<int64_t, 4> place{int64_t(box.left), int64_t(box.top), int64_t(std::ceil(box.right)),
                                       int64_t(std::ceil(box.bottom))};
    draw_frame(image, place, 2 * scale, colour_of(box.index));
    draw_label(image, place[0], place[1] - 12 * scale,
               fmt::format("{} {:.2f}", class_text(names, box.index), box.score), scale,
               colour_of(box.index));
  }
  return image;
}

int detect(const DetectArguments& a) {
  end_on_interrupt();
  const bool folder = !a.out.empty() && is_directory(a.out);
  if (a.images.size() > 1 && !a.out.empty() && !folder)
    throw UsageError("several pictures: --out names a folder that is there");
  std::vector<Image> images; // a wrong file is told before the model loads
  for (const std::string& path : a.images) images.push_back(open_image(path, 3).value());
  VisionModel model(a.model, size_of(a), a.threads);
  BoxForm form = BoxForm::automatic;
  for (size_t i = 0; i < form_names.size(); i++)
    if (a.form == form_names[i]) form = BoxForm(i);
  if (form == BoxForm::automatic) form = box_form(model);
  const PixelOptions pixels = pixels_of(a, pixel_preset(form == BoxForm::yolox   ? "yolox"
                                                        : form == BoxForm::pairs ? "ultraface"
                                                                                 : "yolov8"));
  const std::vector<std::string> names = class_names(model, a.labels);
  Json results = Json::array();
  for (size_t i = 0; i < images.size(); i++) {
    const Image& image = images[i];
    const std::string& path = a.images[i];
    const Placement placement = model.run(image, pixels);
    const std::vector<Box> boxes = boxes_of(model, form, placement, image.height, image.width, a.boxes);
    if (!a.out.empty()) {
      const std::string to =
          folder ? fmt::format("{}/{}.png", a.out, std::filesystem::path(path).stem().string()) : a.out;
      save_image(drawn(image, boxes, names), to).value();
    }
    if (a.json) {
      Json list = Json::array();
      for (const Box& box : boxes)
        list.push_back({{"class", box.index},
                        {"label", class_text(names, box.index)},
                        {"score", box.score},
                        {"box", {box.left, box.top, box.right, box.bottom}}});
      results.push_back({{"image", path}, {"width", image.width}, {"height", image.height}, {"boxes", list}});
      continue;
    }
    if (images.size() > 1) fmt::print("{}\n", shown_lines(path));
    for (const Box& box : boxes)
      fmt::print("{:.3f}  {:.0f} {:.0f} {:.0f} {:.0f}  {}\n", box.score, box.left, box.top, box.right,
                 box.bottom, shown_lines(class_text(names, box.index)));
    if (boxes.empty()) print_stderr("note: nothing is found in {}; --score shows less sure boxes\n", path);
  }
  if (a.json) std::cout << json_text(Json{{"model", a.model}, {"results", results}}) << std::endl;
  return std::cout ? ok : failed;
}

} // namespace

void add_detect(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<DetectArguments>();
  auto* verb = app.add_subcommand("detect", "Where things are in a picture, by an ONNX model");
  verb->footer("A line for each box: how sure it is, left, top, right, bottom in pixels, its class.");
  add_vision_options(*verb, *a);
  verb->add_option("-o,--out", a->out,
                   "The picture with its boxes: a .png, .jpg or .bmp, or a folder for several pictures");
  verb->add_option("--form", a->form, "How the model writes boxes; auto: by the shapes of its outputs")
      ->check(one_of(form_names))
      ->capture_default_str();
  verb->add_option("--score", a->boxes.score, "Less sure boxes are left out")
      ->check(between(0, 1))
      ->capture_default_str();
  verb->add_option("--overlap", a->boxes.overlap, "Of boxes of a class that share more than this, one stays")
      ->check(between(0, 1))
      ->capture_default_str();
  verb->callback([a, &exit_code] { exit_code = detect(*a); });
}

} // namespace luminal::cli
