// cli/run_draft.cpp -- opening, compiling and reporting the model that proposes tokens.
#include "cli/run_draft.h"
#include "cli/announce.h"
#include <algorithm>
#include <fmt/format.h>
#include <random>

namespace luminal::cli {

using models::Generator;

RunDraft::RunDraft(const std::string& path, int64_t count, const ModelFile& target,
                   models::GeneratorOptions& options)
    : path_(path), count_(count), target_(target), options_(options) {
  auto opened = open_model(path);
  if (!opened) throw Error(opened.error());
  file_ = std::move(*opened);
  models::Draft::check_vocabulary(target, file_);
  const ModelConfig& config = file_.require_config();
  if (config.learned_positions)
    options_.model.context = std::min(options_.model.context, config.context_length);
  options_.compile.search = {}; // --tune is for the model that checks
  options.model.rows = std::max<int64_t>(1, options.model.slots) * (count + 1);
  target_model_ = options.model;
}

Generator::Estimate RunDraft::estimate() const {
  return estimate(Generator::estimate(target_, target_model_));
}

Generator::Estimate RunDraft::estimate(Generator::Estimate both) const {
  const Generator::Estimate more = Generator::estimate(file_, options_.model);
  both.weights += more.weights;
  both.cache += more.cache * std::max<int64_t>(1, options_.model.slots);
  both.working += more.working;
  return both;
}

void RunDraft::compile(const SamplerOptions& sampling, int64_t seed) {
  SamplerOptions how = sampling;
  how.seed = seed >= 0 ? uint64_t(seed) : std::random_device{}();
  draft_ = std::make_unique<models::Draft>(target_, file_, options_, count_, how);
}

models::DraftBatch& RunDraft::compile_batch() {
  batch_ = std::make_unique<models::DraftBatch>(target_, file_, options_, count_);
  return *batch_;
}

double RunDraft::share() const {
  return draft_->proposed > 0 ? double(draft_->accepted) / double(draft_->proposed) : 0;
}

std::string RunDraft::line() const {
  return fmt::format("draft: {} of {} proposed tokens accepted ({:.1f} %)", draft_->accepted,
                     draft_->proposed, 100 * share());
}

Json RunDraft::json() const {
  return {{"model", path_},
          {"count", count_},
          {"proposed", draft_->proposed},
          {"accepted", draft_->accepted},
          {"share", share()}};
}

std::unique_ptr<RunDraft> prepare_batch(const ModelFile& file, const BatchArguments& a,
                                        models::BatchOptions& options) {
  std::unique_ptr<RunDraft> draft;
  if (!a.draft.empty()) {
    models::GeneratorOptions both{options.model, options.compile};
    draft = std::make_unique<RunDraft>(a.draft, a.draft_count, file, both);
    options.model.rows = both.model.rows;
  }
  Generator::Estimate estimate = Generator::estimate(file, options.model);
  estimate.cache *= options.model.slots;
  if (draft) estimate = draft->estimate(estimate);
  estimate.weights += a.beside;
  announce_memory(file.path, estimate, a.max_memory,
                  "A smaller --ctx or --parallel, or --cache-type f16, needs less");
  if (draft) options.draft = &draft->compile_batch();
  return draft;
}

} // namespace luminal::cli
