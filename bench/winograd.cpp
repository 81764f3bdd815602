// bench/winograd.cpp -- probe
#include "ir/partition.h"
#include "loaded_plan.h"
#include <fstream>
#include <map>
#include <sstream>
using namespace luminal;
using namespace luminal::bench;
static std::string slurp(const std::string& n) {
  std::ifstream f(n);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}
int main(int argc, char** argv) {
  int rounds = 60, threads = 1;
  double bound = 0;
  std::vector<std::unique_ptr<LoadedPlan>> plans;
  bool report = false;
  std::vector<std::string> names;
  // args: -t N -r FILE[,partition][,k0=sched]...
  std::vector<std::string> files;
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    if (a == "-t")
      threads = atoi(argv[++i]);
    else if (a == "-r")
      report = true;
    else if (a == "-n") rounds = atoi(argv[++i]); else if (a == "-e")
      bound = atof(argv[++i]);
    else
      files.push_back(a);
  }
  ThreadPool pool(threads);
  for (const auto& f : files) {
    std::stringstream s(f);
    std::string item, file;
    std::getline(s, file, ',');
    compile::Options o = compile::Options::host(threads);
    Module m = parse_module(slurp(file), file);
    std::string part;
    double e = 0;
    while (std::getline(s, item, ',')) {
      if (item == "approx")
        e = bound;
      else if (item == "norules")
        o.rules.on = false;
      else if (auto e = item.find('='); e != std::string::npos)
        o.schedules[item.substr(0, e)] = slurp(item.substr(e + 1));
      else
        part = slurp(item);
    }
    o.rules.choice.max_error = e;
    auto store = std::make_shared<std::map<std::string, std::vector<float>>>();
    std::map<std::string, int64_t> counts;
    for (NodeId id : m.entry().params) { const auto& in = std::get<InputAttr>(m.entry()[id].attr); int64_t c = 1; for (Expr x : in.type.shape) c *= x.value(); counts[in.name] = c; }
    o.weights = [store, counts](const std::string& name) -> std::span<const std::byte> {
      auto& v = (*store)[name]; if (v.empty()) { auto r = random_floats(counts.at(name), 7, 0.02F); v.assign(r.data(), r.data() + counts.at(name)); if (name.ends_with("variance") || name.ends_with("var")) for (auto& y : v) y = 1; }
      return std::as_bytes(std::span(v)); };
    if (!part.empty()) {
      o.partitioner = [part, done = false](const Region& region) mutable -> Result<std::optional<Partition>> {
        if (std::exchange(done, true)) return std::optional<Partition>();
        return std::optional(parse_partition(part, *region.function));
      };
      o.passes = passes::none();
    }
    plans.push_back(load_plan(m, o, pool, report ? f : ""));
    names.push_back(f);
    if (report)
      for (auto& r : plans.back()->regions)
        for (auto& p : r.plans)
          fmt::print("PLAN {} est {:.1f} us kernels {} stored {:.2f} MB written {} approx {}\n", p.name,
                     p.estimate_s * 1e6, p.kernels, p.stored_bytes / 1e6, p.written, p.approximate);
  }
  std::vector<double> best(plans.size(), 1e9);
  for (int r = 0; r < rounds; r++)
    for (size_t i = 0; i < plans.size(); i++) best[i] = std::min(best[i], plans[i]->run());
  for (size_t i = 0; i < plans.size(); i++) {
    fmt::print("{}: {:.4f} ms  diff {:.2e}\n", names[i], best[i] * 1e3, difference(*plans[0], *plans[i]));
    std::map<std::string, double> least;
    std::vector<std::string> order;
    plans[i]->context->trace(true);
    for (int r = 0; r < 40; r++) {
      plans[i]->context->clear_events();
      plans[i]->run();
      std::map<std::string, double> sums;
      for (auto& e : plans[i]->context->events()) sums[e.name] += double(e.duration_ns) * 1e-6;
      for (auto& [n, v] : sums) {
        auto [it, fresh] = least.try_emplace(n, v);
        if (fresh)
          order.push_back(n);
        else
          it->second = std::min(it->second, v);
      }
    }
    for (auto& n : order) fmt::print("    {} {:.4f}\n", n, least[n]);
  }
}
