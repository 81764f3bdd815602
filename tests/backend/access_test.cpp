// backend/access_test.cpp -- no index, divisor or size that a module asks for lets a plan touch
// what is not its own, or stop the process: what is not proved is checked when it runs, and plan
// and interpreter give the same verdict.
#include "backend/plans.h"
#include "compile/target.h"
#include "luminal/luminal.h"
#include "runtime/export_plan.h"
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

HostTensor f32(std::vector<int64_t> shape) {
  std::vector<double> values;
  int64_t count = 1;
  for (int64_t e : shape) count *= e;
  for (int64_t i = 0; i < count; i++) values.push_back(double(i) + 1);
  return host_tensor(DType::f32, std::move(shape), values);
}
HostTensor i32(std::vector<int64_t> shape, std::vector<double> values) {
  return host_tensor(DType::i32, std::move(shape), values);
}

/// A module, what it gives by plan and by interpreter, and what either says where it refuses.
struct Judged {
  Module module;
  Running running;
  explicit Judged(const std::string& text, const Pass& passes = passes::defaults())
      : module(parse_module(text)), running(module, 1, 0, passes) {}

  std::string plan_error, interpreter_error;
  /// Both refuse, or both give the same numbers.
  bool runs(const Bindings& bindings) {
    plan_error = interpreter_error = "";
    std::map<std::string, HostTensor> right;
    try {
      right = Interpreter(module, bindings).run();
    } catch (const Error& error) {
      interpreter_error = error.what();
    }
    running.store = std::make_shared<runtime::Store>(*running.device);
    auto context = running.start(module, bindings);
    auto done = context->run();
    if (!done) plan_error = done.error();
    EXPECT_EQ(plan_error.empty(), interpreter_error.empty())
        << "plan: " << plan_error << "\ninterpreter: " << interpreter_error << "\n"
        << running.report;
    if (!done) return false;
    for (const FunctionResult& r : module.entry().results) {
      const auto got = context->result(r.name).value();
      const HostTensor& want = right[r.name];
      EXPECT_EQ(got.shape, want.shape);
      EXPECT_EQ(std::vector<std::byte>(got.bytes.begin(), got.bytes.end()), want.data) << r.name;
    }
    return true;
  }
};

TEST(Access, AViewThatLeavesItsInputIsRefusedWhenTheSizesAreKnown) {
  Judged c("symbol S: 0..100\nfn @main(%x: f32[8]) { %y = view %x [i: S] -> [i]  return y = %y }");
  for (int64_t size : {0, 1, 8}) EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", size}}}));
  for (int64_t size : {9, 50, 100}) {
    EXPECT_FALSE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", size}}}));
    EXPECT_THAT(c.plan_error,
                AllOf(HasSubstr("[view] %y reads axis 0 of %x at i, which is not within 0 <= index < 8"),
                      HasSubstr(fmt::format("(S = {})", size))));
  }
}

TEST(Access, AScatterThatLeavesItsBaseIsRefused) {
  Judged c(R"(symbol S: 0..100000
  fn @main(%x: f32[8]) {
    %v = view %x [i: S] -> [i % 8]
    %y = scatter set %x, %v [i: S] -> [i * 3]
    return y = %y
  })");
  for (int64_t size : {0, 1, 3}) EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", size}}}));
  for (int64_t size : {4, 5, 100000})
    EXPECT_FALSE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", size}}}));
  EXPECT_THAT(c.plan_error, HasSubstr("[scatter] %y writes axis 0 of %x at "));
}

TEST(Access, WhereNoClosedFormIsEnoughThePointsThemselvesAreLookedAt) {
  // The condition leaves only points that are inside, which the bounds of the index do not show.
  Judged c(R"(symbol S: 1..40
  fn @main(%x: f32[8]) {
    %y = view %x [i: S, j: S] -> [i * j] where i * j % 5 < 2 and i * j < 9
    return y = %y
  })");
  EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", 3}}}));
  EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", 40}}}));
  Judged d(R"(symbol S: 1..40
  fn @main(%x: f32[8]) {
    %y = view %x [i: S, j: S] -> [i * j] where i * j % 5 < 4 and i * j < 9
    return y = %y
  })");
  EXPECT_TRUE(d.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", 3}}}));
  EXPECT_FALSE(d.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", 9}}})); // 8 = 2 * 4
}

TEST(Access, ClampAndFillHoldIndicesBelowTheExtent) {
  const std::vector<double> wild = {-100000000, -1, 0, 7, 8, 100000000};
  for (const char* policy : {"clamp", "fill"})
    for (const char* extent : {"8", "S"}) {
      Judged view(fmt::format(R"(symbol S: 0..9
      fn @main(%x: f32[{1}], %ids: i32[6], %z: f32[S]) {{
        %y = view %x [i: 6] with h = %ids[i] in -100000000..100000000 {0} -> [h]
        %u = view %z [i: S] -> [i]
        return y = %y, u = %u
      }})",
                              policy, extent));
      Judged scatter(fmt::format(R"(symbol S: 0..9
      fn @main(%x: f32[{1}], %ids: i32[6], %v: f32[6], %z: f32[S]) {{
        %y = scatter sum %x, %v [i: 6] with h = %ids[i] in -100000000..100000000 {0} -> [h]
        %u = view %z [i: S] -> [i]
        return y = %y, u = %u
      }})",
                                 policy, extent));
      for (int64_t size : {8, 1}) {
        const int64_t n = std::string(extent) == "8" ? 8 : size;
        const Bindings bindings{.inputs = {{"x", f32({n})}, {"ids", i32({6}, wild)}, {"z", f32({size})}},
                                .symbols = {{"S", size}}};
        EXPECT_TRUE(view.runs(bindings)) << policy << extent;
        Bindings more = bindings;
        more.inputs["v"] = f32({6});
        EXPECT_TRUE(scatter.runs(more)) << policy << extent;
      }
    }
}

// One number in each line, where an index says: elements compare their place with it.
TEST(Access, AnIndexThatIsComparedKeepsItsPolicy) {
  const std::vector<double> inside = {0, 7, 3, 3, 1, 0}, wild = {-100000000, -1, 0, 7, 8, 100000000};
  for (const char* policy : {"", "clamp", "fill"})
    for (const char* extent : {"8", "S"})
      for (const bool first : {false, true}) { // the axis of the index stands first or last
        Judged c(fmt::format(R"(symbol S: 1..9
      fn @main(%ids: i32[6], %v: f32[{2}], %z: f32[S]) {{
        %two = const f32 2
        %x = view %two [{3}] -> []
        %y = scatter set %x, %v [{4}] with h = %ids[i] in -100000000..100000000 {0} -> [{5}]
        %u = view %z [i: S] -> [i]
        %g = mul %y, %x
        return y = %g, u = %u
      }})",
                             policy, extent, first ? "1, 6" : "6, 1",
                             first ? fmt::format("c: {}, i: 6", extent) : fmt::format("i: 6, c: {}", extent),
                             first ? "o: 1, i: 6" : "i: 6, o: 1", first ? "h, i" : "i, h"));
        const std::vector<int64_t> lines = first ? std::vector<int64_t>{1, 6} : std::vector<int64_t>{6, 1};
        for (int64_t size : {8, 1})
          for (const auto& indices : {inside, wild}) {
            const int64_t n = std::string(extent) == "8" ? 8 : size;
            const bool known =
                std::ranges::all_of(indices, [&](double i) { return i >= 0 && i < double(n); });
            EXPECT_EQ(c.runs({.inputs = {{"ids", i32({6}, indices)}, {"v", f32(lines)}, {"z", f32({size})}},
                              .symbols = {{"S", size}}}),
                      known || *policy != 0)
                << policy << extent << n;
          }
      }
}

TEST(Access, NothingIsReadOfAnEmptyAxis) {
  const std::string text = R"(symbol S: 0..9
  fn @main(%x: f32[S], %ids: i32[3]) {{
    %y = view %x [i: 3] with h = %ids[i] in 0..100 {} -> [h]
    return y = %y
  }})";
  Judged fill(fmt::format(fmt::runtime(text), "fill")), clamp(fmt::format(fmt::runtime(text), "clamp")),
      error(fmt::format(fmt::runtime(text), ""));
  for (int64_t size : {0, 2}) {
    const Bindings bindings{.inputs = {{"x", f32({size})}, {"ids", i32({3}, {0, 1, 0})}},
                            .symbols = {{"S", size}}};
    EXPECT_TRUE(fill.runs(bindings));
    EXPECT_EQ(clamp.runs(bindings), size > 0);
    EXPECT_EQ(error.runs(bindings), size > 0);
  }
}

TEST(Access, AnIndexBeyondEveryExtentIsClampedToTheEnd) {
  Judged c(R"(fn @main(%x: f32[8], %ids: u64[2]) {
    %y = view %x [i: 2] with h = %ids[i] in 0..100 clamp -> [h]
    return y = %y
  })");
  HostTensor ids{DType::u64, {2}, std::vector<std::byte>(16, std::byte{0xff})};
  ids.data[7] = std::byte{0}; // one above i64, one below
  EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}, {"ids", ids}}}));
}

TEST(Access, IndicesFromMemoryAreCheckedAgainstTheAxisToo) {
  Judged c(R"(symbol S: 1..20
  fn @main(%x: f32[S], %ids: i32[3]) {
    %y = view %x [i: 3] with h = %ids[i] in 0..100 -> [h]
    return y = %y
  })");
  const auto at = [&](int64_t size, std::vector<double> ids) {
    return c.runs(
        {.inputs = {{"x", f32({size})}, {"ids", i32({3}, std::move(ids))}}, .symbols = {{"S", size}}});
  };
  EXPECT_TRUE(at(5, {0, 4, 2}));
  EXPECT_FALSE(at(5, {0, 5, 2}));
  EXPECT_THAT(c.plan_error,
              HasSubstr("[gather] index ids is out of range: element 1 is 5, allowed are 0..4"));
  EXPECT_TRUE(at(6, {0, 5, 2}));
  EXPECT_FALSE(at(6, {-1, 5, 2}));
}

/// They are looked at in vectors: none is left out, wherever it stands.
TEST(Access, EveryIndexFromMemoryIsChecked) {
  for (const char* type : {"i64", "i32", "u8", "i16"}) {
    constexpr int64_t n = 43;
    Judged c(fmt::format(R"(fn @main(%x: f32[100], %ids: {}[{}]) {{
    %y = view %x [i: {}] with h = %ids[i] in 3..97 -> [h]
    return y = %y
  }})",
                         type, n, n));
    const DType dtype = c.module.entry()[c.module.entry().params[1]].type().dtype;
    HostTensor ids{dtype, {n}, std::vector<std::byte>(size_t(storage_bytes(dtype, n)))};
    const auto put = [&](int64_t i, int64_t value) { store_i64(dtype, ids.data.data(), i, value); };
    for (int64_t i = 0; i < n; i++) put(i, 3 + (i * 31) % 95);
    EXPECT_TRUE(c.runs({.inputs = {{"x", f32({100})}, {"ids", ids}}}));
    for (int64_t i = 0; i < n; i++)
      for (const int64_t wrong : {2, 98}) {
        put(i, wrong);
        EXPECT_FALSE(c.runs({.inputs = {{"x", f32({100})}, {"ids", ids}}})) << type << " " << i;
        EXPECT_THAT(c.plan_error, HasSubstr(fmt::format("element {} is {}, allowed are 3..97", i, wrong)));
        put(i, 3 + (i * 31) % 95);
      }
  }
}

TEST(Access, AConditionSaysWhereAnIndexFromMemoryCounts) {
  // As the views pass leaves a gather from a padded tensor.
  Judged c(R"(fn @main(%x: f32[2], %ids: i32[3]) {
    %p = view %x [i: 32] -> [i] where i < 2
    %y = view %p [i: 3] with h = %ids[i] in 0..31 -> [h]
    return y = %y
  })");
  EXPECT_TRUE(c.runs({.inputs = {{"x", f32({2})}, {"ids", i32({3}, {0, 19, 1})}}}));
  EXPECT_FALSE(c.runs({.inputs = {{"x", f32({2})}, {"ids", i32({3}, {0, 32, 1})}}}));
}

TEST(Access, IndicesFromMemoryInSums) {
  Judged c(R"(fn @main(%x: f32[8], %ids: i32[3]) {
    %y = view %x [i: 3, j: 2] with h = %ids[i] in 0..10 -> [h * 2 + j]
    return y = %y
  })");
  EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}, {"ids", i32({3}, {0, 3, 1})}}}));
  EXPECT_FALSE(c.runs({.inputs = {{"x", f32({8})}, {"ids", i32({3}, {0, 4, 1})}}}));
  EXPECT_THAT(c.plan_error, HasSubstr("reads axis 0 of %x at"));
}

TEST(Access, AViewDoesNotLoseItsBoundsInAnother) {
  Judged c(R"(symbol S: 0..20
  fn @main(%x: f32[20]) {
    %a = view %x [i: 4] -> [i + 2]
    %y = view %a [i: S] -> [i]
    return y = %y
  })");
  EXPECT_TRUE(c.runs({.inputs = {{"x", f32({20})}}, .symbols = {{"S", 4}}}));
  EXPECT_FALSE(c.runs({.inputs = {{"x", f32({20})}}, .symbols = {{"S", 5}}})); // inside x, outside a
  Judged clamped(R"(fn @main(%x: f32[20], %ids: i32[3]) {
    %a = view %x [i: 4] -> [i + 2]
    %y = view %a [i: 3] with h = %ids[i] in 0..100 clamp -> [h]
    return y = %y
  })");
  EXPECT_TRUE(clamped.runs({.inputs = {{"x", f32({20})}, {"ids", i32({3}, {0, 3, 17})}}})); // to the end of a
}

TEST(Access, DivisionByZeroIsAnError) {
  Judged c(R"(symbol S: 0..9
  fn @main(%x: f32[8]) { %y = view %x [i: 8] -> [(i // S) % 8]  return y = %y })");
  for (int64_t size : {1, 3, 9}) EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", size}}}));
  EXPECT_FALSE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", 0}}}));
  EXPECT_THAT(c.plan_error, AllOf(HasSubstr("divides by zero"), HasSubstr("S = 0")));
  for (const char* text :
       {"%y = iota i64 [i: 4] -> i % S", "%y = iota bool [i: 4] -> (i + 5) // S == 2",
        "%y = view %x [i: 8] -> [i] where i // S < 2", "%y = view %x [i: 8] -> [i // (i - S) % 8]",
        "%y = iota i64 [i: 4] -> 7 // (i - S)"}) {
    Judged other(fmt::format("symbol S: 0..9\nfn @main(%x: f32[8]) {{ {}  return y = %y }}", text));
    EXPECT_FALSE(other.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", 0}}})) << text;
    EXPECT_TRUE(other.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", 9}}})) << text;
  }
}

TEST(Access, AConditionMayExcludeTheZero) {
  Judged c(R"(symbol S: 0..9
  fn @main(%x: f32[8]) {
    %y = view %x [i: 8] -> [i // S] where S > 0
    %z = view %x [i: 8] -> [7 // (i - 3) % 8] where i > 3 fill -1
    %f = fold [i: 8] over [i] where i > 4 and 8 % (i + 1) == 0 { sum %x[i] }
    %s = get %f, 0
    return y = %y, z = %z, s = %s
  })");
  for (int64_t size : {0, 1, 4}) EXPECT_TRUE(c.runs({.inputs = {{"x", f32({8})}}, .symbols = {{"S", size}}}));
}

TEST(Access, NumbersBeyond64BitsAreRefused) {
  Judged c(
      "symbol S: 0..9223372036854775807\nfn @main() { %y = iota i64 [i: 3] -> i * S + S  return y = %y }");
  const int64_t most = INT64_MAX / 3;
  EXPECT_TRUE(c.runs({.symbols = {{"S", most - 1}}}));
  EXPECT_FALSE(c.runs({.symbols = {{"S", most + 1}}}));
  EXPECT_THAT(c.plan_error,
              AllOf(HasSubstr("[iota] %y:"), HasSubstr("needs more than 64 bits"), HasSubstr("S = ")));
  EXPECT_FALSE(c.runs({.symbols = {{"S", INT64_MAX}}}));
}

TEST(Access, WhatIsNotReachedIsNotChecked) {
  Judged c(R"(symbol S: 0..20
  fn @wide(%x: f32[8]) { %v = view %x [i: S] -> [i]  %f = fold [i: S] over [i] { sum %v[i] }  %s = get %f, 0  return s = %s }
  fn @one(%x: f32[8]) { %v = view %x [] -> [0]  return s = %v }
  fn @main(%x: f32[8], %p: bool) {
    %c = cond %p then @wide else @one (%x)
    %s = get %c, 0
    return s = %s
  })");
  for (bool wide : {false, true})
    EXPECT_EQ(
        c.runs({.inputs = {{"x", f32({8})},
                           {"p", host_tensor(DType::boolean, {}, std::vector<double>{wide ? 1.0 : 0.0})}},
                .symbols = {{"S", 20}}}),
        !wide);
}

TEST(Access, LoopsReadTheirStepsWithoutAChecks) {
  Judged c(R"(symbol T: 1..20
  fn @step(%t: i64, %h: f32[3], %x: f32[3]) { %n = add %h, %x  return h = %n, y = %n }
  fn @main(%h: f32[3], %xs: f32[T, 3]) {
    %l = loop @step count T carried (%h) stepped (%xs) given ()
    %a = get %l, 0
    %b = get %l, 1
    return a = %a, b = %b
  })");
  EXPECT_TRUE(c.running.plan->conditions.empty()) << c.running.report;
  EXPECT_TRUE(c.runs({.inputs = {{"h", f32({3})}, {"xs", f32({4, 3})}}, .symbols = {{"T", 4}}}));
}

TEST(Access, ProvenProgramsHaveNoChecks) {
  Graph g;
  Dim n = g.dim("n", 1, 40);
  Tensor x = g.tensor({n, 6}), table = g.tensor({10, 6}), ids = g.tensor({n}, DType::i32);
  x.sort(0).values.keep();
  x.slice(0, 0, n, 2).pad(1, 1, 2).roll({1}, {1}).keep();
  table.index_select(0, ids).keep();
  x.index_select(0, ids).keep();
  x.cumsum(0).keep();
  Running running(parse_module(g.to_string()));
  EXPECT_TRUE(running.plan->conditions.empty()) << running.report;
}

TEST(Access, AnExportedProgramRefusesToo) {
  if (std::system("cc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no C compiler";
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("luminal_access_{}", getpid());
  std::filesystem::create_directories(folder);
  compile::Options options = compile::options_for_target("host", 1).value();
  options.cache = false;
  const Module module = parse_module(R"(symbol S: 0..40
  symbol D: 0..9
  fn @main(%x: f32[8], %ids: i32[3]) {
    %a = view %x [i: S] -> [i // D] where D > 0 and i // max(D, 1) % 2 == 0
    %b = view %x [i: 3, j: 2] with h = %ids[i] in 0..10 -> [h * 2 + j]
    return a = %a, b = %b
  })");
  auto compiled = compile::compile(module, options);
  ASSERT_TRUE(compiled) << compiled.error();
  auto files = runtime::export_plan(
      *compiled->plan,
      {.folder = folder,
       .name = "m",
       .target = "host",
       .instructions = options.target.cpu.instructions(),
       .weight = [](const runtime::Slot&) { return Result<std::span<const std::byte>>(Failure{"none"}); }});
  ASSERT_TRUE(files) << files.error();
  std::ofstream(folder / "main.c") << R"(
#include "m.h"
#include <stdio.h>
#include <string.h>
static luminal_model* m;
static void turn(int s, int d, int first) {
  luminal_value in;
  const int32_t ids[3] = {first, 1, 0};
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  if (luminal_set_dim(m, m_dim_S, s) || luminal_set_dim(m, m_dim_D, d)) printf("dim %s\n", luminal_message(m));
  luminal_input(m, m_input_x, &in);
  memcpy(in.data, x, sizeof x);
  luminal_input(m, m_input_ids, &in);
  memcpy(in.data, ids, sizeof ids);
  if (luminal_run(m)) { printf("%s\n", luminal_message(m)); return; }
  luminal_value a, b;
  luminal_output(m, m_output_a, &a);
  luminal_output(m, m_output_b, &b);
  printf("%g %g\n", s ? (double)((float*)a.data)[s - 1] : 0.0, (double)((float*)b.data)[0]);
}
int main(int argc, char** argv) {
  char message[256] = "";
  if (m_open(argv[argc - 1], 1, &m, message, sizeof message)) { printf("%s\n", message); return 1; }
  turn(9, 1, 3);
  turn(9, 0, 3);
  turn(8, 1, 3);
  turn(40, 1, 3);
  turn(1, 1, 4);
  luminal_close(m);
  return 0;
}
)";
  const std::string at = folder.string();
  ASSERT_EQ(
      std::system(
          fmt::format(
              "cd {} && cc -std=c11 -Wall -Werror main.c m.c luminal_runtime.c -L. -lm_kernels -lpthread "
              "-o main && ./main m.weights > out.txt",
              at)
              .c_str()),
      0);
  std::ifstream out(folder / "out.txt");
  const std::string text{std::istreambuf_iterator<char>(out), {}};
  const auto line = [&](size_t n) {
    size_t begin = 0;
    while (n-- > 0) begin = text.find('\n', begin) + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  // i = 8 of x[8] is asked for where 8 // 1 is even.
  EXPECT_THAT(line(0), AllOf(HasSubstr("[view] %a reads axis 0 of %x"), HasSubstr("S = 9"))) << text;
  EXPECT_EQ(line(1), "0 6") << text;
  EXPECT_EQ(line(2), "0 6") << text;
  EXPECT_THAT(line(3), HasSubstr("S = 40")) << text;
  EXPECT_THAT(line(4), HasSubstr("[view] %b reads axis 0 of %x")) << text;
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace luminal
