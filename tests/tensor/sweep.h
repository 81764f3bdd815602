// tests/tensor/sweep.h -- each operation over dtypes, layouts of views, broadcasting, dynamic sizes
// and sizes 0 and 1: the CPU plan against the interpreter. All cases of a call share a few graphs.
#pragma once
#include "luminal/luminal.h"
#include <functional>
#include <string>
#include <vector>

namespace luminal::test {

/// How an operand of a certain shape comes about.
enum class Layout : uint8_t { contiguous, permuted, stepped, flipped, broadcast };
inline constexpr int layout_count = 5;

struct SweepOp {
  std::string name;
  /// One shape an operand. -1 stands for the size that varies: 0, 1, 2 and 7 as numbers, and as a
  /// dynamic dimension set to 0, 1, 7 in turn.
  std::vector<std::vector<int64_t>> shapes;
  /// Of all operands, unless `dtypes_of` names one by one.
  std::vector<DType> dtypes;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& in)> make;
  /// Random values of floats and integers (integers: rounded; bool: 0 or 1).
  double low = -4, high = 4;
  /// NaN, infinities, -0, subnormals, the least and the greatest integer among the values.
  bool special = true;
  /// Allowed distance of plan and interpreter: units in the last place of max(|value|, scale). 0:
  /// bit for bit (zeros and NaN of any sign alike).
  double ulp = 0, scale = 0;
  /// dtypes of single operands where they differ from the swept one.
  std::vector<std::pair<size_t, DType>> fixed = {};
  /// Ranges of single operands where they differ from low..high; such operands get no special
  /// values.
  std::vector<std::pair<size_t, std::pair<double, double>>> ranges = {};
  /// Smallest size that the operation allows in place of -1.
  int64_t least = 0;
};

struct SweepOptions {
  uint64_t seed = 1;
  /// Elementwise operations take every layout for each dtype; others one layout a dtype in turn.
  bool every_layout = false;
  size_t outputs_in_a_graph = 400;
};
void sweep(const std::vector<SweepOp>& ops, const SweepOptions& options = {});

inline const std::vector<DType> wide_floats{DType::f32, DType::f64},
    all_floats{DType::f32, DType::f64, DType::f16, DType::bf16},
    some_integers{DType::i32, DType::i64, DType::i8, DType::u8},
    all_integers{DType::i8,  DType::u8,  DType::i16, DType::u16,
                 DType::i32, DType::u32, DType::i64, DType::u64},
    all_numbers{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::u8,
                DType::i16, DType::u16, DType::i32, DType::u32,  DType::i64, DType::u64},
    bool_only{DType::boolean};

} // namespace luminal::test
