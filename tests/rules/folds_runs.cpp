// rules/folds_runs.cpp -- sizes and inputs of the cases. Logits go up to 1e4; rows have some and
// only -inf; means lie far from zero.
#include "folds_runs.h"
#include <cmath>
#include <numbers>
#include <sstream>

namespace luminal::egraph::folds {

Inputs::Inputs(const Extents& extents, uint64_t seed) : random_(seed) {
  for (const auto& [name, extent] : extents) extents_[name] = uint32_t(extent);
  for (const auto& [name, extent] : extents_) numbers_.emplace(name, uint32_t(numbers_.size()));
}

double Inputs::normal() { // Box and Muller
  const double radius = std::sqrt(-2 * std::log(1 - random_.unit()));
  return radius * std::cos(2 * std::numbers::pi * random_.unit());
}

void Inputs::add(const std::string& name, const std::string& axes, const Fill& fill) {
  std::istringstream words(axes);
  std::vector<std::string> order;
  for (std::string axis; words >> axis;) order.push_back(axis);
  Tensor out;
  for (const auto& axis : order) out.axes |= AxisSet(1) << numbers_.at(axis);
  std::vector<size_t> stride(order.size()); // of each index
  size_t points = 1;
  for (auto at = numbers_.rbegin(); at != numbers_.rend(); ++at)
    for (size_t i = 0; i < order.size(); ++i)
      if (order[i] == at->first) {
        stride[i] = points;
        out.shape.insert(out.shape.begin(), extents_.at(order[i]));
        points *= extents_.at(order[i]);
      }
  out.data.assign(points, 0);
  std::vector<uint32_t> at(order.size(), 0);
  for (size_t n = 0; n < points; ++n) { // in the order of the indices as named
    size_t offset = 0;
    for (size_t i = 0; i < at.size(); ++i) offset += at[i] * stride[i];
    out.data[offset] = fill(at);
    for (size_t i = order.size(); i-- > 0;) {
      if (++at[i] < extents_.at(order[i])) break;
      at[i] = 0;
    }
  }
  tensors_[name] = std::move(out);
}

void Inputs::add_normal(const std::string& name, const std::string& axes, double deviation, double mean) {
  add(name, axes, [&](std::span<const uint32_t>) { return mean + deviation * normal(); });
}

Extents extents_of(const FoldsRun& run, bool large) {
  Extents out;
  for (const auto& [name, extent] : large ? run.large : run.small) out[name] = extent;
  for (const auto& split : run.splits) {
    const int64_t tile = large ? split.large : split.small;
    out[split.axis + ".i"] = tile;
    out[split.axis + ".o"] = out.at(split.axis) / tile;
  }
  return out;
}

std::vector<Value> build_large(const FoldsRun& run, Theory& theory) {
  theory.set_extents(extents_of(run, true));
  for (const auto& split : run.splits) theory.split(split.axis, split.large);
  std::vector<Value> out;
  for (const Term& root : case_named(run.name).formula({theory})) out.push_back(root.value);
  return out;
}

namespace {

using Point = std::span<const uint32_t>;
using Fill = std::function<void(Inputs&)>;

/// Inputs that are normal numbers, as "name: axes" pairs.
Fill normal(std::vector<std::pair<std::string, std::string>> names) {
  return [names = std::move(names)](Inputs& in) {
    for (const auto& [name, axes] : names) in.add_normal(name, axes);
  };
}
/// Ordinary rows, one with values up to 1e4, one where every second value is -inf, one of -inf
/// alone; one of whole numbers.
Fill hard_rows(const std::string& axes) {
  return [axes](Inputs& in) {
    in.add("x", axes, [&](Point at) {
      const double wide = in.uniform(-1e4, 1e4), x = 3 * in.normal();
      if (at[0] == 3 || (at[0] == 2 && at.back() % 2 == 0)) return -infinity;
      return at[0] == 1 ? wide : at[0] == 4 ? std::round(x) : x;
    });
  };
}
/// Rows x with a deviation and a mean each, rounded to float32: the statistics are of what both
/// precisions read.
Fill offset_rows(std::vector<double> deviation, std::vector<double> mean) {
  return [=](Inputs& in) {
    in.add("x", "t k", [&](Point at) { return double(float(mean[at[0]] + deviation[at[0]] * in.normal())); });
  };
}
Fill both(Fill a, Fill b) {
  return [=](Inputs& in) {
    a(in);
    b(in);
  };
}
/// The last query of the first head gives logits of 1e4.
void add_attention(Inputs& in) {
  in.add("q", "h i d",
         [&](Point at) { return in.normal() * (at[0] == 0 && at[1] + 1 == in.extent("i") ? 1e4 : 1); });
  in.add_normal("k", "h j d");
  in.add_normal("v", "h j e");
}
void add_mask(Inputs& in) { // a row without keys, one that begins and one that ends without
  in.add("mask", "i j", [&](Point at) {
    const bool keep = in.uniform(0, 1) < 0.5;
    if (at[0] == 4 || (at[0] == 5 && at[1] >= 8) || (at[0] == 6 && at[1] < 30)) return 0.0;
    return double(keep);
  });
}
void add_label(Inputs& in) {
  in.add("label", "t", [&](Point) { return std::floor(in.uniform(0, in.extent("v"))); });
}

const Sizes rows_large{{"t", 4096}, {"k", 4096}}, rows_small{{"t", 6}, {"k", 37}};
const Sizes heads_large{{"h", 8}, {"i", 2048}, {"j", 2048}, {"d", 64}, {"e", 64}};
Sizes heads_of(int64_t queries, int64_t keys) {
  return {{"h", 2}, {"i", queries}, {"j", keys}, {"d", 4}, {"e", 5}};
}
const Sizes matrix_large{{"t", 2048}, {"e", 2048}, {"f", 2048}}, matrix{{"t", 6}, {"e", 37}, {"f", 5}};
const Sizes words_large{{"t", 2048}, {"e", 1024}, {"v", 32768}}, words{{"t", 6}, {"e", 4}, {"v", 37}};

std::vector<FoldsRun> make_runs() {
  std::vector<FoldsRun> out;
  const auto add = [&](FoldsRun run) -> FoldsRun& { return out.emplace_back(std::move(run)); };

  add({"softmax", rows_large, rows_small, 3, 2, .0082, .0082, 2, hard_rows("t k"), 37});
  add({"logsumexp", rows_large, rows_small, 2, 1, .0041, 0, 2, hard_rows("t k"), 1});
  add({"attention", heads_large, heads_of(9, 37), 4, 1, 34, 0, 3, add_attention});
  add({"attention causal", heads_large, heads_of(9, 9), 4, 1, 34, 0, 3, add_attention});
  add({"attention masked rows", heads_large, heads_of(9, 37), 4, 1, 34, 0, 3, both(add_attention, add_mask),
       2 * 5});
  add({"attention decode",
       {{"h", 8}, {"i", 1}, {"j", 32768}, {"d", 64}, {"e", 64}},
       heads_of(1, 40),
       4,
       2,
       .26,
       .034,
       3,
       add_attention})
      .splits = {{"j", 512, 8}};
  add({"variance", rows_large, rows_small, 2, 1, .0041, 0, 3,
       offset_rows({1, 1e-2, 3, 1, 1, 10}, {0, .3, -50, 100, 5, 1})})
      .floor = 0;
  add({"layernorm", rows_large, rows_small, 3, 2, .0082, .0082, 3,
       both(offset_rows({3, 3, 3, 3, 3, 3}, {0, 10, -5, 20, 5, 1}), normal({{"g", "k"}, {"b", "k"}}))});
  add({"kurtosis", rows_large, rows_small, 3, 1, .0041, 0, 5,
       offset_rows({3, 3, 3, 3, 3, 3}, {20, 20, 20, 20, 20, 20})});
  add({"rmsnorm+matmul", matrix_large, matrix, 2, 1, .002, 0, 2,
       normal({{"x", "t e"}, {"g", "e"}, {"w", "e f"}})});
  add({"layernorm+matmul", matrix_large, matrix, 3, 1, .0041, 0, 5,
       both([](Inputs& in) { in.add_normal("x", "t e", 1, 3); }, normal({{"g", "e"}, {"w", "e f"}}))})
      .tolerance = 2e-5;
  const auto word_inputs = [](double scale) {
    return [scale](Inputs& in) {
      in.add("x", "t e", [&](Point at) { return in.normal() * (at[0] == 2 ? scale : 1); });
      in.add_normal("w", "v e");
      add_label(in);
    };
  };
  add({"cross entropy", words_large, words, 4, 1, 67, 0, 3, word_inputs(1e3)});
  add({"argmax", rows_large, rows_small, 2, 1, .0041, 0, 2, hard_rows("t k")});
  add({"softmax entropy", rows_large, rows_small, 3, 1, .0041, 0, 3,
       offset_rows({1, 5, 30, 1, .1, 3}, {0, 0, 0, 0, 0, 0})});
  add({"safe 2-norm", rows_large, rows_small, 2, 1, .0041, 0, 2,
       [](Inputs& in) {
         const double scale[] = {1, 1e25, 1e-25, 1, 1e30, 3};
         in.add("x", "t k", [&](Point at) { return at[1] % 5 ? scale[at[0]] * in.normal() : 0; });
       }})
      .floor = 0;
  add({"SwiGLU",
       {{"t", 2048}, {"e", 2048}, {"f", 4096}},
       matrix,
       2,
       1,
       0,
       0,
       2,
       normal({{"x", "t e"}, {"w1", "e f"}, {"w2", "e f"}})});
  add({"QKV",
       {{"t", 2048}, {"e", 2048}, {"f", 2048}, {"g", 512}, {"h", 512}},
       {{"t", 6}, {"e", 37}, {"f", 5}, {"g", 3}, {"h", 3}},
       3,
       1,
       0,
       0,
       3,
       normal({{"x", "t e"}, {"wq", "e f"}, {"wk", "e g"}, {"wv", "e h"}})});
  const Fill projections = normal({{"x", "t c"}, {"wq", "c h d"}, {"wk", "c h d"}, {"wv", "c h e"}});
  add({"attention block",
       {{"t", 2048}, {"j", 2048}, {"c", 1024}, {"h", 16}, {"d", 64}, {"e", 64}},
       {{"t", 9}, {"j", 9}, {"c", 6}, {"h", 2}, {"d", 4}, {"e", 4}},
       7,
       2,
       73,
       4.2,
       3,
       projections});
  add({"transformer layer",
       {{"t", 2048}, {"j", 2048}, {"c", 1024}, {"h", 16}, {"d", 64}, {"e", 64}, {"f", 4096}, {"o", 1024}},
       {{"t", 9}, {"j", 9}, {"c", 6}, {"h", 2}, {"d", 4}, {"e", 4}, {"f", 7}, {"o", 6}},
       13,
       3,
       110,
       6.3,
       0,
       both(projections, normal({{"wo", "h e o"}, {"w1", "o f"}, {"w2", "o f"}}))})
      .tolerance = 2e-5;
  add({"conv+bn+relu",
       {{"n", 8}, {"c", 64}, {"o", 64}, {"y", 56}, {"z", 56}, {"iy", 56}, {"iz", 56}, {"kh", 3}, {"kw", 3}},
       {{"n", 2}, {"o", 4}, {"y", 5}, {"z", 6}, {"c", 3}, {"iy", 5}, {"iz", 6}, {"kh", 3}, {"kw", 3}},
       3,
       1,
       410,
       0,
       1,
       both(normal({{"x", "n c iy iz"},
                    {"r", "n o y z"},
                    {"w", "o c kh kw"},
                    {"bias", "o"},
                    {"mu", "o"},
                    {"g", "o"},
                    {"be", "o"}}),
            [](Inputs& in) { in.add("var", "o", [&](Point) { return in.uniform(0.5, 1.5); }); })});
  add({"matmul over two axes",
       {{"t", 2048}, {"h", 16}, {"e", 64}, {"o", 1024}},
       {{"t", 6}, {"h", 3}, {"e", 7}, {"o", 5}},
       2,
       1,
       34,
       0,
       1,
       normal({{"a", "t h e"}, {"w", "h e o"}})});
  add({"logsumexp over two axes",
       {{"t", 4096}, {"h", 16}, {"k", 256}},
       {{"t", 6}, {"h", 5}, {"k", 9}},
       4,
       1,
       .14,
       0,
       2,
       hard_rows("t h k"),
       1});
  add({"grouped-query attention",
       {{"h", 32}, {"g", 8}, {"i", 2048}, {"j", 2048}, {"d", 64}, {"e", 64}},
       {{"h", 6}, {"g", 2}, {"i", 9}, {"j", 37}, {"d", 4}, {"e", 5}},
       4,
       1,
       130,
       0,
       3,
       normal({{"q", "h i d"}, {"k", "g j d"}, {"v", "g j e"}, {"n", "g j"}})});
  add({"attention gradient", heads_large, heads_of(9, 37), 9, 4, 67, 1.1, 0,
       normal({{"q", "h i d"}, {"k", "h j d"}, {"v", "h j e"}, {"do", "h i e"}})})
      .tolerance = 2e-5;
  add({"cross entropy gradient", words_large, words, 4, 1, 67, 0, 0, word_inputs(1)});
  add({"layernorm gradient", rows_large, rows_small, 5, 2, .016, .016, 0,
       [](Inputs& in) {
         in.add_normal("x", "t k", 3, 2);
         in.add_normal("dy", "t k");
       }})
      .tolerance = 2e-5;
  add({"three largest", rows_large, rows_small, 3, 1, .0082, 0, 3, hard_rows("t k")});
  add({"prefix-normalised sum", rows_large, rows_small, 2, 1, 17, 0, 1,
       normal({{"x", "t k"}, {"y", "t k"}})});
  add({"causal linear attention",
       {{"h", 8}, {"t", 2048}, {"j", 2048}, {"d", 64}, {"e", 64}},
       {{"h", 2}, {"t", 9}, {"j", 9}, {"d", 4}, {"e", 5}},
       2,
       1,
       34,
       0,
       1,
       normal({{"q", "h t d"}, {"k", "h j d"}, {"v", "h j e"}})});
  return out;
}

} // namespace

const std::vector<FoldsRun>& folds_runs() {
  static const std::vector<FoldsRun> all = make_runs();
  return all;
}

const FoldsRun& run_named(const std::string& name) {
  for (const FoldsRun& run : folds_runs())
    if (run.name == name) return run;
  throw Error("there is no run " + name);
}

} // namespace luminal::egraph::folds
