// formats/json.cpp -- builds the tree from nlohmann-json's events, which lets it bound depth and
// size while reading.
#include "formats/json.h"
#include "base/check.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace luminal::detail {
namespace {

/// Iterates over the text and tells how far it is.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at = nullptr;
  const char** furthest = nullptr;
  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    *furthest = at;
    return *this;
  }
  CountingIterator operator++(int) {
    const auto before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

class Builder {
public:
  Builder(std::string_view file, const char* begin, const char* const* furthest, uint64_t base)
      : file_(file), begin_(begin), furthest_(furthest), base_(base) {}

  // The events of nlohmann::json_sax.
  bool null() { return add(nullptr); }
  bool boolean(bool v) { return add(v); }
  bool number_integer(int64_t v) { return add(v); }
  bool number_unsigned(uint64_t v) { return add(v); }
  bool number_float(double v, const std::string& text) {
    LUMINAL_CHECK(std::isfinite(v), "the library gives {} for {}", v, text); // it refuses 1e999 itself
    return add(v);
  }
  bool string(std::string& v) { return add(std::move(v)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return open(std::make_unique<Json::Object>()); }
  bool key(std::string& name) {
    keys_.back() = std::move(name);
    return true;
  }
  bool end_object() {
    check_unique(*std::get<std::unique_ptr<Json::Object>>(stack_.back()->value));
    return close();
  }
  bool start_array(size_t) { return open(std::make_unique<Json::Array>()); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    std::string_view reason = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
    // value - ..."
    if (const auto colon = reason.find(": "); colon != std::string_view::npos)
      reason.remove_prefix(colon + 2);
    else if (const auto head = reason.find("] ");
             head != std::string_view::npos) // "[json.exception.out_of_range.406] number overflow ..."
      reason.remove_prefix(head + 2);
    const uint64_t before = position == 0 ? 0 : position - 1;
    refuse_at(file_, base_ + before, fmt::format("not JSON: {}", shortened(reason)));
  }

  Json take() { return std::move(root_); }

private:
  uint64_t offset() const { return base_ + static_cast<uint64_t>(*furthest_ - begin_); }

  static std::string shortened(std::string_view reason) {
    std::string text = in_quotes(reason, 160);
    return text.substr(1, text.rfind('"') - 1);
  }

  template <class V> bool add(V&& value) {
    place(std::forward<V>(value));
    return true;
  }

  template <class V> Json* place(V&& value) {
    if (++count_ > max_json_values)
      refuse_at(file_, offset(), fmt::format("more than {} JSON values", max_json_values));
    Json* target = &root_;
    if (!stack_.empty()) {
      auto& parent = stack_.back()->value;
      if (auto* array = std::get_if<std::unique_ptr<Json::Array>>(&parent)) {
        target = &(*array)->emplace_back();
      } else {
        auto& object = *std::get<std::unique_ptr<Json::Object>>(parent);
        target = &object.emplace_back(std::move(keys_.back()), Json{}).second;
      }
    }
    target->value = std::forward<V>(value);
    target->offset = offset();
    return target;
  }

  template <class V> bool open(V&& container) {
    if (stack_.size() >= static_cast<size_t>(max_json_depth))
      refuse_at(file_, offset(), fmt::format("JSON nested deeper than {} levels", max_json_depth));
    // The parent's vector does not grow while its last element is open, so the pointer stays good.
    stack_.push_back(place(std::forward<V>(container)));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  void check_unique(const Json::Object& object) {
    std::vector<std::string_view> names;
    names.reserve(object.size());
    for (const auto& [name, value] : object) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      refuse_at(file_, offset(), fmt::format("key {} stands twice in one object", in_quotes(*twice)));
  }

  std::string_view file_;
  const char* begin_;
  const char* const* furthest_;
  uint64_t base_;
  Json root_;
  std::vector<Json*> stack_;
  std::vector<std::string> keys_;
  size_t count_ = 0;
};

} // namespace

Json parse_json(std::string_view text, std::string_view file, uint64_t base_offset) {
  const char* furthest = text.data();
  Builder builder(file, text.data(), &furthest, base_offset);
  const CountingIterator begin{text.data(), &furthest};
  const CountingIterator end{text.data() + text.size(), &furthest};
  if (!nlohmann::json::sax_parse(begin, end, &builder)) refuse(file, "not JSON");
  return builder.take();
}

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

std::string_view Json::kind_name() const {
  switch (value.index()) {
  case 0: return "null";
  case 1: return "a boolean";
  case 2:
  case 3: return "an integer";
  case 4: return "a number";
  case 5: return "a string";
  case 6: return "an array";
  default: return "an object";
  }
}

void Json::mismatch(std::string_view file, std::string_view what, std::string_view expected) const {
  refuse_at(file, offset, fmt::format("{} is {}, expected {}", what, kind_name(), expected));
}

bool Json::as_bool(std::string_view file, std::string_view what) const {
  if (const auto* v = std::get_if<bool>(&value)) return *v;
  mismatch(file, what, "a boolean");
}

int64_t Json::as_int(std::string_view file, std::string_view what) const {
  if (const auto* v = std::get_if<int64_t>(&value)) return *v;
  if (const auto* v = std::get_if<uint64_t>(&value)) {
    if (*v > static_cast<uint64_t>(INT64_MAX))
      refuse_at(file, offset, fmt::format("{} is {}, expected at most {}", what, *v, INT64_MAX));
    return static_cast<int64_t>(*v);
  }
  mismatch(file, what, "an integer");
}

double Json::as_real(std::string_view file, std::string_view what) const {
  if (const auto* v = std::get_if<double>(&value)) return *v;
  if (const auto* v = std::get_if<int64_t>(&value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<uint64_t>(&value)) return static_cast<double>(*v);
  mismatch(file, what, "a number");
}

const std::string& Json::as_string(std::string_view file, std::string_view what) const {
  if (const auto* v = std::get_if<std::string>(&value)) return *v;
  mismatch(file, what, "a string");
}

const Json::Array& Json::as_array(std::string_view file, std::string_view what) const {
  if (const auto* v = std::get_if<std::unique_ptr<Array>>(&value)) return **v;
  mismatch(file, what, "an array");
}

const Json::Object& Json::as_object(std::string_view file, std::string_view what) const {
  if (const auto* v = std::get_if<std::unique_ptr<Object>>(&value)) return **v;
  mismatch(file, what, "an object");
}

const Json* Json::find(std::string_view key) const {
  const auto* object = std::get_if<std::unique_ptr<Object>>(&value);
  if (object == nullptr) return nullptr;
  for (const auto& [name, member] : **object)
    if (name == key) return member.is_null() ? nullptr : &member;
  return nullptr;
}

} // namespace luminal::detail
