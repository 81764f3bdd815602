// backend/random_plans.h -- random modules: both interpreters, then plans with one and two threads
// at two sizes, each slice of seeds in a process of its own.
#pragma once
#include "compile/builder.h"
#include "formats/safetensors.h"
#include "ir/random_module.h"
#include "ir/shrink.h"
#include "luminal/debug.h"
#include "plans.h"
#include "random_networks.h"
#include "random_partitions.h"
#include "random_regions.h"
#include "rules/rule_book.h"
#include "support/seeds.h"
#include "tensor/effects.h"
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace luminal::testing_plans {

using testing_ir::Failing;
using testing_ir::RandomModule;
using testing_ir::RandomModuleOptions;

/// How a module is compiled. partition: drawn with this seed, of the terms as they stand; its texts
/// go to `partitions`. regions: terms and boundaries of each region are drawn with this seed. forbidden: a
/// rule that takes no part.
struct Drawn {
  int threads = 1;
  std::optional<uint64_t> regions = {};
  std::optional<std::string> forbidden = {};
  std::optional<uint64_t> partition = {};
  std::string* partitions = nullptr;
  /// The terms as they stand are compared, and those that the search over regions finds, each with what
  /// the interpreter says of itself: (x - a) + b becomes x + (b - a), which rounds as x does and not as
  /// x - a does. That both are equal is asked in doubles.
  bool as_written = false;
};

struct Counts {
  int64_t compared = 0, unbounded = 0; // elements
  int64_t refused = 0;                 // partitions
};

inline bool same_element(const HostTensor& a, const std::byte* b, int64_t i) {
  if (!is_float(a.dtype)) return load_i64(a.dtype, a.data.data(), i) == load_i64(a.dtype, b, i);
  const double x = a.at(i), y = load_f64(a.dtype, b, i);
  return x == y || (std::isnan(x) && std::isnan(y));
}

/// What is wrong with a plan's results on these inputs, or nothing. Where nothing rounds, every plan must
/// give the interpreter's values.
inline std::optional<std::string> wrong_results(const Failing& f, runtime::Context& context, Counts& counts) {
  const auto naive = interpret_naively(f.module, f.bindings);
  Interpreter rounded(f.module, f.bindings);
  for (const FunctionResult& r : f.module.entry().results) {
    const HostTensor again = rounded.result(r.name), &want = naive.at(r.name);
    for (int64_t i = 0; i < want.count(); i++)
      if (!same_element(want, again.data.data(), i))
        return fmt::format("{} element {}: {} by the naive interpreter, {} by the other one", r.name, i,
                           want.at(i), again.at(i));
  }
  if (auto done = context.run(); !done) return "the run fails: " + done.error();
  Interpreter bounded(f.module, f.bindings, InterpMode::bounded);
  for (const FunctionResult& r : f.module.entry().results) {
    const HostTensor& want = naive.at(r.name);
    auto got = context.result(r.name).value();
    if (int64_t(got.bytes.size()) < storage_bytes(want.dtype, want.count()))
      return r.name + " has too few bytes";
    const auto bounds = bounded.values(r.name);
    for (int64_t i = 0; i < want.count(); i++) {
      const InterpValue& b = bounds[size_t(i)];
      const double plan = load_f64(want.dtype, got.bytes.data(), i),
                   slack = is_float(want.dtype) ? 2 * b.error + 1e-30 : 0;
      if (std::isinf(b.error) || (!is_float(want.dtype) && b.error != 0)) {
        counts.unbounded++;
        continue;
      }
      counts.compared++;
      auto within = [&](double x) {
        return x == b.value || (std::isnan(x) && std::isnan(b.value)) || std::fabs(x - b.value) <= slack;
      };
      if (is_float(want.dtype) ? !within(want.at(i)) : load_i64(want.dtype, want.data.data(), i) != b.integer)
        return fmt::format("{} element {}: {} by the naive interpreter, {} +- {} by the bounded one", r.name,
                           i, want.at(i), b.value, b.error);
      if (is_float(want.dtype) ? !within(plan) : !same_element(want, got.bytes.data(), i))
        return fmt::format("{} element {}: {} by the plan, {} +- {} by the interpreter", r.name, i, plan,
                           b.value, slack);
    }
  }
  return {};
}

/// The terms that the search over regions finds.
inline Module searched_terms(const Module& module, int threads, compile::RuleOptions rules) {
  Module own = module;
  passes::defaults().run(own);
  const compile::Options options = compile::Options::host(threads);
  compile::KernelPlanner planner(
      {.limits = options.limits, .target = options.target, .profile = options.profile});
  rules.files = false;
  compile::PlanBuilder builder(own, planner, {}, rules);
  if (const auto plan = builder.build(); !plan) throw Error(plan.error());
  return {own.symbols, own.assumptions, {builder.entry()}};
}

/// Are two modules the same function where nothing rounds to less than a double?
inline std::optional<std::string> differs_in_doubles(const Failing& a, const Failing& b) {
  Interpreter first(a.module, a.bindings, InterpMode::f64), second(b.module, b.bindings, InterpMode::f64);
  for (const FunctionResult& r : a.module.entry().results) {
    const auto x = first.values(r.name), y = second.values(r.name);
    double largest = 0;
    for (const InterpValue& v : x)
      if (std::isfinite(v.value)) largest = std::max(largest, std::fabs(v.value));
    for (size_t i = 0; i < x.size(); i++) {
      const double slack = 1e-9 * (largest + 1e-30); // sums in another order
      const bool same = x[i].value == y[i].value || (std::isnan(x[i].value) && std::isnan(y[i].value)) ||
                        std::fabs(x[i].value - y[i].value) <= slack;
      if (x.size() != y.size() || !same)
        return fmt::format("{} element {}: {} as written, {} by the terms that were found", r.name, i,
                           x[i].value, y[i].value);
    }
  }
  return {};
}

/// Every result of the last step, bit by bit.
inline std::string bits_of(const Module& module, const runtime::Context& context) {
  std::string bits;
  for (const FunctionResult& r : module.entry().results) {
    const auto value = context.result(r.name).value();
    bits.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  }
  return bits;
}

/// Do three workers and one give the same bits of a plan with this partition?
inline std::optional<std::string> differs_by_workers(const Failing& f, const Drawn& how) {
  std::string bits[2];
  for (const int workers : {1, 3}) {
    Running running(f.module, 2, workers, passes::none(), random_partitioner(*how.partition));
    auto context = running.start(f.module, f.bindings, {.host = run_host_effect});
    if (auto done = context->run(); !done) return "the run fails: " + done.error();
    bits[workers > 1] = bits_of(f.module, *context);
  }
  if (bits[0] != bits[1]) return "one worker and three give different bits";
  return {};
}

/// Two steps: the second one begins with the states that the first one left.
inline std::optional<std::string> wrong(const Failing& f, const Drawn& how, Counts& counts) {
  const auto search = [&how] {
    compile::RuleOptions rules = how.regions ? random_regions(*how.regions) : compile::RuleOptions();
    if (how.forbidden) rules.choice.forbidden = {*how.forbidden};
    return rules;
  };
  compile::RuleOptions rules = search();
  rules.on = !how.as_written;
  Running running(f.module, how.threads, 0, how.partition ? passes::none() : passes::defaults(),
                  how.partition ? random_partitioner(*how.partition, how.partitions) : compile::Partitioner(),
                  rules);
  auto context = running.start(f.module, f.bindings, {.host = run_host_effect});
  if (auto text = wrong_results(f, *context, counts)) return text;
  if (how.as_written) {
    const Failing found{searched_terms(f.module, how.threads, search()), f.bindings};
    if (auto text = differs_in_doubles(f, found)) return text;
    Running searched(f.module, how.threads, 0, passes::defaults(), {}, search());
    auto other = searched.start(f.module, f.bindings, {.host = run_host_effect});
    if (auto text = wrong_results(found, *other, counts)) return "of the terms that were found: " + *text;
  }
  if (how.partition && how.threads > 1)
    if (auto text = differs_by_workers(f, how)) return text;
  Failing next = f;
  bool states = false;
  for (NodeId id : f.module.entry().params) {
    const auto& input = std::get<InputAttr>(f.module.entry()[id].attr);
    if (input.role != Role::state) continue;
    states = true;
    const auto memory = context->state(input.name).value();
    HostTensor& value = next.bindings.inputs.at(input.name);
    std::copy_n(memory.bytes.begin(), value.data.size(), value.data.begin());
  }
  if (!states) return {};
  if (auto text = wrong_results(next, *context, counts)) return "in the second step, " + *text;
  return {};
}

/// What happens to the module: wrong values, a refusal, or nothing. A drawn partition does not know
/// what checks of accesses read; where one of these shares a kernel with its reader it is refused,
/// and that is counted.
inline std::optional<std::string> failure_of(const Failing& f, const Drawn& how, Counts& counts) {
  try {
    if (auto mistakes = verify(f.module); !mistakes.empty()) return "it does not verify: " + mistakes[0];
    if (!same_module(f.module, parse_module(to_string(f.module), "text")))
      return "its text is another module";
    return wrong(f, how, counts);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (how.partition && text.starts_with("partition of @") && text.ends_with("has to store it")) {
      counts.refused++;
      return {};
    }
    return "it throws: " + text;
  }
}

/// A page that a process and its child share.
struct Shared {
  uint64_t seed;
  Counts counts;
  bool failed;
  char text[3000];
  char partitions[3000]; // of the failure
};

/// Runs f in a child that may take so many seconds of processor time; false where it was killed or ended
/// otherwise than by itself. One that waits for ever is ended, too.
template <class F> bool in_child(Shared* shared, int seconds, F f) {
  const pid_t child = fork();
  if (child == 0) {
    for (int number : {SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGABRT}) signal(number, SIG_DFL);
    test::limit_processor_time(seconds);
    alarm(unsigned(20 * seconds));
    f();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  shared->failed = true;
  const std::string text = WIFSIGNALED(status)
                               ? fmt::format("it is killed by signal {}", WTERMSIG(status))
                               : fmt::format("it ends the process with {}", WEXITSTATUS(status));
  text.copy(shared->text, sizeof shared->text - 1);
  return false;
}

inline Failing module_of(uint64_t seed, int which, bool exact) {
  RandomModuleOptions options;
  options.exact = exact;
  RandomModule g(seed, options);
  return {g.module, g.bindings(which)};
}

inline Failing network_of(uint64_t seed, int which) {
  const RandomNetwork network(seed);
  return {network.module, network.bindings(which)};
}

/// The module with its 4-bit inputs, which no file holds, read from bytes: an element of the bytes
/// holds two of them.
inline Failing with_bytes(const Failing& f) {
  const Function& from = f.module.entry();
  Failing next = f;
  FunctionBuilder b(from.name, &next.module);
  IdVector<NodeId, NodeId> made;
  for (const Node& node : from.nodes) {
    const auto* input = std::get_if<InputAttr>(&node.attr);
    if (!input || bits(input->type.dtype) != 4 || input->role == Role::state) {
      std::vector<NodeId> inputs;
      for (NodeId id : node.inputs) inputs.push_back(made[id]);
      made.push_back(node.kind == NodeKind::get ? b.get(inputs[0], std::get<GetAttr>(node.attr).index)
                                                : b.add(node.attr, inputs));
      continue;
    }
    Expr flat = 0;
    const Shape& shape = input->type.shape;
    for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + axis_symbol(int(d), shape[d]);
    const NodeId bytes = b.input(input->name, {DType::u8, {floordiv(product(shape) + 1, 2)}}, input->role);
    made.push_back(b.view(b.bitcast(bytes, input->type.dtype), shape, {flat}));
    HostTensor& data = next.bindings.inputs.at(input->name);
    data.dtype = DType::u8;
    data.shape = {int64_t(data.data.size())};
  }
  for (const FunctionResult& r : from.results) b.result(r.name, made[r.value], r.state, r.after);
  next.module.functions.back() = b.finish();
  return next;
}

/// Files that `luminal eval FILE.lum -i FILE.safetensors` takes, in the folder of the environment
/// variable LUMINAL_RANDOM_FAILURES.
inline void save(uint64_t seed, const Failing& failing, const std::string& partitions) {
  const char* folder = std::getenv("LUMINAL_RANDOM_FAILURES");
  if (!folder) return;
  const Failing f = with_bytes(failing);
  const std::string path = fmt::format("{}/{}", folder, seed);
  std::ofstream(path + ".lum") << replay_text(f);
  if (!partitions.empty()) std::ofstream(path + ".partition") << partitions;
  std::vector<TensorView> views;
  for (const auto& [name, t] : f.bindings.inputs)
    if (const auto type = storage_of_dtype(t.dtype)) {
      TensorView v;
      v.name = name, v.type = *type, v.shape = t.shape, v.bytes = t.data;
      views.push_back(v);
    }
  (void)save_safetensors(path + ".safetensors", views);
}

/// What is drawn beside random terms, or random networks.
enum class Trial : uint8_t {
  terms,
  partitions,      ///< of terms
  regions,         ///< of terms: what each region becomes
  networks,        ///< by what the search over regions finds
  network_regions, ///< what each region becomes
  fewer_rules,     ///< networks by what the search finds without one rule, another one for each seed
};

/// Names of the rules, in their order.
inline const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    rules::RegionTerms terms({.numeric = egraph::NumericClass::approximate});
    for (const rules::RuleEntry& e : rules::rule_entries(terms))
      if (e.named && e.numeric != egraph::NumericClass::approximate) names.push_back(e.name);
    return names;
  }();
  return all;
}

/// Seeds first_seed .. first_seed + usual_count - 1, or those of the environment. Even seeds are exact.
inline void check_random_plans(uint64_t first_seed, uint64_t usual_count, Trial trial = Trial::terms) {
  const bool terms = trial <= Trial::regions;
  // which: of two sizes; exact: without rounding, where that can be had
  const auto draw = [&](uint64_t seed, int which, bool exact) {
    return terms ? module_of(seed, which, exact) : network_of(seed, which);
  };
  const auto [first, count, own] = test::seeds(first_seed, usual_count);
  set_print_sink([](std::string_view) {}); // what effects print is of no interest
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  const auto drawn = [&](uint64_t s) {
    Drawn how;
    how.threads = 1 + int(s / 2 % 2);
    if (trial == Trial::partitions) how.partition = s;
    if (trial == Trial::regions || trial == Trial::network_regions) how.regions = s;
    if (trial == Trial::fewer_rules) how.forbidden = rule_names()[s % rule_names().size()];
    how.as_written = !terms;
    return how;
  };
  int failures = 0;
  const int most = own ? 1000 : 3;
  for (uint64_t seed = first; seed < first + count && failures < most; seed = shared->seed + 1) {
    shared->failed = false;
    shared->seed = seed;
    in_child(shared, 3000, [&] {
      for (; shared->seed < first + count; shared->seed++) {
        const uint64_t s = shared->seed;
        test::limit_processor_time(240); // of two threads
        alarm(2400);
        const bool exact = s % 2 == 0;
        std::optional<std::string> text;
        for (int which : {0, 1}) {
          Failing f;
          try {
            f = draw(s, which, exact);
          } catch (const std::exception& error) {
            text = std::string("no module: ") + error.what();
          }
          if (which == 1 && f.module.symbols.empty()) continue;
          if (!text) text = failure_of(f, drawn(s), shared->counts);
          if (!text) continue;
          shared->failed = true;
          (std::to_string(which) + text->substr(0, 2900)).copy(shared->text, sizeof shared->text - 1);
          _exit(0);
        }
      }
    });
    if (!shared->failed) break;
    failures++;
    const uint64_t s = shared->seed;
    const std::string what = shared->text;
    const int which = what[0] == '1';
    const bool exact = s % 2 == 0;
    Failing small;
    try {
      small = draw(s, which, exact);
    } catch (const std::exception&) {
      ADD_FAILURE() << "seed " << s << ": " << what;
      continue;
    }
    auto fails = [&](const Failing& f) {
      shared->failed = false;
      const uint64_t kept = shared->seed;
      in_child(shared, 30, [&] {
        Counts ignored;
        std::string texts;
        Drawn how = drawn(s);
        how.partitions = &texts;
        if (auto text = failure_of(f, how, ignored)) {
          shared->failed = true;
          std::fill(std::begin(shared->text), std::end(shared->text), 0);
          text->copy(shared->text, sizeof shared->text - 1);
          std::fill(std::begin(shared->partitions), std::end(shared->partitions), 0);
          texts.copy(shared->partitions, sizeof shared->partitions - 1);
        }
        _exit(0);
      });
      shared->seed = kept;
      return shared->failed;
    };
    if (!std::getenv("LUMINAL_RANDOM_WHOLE")) small = testing_ir::Shrinker(small, fails).run();
    (void)fails(small);
    save(s, small, shared->partitions);
    ADD_FAILURE() << "seed " << s << ": " << what << "\nsmaller: " << shared->text << "\n"
                  << replay_text(small) << shared->partitions;
    shared->seed = s;
    std::fill(std::begin(shared->text), std::end(shared->text), 0);
  }
  if (failures == 0 && count > 20) {
    // (One module of forty may have most of them: 12 % of one slice, 2.5 % of 300 seeds.)
    EXPECT_LT(shared->counts.unbounded * 5, shared->counts.compared) << "elements without a bound are few";
  }
  if (trial == Trial::partitions && count > 20) {
    EXPECT_LT(shared->counts.refused * 10, int64_t(count)) << "refused partitions are few";
  }
  fmt::print("{} seeds from {}: {} elements compared, {} without a bound, {} partitions refused\n", count,
             first, shared->counts.compared, shared->counts.unbounded, shared->counts.refused);
  munmap(shared, sizeof(Shared));
}

} // namespace luminal::testing_plans
