// formats/safetensors.h -- the safetensors format: reading by mmap, shards, saving.
// Format: u64 little-endian header length, a JSON header, raw row-major data.
// https://github.com/huggingface/safetensors
#pragma once
#include "base/file.h"
#include "base/result.h"
#include "formats/tensor_sources.h"
#include "formats/tensor_view.h"
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// The content of one safetensors file or of a set of shards. Views point into the bytes given to
/// the parser.
struct Safetensors {
  /// In the order of the data in the file (shards one after another); names are unique.
  std::vector<TensorView> tensors;
  /// The `__metadata__` of the header (of the first shard that has it).
  std::map<std::string, std::string> metadata;
  /// Alive as long as the views are used. Empty where `parse_safetensors` was given memory.
  std::vector<std::shared_ptr<const MappedFile>> files;

  /// nullptr where there is no such tensor. Linear in the number of tensors; ModelFile::find is
  /// indexed.
  const TensorView* find(std::string_view name) const;
};

/// Reads a whole file image. Refuses, with `file_name`, the byte offset, what was found and what
/// was expected: a header over 100 MB, JSON that is malformed or nested too deep, duplicate names,
/// unknown dtypes, sizes that overflow or disagree with dtype and shape, overlaps, holes, data
/// outside the file, bytes after the last tensor.
Result<Safetensors> parse_safetensors(std::span<const std::byte> bytes, std::string_view file_name);

/// Maps and parses one file.
Result<Safetensors> open_safetensors(const std::string& path);

/// Opens the shards that a `*.safetensors.index.json` names (plain file names, in the folder of the
/// index). Each tensor of the index must be in the shard it names, and no tensor in two shards.
Result<Safetensors> open_safetensors_index(const std::string& index_path);

/// Writes one file: header aligned to 8 bytes, data in descending element size and then the given
/// order, as the reference implementation does. The file appears complete or not at all (temporary
/// name, fsync, rename). Fails for types that safetensors does not have, for duplicate names, and
/// where bytes and shape disagree.
Result<void> save_safetensors(const std::string& path, std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata = {});

/// The same with tensors that are made one after another, when they are written.
Result<void> stream_safetensors(const std::string& path, std::span<const TensorSource> tensors,
                                const std::map<std::string, std::string>& metadata,
                                const SourceProgress& progress = {});

/// The first as a byte string.
Result<std::string> serialize_safetensors(std::span<const TensorView> tensors,
                                          const std::map<std::string, std::string>& metadata = {});

} // namespace luminal
