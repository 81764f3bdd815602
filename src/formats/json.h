// formats/json.h -- JSON of model files: a small tree that remembers offsets, with bounds on depth
// and size.
#pragma once
#include "formats/parse.h"
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace luminal::detail {

/// One value. Accessors refuse (ParseFailure) with the offset, what was found and what was
/// expected.
class Json {
public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>; // order of the file, keys unique
  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, std::unique_ptr<Array>,
               std::unique_ptr<Object>>
      value = nullptr;
  /// Where the value ends, about: offset in the file of the character after its last one.
  uint64_t offset = 0;

  bool is_null() const { return value.index() == 0; }
  bool is_bool() const { return value.index() == 1; }
  bool is_integer() const { return value.index() == 2 || value.index() == 3; }
  bool is_number() const { return is_integer() || value.index() == 4; }
  bool is_string() const { return value.index() == 5; }
  bool is_array() const { return value.index() == 6; }
  bool is_object() const { return value.index() == 7; }
  /// "a string", "an object", "null": for messages.
  std::string_view kind_name() const;

  // `what` names the value in the message: "shape of \"w\"".
  bool as_bool(std::string_view file, std::string_view what) const;
  /// An integer in int64.
  int64_t as_int(std::string_view file, std::string_view what) const;
  /// Any number.
  double as_real(std::string_view file, std::string_view what) const;
  const std::string& as_string(std::string_view file, std::string_view what) const;
  const Array& as_array(std::string_view file, std::string_view what) const;
  const Object& as_object(std::string_view file, std::string_view what) const;
  [[noreturn]] void mismatch(std::string_view file, std::string_view what, std::string_view expected) const;

  /// Member of an object by linear search; nullptr where absent, or null in the file.
  const Json* find(std::string_view key) const;
};

inline constexpr int max_json_depth = 64;
inline constexpr size_t max_json_values = size_t{1} << 23;

/// Parses one JSON document. Refuses syntax errors, invalid UTF-8, duplicate keys, nesting over
/// max_json_depth and more than max_json_values values. `base_offset` is where `text` begins in the
/// file.
Json parse_json(std::string_view text, std::string_view file, uint64_t base_offset = 0);

/// Text as a JSON string with its quotes. `text` is UTF-8.
std::string json_string(std::string_view text);

} // namespace luminal::detail
