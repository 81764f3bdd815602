// tests/ir/llama_test.cpp -- a real Llama (stories260K) written as terms and run by the
// interpreter: greedy tokens and logits of the reference.
#include "interp_util.h"
#include "luminal/error.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>

namespace luminal {
namespace {

using namespace testing_ir;

std::optional<std::string> data_folder() {
  if (const char* folder = std::getenv("LUMINAL_TEST_DATA")) return folder;
  std::filesystem::path beside = std::filesystem::path(LUMINAL_SOURCE_DIR).parent_path() / "shared" / "data";
  if (std::filesystem::exists(beside)) return beside.string();
  return {};
}
std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Sizes {
  int32_t dim, hidden, layers, heads, kv_heads, vocabulary, length;
};

std::string module_text(const Sizes& z) {
  const int head = z.dim / z.heads, kv = z.kv_heads * head, group = z.heads / z.kv_heads;
  std::string text =
      fmt::format("symbol S: 1..{0}\nsymbol past: 0..{1}\nassume past + S <= {0}\n", z.length, z.length - 1);
  auto matmul = [](std::string name, std::string x, std::string w, int n, int k) {
    return fmt::format("  %{0}_x = view {1} [m: S, n: {3}, k: {4}] -> [m, k]\n  %{0}_w = view {2} [m: S, n: "
                       "{3}, k: {4}] -> [n, k]\n"
                       "  %{0}_p = mul %{0}_x, %{0}_w\n  %{0}_f = fold [m: S, n: {3}, k: {4}] over [k] {{ "
                       "sum %{0}_p[m, n, k] }}\n  %{0} = get %{0}_f, 0\n",
                       name, x, w, n, k);
  };
  auto norm = [&](std::string name, std::string x, std::string w) {
    return fmt::format(
        "  %{0}_sq = mul {1}, {1}\n  %{0}_f = fold [s: S, d: {3}] over [d] {{ sum %{0}_sq[s, d] }}\n  "
        "%{0}_ss = get %{0}_f, 0\n"
        "  %{0}_n = const f32 {3}\n  %{0}_nb = view %{0}_n [s: S] -> []\n  %{0}_mean = div %{0}_ss, %{0}_nb\n"
        "  %{0}_e = const f32 1e-5\n  %{0}_eb = view %{0}_e [s: S] -> []\n  %{0}_v = add %{0}_mean, "
        "%{0}_eb\n  %{0}_r = rsqrt %{0}_v\n"
        "  %{0}_rb = view %{0}_r [s: S, d: {3}] -> [s]\n  %{0}_wb = view {2} [s: S, d: {3}] -> [d]\n"
        "  %{0}_xr = mul {1}, %{0}_rb\n  %{0} = mul %{0}_xr, %{0}_wb\n",
        name, x, w, z.dim);
  };
  auto rope = [&](std::string name, std::string x, int heads) { // pairs (2i, 2i + 1)
    std::string axes = fmt::format("[s: S, h: {}, d: {}]", heads, head);
    return fmt::format("  %{0}_h = view {1} {2} -> [s, h * {3} + d]\n  %{0}_o = view %{0}_h {2} -> [s, h, d "
                       "+ 1 - d % 2 * 2]\n"
                       "  %{0}_pos = iota f32 {2} -> past + s\n  %{0}_i = iota f32 {2} -> d // 2 * 2\n  "
                       "%{0}_ln = const f32 {4}\n  %{0}_lb = view %{0}_ln {2} -> []\n"
                       "  %{0}_ex = mul %{0}_i, %{0}_lb\n  %{0}_fr = exp %{0}_ex\n  %{0}_an = mul %{0}_pos, "
                       "%{0}_fr\n  %{0}_co = cos %{0}_an\n  %{0}_si = sin %{0}_an\n"
                       "  %{0}_sg = iota f32 {2} -> d % 2 * 2 - 1\n  %{0}_ss = mul %{0}_si, %{0}_sg\n  "
                       "%{0}_a = mul %{0}_h, %{0}_co\n  %{0}_b = mul %{0}_o, %{0}_ss\n"
                       "  %{0} = add %{0}_a, %{0}_b\n",
                       name, x, axes, head, -std::log(10000.0) / head);
  };
  text += fmt::format(
      "fn @layer(%x: f32[S, {0}], %kc: f32[{1}, {2}, {3}], %vc: f32[{1}, {2}, {3}], %n1: f32[{0}], %wq: "
      "f32[{0}, {0}], %wk: f32[{4}, {0}], %wv: f32[{4}, {0}],"
      " %wo: f32[{0}, {0}], %n2: f32[{0}], %w1: f32[{5}, {0}], %w2: f32[{0}, {5}], %w3: f32[{5}, {0}]) {{\n",
      z.dim, z.length, z.kv_heads, head, kv, z.hidden);
  text += norm("a", "%x", "%n1") + matmul("q0", "%a", "%wq", z.dim, z.dim) +
          matmul("k0", "%a", "%wk", kv, z.dim) + matmul("v0", "%a", "%wv", kv, z.dim);
  text += rope("q", "%q0", z.heads) + rope("k", "%k0", z.kv_heads);
  text += fmt::format("  %v = view %v0 [s: S, h: {0}, d: {1}] -> [s, h * {1} + d]\n", z.kv_heads, head);
  for (std::string c : {"k", "v"})
    text +=
        fmt::format("  %{0}n = scatter set %{0}c, %{0} [s: S, h: {1}, d: {2}] -> [past + s, h, d] unique\n",
                    c, z.kv_heads, head);
  std::string space = fmt::format("[h: {}, q: S, t: {}, d: {}]", z.heads, z.length, head);
  text += fmt::format(
      "  %sq = view %q {0} -> [q, h, d]\n  %sk = view %kn {0} -> [t, h // {1}, d]\n  %sp = mul %sq, %sk\n"
      "  %sf = fold {0} over [d] {{ sum %sp[h, q, t, d] }}\n  %s0 = get %sf, 0\n  %sc = const f32 {2}\n  "
      "%scb = view %sc [h: {3}, q: S, t: {4}] -> []\n  %s = mul %s0, %scb\n",
      space, group, 1 / std::sqrt(double(head)), z.heads, z.length);
  std::string three = fmt::format("[h: {}, q: S, t: {}]", z.heads, z.length);
  text += fmt::format("  %mf = fold {0} over [t] where t <= past + q {{ max %s[h, q, t] }}\n  %m = get %mf, "
                      "0\n  %mb = view %m {0} -> [h, q]\n  %sm = sub %s, %mb\n  %e = exp %sm\n"
                      "  %lf = fold {0} over [t] where t <= past + q {{ sum %e[h, q, t] }}\n  %l = get %lf, "
                      "0\n  %lb = view %l {0} -> [h, q]\n  %p = div %e, %lb\n",
                      three);
  text += fmt::format(
      "  %pb = view %p {0} -> [h, q, t]\n  %pv = view %vn {0} -> [t, h // {1}, d]\n  %pp = mul %pb, %pv\n"
      "  %of = fold {0} over [t] where t <= past + q {{ sum %pp[h, q, t, d] }}\n  %o0 = get %of, 0\n  %o = "
      "view %o0 [s: S, c: {2}] -> [c // {3}, s, c % {3}]\n",
      space, group, z.dim, head);
  text += matmul("wo_", "%o", "%wo", z.dim, z.dim) + "  %y = add %x, %wo_\n" + norm("b", "%y", "%n2");
  text += matmul("g", "%b", "%w1", z.hidden, z.dim) + matmul("u", "%b", "%w3", z.hidden, z.dim) +
          "  %gs = silu %g\n  %gu = mul %gs, %u\n" + matmul("dn", "%gu", "%w2", z.dim, z.hidden);
  text += "  %z = add %y, %dn\n  return z = %z, k = %kn, v = %vn\n}\n";

  text += fmt::format("fn @main(%ids: i32[S], weight %emb: f32[{}, {}], weight %nf: f32[{}]", z.vocabulary,
                      z.dim, z.dim);
  for (int l = 0; l < z.layers; ++l) {
    text += fmt::format(", state %kc{0}: f32[{1}, {2}, {3}], state %vc{0}: f32[{1}, {2}, {3}]", l, z.length,
                        z.kv_heads, head);
    text += fmt::format(
        ", weight %n1_{0}: f32[{1}], weight %wq{0}: f32[{1}, {1}], weight %wk{0}: f32[{2}, {1}], weight "
        "%wv{0}: f32[{2}, {1}], weight %wo{0}: f32[{1}, {1}], weight %n2_{0}: f32[{1}], "
        "weight %w1_{0}: f32[{3}, {1}], weight %w2_{0}: f32[{1}, {3}], weight %w3_{0}: f32[{3}, {1}]",
        l, z.dim, kv, z.hidden);
  }
  text += fmt::format(") {{\n  %x0 = view %emb [s: S, d: {}] with id = %ids[s] in 0..{} -> [id, d]\n", z.dim,
                      z.vocabulary - 1);
  std::string results;
  for (int l = 0; l < z.layers; ++l) {
    text += fmt::format("  %c{0} = call @layer(%x{0}, %kc{0}, %vc{0}, %n1_{0}, %wq{0}, %wk{0}, %wv{0}, "
                        "%wo{0}, %n2_{0}, %w1_{0}, %w2_{0}, %w3_{0})\n"
                        "  %x{1} = get %c{0}, 0\n  %kn{0} = get %c{0}, 1\n  %vn{0} = get %c{0}, 2\n",
                        l, l + 1);
    results += fmt::format(", k{0} = %kn{0} -> kc{0}, v{0} = %vn{0} -> vc{0}", l);
  }
  text +=
      norm("f", fmt::format("%x{}", z.layers), "%nf") + matmul("logits", "%f", "%emb", z.vocabulary, z.dim);
  return text + "  return logits = %logits" + results + "\n}\n";
}

/// Tensors of a safetensors file by a plain search of its header: enough for the two that are
/// needed.
std::vector<double> reference(const std::string& file, const std::string& name) {
  uint64_t header_size;
  std::memcpy(&header_size, file.data(), 8);
  std::string header = file.substr(8, header_size);
  size_t at = header.find("\"" + name + "\"");
  size_t offsets = header.find("\"data_offsets\":[", at);
  if (at == std::string::npos || offsets == std::string::npos) throw Error("no tensor " + name);
  size_t begin = std::stoull(header.substr(offsets + 16)),
         end = std::stoull(header.substr(header.find(',', offsets) + 1));
  std::string type = header.substr(header.find("\"dtype\":\"", at) + 9, 3);
  std::vector<double> values;
  DType dtype = type == "I64" ? DType::i64 : type == "I32" ? DType::i32 : DType::f32;
  const auto* data = reinterpret_cast<const std::byte*>(file.data() + 8 + header_size + begin);
  for (int64_t i = 0; storage_bytes(dtype, i) < int64_t(end - begin); ++i)
    values.push_back(load_f64(dtype, data, i));
  return values;
}

TEST(Llama, Stories260KSpeaks) {
  auto folder = data_folder();
  if (!folder || !std::filesystem::exists(*folder + "/llm/stories260K.bin"))
    GTEST_SKIP() << "no test data: set LUMINAL_TEST_DATA";
  const std::string file = read_file(*folder + "/llm/stories260K.bin"),
                    expected = read_file(*folder + "/llm/ref_stories260K.safetensors");
  Sizes z;
  std::memcpy(&z, file.data(), sizeof z);
  const int head = z.dim / z.heads, kv = z.kv_heads * head;
  Case c(module_text(z));
  const char* cursor = file.data() + sizeof z;
  auto take = [&](const std::string& name, std::vector<int64_t> shape) {
    HostTensor t{DType::f32, std::move(shape), {}};
    t.data.resize(size_t(t.count()) * 4);
    std::memcpy(t.data.data(), cursor, t.data.size());
    cursor += t.data.size();
    c.with(name, std::move(t));
  };
  auto each = [&](const std::string& name, std::vector<int64_t> shape) {
    for (int l = 0; l < z.layers; ++l) take(name + std::to_string(l), shape);
  };
  take("emb", {z.vocabulary, z.dim});
  each("n1_", {z.dim});
  each("wq", {z.dim, z.dim});
  each("wk", {kv, z.dim});
  each("wv", {kv, z.dim});
  each("wo", {z.dim, z.dim});
  each("n2_", {z.dim});
  each("w1_", {z.hidden, z.dim});
  each("w2_", {z.dim, z.hidden});
  each("w3_", {z.hidden, z.dim});
  take("nf", {z.dim});
  for (int l = 0; l < z.layers; ++l)
    for (std::string s : {"kc", "vc"})
      c.with(s + std::to_string(l),
             f32({z.length, z.kv_heads, head}, std::vector<double>(size_t(z.length) * size_t(kv), 0)));

  std::vector<double> tokens = reference(expected, "greedy_tokens"),
                      logits = reference(expected, "logits_first64");
  const int steps = std::getenv("LUMINAL_LONG_TESTS") ? 200 : 24;
  auto start = std::chrono::steady_clock::now();
  double token = tokens[0];
  c.at("S", 1);
  for (int step = 0; step < steps; ++step) {
    c.with("ids", tensor(DType::i32, {1}, {token})).at("past", step);
    auto results = Interpreter(c.module, c.bindings).run();
    std::vector<double> y = numbers(results["logits"]);
    if (step < 64) {
      for (int v = 0; v < z.vocabulary; ++v)
        ASSERT_NEAR(logits[size_t(step * z.vocabulary + v)], y[size_t(v)], 1e-4) << "step " << step;
    }
    token = double(std::max_element(y.begin(), y.end()) - y.begin());
    ASSERT_EQ(tokens[size_t(step) + 1], token) << "step " << step;
    for (int l = 0; l < z.layers; ++l)
      for (std::string s : {"k", "v"})
        c.bindings.inputs[s + "c" + std::to_string(l)] = std::move(results[s + std::to_string(l)]);
  }
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("milliseconds_per_token", int(seconds / steps * 1000));

  // The same tokens at once.
  const int at_once = 12;
  for (int l = 0; l < z.layers; ++l)
    for (std::string s : {"kc", "vc"})
      c.with(s + std::to_string(l),
             f32({z.length, z.kv_heads, head}, std::vector<double>(size_t(z.length) * size_t(kv), 0)));
  c.with("ids", tensor(DType::i32, {at_once}, {tokens.begin(), tokens.begin() + at_once}))
      .at("S", at_once)
      .at("past", 0);
  std::vector<double> y = c.get("logits");
  for (size_t k = 0; k < y.size(); ++k) ASSERT_NEAR(logits[k], y[k], 1e-4);
}

} // namespace
} // namespace luminal
