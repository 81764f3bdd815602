// models/onnx_refusals_test.cpp -- what load_onnx says of a node that it cannot read: attributes, elements,
// indices, shapes, signals. Others: onnx_window_refusals_test.cpp, onnx_file_refusals_test.cpp.
#include "models/onnx_refusals.h"

namespace luminal::onnx_refusals {
namespace {

const std::string training = "ai.onnx.preview.training";

TEST(OnnxRefusals, InputsAndAttributes) {
  const std::string referred = field(1, "axis") + field(21, "axis_of") + field(20, int64_t(2));
  expect_refusals({
      {"Relu", {}, {}, "has no input 0"},
      {"Gelu", {x({2})}, {}, "is of opset 17, it is supported from 20 on"},
      {"Cast", {x({2})}, {}, "has no attribute to"},
      {"Momentum", {x({}), x({}, i64), x({2}), x({2}), x({2})}, {}, "has no attribute alpha", 17, training},
      {"Softmax", {x({2})}, {number("axis", 1)}, "has the attribute axis of type FLOAT, INT is expected"},
      {"Softmax", {x({2})}, {referred}, "refers to the attribute axis_of of a function, and stands in none"},
      {"Softmax", {x({2, 3})}, {integer("axis", 5)}, "names axis 5 of 2 axes"},
      {"If", {x({}, boolean)}, {}, "has no attribute then_branch that is a graph"},
      {"Reshape", {x({4}), floats({2}, {2, 2})}, {}, "has floats as input 1, integers are expected"},
      {"CumSum", {x({4}), ints({0, 1})}, {}, "needs one integer as input 1, not 2"},
      {"Det", {x({"n", 2})}, {}, "needs a fixed shape, not [n, 2]: OnnxOptions::shapes or dims fix it"},
      {"RNN",
       {x({2, 1, 3}), x({1, 4, 3}), x({4, 4})},
       {},
       "has fewer axes, numbers or values than its operator needs"},
      {"MatMul", {x({2, 3}), x({2, 3})}, {}, ": [matmul] inner sizes differ: [2, 3] x [2, 3] (3 != 2)"},
  });
}

TEST(OnnxRefusals, Elements) {
  expect_refusals({
      {"IsInf", {x({2}, i32)}, {}, "expects floats, its input is i32"},
      {"Gelu",
       {x({2})},
       {word("approximate", "fast")},
       "has approximate = 'fast', expected one of none, tanh",
       20},
      {"Mod", {x({2}), x({2})}, {}, "of floats needs the attribute fmod = 1"},
      {"BitShift",
       {x({2}, u32), x({2}, u32)},
       {word("direction", "UP")},
       "has direction = 'UP', expected one of LEFT, RIGHT"},
      {"Cast", {x({2})}, {integer("to", 8)}, "casts FLOAT to STRING, which is not supported"},
      {"Cast", {x({2})}, {integer("to", 99)}, "casts FLOAT to the type 99, which is not supported"},
      {"BitCast",
       {x({2})},
       {integer("to", 11)},
       "reads the bits of FLOAT as DOUBLE: two types of as many bits are expected, without FLOAT8 of FNUZ, "
       "FLOAT8E8M0, FLOAT4 and 2 bits",
       26},
      {"NegativeLogLikelihoodLoss",
       {x({2, 3}), x({2}, i64)},
       {word("reduction", "max")},
       "has reduction = 'max', expected one of none, sum, mean"},
      {"Adam",
       {x({}), x({}, i64), x({2})},
       {},
       "has 3 inputs: a rate, a count and 4 tensors for each value are expected",
       17,
       training},
  });
}

TEST(OnnxRefusals, Indices) {
  expect_refusals({
      {"ScatterElements",
       {x({3}), x({1}, i64), x({1})},
       {word("reduction", "mean")},
       "has reduction = 'mean', expected one of none, add, mul, min, max"},
      {"GatherND",
       {x({2, 2}), x({1, 3}, i64)},
       {},
       "has indices [1, 3] for [2, 2]: they name more axes than there are"},
      {"Unique", {floats({}, {1})}, {integer("axis", 0)}, "has the attribute axis, its input has no axes"},
      {"NonMaxSuppression",
       {floats({1, 2, 4}, {0, 0, 1, 1, 0, 0, 1, 1}), floats({1, 1, 3}, {1, 2, 3}), scalar(1)},
       {},
       "has boxes [1, 2, 4] and scores [1, 1, 3]: [batch, boxes, 4] and [batch, classes, boxes] are "
       "expected"},
      {"Gather", {ints({1, 2}), scalar(5)}, {}, "reads element 5 of a list of 2"},
  });
}

TEST(OnnxRefusals, Shapes) {
  const std::string pair = tensor("", f32, {2}, raw<float>({1, 2})), empty = tensor("", i64, {0}, ""),
                    text = field(1, int64_t(1)) + field(2, int64_t(text_type)) + field(6, "a");
  expect_refusals({
      {"Reshape", {x({4}), ints({2, 0})}, {}, "copies extent 1 of [4], which has fewer axes"},
      {"Reshape", {x({4}), ints({-1, -1})}, {}, "has two extents of -1, one at most is expected"},
      {"Flatten", {x({2, 2})}, {integer("axis", 3)}, "names axis 3 of 2 axes"},
      {"Unsqueeze", {x({2})}, {}, "names no axes: at least one is expected"},
      {"Split", {x({4})}, {}, "has no result: at least one is expected", 17, "", 0},
      {"Split", {x({4}), ints({2, 2})}, {}, "makes 2 parts for 3 results", 17, "", 3},
      {"Slice",
       {x({4}), ints({0}), ints({1, 2})},
       {},
       "has 1 starts, 2 ends, 1 axes and 0 steps: as many of each are expected"},
      {"Slice", {x({4}), ints({0}), ints({2}), ints({0}), ints({0})}, {}, "has a step of 0"},
      {"Pad", {x({4}), ints({1})}, {}, "has 1 pads for 1 axes: two are expected for each"},
      {"Pad",
       {x({4}), ints({1, 1})},
       {word("mode", "mirror")},
       "has mode = 'mirror', expected one of constant, edge, reflect, wrap"},
      {"ConstantOfShape",
       {ints({2})},
       {tensor_attribute("value", pair)},
       "has a value of 2 numbers, one is expected"},
      {"ConstantOfShape",
       {ints({2})},
       {tensor_attribute("value", empty)},
       "has a value of 0 numbers, one is expected"},
      {"Constant", {}, {tensor_attribute("value", text)}, "has a value of STRING, which is not supported"},
      {"Constant",
       {},
       {word("value_string", "a")},
       "has no value of numbers: strings and sparse tensors are not supported"},
      {"Range",
       {floats({}, {0}), floats({}, {1}), floats({}, {0})},
       {},
       "does not lead from 0 to 1 in steps of 0"},
      {"DepthToSpace",
       {x({1, 4, 2, 2})},
       {integer("blocksize", 0)},
       "has blocksize = 0, at least 1 is expected"},
      {"SpaceToDepth",
       {x({1, 4, 2, 2})},
       {integer("blocksize", -1)},
       "has blocksize = -1, at least 1 is expected"},
      {"CenterCropPad", {x({4}), ints({2, 2})}, {}, "has 2 sizes for 1 axes: one is expected for each", 18},
  });
}

TEST(OnnxRefusals, ShapesThatVary) {
  GraphText g;
  g.nodes = {node("Shape", {"x"}, {"s"}), node("CenterCropPad", {"x", "s"}, {"y"})};
  g.inputs = {value("x", f32, {"n"})};
  g.outputs = {value("y", f32, {"n"})};
  EXPECT_EQ(refusal(model(g, 18)),
            "m.onnx: node 'y' (CenterCropPad) needs fixed integers as input 1: n is not one "
            "(OnnxOptions::shapes fixes dimensions)");
}

TEST(OnnxRefusals, SignalsAndWords) {
  const auto grams = [](const std::vector<int64_t>& counts, const std::vector<int64_t>& indices,
                        const std::string& mode = "TF") -> std::vector<std::string> {
    return {integers("pool_int64s", {5, 6}),
            integers("ngram_counts", counts),
            integers("ngram_indexes", indices),
            integer("min_gram_length", 1),
            integer("max_gram_length", 1),
            integer("max_skip_count", 0),
            word("mode", mode)};
  };
  const In line = x({1, 4}, i64);
  expect_refusals({
      {"STFT",
       {x({1, 8}), scalar(2)},
       {},
       "has frames of 0 elements in steps of 2, at least 1 is expected of both"},
      {"MelWeightMatrix",
       {scalar(0), scalar(8), scalar(16), floats({}, {0}), floats({}, {8})},
       {},
       "has 0 bins, a length of 8 and a rate of 16: at least 1 is expected of each"},
      {"TfIdfVectorizer",
       {line},
       {words("pool_strings", {"a"})},
       "has no pool_int64s: pools of strings are not supported"},
      {"TfIdfVectorizer", {line}, grams({0}, {}), "has no ngram_counts or no ngram_indexes"},
      {"TfIdfVectorizer", {line}, grams({0, 5}, {0}), "has ngram_counts that do not fit its pool of 2 words"},
      {"TfIdfVectorizer", {line}, grams({0}, {0}), "has 1 ngram_indexes, one is expected for each n-gram"},
      {"TfIdfVectorizer",
       {line},
       grams({0}, {0, 1}, "BM25"),
       "has mode = 'BM25', expected one of TF, IDF, TFIDF"},
  });
}

TEST(OnnxRefusals, Words) {
  const In image = x({1, 4, 2, 2}), gate = x({1, 4, 3});
  const auto scales = floats({4}, {1, 1, 2, 2});
  expect_refusals({
      {"DepthToSpace",
       {image},
       {integer("blocksize", 2), word("mode", "RCD")},
       "has mode = 'RCD', expected one of DCR, CRD"},
      {"TensorScatter",
       {x({1, 4, 2}), x({1, 1, 2})},
       {word("mode", "ring")},
       "has mode = 'ring', expected one of linear, circular",
       24},
      {"Cast",
       {x({2})},
       {integer("to", 24), word("round_mode", "zero")},
       "has round_mode = 'zero', expected one of up, down, nearest",
       24},
      {"ConvTranspose",
       {x({1, 2, 4}), x({2, 2, 3})},
       {word("auto_pad", "SAME")},
       "has auto_pad = 'SAME', expected one of NOTSET, VALID, SAME_UPPER, SAME_LOWER"},
      {"RNN",
       {x({2, 1, 3}), gate, x({1, 4, 4})},
       {word("direction", "both")},
       "has direction = 'both', expected one of forward, reverse, bidirectional"},
      {"LinearAttention",
       {x({1, 2, 4}), x({1, 2, 4}), x({1, 2, 4})},
       {integer("q_num_heads", 1), integer("kv_num_heads", 1), word("update_rule", "sum")},
       "has update_rule = 'sum', expected one of linear, gated, delta, gated_delta",
       26},
      {"Momentum",
       {x({}), x({}, i64), x({2}), x({2}), x({2})},
       {number("alpha", 1), number("beta", 1), word("mode", "fast")},
       "has mode = 'fast', expected one of standard, nesterov",
       17,
       training},
      {"Resize",
       {image, none(), scales},
       {word("coordinate_transformation_mode", "corner")},
       "has coordinate_transformation_mode = 'corner', expected one of half_pixel, half_pixel_symmetric, "
       "pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn, tf_crop_and_resize"},
      {"Resize",
       {image, none(), scales},
       {word("nearest_mode", "round")},
       "has nearest_mode = 'round', expected one of round_prefer_floor, round_prefer_ceil, floor, ceil"},
      {"Resize",
       {image, none(), none(), ints({1, 4, 4, 4})},
       {word("keep_aspect_ratio_policy", "fit")},
       "has keep_aspect_ratio_policy = 'fit', expected one of stretch, not_larger, not_smaller",
       18},
      {"Upsample",
       {image, scales},
       {word("mode", "cubic")},
       "has mode = 'cubic', expected one of nearest, linear",
       9},
      {"GridSample",
       {image, x({1, 2, 2, 2})},
       {word("mode", "area")},
       "has mode = 'area', expected one of linear, bilinear, nearest, cubic, bicubic"},
      {"GridSample",
       {image, x({1, 2, 2, 2})},
       {word("padding_mode", "edge")},
       "has padding_mode = 'edge', expected one of zeros, border, reflection"},
      {"RoiAlign",
       {image, x({1, 4}), x({1}, i64)},
       {word("mode", "sum")},
       "has mode = 'sum', expected one of avg, max"},
      {"RoiAlign",
       {image, x({1, 4}), x({1}, i64)},
       {word("coordinate_transformation_mode", "pixel")},
       "has coordinate_transformation_mode = 'pixel', expected one of half_pixel, output_half_pixel"},
  });
}

TEST(OnnxRefusals, FusedAttention) {
  const std::string at = "com.microsoft";
  const std::vector<std::string> two{integer("num_heads", 2)};
  const In q = x({1, 3, 8}), w = x({8, 24}), k = x({1, 2, 3, 4}), lengths = x({1}, i32);
  const auto with = [](std::vector<std::string> words, const std::string& word) {
    words.push_back(word);
    return words;
  };
  const std::vector<std::string> groups{integer("num_heads", 2), integer("kv_num_heads", 2)};
  const std::vector<In> grouped{q, q, q, none(), none(), lengths, scalar(3)};
  expect_refusals({
      {"Attention",
       {q, w},
       with(two, integer("do_rotary", 1)),
       "turns queries and keys (do_rotary), which is not supported",
       17,
       at},
      {"Attention",
       {q, w},
       with(two, integer("past_present_share_buffer", 1)),
       "keeps the past in a buffer (past_present_share_buffer), which is not supported",
       17,
       at},
      {"Attention", {q, w}, {integer("num_heads", 3)}, "has 3 heads for a hidden size of 8", 17, at},
      {"Attention",
       {q, w, none(), x({7}, i32)},
       two,
       "has a mask [7]: [batch, keys], [batch, queries, keys], or lengths [batch], or ends and starts "
       "[2 * batch] are expected",
       17,
       at},
      {"MultiHeadAttention", {q, q, q}, {integer("num_heads", 0)}, "has num_heads = 0", 17, at},
      {"MultiHeadAttention", {q}, two, "has queries of 3 axes and no keys", 17, at},
      {"MultiHeadAttention",
       {q, k, k, x({24})},
       two,
       "has a bias for keys whose heads are apart, which is not supported",
       17,
       at},
      {"MultiHeadAttention",
       {q, q, q, none(), none(), none(), none(), none(), lengths},
       two,
       "keeps the past in a buffer or follows beams, which is not supported",
       17,
       at},
      {"GroupQueryAttention",
       grouped,
       {integer("num_heads", 3), integer("kv_num_heads", 2)},
       "has 3 query heads for 2 key heads: a multiple is expected",
       17,
       at},
      {"GroupQueryAttention", grouped, groups, "gives the scores (qk_output), which is not supported", 17, at,
       4},
      {"RotaryEmbedding",
       {q, x({1}, i64), x({9, 2}), x({9, 2})},
       {number("scale", 2)},
       "has scale = 2, which is not supported",
       17,
       at},
      {"RotaryEmbedding",
       {x({1, 2, 3, 8}), x({9, 3}), x({9, 3}), x({1, 3}, i64)},
       {},
       "turns 8 elements of a head, and has cosines [1, 3, 3]: half as many are expected",
       23},
  });
}

} // namespace
} // namespace luminal::onnx_refusals
