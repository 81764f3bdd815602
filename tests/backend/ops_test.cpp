// backend/ops_test.cpp -- every row of the op table, for every type, as scalars, vectors, masked
// tails and strided lanes, against the table's own evaluation.
#include "ir/ops.h"
#include "support.h"

namespace luminal {
namespace {
using namespace luminal::test;

/// One kernel with a result for each form: y_scalar, y_vector (whole vectors), y_wide (two
/// registers), y_masked (a tail), y_strided (every third element of inputs and result). Inputs have
/// 3n elements.
constexpr const char* forms[] = {"scalar", "vector", "wide", "masked", "strided"};

kernel::Kernel elementwise(const std::vector<DType>& inputs, DType output, int64_t vector,
                           const std::function<kernel::ValueRef(std::vector<kernel::ValueRef>)>& make) {
  using namespace kernel;
  Kernel k;
  k.name = "elementwise";
  constexpr int64_t most = 1 << 20;
  Expr n = Expr::symbol("n", {1, most});
  k.symbols = {n};
  std::vector<BufferId> buffers, results;
  const char* names[] = {"a", "b", "c"};
  for (size_t i = 0; i < inputs.size(); ++i)
    buffers.push_back(add_buffer(k, {names[i], Space::global, Access::in, inputs[i], n * 3}));
  for (const char* form : forms)
    results.push_back(add_buffer(
        k, {std::string("y_") + form, Space::global, Access::inout, output, form == forms[4] ? n * 3 : n}));
  auto statement = [&](int form, Expr at) {
    std::vector<ValueRef> loads;
    for (BufferId b : buffers) loads.push_back(load(k, b, at));
    return store(results[size_t(form)], at, make(loads));
  };
  Expr i = Expr::symbol("i", {0, most - 1});
  k.body.push_back(loop(LoopKind::serial, i, 0, n, {statement(0, i)}));
  for (int form = 1; form < 5; ++form) {
    int64_t lanes = form == 2 ? 2 * vector : form == 3 ? 16 : vector;
    Expr io = Expr::symbol("io", {0, most - 1}), il = Expr::symbol("il", {0, lanes - 1}),
         at = io * Expr(lanes) + il;
    StmtRef body = statement(form, form == 4 ? at * 3 : at);
    StmtRef inner = form < 3 ? loop(LoopKind::vector, il, 0, lanes, {body})
                             : masked_loop(il, 0, lanes, n - io * Expr(lanes), {body});
    k.body.push_back(
        loop(LoopKind::serial, io, 0, form < 3 ? floordiv(n, lanes) : ceildiv(n, lanes), {inner}));
  }
  EXPECT_THAT(verify(k), testing::IsEmpty()) << to_string(k);
  return k;
}

/// Elements that a form writes.
std::vector<int64_t> written(int form, int64_t n, int64_t vector) {
  std::vector<int64_t> at;
  int64_t count = form == 1 ? n / vector * vector : form == 2 ? n / (2 * vector) * (2 * vector) : n;
  for (int64_t i = 0; i < count; ++i) at.push_back(form == 4 ? 3 * i : i);
  return at;
}

Arguments arguments_for(const std::vector<DType>& inputs, DType output, int64_t n, double low, double high);

/// Values that meet every special case, then random ones in the row's range.
Bytes samples(DType type, int64_t count, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size_t(storage_bytes(type, count)));
  std::vector<double> special{0.0,  -0.0,  1,      -1,     0.5,  -0.5,   1.5,     2.5,      -2.5,
                              2,    3,     -3,     0.1,    1e-3, 100.25, -100.25, INFINITY, -INFINITY,
                              NAN,  1e-40, -1e-40, 1e-310, 3e38, 1e300,  65504,   7,        448,
                              1e-8, 2e-5,  88.5,   -88.5,  -104, 1e5,    1e10};
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(type)) {
      double x = low + (high - low) * double(random() >> 11) * 0x1p-53;
      if (random() % 3 == 0) x = special[random() % special.size()];
      store_f64(type, bytes.data(), i, x);
    } else {
      int64_t x = int64_t(random());
      switch (random() % 4) {
      case 0: x = int64_t(random() % 7) - 3; break;
      case 1:
        x = random() % 2 ? INT64_MIN >> (64 - bits(type)) : int64_t(uint64_t(-1) >> (65 - bits(type)));
        break;
      default: break;
      }
      store_i64(type, bytes.data(), i, x);
    }
  }
  return bytes;
}

Arguments arguments_for(const std::vector<DType>& inputs, DType output, int64_t n, double low, double high) {
  Arguments args;
  args.symbol("n", n);
  const char* names[] = {"a", "b", "c"};
  for (size_t i = 0; i < inputs.size(); ++i)
    args.data[names[i]] = samples(inputs[i], 3 * n, low, high, 17 + i);
  for (const char* form : forms)
    args.space(std::string("y_") + form, size_t(storage_bytes(output, form == forms[4] ? 3 * n : n)));
  return args;
}

void copy_element(DType type, Bytes& to, const Bytes& from, int64_t i) {
  if (is_float(type))
    store_f64(type, to.data(), i, load_f64(type, from.data(), i));
  else
    store_i64(type, to.data(), i, load_i64(type, from.data(), i));
}

std::vector<DType> types_of(Signature signature) {
  std::vector<DType> types;
  for (int t = 0; t < dtype_count; ++t) {
    auto type = DType(t);
    DType args[3] = {type, type, type};
    if (signature == Signature::choice) args[0] = DType::boolean;
    int arity = signature == Signature::test ? 1 : signature == Signature::choice ? 3 : 2;
    if (signature == Signature::numeric || signature == Signature::floating || signature == Signature::bits)
      arity = 1;
    if (result_type(signature, arity, args)) types.push_back(type);
  }
  return types;
}

class Rows : public testing::TestWithParam<int> {};

TEST_P(Rows, EqualTheTableOnEveryTypeAndForm) {
  auto op = Op(GetParam());
  const OpRow& r = row(op);
  constexpr int64_t n = 197;
  for (DType type : types_of(r.signature)) {
    std::vector<DType> inputs(size_t(r.arity), type);
    if (r.signature == Signature::choice) inputs[0] = DType::boolean;
    DType output = *result_type(r, inputs.data());
    Arguments given = arguments_for(inputs, output, n, r.low, r.high);
    const char* names[] = {"a", "b", "c"};
    Bytes results(size_t(storage_bytes(output, 3 * n)));
    for (int64_t i = 0; i < 3 * n; ++i) {
      double x[3];
      int64_t z[3];
      for (size_t a = 0; a < inputs.size(); ++a) {
        x[a] = load_f64(inputs[a], given.data[names[a]].data(), i);
        z[a] = load_i64(inputs[a], given.data[names[a]].data(), i);
      }
      if (is_float(type))
        store_f64(output, results.data(), i, apply_f64(op, type, x));
      else
        store_i64(output, results.data(), i, apply_i64(op, type, z));
    }
    for (const codegen::CpuTarget& target : instruction_sets()) {
      int64_t vector = target.lanes(type);
      kernel::Kernel k =
          elementwise(inputs, output, vector, [&](auto args) { return kernel::apply(op, args); });
      Arguments args = given;
      Program(k, target).run(args);
      for (int form = 0; form < 5; ++form) {
        std::string name = std::string("y_") + forms[form];
        Bytes expected = given.data[name];
        for (int64_t i : written(form, n, vector)) copy_element(output, expected, results, i);
        auto equal = close(output, args.data[name], expected, r.ulp <= 0.5 ? 0 : r.ulp, r.ulp_scale);
        ASSERT_TRUE(equal) << r.name << " " << to_string(type) << " " << forms[form] << " on " << target.cpu;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Rows, testing::Range(0, op_count),
                         [](const auto& test) { return std::string(to_string(Op(test.param))); });

/// Every form of a kernel equals the interpreter.
void expect_interpreted(const kernel::Kernel& k, const std::vector<DType>& inputs, DType output,
                        const std::string& what) {
  Arguments given = arguments_for(inputs, output, 99, -300, 300);
  Arguments expected = interpret(k, given);
  for (const codegen::CpuTarget& target : instruction_sets()) {
    Arguments args = given;
    Program(k, target).run(args);
    for (const char* form : forms) {
      std::string name = std::string("y_") + form;
      ASSERT_TRUE(close(output, args.data[name], expected.data[name]))
          << what << " " << form << " on " << target.cpu;
    }
  }
}

class FromType : public testing::TestWithParam<int> {};

TEST_P(FromType, CastsEqualTheInterpreter) {
  auto from = DType(GetParam());
  for (int t = 0; t < dtype_count; ++t) {
    auto to = DType(t);
    kernel::Kernel k = elementwise({from}, to, 8, [&](auto args) { return kernel::cast(to, args[0]); });
    expect_interpreted(k, {from}, to, std::string(to_string(from)) + " to " + std::string(to_string(to)));
  }
}

TEST_P(FromType, BitcastsKeepTheBits) {
  auto from = DType(GetParam());
  for (int t = 0; t < dtype_count; ++t) {
    auto to = DType(t);
    if (bits(from) != bits(to) || from == DType::boolean || to == DType::boolean) continue;
    kernel::Kernel k = elementwise({from}, to, 8, [&](auto args) { return kernel::bitcast(to, args[0]); });
    expect_interpreted(k, {from}, to, std::string(to_string(from)) + " as " + std::string(to_string(to)));
  }
}

INSTANTIATE_TEST_SUITE_P(Casts, FromType, testing::Range(0, dtype_count),
                         [](const auto& test) { return std::string(to_string(DType(test.param))); });

} // namespace
} // namespace luminal
