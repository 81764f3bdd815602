// cli/serve_pictures.h -- conversations about a picture, with a model that sees one.
#pragma once
#include "cli/serve_json.h"
#include "models/moondream.h"
#include <deque>
#include <memory>
#include <mutex>

namespace luminal::cli {

class PictureService {
public:
  /// Compiles the vision part. `threads`, `cache`: as CompileOptions has them.
  PictureService(models::Moondream model, int threads, bool cache);

  struct Prompt {
    std::vector<int32_t> tokens;
    std::shared_ptr<const std::vector<float>> rows; ///< of the picture; null: the messages have none
  };
  /// Messages of users and answers by turns, with one picture at most, as a data: URL. Throws ApiError. For
  /// several threads at once.
  Prompt read(const Json& messages);

private:
  std::shared_ptr<const std::vector<float>> rows_of(const std::string& url);

  std::mutex mutex_;
  models::Moondream model_;
  struct Seen {
    std::string url;
    std::shared_ptr<const std::vector<float>> rows;
  };
  std::deque<Seen> seen_; ///< the pictures that were asked about last
};

} // namespace luminal::cli
