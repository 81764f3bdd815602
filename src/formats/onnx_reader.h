// formats/onnx_reader.h -- what the readers of ONNX's messages share.
#pragma once
#include "formats/onnx.h"
#include "formats/onnx_wire.h"

namespace luminal::onnx::detail {

/// Files that hold tensors of a model, beside it: each is mapped once.
class ExternalFiles {
public:
  /// `model`: the path of the model; empty: it has no place, and other files are refused.
  explicit ExternalFiles(std::string model) : model_(std::move(model)) {}
  /// Bytes `offset` .. `offset + length` (-1: to its end) of the file at `location`, a path below
  /// the model's folder.
  std::span<const std::byte> read(const Wire& at, const std::string& location, int64_t offset,
                                  int64_t length);
  std::vector<std::shared_ptr<const MappedFile>> take() { return std::move(files_); }

private:
  std::string model_;
  std::map<std::string, size_t> known_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

TensorData read_tensor(Wire wire, ExternalFiles& files);

} // namespace luminal::onnx::detail
