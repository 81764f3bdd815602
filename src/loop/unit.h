// loop/unit.h -- described instructions: what a matrix or dot-product unit computes, which lane
// holds what, how it rounds. The verifier, the loop interpreter and code generation read the table;
// nothing else knows an instruction.
//
// A unit computes   acc[m, n] = acc[m, n] + sum over k of a[m, k] * b[k, n]   for all m < M, n < N,
//                   in one step. Each
// operand has the axes named in its description (a dot instruction of a vector unit has no m: acc
// "n", a "nk", b "nk"). A unit statement gives, for each operand, a buffer, the offset of its first
// element and one stride for each axis; a stride of 0 is a broadcast. Where the instruction takes the
// elements of k in groups that lie together in b (`p` > 1), k counts the groups, and operands have the axis p
// of the elements in one: a[m, k, p] * b[k, n, p].
//
// It is done by one worker. Where the unit is carried out by several lanes together (`lanes` > 1),
// that worker stands for the group of lanes, and the lane maps tell which element each of them
// holds in which place of its registers. Where lanes of a group meet, they give the unit what each of them
// holds: statements without strides (loop.h).
#pragma once
#include "expr/expr.h"
#include "ir/dtype.h"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::kernel {

/// How the sum over k is rounded.
enum class UnitSum : uint8_t {
  fused,   ///< acc = fma(a, b, acc) for one k after the other, each rounded to nearest even
  pairs,   ///< TDPBF16PS: one sum for each p over all k, fused; their sum is added to acc
  odd,     ///< BFDOT: pairs of exact products are added, then added to acc; both sums round to odd
  wide,    ///< products exact, sum in at least 24 bits in an order that is not specified; see `tolerance`
  integer, ///< exact, wraps
};

/// Where the elements of one operand are. Lane l holds at place e of its registers the element
/// (first, second) of the operand's axes; both are expressions over unit_lane() and unit_place().
struct LaneMap {
  int places = 0; ///< elements held by each lane; 0: the operand is read from shared memory, no lane holds it
  Expr first, second;
};

struct UnitOperandInfo {
  DType dtype;
  std::string axes; ///< of "mnkp", in the order of the statement's strides and of the lane map
  LaneMap map;
  /// The axes of the operand in a buffer of that type. Those of a group (p) may lie in one u32 word: then
  /// there is no axis p. Empty where the operand is not taken from such a buffer.
  std::string axes_in(DType buffer) const;
};

/// Places of the lane map that one element of a register buffer holds: 1, or in a u32 word as many as fit.
/// 0: the operand does not lie in such a buffer.
inline int places_in_word(const UnitOperandInfo& info, DType buffer) {
  if (buffer == info.dtype) return 1;
  return buffer == DType::u32 && bits(info.dtype) < 32 ? 32 / bits(info.dtype) : 0;
}

struct Unit {
  std::string name;
  int m = 1, n = 1, k = 1, p = 1;
  UnitOperandInfo accumulator, a, b;
  int lanes = 1; ///< lanes that carry it out together; 1: a vector instruction of one worker
  UnitSum sum = UnitSum::fused;
  bool k_descending = false;     ///< fused: the last k first
  bool flush_subnormals = false; ///< subnormal inputs and results become zeros
  double tolerance = 0;          ///< wide: relative to sum of |a*b| + |acc|
  bool tiles =
      false; ///< its operands lie in tile registers: rows of p * k (or n) elements that are contiguous
  std::string lane_unit;     ///< tiles: the unit on words (find_lane_unit) that steps by the same products
  bool asynchronous = false; ///< has its own completion: stands in `async unit` as well
  std::vector<std::string>
      targets;        ///< "avx512bf16", "amx-bf16", "sm_80", "gfx942", "metal", "neon+bf16": where it exists
  std::string source; ///< of the description
  const UnitOperandInfo& operand(int i) const { return i == 0 ? accumulator : i == 1 ? a : b; }
  int extent(char axis) const { return axis == 'm' ? m : axis == 'n' ? n : axis == 'k' ? k : p; }
};

/// Symbols of lane maps: lane: 0.. , place: 0.. .
Expr unit_lane();
Expr unit_place();

/// The unit of that name. Units with a free width (`fma.f32`, `vnni.dpbusd`: as wide as the
/// kernel's vectors) get `lanes`; names of a family carry their sizes (nvidia.wgmma.m64n8k16.bf16
/// .. nvidia.wgmma.m64n256k16.bf16, n in steps of 8).
std::optional<Unit> find_unit(std::string_view name, int lanes = 16);
/// One name of each table row, in order; families with one member.
std::vector<std::string> unit_names();

/// A unit whose lanes act alone, as an operation on values: NAME(acc, a, b) in each lane, where a
/// and b are u32 words that hold the k elements of that lane, the first in the low bits. The
/// description of one lane (n = 1). Null for a unit of another kind, and for what is not a unit.
const Unit* find_lane_unit(std::string_view name);
/// The accumulator of one lane after a step on two words.
double execute_lane_unit(const Unit& unit, uint32_t a, uint32_t b, double accumulator);
int64_t execute_lane_unit(const Unit& unit, uint32_t a, uint32_t b, int64_t accumulator);

/// One step on dense row-major operands in double (floats) or 64-bit integers, rounded as the unit
/// rounds. Shapes are those of the operands' axes. Element (i) of acc is updated.
void execute_unit(const Unit& unit, const double* a, const double* b, double* accumulator);
void execute_unit(const Unit& unit, const int64_t* a, const int64_t* b, int64_t* accumulator);

} // namespace luminal::kernel
