// python/bind/run.cpp -- compiling and running: options by name, Ctrl-C, progress, reports.
#include "arrays.h"
#include "bind.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace luminal::python {
namespace {

std::atomic<bool> interrupted = false; // Ctrl-C while the library works
struct sigaction handler_of_python;

void on_interrupt(int number, siginfo_t* info, void* context) {
  interrupted.store(true, std::memory_order_relaxed);
  if (handler_of_python.sa_flags & SA_SIGINFO)
    handler_of_python.sa_sigaction(number, info, context);
  else if (handler_of_python.sa_handler != SIG_DFL && handler_of_python.sa_handler != SIG_IGN)
    handler_of_python.sa_handler(number);
}

bool on_main_thread() {
#ifdef __linux__
  return getpid() == pid_t(syscall(SYS_gettid));
#else
  return pthread_main_np() == 1;
#endif
}

/// Notes Ctrl-C, and tells the interpreter as before. Only the main thread's work is ended by it.
class Interrupts {
public:
  Interrupts() : active_(on_main_thread()) {
    if (!active_) return;
    interrupted = false;
    struct sigaction mine{};
    mine.sa_sigaction = on_interrupt;
    mine.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&mine.sa_mask);
    sigaction(SIGINT, nullptr, &handler_of_python);
    active_ = handler_of_python.sa_handler != SIG_IGN && handler_of_python.sa_handler != SIG_DFL;
    if (active_) sigaction(SIGINT, &mine, nullptr);
  }
  ~Interrupts() {
    if (active_) sigaction(SIGINT, &handler_of_python, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  bool seen() const { return active_ && interrupted; }

private:
  bool active_;
};

std::mutex exception_mutex;
std::optional<nb::python_error>& kept_exception() {
  static auto& kept = *new std::optional<nb::python_error>;
  return kept;
}

std::optional<nb::python_error> take_exception() {
  const std::lock_guard lock(exception_mutex);
  return std::exchange(kept_exception(), std::nullopt);
}

template <class T> T option(nb::handle value, const std::string& name, const char* kind) {
  T result{};
  if (!nb::try_cast(value, result))
    throw nb::type_error(
        ("[compile] " + name + " takes " + kind + ", not " + nb::cast<std::string>(nb::repr(value))).c_str());
  return result;
}

/// A text, or several.
std::vector<std::string> texts(nb::handle value, const std::string& name) {
  if (PyUnicode_Check(value.ptr())) return {nb::cast<std::string>(value)};
  return option<std::vector<std::string>>(value, name, "a text or a list of texts");
}

std::map<std::string, TypicalSizes> sizes_of(nb::handle value) {
  std::map<std::string, TypicalSizes> sizes;
  for (auto [name, size] : option<nb::dict>(value, "sizes", "{name: size or sizes}")) {
    Integers numbers;
    if (!read_integers(size, numbers, true))
      throw nb::type_error("[compile] sizes takes {name: size or sizes}");
    sizes[nb::cast<std::string>(name)] = TypicalSizes(numbers.list);
  }
  return sizes;
}

std::function<void(const SearchProgress&)> progress_of(nb::handle value,
                                                       std::shared_ptr<std::atomic<bool>> stop) {
  if (value.is_none() || value.is(Py_False)) return {};
  nb::object call = nb::borrow(value);
  if (value.is(Py_True)) call = nb::module_::import_("luminal._progress").attr("Line")();
  return [kept = keep_object(call), stop](const SearchProgress& progress) {
    const nb::gil_scoped_acquire lock;
    try {
      nb::handle(static_cast<PyObject*>(const_cast<void*>(kept.get())))(
          nb::cast(progress, nb::rv_policy::copy));
    } catch (nb::python_error& error) {
      keep_exception(error);
      *stop = true;
    }
  };
}

void compile(Graph& g, const std::optional<std::string>& device, const nb::kwargs& words) {
  const auto where = here();
  const auto state = g.state("compile", where);
  if (device && Device(*device, where).name() != g.device(where).name())
    throw Error("compile",
                "the graph lies on " + g.device(where).name() + ": Graph(device=\"" + *device +
                    "\") makes one there",
                where);
  const CompileOptions options = options_of(words, where);
  forget_handed_out(state.get());
  Graph target(state);
  run_released("compile", state, where, [&] { target.compile(options, where); });
}

void execute(Graph& g) {
  const auto where = here();
  const auto state = g.state("execute", where);
  forget_handed_out(state.get());
  Graph target(state);
  run_released("execute", state, where, [&] { target.execute(where); });
}

ExecutionTable execute_debug(Graph& g) {
  const auto where = here();
  const auto state = g.state("execute_debug", where);
  forget_handed_out(state.get());
  Graph target(state);
  ExecutionTable table;
  run_released("execute_debug", state, where, [&] { table = target.execute_debug(where); });
  return table;
}

nb::list interpret_list(Graph& g, const std::vector<Value>& tensors) {
  Call call("interpret", tensors);
  std::vector<ReferenceValue> values;
  const std::vector<Tensor> list = call.tensors(tensors);
  run_released("interpret", g.state("interpret", call.where), call.where,
               [&] { values = luminal::interpret(list, call.where); });
  nb::list arrays;
  for (ReferenceValue& value : values)
    arrays.append(numpy_array(value.dtype, value.shape, std::move(value.bytes)));
  return arrays;
}

/// A page in a frame of its own, so that its styles stay its own.
std::string framed(const std::string& page) {
  std::string quoted;
  for (char c : page)
    quoted += c == '&' ? std::string("&amp;") : c == '"' ? std::string("&quot;") : std::string(1, c);
  return "<iframe srcdoc=\"" + quoted +
         "\" style=\"width:100%;height:480px;border:1px solid #ccc\"></iframe>";
}

void bind_tables(nb::module_& m) {
  nb::class_<SearchProgress>(m, "SearchProgress", "Where a search stands. Times are in seconds.")
      .def_prop_ro("phase",
                   [](const SearchProgress& p) {
                     return std::array{"measuring", "tuning", "confirming"}[size_t(p.phase)];
                   })
      .def_ro("kernel", &SearchProgress::kernel)
      .def_ro("number", &SearchProgress::number)
      .def_ro("kernels", &SearchProgress::kernels)
      .def_ro("best", &SearchProgress::best)
      .def_ro("usual", &SearchProgress::usual)
      .def_ro("tried", &SearchProgress::tried)
      .def_ro("rejected", &SearchProgress::rejected)
      .def_ro("left", &SearchProgress::left)
      .def_ro("program_before", &SearchProgress::program_before)
      .def_ro("program", &SearchProgress::program);
  nb::class_<ChangedKernel>(m, "ChangedKernel", "A kernel that has a new schedule. Times are in seconds.")
      .def_ro("name", &ChangedKernel::name)
      .def_ro("computes", &ChangedKernel::computes)
      .def_ro("about", &ChangedKernel::about)
      .def_ro("launches", &ChangedKernel::launches)
      .def_ro("before", &ChangedKernel::before)
      .def_ro("after", &ChangedKernel::after)
      .def_ro("limit_fraction", &ChangedKernel::limit_fraction)
      .def("__repr__",
           [](const ChangedKernel& k) { return "ChangedKernel(" + k.name + " " + k.computes + ")"; });
  nb::class_<SearchSummary>(m, "SearchSummary", "What a search found. Times are in seconds.")
      .def_ro("kernels", &SearchSummary::kernels)
      .def_ro("searched", &SearchSummary::searched)
      .def_ro("improved", &SearchSummary::improved)
      .def_ro("tried", &SearchSummary::tried)
      .def_ro("mismatches", &SearchSummary::mismatches)
      .def_ro("rejected", &SearchSummary::rejected)
      .def_ro("kernels_before", &SearchSummary::kernels_before)
      .def_ro("kernels_after", &SearchSummary::kernels_after)
      .def_ro("program_before", &SearchSummary::program_before)
      .def_ro("program_after", &SearchSummary::program_after)
      .def_ro("complete", &SearchSummary::complete)
      .def_ro("seconds", &SearchSummary::seconds)
      .def_ro("changed", &SearchSummary::changed)
      .def_ro("workers", &SearchSummary::workers)
      .def_ro("notes", &SearchSummary::notes);
  nb::class_<MemoryUse>(m, "MemoryUse",
                        "Bytes that a compiled graph needs at the largest sizes of its dimensions.")
      .def_ro("arena", &MemoryUse::arena)
      .def_ro("kept", &MemoryUse::kept)
      .def_ro("states", &MemoryUse::states)
      .def_ro("inputs", &MemoryUse::inputs)
      .def_ro("weights", &MemoryUse::weights)
      .def_ro("loaded", &MemoryUse::loaded);
  nb::class_<StepCost>(m, "StepCost", "What one step of an execution took.")
      .def_ro("name", &StepCost::name)
      .def_ro("milliseconds", &StepCost::milliseconds)
      .def_ro("bytes", &StepCost::bytes)
      .def_ro("shapes", &StepCost::shapes);
  nb::class_<ExecutionTable>(m, "ExecutionTable", "The steps of a run in their order; prints as a table.")
      .def_ro("steps", &ExecutionTable::steps)
      .def_prop_ro("milliseconds", &ExecutionTable::milliseconds)
      .def_prop_ro("bytes", &ExecutionTable::bytes)
      .def("__repr__", [](const ExecutionTable& table) { return to_string(table); })
      .def("_repr_html_",
           [](const ExecutionTable& table) { return "<pre>" + escaped(to_string(table)) + "</pre>"; });
}

} // namespace

nb::sig of_method(const nb::sig& signature) {
  const std::string text = signature.value;
  const size_t open = text.find('(') + 1;
  return nb::sig(
      (*new std::string(text.substr(0, open) + (text[open] == ')' ? "self" : "self, ") + text.substr(open)))
          .c_str());
}

void keep_exception(const nb::python_error& error) {
  const std::lock_guard lock(exception_mutex);
  if (!kept_exception()) kept_exception().emplace(error);
}

void run_released(const char* operation, const std::shared_ptr<GraphState>& graph, std::source_location where,
                  const std::function<void()>& work) {
  const Busy busy(operation, graph, where);
  std::exception_ptr failed;
  bool stopped = false;
  {
    const nb::gil_scoped_release released;
    const Interrupts interrupts;
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
    stopped = interrupts.seen();
  }
  auto thrown = take_exception();
  if (stopped && PyErr_CheckSignals() != 0) throw nb::python_error(); // KeyboardInterrupt
  if (thrown) throw nb::python_error(*thrown);
  if (failed) std::rethrow_exception(failed);
}

CompileOptions options_of(const nb::dict& words, std::source_location where) {
  CompileOptions options;
  auto stop = std::make_shared<std::atomic<bool>>(false);
  options.stop = [] { return interrupted.load(std::memory_order_relaxed); };
  options.search.stop = [stop] { return interrupted.load(std::memory_order_relaxed) || *stop; };
  const std::map<std::string, std::function<void(const std::string&, nb::handle)>, std::less<>> known{
      {"threads",
       [&](auto& name, nb::handle value) { options.threads = option<int>(value, name, "a whole number"); }},
      {"cache",
       [&](auto& name, nb::handle value) { options.cache = option<bool>(value, name, "True or False"); }},
      {"max_memory",
       [&](auto& name, nb::handle value) {
         options.max_memory = option<int64_t>(value, name, "a number of bytes");
       }},
      {"weights_id",
       [&](auto& name, nb::handle value) {
         options.weights_id = option<std::string>(value, name, "a text");
       }},
      {"strict",
       [&](auto& name, nb::handle value) { options.strict = option<bool>(value, name, "True or False"); }},
      {"sizes", [&](auto&, nb::handle value) { options.sizes = sizes_of(value); }},
      {"seconds",
       [&](auto& name, nb::handle value) {
         options.search.seconds = option<double>(value, name, "seconds");
         if (!(options.search.seconds > 0))
           throw Error("compile", "seconds is how long to search, more than 0", where);
         options.search.mode = SearchMode::budget;
       }},
      {"filter",
       [&](auto& name, nb::handle value) {
         options.search.filter = option<std::string>(value, name, "a text");
       }},
      {"confirm",
       [&](auto& name, nb::handle value) {
         options.search.confirm = option<bool>(value, name, "True or False");
       }},
      {"progress", [&](auto&, nb::handle value) { options.search.progress = progress_of(value, stop); }},
      {"rules", [&](auto& name, nb::handle value) { options.rules.files = texts(value, name); }},
      {"forbid_rules", [&](auto& name, nb::handle value) { options.rules.forbidden = texts(value, name); }},
      {"max_error",
       [&](auto& name, nb::handle value) {
         options.rules.max_error = option<double>(value, name, "a number");
       }},
      {"plan", [&](auto& name,
                   nb::handle value) { options.plan = option<std::string>(value, name, "a file's name"); }},
      {"passes",
       [&](auto&, nb::handle value) {
         if (!PyUnicode_Check(value.ptr()) && !nb::isinstance<Pass>(value))
           throw nb::type_error("[compile] passes takes a Pass, or names of passes");
         options.passes = PyUnicode_Check(value.ptr()) ? parse_passes(nb::cast<std::string>(value))
                                                       : nb::cast<Pass>(value);
       }},
      {"mode",
       [&](auto& name, nb::handle value) {
         const auto mode = option<std::string>(value, name, "\"fast\", \"optimal\" or \"budget\"");
         const auto& modes = Names<SearchMode>::list;
         const auto* place = std::find(std::begin(modes), std::end(modes), mode);
         if (place == std::end(modes))
           throw Error("compile", "there is no mode '" + mode + "'; there are fast, optimal and budget",
                       where);
         options.search.mode = SearchMode(place - std::begin(modes));
       }},
  };
  for (auto [key, value] : words) {
    const auto name = nb::cast<std::string>(key);
    const auto found = known.find(name);
    if (found == known.end()) {
      std::string all;
      for (const auto& [one, set] : known) all += (all.empty() ? "" : ", ") + one;
      throw nb::type_error(("[compile] there is no option " + name + "; there are " + all).c_str());
    }
    if (!value.is_none()) found->second(name, value);
  }
  return options;
}

void bind_run(nb::module_& m, nb::class_<Graph>& graph) {
  bind_tables(m);
  both(m, graph, "compile", &compile, nb::arg("device") = nb::none(), nb::arg("options"),
       nb::sig(
           "def compile(device: str | None = None, *, mode: typing.Literal['fast', 'optimal', 'budget'] "
           "| None = None, seconds: float | None = None, "
           "progress: bool | collections.abc.Callable[[SearchProgress], object] | None = None, threads: "
           "int | None = None, "
           "sizes: collections.abc.Mapping[str, int | collections.abc.Sequence[int]] | None = None, "
           "passes: str | Pass | None = None, "
           "rules: str | collections.abc.Sequence[str] | None = None, "
           "forbid_rules: str | collections.abc.Sequence[str] | None = None, max_error: float | None = None, "
           "plan: str | None = None, "
           "cache: bool | None = None, max_memory: int | None = None, weights_id: str | None = None, "
           "strict: bool | None = None, "
           "filter: str | None = None, confirm: bool | None = None) -> None"),
       "Makes the program; execute does it where the graph changed since. mode=\"optimal\" or seconds=.. "
       "search faster kernels by measuring "
       "(progress=True shows a line; Ctrl-C ends the search, keeps what was found, and raises "
       "KeyboardInterrupt). threads: 0 all cores; "
       "sizes: typical sizes of dynamic dimensions; passes: names, or a Pass; max_memory: refuse more bytes; "
       "rules: files of rules for the search for equal programs; forbid_rules: names of rules that take no "
       "part; "
       "max_error: rules of class approx take part where no result is off by more than this share of its "
       "greatest element; "
       "plan: a file of luminal tune --export-plan; "
       "strict: a wrong schedule of the "
       "tuning cache is an Error.");
  both(m, graph, "execute", &execute, nb::sig("def execute() -> None"),
       "Runs the program; compiles it first where the graph changed. Other Python threads run meanwhile, and "
       "Ctrl-C ends it between two kernels, or two parts of a long one.");
  both(m, graph, "execute_debug", &execute_debug, nb::sig("def execute_debug() -> ExecutionTable"),
       "The same with every step timed.");
  both(
      m, graph, "report", +[](Graph& g) { return g.report(here()); }, nb::sig("def report() -> str"),
      "One line a kernel: name, shape, schedule, bytes, what was decided and why.");
  both(
      m, graph, "memory", +[](Graph& g) { return g.memory(here()); }, nb::sig("def memory() -> MemoryUse"),
      "Bytes; zeros before compile.");
  both(
      m, graph, "search_summary", +[](Graph& g) { return g.search_summary(here()); },
      nb::sig("def search_summary() -> SearchSummary | None"), "Of the last compile, where it searched.");
  both(
      m, graph, "reset_states", +[](Graph& g) { g.reset_states(here()); },
      nb::sig("def reset_states() -> None"), "All states are zero again.");
  both(
      m, graph, "reset",
      +[](Graph& g) {
        const auto where = here();
        check_idle("reset", g.state("reset", where).get(), where);
        forget_handed_out(g.state("reset", where).get());
        g.reset(where);
      },
      nb::sig("def reset() -> None"), "Forgets all data; the graph, its marks and the compiled code stay.");
  both(m, graph, "interpret", &interpret_list, nb::arg("tensors"),
       nb::sig("def interpret(tensors: collections.abc.Sequence[Tensor]) -> "
               "list[luminal.typing.NumpyArray]"),
       "The meaning of these tensors for the present values of inputs, by the reference interpreter: without "
       "a compile, and slow.");
  graph.def(
      "run",
      [](Graph& g, const Pass& pass) {
        const auto where = here();
        check_idle("run", g.state("run", where).get(), where);
        return g.run(pass, where);
      },
      nb::arg("pass_"), "The graph's terms go through the pass at every compile from now on.");
  graph.def(
      "find", [](Graph& g, const Rules& rules) { return g.find(rules, here()); }, nb::arg("rules"),
      "Where the left sides of the rules are found.");
  graph.def(
      "to_string", [](Graph& g) { return g.to_string(here()); },
      "The graph in text form: what parses, verifies and is interpreted.");
  graph.def(
      "to_string", [](Graph& g, const Pass& pass) { return g.to_string(pass, here()); }, nb::arg("pass_"),
      "After the pass.");
  graph.def("to_dot", [](Graph& g) { return g.to_dot(here()); }, "For Graphviz.");
  graph.def("to_html", [](Graph& g) { return g.to_html(here()); }, "A page with search and zoom.");
  graph.def("__str__", [](Graph& g) { return g.to_string(here()); });
  graph.def("__repr__", [](Graph& g) { return "Graph(device=\"" + g.device(here()).name() + "\")"; });
  graph.def("_repr_html_", [](Graph& g) { return framed(g.to_html(here())); });
}

} // namespace luminal::python
