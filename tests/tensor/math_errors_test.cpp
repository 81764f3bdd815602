// tests/tensor/math_errors_test.cpp -- what is said about wrong operands of arithmetic, reductions, products, windows: word for word, with the caller's line.
#include "luminal/luminal.h"
#include <functional>
#include <gtest/gtest.h>

namespace luminal {
namespace {

/// The error of `make`, which stands on the line of the call, without that line's place.
void expect_error(const std::function<void()>& make, const std::string& expected,
                  std::source_location here = std::source_location::current()) {
  try {
    make();
    ADD_FAILURE() << "no error at line " << here.line();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), expected + " at math_errors_test.cpp:" + std::to_string(here.line()));
  }
}
#define EXPECT_ERROR(expression, text) expect_error([&] { (void)(expression); }, text)

TEST(MathErrors, WordForWord) {
  Graph g, other;
  Tensor a = g.tensor({4, 3}), b = g.tensor({5, 2}), v = g.tensor({3}), i = g.tensor({4, 3}, DType::i32),
         c = g.tensor({2, 4, 6, 6}), k = g.tensor({8, 4, 3, 3}), foreign = other.tensor({3});
  EXPECT_ERROR(a + b, "[add] shapes [4, 3] and [5, 2] do not broadcast: 4 and 5 differ (axes are aligned "
                      "from the right; an extent of 1 stretches)");
  EXPECT_ERROR(a * foreign, "[mul] the tensors belong to different graphs");
  EXPECT_ERROR(Tensor() < a, "[lt] a tensor is empty: it was never made from a graph");
  EXPECT_ERROR(a ^ 1, "[xor] the operands must be integers or bool, they are f32");
  EXPECT_ERROR(i << 1.5, "[shl] the operands must be integers, they are f32");
  EXPECT_ERROR(select(a, a, 0), "[select] the condition must be bool, it is f32 (compare it with something)");
  EXPECT_ERROR(masked_fill(a, i, 0),
               "[masked_fill] the mask must be bool, it is i32 (compare it with something)");
  EXPECT_ERROR(clip(a, {}), "[clip] neither a lower nor an upper limit is given");
  EXPECT_ERROR(atan2(a, b), "[atan2] shapes [4, 3] and [5, 2] do not broadcast: 4 and 5 differ (axes are "
                            "aligned from the right; an extent of 1 stretches)");
  EXPECT_ERROR(v.glu(), "[glu] axis 0 of [3] must be even: it is cut into halves");
  EXPECT_ERROR(a.sum(2), "[sum] axis 2 does not exist in a tensor of 2 axes");
  EXPECT_ERROR(a.mean({0, -2}), "[mean] axis 0 is named twice");
  EXPECT_ERROR(a.matmul(b), "[matmul] inner sizes differ: [4, 3] x [5, 2] (3 != 5)");
  EXPECT_ERROR(dot(a, v), "[dot] the first operand must have 1 axis, it is [4, 3]");
  EXPECT_ERROR(linear(a, b), "[linear] x [4, 3] needs a weight of shape [out, 3], it is [5, 2]");
  EXPECT_ERROR(einsum("ij,jk", {a}), "[einsum] \"ij,jk\": names the axes of 2 tensors, 1 are given");
  EXPECT_ERROR(einsum("ij,jk", {a, b}),
               "[einsum] \"ij,jk\": axis 'j' has extent 3 here and 5 in tensor 1 of shape [5, 2]");
  EXPECT_ERROR(einsum("ij->k", {a}), "[einsum] \"ij->k\": the result's axis 'k' is in no tensor");
  EXPECT_ERROR(einsum("i1", {a}), "[einsum] \"i1\": '1' is no name of an axis (a letter)");
  EXPECT_ERROR(einsum("i", {a}), "[einsum] \"i\": 'i' names 1 axes, the tensor has 2");
  EXPECT_ERROR(tensordot(a, b, 1), "[tensordot] axis 1 of [4, 3] and axis 0 of [5, 2] differ: 3 and 5");
  EXPECT_ERROR(
      conv2d(a, k),
      "[conv] x [4, 3] and weight [8, 4, 3, 3] do not fit: x must have 4 axes, or 3 without a batch");
  EXPECT_ERROR(conv2d(c, k, {}, {.groups = 2}), "[conv] x [2, 4, 6, 6] and weight [8, 4, 3, 3] do not fit in "
                                                "2 groups: x has 4 channels, the weight takes 8");
  EXPECT_ERROR(conv2d(c, k, v), "[conv] the bias must be [8], it is [3]");
  EXPECT_ERROR(conv2d(c, k, {}, {.dilation = 4}),
               "[conv] the kernel reaches over 9 elements, axis 2 of the padded input [2, 4, 6, 6] has 6");
  EXPECT_ERROR(conv2d(c, k, {}, {.stride = 2, .padding = "same"}),
               "[conv] padding \"same\" needs a stride of 1");
  EXPECT_ERROR(max_pool(c, {2, 2}, {.padding = 2}),
               "[max_pool] padding 2 is more than half of the 2 elements that the kernel reaches over");
  EXPECT_ERROR(max_pool(c, {7, 2}),
               "[max_pool] the kernel reaches over 7 elements, axis 2 of [2, 4, 6, 6] has 6 with padding");
  EXPECT_ERROR(group_norm(c, 3), "[group_norm] the 4 channels of [2, 4, 6, 6] do not fall into 3 groups");
  EXPECT_ERROR(layer_norm(a, b),
               "[layer_norm] weight and bias must have the last extents of [4, 3], the weight is [5, 2]");
  EXPECT_ERROR(fft(a), "[fft] complex numbers are pairs: the last axis of [4, 3] must be 2");
  EXPECT_ERROR(pixel_shuffle(c, 3),
               "[pixel_shuffle] the channels (axis -3) of [2, 4, 6, 6] must be a multiple of 3^2");
  EXPECT_ERROR(scaled_dot_product_attention(a, b, b),
               "[scaled_dot_product_attention] query and key differ in their last axis: query [4, 3], key "
               "[5, 2], value [5, 2]");
}

} // namespace
} // namespace luminal
