// tests/ir/docs_test.cpp -- the documentation of terms and operations is true: every example is
// read, the table of operations is the table.
#include "ir/term.h"
#include "luminal/error.h"
#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>

namespace luminal {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(std::string(LUMINAL_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Docs, EveryExampleOfTermsIsRead) {
  const std::string text = read("docs/terms.md");
  int blocks = 0;
  for (size_t at = text.find("```terms\n"); at != std::string::npos; at = text.find("```terms\n", at + 1)) {
    const size_t begin = at + 9, end = text.find("\n```", begin);
    ASSERT_NE(std::string::npos, end);
    const std::string block = text.substr(begin, end - begin);
    ++blocks;
    try {
      Module module = parse_module(block, "docs/terms.md block " + std::to_string(blocks));
      EXPECT_THAT(verify(module), testing::IsEmpty());
      EXPECT_TRUE(same_module(module, parse_module(to_string(module)))) << to_string(module);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_GE(blocks, 6);
}

TEST(Docs, TermsNamesEveryKind) {
  const std::string text = read("docs/terms.md");
  for (int k = 0; k <= int(NodeKind::get); ++k)
    if (NodeKind(k) != NodeKind::input && NodeKind(k) != NodeKind::map) {
      EXPECT_THAT(text, testing::HasSubstr(std::string(to_string(NodeKind(k)))))
          << "a kind of node without a word";
    }
}

TEST(Docs, OpsIsTheTable) {
  if (std::getenv("LUMINAL_UPDATE"))
    std::ofstream(std::string(LUMINAL_SOURCE_DIR) + "/docs/ops.md") << ops_markdown();
  EXPECT_EQ(ops_markdown(), read("docs/ops.md")) << "run test_ir with LUMINAL_UPDATE=1";
}

} // namespace
} // namespace luminal
