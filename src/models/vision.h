// models/vision.h -- pictures for models that see: how pixels become the numbers that a model reads, classes
// of its answer, boxes of its answer.
#pragma once
#include "formats/image.h"
#include "luminal/onnx.h"
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace luminal::models {

enum class Fit : uint8_t {
  stretch,   ///< both sides to the model's size
  crop,      ///< the shorter side to 8/7 of it, or to `short_side`, then the middle (ImageNet)
  letterbox, ///< the longer side to it, the picture in the middle of a filled ground
  corner     ///< the same, the picture in the left upper corner
};
/// A number that the model reads is (pixel * scale - mean) / deviation, by channel.
struct PixelOptions {
  Fit fit = Fit::stretch;
  double scale = 1.0 / 255, ground = 114;          ///< ground: a pixel around the picture
  std::vector<double> mean = {0}, deviation = {1}; ///< one, or one a channel
  bool blue_first = false;
  std::optional<ImageFilter> filter = {}; ///< none: means of areas, or linear between points
  int64_t short_side = 0;                 ///< of Fit::crop; 0: see there
};
/// By name: imagenet, unit, yolox, yolov8, ultraface. Throws Error, with all of them, for another one.
PixelOptions pixel_preset(const std::string& name);
std::vector<std::string> pixel_presets();

/// Where a picture stands in what the model reads: x there = x in the picture * scale + shift.
struct Placement {
  double scale_x = 1, scale_y = 1, shift_x = 0, shift_y = 0;
};

/// An ONNX model of one picture as its input, f32 or u8 [1, channels, height, width] or [1, height, width,
/// channels], 1 or 3 channels; or the weights of a YOLOv8 (.safetensors); or a Hugging Face folder of a ViT,
/// ResNet or MobileNetV2 that classifies.
class VisionModel {
public:
  /// size: height and width where the file leaves them open; of a YOLOv8 640 x 640 without it. Throws Error
  /// for another kind of input.
  VisionModel(const std::string& path, std::optional<std::array<int64_t, 2>> size, int threads = 0);
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int64_t channels() const { return channels_; }
  const std::vector<OnnxValue>& outputs() const { return model_.outputs; }
  const std::map<std::string, std::string>& metadata() const { return model_.metadata; }
  /// What a folder says of pixels and of the names of classes; nothing, and none, of other models.
  const std::optional<PixelOptions>& stated_pixels() const { return pixels_; }
  const std::vector<std::string>& labels() const { return labels_; }
  /// Runs the model on a picture of 3 channels.
  Placement run(const Image& image, const PixelOptions& options);

private:
  void open_yolo(const std::string& path, std::optional<std::array<int64_t, 2>> size);
  void open_folder(const std::string& path, std::optional<std::array<int64_t, 2>> size);
  void load_weights(const std::string& path);

  OnnxModel model_;
  std::string name_;
  int64_t height_ = 0, width_ = 0, channels_ = 0;
  bool channels_last_ = false;
  std::optional<PixelOptions> pixels_;
  std::vector<std::string> labels_;
};

struct ClassScore {
  int64_t index = 0;
  double score = 0;
};
/// The likeliest classes of an output [1, classes] (axes of extent 1 do not count): probabilities, by a
/// softmax where the numbers are none yet.
std::vector<ClassScore> classes_of(const std::vector<float>& output, size_t count);

/// How a detector writes its boxes.
enum class BoxForm : uint8_t {
  automatic, ///< by the shapes of the outputs
  yolox,     ///< [1, places, 5 + classes]: offsets in cells of 8, 16, 32 pixels, logarithms of sizes
  yolov5,    ///< [1, places, 5 + classes]: centre, size, how surely something is there, classes
  yolov8,    ///< [1, 4 + classes, places]: centre, size, classes
  pairs      ///< scores [1, places, classes], the first of which is nothing; corners [1, places, 4] in 0..1
};
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0; ///< pixels of the picture
  int64_t index = 0;                               ///< of the class
  double score = 0;
};
struct BoxOptions {
  double score = 0.3; ///< less sure ones are left out
  double overlap =
      0.45; ///< of two boxes of a class that share more (area shared over area covered), one stays
  size_t most = 300;
};
/// The form that the outputs have. Throws Error with their shapes where it is none.
BoxForm box_form(const VisionModel& model);
/// Boxes of the last run, likelier ones first, within a picture of this size.
std::vector<Box> boxes_of(const VisionModel& model, BoxForm form, const Placement& placement, int64_t height,
                          int64_t width, const BoxOptions& options = {});

/// Names of classes: a line each, or the metadata of a model made by Ultralytics ("{0: 'person', ..}").
std::vector<std::string> class_names(const VisionModel& model, const std::string& labels_file);
/// The 80 classes of COCO.
const std::vector<std::string>& coco_names();

} // namespace luminal::models
