// backend/code_size_test.cpp -- no elementwise operation makes much code, whatever its type and
// however long its axis: compile time follows size.
#include "choose/default_schedule.h"
#include "cone/cone.h"
#include "ir/ops.h"
#include "search/machine_profile.h"
#include "support.h"
#include <fmt/format.h>

namespace luminal {
namespace {
using namespace luminal::test;

/// Bytes of the object that the default schedule of a module's only function leads to.
size_t object_bytes(const std::string& term) {
  const Module module = parse_module(term, "term");
  const Function& function = module.entry();
  std::vector<NodeId> roots;
  for (const auto& result : function.results) roots.push_back(result.value);
  const auto cone = kernel::build_cone(function, roots, {}, {.in_place = true});
  EXPECT_TRUE(cone) << cone.error();
  auto made = kernel::default_kernel(*cone, search::MachineProfile::guess(2).limits());
  EXPECT_TRUE(made.kernel) << term;
  auto compiled = codegen::compile(*made.kernel, codegen::CpuTarget::host());
  EXPECT_TRUE(compiled) << term;
  return compiled->object.size();
}

class CodeSize : public testing::TestWithParam<int> {};

TEST_P(CodeSize, IsBoundedForEveryTypeAndExtent) {
  constexpr size_t most = 20 << 10;
  const OpRow& r = row(Op(GetParam()));
  for (int t = 0; t < dtype_count; t++) {
    const auto type = DType(t);
    DType args[] = {type, type, type};
    if (r.signature == Signature::choice) args[0] = DType::boolean;
    if (!result_type(r, args)) continue;
    for (const int extent : {64, 4096}) {
      std::string params, uses;
      for (int a = 0; a < r.arity; a++) {
        params += fmt::format("{}%x{}: {}[{}]", a ? ", " : "", a, to_string(args[a]), extent);
        uses += fmt::format("{}%x{}", a ? ", " : "", a);
      }
      EXPECT_LE(object_bytes(fmt::format("fn @main({}) {{\n  %y = {} {}\n  return y = %y\n}}\n", params,
                                         r.name, uses)),
                most)
          << r.name << " " << to_string(type) << "[" << extent << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CodeSize, testing::Range(0, op_count),
                         [](const auto& test) { return std::string(to_string(Op(test.param))); });

TEST(CodeSize, OfManyAnglesInOneKernelGrowsByTheirFastPartsOnly) {
  const auto sines = [](int count) {
    std::string text = "fn @main(%x: f32[4096]) {\n  %y0 = sin %x\n";
    for (int i = 1; i < count; i++)
      text += fmt::format("  %s{0} = add %x, %y{1}\n  %t{0} = {2} %s{0}\n  %y{0} = add %t{0}, %y{1}\n", i,
                          i - 1, i % 2 ? "cos" : "tan");
    return object_bytes(fmt::format("{}  return y = %y{}\n}}\n", text, count - 1));
  };
  EXPECT_LE(sines(20), 20 * sines(1));
  EXPECT_LE(sines(20), 100u << 10);
  EXPECT_LE(object_bytes(R"(fn @main(%f: f32[32]) {
  %p = iota f32 [p: 2048, k: 32] -> p
  %k = view %f [p: 2048, k: 32] -> [k]
  %a = mul %p, %k
  %c = cos %a
  %s = sin %a
  return c = %c, s = %s
}
)"),
            20u << 10)
      << "rotary tables";
}

} // namespace
} // namespace luminal
