// models/vision.cpp -- pictures into models, and classes out of them.
#include "models/vision.h"
#include "base/file.h"
#include "base/text.h"
#include "formats/onnx.h"
#include "luminal/files.h"
#include "luminal/yolo.h"
#include "models/picture_folder.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <tuple>
#include <utility>

namespace luminal::models {
namespace {

const std::vector<std::pair<std::string, PixelOptions>>& presets() {
  static const std::vector<std::pair<std::string, PixelOptions>> table{
      {"imagenet", {.fit = Fit::crop, .mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}}},
      {"unit", {}},
      {"yolox", {.fit = Fit::corner, .scale = 1, .blue_first = true}},
      {"yolov8", {.fit = Fit::letterbox}},
      {"ultraface", {.scale = 1, .mean = {127}, .deviation = {128}}}};
  return table;
}

Image sized(const Image& image, int64_t height, int64_t width, std::optional<ImageFilter> filter) {
  return filter ? resized_by(*filter, image, height, width) : resized(image, height, width);
}

/// The picture as it stands in the model's input, one of `height` x `width`.
Image placed(const Image& image, int64_t height, int64_t width, const PixelOptions& options,
             Placement& placement) {
  const auto rounded = [](double x) { return std::max<int64_t>(1, std::llround(x)); };
  if (options.fit == Fit::stretch) {
    placement = {double(width) / double(image.width), double(height) / double(image.height)};
    return sized(image, height, width, options.filter);
  }
  const double x = double(width) / double(image.width), y = double(height) / double(image.height);
  const int64_t short_side = options.fit == Fit::crop ? options.short_side : 0;
  const double scale = short_side > 0 ? double(short_side) / double(std::min(image.height, image.width))
                       : options.fit == Fit::crop ? std::max(x, y) * 8 / 7
                                                  : std::min(x, y);
  // Of a longer side transformers drop the fraction.
  const auto side = [&](int64_t from) {
    return short_side > 0 ? std::max<int64_t>(1, short_side * from / std::min(image.height, image.width))
                          : rounded(scale * double(from));
  };
  const Image small = sized(image, side(image.height), side(image.width), options.filter);
  const int64_t part = options.fit == Fit::corner ? 0 : 1;
  const int64_t left = part * (width - small.width) / 2, top = part * (height - small.height) / 2;
  placement = {double(small.width) / double(image.width), double(small.height) / double(image.height),
               double(left), double(top)};
  Image out{height, width, image.channels, {}};
  out.pixels.assign(size_t(height * width * image.channels), uint8_t(std::clamp(options.ground, 0.0, 255.0)));
  for (int64_t row = 0; row < height; row++)
    for (int64_t column = 0; column < width; column++) {
      const int64_t from_y = row - top, from_x = column - left;
      if (from_y < 0 || from_y >= small.height || from_x < 0 || from_x >= small.width) continue;
      std::copy_n(small.pixels.begin() + (from_y * small.width + from_x) * image.channels, image.channels,
                  out.pixels.begin() + (row * width + column) * image.channels);
    }
  return out;
}

} // namespace

PixelOptions pixel_preset(const std::string& name) {
  for (const auto& [known, options] : presets())
    if (known == name) return options;
  throw Error(fmt::format("preset {}: {} are known", name, join(pixel_presets())));
}
std::vector<std::string> pixel_presets() {
  std::vector<std::string> names;
  for (const auto& [name, options] : presets()) names.push_back(name);
  return names;
}

/// YOLOv8 from a file of its weights: the sizes of the network are those of the weights.
void VisionModel::open_yolo(const std::string& path, std::optional<std::array<int64_t, 2>> size) {
  std::tie(height_, width_) =
      size ? std::pair((*size)[0], (*size)[1]) : std::pair<int64_t, int64_t>(640, 640);
  if (height_ % 32 != 0 || width_ % 32 != 0)
    throw Error(fmt::format("{}: a YOLOv8 takes sides that are multiples of 32, --size says {}x{}", path,
                            height_, width_));
  channels_ = 3;
  name_ = "images";
  const YoloV8 yolo(nn::Scope(model_.graph), yolo_config_of(path, std::source_location()));
  Tensor x = model_.graph.tensor({1, 3, height_, width_}, DType::f32, name_), y = yolo(x).keep();
  load_weights(path);
  model_.inputs = {{name_, x}};
  model_.outputs = {{"output0", y}};
}

void VisionModel::load_weights(const std::string& path) {
  const LoadReport report =
      load(model_.graph, path, {.strict = false, .convert = true}, std::source_location());
  for (const std::string& name : report.missing)
    if (!name.ends_with("num_batches_tracked")) // how often it was trained: nothing reads it
      throw Error(fmt::format("{}: there is no {}", path, name));
  if (!report.mismatching.empty())
    throw Error(fmt::format("{}: {}: {}", path, report.mismatching[0].name, report.mismatching[0].reason));
}

void VisionModel::open_folder(const std::string& path, std::optional<std::array<int64_t, 2>> size) {
  PictureFolder folder = read_picture_folder(path);
  if (size && *size != folder.size)
    throw Error(fmt::format("{}: pictures of {} x {} pixels, another size than --size says", path,
                            folder.size[0], folder.size[1]));
  std::tie(height_, width_) = std::pair(folder.size[0], folder.size[1]);
  channels_ = 3;
  name_ = "pixel_values";
  const nn::Scope scope(model_.graph);
  Tensor x = model_.graph.tensor({1, 3, height_, width_}, DType::f32, name_);
  Tensor y = std::visit(
      [&](const auto& config) {
        using Config = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<Config, VitConfig>)
          return Vit(scope, config)(x);
        else if constexpr (std::is_same_v<Config, ResNetConfig>)
          return ResNet(scope, config)(x);
        else
          return MobileNetV2(scope, config)(x);
      },
      folder.config);
  y.keep();
  load_weights(folder.weights);
  model_.inputs = {{name_, x}};
  model_.outputs = {{"logits", y}};
  pixels_ = folder.pixels;
  labels_ = std::move(folder.labels);
}

VisionModel::VisionModel(const std::string& path, std::optional<std::array<int64_t, 2>> size, int threads) {
  if (is_directory(path)) {
    open_folder(path, size);
    model_.graph.compile({.threads = threads});
    return;
  }
  if (path.ends_with(".safetensors")) {
    open_yolo(path, size);
    model_.graph.compile({.threads = threads});
    return;
  }
  const auto file = onnx::open_onnx(path);
  if (!file) throw Error(file.error());
  std::vector<const onnx::ValueData*> inputs;
  for (const onnx::ValueData& input : file->graph.inputs)
    if (std::ranges::none_of(file->graph.initializers, [&](const auto& w) { return w.name == input.name; }))
      inputs.push_back(&input);
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("{}: {}; one picture is expected, [1, 1 or 3, height, width] or [1, height, "
                            "width, 1 or 3]",
                            path, what));
  };
  if (inputs.size() != 1) refuse(fmt::format("{} inputs", inputs.size()));
  const onnx::ValueData& input = *inputs[0];
  name_ = input.name;
  std::vector<int64_t> shape; // -1: open
  for (const onnx::DimData& dim : input.shape) shape.push_back(dim.value.value_or(-1));
  const auto text = fmt::format("the input {} [{}]", printable(name_), fmt::join(shape, ", "));
  if (shape.size() != 4 || (shape[0] != 1 && shape[0] != -1)) refuse(text);
  const auto colours = [](int64_t extent) { return extent == 1 || extent == 3; };
  channels_last_ = !colours(shape[1]) && colours(shape[3]);
  if (!channels_last_ && !colours(shape[1]) && shape[1] != -1) refuse(text);
  channels_ = channels_last_ ? shape[3] : shape[1] == -1 ? 3 : shape[1];
  const size_t at = channels_last_ ? 1 : 2;
  for (size_t i = 0; i < 2; i++) {
    int64_t& side = i == 0 ? height_ : width_;
    side = shape[at + i];
    if (side == -1 && !size)
      throw Error(fmt::format("{}: {} leaves its size open: --size gives it", path, text));
    if (side != -1 && size && (*size)[i] != side)
      throw Error(fmt::format("{}: {} has another size than --size says", path, text));
    if (side == -1) side = (*size)[i];
  }
  if (height_ < 1 || width_ < 1 || height_ > 8192 || width_ > 8192) refuse(text);
  const std::vector<int64_t> fixed = channels_last_ ? std::vector<int64_t>{1, height_, width_, channels_}
                                                    : std::vector<int64_t>{1, channels_, height_, width_};
  model_ = load_onnx(path, {.shapes = {{name_, fixed}}}, std::source_location());
  model_.graph.compile({.threads = threads});
}

Placement VisionModel::run(const Image& image, const PixelOptions& options) {
  for (const auto* list : {&options.mean, &options.deviation})
    if (list->size() != 1 && int64_t(list->size()) != channels_)
      throw Error(fmt::format("{} numbers for {} channels: one, or one a channel, is expected", list->size(),
                              channels_));
  Placement placement;
  const Image picture = placed(image, height_, width_, options, placement);
  std::vector<float> values(size_t(channels_ * height_ * width_));
  const auto of = [](const std::vector<double>& list, int64_t c) {
    return list[list.size() == 1 ? 0 : size_t(c)];
  };
  for (int64_t c = 0; c < channels_; c++) {
    const double mean = of(options.mean, c), deviation = of(options.deviation, c);
    for (int64_t i = 0; i < height_ * width_; i++) {
      const uint8_t* pixel = &picture.pixels[size_t(i * 3)];
      const double value = channels_ == 1 // Rec. 601
                               ? 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]
                               : pixel[options.blue_first ? 2 - c : c];
      values[size_t(channels_last_ ? i * channels_ + c : c * height_ * width_ + i)] =
          float((value * options.scale - mean) / deviation);
    }
  }
  model_.input(name_).set(values);
  model_.graph.execute();
  return placement;
}

std::vector<ClassScore> classes_of(const std::vector<float>& output, size_t count) {
  std::vector<ClassScore> scores;
  double sum = 0, least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < output.size(); i++) {
    scores.push_back({int64_t(i), double(output[i])});
    sum += double(output[i]);
    least = std::min(least, double(output[i]));
    most = std::max(most, double(output[i]));
  }
  if (!(least >= -1e-6 && std::fabs(sum - 1) < 1e-2)) {
    double total = 0;
    for (const ClassScore& s : scores) total += std::exp(s.score - most);
    for (ClassScore& s : scores) s.score = std::exp(s.score - most) / total;
  }
  std::ranges::stable_sort(scores,
                           [](const ClassScore& a, const ClassScore& b) { return a.score > b.score; });
  scores.resize(std::min(count, scores.size()));
  return scores;
}

std::vector<std::string> class_names(const VisionModel& model, const std::string& labels_file) {
  std::vector<std::string> names;
  if (labels_file == "coco") return coco_names();
  if (!labels_file.empty()) {
    const std::string text = read_file(labels_file, uint64_t(1) << 26).value();
    for (const std::string_view line : split(text, '\n')) names.emplace_back(trim(line));
    while (!names.empty() && names.back().empty()) names.pop_back();
    if (names.empty()) throw Error(fmt::format("{}: no names, expected one a line", labels_file));
    return names;
  }
  if (!model.labels().empty()) return model.labels();
  const auto found = model.metadata().find("names");
  if (found == model.metadata().end()) return names;
  // Python's text of a dictionary: {0: 'person', 1: 'bicycle'}.
  const std::string& text = found->second;
  for (size_t at = 0; (at = text.find_first_of("'\"", at)) != std::string::npos;) {
    const size_t end = text.find(text[at], at + 1);
    if (end == std::string::npos) break;
    names.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

const std::vector<std::string>& coco_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const std::string_view name :
         split("person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop "
               "sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,"
               "umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball "
               "glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,banana,"
               "apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,"
               "dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,"
               "refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush",
               ','))
      list.emplace_back(name);
    return list;
  }();
  return names;
}

} // namespace luminal::models
