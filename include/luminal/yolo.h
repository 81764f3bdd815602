// luminal/yolo.h -- YOLOv8, a detector, as a module. Parameters have the names of the published weights
// (model.0.conv.weight, model.0.bn.running_mean, ..), so that load takes them.
#pragma once
#include "luminal/nn_layers.h"
#include <array>
#include <string>
#include <vector>

namespace luminal::models {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

struct YoloConfig {                                         // of size n
  std::array<int64_t, 5> channels = {16, 32, 64, 128, 256}; ///< behind each halving of the picture
  std::array<int64_t, 4> repeats = {1, 2, 2, 1};            ///< bottlenecks of the four stages
  int64_t classes = 80;
};
/// The published sizes: n, s, m, l, x. Throws Error for another one.
YoloConfig yolo_config(const std::string& size, int64_t classes = 80, LUMINAL_WHERE);
/// The configuration that the weights of a file (safetensors, GGUF, npz) have. Throws Error where they are
/// no YOLOv8.
YoloConfig yolo_config_of(const std::string& path, LUMINAL_WHERE);

class YoloV8 : public nn::Module {
public:
  explicit YoloV8(const nn::Scope& scope, const YoloConfig& config = {}, LUMINAL_WHERE);
  /// Pictures in 0..1 [batch, 3, height, width], height and width multiples of 32 -> [batch, 4 + classes,
  /// places]: centre, width and height in pixels, then the score of each class in 0..1. Places are the cells
  /// of 8, then 16, then 32 pixels, row by row.
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;

private:
  /// Convolution, batch norm, SiLU; as large as before where the stride is 1.
  struct Layer {
    nn::Conv2d conv;
    nn::BatchNorm bn;
    Layer(const nn::Scope& scope, int64_t in, int64_t out, int64_t kernel, int64_t stride,
          std::source_location where);
    Tensor operator()(const Tensor& x, std::source_location where) const;
  };
  /// One half of the channels goes through bottlenecks; all that comes of them is joined with the halves.
  struct Stage {
    Layer first, last;
    std::vector<std::array<Layer, 2>> bottlenecks;
    int64_t half;
    bool around; ///< each bottleneck adds what it was given
    Stage(const nn::Scope& scope, int64_t in, int64_t out, int64_t repeats, bool around,
          std::source_location where);
    Tensor operator()(const Tensor& x, std::source_location where) const;
  };
  /// Two layers and a convolution, of one grid.
  struct Branch {
    Layer first, second;
    nn::Conv2d last;
    Branch(const nn::Scope& scope, int64_t in, int64_t inner, int64_t out, std::source_location where);
    Tensor operator()(const Tensor& x, std::source_location where) const;
  };
  Tensor boxes(const Tensor& distances, const std::vector<std::array<int64_t, 2>>& grids,
               std::source_location where) const;

  int64_t classes_;
  std::vector<Layer> halvings_; ///< model.0, 1, 3, 5, 7, and 16, 19 of the way back
  std::vector<Stage> stages_;   ///< model.2, 4, 6, 8, and 12, 15, 18, 21
  std::vector<Layer> pyramid_;  ///< model.9: before and behind the pools
  std::vector<Branch> box_branches_, class_branches_;
};

#undef LUMINAL_WHERE
} // namespace luminal::models
