// cli/run_draft.h -- --draft MODEL of `luminal run`, `chat`, `serve`: the small model that proposes tokens.
#pragma once
#include "cli/common.h"
#include "models/batch.h"
#include <memory>
#include <string>

namespace luminal::cli {

class RunDraft {
public:
  /// `path`: of the small model; `options`: of the model whose file is `target`, which are told to give the
  /// logits of `count` proposals and one more. With options.model.slots it proposes for as many texts at
  /// once. Throws Error where the file cannot be read or has another vocabulary. `target` outlives this.
  RunDraft(const std::string& path, int64_t count, const ModelFile& target,
           models::GeneratorOptions& options);
  /// Of both models.
  models::Generator::Estimate estimate() const;
  /// Of both, where the memory of the model that checks is known.
  models::Generator::Estimate estimate(models::Generator::Estimate target) const;
  /// seed -1: a random one.
  void compile(const SamplerOptions& sampling, int64_t seed);
  models::Draft* get() const { return draft_.get(); }
  /// For several texts, each with its own options of sampling.
  models::DraftBatch& compile_batch();

  double share() const; ///< of proposed tokens that were accepted; 0 where none was proposed
  std::string line() const;
  Json json() const;

private:
  std::string path_;
  int64_t count_;
  const ModelFile& target_;
  ModelFile file_;
  models::LlamaOptions target_model_;
  models::GeneratorOptions options_;
  std::unique_ptr<models::Draft> draft_;
  std::unique_ptr<models::DraftBatch> batch_;
};

/// --draft of a batch, and the memory of it all.
struct BatchArguments {
  std::string draft, max_memory; ///< paths and amounts as given; empty: none
  int64_t draft_count = 4;
  int64_t beside = 0; ///< bytes of further weights
};
/// Announces the memory that a batch with `options` takes (Error where it is more than there may be), then
/// compiles the draft, which `options` name. Null: there is none. The result outlives the batch.
std::unique_ptr<RunDraft> prepare_batch(const ModelFile& file, const BatchArguments& arguments,
                                        models::BatchOptions& options);

} // namespace luminal::cli
