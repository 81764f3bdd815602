// tensor/effects.h -- host nodes of a running plan: print, diff, dump, compare, functions of the
// program.
#pragma once
#include "formats/tensor_view.h"
#include "luminal/debug.h"
#include "runtime/context.h"

namespace luminal {

/// What ContextOptions::host calls.
Result<void> run_host_effect(const HostAttr& effect, std::span<const runtime::HostValue> inputs,
                             std::span<runtime::HostValue> results);
/// Gives dump and compare a meaning for the interpreter too. Any number of times.
void register_file_effects();
/// To the sink, or stderr.
void write_printed(std::string_view text);

/// The element type of a stored one; none for quantised types.
std::optional<DType> dtype_of_storage(StorageType type);
std::optional<StorageType> storage_of_dtype(DType type);

/// Does the file hold the numbers alone, as f32 (.f32)?
bool is_raw_file(std::string_view path);
/// A tensor of a file: by its name, or the only one; a raw file has as many numbers as the shape.
struct FileTensor {
  std::vector<std::byte> bytes; // row-major
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
};
Result<FileTensor> read_tensor(const std::string& path, const std::string& name,
                               const std::string& fallback_name, std::span<const int64_t> shape);
/// One tensor as .npy or .safetensors, straight from its memory.
Result<void> write_tensor(const std::string& path, const std::string& name, DType dtype,
                          std::span<const int64_t> shape, std::span<const std::byte> bytes);

DiffReport difference(DType type, const std::byte* here, DType expected_type, const std::byte* expected,
                      std::span<const int64_t> shape, const DiffOptions& options);
/// The text of a compare node: file, name, tolerances.
std::string compare_text(const std::string& file, const std::string& tensor, const DiffOptions& options);

} // namespace luminal
