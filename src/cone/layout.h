// cone/layout.h -- a layout is an injective quasi-affine map, with padding, from index to offset: a
// list of storage dimensions, each a digit of one axis dimension. Text: `n/64 k n%64` (panels), `m
// k+16` (padded rows), `n/64 n/16%4 n%16`.
#pragma once
#include "base/result.h"
#include "cone/cone.h"
#include <span>

namespace luminal::kernel {

/// Row major in the order of `rank` dimensions.
Layout row_major(int rank);
/// A layout is injective if the digits of each dimension make up the whole index: divisors start at
/// 1, each is the product of the last divisor and modulus, the last digit has no modulus. The
/// failure names the dimension.
Result<void> check_layout(const Layout& layout, int rank);
/// Elements, padding included, of a box of these extents.
Expr layout_size(const Layout& layout, std::span<const Expr> extents);
/// Offset in elements of an index in the box.
Expr layout_offset(const Layout& layout, std::span<const Expr> extents, std::span<const Expr> index);
/// Of a value, row major where it says nothing else.
Expr layout_offset(const ConeValue& value, std::span<const Expr> index);

std::string to_string(const Layout& layout, std::span<const std::string> names);
/// One storage dimension: NAME, NAME/N, NAME%N, NAME/N%M, each with +PAD.
Result<LayoutDim> parse_layout_dim(std::string_view word, std::span<const std::string> names);

} // namespace luminal::kernel
