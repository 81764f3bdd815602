// models/yolo.cpp -- YOLOv8: a backbone of five halvings, a way up and down again, boxes of three grids.
#include "luminal/yolo.h"
#include "luminal/files.h"
#include "luminal/functions.h"
#include "luminal/indexing.h"
#include "luminal/nn_functions.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace luminal::models {
namespace {

constexpr int64_t bins = 16; // of the distance to a side, in cells
constexpr double bn_eps = 1e-3;

struct SizeRow {
  const char* name;
  double depth, width;
  int64_t most; // channels, before they are scaled
};
constexpr SizeRow sizes[] = {{"n", 1.0 / 3, 0.25, 1024},
                             {"s", 1.0 / 3, 0.5, 1024},
                             {"m", 2.0 / 3, 0.75, 768},
                             {"l", 1, 1, 512},
                             {"x", 1, 1.25, 512}};

} // namespace

YoloConfig yolo_config(const std::string& size, int64_t classes, std::source_location where) {
  for (const SizeRow& row : sizes) {
    if (size != row.name) continue;
    YoloConfig config;
    config.classes = classes;
    for (size_t i = 0; i < 5; i++) {
      const double wanted = double(std::min<int64_t>(int64_t(64) << i, row.most)) * row.width;
      config.channels[i] = int64_t(std::ceil(wanted / 8)) * 8;
    }
    const int64_t repeats[] = {3, 6, 6, 3};
    for (size_t i = 0; i < 4; i++)
      config.repeats[i] = std::max<int64_t>(1, std::llround(double(repeats[i]) * row.depth));
    return config;
  }
  throw Error("yolo_config", fmt::format("size {}: n, s, m, l and x are known", size), where);
}

YoloConfig yolo_config_of(const std::string& path, std::source_location where) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const StoredTensor& tensor : tensors_in(path, where)) shapes[tensor.name] = tensor.shape;
  const auto channels = [&](const std::string& name) {
    const auto found = shapes.find(name);
    if (found == shapes.end() || found->second.empty() || found->second[0] < 1)
      throw Error("yolo", fmt::format("{}: there is no {}, which each YOLOv8 has", path, name), where);
    return found->second[0];
  };
  YoloConfig config;
  const int halvings[] = {0, 1, 3, 5, 7}, stages[] = {2, 4, 6, 8};
  for (size_t i = 0; i < 5; i++)
    config.channels[i] = channels(fmt::format("model.{}.conv.weight", halvings[i]));
  for (size_t i = 0; i < 4; i++) {
    config.repeats[i] = 0;
    while (shapes.contains(fmt::format("model.{}.m.{}.cv1.conv.weight", stages[i], config.repeats[i])))
      config.repeats[i]++;
    channels(fmt::format("model.{}.m.0.cv1.conv.weight", stages[i]));
  }
  config.classes = channels("model.22.cv3.0.2.weight");
  return config;
}

YoloV8::Layer::Layer(const nn::Scope& s, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                     std::source_location where)
    : conv(s / "conv", in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}, where),
      bn(s / "bn", out, {.eps = bn_eps}, where) {}
Tensor YoloV8::Layer::operator()(const Tensor& x, std::source_location where) const {
  return bn(conv(x, where), where).silu();
}

YoloV8::Stage::Stage(const nn::Scope& s, int64_t in, int64_t out, int64_t repeats, bool around_,
                     std::source_location where)
    : first(s / "cv1", in, out, 1, 1, where), last(s / "cv2", (2 + repeats) * (out / 2), out, 1, 1, where),
      half(out / 2), around(around_) {
  for (int64_t i = 0; i < repeats; i++)
    bottlenecks.push_back({Layer(s / "m" / i / "cv1", half, half, 3, 1, where),
                           Layer(s / "m" / i / "cv2", half, half, 3, 1, where)});
}
Tensor YoloV8::Stage::operator()(const Tensor& x, std::source_location where) const {
  std::vector<Tensor> parts = first(x, where).split({half, half}, 1, where);
  for (const auto& bottleneck : bottlenecks) {
    const Tensor y = bottleneck[1](bottleneck[0](parts.back(), where), where);
    parts.push_back(around ? parts.back() + y : y);
  }
  return last(concat(parts, 1, where), where);
}

YoloV8::Branch::Branch(const nn::Scope& s, int64_t in, int64_t inner, int64_t out, std::source_location where)
    : first(s / 0, in, inner, 3, 1, where), second(s / 1, inner, inner, 3, 1, where),
      last(s / 2, inner, out, 1, {}, where) {}
Tensor YoloV8::Branch::operator()(const Tensor& x, std::source_location where) const {
  return last(second(first(x, where), where), where);
}

YoloV8::YoloV8(const nn::Scope& scope, const YoloConfig& c, std::source_location where)
    : Module(scope), classes_(c.classes) {
  const nn::Scope s = scope / "model";
  const auto& n = c.channels;
  const int64_t halvings[] = {0, 1, 3, 5, 7};
  for (size_t i = 0; i < 5; i++) halvings_.emplace_back(s / halvings[i], i ? n[i - 1] : 3, n[i], 3, 2, where);
  for (size_t i = 0; i < 4; i++)
    stages_.emplace_back(s / int64_t(2 + 2 * i), n[i + 1], n[i + 1], c.repeats[i], true, where);
  pyramid_.emplace_back(s / 9 / "cv1", n[4], n[4] / 2, 1, 1, where);
  pyramid_.emplace_back(s / 9 / "cv2", n[4] * 2, n[4], 1, 1, where);
  const int64_t repeats = c.repeats[0];
  stages_.emplace_back(s / 12, n[4] + n[3], n[3], repeats, false, where);
  stages_.emplace_back(s / 15, n[3] + n[2], n[2], repeats, false, where);
  halvings_.emplace_back(s / 16, n[2], n[2], 3, 2, where);
  stages_.emplace_back(s / 18, n[2] + n[3], n[3], repeats, false, where);
  halvings_.emplace_back(s / 19, n[3], n[3], 3, 2, where);
  stages_.emplace_back(s / 21, n[3] + n[4], n[4], repeats, false, where);
  const int64_t of_boxes = std::max<int64_t>(n[2] / 4, 4 * bins),
                of_classes = std::max(n[2], std::min<int64_t>(c.classes, 100));
  for (int64_t i = 0; i < 3; i++) {
    box_branches_.emplace_back(s / 22 / "cv2" / i, n[size_t(2 + i)], of_boxes, 4 * bins, where);
    class_branches_.emplace_back(s / 22 / "cv3" / i, n[size_t(2 + i)], of_classes, c.classes, where);
  }
}

Tensor YoloV8::boxes(const Tensor& distances, const std::vector<std::array<int64_t, 2>>& grids,
                     std::source_location where) const {
  // The expected bin of each side (Li et al. 2020, arXiv:2006.04388).
  const Dim batch = distances.dim(0), places = distances.dim(2);
  Graph graph(distances.graph());
  const Tensor steps = graph.arange(bins, DType::f32, where).reshape({bins, 1}, where);
  const Tensor sides =
      (distances.reshape({batch, 4, bins, places}, where).softmax(2, where) * steps).sum({2}, false, where);
  std::vector<float> centres[2], strides;
  for (size_t level = 0; level < grids.size(); level++)
    for (int64_t row = 0; row < grids[level][0]; row++)
      for (int64_t column = 0; column < grids[level][1]; column++) {
        centres[0].push_back(float(column) + 0.5F);
        centres[1].push_back(float(row) + 0.5F);
        strides.push_back(float(int64_t(8) << level));
      }
  const auto count = int64_t(strides.size());
  std::vector<float> both = centres[0];
  both.insert(both.end(), centres[1].begin(), centres[1].end());
  const Tensor centre = graph.constant(both, {2, count}, DType::f32, where),
               stride = graph.constant(strides, {1, count}, DType::f32, where);
  const Tensor before = sides.narrow(1, 0, 2, where), behind = sides.narrow(1, 2, 2, where);
  return concat({(centre + (behind - before) * 0.5) * stride, (before + behind) * stride}, 1, where);
}

Tensor YoloV8::operator()(const Tensor& x, std::source_location where) const {
  if (x.rank() != 4 || !x.dim(2).is_constant() || !x.dim(3).is_constant() || x.dim(2).value() % 32 != 0 ||
      x.dim(3).value() % 32 != 0)
    throw Error(
        "YoloV8",
        fmt::format("pictures must be [batch, 3, height, width], the sizes multiples of 32, they are {}",
                    to_string(x.shape())),
        where);
  const auto wider = [&](const Tensor& y) {
    return interpolate(y, {y.dim(2) * 2, y.dim(3) * 2}, Interpolation::nearest);
  };
  std::vector<Tensor> at; // behind each stage of the backbone
  Tensor y = halvings_[0](x, where);
  for (size_t i = 0; i < 4; i++) at.push_back(y = stages_[i](halvings_[i + 1](y, where), where));
  std::vector<Tensor> pools{pyramid_[0](y, where)};
  for (int i = 0; i < 3; i++)
    pools.push_back(max_pool(pools.back(), {5, 5}, {.stride = 1, .padding = 2}, where));
  const Tensor top = pyramid_[1](concat(pools, 1, where), where);
  const Tensor middle = stages_[4](concat({wider(top), at[2]}, 1, where), where);
  std::vector<Tensor> levels{stages_[5](concat({wider(middle), at[1]}, 1, where), where)};
  levels.push_back(stages_[6](concat({halvings_[5](levels[0], where), middle}, 1, where), where));
  levels.push_back(stages_[7](concat({halvings_[6](levels[1], where), top}, 1, where), where));

  std::vector<Tensor> distances, scores;
  std::vector<std::array<int64_t, 2>> grids;
  for (size_t i = 0; i < 3; i++) {
    const Dim batch = x.dim(0);
    grids.push_back({levels[i].dim(2).value(), levels[i].dim(3).value()});
    const int64_t places = grids[i][0] * grids[i][1];
    distances.push_back(box_branches_[i](levels[i], where).reshape({batch, 4 * bins, places}, where));
    scores.push_back(class_branches_[i](levels[i], where).reshape({batch, classes_, places}, where));
  }
  return concat({boxes(concat(distances, 2, where), grids, where), concat(scores, 2, where).sigmoid()}, 1,
                where);
}

} // namespace luminal::models
