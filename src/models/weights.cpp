// models/weights.cpp -- files' tensors as weights.
#include "models/weights.h"
#include "base/file.h"
#include "luminal/files.h"
#include "tensor/packed_blocks.h"
#include <fmt/format.h>

namespace luminal::models {
namespace {

std::optional<DType> plain_dtype(StorageType type) {
  switch (type) {
  case StorageType::f64: return DType::f64;
  case StorageType::f32: return DType::f32;
  case StorageType::f16: return DType::f16;
  case StorageType::bf16: return DType::bf16;
  default: return {};
  }
}

} // namespace

Tensor file_weight(Graph& graph, const ModelFile& file, const TensorView& view,
                   std::optional<QuantizedWeight>* codes, RowOrder order) {
  std::shared_ptr<const void> owner = file.changed_bytes; // none: bytes of the program
  if (view.file_index < file.files.size()) owner = file.files[view.file_index];
  if (auto dtype = plain_dtype(view.type)) {
    Dims shape(view.shape.begin(), view.shape.end());
    Tensor weight = graph.weight(view.name, shape, *dtype);
    weight.borrow(view.bytes.data(), view.bytes.size(), owner);
    return weight;
  }
  int64_t columns = view.shape.empty() ? 1 : view.shape.back();
  int64_t rows = columns ? view.elements() / columns : 0;
  const auto& info = storage_info(view.type);
  Tensor raw = graph.weight(view.name, {rows, columns / info.block_elements * info.block_bytes}, DType::u8);
  raw.borrow(view.bytes.data(), view.bytes.size(), owner);
  const auto packed = packed_weight(raw, view.type, rows, columns, RowOrder::apart);
  if (!packed)
    throw Error(fmt::format("{}: tensor {} is stored as {}; F64 F32 F16 BF16 {} can be run", file.path,
                            view.name, info.name, packed_type_names()));
  if (codes) *codes = packed_weight(raw, view.type, rows, columns, order);
  Tensor values = dequantize(*packed);
  return view.shape.size() == 2 ? values : values.reshape(Dims(view.shape.begin(), view.shape.end()));
}

void load_all(const std::map<std::string, Tensor>& weights, const ModelFile& file,
              const std::function<std::string(const std::string& name)>& name_in_file) {
  std::string path = file.path;
  if (file.kind == ModelFileKind::hf_folder) {
    path += "/model.safetensors";
    if (const std::string index = path + ".index.json"; file_exists(index)) path = index;
  }
  const LoadReport report =
      load(weights, path, {.strict = false, .convert = true, .name_in_file = name_in_file});
  if (!report.missing.empty())
    throw Error(fmt::format("{}: no tensor {} ({} of {} are missing)", file.path,
                            name_in_file(report.missing[0]), report.missing.size(), weights.size()));
  if (!report.mismatching.empty())
    throw Error(fmt::format("{}: tensor {}: {}", file.path, report.mismatching[0].name,
                            report.mismatching[0].reason));
}

} // namespace luminal::models
