// cli/serve_pictures.cpp -- pictures in requests.
#include "cli/serve_pictures.h"
#include "ir/text_names.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::cli {
namespace {

/// What the user says in a message, and the address of its picture (empty: none).
struct Said {
  std::string text, picture;
};

Said said_in(const Json& message) {
  Said said;
  const Json* content = find(message, "content");
  if (content == nullptr) return said;
  if (content->is_string()) return {content->get<std::string>(), ""};
  if (!content->is_array())
    refuse("messages", "the content of a message is neither a text nor a list of parts");
  for (const Json& part : *content) {
    const Json* type = part.is_object() ? find(part, "type") : nullptr;
    const Json* text = part.is_object() ? find(part, "text") : nullptr;
    if (type && *type == "text" && text && text->is_string()) {
      said.text += text->get<std::string>();
      continue;
    }
    if (!type || *type != "image_url")
      refuse("messages",
             fmt::format("a part of a message of type {} is not supported: text and image_url are",
                         type ? type->dump() : "none"));
    const Json* image = find(part, "image_url");
    const Json* url = image && image->is_object() ? find(*image, "url") : image;
    if (!url || !url->is_string()) refuse("messages", "a part of type image_url has no url");
    if (!said.picture.empty()) refuse("messages", "several pictures: one can be asked about");
    said.picture = url->get<std::string>();
    if (said.picture.empty()) refuse("messages", "a part of type image_url has no url");
  }
  return said;
}

/// The bytes of data:image/png;base64,...
std::vector<std::byte> bytes_of(const std::string& url) {
  const size_t comma = url.find(',');
  if (!url.starts_with("data:"))
    refuse("messages", "pictures are taken as data: URLs, nothing is fetched from elsewhere");
  if (comma == std::string::npos || !url.substr(0, comma).ends_with(";base64"))
    refuse("messages", "the data: URL of a picture is not in base64");
  std::vector<std::byte> bytes;
  if (!from_base64(std::string_view(url).substr(comma + 1), bytes))
    refuse("messages", "the data: URL of a picture is not in base64");
  return bytes;
}

} // namespace

PictureService::PictureService(models::Moondream model, int threads, bool cache) : model_(std::move(model)) {
  model_.compile(threads, cache);
}

std::shared_ptr<const std::vector<float>> PictureService::rows_of(const std::string& url) {
  const std::vector<std::byte> bytes = bytes_of(url);
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(seen_, url, &Seen::url);
  if (at != seen_.end()) return at->rows;
  const auto picture = parse_image(bytes, "the picture", 3);
  if (!picture) refuse("messages", picture.error());
  constexpr int64_t most = int64_t(1) << 26; // pixels: three bytes of each, and copies of them
  if (picture->height * picture->width > most)
    refuse("messages", fmt::format("the picture has {} x {} pixels, at most {} are read", picture->width,
                                   picture->height, most));
  seen_.push_back({url, std::make_shared<const std::vector<float>>(model_.rows_of(*picture))});
  if (seen_.size() > 8) seen_.pop_front();
  return seen_.back().rows;
}

PictureService::Prompt PictureService::read(const Json& messages) {
  std::vector<models::Moondream::Turn> turns;
  std::string picture;
  bool answered = true;
  for (const Json& message : messages) {
    const Json* role = message.is_object() ? find(message, "role") : nullptr;
    if (!role || !role->is_string()) refuse("messages", "a message has no role");
    const bool user = *role == "user";
    if (!user && *role != "assistant")
      refuse("messages",
             fmt::format("a message of the role {}: the model knows user and assistant", role->dump()));
    if (user != answered) refuse("messages", "messages are not of user and assistant by turns");
    Said said = said_in(message);
    if (!said.picture.empty()) {
      if (!user) refuse("messages", "a picture in a message of the assistant");
      if (!picture.empty()) refuse("messages", "several pictures: one can be asked about");
      picture = std::move(said.picture);
    }
    if (user)
      turns.push_back({std::move(said.text), ""});
    else
      turns.back().answer = std::move(said.text);
    answered = !user;
  }
  if (answered) refuse("messages", "the last message is not of the user");
  Prompt prompt;
  if (!picture.empty()) prompt.rows = rows_of(picture);
  try {
    prompt.tokens = model_.prompt(turns, prompt.rows != nullptr);
  } catch (const Error& error) {
    refuse("messages", error.what());
  }
  return prompt;
}

} // namespace luminal::cli
