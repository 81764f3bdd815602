// models/boxes.cpp -- boxes out of the outputs of detectors, and which of those that overlap stay.
#include "models/vision.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::models {
namespace {

/// Places of the three grids of YOLO, of cells of 8, 16 and 32 pixels.
int64_t cells(const VisionModel& model) {
  int64_t sum = 0;
  for (const int64_t side : {8, 16, 32}) sum += (model.height() / side) * (model.width() / side);
  return sum;
}

struct Output {
  std::vector<int64_t> shape; // behind the batch of one
  Tensor tensor;
};
std::vector<Output> outputs_of(const VisionModel& model) {
  std::vector<Output> list;
  for (const OnnxValue& value : model.outputs()) {
    Output output{value.tensor.extents(), value.tensor};
    if (!output.shape.empty() && output.shape[0] == 1) output.shape.erase(output.shape.begin());
    list.push_back(std::move(output));
  }
  return list;
}

std::string shapes_text(const std::vector<Output>& outputs) {
  std::string text;
  for (const Output& output : outputs)
    text += fmt::format("{}[1, {}]", text.empty() ? "" : ", ", fmt::join(output.shape, ", "));
  return text;
}

/// One box of the model's input before its class is chosen.
struct Raw {
  double centre_x, centre_y, width, height;
};

double shared(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left),
               height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  const auto area = [](const Box& box) { return (box.right - box.left) * (box.bottom - box.top); };
  return width * height / (area(a) + area(b) - width * height);
}

} // namespace

BoxForm box_form(const VisionModel& model) {
  const std::vector<Output> outputs = outputs_of(model);
  if (outputs.size() == 2 && outputs[0].shape.size() == 2 && outputs[1].shape.size() == 2 &&
      outputs[0].shape[0] == outputs[1].shape[0] && (outputs[1].shape[1] == 4 || outputs[0].shape[1] == 4))
    return BoxForm::pairs;
  if (!outputs.empty() && outputs[0].shape.size() == 2) {
    const int64_t rows = outputs[0].shape[0], columns = outputs[0].shape[1], places = cells(model);
    if (rows == places && columns > 5) return BoxForm::yolox;
    if (rows == 3 * places && columns > 5) return BoxForm::yolov5;
    if (columns == places && rows > 4) return BoxForm::yolov8;
  }
  throw Error(fmt::format("outputs {} are not boxes of a known form: yolox, yolov5, yolov8, pairs",
                          shapes_text(outputs)));
}

std::vector<Box> boxes_of(const VisionModel& model, BoxForm form, const Placement& placement, int64_t height,
                          int64_t width, const BoxOptions& options) {
  if (form == BoxForm::automatic) form = box_form(model);
  const std::vector<Output> outputs = outputs_of(model);
  const auto refuse = [&] {
    throw Error(fmt::format("outputs {} do not have the form that was asked for", shapes_text(outputs)));
  };
  std::vector<Box> boxes;
  const auto add = [&](const Raw& raw, int64_t index, double score) {
    if (!(score >= options.score)) return;
    const auto x = [&](double at) {
      return std::clamp((at - placement.shift_x) / placement.scale_x, 0.0, double(width));
    };
    const auto y = [&](double at) {
      return std::clamp((at - placement.shift_y) / placement.scale_y, 0.0, double(height));
    };
    const Box box{x(raw.centre_x - raw.width / 2),
                  y(raw.centre_y - raw.height / 2),
                  x(raw.centre_x + raw.width / 2),
                  y(raw.centre_y + raw.height / 2),
                  index,
                  score};
    if (box.right > box.left && box.bottom > box.top) boxes.push_back(box);
  };
  if (form == BoxForm::pairs) {
    if (outputs.size() != 2 || outputs[0].shape.size() != 2 || outputs[1].shape.size() != 2) refuse();
    const bool boxes_last = outputs[1].shape[1] == 4;
    const std::vector<float> scores = outputs[boxes_last ? 0 : 1].tensor.data<float>(),
                             corners = outputs[boxes_last ? 1 : 0].tensor.data<float>();
    const int64_t places = outputs[0].shape[0], classes = outputs[boxes_last ? 0 : 1].shape[1];
    if (int64_t(corners.size()) != places * 4) refuse();
    for (int64_t p = 0; p < places; p++)
      for (int64_t c = 1; c < classes; c++) {
        const float* corner = &corners[size_t(p * 4)];
        const double w = double(model.width()), h = double(model.height());
        add({(corner[0] + corner[2]) / 2 * w, (corner[1] + corner[3]) / 2 * h, (corner[2] - corner[0]) * w,
             (corner[3] - corner[1]) * h},
            c, double(scores[size_t(p * classes + c)]));
      }
  } else {
    if (outputs.empty() || outputs[0].shape.size() != 2) refuse();
    const std::vector<float> values = outputs[0].tensor.data<float>();
    const bool columns_are_places = form == BoxForm::yolov8;
    const int64_t places = outputs[0].shape[columns_are_places ? 1 : 0],
                  numbers = outputs[0].shape[columns_are_places ? 0 : 1],
                  first = form == BoxForm::yolov8 ? 4 : 5;
    if (numbers <= first || (form == BoxForm::yolox && places != cells(model))) refuse();
    const auto at = [&](int64_t place, int64_t number) {
      return double(values[size_t(columns_are_places ? number * places + place : place * numbers + number)]);
    };
    int64_t grid = 8, row_cells = model.width() / grid, place_in_grid = 0;
    for (int64_t p = 0; p < places; p++) {
      Raw raw{at(p, 0), at(p, 1), at(p, 2), at(p, 3)};
      if (form == BoxForm::yolox) {
        if (place_in_grid == row_cells * (model.height() / grid))
          grid *= 2, row_cells = model.width() / grid, place_in_grid = 0;
        const int64_t row = place_in_grid / row_cells, column = place_in_grid % row_cells;
        raw = {(raw.centre_x + double(column)) * double(grid), (raw.centre_y + double(row)) * double(grid),
               std::exp(raw.width) * double(grid), std::exp(raw.height) * double(grid)};
        place_in_grid++;
      }
      const double there = first == 5 ? at(p, 4) : 1;
      int64_t best = 0;
      for (int64_t c = 1; c < numbers - first; c++)
        if (at(p, first + c) > at(p, first + best)) best = c;
      add(raw, best, there * at(p, first + best));
    }
  }
  std::ranges::stable_sort(boxes, [](const Box& a, const Box& b) { return a.score > b.score; });
  std::vector<Box> kept;
  for (const Box& box : boxes) {
    if (kept.size() == options.most) break;
    if (std::ranges::none_of(kept, [&](const Box& other) {
          return other.index == box.index && shared(other, box) > options.overlap;
        }))
      kept.push_back(box);
  }
  return kept;
}

} // namespace luminal::models
