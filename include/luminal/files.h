// luminal/files.h -- weights from files and back, by name: safetensors, GGUF, npz, npy.
#pragma once
#include "luminal/graph.h"
#include <functional>
#include <iosfwd>

namespace luminal {

struct LoadOptions {
  /// Every weight of the graph must be in the file, and every tensor of the file in the graph.
  /// Otherwise both are listed in the report.
  bool strict = true;
  /// Numbers of another type are converted to the weight's, and quantised ones of GGUF are
  /// unpacked, when they are first needed. Otherwise they do not fit.
  bool convert = false;
  /// The file's name for a weight of this name; empty: the same.
  std::function<std::string(const std::string& weight)> name_in_file = {};
};

/// What load did, by the names of weights (`unused`: of the file's tensors), each list in
/// alphabetical order.
struct LoadReport {
  struct Mismatch {
    std::string name, reason; ///< "the weight is f32[2, 3], the file has F16 [2, 3]"
  };
  std::vector<std::string> loaded, missing, unused;
  std::vector<Mismatch> mismatching;
  bool complete() const { return missing.empty() && unused.empty() && mismatching.empty(); }
};
std::string to_string(const LoadReport& report);
std::ostream& operator<<(std::ostream& out, const LoadReport& report);

/// Gives the weights of the graph the values of a file. What a file is shows in its first bytes:
/// safetensors (or an index of shards), GGUF (or one part of several), npz, npy (whose one array
/// has the name of the file without its ending). Files are mapped, not read: a weight of the file's
/// type is used where it lies, as long as the graph or its tensors live; only what is not aligned
/// to its elements is copied. A weight u8 [rows, bytes] of a quantised tensor gets the packed
/// blocks. Throws Error, and sets nothing, for a file that cannot be read and, where strict, unless
/// all names and types fit.
LoadReport load(Graph& graph, const std::string& path, const LoadOptions& options = {},
                std::source_location where = std::source_location::current());
/// The same for these weights, states and inputs, by the names here.
LoadReport load(const std::map<std::string, Tensor>& tensors, const std::string& path,
                const LoadOptions& options = {},
                std::source_location where = std::source_location::current());

struct SaveOptions {
  bool states = false;                              ///< states, too, as they are after the last execute
  std::map<std::string, std::string> metadata = {}; ///< of safetensors and GGUF
};
/// Writes all weights under their names; the ending of the path says the kind: .safetensors, .gguf,
/// .npz, .npy (of a graph with one weight). The file appears complete or not at all. Throws Error
/// for a weight without a value, and for a type that the kind of file does not have.
void save(const Graph& graph, const std::string& path, const SaveOptions& options = {},
          std::source_location where = std::source_location::current());

/// The same for tensors with values (weights, states, kept results), by the names here.
void save(const std::map<std::string, Tensor>& tensors, const std::string& path,
          const SaveOptions& options = {}, std::source_location where = std::source_location::current());

/// A tensor of a file, without its values.
struct StoredTensor {
  std::string name;
  std::string type; ///< "F32", "BF16", "Q4_K", ...
  std::vector<int64_t> shape;
};
/// What is in a file that load takes, in its order.
std::vector<StoredTensor> tensors_in(const std::string& path,
                                     std::source_location where = std::source_location::current());

} // namespace luminal
