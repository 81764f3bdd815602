// tests/tensor/math_errors_test.cpp -- what is said about wrong operands of arithmetic, reductions,
// products, windows: word for word, with the caller's line.
#include "luminal/luminal.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

namespace luminal::math_errors_test {
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
#define EXPECT_REFUSED(expression, text) expect_error([&] { (void)(expression); }, text)

TEST(MathErrors, WordForWord) {
  Graph g, other;
  Tensor a = g.tensor({4, 3}), b = g.tensor({5, 2}), v = g.tensor({3}), i = g.tensor({4, 3}, DType::i32),
         c = g.tensor({2, 4, 6, 6}), k = g.tensor({8, 4, 3, 3}), foreign = other.tensor({3});
  EXPECT_REFUSED(a + b, "[add] shapes [4, 3] and [5, 2] do not broadcast: 4 and 5 differ (axes are aligned "
                        "from the right; an extent of 1 stretches)");
  EXPECT_REFUSED(a * foreign, "[mul] the tensors belong to different graphs");
  EXPECT_REFUSED(Tensor() < a, "[lt] a tensor is empty: it was never made from a graph");
  EXPECT_REFUSED(a ^ 1, "[xor] the operands must be integers or bool, they are f32");
  EXPECT_REFUSED(i << 1.5, "[shl] the operands must be integers, they are f32");
  EXPECT_REFUSED(select(a, a, 0),
                 "[select] the condition must be bool, it is f32 (compare it with something)");
  EXPECT_REFUSED(masked_fill(a, i, 0),
                 "[masked_fill] the mask must be bool, it is i32 (compare it with something)");
  EXPECT_REFUSED(clip(a, {}), "[clip] neither a lower nor an upper limit is given");
  EXPECT_REFUSED(atan2(a, b), "[atan2] shapes [4, 3] and [5, 2] do not broadcast: 4 and 5 differ (axes are "
                              "aligned from the right; an extent of 1 stretches)");
  EXPECT_REFUSED(v.glu(), "[glu] axis 0 of [3] must be even: it is cut into halves");
  EXPECT_REFUSED(a.sum(2), "[sum] axis 2 does not exist in a tensor of 2 axes");
  EXPECT_REFUSED(a.mean({0, -2}), "[mean] axis 0 is named twice");
  EXPECT_REFUSED(a.matmul(b), "[matmul] inner sizes differ: [4, 3] x [5, 2] (3 != 5)");
  EXPECT_REFUSED(dot(a, v), "[dot] the first operand must have 1 axis, it is [4, 3]");
  EXPECT_REFUSED(linear(a, b), "[linear] x [4, 3] needs a weight of shape [out, 3], it is [5, 2]");
  EXPECT_REFUSED(einsum("ij,jk", {a}), "[einsum] \"ij,jk\": names the axes of 2 tensors, 1 are given");
  EXPECT_REFUSED(einsum("ij,jk", {a, b}),
                 "[einsum] \"ij,jk\": axis 'j' has extent 3 here and 5 in tensor 1 of shape [5, 2]");
  EXPECT_REFUSED(einsum("ij->k", {a}), "[einsum] \"ij->k\": the result's axis 'k' is in no tensor");
  EXPECT_REFUSED(einsum("i1", {a}), "[einsum] \"i1\": '1' is not a name of an axis (a letter)");
  EXPECT_REFUSED(einsum("i", {a}), "[einsum] \"i\": 'i' names 1 axes, the tensor has 2");
  EXPECT_REFUSED(tensordot(a, b, 1), "[tensordot] axis 1 of [4, 3] and axis 0 of [5, 2] differ: 3 and 5");
  EXPECT_REFUSED(
      conv2d(a, k),
      "[conv] x [4, 3] and weight [8, 4, 3, 3] do not fit: x must have 4 axes, or 3 without a batch");
  EXPECT_REFUSED(conv2d(c, k, {}, {.groups = 2}),
                 "[conv] x [2, 4, 6, 6] and weight [8, 4, 3, 3] do not fit in "
                 "2 groups: x has 4 channels, the weight takes 8");
  EXPECT_REFUSED(conv2d(c, k, v), "[conv] the bias must be [8], it is [3]");
  EXPECT_REFUSED(conv2d(c, k, {}, {.dilation = 4}),
                 "[conv] the kernel reaches over 9 elements, axis 2 of the padded input [2, 4, 6, 6] has 6");
  EXPECT_REFUSED(conv2d(c, k, {}, {.stride = 2, .padding = "same"}),
                 "[conv] padding \"same\" needs a stride of 1");
  EXPECT_REFUSED(max_pool(c, {2, 2}, {.padding = 2}),
                 "[max_pool] padding 2 is more than half of the 2 elements that the kernel reaches over");
  EXPECT_REFUSED(max_pool(c, {7, 2}),
                 "[max_pool] the kernel reaches over 7 elements, axis 2 of [2, 4, 6, 6] has 6 with padding");
  EXPECT_REFUSED(group_norm(c, 3), "[group_norm] the 4 channels of [2, 4, 6, 6] do not fall into 3 groups");
  EXPECT_REFUSED(layer_norm(a, b),
                 "[layer_norm] weight and bias must have the last extents of [4, 3], the weight is [5, 2]");
  EXPECT_REFUSED(fft(a), "[fft] complex numbers are pairs: the last axis of [4, 3] must be 2");
  EXPECT_REFUSED(pixel_shuffle(c, 3),
                 "[pixel_shuffle] the channels (axis -3) of [2, 4, 6, 6] must be a multiple of 3^2");
  EXPECT_REFUSED(scaled_dot_product_attention(a, b, b),
                 "[scaled_dot_product_attention] query and key differ in their last axis: query [4, 3], key "
                 "[5, 2], value [5, 2]");
}

TEST(MathErrors, OfWhatIsMadeOfOthers) {
  Graph g;
  Tensor a = g.tensor({4, 3}), b = g.tensor({5, 2}), v = g.tensor({3}), i = g.tensor({4, 3}, DType::i32),
         c = g.tensor({2, 4, 6, 6});
  EXPECT_REFUSED(quantile(a, 1.5), "[quantile] q must lie in 0..1, it is 1.5");
  EXPECT_REFUSED(quantile(i, 0.5), "[quantile] x must be of a float type, it is i32");
  EXPECT_REFUSED(quantile(a, 0.5, 2), "[quantile] axis 2 does not exist in a tensor of 2 axes");
  EXPECT_REFUSED(mode(g.tensor({3, 0})), "[mode] axis 1 of [3, 0] has no elements");
  EXPECT_REFUSED(cov(c), "[cov] x must have one or two axes, it is [2, 4, 6, 6]");
  EXPECT_REFUSED(addmm(v, c, b), "[addmm] a must have 2 axes, it is [2, 4, 6, 6]");
  EXPECT_REFUSED(addmm(c, a, a.transpose()),
                 "[addmm] shapes [2, 4, 6, 6] and [4, 4] do not broadcast: 6 and 4 differ (axes "
                 "are aligned from the right; an extent of 1 stretches)");
  EXPECT_REFUSED(multi_dot({a}), "[multi_dot] at least two tensors are multiplied");
  EXPECT_REFUSED(matrix_power(a, 2), "[matrix_power] x must be of square matrices, it is [4, 3]");
  EXPECT_REFUSED(matrix_power(c, -1), "[matrix_power] the power is -1: it must not be negative");
  EXPECT_REFUSED(cross(b, b), "[cross] axis 1 of [5, 2] must be 3");
  EXPECT_REFUSED(vander(a), "[vander] x must have 1 axis, it is [4, 3]");
  EXPECT_REFUSED(cdist(a, b), "[cdist] rows [.., m, k] and [.., n, k] are compared, not [4, 3] and [5, 2]");
  EXPECT_REFUSED(block_diag({a, c}), "[block_diag] a tensor must be a matrix, it is [2, 4, 6, 6]");
  EXPECT_REFUSED(grid_sample(c, a),
                 "[grid_sample] x [n, c, h, w] is read at grid [n, y, x, 2], not [2, 4, 6, 6] at [4, 3]");
  EXPECT_REFUSED(affine_grid(a, 2, 2),
                 "[affine_grid] theta must be [n, 2, 3] and the sizes positive, not [4, 3], 2 and 2");
  EXPECT_REFUSED(unfold(a, {2, 2}), "[unfold] x must have 4 axes for a kernel of 2, it is [4, 3]");
  EXPECT_REFUSED(
      fold(a, {3, 3}, {2, 2}),
      "[fold] x [batch, channels * kernel, positions] becomes as many sizes as the kernel has, not "
      "[4, 3] with 2 sizes and a kernel of 2");
  EXPECT_REFUSED(fold(g.tensor({1, 8, 4}), {3, 1}, {2, 2}),
                 "[fold] a kernel of 2 does not fit 1 elements with a padding of 0");
  EXPECT_REFUSED(grid_sample(c, g.tensor({2, 1, 1, 2}), Interpolation::cubic),
                 "[grid_sample] the mode must be linear or nearest");
  EXPECT_REFUSED(fold(g.tensor({1, 9, 4}), {3, 3}, {2, 2}),
                 "[fold] x [1, 9, 4] does not fit: axis 1 must be a multiple of 4, axis 2 must be 4");
  EXPECT_REFUSED(
      local_response_norm(a, 2),
      "[local_response_norm] x must be [n, channels, sizes..] and the size positive, not [4, 3] and 2");
  EXPECT_REFUSED(
      channel_shuffle(c, 3),
      "[channel_shuffle] x must be [n, channels, sizes..] with a multiple of 3 channels, it is [2, 4, 6, 6]");
  EXPECT_REFUSED(masked_scatter(a, i, v), "[masked_scatter] the mask must be bool, it is i32");
  EXPECT_REFUSED(masked_scatter(i, a > 0, v),
                 "[masked_scatter] x is i32 and source f32: they must have one type");
  EXPECT_REFUSED(slice_scatter(a, v, 0, 2), "[slice_scatter] values [3] must have the axes of x [4, 3]");
  EXPECT_REFUSED(tril_indices(g, -1, 2), "[tril_indices] a triangle of -1 x 2");
  EXPECT_REFUSED(triu_indices(g, 2, -3), "[triu_indices] a triangle of 2 x -3");
  EXPECT_REFUSED(vsplit(v, 3), "[vsplit] [3] has fewer than two axes");
  EXPECT_REFUSED(addmm(g.tensor({2, 4, 4}), a, a.transpose()),
                 "[addmm] x [2, 4, 4] does not broadcast to [4, 4]");
  EXPECT_REFUSED(gumbel_softmax(random_key(g, 1), a, 0),
                 "[gumbel_softmax] the temperature 0 must be positive");
  EXPECT_REFUSED(gumbel_softmax(random_key(g, 1), a, NAN),
                 "[gumbel_softmax] the temperature nan must be positive");
  EXPECT_REFUSED(slice_scatter(a, b, 0, 2),
                 "[slice_scatter] 5 elements from 2 do not lie in axis 0 of [4, 3]");
  EXPECT_REFUSED(hsplit(a, 2), "[hsplit] axis 1 of [4, 3] does not fall into 2 equal parts");
  EXPECT_REFUSED(tensor_split(a, 0), "[tensor_split] axis 0 of [4, 3] in 0 parts: the axis must have a known "
                                     "size, and there must be at least one part");
}

} // namespace
#undef EXPECT_REFUSED
} // namespace luminal::math_errors_test
