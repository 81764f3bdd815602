// languages/compilers_test.cpp -- the text of CUDA and HIP through the compilers of NVIDIA and AMD, where
// they are: every golden kernel for several architectures, every row and cast of the op table for the oldest
// one. No device is needed.
#include "codegen/c_like/c_like.h"
#include "device/gpu/gpu_api.h"
#include "rows.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace luminal {
namespace {
using namespace luminal::languages;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Text {
  std::string name, text;
};
/// Those that the language can express; what it refuses is refused by name.
void add(std::vector<Text>& texts, const std::string& name, const kernel::Kernel& k, const char* language,
         std::vector<std::string>& refused) {
  const auto emitted = codegen::emit_c_like(k, *codegen::find_dialect(language), {.entry = "k"});
  if (emitted)
    texts.push_back({name, emitted->text});
  else
    refused.push_back(emitted.error());
}
std::vector<Text> goldens(const char* language) {
  std::vector<Text> texts;
  std::vector<std::string> refused;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(LUMINAL_SOURCE_DIR) / "tests/golden"))
    if (const auto loops = entry.path() / "loops.txt"; std::filesystem::exists(loops))
      add(texts, entry.path().filename().string(), kernel::parse_kernel(read(loops)), language, refused);
  EXPECT_THAT(refused, testing::IsEmpty());
  EXPECT_GE(texts.size(), 14u);
  return texts;
}
std::vector<Text> rows(const char* language) {
  std::vector<Text> texts;
  std::vector<std::string> refused;
  for (int t = 0; t < dtype_count; ++t) {
    const std::string type(to_string(DType(t)));
    add(texts, "rows of " + type, rows_case(DType(t)).kernel, language, refused);
    add(texts, "casts of " + type, casts_case(DType(t), [](DType) { return true; }).kernel, language,
        refused);
  }
  if (std::string_view(language) == "hip") // f64's functions are in ROCm's device library
    EXPECT_THAT(refused, testing::ElementsAre("kernel rows: hip has no acos of f64"));
  else
    EXPECT_THAT(refused, testing::IsEmpty());
  return texts;
}

void compiles(const device::gpu::Vendor& vendor, const device::gpu::Compiler& compiler,
              const std::string& architecture, const std::vector<Text>& texts) {
  for (const Text& t : texts) {
    const auto made = device::gpu::compile(vendor, compiler, architecture, t.text, "k");
    EXPECT_TRUE(made.ok()) << t.name << ": " << (made ? "" : made.error()) << "\n" << t.text;
    EXPECT_GT(made ? made->size() : 0, 500u) << t.name;
  }
}

class Nvrtc : public testing::TestWithParam<const char*> {};
#define NEEDS_NVRTC(name)                                                                                    \
  const auto name = device::gpu::open_compiler(device::gpu::cuda, 1 << 20);                                  \
  if (!name) GTEST_SKIP() << name.error()

TEST_P(Nvrtc, MakesMachineCodeOfEveryGolden) {
  NEEDS_NVRTC(compiler);
  const auto texts = goldens("cuda");
  compiles(device::gpu::cuda, *compiler, GetParam(), texts);
  // Machine code, not PTX.
  EXPECT_THAT(*device::gpu::compile(device::gpu::cuda, *compiler, GetParam(), texts[0].text, "k"),
              testing::StartsWith("\x7f"
                                  "ELF"));
}
INSTANTIATE_TEST_SUITE_P(Architectures, Nvrtc, testing::Values("sm_75", "sm_80", "sm_90a", "sm_100a"),
                         [](const auto& test) { return std::string(test.param); });

TEST(NvrtcRows, EveryRowAndCastCompiles) {
  NEEDS_NVRTC(compiler);
  compiles(device::gpu::cuda, *compiler, "sm_75", rows("cuda"));
}
TEST(NvrtcRows, ADeviceThatIsNewerGetsPtx) {
  NEEDS_NVRTC(compiler);
  const auto made =
      device::gpu::compile(device::gpu::cuda, *compiler, "sm_999", goldens("cuda")[0].text, "k");
  ASSERT_TRUE(made.ok()) << made.error();
  EXPECT_THAT(*made, testing::HasSubstr(fmt::format(".target sm_{}", compiler->architectures.back())));
}
TEST(NvrtcRows, WhatDoesNotCompileIsTold) {
  NEEDS_NVRTC(compiler);
  const auto made =
      device::gpu::compile(device::gpu::cuda, *compiler, "sm_80", "__global__ void k() { x; }", "k");
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error(),
              testing::StartsWith("NVRTC: k does not compile for sm_80: NVRTC_ERROR_COMPILATION"));
  EXPECT_THAT(made.error(), testing::HasSubstr("identifier \"x\" is undefined"));
}

TEST(Hiprtc, MakesMachineCodeOfEveryGolden) {
  const auto compiler = device::gpu::open_compiler(device::gpu::hip, 0);
  if (!compiler) GTEST_SKIP() << compiler.error();
  compiles(device::gpu::hip, *compiler, "gfx90a", goldens("hip"));
}

/// clang without any file of ROCm.
class Clang : public testing::TestWithParam<const char*> {
protected:
  Clang() {
    std::string pattern = (std::filesystem::temp_directory_path() / "luminal-clang-XXXXXX").string();
    folder_ = mkdtemp(pattern.data()) ? pattern : "";
  }
  ~Clang() override { std::filesystem::remove_all(folder_); }
  /// What clang says against the text; empty: it compiles.
  std::string compile(const std::string& text) const {
    std::ofstream(folder_ + "/k.hip") << text;
    const std::string command =
        fmt::format("cd {} && clang++-19 -x hip --offload-device-only --offload-arch={} -nogpulib -nogpuinc "
                    "-O3 -ffp-contract=off -S k.hip -o k.s > log 2>&1",
                    folder_, GetParam());
    return std::system(command.c_str()) == 0 ? "" : "it fails: " + read(folder_ + "/log");
  }
  std::string folder_;
};

TEST_P(Clang, MakesMachineCodeOfEveryGolden) {
  if (std::system("command -v clang++-19 > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no clang++-19";
  if (const std::string why = compile("extern \"C\" __attribute__((global)) void k() {}\n"); !why.empty())
    GTEST_SKIP() << "clang++-19 does not compile for " << GetParam() << ": " << why;
  for (const Text& t : goldens("hip")) {
    ASSERT_EQ(compile(t.text), "") << t.name << "\n" << t.text;
    EXPECT_THAT(read(folder_ + "/k.s"), testing::HasSubstr("s_endpgm")) << t.name;
  }
  EXPECT_THAT(compile("extern \"C\" __attribute__((global)) void k() { x; }\n"),
              testing::HasSubstr("identifier 'x'"));
}
INSTANTIATE_TEST_SUITE_P(Architectures, Clang, testing::Values("gfx90a", "gfx942", "gfx1100"),
                         [](const auto& test) { return std::string(test.param); });

} // namespace
#undef NEEDS_NVRTC
} // namespace luminal
