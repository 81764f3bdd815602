// models/picture_folder.cpp -- the configuration of a model of pictures, and of what makes numbers of pixels.
#include "models/picture_folder.h"
#include "base/file.h"
#include "formats/json.h"
#include <charconv>
#include <fmt/format.h>

namespace luminal::models {
namespace {

using detail::in_quotes;
using detail::Json;

/// Members of one JSON file.
class Fields {
public:
  Fields(const Json& json, const std::string& file) : json_(json), file_(file) {
    json.as_object(file, "the configuration");
  }
  const Json* find(std::string_view key) const { return json_.find(key); }
  const std::string& file() const { return file_; }
  void integer(std::string_view key, int64_t& value) const {
    if (const Json* found = find(key)) value = whole(*found, key);
  }
  int64_t whole(const Json& found, std::string_view key) const {
    const int64_t value = found.as_int(file_, in_quotes(key));
    if (value < 1 || value > 1 << 16)
      detail::refuse_at(file_, found.offset,
                        fmt::format("{} is {}, expected 1 to {}", in_quotes(key), value, 1 << 16));
    return value;
  }
  void real(std::string_view key, double& value) const {
    if (const Json* found = find(key)) value = found->as_real(file_, in_quotes(key));
  }
  bool boolean(std::string_view key, bool otherwise) const {
    const Json* found = find(key);
    return found == nullptr ? otherwise : found->as_bool(file_, in_quotes(key));
  }
  std::string text(std::string_view key, std::string otherwise) const {
    const Json* found = find(key);
    return found == nullptr ? otherwise : found->as_string(file_, in_quotes(key));
  }
  template <class T> std::vector<T> list(std::string_view key, std::vector<T> otherwise) const {
    const Json* found = find(key);
    if (found == nullptr) return otherwise;
    std::vector<T> values;
    for (const Json& item : found->as_array(file_, in_quotes(key))) {
      if constexpr (std::is_same_v<T, double>)
        values.push_back(item.as_real(file_, in_quotes(key)));
      else
        values.push_back(whole(item, key));
    }
    return values;
  }
  /// Throws unless the field is absent or this.
  void only(std::string_view key, bool value) const {
    const Json* found = find(key);
    if (found != nullptr && found->as_bool(file_, in_quotes(key)) != value)
      detail::refuse_at(file_, found->offset,
                        fmt::format("{} is {}, expected {}", in_quotes(key), !value, value));
  }
  void only(std::string_view key, const char* value) const { // no view: it would be taken for a bool
    const Json* found = find(key);
    if (found == nullptr) return;
    if (const std::string& is = found->as_string(file_, in_quotes(key)); is != value)
      detail::refuse_at(
          file_, found->offset,
          fmt::format("{} is {}, expected {}", in_quotes(key), in_quotes(is), in_quotes(value)));
  }

private:
  const Json& json_;
  const std::string& file_;
};

template <class F> void with_fields(const std::string& file, F&& f) {
  const auto text = read_file(file);
  if (!text) throw Error(text.error());
  const auto read = detail::guarded(file, [&] {
    const Json json = detail::parse_json(*text, file);
    f(Fields(json, file));
  });
  if (!read) throw Error(read.error());
}

std::vector<std::string> labels_in(const Fields& in) {
  std::vector<std::string> labels;
  const Json* names = in.find("id2label");
  if (names == nullptr) return labels;
  const auto& members = names->as_object(in.file(), "\"id2label\"");
  labels.resize(members.size());
  for (const auto& [key, value] : members) {
    size_t id = labels.size();
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id >= labels.size())
      detail::refuse_at(
          in.file(), value.offset,
          fmt::format("\"id2label\" has the class {}, expected 0 to {}", in_quotes(key), labels.size() - 1));
    labels[id] = value.as_string(in.file(), in_quotes(key));
  }
  return labels;
}

void read_model(const Fields& in, PictureFolder& folder) {
  folder.labels = labels_in(in);
  int64_t classes = folder.labels.empty() ? 2 : int64_t(folder.labels.size()); // as transformers have it
  if (folder.labels.empty()) in.integer("num_labels", classes);
  const std::string type = in.text("model_type", "?");
  int64_t channels = 3;
  in.integer("num_channels", channels);
  if (channels != 3) detail::refuse(in.file(), fmt::format("pictures of {} channels, expected 3", channels));
  if (type == "vit") {
    VitConfig c{.classes = classes};
    in.integer("hidden_size", c.encoder.width);
    in.integer("num_hidden_layers", c.encoder.layers);
    in.integer("num_attention_heads", c.encoder.heads);
    in.integer("intermediate_size", c.encoder.inner);
    in.integer("image_size", c.image);
    in.integer("patch_size", c.patch);
    in.real("layer_norm_eps", c.encoder.eps);
    c.encoder.activation = in.text("hidden_act", c.encoder.activation);
    in.only("qkv_bias", true);
    folder.config = c;
  } else if (type == "resnet") {
    ResNetConfig c{.classes = classes};
    in.integer("embedding_size", c.stem);
    c.widths = in.list("hidden_sizes", c.widths);
    c.depths = in.list("depths", c.depths);
    const std::string layer = in.text("layer_type", "bottleneck");
    if (layer != "basic" && layer != "bottleneck")
      detail::refuse(in.file(), fmt::format("\"layer_type\" is {}, expected \"basic\" or \"bottleneck\"",
                                            in_quotes(layer)));
    c.bottleneck = layer == "bottleneck";
    c.halve_first = in.boolean("downsample_in_first_stage", false);
    c.stride_in_front = in.boolean("downsample_in_bottleneck", false);
    in.only("hidden_act", "relu");
    folder.config = c;
  } else if (type == "mobilenet_v2") {
    MobileNetConfig c{.classes = classes};
    in.real("depth_multiplier", c.multiplier);
    in.real("layer_norm_eps", c.eps);
    c.same_padding = in.boolean("tf_padding", true);
    in.only("hidden_act", "relu6");
    in.only("finegrained_output", true);
    in.only("first_layer_is_expansion", true);
    for (const auto& [key, value] :
         {std::pair("expand_ratio", 6), {"output_stride", 32}, {"min_depth", 8}, {"depth_divisible_by", 8}})
      if (const Json* found = in.find(key); found != nullptr && found->as_real(in.file(), key) != value)
        detail::refuse_at(in.file(), found->offset,
                          fmt::format("{} is another one than {}", in_quotes(key), value));
    folder.config = c;
  } else {
    detail::refuse(in.file(), fmt::format("a model of type {}, expected \"vit\", \"resnet\" or "
                                          "\"mobilenet_v2\" (or a model as ONNX)",
                                          in_quotes(type)));
  }
}

/// A number for both sides, or {"height", "width"}; nothing where it is {"shortest_edge"}.
std::optional<std::array<int64_t, 2>> sides_in(const Fields& in, const Json& size, const char* key) {
  if (size.is_number()) {
    const int64_t side = in.whole(size, key);
    return std::array{side, side};
  }
  const Fields sides(size, in.file());
  if (sides.find("shortest_edge") != nullptr) return {};
  std::array<int64_t, 2> both{};
  sides.integer("height", both[0]);
  sides.integer("width", both[1]);
  if (both[0] == 0 || both[1] == 0)
    detail::refuse_at(in.file(), size.offset, fmt::format("{} has no height and width", in_quotes(key)));
  return both;
}

void read_pixels(const Fields& in, PictureFolder& folder) {
  PixelOptions& pixels = folder.pixels;
  in.only("do_resize", true);
  const int64_t filter =
      in.find("resample") == nullptr ? 2 : in.find("resample")->as_int(in.file(), "\"resample\"");
  if (filter < 1 || filter > 3)
    detail::refuse(in.file(),
                   fmt::format("\"resample\" is {}, expected 1 (Lanczos), 2 (linear) or 3 (cubic)", filter));
  pixels.filter = filter == 1   ? ImageFilter::lanczos
                  : filter == 2 ? ImageFilter::bilinear
                                : ImageFilter::bicubic;
  const Json* size = in.find("size");
  if (size == nullptr) detail::refuse(in.file(), "\"size\" is missing");
  const std::string kind = in.text("image_processor_type", in.text("feature_extractor_type", ""));
  auto sides = sides_in(in, *size, "size");
  int64_t shortest =
      sides ? (*sides)[0] : Fields(*size, in.file()).whole(*size->find("shortest_edge"), "shortest_edge");
  if (kind.starts_with("ConvNext")) { // a part of the picture where it is small
    double part = 224.0 / 256;
    in.real("crop_pct", part);
    if (!(part > 0.01 && part <= 1))
      detail::refuse(in.file(), fmt::format("\"crop_pct\" is {}, expected 0.01 to 1", part));
    folder.size = {shortest, shortest};
    pixels.fit = shortest < 384 ? Fit::crop : Fit::stretch;
    pixels.short_side = int64_t(double(shortest) / part);
  } else if (in.boolean("do_center_crop", false)) {
    if (sides && !size->is_number())
      detail::refuse_at(in.file(), size->offset, "\"size\" has no shortest_edge, which a cut-out has");
    const Json* crop = in.find("crop_size");
    if (crop == nullptr) detail::refuse(in.file(), "\"crop_size\" is missing");
    const auto cut = sides_in(in, *crop, "crop_size");
    if (!cut) detail::refuse_at(in.file(), crop->offset, "\"crop_size\" has no height and width");
    folder.size = *cut;
    pixels.fit = Fit::crop;
    pixels.short_side = shortest;
  } else {
    if (!sides) detail::refuse_at(in.file(), size->offset, "\"size\" has no height and width");
    folder.size = *sides;
    pixels.fit = Fit::stretch;
  }
  pixels.ground = 0;
  pixels.scale = 1;
  if (in.boolean("do_rescale", true)) {
    pixels.scale = 1.0 / 255;
    in.real("rescale_factor", pixels.scale);
  }
  if (!in.boolean("do_normalize", true)) return;
  pixels.mean = in.list<double>("image_mean", {});
  pixels.deviation = in.list<double>("image_std", {});
  for (const auto& [key, values] : {std::pair("image_mean", &pixels.mean), {"image_std", &pixels.deviation}})
    if (values->size() != 3)
      detail::refuse(in.file(), fmt::format("{} has {} numbers, expected 3", in_quotes(key), values->size()));
  for (const double x : pixels.deviation)
    if (!(x < 0 || x > 0)) detail::refuse(in.file(), "\"image_std\" has a 0");
}

} // namespace

PictureFolder read_picture_folder(const std::string& path) {
  PictureFolder folder;
  with_fields(path + "/config.json", [&](const Fields& in) { read_model(in, folder); });
  with_fields(path + "/preprocessor_config.json", [&](const Fields& in) { read_pixels(in, folder); });
  if (const auto* vit = std::get_if<VitConfig>(&folder.config);
      vit != nullptr && folder.size != std::array{vit->image, vit->image})
    throw Error(fmt::format("{}: pictures of {} x {} pixels, the model has positions for {} x {}", path,
                            folder.size[0], folder.size[1], vit->image, vit->image));
  folder.weights = path + "/model.safetensors";
  if (!file_exists(folder.weights) && file_exists(folder.weights + ".index.json"))
    folder.weights += ".index.json";
  return folder;
}

} // namespace luminal::models
