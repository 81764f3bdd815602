// fuzz/expr_text_fuzz.cpp -- the text of expressions: a value that prints, parses back, evaluates
// and is written as C, or one clear failure.
#include "expr/expr.h"
#include <cstdlib>
#include <string_view>

using namespace luminal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  static const SymbolScope scope{{"x", Expr::symbol("x")},
                                 {"y", Expr::symbol("y")},
                                 {"i", Expr::symbol("i", {0, 63})},
                                 {"n", Expr::symbol("n", {1, 1 << 20})},
                                 {"t", Expr::symbol("t", {4, 1024}, 4)}};
  const auto e = Expr::parse(std::string_view(reinterpret_cast<const char*>(data), size), scope);
  if (!e) {
    if (e.error().find("<expression>:") == std::string::npos) std::abort();
    return 0;
  }
  const std::string text = to_string(*e);
  if (text.size() > 20000) return 0; // the parser has limits on what it takes back
  const auto again = Expr::parse(text, scope);
  if (again ? *again != *e
            : again.error().find("operands") == std::string::npos &&
                  again.error().find("nested") == std::string::npos)
    std::abort();
  const auto value = evaluate(*e, {{scope.at("x"), -7},
                                   {scope.at("y"), 3},
                                   {scope.at("i"), 5},
                                   {scope.at("n"), 100},
                                   {scope.at("t"), 8}});
  if (value && !e->range().contains(*value)) std::abort();
  const Truth truth = prove(*e);
  if (value && truth != Truth::unknown && (*value != 0) != (truth == Truth::yes)) std::abort();
  if (text.size() < 500) (void)to_llvm(*e);
  return 0;
}
