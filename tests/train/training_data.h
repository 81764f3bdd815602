// tests/train/training_data.h -- files of the test data: tensors, indices, images of MNIST.
#pragma once
#include "base/file.h"
#include "formats/safetensors.h"
#include "luminal/luminal.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

namespace luminal::testing_train {

inline std::string data_folder() {
  const char* folder = std::getenv("LUMINAL_TEST_DATA");
  return folder ? folder : LUMINAL_SOURCE_DIR "/../shared/data";
}
inline nlohmann::json read_json(const std::string& path) {
  auto text = read_file(path);
  if (!text) throw std::runtime_error(text.error());
  return nlohmann::json::parse(*text);
}
inline std::vector<uint8_t> unzipped(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<uint8_t> bytes;
  uint8_t block[1 << 16];
  for (int n; (n = gzread(file, block, sizeof block)) > 0;) bytes.insert(bytes.end(), block, block + n);
  gzclose(file);
  return bytes;
}
/// The f32 tensors of a safetensors file.
class Tensors {
public:
  explicit Tensors(const std::string& path) : file_(open_safetensors(path)) {
    if (!file_) throw std::runtime_error(file_.error());
  }
  std::vector<float> numbers(const std::string& name) const {
    const TensorView* view = file_->find(name);
    if (!view) throw std::runtime_error("no tensor " + name);
    std::vector<float> values(view->bytes.size() / 4);
    std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
    return values;
  }
  Dims shape(const std::string& name) const {
    const auto& s = file_->find(name)->shape;
    return {s.begin(), s.end()};
  }

private:
  Result<Safetensors> file_;
};

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::fabs(double(a[i]) - double(b[i]));
    most = d <= most ? most : d; // NaN counts
  }
  return most;
}

} // namespace luminal::testing_train

/// Ends the test where the folder of the test data is absent.
#define NEEDS_DATA(name)                                                                                     \
  if (!std::filesystem::exists(luminal::testing_train::data_folder() + name))                                \
  GTEST_SKIP() << "no test data: set LUMINAL_TEST_DATA to its folder"
