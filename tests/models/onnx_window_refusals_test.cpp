// models/onnx_window_refusals_test.cpp -- what load_onnx says of windows, normalisation, quantised numbers,
// attention, recurrent layers and images that it cannot read.
#include "models/onnx_refusals.h"

namespace luminal::onnx_refusals {
namespace {

const std::string microsoft = "com.microsoft", preview = "ai.onnx.preview";

TEST(OnnxRefusals, Windows) {
  const In image = x({1, 1, 4, 4});
  const std::string kernel = integers("kernel_shape", {2, 2});
  expect_refusals({
      {"MaxPool",
       {image},
       {integers("kernel_shape", {2})},
       "has a kernel [2] for [1, 1, 4, 4]: a size is expected for each axis behind batch and channels"},
      {"MaxPool",
       {image},
       {integers("kernel_shape", {0, 2})},
       "has a kernel [0, 2]: sizes of at least 1 are expected"},
      {"MaxPool",
       {image},
       {kernel, integers("strides", {0, 1})},
       "has strides or dilations [0, 1] for 2 axes: a number of at least 1 is expected for each"},
      {"AveragePool",
       {image},
       {kernel, integers("pads", {1})},
       "has pads [1] for 2 axes: two numbers are expected for each"},
      {"LpPool",
       {image},
       {kernel, word("auto_pad", "SAME")},
       "has auto_pad = 'SAME', expected one of NOTSET, VALID, SAME_UPPER, SAME_LOWER"},
      {"MaxPool",
       {image},
       {integers("kernel_shape", {5, 5})},
       "has a kernel that is larger than its input [1, 1, 4, 4]"},
      {"MaxUnpool",
       {image, x({1, 1, 4, 4}, i64)},
       {integers("kernel_shape", {2})},
       "has an input [1, 1, 4, 4], strides or pads that do not fit its kernel [2]"},
      {"MaxUnpool",
       {image, x({1, 1, 4, 4}, i64), ints({1, 1, 8})},
       {kernel},
       "has an output_shape [1, 1, 8], 4 axes are expected"},
      {"Col2Im",
       {x({1, 4, 4}), ints({3, 3}), ints({2, 2})},
       {integers("pads", {1})},
       "has an image [3, 3], pads, strides or dilations that do not fit its block [2, 2]",
       18},
  });
}

TEST(OnnxRefusals, Convolutions) {
  const std::string weight = "has a weight [2, 2]: [channels, channels, kernel..] is expected";
  const std::string fit = "has attributes, or an input [1, 2, 4], for another number of axes than its weight "
                          "[2, 2, 3]";
  expect_refusals({
      {"Conv", {x({1, 2, 4}), x({2, 2})}, {}, weight},
      {"ConvTranspose", {x({1, 2, 4}), x({2, 2})}, {}, weight},
      {"ConvInteger", {x({1, 2, 4}, u8), x({2, 2}, u8)}, {}, weight},
      {"ConvTranspose", {x({1, 2, 4}), x({2, 2, 3})}, {integers("strides", {1, 1})}, fit},
      {"ConvTranspose", {x({1, 2, 4}), x({2, 2, 3})}, {integers("kernel_shape", {})}, fit},
      {"DeformConv",
       {x({1, 1, 4}), x({1, 1, 3}), x({1, 2, 3})},
       {},
       "of [1, 1, 4] by [1, 1, 3] at [1, 2, 3] is not supported: all must have 4 axes",
       19},
      {"DeformConv",
       {x({1, 1, 4, 4}), x({1, 1, 1, 1}), x({1, 2, 4, 4})},
       {integer("offset_group", 0)},
       "has group = 1 and offset_group = 0, at least 1 is expected",
       19},
  });
}

TEST(OnnxRefusals, Normalisation) {
  expect_refusals({
      {"Det", {x({2, 3})}, {}, "of [2, 3] is not supported: square matrices of at most 64 rows are expected"},
      {"BatchNormalization",
       {x({1, 2, 3}), x({2}), x({2}), x({2}), x({2})},
       {},
       "has results of training (opset 14, training_mode = 1), and does not train: leave them out",
       17,
       "",
       2},
      {"GroupNormalization",
       {x({1, 2, 3}), x({2}), x({2})},
       {integer("num_groups", 0)},
       "has num_groups = 0, at least 1 is expected",
       21},
      {"LRN", {x({1, 2, 3, 3})}, {integer("size", 0)}, "has size = 0, at least 1 is expected"},
  });
}

TEST(OnnxRefusals, QuantisedNumbers) {
  const auto sizes = [](int64_t bits, int64_t block) -> std::vector<std::string> {
    return {integer("K", 32), integer("N", 1), integer("bits", bits), integer("block_size", block)};
  };
  const In row = x({1, 32}), codes = x({1, 2, 8}, u8), scales = x({2});
  expect_refusals({
      {"QuantizeLinear",
       {x({2, 3}), x({2, 3})},
       {},
       "has a scale [2, 3] for [2, 3]: one number, one for each element of the axis, or a block_size is "
       "expected"},
      {"MatMulNBits",
       {row, codes, scales},
       sizes(3, 16),
       "has 3 bits, 2, 4 and 8 are supported",
       17,
       microsoft},
      {"MatMulNBits",
       {row, codes, scales},
       sizes(4, 24),
       "has block_size = 24, a multiple of 16 is expected",
       17,
       microsoft},
      {"MatMulNBits",
       {row, codes, scales, none(), x({32}, i32)},
       sizes(4, 16),
       "has an order of groups (g_idx), which is not supported",
       17,
       microsoft},
      {"GatherBlockQuantized",
       {row, x({1}, i64), scales},
       {},
       "has a table of FLOAT: UINT8, INT4 or UINT4 is supported",
       17,
       microsoft},
      {"GatherBlockQuantized",
       {codes, x({1}, i64), scales},
       {integer("block_size", 0)},
       "has block_size = 0, at least 1 is expected",
       17,
       microsoft},
      {"FusedConv",
       {x({1, 1, 4}), x({1, 1, 2})},
       {word("activation", "Clip")},
       "clips, and the limits are not there",
       17,
       microsoft},
      {"Resize",
       {x({"h"}), none(), floats({1}, {1.1F})},
       {},
       "scales a size that changes, [h] along axis 0, by 1.100000023841858, which is not a fraction of small "
       "numbers: OnnxOptions::shapes or dims fix the size"},
      {"GatherBlockQuantized",
       {codes, x({1}, i64), scales},
       {integer("bits", 3)},
       "has 3 bits, 2, 4 and 8 are supported",
       17,
       microsoft},
      {"GatherBlockQuantized",
       {codes, x({1}, i64), scales},
       {},
       "has a scale [2] for a table [1, 2, 16]: as many axes are expected",
       17,
       microsoft},
      {"FusedMatMul",
       {row, row},
       {integer("transBatchA", 1)},
       "moves batch axes behind the rows (transBatchA, transBatchB), which is not supported",
       17,
       microsoft},
      {"QLinearAveragePool",
       {x({2, 3}, u8), x({}), x({}, u8), x({}), x({}, u8)},
       {integer("channels_last", 1), integers("kernel_shape", {2})},
       "has an input [2, 3]: batch, sizes and channels are expected",
       17,
       microsoft},
      {"QLinearGlobalAveragePool",
       {x({2, 3}, u8), x({}), x({}, u8), x({}), x({}, u8)},
       {},
       "averages over sizes behind batch and channels, its input [2, 3] has none",
       17,
       microsoft},
      {"QLinearConcat",
       {x({}), x({}, u8)},
       {integer("axis", 0)},
       "has nothing to join: behind scale and zero point a tensor, its scale and its zero point are expected",
       17,
       microsoft},
  });
}

TEST(OnnxRefusals, Attention) {
  const In open = x({1, 1, 2, "d"}), head = x({1, 1, 2, 4}), flat = x({2, 4});
  const std::string size = "has heads of size d: a fixed size is needed (OnnxOptions::shapes or dims)";
  GraphText two;
  two.inputs = {value("a", f32, {}), value("b", f32, {})};
  two.outputs = {value("a", f32, {})};
  expect_refusals({
      {"Attention",
       {x({1, 3, 2, 4}), x({1, 2, 2, 4}), x({1, 2, 2, 4})},
       {},
       "has 3 query heads for 2 key heads: a fixed multiple is expected",
       23},
      {"Attention", {flat, flat, flat}, {}, "has queries [2, 4]: 3 or 4 axes are expected", 23},
      {"Attention", {open, open, open}, {}, size, 23},
      {"FlexAttention", {open, open, open}, {}, size, 26, preview},
      {"FlexAttention",
       {head, head, head},
       {graph_attribute("score_mod", two.text())},
       "has a graph score_mod of 2 inputs and 1 results: one of each is expected",
       26,
       preview},
      {"LinearAttention",
       {x({1, 2, 4}), x({1, 2, "d"}), x({1, 2, 4})},
       {integer("q_num_heads", 1), integer("kv_num_heads", 1), word("update_rule", "linear")},
       size,
       26},
      {"RotaryEmbedding",
       {x({1, 2, 4}), x({2, 2}), x({2, 2})},
       {},
       "has num_heads = 0: an input of 3 axes needs at least 1",
       23},
      {"CausalConvWithState",
       {x({1, "c", 4}), x({2, 1, 3})},
       {},
       "has c channels: a fixed number is needed (OnnxOptions::shapes or dims)",
       26},
      {"CausalConvWithState",
       {x({1, 2, 4}), x({2, 1, 3})},
       {word("activation", "relu")},
       "has activation = 'relu', expected one of none, silu, swish",
       26},
  });
}

TEST(OnnxRefusals, RecurrentLayers) {
  const std::vector<In> inputs{x({2, 1, 3}), x({1, 4, 3}), x({1, 4, 4})};
  expect_refusals({
      {"RNN", inputs, {words("activations", {"Tanh", "Relu"})}, "names 2 activations, 1 are expected"},
      {"RNN",
       inputs,
       {words("activations", {"Sine"})},
       "has the activation 'Sine', expected one of Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, "
       "Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu"},
  });
}

TEST(OnnxRefusals, Images) {
  const In image = x({1, 1, 2, 2});
  const auto scales = [](const std::vector<float>& list) { return floats({int(list.size())}, list); };
  expect_refusals({
      {"Resize",
       {image, none(), scales({1, 1, 2, 2})},
       {word("mode", "area")},
       "has mode = 'area', expected one of nearest, linear, cubic"},
      {"Resize",
       {image, none(), scales({2, 2})},
       {},
       "has 2 scales and 0 sizes for 4 axes: one of them is expected for each"},
      {"Resize", {image, none(), scales({1, 1, -1, 1})}, {}, "makes -2 elements of 2 along axis 2"},
      {"Upsample", {image, scales({2, 2})}, {}, "has 2 scales for 4 axes: one is expected for each", 9},
      {"GridSample",
       {image, x({1, 2, 2, 3})},
       {},
       "has a grid [1, 2, 2, 3] for [1, 1, 2, 2]: [batch, sizes.., a place for each size] is expected"},
      {"AffineGrid",
       {x({1, 2, 3}), ints({1, 1})},
       {},
       "has a size [1, 1]: [batch, channels, sizes..] is expected",
       20},
      {"RoiAlign",
       {image, x({1, 4}), x({1}, i64)},
       {integer("output_height", 0)},
       "has an output of 0 x 1, at least 1 x 1 is expected"},
  });
}

} // namespace
} // namespace luminal::onnx_refusals
