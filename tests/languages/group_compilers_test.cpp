// languages/group_compilers_test.cpp -- kernels that groups of lanes run, as they are chosen, through the
// compilers of NVIDIA and AMD, where they are: the instructions that the text asks for are in the machine
// code, registers suffice, nothing is spilled. No device is needed.
#include "choose/group_schedule.h"
#include "codegen/c_like/c_like.h"
#include "device/gpu/gpu_api.h"
#include "groups/group_support.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <unistd.h>

namespace luminal::group_compilers_test {
namespace {
using namespace luminal::kernel;
using testing::HasSubstr;
using testing::Not;

std::string text_for(const std::string& term, const char* language, const std::string& architecture) {
  const auto made =
      group_kernel(*cone_of(parse_module(term, "term").entry(), false), *gpu_target(language, architecture));
  EXPECT_TRUE(made) << term;
  if (!made) return "";
  const auto emitted = codegen::emit_c_like(*made->kernel, *codegen::find_dialect(language), {.entry = "k"});
  EXPECT_TRUE(emitted.ok()) << (emitted ? "" : emitted.error());
  return emitted ? emitted->text : "";
}

struct Cubin {
  std::string code, log;
  int number(const char* pattern) const { // the first group of the first match; -1: there is none
    std::smatch found;
    return std::regex_search(log, found, std::regex(pattern)) ? std::stoi(found[1]) : -1;
  }
};
/// With what ptxas says of registers.
Cubin cubin(const device::gpu::Compiler& c, const std::string& architecture, const std::string& text) {
  Cubin made;
  device::gpu::Handle program = nullptr;
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options{target.c_str(), "--ptxas-options=-v"};
  options.insert(options.end(), device::gpu::cuda.options.begin(), device::gpu::cuda.options.end());
  EXPECT_EQ(c.create(&program, text.c_str(), "k.cu", 0, nullptr, nullptr), 0);
  const int code = c.compile(program, int(options.size()), options.data());
  size_t bytes = 0;
  c.log_bytes(program, &bytes);
  made.log.resize(bytes);
  c.log(program, made.log.data());
  EXPECT_EQ(code, 0) << made.log << text;
  if (code == 0 && c.code_bytes(program, &bytes) == 0) {
    made.code.resize(bytes);
    c.code(program, made.code.data());
  }
  c.destroy(&program);
  return made;
}

/// The machine code as text; empty: there is no disassembler.
std::string disassembled(const std::string& code) {
  std::string pattern = (std::filesystem::temp_directory_path() / "luminal-sass-XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  std::ofstream(folder + "/k.cubin", std::ios::binary) << code;
  std::string text;
  if (std::system(fmt::format("cd {} && nvdisasm k.cubin > k.sass 2> /dev/null", folder).c_str()) == 0) {
    std::ifstream file(folder + "/k.sass");
    text = {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::remove_all(folder);
  return text;
}

#define NEEDS_NVRTC(name)                                                                                    \
  const auto name = device::gpu::open_compiler(device::gpu::cuda, 1 << 20);                                  \
  if (!name) GTEST_SKIP() << name.error()

class GroupCubins : public testing::TestWithParam<const char*> {};

TEST_P(GroupCubins, ProductsUseTheMatrixUnitWithoutSpills) {
  NEEDS_NVRTC(compiler);
  for (const char* type : {"bf16", "f16"}) {
    const std::string text = text_for(product_term(4096, 4096, 4096, type), "cuda", GetParam());
    EXPECT_THAT(text, HasSubstr(fmt::format("lum_mma_m16n8k16_{}(", type)));
    const Cubin made = cubin(*compiler, GetParam(), text);
    EXPECT_EQ(made.number(R"((\d+) bytes spill stores)"), 0) << made.log;
    EXPECT_LE(made.number(R"(Used (\d+) registers)"), 255) << made.log;
    EXPECT_GT(made.number(R"(Used (\d+) registers)"), 128) << made.log << "accumulators are 128 of them";
    const std::string sass = disassembled(made.code);
    if (sass.empty()) continue;
    EXPECT_THAT(sass, HasSubstr(std::string_view(type) == "bf16" ? "HMMA.16816.F32.BF16" : "HMMA.16816.F32"));
    EXPECT_THAT(sass, HasSubstr("LDGSTS.E.BYPASS.128")); // copies of 16 bytes that go on beside the lanes
    EXPECT_THAT(sass, Not(HasSubstr("STL")));
  }
}

/// Without a matrix unit: f32, and architectures before sm_80.
TEST_P(GroupCubins, ProductsOfF32CopyAheadWithoutSpills) {
  NEEDS_NVRTC(compiler);
  const Cubin made =
      cubin(*compiler, GetParam(), text_for(product_term(4096, 4096, 4096), "cuda", GetParam()));
  EXPECT_EQ(made.number(R"((\d+) bytes spill stores)"), 0) << made.log;
  EXPECT_LE(made.number(R"(Used (\d+) registers)"), 128) << made.log << "two groups of 256 lanes";
  if (const std::string sass = disassembled(made.code); !sass.empty()) {
    EXPECT_THAT(sass, HasSubstr("LDGSTS"));
    EXPECT_THAT(sass, HasSubstr("LDS.128"));
  }
}
INSTANTIATE_TEST_SUITE_P(Architectures, GroupCubins, testing::Values("sm_80", "sm_90a", "sm_100a"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GroupTexts, OlderArchitecturesKeepTheLanes) {
  NEEDS_NVRTC(compiler);
  const std::string text = text_for(product_term(512, 512, 512, "bf16"), "cuda", "sm_75");
  EXPECT_THAT(text, Not(HasSubstr("mma")));
  const Cubin made = cubin(*compiler, "sm_75", text);
  EXPECT_EQ(made.number(R"((\d+) bytes spill stores)"), 0) << made.log;
}

/// MFMA through clang, without any file of ROCm.
TEST(GroupTexts, MfmaIsInTheCodeOfAmd) {
  if (std::system("command -v clang++-19 > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no clang++-19";
  std::string pattern = (std::filesystem::temp_directory_path() / "luminal-mfma-XXXXXX").string();
  const std::string folder = mkdtemp(pattern.data());
  for (const char* type : {"bf16", "f16"}) {
    std::ofstream(folder + "/k.hip") << text_for(product_term(4096, 4096, 4096, type), "hip", "gfx942");
    const std::string command =
        fmt::format("cd {} && clang++-19 -x hip --offload-device-only --offload-arch=gfx942 -nogpulib "
                    "-nogpuinc -O3 -ffp-contract=off -S k.hip -o k.s > log 2>&1",
                    folder);
    const bool compiled = std::system(command.c_str()) == 0;
    std::ifstream file(folder + (compiled ? "/k.s" : "/log"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(compiled) << text.substr(0, 3000);
    if (!compiled) continue;
    EXPECT_THAT(text, HasSubstr(fmt::format("v_mfma_f32_32x32x8_{}", type)));
    EXPECT_THAT(text, HasSubstr("ScratchSize: 0")) << "nothing is spilled";
  }
  std::filesystem::remove_all(folder);
}

} // namespace
#undef NEEDS_NVRTC
} // namespace luminal::group_compilers_test
