// formats/tensor_sources.cpp -- tensors written one by one.
#include "formats/tensor_sources.h"
#include "base/file_draft.h"
#include "formats/parse.h"
#include <filesystem>

namespace luminal {

Result<void> write_sources(const std::string& path, const SourceFile& file,
                           std::span<const TensorSource> sources, const SourceProgress& progress) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    return Failure{fmt::format("{}: there is no folder {}", path, folder.string())};
  if (std::filesystem::is_directory(path, error)) return Failure{fmt::format("{}: Is a directory", path)};
  auto draft = FileDraft::create(path);
  if (!draft) return draft.failure();
  if (auto done = draft->append(detail::as_bytes(file.header)); !done) return done;
  const std::string zeros(file.alignment, '\0');
  for (const size_t i : file.order) {
    if (progress) progress(i);
    const auto bytes = sources[i].bytes();
    if (!bytes) return bytes.failure();
    if (const auto expected = storage_bytes(sources[i].type, sources[i].shape); bytes->size() != expected)
      return Failure{fmt::format("{}: tensor {} has {} bytes, expected {}", path,
                                 detail::in_quotes(sources[i].name), bytes->size(), expected.value_or(0))};
    if (auto done = draft->append(detail::as_bytes(*bytes)); !done) return done;
    const size_t filling = (file.alignment - bytes->size() % file.alignment) % file.alignment;
    if (auto done = draft->append(detail::as_bytes(std::string_view(zeros).substr(0, filling))); !done)
      return done;
  }
  return draft->finish();
}

} // namespace luminal
