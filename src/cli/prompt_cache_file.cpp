// cli/prompt_cache_file.cpp -- reading and writing the keys and values of a prompt.
#include "cli/prompt_cache_file.h"
#include "base/file.h"
#include "base/print.h"
#include "luminal/error.h"
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

namespace luminal::cli {

PromptCacheFile::PromptCacheFile(const std::string& path, bool read_only, const ModelFile& file,
                                 const models::LlamaOptions& options)
    : path_(path), read_only_(read_only) {
  if (path.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error))
    throw Error(fmt::format("--prompt-cache {}: there is no folder {}", path, folder.string()));
  key_ = models::prompt_cache_key(file, options);
  if (!file_exists(path)) {
    if (read_only)
      throw Error(fmt::format("--prompt-cache {}: no such file, and it is not to be written", path));
    return;
  }
  auto opened = models::open_prompt_cache(path);
  if (!opened) throw Error(opened.error());
  const std::string reason = models::why_not(*opened, key_, options);
  if (reason.empty())
    cache_ = std::move(*opened);
  else
    print_stderr("note: {}: {}; the prompt is read anew{}\n", path, reason,
                 read_only ? "" : " and the file replaced");
}

int64_t PromptCacheFile::restore(models::Generator& generator, std::span<const int32_t> prompt) {
  if (path_.empty()) return 0;
  const int64_t shared = cache_ ? models::restore_prompt(generator, *cache_, prompt) : 0;
  if (cache_) print_stderr("prompt cache: {} of {} tokens from {}\n", shared, prompt.size(), path_);
  const bool whole =
      cache_ &&
      std::mismatch(prompt.begin(), prompt.end(), cache_->tokens.begin(), cache_->tokens.end()).first ==
          prompt.end();
  if (whole || read_only_) return shared;
  generator.when_prompt_is_fed([this, &generator] {
    if (const auto done = models::save_prompt_cache(path_, key_, generator); !done) failure_ = done.error();
  });
  return shared;
}

void PromptCacheFile::finish() const {
  if (!failure_.empty()) throw Error(failure_);
}

} // namespace luminal::cli
