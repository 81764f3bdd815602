// tests/models/gpt_nano_test.cpp -- a trained GPT-2 style model that sorts three letters: every
// intermediate value equals the upstream one.
#include "formats/safetensors.h"
#include "luminal/luminal.h"
#include "models/data.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>

namespace luminal {
namespace {

class Sorter {
public:
  Sorter(const std::string& data)
      : weights_(open_safetensors(data + "/llm/gpt_nano_sort.safetensors").value()),
        reference_(open_safetensors(data + "/llm/ref_gpt_nano_sort_partials.safetensors").value()) {
    Tensor ids = g.tensor({3, 11}, DType::i32, "ids");
    std::vector<float> given = reference("idx");
    ids.set(std::vector<int32_t>(given.begin(), given.end()));
    Tensor x =
        check("tok_emb", weight("transformer.wte.weight").gather(ids)) + weight("transformer.wpe.weight");
    check("x", x);
    for (int layer = 0; layer < 3; layer++) x = check("block" + std::to_string(layer), block(x, layer));
    Tensor normed = check("ln_f", norm(x, "transformer.ln_f"));
    Tensor logits = check("lm_head", normed.matmul(weight("lm_head.weight").transpose()));
    check("probs", logits.softmax(-1));
  }

  void compare() {
    g.execute();
    for (auto& [name, value] : checks_) {
      auto want = reference(name), got = value.data<float>();
      ASSERT_EQ(got.size(), want.size()) << name;
      for (size_t i = 0; i < want.size(); i++) {
        if (std::isinf(want[i]))
          ASSERT_EQ(got[i], want[i]) << name << " element " << i;
        else
          ASSERT_LE(std::abs(got[i] - want[i]), 1e-5f + 1e-5f * std::abs(want[i]))
              << name << " element " << i;
      }
    }
    EXPECT_GE(checks_.size(), 20u);
  }

private:
  static const TensorView& find(const Safetensors& file, const std::string& name) {
    for (const TensorView& t : file.tensors)
      if (t.name == name) return t;
    throw Error("no tensor " + name);
  }
  std::vector<float> reference(const std::string& name) {
    const TensorView& t = find(reference_, name);
    std::vector<float> values(t.bytes.size() / 4);
    std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
    return values;
  }
  Tensor weight(const std::string& name) {
    const TensorView& t = find(weights_, name);
    Tensor w = g.weight(name, Dims(t.shape.begin(), t.shape.end()));
    w.borrow(t.bytes.data(), t.bytes.size());
    return w;
  }
  Tensor check(const std::string& name, Tensor value) {
    value.keep();
    checks_.push_back({name, value});
    return value;
  }
  Tensor norm(const Tensor& x, const std::string& name) {
    return x.layer_norm({-1}) * weight(name + ".weight") + weight(name + ".bias");
  }
  Tensor linear(const Tensor& x, const std::string& name) {
    return x.matmul(weight(name + ".weight").transpose()) + weight(name + ".bias");
  }

  Tensor block(const Tensor& x, int layer) {
    std::string name = "transformer.h." + std::to_string(layer);
    auto see = [&](const std::string& what, Tensor value) {
      return layer == 0 ? check(what, value) : value;
    }; // upstream recorded the parts of the first block
    Tensor qkv = see("qkv", linear(see("ln1", norm(x, name + ".ln_1")), name + ".attn.c_attn"));
    auto heads = [&](int part) {
      return qkv.slice(2, part * 48, (part + 1) * 48).reshape({3, 11, 3, 16}).transpose(1, 2);
    }; // [batch, head, time, 16]
    Tensor q = see("q", heads(0)), k = see("k", heads(1)), v = see("v", heads(2));
    Tensor scores = q.matmul(k.transpose()) * 0.25;
    Tensor causal = g.arange(11) <= g.arange(11).unsqueeze(1);
    Tensor att = select(causal, scores, -INFINITY);
    Tensor mixed = see("attSm", att.softmax(-1)).matmul(v).transpose(1, 2).reshape({3, 11, 48});
    Tensor residual = see("attnResid", x + see("yProj", linear(see("y", mixed), name + ".attn.c_proj")));
    Tensor inner =
        see("gelu",
            see("fc", linear(see("ln2", norm(residual, name + ".ln_2")), name + ".mlp.c_fc")).gelu_tanh());
    return residual + see("mlp", linear(inner, name + ".mlp.c_proj"));
  }

  Safetensors weights_, reference_;
  Graph g;
  std::vector<std::pair<std::string, Tensor>> checks_;
};

TEST(GptNano, EveryIntermediateValueEqualsTheUpstreamOne) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  Sorter(data).compare();
}

} // namespace
} // namespace luminal
