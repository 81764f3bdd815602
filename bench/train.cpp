// bench/train.cpp -- training steps: forward, backward and update as one program, beside PyTorch eager
// and compiled (the same shapes in f32, AdamW); how long the program takes to be built and compiled,
// what it holds in memory.
#include "harness.h"
#include "luminal/luminal.h"
#include "luminal/train_models.h"
#include <algorithm>
#include <fmt/format.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Work {
  std::string name;
  DataSetPtr data;
  ModelFunction model;
  int64_t batch;
  double flops;      ///< of the products of one step: forward once, backward twice
  std::string torch; ///< set-up of PyTorch: m() gives the loss of one step, p are the parameters
};

DataSetPtr pictures(int64_t count, std::vector<int64_t> shape) {
  int64_t size = count;
  for (int64_t extent : shape) size *= extent;
  const Array<float> values = random_floats(size, 1);
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < count; ++i) classes.push_back(i % 10);
  return datasets::from_values(
      {{{"x", DType::f32, std::move(shape)}, std::span<const float>(values.data(), size_t(size))},
       {{"y", DType::i64}, classes}});
}

// Set-ups in Python. The peer's process is in inference mode otherwise; blocks of a ResNet are a class.
const std::string normal_mode =
    "mode=torch.inference_mode(False);mode.__enter__();torch.set_grad_enabled(True);N=torch.nn;";
constexpr const char* resnet18 =
    "exec('class B(N.Module):\\n def __init__(s,i,o,k):\\n  N.Module.__init__(s);"
    "s.f=N.Sequential(N.Conv2d(i,o,3,k,1,bias=False),N.BatchNorm2d(o),N.ReLU(),"
    "N.Conv2d(o,o,3,1,1,bias=False),N.BatchNorm2d(o));"
    "s.d=N.Identity() if i==o else N.Sequential(N.Conv2d(i,o,1,k,bias=False),N.BatchNorm2d(o))\\n "
    "def forward(s,x): return (s.f(x)+s.d(x)).relu()');"
    "q=N.Sequential(N.Conv2d(3,64,3,1,1,bias=False),N.BatchNorm2d(64),N.ReLU(),B(64,64,1),B(64,64,1),"
    "B(64,128,2),B(128,128,1),B(128,256,2),B(256,256,1),B(256,512,2),B(512,512,1),N.AdaptiveAvgPool2d(1),"
    "N.Flatten(),N.Linear(512,10));x=torch.randn(64,3,32,32);";
constexpr const char* mlp =
    "q=N.Sequential(N.Linear(784,4096),N.ReLU(),N.Linear(4096,4096),N.ReLU(),N.Linear(4096,10));"
    "x=torch.randn(128,784);";
constexpr const char* cnn =
    "q=N.Sequential(N.Conv2d(1,16,3,padding=1),N.ReLU(),N.MaxPool2d(2),N.Conv2d(16,32,3,padding=1),N.ReLU(),"
    "N.MaxPool2d(2),N.Flatten(),N.Linear(1568,10));x=torch.randn(64,1,28,28);";
constexpr const char* classes =
    "y=torch.randint(0,10,(len(x),));m=lambda:F.cross_entropy(q(x),y);p=[*q.parameters()]";

Work gpt2(int64_t context) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i <= 4 * context; ++i) // one batch, again and again
    tokens.push_back(int32_t(i * 7919 % 50257));
  return {
      fmt::format("gpt2-124m 4x{}", context),
      datasets::from_tokens(tokens, {.context = context}),
      train_models::gpt({.vocabulary = 50257, .context = context, .layers = 12, .heads = 12, .width = 768}),
      4,
      6.0 * 4 * double(context) * (12 * (12 * 768.0 * 768 + 2 * 768 * double(context)) + 50257 * 768.0),
      fmt::format(
          "L=N.TransformerEncoderLayer(768,12,3072,0.0,N.GELU('tanh'),batch_first=True,norm_first=True);"
          "e=N.Embedding(50257,768);s=N.Parameter(torch.randn({0},768)*.02);"
          "T=N.TransformerEncoder(L,12,N.LayerNorm(768),enable_nested_tensor=False);"
          "k=N.Transformer.generate_square_subsequent_mask({0});"
          "x=torch.randint(0,50257,(4,{0}));y=torch.randint(0,50257,(4,{0}));"
          "m=lambda:F.cross_entropy((T(e(x)+s,mask=k,is_causal=True)@e.weight.T).view(-1,50257),y.view(-1));"
          "p=[*e.parameters(),s,*T.parameters()]",
          context)};
}

std::vector<Work> works() {
  std::vector<Work> list;
  list.push_back(gpt2(64));
  list.push_back(gpt2(256));
  list.push_back({"resnet18 64x3x32x32", pictures(64, {3, 32, 32}), train_models::resnet(), 64,
                  6.0 * 64 * 0.5558e9, std::string(resnet18) + classes});
  list.push_back({"mlp 784-4096-4096-10 128", pictures(128, {784}),
                  train_models::mlp({.hidden = {4096, 4096}}), 128,
                  128.0 * (4 * 784 * 4096 + 6 * 4096 * 4096 + 6 * 40960.0), std::string(mlp) + classes});
  list.push_back({"mnist cnn 64", pictures(64, {1, 28, 28}), train_models::cnn(), 64,
                  64.0 * (4 * 112896.0 + 6 * 903168.0 + 6 * 15680.0), std::string(cnn) + classes});
  return list;
}

std::string ask_text(std::string text) {
  for (char& c : text)
    if (c == ' ') c = '\1';
  return "eval " + text;
}

/// Kernels by the time that they take in a step, the longest first.
void print_kernels(Graph& g) {
  struct Use {
    int launches = 0;
    double ms = 0, bytes = 0;
  };
  std::map<std::string, Use> uses;
  double total = 0;
  for (const StepCost& step : g.execute_debug().steps) {
    Use& use = uses[step.name];
    use.launches++, use.ms += step.milliseconds, use.bytes += double(step.bytes);
    total += step.milliseconds;
  }
  std::vector<std::pair<std::string, Use>> list(uses.begin(), uses.end());
  std::ranges::sort(list, std::greater<>{}, [](const auto& use) { return use.second.ms; });
  fmt::print("{:.2f} ms in {} kinds of steps\n", total, list.size());
  for (const auto& [name, use] : list)
    if (use.ms > total / 200)
      fmt::print("  {:5.1f} %  {:9.3f} ms  {:4} x  {:9.1f} MiB  {}\n", use.ms / total * 100, use.ms,
                 use.launches, use.bytes / 0x1p20, name);
}

void run(const Work& work, int threads, const Arguments& arguments, Machine& machine, Torch* eager,
         Torch* compiled, Table& table) {
  const CompileOptions compile{.threads = threads, .cache = false};
  std::optional<Trainer> trainer;
  const double build = timed([&] {
    trainer.emplace(work.model, work.data, TrainerOptions{.batch = work.batch, .compile = compile});
  });
  Graph& g = trainer->graph();
  const double compiling = timed([&] { g.compile(compile); });
  const double first = trainer->step().loss; // the same batch from here on
  const MemoryUse memory = g.memory();
  std::vector<Contender> contenders{
      {"ours", [&] { return timed([&] { g.execute(); }); }},
      {"peak", {}, [&](double s) { return 1 / machine.probes->peak(search::Peak::f32, threads, s); }}};
  for (Torch* torch : {eager, compiled})
    if (torch)
      contenders.push_back({torch == eager ? "eager" : "compiled", {}, [&, torch](double seconds) {
                              std::string text = normal_mode + work.torch;
                              text += ";o=torch.optim.AdamW(p,1e-3,weight_decay=0.01,fused=True);";
                              if (torch == compiled) text += "m=torch.compile(m);";
                              return torch->ask(ask_text(text + ";(o.zero_grad(),m().backward(),o.step())"),
                                                threads, seconds);
                            }});
  race(contenders, arguments);
  Row row{.work = work.name, .threads = threads, .unit = "GFLOP/s"};
  row.ours = work.flops / contenders[0].low() * 1e-9;
  row.limit = 1 / contenders[1].low() * 1e-9;
  row.limit_name = "FMA loops";
  for (size_t i = 2; i < contenders.size(); i++)
    row.peers[contenders[i].name] = work.flops / contenders[i].low() * 1e-9;
  row.correct = trainer->step().loss < first;
  table.add(row);
  table.note(fmt::format("  {:.2f} ms a step; terms in {:.2f} s, compiled in {:.2f} s; arena {:.0f} MiB, "
                         "states {:.0f} MiB",
                         contenders[0].low() * 1e3, build, compiling, double(memory.arena) / 0x1p20,
                         double(memory.states) / 0x1p20));
  if (arguments.report) {
    fmt::print("{}", g.report());
    print_kernels(g);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv, "training steps");
  Torch eager, compiled; // a process each: one program is kept at a time
  const bool peers = arguments.peers && eager.present() && compiled.present();
  Machine machine(arguments.threads.back());
  Table table(arguments, "training steps");
  if (arguments.peers && !peers) table.note("PyTorch: absent (" + eager.absent() + ")");
  for (const Work& work : works()) {
    const bool large = work.name.starts_with("gpt2") || work.name.starts_with("resnet");
    if (work.name.find(arguments.only) == std::string::npos || (arguments.quick && large)) continue;
    for (const int threads : arguments.threads)
      run(work, threads, arguments, machine, peers ? &eager : nullptr, peers ? &compiled : nullptr, table);
  }
}
