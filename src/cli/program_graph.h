// cli/program_graph.h -- a model file as the graph that a verb compiles: the options that say how, and the
// sizes it is compiled for.
#pragma once
#include "cli/common.h"
#include "expr/expr.h"
#include "formats/model_files.h"
#include "luminal/graph.h"
#include "luminal/onnx.h"
#include "models/llama.h"
#include <optional>

namespace luminal::cli {

struct GraphArguments {
  std::string path, cache_type = "f32", activations = "exact";
  int threads = 0;
  int64_t context = 0, chunk = 128;
  std::vector<std::string> sizes, inputs;
  bool allow_custom = false;

  bool terms() const { return path.ends_with(".lum"); }
};
/// Options of GGUF files, ONNX models and terms alike; `sizes_for`: what --size is for.
void add_graph_options(CLI::App& verb, GraphArguments& arguments, const std::string& sizes_for);
/// Throws UsageError where an option is for another kind of file.
void refuse_other_options(const CLI::App& verb, const GraphArguments& arguments);
/// Sizes that the program can have: a misspelt or impossible one would be compiled for nothing. Throws
/// UsageError.
void check_sizes(const std::map<std::string, int64_t>& sizes, const std::vector<Expr>& symbols,
                 const std::string& path);

/// How `luminal run` compiles the language model of a file: context 0 is what the file declares, at most
/// 4096.
models::LlamaOptions llama_options(const ModelFile& file, int64_t context, int64_t chunk,
                                   const std::string& cache_type, const std::string& activations);

/// A language model (GGUF, safetensors, a folder) as `luminal run` compiles it, or an ONNX model.
class ProgramGraph {
public:
  explicit ProgramGraph(const GraphArguments& arguments);
  Graph& graph() { return llama_ ? llama_->graph : onnx_->graph; }
  CompileOptions options; ///< threads and sizes

private:
  std::optional<ModelFile> file_;
  std::optional<models::Llama> llama_;
  std::optional<OnnxModel> onnx_;
};

} // namespace luminal::cli
