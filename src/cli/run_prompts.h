// cli/run_prompts.h -- `luminal run --prompts FILE`: many prompts, generated several at a time.
#pragma once
#include "formats/grammar.h"
#include "formats/model_files.h"
#include "models/llama.h"
#include "models/sampler.h"
#include <memory>
#include <string>
#include <vector>

namespace luminal::cli {

struct PromptsArguments {
  std::string file; ///< a prompt a line: JSON objects, or texts; -: standard input
  models::LlamaOptions model;
  CompileOptions compile;
  std::string max_memory;
  std::string draft; ///< a small model that proposes tokens of all texts; empty: none
  int64_t draft_count = 4;
  int64_t parallel = 8; ///< texts at once
  int64_t count = -1;   ///< most tokens of each; -1: until it ends or the context is full
  int64_t seed = -1;    ///< of each text; -1: a random one for each
  SamplerOptions sampler;
  std::vector<std::string> stops;
  std::shared_ptr<const Grammar> grammar; ///< of each text; none: any
  bool ignore_end = false, plain = false; ///< plain: names of special tokens are ordinary text
};
/// A JSON line for each prompt on standard output, in the order of the file. What is wrong with one prompt
/// stands in its line, and the exit code is 1. Throws Error for what concerns all of them.
int run_prompts(const ModelFile& file, const PromptsArguments& arguments);

} // namespace luminal::cli
