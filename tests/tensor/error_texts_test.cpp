// tests/tensor/error_texts_test.cpp -- messages word for word: graphs, data, products, windows,
// channels, effects. tools/check_error_texts.py lists those that no test names.
#include "support.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace luminal {
namespace {

using namespace testing_tensor;

class ErrorTexts : public testing::Test {
protected:
  Graph g;
  Dim n = g.dim("n", 1, 8);
  Tensor scalar = g.tensor({}, DType::f32, "scalar"), v = g.tensor({3}, DType::f32, "v"),
         a = g.tensor({2, 3}, DType::f32, "a"), image = g.tensor({1, 2, 4, 4}, DType::f32, "image"),
         ints = g.tensor({3}, DType::i32, "ints");
};

TEST_F(ErrorTexts, Dimensions) {
  EXPECT_ERROR(g.dim("m", 4, 3), "[dim] m: 4..3 is not a range of sizes");
  EXPECT_ERROR(g.dim("m", 5, 7, 4), "[dim] m: 5..7 holds no multiple of 4");
  EXPECT_ERROR(g.dim("m", 5, 7, 0), "[dim] m: 5..7 holds no multiple of 0");
  EXPECT_ERROR(g.dim("n", 1, 9), "[dim] dimension n is declared with another range, 1..8");
  EXPECT_ERROR(g.set_dim("k", 3), "[set_dim] the graph has no dimension k; it has n");
  EXPECT_ERROR(g.set_dim("n", 9), "[set_dim] n = 9 is outside its range 1..8");
  EXPECT_EQ(error_of([&] { (void)(n * 2).value(); }),
            "dimension n*2 has no value: it changes from step to step");
}

TEST_F(ErrorTexts, InputsAndStates) {
  EXPECT_ERROR(g.tensor({2}, DType::f32, "a"), "[tensor] there is a tensor named a already");
  Graph other;
  Tensor s = g.state("s", {3});
  EXPECT_ERROR(other.update(s, s), "[update] the tensors belong to different graphs");
  EXPECT_ERROR(g.update(v, v), "[update] only a tensor made by Graph::state can be updated");
  EXPECT_ERROR(g.update(s, a), "[update] the state is f32[3], its next value f32[2, 3]");
  g.update(s, s + 1);
  EXPECT_ERROR(g.update(s, s + 2), "[update] the state has a next value already");
  const auto writes = [](Graph& body, const std::vector<Tensor>& in) {
    body.update(in[0], in[0], {});
    return in;
  };
  EXPECT_EQ(error_of([&] {
              g.function("f", {v}, writes);
            }).find("[update] inside of a loop or function there are no states: carry the value"),
            0u);
  EXPECT_ERROR(g.constant_bytes({}, DType::f32, {2}), "[constant] f32[2] needs 8 bytes, 0 were given");
  Tensor long_one = g.tensor({n}, DType::f32, "long_one");
  EXPECT_ERROR(long_one.data<float>(), "[data] [n]: symbol 'n' has no value (see Graph::set_dim)");
  g.set_dim("n", 3);
  long_one.set({1, 2, 3});
  const std::string set = at(__FILE__, __LINE__ - 1);
  g.set_dim("n", 4);
  EXPECT_ERROR(long_one.data<float>(),
               "[data] long_one (f32[n]) is [4] with the present sizes of dimensions; 3 elements were given" +
                   set);
  EXPECT_ERROR(v.data<float>(), "[data] v (f32[3]) has no value yet: it was never set");
  v.set({1, 2, 3});
  v.drop();
  const int dropped = __LINE__ - 1;
  EXPECT_ERROR(v.data<float>(),
               "[data] v (f32[3]) was dropped (at error_texts_test.cpp:" + std::to_string(dropped) + ")");
}

TEST_F(ErrorTexts, ShapesOfTheMoment) {
  Tensor x = g.tensor({n, 2}, DType::f32, "x");
  (x + 1).keep();
  g.set_dim("n", 2);
  x.set({{1, 2}, {3, 4}});
  (x + 1).keep();
  Graph h;
  Dim p = h.dim("p", 1, 8), q = h.dim("q", 1, 8);
  Tensor y = h.tensor({p, q}, DType::f32, "y");
  (y + 1).keep();
  h.set_dim("p", 2), h.set_dim("q", 3);
  y.set({{1, 2, 3}, {4, 5, 6}});
  const std::string set = at(__FILE__, __LINE__ - 1).substr(1);
  h.set_dim("p", 3), h.set_dim("q", 2);
  EXPECT_ERROR(h.execute(),
               "[execute] tensor y is f32[p, q]: [3, 2] with p = 3, q = 2; the values that were set "
               "have shape [2, 3] (" +
                   set + ")");
}

TEST_F(ErrorTexts, BodiesOfLoopsAndFunctions) {
  using Result = Graph::LoopResult;
  using List = std::vector<Tensor>;
  Graph other;
  Tensor foreign = other.tensor({3});
  const auto same = [](Graph&, const List& in) { return in; };
  EXPECT_ERROR(g.function("f", {foreign}, same), "[function] the tensors belong to different graphs");
  const auto nothing = [](Graph&, const Tensor&, const List&, const List&, const List&) { return Result{}; };
  EXPECT_ERROR(g.loop(4, {}, {a}, {}, nothing), "[loop] stepped tensor 0 of shape [2, 3] must have 4 rows");
  EXPECT_ERROR(g.loop(4, {v}, {}, {}, nothing), "[loop] the body returns 0 carried values, 1 go in");
  const auto wider = [](Graph&, const Tensor&, const List& c, const List&, const List&) {
    return Result{{c[0].cast(DType::f64)}, {}};
  };
  EXPECT_ERROR(g.loop(4, {v}, {}, {}, wider),
               "[loop] carried value 0 goes in as f32[3] and comes back as f64[3]");
  const auto makes = [](Graph& body, const List& in) {
    return List{in[0] + body.tensor({3}, DType::f32, "inner")};
  };
  EXPECT_ERROR(g.function("f", {v}, makes),
               "[function] inner is made inside of the body: make it outside and pass it in");
  const auto shows = [](Graph&, const List& in) { return List{print(in[0], "in", {})}; };
  EXPECT_EQ(error_of([&] {
              g.function("f", {v}, shows);
            }).find("[print] inside of a loop or function nothing can be shown: give the value out of it"),
            0u);
}

TEST_F(ErrorTexts, FunctionsOfElements) {
  EXPECT_ERROR(v.hardtanh(1, 1), "[hardtanh] the limits 1 and 1 are in the wrong order");
  EXPECT_ERROR(v.celu(0), "[celu] alpha must not be 0");
  EXPECT_ERROR(prelu(a, g.tensor({2})),
               "[prelu] weight [2] must be one value or one for each channel (axis 1 of [2, 3])");
  EXPECT_ERROR(v.norm(std::nan("")), "[norm] the order is NaN");
  EXPECT_ERROR(apply_operation("exp", {}), "[exp] one operand must be a tensor");
  EXPECT_ERROR(arange(g, 0, 1e300, 0.5),
               "[arange] 2e+300 numbers are too many (or the step is not a number)");
  register_operation({.name = "nand_of_tests",
                      .arity = 2,
                      .types = OperationTypes::bits,
                      .i64 = [](const int64_t* x, DType) { return ~(x[0] & x[1]); },
                      .definition = "bit_not(bit_and(a, b))"});
  EXPECT_ERROR(apply_operation("nand_of_tests", {v, v}), "[nand_of_tests] takes integers or bool, not f32");
}

TEST_F(ErrorTexts, Products) {
  EXPECT_ERROR(scalar.matmul(v), "[matmul] a scalar has no axis to multiply along");
  EXPECT_ERROR(einsum("i->i", {}), "[einsum] no tensors are given");
  EXPECT_ERROR(einsum("i..j->i", {a}), "[einsum] \"i..j->i\": 'i..j' has dots that are not single ...");
  EXPECT_ERROR(einsum("ij->ii", {a}), "[einsum] \"ij->ii\": the result names 'i' twice");
  EXPECT_ERROR(
      einsum("...i,...i->i", {a, g.tensor({4, 3})}),
      "[einsum] \"...i,...i->i\": an axis of ... has extent 2 here and 4 in tensor 1 of shape [4, 3]");
  EXPECT_ERROR(tensordot(a, a, {0, 1}, {0}), "[tensordot] 2 axes of one tensor and 1 of the other are named");
  EXPECT_ERROR(tensordot(a, a, {0, 0}, {0, 1}), "[tensordot] an axis is named twice");
  EXPECT_ERROR(tensordot(a, v, 2), "[tensordot] 2 axes cannot be summed over: the shapes are [2, 3] and [3]");
  Tensor q = g.tensor({4, 5, 8}), k = g.tensor({4, 6, 8}), k3 = g.tensor({3, 6, 8}),
         wide = g.tensor({n, 4, 5, n});
  EXPECT_ERROR(scaled_dot_product_attention(q, v, v),
               "[scaled_dot_product_attention] the tensors need equal numbers of axes, two at least: query "
               "[4, 5, 8], key [3], value [3]");
  EXPECT_ERROR(scaled_dot_product_attention(q, k, q),
               "[scaled_dot_product_attention] there must be one value for each key: query [4, 5, 8], key "
               "[4, 6, 8], value [4, 5, 8]");
  EXPECT_ERROR(scaled_dot_product_attention(q, k, k3),
               "[scaled_dot_product_attention] key and value differ in their heads: query [4, 5, 8], key [4, "
               "6, 8], value [3, 6, 8]");
  EXPECT_ERROR(
      scaled_dot_product_attention(q, k3, k3),
      "[scaled_dot_product_attention] the heads of the query are not a multiple of those of the key: "
      "query [4, 5, 8], key [3, 6, 8], value [3, 6, 8]");
  EXPECT_ERROR(scaled_dot_product_attention(wide, wide, wide),
               "[scaled_dot_product_attention] the last axis varies, so the scale must be given: query [n, "
               "4, 5, n], key [n, 4, 5, n], value [n, 4, 5, n]");
}

TEST_F(ErrorTexts, WindowsAndChannels) {
  Tensor k = g.tensor({3, 2, 3, 3}), any = g.tensor({3, 2, n, 3});
  EXPECT_ERROR(conv(image, k, {}, {.stride = {1, 2, 3}}), "[conv] 3 numbers of stride are given for 2 axes");
  EXPECT_ERROR(conv(image, k, {}, {.stride = 0}), "[conv] stride must be at least 1, it is 0");
  EXPECT_ERROR(conv(image, a), "[conv] the weight must be [channels, channels, kernel..], it is [2, 3]");
  EXPECT_ERROR(conv(image, any),
               "[conv] the kernel of weight [3, 2, n, 3] must be of known sizes, at least 1");
  EXPECT_ERROR(conv1d(image, k), "[conv1d] the weight must have 3 axes, it is [3, 2, 3, 3]");
  EXPECT_ERROR(conv(image, k, {}, {.padding = "full"}),
               "[conv] padding is \"same\", \"valid\" or numbers, not \"full\"");
  Tensor t = g.tensor({2, 3, 3, 3});
  EXPECT_ERROR(conv_transpose(image, t, {}, {.output_padding = 1}),
               "[conv_transpose] output_padding 1 must be below the stride or the dilation (1, 1)");
  EXPECT_ERROR(conv_transpose(image, t, {}, {.padding = 9}),
               "[conv_transpose] axis 2 of [1, 2, 4, 4] with this padding leaves nothing");
  EXPECT_ERROR(batch_norm(image, v, g.tensor({2})),
               "[batch_norm] the mean must be [2], one for each channel of [1, 2, 4, 4], it is [3]");
  EXPECT_ERROR(group_norm(v, 1), "[group_norm] x must be [batch, channels, ..], it is [3]");
  EXPECT_ERROR(instance_norm(a), "[instance_norm] x must be [batch, channels, size, ..], it is [2, 3]");
  EXPECT_ERROR(max_pool(v, {2, 2}), "[max_pool] the kernel has 2 sizes, x is [3]");
  EXPECT_ERROR(adaptive_avg_pool(v, {2, 2}), "[adaptive_avg_pool] 2 sizes are given, x is [3]");
  EXPECT_ERROR(avg_pool(image, {2, 2}, {.dilation = 2}), "[avg_pool] windows are not dilated");
  EXPECT_ERROR(lp_pool(image, 0, {2, 2}), "[lp_pool] the order must be finite and not 0, it is 0");
  EXPECT_ERROR(lp_pool(image, 2, {2, 2}, {.padding = 1}), "[lp_pool] windows are not padded");
  EXPECT_ERROR(interpolate(v, {2, 2}), "[interpolate] 2 sizes are given, x is [3]");
  EXPECT_ERROR(interpolate(v, {4}, Interpolation::nearest, true),
               "[interpolate] align_corners has no meaning for the nearest element");
  EXPECT_ERROR(interpolate(v, {0}), "[interpolate] sizes must be at least 1: [0]");
  EXPECT_ERROR(pixel_unshuffle(image, 3),
               "[pixel_unshuffle] the last two axes of [1, 2, 4, 4] must be multiples of 3");
  EXPECT_ERROR(fft(g.tensor({n, 2})), "[fft] axis -2 of [n, 2] must be of a known size, at least 1");
  EXPECT_ERROR(irfft(g.tensor({3, 2}), 8),
               "[irfft] a result of 8 elements comes from 5 frequencies, x [3, 2] has 3");
}

TEST_F(ErrorTexts, KernelsAndFunctionsOfTheUser) {
  register_host("of_error_texts", [](std::span<const HostArray> in) {
    return std::vector{HostArray::zeros(DType::f32, {in[0].count() + 1})};
  });
  EXPECT_ERROR(host_call("of_error_texts", {}, {{DType::f32, {}}}),
               "[host_call] of_error_texts needs an input");
  EXPECT_ERROR(host_call("of_error_texts", {v}, {}), "[host_call] of_error_texts needs an output");
  EXPECT_ERROR(custom_kernel(g, {.name = "k", .grid = {1, 2, 3, 4}, .outputs = {{DType::f32, {}}}}, {v}),
               "[custom_kernel] k: [1, 2, 3, 4] has more than three axes");
  Graph h;
  Tensor x = h.tensor({2}, DType::f32, "x");
  host_call("of_error_texts", {x}, {{DType::f32, {2}}})[0].keep();
  x.set({1, 2});
  EXPECT_ERROR(h.execute(), "[execute] [host] 'of_error_texts' gave results of other types than declared");
  Graph other;
  EXPECT_ERROR(add_terms(other, "return y = %a", {{"a", v}}),
               "[add_terms] the tensors belong to different graphs");
}

TEST_F(ErrorTexts, FilesAndNames) {
  EXPECT_ERROR(display(g, "graph.png"), "[display] graph.png: the name must end in .html, .dot or .lum");
  EXPECT_ERROR(dump(v, "a\nb.npy"), "[dump] a name with a line break");
  const auto folder =
      std::filesystem::temp_directory_path() / ("luminal_error_texts_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "x.safetensors").string(), line = (folder / "line.npy").string();
  Graph h;
  Tensor x = h.tensor({3}, DType::f32, "x"), other = h.tensor({3}, DType::f32, "other"),
         narrow = h.tensor({2}, DType::f32, "narrow");
  dump(x, file), dump(x, line);
  x.set({1, 2, 3}), other.set({1, 2, 3}), narrow.set({1, 2});
  h.execute();
  EXPECT_ERROR(compare(other, file, {.name = "z"}),
               "[compare] " + file + ": there is no tensor z; there are x");
  EXPECT_ERROR(compare(narrow, line), "[compare] " + line + " has shape [3], the tensor [2]");
  std::filesystem::remove_all(folder);
}

TEST_F(ErrorTexts, TextsOfHostTerms) {
  // A module from outside may say anything.
  const auto run = [&](const std::string& host) {
    Graph h;
    Tensor x = h.tensor({3}, DType::f32, "x");
    x.set({1, 2, 3});
    const std::string error = error_of([&] {
      add_terms(h, "%h = " + host + "\n%y = get %h, 0\nreturn y = %y", {{"x", x}})[0].keep();
      h.execute();
    });
    return error.substr(0, error.rfind(" at "));
  };
  EXPECT_EQ(
      run("host nobody_of_tests \"\" (%x) -> (f32[3])"),
      "[execute] [host] 'nobody_of_tests' is not registered: register_host_function gives it a meaning");
  EXPECT_EQ(run("host compare \"a\\nb\" (%x) -> ()"),
            "[execute] [compare] the text must be a file, or five lines: file, tensor, name in the file, "
            "relative and absolute tolerance");
}

TEST_F(ErrorTexts, BoundedAndQuantised) {
  Dim endless = g.dim("endless", 1, int64_t(1) << 50);
  EXPECT_ERROR(searchsorted(g.tensor({endless}), v),
               "[searchsorted] the last axis of [endless] needs a largest size");
  EXPECT_ERROR(interleave_rows(a, 4, 3), "[interleave_rows] [2, 3] is not made of 4 rows and runs of 3");
  const std::vector<float> line(64, 1), endless_line(32, INFINITY);
  const WeightFormat five{.bits = 5}, odd{.group = 48};
  EXPECT_ERROR(quantize_weight(line, 2, 32, five), "[quantize_weight] 5 bits: 8 and 4 are known");
  EXPECT_ERROR(quantize_weight(line, 2, 32, odd),
               "[quantize_weight] [2, 32] in groups of 48: groups are multiples of 32");
  EXPECT_ERROR(quantize_weight(line, 3, 32), "[quantize_weight] 64 values are no [3, 32]");
  EXPECT_ERROR(quantize_weight(endless_line, 1, 32), "[quantize_weight] value 0 is inf");
  EXPECT_ERROR(quantize_rows(g.tensor({2})), "[quantize_rows] [2] is not [m, k] with a known k");
  EXPECT_ERROR(quantize_rows({}), "[quantize_rows] a tensor is empty: it was never made from a graph");
  const QuantizedWeight weight = quantized_weight(g, "q", quantize_weight(line, 2, 32));
  EXPECT_ERROR(quantized_weight(g, "q", quantize_weight(line, 2, 32)),
               "[weight] there is a tensor named q.codes already");
  const QuantizedRows rows = quantize_rows(g.tensor({2, 64}));
  EXPECT_ERROR(matmul_transposed(rows, weight),
               "[matmul_transposed] inner sizes differ: [2, 64] x [2, 32] transposed");
  EXPECT_ERROR(matmul_transposed(a, weight),
               "[matmul_transposed] inner sizes differ: [2, 3] x [2, 32] transposed");
  const QuantizedWeight bytes =
      quantized_weight(g, "r", quantize_weight(std::vector<float>(1024, 1), 16, 64), RowOrder::bytes);
  EXPECT_ERROR(
      matmul_transposed(rows, bytes),
      "[matmul_transposed] blocks of 32 (codes [1, 2, 32, 16, 1]) do not fit those of the activations "
      "(32, in words of 4)");
  // Three blocks of 16, but the activations fill up two of 32.
  const QuantizedWeight three{g.tensor({1, 3, 4, 1, 4}, DType::u8), g.tensor({1, 3, 1})};
  EXPECT_ERROR(matmul_transposed(quantize_rows(g.tensor({2, 48})), three),
               "[matmul_transposed] blocks of 16 (codes [1, 3, 4, 1, 4]) do not fit those of the activations "
               "(32, in words of 4)");
}

} // namespace
} // namespace luminal
