// train/loss_plot.cpp -- loss.svg: loss of training and of validation over steps.
#include "train/run_files.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::train {
namespace {

constexpr double width = 720, height = 400, left = 60, right = 16, top = 16, bottom = 40;
constexpr size_t most_points = 1000;

using Curve = std::vector<std::pair<double, double>>;

/// At most so many points, each the mean of those in its part; numbers that are not finite are left out.
Curve thinned(const Curve& curve) {
  Curve finite;
  std::copy_if(curve.begin(), curve.end(), std::back_inserter(finite),
               [](const auto& p) { return std::isfinite(p.second); });
  const size_t part = (finite.size() + most_points - 1) / most_points;
  if (part <= 1) return finite;
  Curve out;
  for (size_t i = 0; i < finite.size(); i += part) {
    const size_t end = std::min(finite.size(), i + part);
    double x = 0, y = 0;
    for (size_t k = i; k < end; ++k) {
      x += finite[k].first;
      y += finite[k].second;
    }
    out.emplace_back(x / double(end - i), y / double(end - i));
  }
  return out;
}

/// Round numbers that cut the range into about four parts.
std::vector<double> ticks(double low, double high) {
  const double rough = (high - low) / 4, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 1.5   ? 1
                               : rough / power < 3.5 ? 2
                               : rough / power < 7.5 ? 5
                                                     : 10);
  std::vector<double> list;
  for (double at = std::ceil(low / step) * step; at <= high + step * 1e-9; at += step)
    list.push_back(std::fabs(at) < step * 1e-9 ? 0 : at);
  return list;
}

} // namespace

std::string loss_svg(const Curve& all_loss, const Curve& all_validation) {
  const Curve loss = thinned(all_loss), validation = thinned(all_validation);
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;
  bool first = true;
  for (const Curve* curve : {&loss, &validation})
    for (const auto& [x, y] : *curve) {
      x1 = std::max(x1, x);
      y0 = first ? y : std::min(y0, y);
      y1 = first ? y : std::max(y1, y);
      first = false;
    }
  if (!(y1 > y0)) {
    y0 -= 0.5;
    y1 += 0.5;
  }
  const auto px = [&](double x) { return left + (x - x0) / (x1 - x0) * (width - left - right); };
  const auto py = [&](double y) { return height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom); };
  std::string svg = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
                                "font-family=\"sans-serif\" font-size=\"12\">\n"
                                "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
                                width, height);
  for (double x : ticks(x0, x1))
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text "
        "x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:g}</text>\n",
        px(x), py(y0), py(y1), height - bottom + 18, x);
  for (double y : ticks(y0, y1))
    svg +=
        fmt::format("<line x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" "
                    "stroke=\"#ddd\"/><text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
                    px(x0), px(x1), py(y), left - 6, py(y) + 4, y);
  const auto draw = [&](const Curve& curve, const char* colour, const char* name, double row) {
    if (curve.empty()) return;
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"", colour);
    for (const auto& [x, y] : curve) svg += fmt::format("{:.1f},{:.1f} ", px(x), py(y));
    svg += fmt::format("\"/>\n<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"{}\">{}</text>\n",
                       width - right - 4, top + 14 + row * 16, colour, name);
  };
  draw(loss, "#1f77b4", "loss", 0);
  draw(validation, "#d62728", "validation loss", 1);
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">step</text>\n</svg>\n",
                           (left + width - right) / 2, height - 6);
}

} // namespace luminal::train
