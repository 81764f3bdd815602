// machine_profile_test.cpp -- the profile of this machine: what the system tells, its JSON, where
// it is kept, the probes' arithmetic.
#include "base/file.h"
#include "base/thread_pool.h"
#include "search/machine_profile.h"
#include "search/probe.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <numeric>

namespace luminal::search::machine_profile_test {
namespace {

/// LUMINAL_CACHE_DIR for the life of the object.
class CacheFolder {
public:
  explicit CacheFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    setenv("LUMINAL_CACHE_DIR", path_.c_str(), 1);
    unsetenv("LUMINAL_NO_CACHE");
  }
  ~CacheFolder() {
    unsetenv("LUMINAL_CACHE_DIR");
    std::filesystem::remove_all(path_);
  }
  const std::filesystem::path& path() const { return path_; }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (auto& entry : std::filesystem::recursive_directory_iterator(path_))
      if (entry.is_regular_file()) found.push_back(entry.path());
    return found;
  }

private:
  std::filesystem::path path_;
};

MachineProfile example() {
  MachineProfile p = MachineProfile::guess(3);
  p.processor = "A \"quoted\" processor";
  p.fma_f32_1 = 125.5;
  p.fma_f32 = 250.25;
  p.memory = {33.5, 20, 30, 31};
  p.fork_join_us = 0.25;
  p.guessed = false;
  return p;
}

TEST(MachineProfile, GuessTellsWhatTheSystemKnows) {
  MachineProfile p = MachineProfile::guess(3);
  EXPECT_EQ(p.threads, 3);
  EXPECT_GE(p.vector_bits, 128);
  EXPECT_GE(p.vector_registers, 16);
  EXPECT_GE(p.l1, 4 << 10);
  EXPECT_GE(p.l2, p.l1);
  EXPECT_TRUE(p.guessed);
  EXPECT_EQ(p.read_bandwidth(), 0);
  EXPECT_EQ(p.limits().lanes, p.vector_bits / 32);
  EXPECT_EQ(p.limits().l2, p.l2);
  EXPECT_THAT(p.to_string(), testing::HasSubstr("not measured"));
}

TEST(MachineProfile, JsonInverts) {
  MachineProfile p = example();
  auto back = MachineProfile::from_json(p.to_json());
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(*back, p);
  // A profile that was kept before rates of tile registers were measured.
  std::string older = p.to_json();
  for (size_t at; (at = older.find("\"bf16_tile")) != std::string::npos;)
    older.erase(at, older.find('"', older.find(':', at)) - at);
  back = MachineProfile::from_json(older);
  ASSERT_TRUE(back) << back.error() << older;
  EXPECT_EQ(back->bf16_tile, 0);
  EXPECT_THAT(p.to_string(), testing::HasSubstr("250.2 on 3"));
  EXPECT_EQ(p.read_bandwidth(), 33.5e9);
}

/// What a machine that nobody disturbs gives.
MachineProfile plausible() {
  MachineProfile p = MachineProfile::guess(2);
  p.guessed = false;
  p.fma_f32_1 = 113, p.fma_f32 = 226, p.fma_f64_1 = 56, p.fma_f64 = 112;
  p.bf16_dot_1 = 220, p.bf16_dot = 440, p.int8_dot_1 = 440, p.int8_dot = 880;
  p.memory_1 = {32, 20, 30, 31}, p.memory = {44, 28, 40, 41};
  p.l1_1 = {400, 200, 300, 300}, p.l2_1 = {120, 90, 100, 100}, p.l3_all = {150, 90, 100, 100};
  return p;
}

TEST(MachineProfile, NumbersThatOthersContradictAreRaisedAndNamed) {
  MachineProfile p = plausible();
  EXPECT_THAT(p.contradicted(), testing::IsEmpty());
  p.reconcile();
  EXPECT_EQ(p, plausible());
  // As a busy machine gave them: two threads slower than one, f64 far below f32 and above it, a
  // cache slower than memory.
  p.fma_f32 = 69, p.memory.read = 9.3, p.fma_f64_1 = 16.7, p.fma_f64 = 300, p.l2_1.copy = 3;
  EXPECT_THAT(p.contradicted(),
              testing::UnorderedElementsAre("fma_f32", "memory.read", "fma_f64_1", "l2_1.copy"));
  p.reconcile();
  EXPECT_THAT(p.contradicted(), testing::IsEmpty());
  EXPECT_GE(p.fma_f32, 226) << "raised, never lowered";
  EXPECT_EQ(p.memory.read, 32);
  EXPECT_EQ(p.l2_1.copy, 30);
  EXPECT_THAT(p.doubtful, testing::IsSupersetOf({"fma_f32", "memory.read", "fma_f64_1", "l2_1.copy"}));
  EXPECT_THAT(p.to_string(), testing::HasSubstr("doubtful"));
  auto back = MachineProfile::from_json(p.to_json());
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(*back, p);
}

TEST(MachineProfile, WhatABusyMachineGaveIsMeasuredAgain) {
  CacheFolder folder("luminal_profile_doubtful_test");
  auto first = MachineProfile::measured(1, false);
  ASSERT_TRUE(first) << first.error();
  EXPECT_THAT(first->measured_at, testing::HasSubstr("UTC"));
  MachineProfile wrong = *first;
  wrong.doubtful = {}, wrong.measured_at = "2026-01-01 00:00 UTC";
  wrong.fma_f64_1 = wrong.fma_f64 = 1000 * wrong.fma_f32;
  ASSERT_TRUE(write_file(folder.files()[0].string(), std::string_view(wrong.to_json())));
  const MachineProfile present = MachineProfile::present(1);
  EXPECT_THAT(present.contradicted(), testing::IsEmpty()) << "no consumer sees impossible numbers";
  EXPECT_THAT(present.doubtful, testing::Contains("fma_f32"));
  auto again = MachineProfile::measured(1, false);
  ASSERT_TRUE(again) << again.error();
  EXPECT_NE(again->measured_at, "2026-01-01 00:00 UTC");
  EXPECT_LT(again->fma_f64, 100 * first->fma_f64);
}

TEST(MachineProfile, WhatAProgramReachesRenewsAProfileThatSaysLess) {
  CacheFolder folder("luminal_profile_reached_test");
  EXPECT_EQ(MachineProfile::reached_rate(1, "memory.read", 1e6), "") << "a guess stays a guess";
  ASSERT_TRUE(MachineProfile::measured(1, false));
  MachineProfile low = MachineProfile::present(1);
  low.memory_1.read = low.memory.read = 1, low.measured_at = "2026-01-01 00:00 UTC";
  low.doubtful = {};
  ASSERT_TRUE(write_file(folder.files()[0].string(), std::string_view(low.to_json())));
  EXPECT_EQ(MachineProfile::reached_rate(1, "memory.read", 0.9), "") << "the profile says more";
  EXPECT_EQ(MachineProfile::reached_rate(1, "memory.read", NAN), "");
  EXPECT_EQ(MachineProfile::present(1), low);
  const std::string said = MachineProfile::reached_rate(1, "memory.read", 1000);
  EXPECT_THAT(said, testing::HasSubstr("said 1.0 for memory.read, and 1000.0 were reached"));
  EXPECT_THAT(said, testing::HasSubstr("2026-01-01 00:00 UTC"));
  const MachineProfile raised = MachineProfile::present(1);
  EXPECT_EQ(raised.memory.read, 1000);
  EXPECT_GE(raised.l1_1.read, 500) << "what other numbers prove by it";
  EXPECT_THAT(raised.doubtful, testing::Contains("memory.read"));
  EXPECT_EQ(MachineProfile::reached_rate(1, "memory.read", 1000), "") << "said once";
  auto again = MachineProfile::measured(1, false);
  ASSERT_TRUE(again) << again.error();
  EXPECT_NE(again->measured_at, low.measured_at) << "measured again";
  EXPECT_EQ(again->memory.read, 1000) << "no measurement goes below what was reached";
  EXPECT_THAT(again->to_string(), testing::HasSubstr("a program reached 1000.0 in memory.read"));
  auto back = MachineProfile::from_json(again->to_json());
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(*back, *again);
}

TEST(MachineProfile, AGivenProfileStandsInThePlaceOfThisMachines) {
  CacheFolder folder("luminal_profile_given_test");
  MachineProfile other = example();
  other.l2 = 3 << 20;
  const std::string file = folder.path() / "other.json";
  ASSERT_TRUE(make_folder_of(file));
  ASSERT_TRUE(write_file(file, std::string_view(other.to_json())));
  const MachineProfile own = MachineProfile::guess(2);
  setenv("LUMINAL_MACHINE", file.c_str(), 1);
  const MachineProfile guess = MachineProfile::guess(2), present = MachineProfile::present(2);
  const auto measured = MachineProfile::measured(2, true);
  const std::string reached = MachineProfile::reached_rate(2, "memory.read", 1e6);
  ASSERT_TRUE(write_file(file, std::string_view("{}")));
  std::string refused;
  try {
    (void)MachineProfile::guess(2);
  } catch (const Error& e) {
    refused = e.what();
  }
  unsetenv("LUMINAL_MACHINE");
  EXPECT_EQ(guess.l2, 3 << 20);
  EXPECT_EQ(guess.threads, 2);
  EXPECT_EQ(guess.limits().l2, 3 << 20);
  EXPECT_NE(guess.fingerprint, own.fingerprint);
  EXPECT_NE(guess.fingerprint, other.fingerprint) << "what is tuned with it stands apart";
  EXPECT_EQ(present, guess);
  ASSERT_TRUE(measured);
  EXPECT_EQ(*measured, guess) << "it is not measured";
  EXPECT_EQ(reached, "") << "nor raised";
  EXPECT_THAT(refused, testing::HasSubstr("LUMINAL_MACHINE=" + file + ": machine profile: "));
}

TEST(MachineProfile, WrongJsonIsRefused) {
  const std::string good = example().to_json();
  auto with = [&](std::string from, std::string to) {
    std::string text = good;
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return text;
  };
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("17"),
        good.substr(0, good.size() / 2), with("\"cpu\"", "\"gpu\""), with("\"threads\": 3", "\"threads\": 0"),
        with("\"threads\": 3", "\"threads\": \"3\""), with("125.5", "-1"), with("125.5", "null"),
        with("\"fingerprint\": \"", "\"fingerprint\": \"z"), with("\"l1\": ", "\"l1\": -"),
        with("\"threads\": 3", "\"threads\": 1e300"),
        with("\"threads\": 3", "\"threads\": 18446744073709551615"),
        with("\"threads\": 3", "\"threads\": 2.5"),
        with("\"vector_registers\": ", "\"vector_registers\": 1000000")}) {
    auto p = MachineProfile::from_json(text);
    EXPECT_FALSE(p) << text;
  }
}

TEST(MachineProfile, MeasuredOnceAndKept) {
  CacheFolder folder("luminal_profile_test");
  EXPECT_TRUE(MachineProfile::present(1).guessed);
  auto first = MachineProfile::measured(1, false);
  ASSERT_TRUE(first) << first.error();
  for (double rate :
       {first->fma_f32_1, first->fma_f64_1, first->memory_1.read, first->memory_1.write, first->memory_1.copy,
        first->memory_1.triad, first->l1_1.read, first->l2_1.read, first->l3_all.read})
    EXPECT_GT(rate, 0.01);
  EXPECT_EQ(first->fma_f32, first->fma_f32_1); // one thread is all there is
  EXPECT_EQ(MachineProfile::present(1),
            *first); // read, not measured again: measurements are never equal twice
  EXPECT_TRUE(MachineProfile::present(2).guessed);

  ASSERT_EQ(folder.files().size(), 1u);
  ASSERT_TRUE(write_file(folder.files()[0].string(), std::string_view("{\"version\": 1")));
  EXPECT_TRUE(MachineProfile::present(1).guessed); // a damaged file counts as none
  MachineProfile foreign = *first;
  foreign.fingerprint ^= 1;
  ASSERT_TRUE(write_file(folder.files()[0].string(), std::string_view(foreign.to_json())));
  EXPECT_TRUE(MachineProfile::present(1).guessed);
}

TEST(Probes, StreamsDoWhatTheySay) {
  ThreadPool pool(2);
  auto made = Probes::create(pool, codegen::Target::host());
  ASSERT_TRUE(made) << made.error();
  Probes& probes = **made;
  constexpr int64_t n = 4096;
  alignas(64) static float x[n], y[n], z[n];
  for (int64_t i = 0; i < n; i++) x[i] = float(i), z[i] = float(3 * i);
  for (int threads : {1, 2}) {
    std::fill_n(y, n, -1.0f);
    EXPECT_GT(probes.stream_seconds(Stream::write, threads, {x, z, y, n}), 0);
    for (float v : y) ASSERT_EQ(v, 0.5f);
    probes.stream_seconds(Stream::copy, threads, {x, z, y, n});
    for (int64_t i = 0; i < n; i++) ASSERT_EQ(y[i], x[i]);
    probes.stream_seconds(Stream::triad, threads, {x, z, y, n}, 3);
    for (int64_t i = 0; i < n; i++) ASSERT_EQ(y[i], 3.5f * float(i));
    std::fill_n(y, n, -1.0f);
    probes.stream_seconds(Stream::copy, threads, {x, z, y, n, true});
    for (int64_t i = 0; i < n; i++) ASSERT_EQ(y[i], x[i]);
    EXPECT_EQ(probes.stream_bytes(Stream::triad, threads, n, 3), 3 * 3 * n * 4);
    EXPECT_EQ(probes.stream_bytes(Stream::read, threads, n), n * 4);
  }
  EXPECT_GT(probes.peak(Peak::f32, 2, 1e-4), 0);
  EXPECT_EQ(probes.has(Peak::bf16), codegen::CpuTarget::host().bf16_dot);
  EXPECT_EQ(probes.has(Peak::bf16_tiles), codegen::CpuTarget::host().bf16_tiles);
  if (probes.has(Peak::bf16_tiles)) {
    EXPECT_GT(probes.peak(Peak::bf16_tiles, 2, 1e-4), 0);
  }
}

} // namespace
} // namespace luminal::search::machine_profile_test
