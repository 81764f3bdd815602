// runtime/plan_bytes_test.cpp -- plans as bytes: what is written is read, and nothing else is a plan.
#include "luminal/error.h"
#include "runtime/plan_bytes.h"
#include <gtest/gtest.h>
#include <random>

namespace luminal::runtime {
namespace {

std::shared_ptr<const std::vector<std::byte>> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return std::make_shared<const std::vector<std::byte>>(first, first + text.size());
}

/// Every field of every part has a value that is not its default.
Plan whole_plan() {
  const Expr n = Expr::symbol("n", {1, 64}), t = Expr::symbol("t", {0, 640}, 10);
  Plan plan;
  plan.name = "p";
  plan.symbols = {n, t};
  plan.assumptions = {lt(n + t, 500)};
  const ConditionId enough = plan.conditions.add(lt(t, n * 3));
  const SlotId x =
      plan.slots.add({"x", SlotKind::argument, {DType::bf16, {n, 3}}, n * 6, 384, -1, false, false, 0, {}});
  const SlotId c = plan.slots.add(
      {"c", SlotKind::constant, {DType::f32, {2}}, 8, 8, -1, false, true, 0, bytes_of(std::string(8, '\1'))});
  const SlotId y = plan.slots.add(
      {"y", SlotKind::arena, {DType::f32, {floordiv(n, 2), 3}}, n * 12, 768, 64, true, true, 77, {}});
  KernelCode code;
  code.name = "k";
  code.entry = "k_entry";
  code.object = bytes_of(std::string("\177ELF\0x", 6));
  code.symbols = {n};
  code.shared_bytes = n * 8;
  code.local_bytes = max(n, 16);
  code.points = n * 3;
  code.caps = {{100, 1}, {1000, 2}};
  code.point_ns = 0.25;
  code.barriers = false;
  code.writes = {false, true, true};
  code.note = "why";
  code.threads = {32, 2, true, true, true, 48};
  const CodeId kernel = plan.kernels.add(code);
  const Launch launch{kernel, {x, c, y}};
  const RangeCheck in_range{y, {0, 9}, n, "gather at f.cpp:3"};
  const AccessCheck accesses{enough, y, {launch}, "scatter at f.cpp:4"};
  const Cond cond{y, {Copy{y, x}}, {Zero{c}}};
  const Loop loop{n, t, {launch, in_range, accesses, cond}, {launch}, c, y};
  plan.load_steps = {launch};
  plan.steps = {loop, launch};
  plan.results = {{"r", y}};
  plan.arena_bytes = 1024;
  plan.load_arena_bytes = 64;
  plan.devices = {"cpu"};
  plan.notes = {"a note"};
  return plan;
}

TEST(PlanBytes, AreReadAsTheyWereWritten) {
  const Plan plan = whole_plan();
  const auto bytes = to_bytes(plan);
  ASSERT_TRUE(bytes);
  const auto read = plan_of_bytes(*bytes);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(to_string(*read), to_string(plan));
  EXPECT_TRUE(to_bytes(*read) == bytes);
  EXPECT_EQ(read->symbols, plan.symbols); // with their ranges and multiples
  const SlotId x(0), c(1), y(2);
  EXPECT_EQ(*read->slots[c].data, *plan.slots[c].data);
  EXPECT_FALSE(read->slots[x].data);
  EXPECT_EQ(read->slots[y].key, 77u);
  EXPECT_FALSE(read->slots[x].used);
  const KernelCode &code = read->kernels[CodeId(0)], &written = plan.kernels[CodeId(0)];
  EXPECT_EQ(*code.object, *written.object);
  EXPECT_EQ(code.threads, written.threads);
  EXPECT_EQ(code.writes, written.writes);
  EXPECT_EQ(code.caps.size(), 2u);
  const Loop* loop = read->steps[0].as<Loop>();
  ASSERT_TRUE(loop && loop->body.size() == 4);
  EXPECT_EQ(loop->taken, y);
  const RangeCheck* in_range = loop->body[1].as<RangeCheck>();
  ASSERT_TRUE(in_range);
  EXPECT_EQ(in_range->range, (Interval{0, 9}));
  EXPECT_EQ(in_range->limit, plan.symbols[0]);
  const AccessCheck* accesses = loop->body[2].as<AccessCheck>();
  ASSERT_TRUE(accesses);
  EXPECT_EQ(accesses->violation, y);
}

TEST(PlanBytes, WhatHasNoFormIsRefused) {
  Plan plan = whole_plan();
  std::get<Loop>(plan.steps[0]).body.push_back(HostCall{});
  EXPECT_FALSE(to_bytes(plan));
  plan = whole_plan();
  plan.assumptions.push_back(lt(Expr::symbol("n", {1, 65}), 3)); // another n
  EXPECT_FALSE(to_bytes(plan));
}

TEST(PlanBytes, WhatIsNoPlanIsAFailure) {
  const std::string bytes = *to_bytes(whole_plan());
  for (size_t k = 0; k < bytes.size(); ++k) EXPECT_FALSE(plan_of_bytes(bytes.substr(0, k))) << k;
  EXPECT_FALSE(plan_of_bytes(bytes + "x"));
  Plan plan = whole_plan();
  plan.results[0].slot = SlotId(3);
  EXPECT_FALSE(plan_of_bytes(*to_bytes(plan)));
  plan = whole_plan();
  std::get<Launch>(std::get<Loop>(plan.steps[0]).body[0]).kernel = CodeId(1);
  EXPECT_FALSE(plan_of_bytes(*to_bytes(plan)));
  // Damaged: a failure or another plan, no crash.
  std::mt19937 random(1);
  int refused = 0;
  for (int k = 0; k < 2000; ++k) {
    std::string damaged = bytes;
    for (int changes = int(random() % 4); changes >= 0; --changes)
      damaged[random() % damaged.size()] = char(random());
    refused += !plan_of_bytes(damaged);
  }
  EXPECT_GT(refused, 500);
}

} // namespace
} // namespace luminal::runtime
