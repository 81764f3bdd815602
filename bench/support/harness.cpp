// bench/support/harness.cpp -- measuring, peers, tables.
#include "harness.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "search/machine_profile.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace luminal::bench {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Arguments parse_arguments(int argc, char** argv, const char* what) {
  Arguments a;
  auto usage = [&](int code) {
    fmt::print(
        code ? stderr : stdout,
        "{}\n  --json FILE    write the rows\n  --only TEXT    only works whose name has TEXT\n  "
        "--threads N    one thread count (default: 1 and "
        "all cores)\n  --seconds S    of each contender in a round ({})\n  --rounds N     ({})\n  "
        "--no-peers     ours and the limit only\n"
        "  --quick        a few of the works (conv)\n"
        "  --report       what was compiled\n"
        "  --arguments    (operations) weights are arguments of each call\n"
        "  --level N      (compile) effort of LLVM's code generator\n"
        "  --best S       (tune) compares with a search of S seconds\n"
        "  --schedule F   a file with a schedule in place of the default one (where a work is one kernel)\n",
        what, a.seconds, a.rounds);
    std::exit(code);
  };
  const int all = setting_threads();
  a.threads = {1};
  if (all > 1) a.threads.push_back(all);
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    auto value = [&] {
      if (i + 1 >= argc) usage(2);
      return std::string(argv[++i]);
    };
    if (word == "--json")
      a.json = value();
    else if (word == "--level")
      a.level = std::atoi(value().c_str());
    else if (word == "--best")
      a.best = std::atof(value().c_str());
    else if (word == "--only")
      a.only = value();
    else if (word == "--threads")
      a.threads = {std::max(1, std::atoi(value().c_str()))};
    else if (word == "--seconds")
      a.seconds = std::atof(value().c_str());
    else if (word == "--rounds")
      a.rounds = std::max(1, std::atoi(value().c_str()));
    else if (word == "--no-peers")
      a.peers = false;
    else if (word == "--quick")
      a.quick = true;
    else if (word == "--report")
      a.report = true;
    else if (word == "--arguments")
      a.arguments = true;
    else if (word == "--schedule")
      a.schedule = value();
    else
      usage(word == "--help" || word == "-h" ? 0 : 2);
  }
  return a;
}

template <class T> Array<T>::Array(int64_t count) : count_(count) {
  constexpr size_t huge = size_t(2) << 20;
  const size_t bytes = (size_t(count) * sizeof(T) + 64 + huge - 1) / huge * huge;
  char* base = static_cast<char*>(mmap(nullptr, bytes + huge, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (base == MAP_FAILED) {
    fmt::print(stderr, "there is no memory for {} bytes\n", bytes);
    std::exit(1);
  }
  char* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(base) + huge - 1) / huge * huge);
  madvise(aligned, bytes, MADV_HUGEPAGE);
  data_ =
      std::shared_ptr<T[]>(reinterpret_cast<T*>(aligned), [base, bytes](T*) { munmap(base, bytes + huge); });
}
template class Array<float>;
template class Array<uint16_t>;
template class Array<uint8_t>;
template class Array<int8_t>;
template class Array<int32_t>;

namespace {
/// Sum of four uniforms: near enough to normal.
struct Normal {
  uint64_t state;
  explicit Normal(unsigned seed) : state(uint64_t(seed) * 0x9E3779B97F4A7C15u + 1) {}
  float operator()() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = state ^ (state >> 29);
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += float((x >> (16 * i)) & 0xFFFF);
    return (sum * (1.0f / 65536) - 2.0f) * 1.732f;
  }
};
} // namespace

Array<float> random_floats(int64_t count, unsigned seed, float scale) {
  Array<float> a(count);
  Normal normal(seed);
  for (int64_t i = 0; i < count; i++) a[i] = normal() * scale;
  return a;
}

Array<uint16_t> random_bf16(int64_t count, unsigned seed, float scale) {
  Array<uint16_t> a(count);
  Normal normal(seed);
  for (int64_t i = 0; i < count; i++) a[i] = uint16_t(std::bit_cast<uint32_t>(normal() * scale) >> 16);
  return a;
}

int copies_beyond_caches(int64_t bytes) {
  const int64_t l3 = search::MachineProfile::guess(1).l3;
  return int(std::clamp<int64_t>((2 * l3 + bytes - 1) / std::max<int64_t>(bytes, 1) + 1, 2, 64));
}

namespace {
double low_of(std::span<const double> values, double percentile) {
  if (values.empty()) return NAN;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[size_t(percentile * double(sorted.size() - 1))];
}
} // namespace

double Contender::low(double percentile) const { return low_of(seconds, percentile); }

void race(std::vector<Contender>& contenders, const Arguments& arguments) {
  for (int round = 0; round < arguments.rounds; round++)
    for (Contender& c : contenders) {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(40)); // the threads of other pools spin for tens of them before they park
      const size_t before = c.seconds.size();
      if (c.block) {
        c.seconds.push_back(c.block(arguments.seconds));
      } else {
        c.once();
        const double start = now();
        for (int n = 0; now() - start < arguments.seconds || n < 2; n++) c.seconds.push_back(c.once());
      }
      c.rounds.push_back(low_of(std::span(c.seconds).subspan(before), 0.05));
    }
}

double fraction_by_rounds(const Contender& ours, std::span<const Contender> limits) {
  std::vector<double> fractions;
  for (size_t round = 0; round < ours.rounds.size(); round++) {
    double longest = 0;
    for (const Contender& limit : limits) longest = std::max(longest, limit.rounds[round]);
    fractions.push_back(longest / ours.rounds[round]);
  }
  return low_of(fractions, 0.5);
}

// ---- peers ----

namespace {
const char* torch_program = R"(
import sys
try:
    import torch
except Exception as error:
    print("absent", error, flush=True)
    sys.exit(0)
import torch.nn.functional as F
print("torch", torch.__version__, flush=True)

def spread(seed, shape, low, high):
    n = 1
    for x in shape: n *= x
    u = torch.remainder(torch.arange(1, n + 1, dtype=torch.float64) * 0.6180339887498949 + seed * 0.37, 1.0)
    return (u * (high - low) + low).reshape(shape)

def floats(seed, shape, low=-1, high=1): return spread(seed, shape, low, high).float()
def ints(seed, shape, low, high): return spread(seed, shape, low, high).floor().long()

def evaluated(a):
    """set-up;;expression, with the character 1 for each space"""
    setup, expression = a[0].replace("\x01", " ").split(";;")
    names = {"torch": torch, "F": F, "floats": floats, "ints": ints}
    exec(setup, names)
    return eval("lambda: " + expression, names)

def checksum(a):
    r = evaluated(a)()
    r = (r[0] if isinstance(r, (tuple, list)) else r).contiguous()
    if r.is_complex(): r = torch.view_as_real(r)
    r = r.double().flatten()
    return float((r * (torch.arange(r.numel()) % 7 + 1)).sum())

def case(w, a_):
    n = [int(x) for x in a_ if x.isdigit()]
    if w == "eval":
        return [evaluated(a_)]
    if w == "gemm": # of narrow numbers
        batch, shapes = [n[3]] if n[3] > 1 else [], ((n[0], n[2]), (n[2], n[1]), (n[0], n[1]))
        if a_[-1] == "u8s8": # plain int8 x int8 is what there is; results in int32
            signed = lambda d: torch.randint(-128, 128, d, dtype=torch.int8)
            sets = [(signed(shapes[0]), signed(shapes[1])) for _ in range(n[4])]
            return [lambda s=s: torch._int_mm(s[0], s[1]) for s in sets]
        sets = [tuple(torch.randn(*batch, *d).bfloat16() for d in shapes) for _ in range(n[4])]
        return [lambda s=s: torch.matmul(s[0], s[1], out=s[2]) for s in sets]
    if w == "sgemm":
        batch = [n[3]] if n[3] > 1 else []
        sets = [tuple(torch.randn(*batch, *d) for d in ((n[0], n[2]), (n[2], n[1]), (n[0], n[1]))) for _ in range(n[4])]
        if len(n) > 5 and n[5]: # one weight for all
            sets = [(s[0], sets[0][1], s[2]) for s in sets]
        return [lambda s=s: torch.matmul(s[0], s[1], out=s[2]) for s in sets]
    if w == "conv":
        b, i, o, size, k, stride, groups, copies = n
        xs, c = [torch.randn(b, i, size, size) for _ in range(copies)], torch.nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False)
        return [lambda x=x: c(x) for x in xs]
    if w == "sdpa":
        h, g, l, d, causal = n[:5]
        dtype = torch.bfloat16 if a_[-1] == "bf16" else torch.float32
        q, k, v = (torch.randn(1, heads, l, d).to(dtype) for heads in (h, g, g))
        return [lambda: F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=h != g)]
    if w == "linear":
        dtype = torch.bfloat16 if a_[-1] == "bf16" else torch.float32
        sets = [(torch.randn(1, n[1]).to(dtype), torch.randn(n[0], n[1]).to(dtype)) for _ in range(n[2])]
        return [lambda s=s: F.linear(s[0], s[1]) for s in sets]
    if w == "fused": # eager ones write into memory that is there, as we do; the compiler's function makes its own copy of that
        x, y, a, b, o = torch.randn(n[0], n[1]), torch.randn(n[0], n[1]), torch.randn(n[1]), torch.randn(n[1]), torch.empty(n[0], n[1])
        normal = lambda x: F.rms_norm(x, (x.shape[-1],), eps=1e-5)
        eager, plain = {
            "scale_add": (lambda: torch.add(torch.mul(x, 1.5), y, out=o), lambda x, y, a, b: x * 1.5 + y),
            "gelu": (lambda: torch._C._nn.gelu(x, out=o), lambda x, y, a, b: F.gelu(x)),
            "gelu_chain": (lambda: torch.add(F.gelu(torch.addcmul(b, x, a)), y, out=o), lambda x, y, a, b: F.gelu(x * a + b) + y),
            "swiglu": (lambda: torch.mul(F.silu(x), y, out=o), lambda x, y, a, b: F.silu(x) * y),
            "layer_norm": (lambda: F.layer_norm(x, (n[1],), a, b, 1e-5), lambda x, y, a, b: F.layer_norm(x, (x.shape[-1],), a, b, 1e-5)),
            "rms_norm": (lambda: torch.mul(normal(x), a, out=o), lambda x, y, a, b: normal(x) * a),
            "rms_norm_swiglu": (lambda: torch.mul(F.silu(normal(x) * a), y, out=o), lambda x, y, a, b: F.silu(normal(x) * a) * y),
            "softmax": (lambda: torch.softmax(x, 1, out=o), lambda x, y, a, b: torch.softmax(x, 1)),
        }[a_[0]]
        if a_[1] == "eager":
            return [eager]
        def into(o, x, y, a, b):
            o.copy_(plain(x, y, a, b))
        torch._dynamo.reset() # each thread count is a compilation of its own
        compiled = torch.compile(into, dynamic=False)
        return [lambda: compiled(o, x, y, a, b)]
    raise SystemExit("unknown work " + w)

with torch.inference_mode():
    serve(lambda w, a, threads: case(w, a), torch.set_num_threads, {"checksum": checksum})
)";
} // namespace

Torch::Torch() : PythonPeer("PyTorch", torch_program) {}

namespace {
/// A line of a request: the work's words, threads, seconds. The answer: seconds of one call, a low
/// percentile; or what a question gives.
const char* serving = R"(
import sys, time

def serve(case, begin=lambda threads: None, questions={}):
    kept = {}
    for line in sys.stdin:
        w, *a = line.split()
        seconds, threads = float(a.pop()), int(a.pop())
        begin(threads)
        if w in questions:
            print(repr(questions[w](a)), flush=True)
            continue
        key = (w, tuple(a), threads)
        if key not in kept:
            kept.clear()
            kept[key] = case(w, a, threads)
        calls = kept[key]
        calls[0]()
        times, start, i = [], time.perf_counter(), 0
        while time.perf_counter() - start < seconds or len(times) < 2:
            i += 1
            f = calls[i % len(calls)]
            t = time.perf_counter()
            f()
            times.append(time.perf_counter() - t)
        times.sort()
        print(times[len(times) // 10], flush=True)
)";
} // namespace

PythonPeer::PythonPeer(const std::string& name, const char* program) {
  const char* python = std::getenv("LUMINAL_PEERS_PYTHON");
  if (!python || !*python || access(python, X_OK) != 0) {
    absent_ = name + " is absent (./bench.sh peers installs it)";
    return;
  }
  const std::string text = std::string(serving) + program;
  int in[2], out[2]; // closed in other children: each ends when its own pipe does
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return;
  std::signal(SIGPIPE, SIG_IGN);
  child_ = fork();
  if (child_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execl(python, python, "-c", text.c_str(), nullptr);
    _exit(1);
  }
  close(in[0]);
  close(out[1]);
  write_ = fdopen(in[1], "w");
  read_ = fdopen(out[0], "r");
  char line[512] = "";
  if (!fgets(line, sizeof line, read_) || !std::strncmp(line, "absent", 6)) {
    absent_ =
        fmt::format("{} is absent ({})", name, std::string_view(line).substr(0, std::strcspn(line, "\n")));
    fclose(write_);
    fclose(read_);
    write_ = read_ = nullptr;
    waitpid(child_, nullptr, 0);
  }
}

PythonPeer::~PythonPeer() {
  if (!write_) return;
  fclose(write_);
  fclose(read_);
  waitpid(child_, nullptr, 0);
}

double PythonPeer::ask(const std::string& what, int threads, double seconds) {
  if (!write_) return NAN;
  fmt::print(write_, "{} {} {}\n", what, threads, seconds);
  fflush(write_);
  char line[256];
  return fgets(line, sizeof line, read_) ? std::atof(line) : NAN;
}

Sgemm openblas(std::string& absent) {
  // Old versions do not know new processors and take the code of the oldest one; this is what they
  // know best.
  if (codegen::CpuTarget::host().vector_bits == 512) setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
  void* library = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  using Function =
      void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  auto gemm = library ? reinterpret_cast<Function>(dlsym(library, "cblas_sgemm")) : nullptr;
  auto set_threads =
      library ? reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")) : nullptr;
  if (!gemm || !set_threads) {
    absent = "OpenBLAS is absent (./bench.sh peers installs it; Debian, Ubuntu: libopenblas0-pthread)";
    return {};
  }
  return [gemm, set_threads](int m, int n, int k, const float* a, const float* b, float* c, int threads) {
    set_threads(threads);
    gemm(101, 111, 111, m, n, k, 1, a, k, b, n, 0, c, n); // row-major, no transposition
  };
}

Sgemm onednn(std::string& absent) {
  void* library = nullptr;
  for (const char* name : {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"})
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  using Function = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                           int64_t, float, float*, int64_t);
  auto gemm = library ? reinterpret_cast<Function>(dlsym(library, "dnnl_sgemm")) : nullptr;
  // It runs on the threads of OpenMP, which came with it.
  void* openmp = library ? dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD) : nullptr;
  auto set_threads = openmp ? reinterpret_cast<void (*)(int)>(dlsym(openmp, "omp_set_num_threads")) : nullptr;
  if (!gemm || !set_threads) {
    absent = "oneDNN is absent (./bench.sh peers installs it; Debian, Ubuntu: libdnnl-dev)";
    return {};
  }
  return [gemm, set_threads](int m, int n, int k, const float* a, const float* b, float* c, int threads) {
    set_threads(threads);
    gemm('N', 'N', m, n, k, 1, a, k, b, n, 0, c, n); // row-major
  };
}

// ---- tables ----

Table::Table(const Arguments& arguments, std::string title)
    : json_(arguments.json), title_(std::move(title)) {
  const auto machine = search::MachineProfile::guess(arguments.threads.back());
  fmt::print("{}   {} ({})\n", title_, machine.processor, machine.cpu);
  fmt::print("{:<54}{:>3}{:>10} {:<8}{:>10}{:>8}{:>8}{:>9}  {}\n", "work", "thr", "ours", "", "limit",
             "of it", "goal", "correct", "peers (ours / peer)");
}

void Table::add(const Row& row) {
  std::string peers;
  for (auto& [name, rate] : row.peers)
    peers += fmt::format("{} {:.1f} ({:.2f}x)  ", name, rate, row.ours / rate);
  fmt::print("{:<54}{:>3}{:>10.1f} {:<8}{:>10.1f}{:>7.1f}%{:>7.0f}%{:>9}  {}\n", row.work, row.threads,
             row.ours, row.unit, row.limit, 100 * row.ours / row.limit, 100 * row.goal,
             row.correct ? "yes" : "NO", peers);
  std::fflush(stdout);
  rows_.push_back(row);
}

void Table::note(const std::string& text) {
  fmt::print("{}\n", text);
  notes_.push_back(text);
}

Table::~Table() {
  if (json_.empty()) return;
  using Json = nlohmann::ordered_json;
  auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  Json rows = Json::array();
  for (const Row& row : rows_) {
    Json peers = Json::object();
    double best = 0;
    for (auto& [name, rate] : row.peers) {
      peers[name] = number(rate);
      if (rate > best) best = rate;
    }
    rows.push_back({{"work", row.work},
                    {"threads", row.threads},
                    {"ours", number(row.ours)},
                    {"unit", row.unit},
                    {"peers", peers},
                    {"limit", number(row.limit)},
                    {"limit_name", row.limit_name},
                    {"ratio_to_best", best > 0 ? number(row.ours / best) : Json(nullptr)},
                    {"fraction_of_limit", row.limit > 0 ? number(row.ours / row.limit) : Json(nullptr)},
                    {"goal", row.goal},
                    {"correct", row.correct}});
  }
  std::ofstream out(json_);
  out << Json{{"benchmark", title_}, {"rows", rows}, {"notes", notes_}}.dump(2) << "\n";
  if (!out.flush()) fmt::print(stderr, "{} cannot be written\n", json_);
}

Machine::Machine(int threads) : pool(std::make_unique<ThreadPool>(threads)) {
  probes = std::move(search::Probes::create(*pool, codegen::Target::host())).value();
}
Machine::~Machine() = default;

void Error::add(double got, double wanted, double scale) {
  const double error = std::fabs(got - wanted) / (std::fabs(wanted) + scale);
  if (!(error <= largest_)) largest_ = std::isnan(error) ? INFINITY : error;
}

} // namespace luminal::bench
