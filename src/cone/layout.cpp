// cone/layout.cpp -- offsets, sizes, text and the injectivity of layouts.
#include "cone/layout.h"
#include "base/check.h"
#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

Expr digit(const LayoutDim& d, Expr index) {
  if (d.div > 1) index = floordiv(index, d.div);
  return d.mod ? mod(index, d.mod) : index;
}

Expr digit_extent(const LayoutDim& d, Expr extent) {
  if (d.mod) return d.mod;
  return d.div > 1 ? ceildiv(extent, d.div) : extent;
}

} // namespace

Layout row_major(int rank) {
  Layout layout;
  for (int d = 0; d < rank; d++) layout.push_back({d});
  return layout;
}

Result<void> check_layout(const Layout& layout, int rank) {
  for (int d = 0; d < rank; d++) {
    std::vector<LayoutDim> digits;
    for (auto& l : layout)
      if (l.dim == d) digits.push_back(l);
    std::ranges::sort(digits, {}, &LayoutDim::div);
    int64_t next = 1;
    bool open = true;
    for (auto& l : digits) {
      if (l.div < 1 || l.mod < 0 || l.pad < 0)
        return Failure{fmt::format("dimension {} has a factor below 1", d)};
      if (!open || l.div != next)
        return Failure{fmt::format("the parts of dimension {} do not make up its index", d)};
      next = l.div * l.mod;
      open = l.mod != 0;
    }
    if (digits.empty() || open)
      return Failure{fmt::format("the parts of dimension {} do not make up its index", d)};
  }
  for (auto& l : layout)
    if (l.dim < 0 || l.dim >= rank) return Failure{fmt::format("there is no dimension {}", l.dim)};
  return {};
}

Expr layout_size(const Layout& layout, std::span<const Expr> extents) {
  std::vector<Expr> factors;
  for (auto& l : layout) factors.push_back(digit_extent(l, extents[size_t(l.dim)]) + l.pad);
  return product(factors);
}

Expr layout_offset(const Layout& layout, std::span<const Expr> extents, std::span<const Expr> index) {
  Expr offset = 0, stride = 1;
  for (size_t i = layout.size(); i-- > 0;) {
    auto& l = layout[i];
    offset += digit(l, index[size_t(l.dim)]) * stride;
    stride *= digit_extent(l, extents[size_t(l.dim)]) + l.pad;
  }
  return offset;
}

Expr layout_offset(const ConeValue& value, std::span<const Expr> index) {
  return layout_offset(value.layout.empty() ? row_major(int(value.shape.size())) : value.layout, value.shape,
                       index);
}

std::string to_string(const Layout& layout, std::span<const std::string> names) {
  std::string s;
  for (auto& l : layout) {
    s += (s.empty() ? "" : " ") + names[size_t(l.dim)];
    if (l.div > 1) s += "/" + std::to_string(l.div);
    if (l.mod) s += "%" + std::to_string(l.mod);
    if (l.pad) s += "+" + std::to_string(l.pad);
  }
  return s;
}

Result<LayoutDim> parse_layout_dim(std::string_view word, std::span<const std::string> names) {
  size_t end = word.find_first_of("/%+");
  LayoutDim l;
  auto name = std::ranges::find(names, word.substr(0, end));
  if (name == names.end()) return Failure{fmt::format("there is no dimension {}", word.substr(0, end))};
  l.dim = int(name - names.begin());
  while (end != std::string_view::npos && end < word.size()) {
    char sign = word[end];
    int64_t& field = sign == '/' ? l.div : sign == '%' ? l.mod : l.pad;
    const char* first = word.data() + end + 1;
    auto [last, error] = std::from_chars(first, word.data() + word.size(), field);
    if (error != std::errc() || field < 1)
      return Failure{fmt::format("'{}' is not a dimension of a layout", word)};
    end = size_t(last - word.data());
    if (end < word.size() && word.find_first_of("/%+", end) != end)
      return Failure{fmt::format("'{}' is not a dimension of a layout", word)};
  }
  return l;
}

} // namespace luminal::kernel
