// bench/narrow.cpp -- matrix products of bf16 and of bytes against the measured peaks of the dot
// instructions and PyTorch.
#include "base/thread_pool.h"
#include "harness.h"
#include "luminal/luminal.h"
#include "support/products.h"
#include <random>

using namespace luminal;
using namespace luminal::bench;

namespace {

/// Operands and results of one kind of product.
template <class A, class B, class C> struct Kind;
template <> struct Kind<uint16_t, uint16_t, uint16_t> { // bf16 in and out, sums in f32, as PyTorch's
  static constexpr const char *name = "bf16 gemm", *torch = "bf16", *limit = "bf16 dot peak";
  static constexpr DType a = DType::bf16, b = DType::bf16;
  static constexpr search::Peak peak = search::Peak::bf16;
  static constexpr double goal = 0.85, error = 5e-3;
  static Tensor product(const Tensor& x, const Tensor& y) { return x.matmul(y); }
};
template <> struct Kind<uint8_t, int8_t, int32_t> { // exact
  static constexpr const char *name = "u8s8 gemm", *torch = "u8s8", *limit = "int8 dot peak";
  static constexpr DType a = DType::u8, b = DType::i8;
  static constexpr search::Peak peak = search::Peak::int8;
  static constexpr double goal = 0.80, error = 0;
  static Tensor product(const Tensor& x, const Tensor& y) {
    return x.cast(DType::i32).matmul(y.cast(DType::i32));
  }
};

template <class T> Array<T> random_numbers(int64_t count, unsigned seed) {
  if constexpr (std::is_same_v<T, uint16_t>) return random_bf16(count, seed);
  Array<T> numbers(count);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < count; i++) numbers[i] = T(random());
  return numbers;
}
template <class T> double number(T x) {
  if constexpr (std::is_same_v<T, uint16_t>) return bf16_value(x);
  return double(x);
}

template <class A, class B, class C>
void run(const ProductShape& s, const Arguments& arguments, Machine& machine, Torch& torch, Table& table) {
  using K = Kind<A, B, C>;
  const bool tiles = K::peak == search::Peak::bf16 && machine.probes->has(search::Peak::bf16_tiles);
  const search::Peak peak = tiles ? search::Peak::bf16_tiles : K::peak;
  if (!machine.probes->has(peak)) return;
  const std::string name = s.name(K::name);
  if (name.find(arguments.only) == std::string::npos) return;
  const double flops = s.operations();
  const int64_t size_a = int64_t(s.m) * s.k, size_b = int64_t(s.k) * s.n, size_c = int64_t(s.m) * s.n;
  const int copies =
      std::min(16, copies_beyond_caches(s.batch * (size_a * int64_t(sizeof(A)) + size_b * int64_t(sizeof(B)) +
                                                   size_c * int64_t(sizeof(C)))));
  std::vector<Array<A>> a;
  std::vector<Array<B>> b;
  std::vector<Array<C>> c;
  for (int i = 0; i < copies; i++) {
    a.push_back(random_numbers<A>(s.batch * size_a, unsigned(2 * i + 1)));
    b.push_back(random_numbers<B>(s.batch * size_b, unsigned(2 * i + 2)));
    c.push_back(random_numbers<C>(s.batch * size_c, 7));
  }
  const OperandReads reads(s, s.batch * (size_a * int64_t(sizeof(A)) + size_b * int64_t(sizeof(B))), copies);
  for (int threads : arguments.threads) {
    Graph g;
    const bool batched = s.batch > 1;
    Tensor x = batched ? g.tensor({s.batch, s.m, s.k}, K::a) : g.tensor({s.m, s.k}, K::a),
           y = batched ? g.tensor({s.batch, s.k, s.n}, K::b) : g.tensor({s.k, s.n}, K::b),
           z = K::product(x, y).keep();
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    int turn = 0;
    auto ours = [&] {
      turn = (turn + 1) % copies;
      x.borrow(a[size_t(turn)].data(), size_t(a[0].bytes()));
      y.borrow(b[size_t(turn)].data(), size_t(b[0].bytes()));
      return timed([&] { g.execute(); });
    };
    ours();
    auto result = z.data<std::conditional_t<std::is_same_v<C, int32_t>, int32_t, float>>();
    const A* left = a[size_t(turn)].data();
    const B* right = b[size_t(turn)].data();
    const double error = product_error(
        s, result, [&](int64_t i) { return number(left[i]); }, [&](int64_t i) { return number(right[i]); });

    // As long as one of ours: a disturbance spoils both alike.
    const double length = std::min({timed(ours), timed(ours), timed(ours)});
    std::vector<Contender> race_of{{"ours", ours}};
    race_of.push_back({"peak", [&] {
                         const double rate = machine.probes->peak(peak, threads, length);
                         return 1e9 / rate; // seconds of 1e9 operations
                       }});
    if (reads.count()) race_of.push_back(reads.contender(machine, threads));
    const size_t peers_begin = race_of.size();
    const bool has_peer =
        !std::is_same_v<C, int32_t> || !batched; // PyTorch multiplies single matrices of bytes only
    if (torch.present() && arguments.peers && has_peer)
      race_of.push_back(
          {"torch", {}, [&](double seconds) {
             return torch.ask(fmt::format("gemm {} {} {} {} {} {}", s.m, s.n, s.k, s.batch, copies, K::torch),
                              threads, seconds);
           }});
    race(race_of, arguments);
    Row row{.work = name, .threads = threads, .unit = "GFLOP/s", .ours = flops / race_of[0].low() * 1e-9};
    set_limit(row, s, race_of, reads, tiles ? "bf16 tile peak" : K::limit);
    row.goal = K::goal;
    row.correct = error <= K::error;
    for (size_t i = peers_begin; i < race_of.size(); i++)
      row.peers[race_of[i].name] = flops / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(
      argc, argv, "products of bf16 and of bytes against the dot instructions' peaks and PyTorch");
  Torch torch;
  Machine machine(arguments.threads.back());
  Table table(arguments, "narrow");
  if (!torch.present()) table.note(torch.absent());
  for (const ProductShape& s : product_shapes) {
    run<uint16_t, uint16_t, uint16_t>(s, arguments, machine, torch, table);
    run<uint8_t, int8_t, int32_t>(s, arguments, machine, torch, table);
  }
}
