// backend/sweep_test.cpp -- every operation on every type through every kind of view, casts and
// bitcasts between all types, every monoid on every type: plans against the naive interpreter. What
// a back end does not support stands in one list, by name; a case is never left out in silence.
#include "ir/naive_interp.h"
#include "luminal/error.h"
#include "plans.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <memory>
#include <random>

namespace luminal {
namespace {

/// Kinds of views: what stands behind `view %x `, for x[6, 8] and a result [8, 6].
constexpr std::string_view views[] = {
    "[i: 8, j: 6] -> [j, i]",                                        // transposed
    "[i: 8, j: 6] -> [j, 3]",                                        // broadcast
    "[i: 8, j: 6] -> [j - 1, i - 2] where 1 <= j and 2 <= i fill 1", // padded
    "[i: 8, j: 6] -> [5 - j, 7 - i]",                                // flipped
    "[i: 8, j: 6] -> [(i * 6 + j) // 8, (i * 6 + j) % 8]",           // reshaped
    "[i: 8, j: 6] -> [j, i] where i <= j fill 1",                    // masked
    "[i: 8, j: 6] -> [i % 3 * 2, (j + 5) % 8]",                      // strided, rolled
    "[i: 8, j: 6] with h = %at[i] in 0..5 clamp -> [h, j]",          // gathered
    "[i: 8, j: 6] with h = %at[j] in 0..5 fill -> [h, i] fill 1"};   // gathered, filled

/// Ordinary numbers of the row's range, and every special one.
HostTensor drawn(DType type, std::vector<int64_t> shape, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor t{type, std::move(shape), {}};
  t.data.resize(size_t(storage_bytes(type, t.count())));
  for (int64_t i = 0; i < t.count(); i++) {
    if (is_float(type)) {
      const double special[] = {0,   1,        -1,        0.5,           2,
                                NAN, INFINITY, -INFINITY, largest(type), least_subnormal(type)};
      double x = low + (high - low) * double(random() >> 11) * 0x1p-53;
      if (random() % 4 == 0) x = special[random() % 10];
      store_f64(type, t.data.data(), i, x);
    } else {
      const auto x = int64_t(random());
      store_i64(type, t.data.data(), i,
                random() % 3   ? x % 9
                : random() % 2 ? x
                : x % 2        ? INT64_MIN >> (64 - bits(type))
                               : -1);
    }
  }
  return t;
}

Bindings places() {
  Bindings b;
  b.inputs["at"] = host_tensor(DType::i32, {8}, std::vector<double>{0, 5, 2, 2, 9, -1, 4, 1});
  return b;
}

struct Unsupported {
  std::string_view operation, type; // "sin", "f8e4m3"; "*" for all
};
/// What the back end for processors refuses. An entry that it computes after all is a failure, and
/// so is a refusal without an entry.
constexpr std::array<Unsupported, 0> unsupported{};

bool is_unsupported(std::string_view operation, std::string_view type) {
  return std::ranges::any_of(unsupported, [&](const Unsupported& u) {
    return (u.operation == operation || u.operation == "*") && (u.type == type || u.type == "*");
  });
}

/// Compiles a case; null where the list says that it is refused, and it is, with a text that names
/// it.
std::unique_ptr<Running> compiled(const Module& module, std::string_view operation, std::string_view type) {
  const bool refused = is_unsupported(operation, type);
  try {
    auto running = std::make_unique<Running>(module);
    if (!refused) return running;
    ADD_FAILURE() << operation << " on " << type << " is supported: the list says that it is not";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(refused) << operation << " on " << type << " is not in the list: " << text;
    EXPECT_NE(text.find(operation), std::string::npos) << text;
    EXPECT_NE(text.find(type), std::string::npos) << text;
  }
  return nullptr;
}

/// The plan's results against the naive interpreter: equal, or within the bound.
void expect_meaning(const std::string& text, std::string_view operation, std::string_view type,
                    const Bindings& bindings, int64_t& compared, int64_t& unbounded) {
  const Module module = parse_module(text);
  const auto want = interpret_naively(module, bindings);
  const auto compiled_case = compiled(module, operation, type);
  if (!compiled_case) return;
  Running& running = *compiled_case;
  auto context = running.start(module, bindings);
  auto done = context->run();
  ASSERT_TRUE(done) << done.error();
  Interpreter judge(module, bindings, InterpMode::bounded);
  for (const FunctionResult& r : module.entry().results) {
    const HostTensor& t = want.at(r.name);
    auto got = context->result(r.name).value();
    auto bounds = judge.values(r.name);
    for (int64_t i = 0; i < t.count(); i++) {
      const double x = t.at(i), y = load_f64(t.dtype, got.bytes.data(), i), error = bounds[size_t(i)].error;
      if (is_float(t.dtype) ? x == y || (std::isnan(x) && std::isnan(y))
                            : load_i64(t.dtype, t.data.data(), i) == load_i64(t.dtype, got.bytes.data(), i)) {
        compared++;
        continue;
      }
      if (std::isinf(error)) {
        unbounded++;
        continue;
      }
      ASSERT_TRUE(is_float(t.dtype) && std::fabs(x - y) <= 2 * error)
          << r.name << " element " << i << ": " << y << " by the plan, " << x << " by the interpreter\n"
          << text;
      compared++;
    }
  }
}

class Sweep : public testing::TestWithParam<int> {};

TEST_P(Sweep, EveryOperationThroughEveryKindOfView) {
  const auto type = DType(GetParam());
  int64_t compared = 0, unbounded = 0;
  int rows = 0;
  for (int o = 0; o < op_count; o++) {
    const OpRow& r = row(Op(o));
    DType args[3] = {type, type, type};
    if (r.signature == Signature::choice) args[0] = DType::boolean;
    if (!result_type(r, args)) continue;
    rows++;
    Bindings bindings = places();
    std::string params = "%at: i32[8], %at6: i32[6]", body, results;
    bindings.inputs["at6"] = host_tensor(DType::i32, {6}, std::vector<double>{0, 5, 2, 7, -1, 3});
    for (int a = 0; a < r.arity; a++) {
      const std::string name(1, char('a' + a));
      params += fmt::format(", {}%{}: {}[6, 8]", o % 2 ? "weight " : "", name, to_string(args[a]));
      bindings.inputs[name] = drawn(args[a], {6, 8}, r.low, r.high, uint64_t(o * 7 + a));
    }
    const size_t kinds = std::size(views);
    for (size_t v = 0; v < kinds; v++) {
      std::string list;
      for (int a = 0; a < r.arity; a++) {
        std::string view(views[(v + size_t(a) * 2) % kinds]);
        if (const size_t at = view.find("%at[j]"); at != std::string::npos) view.replace(at, 6, "%at6[j]");
        body += fmt::format("  %v{}_{} = view %{} {}\n", v, a, char('a' + a), view);
        list += fmt::format("{}%v{}_{}", a ? ", " : "", v, a);
      }
      body += fmt::format("  %y{} = {} {}\n", v, r.name, list);
      results += fmt::format("{}y{} = %y{}", v ? ", " : "", v, v);
    }
    SCOPED_TRACE(fmt::format("{} on {}", r.name, to_string(type)));
    expect_meaning("fn @main(" + params + ") {\n" + body + "  return " + results + "\n}\n", r.name,
                   to_string(type), bindings, compared, unbounded);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(rows, 9);
  EXPECT_LE(unbounded * 20, compared) << "elements without a bound are few";
}

TEST_P(Sweep, CastsBitcastsFoldsScansSortsAndScatters) {
  const auto type = DType(GetParam());
  const std::string t(to_string(type));
  int64_t compared = 0, unbounded = 0;
  std::string body, results;
  auto add = [&](const std::string& text, const std::string& name) {
    body += text;
    results += fmt::format("{}{} = %{}", results.empty() ? "" : ", ", name, name);
  };
  for (int k = 0; k < dtype_count; k++) {
    const std::string to(to_string(DType(k)));
    add(fmt::format("  %c{0} = cast {0} %x\n", to), "c" + to);
    if (type == DType::boolean || DType(k) == DType::boolean) continue;
    // NaN has more than one pattern: floats are read as other types where they are numbers.
    const std::string from = is_float(type) ? "%numbers" : "%x";
    add(fmt::format("  %b{0} = bitcast {0} {1}\n", to, from), "b" + to);
  }
  for (Op op : {Op::add, Op::mul, Op::max, Op::min, Op::bit_or, Op::bit_and}) {
    DType same[2] = {type, type};
    if (!result_type(row(op), same)) continue;
    const std::string w(row(op).monoid);
    add(fmt::format("  %g{0} = fold [i: 4, j: 32] over [j] {{ {0} %x[i, j] }}\n  %f{0} = get %g{0}, 0\n", w),
        "f" + w);
    add(fmt::format("  %e{0} = fold [i: 4, j: 32] over [j] where j > i * 20 {{ {0} %x[i, j] }}\n  %d{0} = "
                    "get %e{0}, 0\n",
                    w),
        "d" + w);
    add(fmt::format(
            "  %t{0} = scan [i: 4, j: 32] along j exclusive {{ {0} %x[i, j] }}\n  %s{0} = get %t{0}, 0\n", w),
        "s" + w);
    add(fmt::format(
            "  %a{0} = scatter {0} %x, %x [i: 4, j: 32] with h = %at[i] in 0..3 clamp -> [h, j // 2]\n", w),
        "a" + w);
  }
  add("  %o = sort %x along 1\n  %up = get %o, 0\n", "up");
  add("  %p = sort %x, %place along 1 descending\n  %down = get %p, 0\n  %order = get %p, 1\n", "down");
  results += ", order = %order";
  std::string head =
      fmt::format("fn @main(%x: {0}[4, 32], %at: i32[8x]) {{\n  %place = iota i32 [i: 4, j: 32] -> j\n", t);
  head.replace(head.find("8x"), 2, "4");
  if (is_float(type))
    head += fmt::format("  %one = const {0} 1\n  %ones = view %one [i: 4, j: 32] -> []\n  %wrong = is_nan "
                        "%x\n  %numbers = select %wrong, %ones, %x\n",
                        t);
  Bindings bindings;
  bindings.inputs["x"] = drawn(type, {4, 32}, -4, 4, 77);
  bindings.inputs["at"] = host_tensor(DType::i32, {4}, std::vector<double>{2, -1, 2, 7});
  expect_meaning(head + body + "  return " + results + "\n}\n", "folds", t, bindings, compared, unbounded);
  EXPECT_GE(compared, 1000);
  EXPECT_LE(unbounded * 10, compared);
}

INSTANTIATE_TEST_SUITE_P(Types, Sweep, testing::Range(0, dtype_count),
                         [](const auto& type) { return std::string(to_string(DType(type.param))); });

} // namespace
} // namespace luminal
