// groups/emulated_groups_test.cpp -- the text of GPU languages for kernels that groups of lanes run, on the
// processor, in several orders of their threads.
#include "choose/group_schedule.h"
#include "group_support.h"
#include "simt/emulator.h"

namespace luminal::kernel {
namespace {

class EmulatedGroups : public testing::TestWithParam<std::string> {};

/// The global buffers as a launch gets them.
std::vector<simt::Bytes> arguments(const GroupCase& c) {
  std::vector<simt::Bytes> bytes;
  ExprMap<int64_t> values;
  for (Expr s : c.kernel.symbols) values[s] = c.inputs.symbols.at(std::string(s.name()));
  for (const ConeValue& v : c.cone.values) {
    if (v.role == ValueRole::interior) continue;
    const Node& node = c.module.entry()[v.origin];
    const Buffer& buffer = c.kernel.buffers[BufferId(bytes.size())];
    if (v.role == ValueRole::output)
      bytes.emplace_back(size_t(storage_bytes(v.dtype, *evaluate(buffer.size, values))), std::byte{0xA5});
    else if (node.kind == NodeKind::constant)
      bytes.push_back(*std::get<ConstantAttr>(node.attr).data);
    else
      bytes.push_back(c.inputs.inputs.at(std::get<InputAttr>(node.attr).name).data);
  }
  return bytes;
}

TEST_P(EmulatedGroups, ComputeWhatTheTermSays) {
  if (!simt::has_compiler()) GTEST_SKIP() << "there is no C++ compiler";
  const std::string epilogue =
      "  %e = exp %s\n  %cv = view %c [i: 37, j: 50] -> [j]\n  %out = mul %e, %cv\n  return out = %out\n";
  std::vector<std::pair<std::string, std::string>> sources = {
      {product_term(37, 50, 21), product_schedule(2, 3, 4)},
      {product_term(32, 32, 32, "f16"), product_schedule(4, 4, 16)},
      {product_term(19, 33, 9, "bf16"), product_schedule(1, 2, 3)},
      {product_term(37, 50, 12, "f32", epilogue), "fuse f out\n" + product_schedule(2, 2, 5)},
      {softmax_term(11, 100), rows_schedule(softmax_stages, 3, 21)},
      {softmax_term(5, 300), rows_schedule(softmax_stages, 1, 64)},
      {tuple_term(), tuple_schedule()},
  };
  // As they are chosen for the language's devices.
  for (const std::string& term :
       {product_term(150, 136, 33), product_term(70, 300, 20, "bf16"), softmax_term(9, 1000)}) {
    const auto made =
        group_kernel(*cone_of(parse_module(term, "term").entry(), false), *gpu_target(GetParam(), ""));
    ASSERT_TRUE(made) << term;
    sources.emplace_back(term, to_string(made->schedule));
  }
  // With units of several lanes: tails in each direction, transposed operands, batches, casts behind the sum.
  const std::string newest = GetParam() == "cuda" ? "sm_90" : GetParam() == "hip" ? "gfx942" : "";
  for (const std::string& term : {product_term(150, 136, 80, "bf16"), product_term(70, 99, 45, "f16"),
                                  transposed_term(3, 40, 72, 64), transposed_term(1, 33, 24, 51),
                                  product_term(37, 50, 48, "bf16", epilogue), product_term(150, 136, 33)}) {
    const auto made =
        group_kernel(*cone_of(parse_module(term, "term").entry(), false), *gpu_target(GetParam(), newest));
    ASSERT_TRUE(made) << term;
    sources.emplace_back(term, to_string(made->schedule));
  }
  simt::Emulator emulator(GetParam());
  std::vector<GroupCase> cases;
  uint64_t seed = 0;
  for (const auto& [term, schedule] : sources) {
    auto c = group_case(term, schedule, ++seed);
    ASSERT_TRUE(c);
    cases.push_back(std::move(*c));
    emulator.add(cases.back().kernel, arguments(cases.back()), {});
  }
  const std::vector<int> orders = {0, 1, 2, 3, 4, 5};
  ASSERT_EQ(emulator.run(orders), "");
  for (size_t i = 0; i < cases.size(); ++i)
    for (const int order : orders) {
      EXPECT_EQ(emulator.findings(int(i), order), "") << emulator.text(int(i));
      const std::vector<simt::Bytes> got = emulator.results(int(i), order);
      size_t at = 0;
      for (const ConeValue& v : cases[i].cone.values) {
        if (v.role == ValueRole::interior) continue;
        for (auto& result : cases[i].module.entry().results) {
          if (v.role != ValueRole::output || result.value != v.origin) continue;
          EXPECT_LE(difference(v.dtype, got[at], cases[i].want.at(result.name)), 4e-6)
              << i << " in order " << order << emulator.text(int(i));
        }
        ++at;
      }
    }
}

/// What a mistake turns the text behind the prelude into: the `which`-th place of `from` becomes `to`.
struct Mistake {
  const char* name;
  std::string from, to;
  int which = 0;
};
std::string with(std::string text, const Mistake& m) {
  size_t at = text.find("typedef i32 idx");
  for (int i = 0; i <= m.which; ++i) {
    at = text.find(m.from, i ? at + m.from.size() : at);
    if (at == std::string::npos) {
      ADD_FAILURE() << m.name << ": the text has no " << m.from << " number " << m.which << "\n" << text;
      return text;
    }
  }
  return text.replace(at, m.from.size(), m.to);
}

void expect_found(const std::string& term, const std::vector<Mistake>& planted) {
  if (!simt::has_compiler()) GTEST_SKIP() << "there is no C++ compiler";
  GpuTarget target = *gpu_target("cuda", "sm_80");
  target.groups = 2;
  const auto made = group_kernel(*cone_of(parse_module(term, "term").entry(), false), target);
  ASSERT_TRUE(made);
  const auto c = group_case(term, to_string(made->schedule), 5);
  ASSERT_TRUE(c);
  simt::Emulator emulator("cuda");
  emulator.add(c->kernel, arguments(*c), {});
  for (const Mistake& m : planted)
    emulator.add(c->kernel, arguments(*c), {}, 64, 3,
                 [&](std::string text) { return with(std::move(text), m); });
  const std::vector<int> orders = {0, 1, 2, 3, 4, 5};
  ASSERT_EQ(emulator.run(orders), "");
  const auto is_right = [&](int number, int order) {
    size_t at = 0;
    for (const ConeValue& v : c->cone.values) {
      if (v.role == ValueRole::interior) continue;
      if (v.role == ValueRole::output &&
          !(difference(v.dtype, emulator.results(number, order)[at], c->want.begin()->second) <= 4e-6))
        return false;
      ++at;
    }
    return emulator.findings(number, order).empty();
  };
  for (const int order : orders)
    EXPECT_TRUE(is_right(0, order)) << emulator.findings(0, order) << emulator.text(0);
  for (size_t i = 0; i < planted.size(); ++i) {
    int found = 0;
    for (const int order : orders) found += !is_right(int(i) + 1, order);
    EXPECT_GT(found, 0) << planted[i].name << emulator.text(0);
  }
}

TEST(PlantedMistakes, OfProductsByMatrixUnitsAreFound) {
  expect_found(product_term(64, 64, 136, "bf16"),
               {
                   {"tiles are read before they are there", "lum_copy_wait(3);", "lum_copy_wait(6);"},
                   {"nobody waits", "lum_copy_wait(3);", ""},
                   {"the last tiles are not awaited", "lum_copy_wait(0);", ""},
                   {"no barrier between the wait and the reads", "__syncthreads();", "", 1},
                   {"the ring is a tile too short", "% 3)", "% 2)"},
                   {"a copy overtakes", "+ 2) % 3", "+ 1) % 3"},
                   {"half of the lanes compute", "lum_mma_m16n8k16_bf16(",
                    "if (lum_lane % 32 < 16) lum_mma_m16n8k16_bf16("},
                   {"a is b", "b_f_a + 0", "b_f_b + 0"},
                   {"a fragment is written twice", "b_f_a[0] =", "b_f_a[1] ="},
                   {"the halves of a word change places", "(((u32)v0) | lum_shl_u32(((u32)v1)",
                    "(((u32)v1) | lum_shl_u32(((u32)v0)"},
                   {"the second step of the sum is left out", "i_k_u < 2", "i_k_u < 1"},
                   {"accumulators are not cleared", "= 0.0f;", "+= 0.5f;"},
               });
}

TEST(PlantedMistakes, OfRowsThatLanesExchangeAreFound) {
  expect_found(softmax_term(3, 1000), {
                                          {"one exchange is left out", ", 16));", ", 8));", 1},
                                          {"a lane exchanges with itself", ", 1));", ", 0));", 2},
                                          {"half of the lanes exchange",
                                           "b_sf_acc_other[0] =", "if (lum_lane % 2) b_sf_acc_other[0] ="},
                                          {"no barrier behind the parts", "__syncthreads();", ""},
                                      });
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedGroups, testing::Values("cuda", "hip", "metal"),
                         [](const auto& test) { return test.param; });

} // namespace
} // namespace luminal::kernel
