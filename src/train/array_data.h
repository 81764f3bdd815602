// train/array_data.h -- a data set whose fields lie in memory, or in mapped files.
#pragma once
#include "luminal/train_data.h"

namespace luminal::train {

struct ArrayField {
  DataField field;
  std::span<const std::byte> bytes; // [samples, shape..]
  std::shared_ptr<const void> owner;
  std::vector<std::string> classes = {};
};
/// All fields must have as many samples.
DataSetPtr array_data(std::vector<ArrayField> fields, int64_t count);

} // namespace luminal::train
