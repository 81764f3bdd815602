// tests/backend/written_modules.h -- a small module in text form: its plan equals the interpreter, with and
// without passes.
#pragma once
#include "ir/interp_util.h"
#include "plans.h"
#include <fmt/format.h>
#include <limits>

namespace luminal::written_modules {

using Sizes = std::map<std::string, int64_t>;

/// Quarters in -4..4; floats have NaN, infinities and zeros of both signs among them where
/// `special`.
inline Bindings inputs_of(const Module& module, const Sizes& sizes, bool special) {
  Bindings bindings;
  bindings.symbols = sizes;
  ExprMap<int64_t> bound;
  for (Expr symbol : module.symbols) bound[symbol] = sizes.at(std::string(symbol.name()));
  uint64_t state = 1;
  for (NodeId id : module.entry().params) {
    const auto& input = std::get<InputAttr>(module.entry()[id].attr);
    HostTensor t;
    t.dtype = input.type.dtype;
    for (Expr extent : input.type.shape) t.shape.push_back(*evaluate(extent, bound));
    t.data.resize(size_t(storage_bytes(t.dtype, t.count())));
    for (int64_t i = 0; i < t.count(); i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const int64_t n = int64_t(state >> 40) % 33 - 16;
      if (is_float(t.dtype)) {
        constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
        const double odd[] = {nan, inf, -inf, 0.0, -0.0};
        store_f64(t.dtype, t.data.data(), i, special && i % 7 == 3 ? odd[i / 7 % 5] : double(n) / 4);
      } else {
        store_i64(t.dtype, t.data.data(), i,
                  t.dtype == DType::boolean ? n & 1 : wrap(t.dtype, special ? n * INT64_C(0x1234567) : n));
      }
    }
    bindings.inputs[input.name] = std::move(t);
  }
  return bindings;
}

/// Nothing is left out: what a rounding may change in any way equals the rounding interpreter's,
/// since quarters are summed exactly.
inline void expect_equal(const Module& module, const Bindings& bindings, runtime::Context& context) {
  Interpreter bounded(module, bindings, InterpMode::bounded), rounded(module, bindings);
  for (const FunctionResult& r : module.entry().results) {
    const auto got = context.result(r.name).value();
    const auto want = bounded.values(r.name);
    const HostTensor likely = rounded.result(r.name);
    for (size_t i = 0; i < want.size(); i++) {
      const bool known = is_float(got.dtype) ? std::isfinite(want[i].error) : want[i].error == 0;
      if (!is_float(got.dtype)) {
        ASSERT_EQ(load_i64(got.dtype, got.bytes.data(), int64_t(i)),
                  known ? want[i].integer : load_i64(got.dtype, likely.data.data(), int64_t(i)))
            << r.name << " element " << i;
        continue;
      }
      const double value = load_f64(got.dtype, got.bytes.data(), int64_t(i)),
                   wanted = known ? want[i].value : likely.at(int64_t(i));
      if (std::isnan(wanted) ? std::isnan(value) : value == wanted) continue;
      ASSERT_LE(std::abs(value - wanted), known ? 2 * want[i].error + 1e-30 : 0)
          << r.name << " element " << i << ": " << value << " for " << wanted;
    }
  }
}

inline void expect_plan(const std::string& text, const Sizes& sizes = {}, bool special = false) {
  SCOPED_TRACE(text);
  const Module module = parse_module(text);
  ASSERT_TRUE(verify(module).empty()) << verify(module)[0];
  const Bindings bindings = inputs_of(module, sizes, special);
  for (const Pass& passes : {passes::defaults(), passes::none()}) {
    SCOPED_TRACE("passes " + passes.name());
    Running running(module, 2, 0, passes);
    auto context = running.start(module, bindings);
    auto done = context->run();
    ASSERT_TRUE(done) << done.error();
    expect_equal(module, bindings, *context);
    if (testing::Test::HasFailure()) FAIL() << running.report;
  }
}

} // namespace luminal::written_modules
