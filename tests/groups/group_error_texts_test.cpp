// groups/group_error_texts_test.cpp -- messages about groups of lanes, word for word.
#include "codegen/c_like/c_like.h"
#include "codegen/codegen.h"
#include "golden/small_cones.h"
#include <fmt/format.h>

namespace luminal::kernel {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

const RefusedSchedule rows[] = {
    {"product", "lanes f i",
     "`lanes f i`: loop i has m trips, which is not a constant: lanes are counted when the code is made"},
    {"bytes", "merge f j k copy;merge f i copy copy2;lanes f copy2",
     "`lanes f copy2`: loop copy2 has 3840 trips: a group has between 1 and 1024 lanes"},
    {"added", "lanes y t",
     "`lanes y t`: loop t of stage y keeps its order and cannot be distributed over lanes"},
    {"product", "group_copy r c i",
     "`group_copy r c i`: c is made in this kernel: it lies in the group's memory already"},
    {"product", "group_copy r a i", "`group_copy r a i`: stage r does not read a"},
    {"product", "parallel f i;parallel f j;lanes f k",
     "stage f: loop j is parallel; the groups are trips of one outermost loop (`merge` makes one)"},
    {"map", "split y i1 o l 4;parallel y i0;vector y o;lanes y l",
     "stage y: loop o is a vector loop, and lanes of a group act one by one"},
    {"product", "parallel f i;split f j o l 4;order f i k o l;lanes f l",
     "stage f: loop o of the results stands inside of the reduction"},
    {"running", "lanes f i", "stage f is a scan: lanes do not take turns"},
    {"added", "lanes y d", "stage y updates y: lanes do not take turns"},
    {"attention", "cascade F k_2;lanes f d",
     "stage F.0 takes turns with others in loop k_2: groups run stages one after the other"},
    {"product", "order f i k j;lanes f k j",
     "stage f: the lanes of loop j stand inside of lanes of the reduction"},
    {"bytes", "lanes f i j k", "stage f has 3840 lanes: a group has between 1 and 1024"},
    {"product", "parallel f i;lanes f j",
     "stage r: its outermost loop is not the loop of the groups of stage f"},
    {"product", "parallel * i 1;lanes f j", "stage f: the loop i of the groups has level 0"},
    {"product", "split r i g q 2;parallel r g;parallel f i;lanes f j",
     "stage r: loop g is not the loop i of the groups of stage f"},
    {"product", "predicate_split j;lanes f k", "loops of groups have no parts and no roles"},
    {"product", "split_at f j 8;lanes f.p0 k", "stages write c at different places of one group"},
    {"product", "parallel * i;lanes f k;lanes r j",
     "stage f uses 12 of 20 lanes: all of them have to take part in its copies and sums"},
    {"product", "parallel * i;lanes f j;group_copy f a j",
     "stage f: lanes do not run the trips of j together"},
    {"product", "parallel * i;lanes * j;blocked_sum f k 4",
     "stage f: lanes of a group do not sum loop k in blocks"},
    {"packed", "group_copy g w j", "stage g reads w as f16: it is not copied"},
    {"gather", "group_copy f x n", "stage f finds where it reads x in memory: it is not copied"},
    {"product", "lanes f k", "the size of c in loop root is not constant: m*20"},
    {"product", "fuse f r;order f j i k;lanes f k;group_copy f a j",
     "stage f: what one trip of j reads of a has no constant extent"},
    {"product", "group_copy f a j 9",
     "`group_copy f a j 9`: a has 9 tiles in the group's memory: 1 to 8 are possible"},
    {"product", "group_copy f a j 2;group_copy f b j 3",
     "`group_copy f b j 3`: copies in loop j have 2 and 3 tiles"},
    {"half_tile", "lane_unit f x86.fma i j k",
     "`lane_unit f x86.fma i j k`: x86.fma is not a unit of several lanes"},
    {"half_tile", "lane_unit f nvidia.mma.m16n8k16.bf16 j i k",
     "`lane_unit f nvidia.mma.m16n8k16.bf16 j i k`: loop j has 8 trips, nvidia.mma.m16n8k16.bf16 takes 16"},
    {"half_tile", "lane_unit f nvidia.mma.m16n8k16.bf16 k j i",
     "stage f: loop k is not one that nvidia.mma.m16n8k16.bf16 runs along the results"},
    {"tile", "lane_unit f nvidia.mma.m16n8k16.bf16 i j k",
     "stage f is not a sum of products that nvidia.mma.m16n8k16.bf16 computes"},
    {"half_tile", "lane_unit f nvidia.mma.m16n8k16.bf16 i j k",
     "stage f: nvidia.mma.m16n8k16.bf16 reads copies, and a is not copied"},
};

TEST(GroupErrorTexts, Directives) { expect_refused(rows); }

TEST(GroupErrorTexts, LoopsOfLanes) {
  const std::string head = "kernel k(x: f32[64] inout)\n  parallel g in 0..2\n";
  const auto mistakes = [&](const std::string& body) { return verify(parse_kernel(head + body)); };
  EXPECT_THAT(mistakes("    parallel l in 0..4 level 1\n      x[4*g + l] = 1.0\n      barrier level 1\n"),
              ElementsAre());
  EXPECT_THAT(
      mistakes("    parallel l in 0..4 level 1\n      if l < 2\n        barrier level 1\n"),
      ElementsAre(HasSubstr("a barrier that not all lanes of 'l' reach as often: a condition or a loop "
                            "around it depends on the lane")));
  EXPECT_THAT(mistakes("    parallel l in 0..4 level 1\n      for i in 0..l + 1\n        barrier level 1\n"),
              ElementsAre(HasSubstr("a barrier that not all lanes of 'l' reach as often")));
  EXPECT_THAT(mistakes("    parallel l in 0..4 level 1\n      barrier level 1\n"
                       "    parallel j in 0..8 level 1\n      barrier level 1\n"),
              ElementsAre(HasSubstr("lanes of 'j' meet, 8 of them; other groups have 4 lanes")));
  EXPECT_THAT(mistakes("    parallel l in 1..4 level 1\n      barrier level 1\n"),
              ElementsAre(HasSubstr("which would not all arrive")));
}

TEST(GroupErrorTexts, NumberOfLanes) {
  const std::string text = "kernel k(x: f32[{0}] inout)\n  parallel l in 0..{0} level 1\n    x[l] = 1.0\n"
                           "    barrier level 1\n";
  const Kernel four = parse_kernel(fmt::format(fmt::runtime(text), 4));
  EXPECT_EQ(lanes_of_group(four), 4);
  std::vector<std::byte> bytes(16);
  const std::span<std::byte> span(bytes);
  try {
    run_kernel(four, std::span(&span, 1), {}, {.lanes = 3});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[run_kernel] k: its groups have 4 lanes, 3 given");
  }
  EXPECT_TRUE(run_kernel(four, std::span(&span, 1), {}, {.lanes = 4}).ok());
  const auto emitted = codegen::emit_c_like(parse_kernel(fmt::format(fmt::runtime(text), 2048)),
                                            *codegen::find_dialect("cuda"));
  EXPECT_EQ(emitted ? "accepted" : emitted.error(), "kernel k: its groups have 2048 lanes, 1024 are allowed");
  const auto compiled = codegen::compile(four, codegen::CpuTarget::host(), {});
  EXPECT_THAT(compiled ? "accepted" : compiled.error(),
              HasSubstr("the lanes of the loop l wait for each other: a group has one lane on a CPU"));
}

} // namespace
} // namespace luminal::kernel
