// train/image_data.cpp -- a folder of pictures with a folder for each class.
#include "base/text.h"
#include "formats/image.h"
#include "luminal/train_data.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

namespace luminal::datasets {
namespace {

bool is_picture(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  constexpr std::string_view endings[] = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".gif"};
  return std::find(std::begin(endings), std::end(endings), ending) != std::end(endings);
}

std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder, Where where) {
  std::error_code error;
  std::vector<std::filesystem::path> list;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    list.push_back(at->path());
  if (error) throw Error("image_folder", fmt::format("{}: {}", folder.string(), error.message()), where);
  std::sort(list.begin(), list.end());
  return list;
}

class ImageData : public DataSet {
public:
  ImageData(std::vector<std::pair<std::string, int64_t>> files, std::vector<std::string> classes,
            const ImageFolderOptions& options)
      : files_(std::move(files)), classes_(std::move(classes)), options_(options),
        fields_{{"x", DType::u8, {options.channels, options.height, options.width}}, {"y", DType::i64, {}}} {}
  int64_t size() const override { return int64_t(files_.size()); }
  const std::vector<DataField>& fields() const override { return fields_; }
  std::vector<std::string> classes(const std::string& field) const override {
    return field == "y" ? classes_ : std::vector<std::string>();
  }
  void read(int64_t index, std::span<std::byte* const> into) const override {
    const auto& [file, label] = files_[size_t(index)];
    auto image = open_image(file, options_.channels);
    if (!image) throw Error("image_folder: " + image.error());
    const Image fitting = resized(*image, options_.height, options_.width);
    const int64_t points = options_.height * options_.width;
    for (int64_t c = 0; c < options_.channels; ++c) // channels side by side -> channels one after the other
      for (int64_t i = 0; i < points; ++i)
        into[0][c * points + i] = std::byte(fitting.pixels[size_t(i * options_.channels + c)]);
    std::memcpy(into[1], &label, sizeof label);
  }

private:
  std::vector<std::pair<std::string, int64_t>> files_;
  std::vector<std::string> classes_;
  ImageFolderOptions options_;
  std::vector<DataField> fields_;
};

} // namespace

DataSetPtr image_folder(const std::string& path, const ImageFolderOptions& given, Where where) {
  constexpr std::string_view op = "image_folder";
  ImageFolderOptions options = given;
  if (options.height < 0 || options.width < 0 || (options.height == 0) != (options.width == 0) ||
      (options.channels != 1 && options.channels != 3))
    throw Error(
        op,
        fmt::format("height {}, width {}, {} channels: both sizes or none, and 1 or 3 channels are expected",
                    options.height, options.width, options.channels),
        where);
  std::vector<std::pair<std::string, int64_t>> files;
  std::vector<std::string> classes;
  for (const auto& folder : sorted_entries(path, where)) {
    if (!std::filesystem::is_directory(folder)) continue;
    const size_t before = files.size();
    for (const auto& file : sorted_entries(folder, where))
      if (is_picture(file)) files.emplace_back(file.string(), int64_t(classes.size()));
    if (files.size() > before) classes.push_back(folder.filename().string());
  }
  if (files.empty())
    throw Error(
        op, fmt::format("{}: no picture in a folder below it; there must be a folder for each class", path),
        where);
  if (options.height == 0) { // all must be alike
    for (const auto& [file, label] : files) {
      auto image = open_image(file, options.channels);
      if (!image) throw Error(op, image.error(), where);
      if (options.height == 0) {
        options.height = image->height;
        options.width = image->width;
      }
      if (image->height != options.height || image->width != options.width)
        throw Error(op,
                    fmt::format("{} is {} x {}, {} is {} x {}: give height and width", file, image->height,
                                image->width, files[0].first, options.height, options.width),
                    where);
    }
  }
  return std::make_shared<ImageData>(std::move(files), std::move(classes), options);
}

} // namespace luminal::datasets
