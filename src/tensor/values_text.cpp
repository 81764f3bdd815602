// tensor/values_text.cpp -- nested brackets, cut like NumPy's.
#include "tensor/values_text.h"
#include "ir/host_text.h"
#include <algorithm>

namespace luminal {
namespace {

/// A part of the whole: axes from `axis` on, beginning at element `first`.
struct NestedText {
  DType type;
  std::span<const int64_t> extents;
  const std::byte* data;
  const PrintOptions& options;
  bool cut;
  std::string out;

  void axis(size_t d, int64_t first) {
    if (d == extents.size()) {
      out += element_text(type, data, first, options.precision);
      return;
    }
    int64_t stride = 1;
    for (size_t k = d + 1; k < extents.size(); k++) stride *= extents[k];
    const int64_t n = extents[d], edge = std::max<int64_t>(1, options.edge_items);
    const bool last = d + 1 == extents.size();
    const std::string between =
        last ? ", " : "," + std::string(extents.size() - d - 1, '\n') + std::string(d + 1, ' ');
    out += "[";
    for (int64_t i = 0; i < n; i++) {
      if (i > 0) out += between;
      if (cut && n > 2 * edge && i == edge) {
        out += "...";
        i = n - edge - 1;
        continue;
      }
      axis(d + 1, first + i * stride);
    }
    out += "]";
  }
};

} // namespace

std::string values_text(DType type, std::span<const int64_t> extents, std::span<const std::byte> bytes,
                        const PrintOptions& options) {
  double count = 1; // as a double: no overflow
  for (int64_t extent : extents) count *= double(extent);
  NestedText text{type, extents, bytes.data(), options, count > double(options.threshold), {}};
  text.axis(0, 0);
  return text.out;
}

} // namespace luminal
