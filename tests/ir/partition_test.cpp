// tests/ir/partition_test.cpp -- partitions: their text comes back, what must be stored, and what
// the verifier says of those that are not legal.
#include "ir/partition.h"
#include "luminal/error.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// x -> a -> b -> y, and c beside b: two ways from a to y.
Module diamond() {
  return parse_module(R"(
fn @main(%x: f32[4], weight %w: f32[4]) {
  %a = exp %x
  %b = sqrt %a
  %c = sin %a
  %d = mul %c, %w
  %y = add %b, %d
  return y = %y
})");
}

std::vector<std::string> mistakes_of(const Module& module, std::string_view kernels) {
  const Function& f = module.entry();
  const auto text = "partition @main { " + std::string(kernels) + " }";
  return verify(parse_partition(text, f), whole_region(f));
}

TEST(Partition, TextComesBack) {
  const Module module = diamond();
  const Function& f = module.entry();
  const std::string text = "partition @main {\n  kernel %a\n  kernel %y, %b\n}\n";
  const Partition partition = parse_partition(text, f);
  EXPECT_EQ(to_string(partition, f), text);
  ASSERT_EQ(partition.kernels.size(), 2u);
  EXPECT_EQ(f[partition.kernels[1][1]].name, "b");
  EXPECT_EQ(parse_partition("partition @main { kernel %2 kernel %6, %3 }", f), partition); // by number
  EXPECT_TRUE(verify(partition, whole_region(f)).empty());
  EXPECT_EQ(parse_partition(to_string(Partition{}, f), f), Partition{});
}

TEST(Partition, TextThatIsWrong) {
  const Module module = diamond();
  const auto error = [&](std::string_view text) -> std::string {
    try {
      (void)parse_partition(text, module.entry(), "p");
    } catch (const Error& e) {
      return std::string(e.what()).substr(0, std::string_view(e.what()).find('\n'));
    }
    return "";
  };
  EXPECT_EQ(error("kernel %a"), "p:1:1: expected 'partition', found 'kernel'");
  EXPECT_EQ(error("partition @other {}"), "p:1:11: the partition is for @other, the function is @main");
  EXPECT_EQ(error("partition main {}"), "p:1:11: expected the @name of a function, found 'main'");
  EXPECT_EQ(error("partition @main { kernel %z }"), "p:1:26: @main has no value %z");
  EXPECT_EQ(error("partition @main { kernel %77 }"), "p:1:26: @main has no value %77");
  EXPECT_EQ(error("partition @main { kernel a }"), "p:1:26: expected the %name of a value, found 'a'");
  EXPECT_EQ(error("partition @main { %a }"), "p:1:19: expected 'kernel', found '%a'");
  EXPECT_THAT(error("partition @main {"), testing::StartsWith("p:1:18: expected 'kernel'"));
  EXPECT_THAT(error("partition @main {} partition"), testing::StartsWith("p:1:20: expected the end"));
}

TEST(Partition, ValuesThatNoKernelStores) {
  const Module m = diamond();
  const std::string at = "partition of @main: ";
  EXPECT_THAT(mistakes_of(m, "kernel %x kernel %y"), ElementsAre(at + "%x is not computed: it is an input"));
  EXPECT_THAT(mistakes_of(m, "kernel %a kernel %a, %y"), ElementsAre(at + "%a is stored twice"));
  EXPECT_THAT(mistakes_of(m, "kernel %a"), ElementsAre(at + "%y must be stored: it is a result"));
  const Region region = whole_region(m.entry());
  const NodeId c(4), d(5), y(6), beyond(9);
  EXPECT_THAT(verify(Partition{{{y}, {}}}, region), ElementsAre(at + "kernel number 1 stores nothing"));
  EXPECT_THAT(verify(Partition{{{y}, {beyond}}}, region),
              ElementsAre(at + "value 9 does not exist: there are 7"));
  Region rest = region; // %d is made at load
  rest.given.insert(d);
  EXPECT_THAT(verify(Partition{{{y}, {d}}}, rest),
              ElementsAre(at + "%d is not computed: it is there before, made from weights"));
  EXPECT_THAT(verify(Partition{{{y}, {c}}}, rest), ElementsAre(at + "no result needs %c"));
  EXPECT_TRUE(verify(Partition{{{y}}}, rest).empty());
  const Module more = parse_module(R"(
fn @main(%x: f32[4, 8]) {
  %half = const f32 0.5
  %f = fold [m: 4, n: 8] over [n] { sum %x[m, n] }
  %s = get %f, 0
  %p = host print "p" (%s)
  %q = get %p, 0
  %b = view %half [m: 4] -> []
  %y = mul %q, %b
  return y = %y
})");
  EXPECT_THAT(mistakes_of(more, "kernel %f, %y kernel %s"),
              ElementsAre(at + "%f is a tuple: kernels store what get reads of it"));
  EXPECT_THAT(mistakes_of(more, "kernel %p, %y kernel %s"),
              ElementsAre(at + "%p is computed by no kernel: host is a step of its own"));
  EXPECT_THAT(mistakes_of(more, "kernel %q, %y kernel %s"),
              ElementsAre(at + "%q is computed by no kernel: host is a step of its own"));
  EXPECT_THAT(mistakes_of(more, "kernel %half kernel %s kernel %y"),
              ElementsAre(at + "%half is not computed: it is a constant"));
  EXPECT_THAT(mistakes_of(more, "kernel %y"),
              ElementsAre(at + "%s must be stored: it is read by a step of its own"));
  EXPECT_THAT(mistakes_of(more, "kernel %s kernel %y"), IsEmpty());
}

TEST(Partition, KernelsThatWaitForEachOther) {
  const Module m = diamond();
  EXPECT_THAT(mistakes_of(m, "kernel %a, %b kernel %c kernel %y"), IsEmpty());
  EXPECT_THAT(mistakes_of(m, "kernel %a, %y kernel %c"),
              ElementsAre("partition of @main: kernels wait for each other: "
                          "kernel %a, %y reads %c; kernel %c reads %a"));
  const Module stepped = parse_module(R"(
fn @main(%x: f32[4]) {
  %a = exp %x
  %p = fence %a
  %y = sin %p
  return y = %y
})");
  EXPECT_THAT(mistakes_of(stepped, "kernel %a kernel %y"), IsEmpty());
  EXPECT_THAT(mistakes_of(stepped, "kernel %a, %y"),
              ElementsAre("partition of @main: kernels wait for each other: "
                          "kernel %a, %y reads %p; fence %p reads %a"));
}

TEST(Partition, ValuesThatAreReadFromMemory) {
  const Module m = parse_module(R"(
fn @main(%x: f32[8], %i: i32[4], %old: f32[8]) {
  %j = add %i, %i
  %g = view %x [m: 4] with h0 = %j[m] in 0..7 -> [h0]
  %b = sin %g
  %bytes = bitcast u8 %b
  %o = exp %old
  %u = scatter set %o, %b [m: 4] -> [m] unique
  return bytes = %bytes, u = %u
})");
  const std::string at = "partition of @main: ";
  std::vector<std::string> names;
  for (const auto& [id, why] : required_values(whole_region(m.entry())))
    names.push_back(m.entry()[id].name + ": " + std::string(why));
  EXPECT_THAT(names, ElementsAre("j: an index that is checked before it is used",
                                 "b: read as a type of another width", "bytes: a result",
                                 "o: what a scatter updates", "u: a result"));
  EXPECT_THAT(mistakes_of(m, "kernel %j kernel %b kernel %bytes kernel %o kernel %u"), IsEmpty());
  EXPECT_THAT(mistakes_of(m, "kernel %j kernel %b, %bytes kernel %o kernel %u"),
              ElementsAre(at + "kernel %b, %bytes: %bytes reads %b from memory, so another kernel has to "
                               "store it"));
  EXPECT_THAT(mistakes_of(m, "kernel %j, %b kernel %bytes kernel %o kernel %u"),
              ElementsAre(at + "kernel %j, %b: %b reads %j from memory, so another kernel has to store it"));
  EXPECT_THAT(mistakes_of(m, "kernel %j kernel %b kernel %o kernel %u, %bytes"),
              ElementsAre(at + "kernel %u, %bytes: %u is a scatter, which has a kernel of its own"));
  Region checked = whole_region(m.entry());
  const NodeId g(4);
  checked.read.insert(g);
  ASSERT_EQ(m.entry()[g].name, "g");
  EXPECT_THAT(
      verify(parse_partition("partition @main { kernel %j kernel %b kernel %bytes kernel %o kernel %u }",
                             m.entry()),
             checked),
      ElementsAre(at + "%g must be stored: it is checked before a kernel reads it"));
}

TEST(Partition, WhatIsInMemory) {
  const Module m = diamond();
  const Region region = whole_region(m.entry());
  const auto values =
      values_in_memory(region, parse_partition("partition @main { kernel %a kernel %y }", m.entry()));
  EXPECT_THAT(values, ElementsAre(NodeId(0), NodeId(1), NodeId(2), NodeId(6)));
}

} // namespace
} // namespace luminal
