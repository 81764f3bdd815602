// bench/gemm.cpp -- f32 matrix products against the measured multiply-add peak, OpenBLAS and
// PyTorch.
#include "base/thread_pool.h"
#include "harness.h"
#include "luminal/luminal.h"
#include "support/products.h"
#include <map>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Peers {
  Torch torch;
  std::map<std::string, Sgemm> here; ///< those in this process
};

void run(const ProductShape& s, bool constant, const Arguments& arguments, Machine& machine, Peers& peers,
         Table& table) {
  std::string name = s.name("sgemm");
  if (constant) name += " weight";
  if (name.find(arguments.only) == std::string::npos) return;
  const double flops = s.operations();
  const int64_t size_a = int64_t(s.m) * s.k, size_b = int64_t(s.k) * s.n, size_c = int64_t(s.m) * s.n;
  const int copies = std::min(16, copies_beyond_caches(4 * s.batch * (size_a + size_b + size_c)));
  std::vector<Array<float>> a, b, c;
  for (int i = 0; i < copies; i++) {
    a.push_back(random_floats(s.batch * size_a, unsigned(2 * i + 1)));
    b.push_back(random_floats(s.batch * size_b, unsigned(2 * i + 2)));
    c.push_back(random_floats(s.batch * size_c, 7));
  }
  const OperandReads reads(s, 4 * s.batch * (size_a + size_b), copies);
  for (int threads : arguments.threads) {
    Graph g;
    const bool batched = s.batch > 1;
    Tensor x = batched ? g.tensor({s.batch, s.m, s.k}) : g.tensor({s.m, s.k}),
           y = batched    ? g.tensor({s.batch, s.k, s.n})
               : constant ? g.weight("w", {s.k, s.n})
                          : g.tensor({s.k, s.n}),
           z = x.matmul(y).keep();
    if (constant) y.borrow(b[0].data(), size_t(b[0].bytes()));
    g.compile({.threads = threads});
    if (arguments.report) fmt::print("{}", g.report());
    int turn = 0;
    auto ours = [&] {
      turn = (turn + 1) % copies;
      x.borrow(a[size_t(turn)].data(), size_t(a[0].bytes()));
      if (!constant) y.borrow(b[size_t(turn)].data(), size_t(b[0].bytes()));
      return timed([&] { g.execute(); });
    };
    ours();
    auto result = z.data<float>();
    const float *left = a[size_t(turn)].data(), *right = b[constant ? 0 : size_t(turn)].data();
    const double error = product_error(
        s, result, [&](int64_t i) { return double(left[i]); }, [&](int64_t i) { return double(right[i]); });

    // As long as one of ours: a disturbance spoils both alike.
    const double length = std::min({timed(ours), timed(ours), timed(ours)});
    std::vector<Contender> race_of{{"ours", ours}};
    race_of.push_back({"peak", [&] {
                         const double rate = machine.probes->peak(search::Peak::f32, threads, length);
                         return 1e9 / rate; // seconds of 1e9 operations
                       }});
    if (reads.count()) race_of.push_back(reads.contender(machine, threads));
    const size_t peers_begin = race_of.size();
    int peer_turn = 0;
    if (arguments.peers)
      for (const auto& [library, product] : peers.here)
        race_of.push_back({library, [&] {
                             peer_turn = (peer_turn + 1) % copies;
                             const size_t t = size_t(peer_turn);
                             return timed([&] {
                               for (int64_t i = 0; i < s.batch; i++)
                                 product(s.m, s.n, s.k, a[t].data() + i * size_a,
                                         b[constant ? 0 : t].data() + i * size_b, c[t].data() + i * size_c,
                                         threads);
                             });
                           }});
    if (peers.torch.present() && arguments.peers)
      race_of.push_back({"torch", {}, [&](double seconds) {
                           return peers.torch.ask(fmt::format("sgemm {} {} {} {} {} {}", s.m, s.n, s.k,
                                                              s.batch, copies, int(constant)),
                                                  threads, seconds);
                         }});
    race(race_of, arguments);

    Row row{.work = name, .threads = threads, .unit = "GFLOP/s", .ours = flops / race_of[0].low() * 1e-9};
    set_limit(row, s, race_of, reads, "multiply-add peak");
    row.goal = s.goal;
    row.correct = error < 1e-5;
    for (size_t i = peers_begin; i < race_of.size(); i++)
      row.peers[race_of[i].name] = flops / race_of[i].low() * 1e-9;
    table.add(row);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments =
      parse_arguments(argc, argv, "f32 matrix products against the multiply-add peak and the peers");
  Peers peers;
  Machine machine(arguments.threads.back());
  Table table(arguments, "gemm");
  for (const auto& [library, find] : {std::pair{"OpenBLAS", &openblas}, std::pair{"oneDNN", &onednn}}) {
    std::string absent;
    if (Sgemm product = find(absent)) peers.here[library] = std::move(product);
    if (!absent.empty()) table.note(absent);
  }
  if (!peers.torch.present()) table.note(peers.torch.absent());
  for (const ProductShape& s : product_shapes) run(s, false, arguments, machine, peers, table);
  for (const ProductShape& s : product_shapes) // the second operand is known when the plan is loaded
    if (s.batch == 1) run(s, true, arguments, machine, peers, table);
}
