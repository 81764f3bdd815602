// formats/gguf_values.cpp -- looking at GGUF metadata: typed access, text for humans.
#include "formats/gguf.h"
#include "formats/parse.h"
#include <cmath>

namespace luminal {
namespace {

using detail::in_quotes;

Failure wrong_type(const Gguf& gguf, std::string_view key, const GgufValue& value,
                   std::string_view expected) {
  std::string found(gguf_type_name(value.type));
  if (const auto* array = std::get_if<GgufArray>(&value.value))
    found = fmt::format("array of {}", gguf_type_name(array->element_type));
  return Failure{
      fmt::format("{}: metadata {} is {}, expected {}", gguf.file_name, in_quotes(key), found, expected)};
}

std::string shortened(std::string_view text) { return in_quotes(text, 200); }

constexpr size_t shown_items = 6;

template <class Item, class Print> std::string list(const std::vector<Item>& items, Print print) {
  std::string out = "[";
  for (size_t i = 0; i < items.size() && i < shown_items; ++i) out += (i == 0 ? "" : ", ") + print(items[i]);
  if (items.size() > shown_items) out += fmt::format(", ... {} in all", items.size());
  return out + "]";
}

std::string describe_array(const GgufArray& array) {
  return std::visit(
      [&](const auto& items) {
        return list(items, [&](const auto& item) -> std::string {
          using Item = std::decay_t<decltype(item)>;
          if constexpr (std::is_same_v<Item, std::string>)
            return in_quotes(item);
          else if constexpr (std::is_same_v<Item, GgufArray>)
            return describe_array(item);
          else if constexpr (std::is_same_v<Item, double>)
            return array.element_type == GgufType::f32 ? fmt::format("{}", static_cast<float>(item))
                                                       : fmt::format("{}", item);
          else if (array.element_type == GgufType::boolean)
            return item != 0 ? "true" : "false";
          else
            return fmt::format("{}", item);
        });
      },
      array.items);
}

} // namespace

std::string_view gguf_type_name(GgufType type) {
  constexpr std::string_view names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                        "bool", "string", "array", "u64", "i64", "f64"};
  const auto row = static_cast<size_t>(type);
  return row < std::size(names) ? names[row] : "unknown";
}

size_t GgufArray::size() const {
  return std::visit([](const auto& v) { return v.size(); }, items);
}

std::string GgufValue::describe() const {
  if (const auto* v = std::get_if<uint64_t>(&value)) return fmt::format("{}", *v);
  if (const auto* v = std::get_if<int64_t>(&value)) return fmt::format("{}", *v);
  if (const auto* v = std::get_if<double>(&value))
    return type == GgufType::f32 ? fmt::format("{}", static_cast<float>(*v)) : fmt::format("{}", *v);
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<std::string>(&value)) return shortened(*v);
  return describe_array(std::get<GgufArray>(value));
}

const GgufValue* Gguf::find(std::string_view key) const {
  for (const auto& [name, value] : metadata)
    if (name == key) return &value;
  return nullptr;
}

const TensorView* Gguf::find_tensor(std::string_view name) const {
  for (const auto& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

Result<std::optional<int64_t>> Gguf::integer(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<int64_t>();
  if (const auto* v = std::get_if<int64_t>(&found->value)) return std::optional<int64_t>(*v);
  if (const auto* v = std::get_if<uint64_t>(&found->value)) {
    if (*v <= static_cast<uint64_t>(INT64_MAX)) return std::optional<int64_t>(static_cast<int64_t>(*v));
    return Failure{
        fmt::format("{}: metadata {} is {}, expected at most {}", file_name, in_quotes(key), *v, INT64_MAX)};
  }
  return wrong_type(*this, key, *found, "an integer");
}

Result<std::optional<double>> Gguf::real(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<double>();
  if (const auto* v = std::get_if<double>(&found->value)) return std::optional<double>(*v);
  return wrong_type(*this, key, *found, "f32 or f64");
}

Result<std::optional<bool>> Gguf::boolean(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<bool>();
  if (const auto* v = std::get_if<bool>(&found->value)) return std::optional<bool>(*v);
  return wrong_type(*this, key, *found, "bool");
}

Result<std::optional<std::string>> Gguf::string(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<std::string>();
  if (const auto* v = std::get_if<std::string>(&found->value)) return std::optional<std::string>(*v);
  return wrong_type(*this, key, *found, "string");
}

Result<const std::vector<std::string>*> Gguf::strings(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return static_cast<const std::vector<std::string>*>(nullptr);
  if (const auto* array = std::get_if<GgufArray>(&found->value))
    if (const auto* items = std::get_if<std::vector<std::string>>(&array->items)) return items;
  return wrong_type(*this, key, *found, "array of string");
}

Result<std::optional<std::vector<int64_t>>> Gguf::integers(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<std::vector<int64_t>>();
  if (const auto* array = std::get_if<GgufArray>(&found->value)) {
    if (const auto* items = std::get_if<std::vector<int64_t>>(&array->items)) return std::optional(*items);
    const auto* items = std::get_if<std::vector<uint64_t>>(&array->items);
    if (items != nullptr && array->element_type != GgufType::boolean) {
      std::vector<int64_t> out;
      out.reserve(items->size());
      for (const uint64_t item : *items) {
        if (item > static_cast<uint64_t>(INT64_MAX))
          return Failure{fmt::format("{}: metadata {} has element {}, expected at most {}", file_name,
                                     in_quotes(key), item, INT64_MAX)};
        out.push_back(static_cast<int64_t>(item));
      }
      return std::optional(std::move(out));
    }
  }
  return wrong_type(*this, key, *found, "array of integers");
}

Result<std::optional<std::vector<double>>> Gguf::reals(std::string_view key) const {
  const GgufValue* found = find(key);
  if (found == nullptr) return std::optional<std::vector<double>>();
  if (const auto* array = std::get_if<GgufArray>(&found->value))
    if (const auto* items = std::get_if<std::vector<double>>(&array->items)) return std::optional(*items);
  return wrong_type(*this, key, *found, "array of f32 or f64");
}

} // namespace luminal
