// python/bind/passes.cpp -- passes over the terms of a graph, and rules: found, applied, tested.
#include "arrays.h"
#include "bind.h"
#include "generated/enums.h"
#include <nanobind/operators.h>
#include <nanobind/stl/shared_ptr.h>

namespace luminal::python {
namespace {

using MatchExtent = luminal::Extent;

void bind_tables_of_passes(nb::module_& m) {
  nb::class_<PassTime>(m, "PassTime", "A pass, and the module before and after it.")
      .def_ro("name", &PassTime::name)
      .def_ro("ms", &PassTime::ms)
      .def_ro("nodes_before", &PassTime::nodes_before)
      .def_ro("nodes_after", &PassTime::nodes_after)
      .def_ro("changes", &PassTime::changes);
  nb::class_<PassTable>(m, "PassTable", "What passes did; prints as a table.")
      .def(nb::init<>())
      .def_ro("rows", &PassTable::rows)
      .def("__repr__", &PassTable::to_string);
  nb::class_<RewriteReport>(m, "RewriteReport", "What rules did.")
      .def(nb::init<>())
      .def_ro("applied", &RewriteReport::applied)
      .def("total", &RewriteReport::total)
      .def("__repr__", &RewriteReport::to_string);
  nb::class_<MatchExtent>(m, "MatchExtent", "A dimension as found: its text and the values it can have.")
      .def_ro("text", &MatchExtent::text)
      .def_ro("low", &MatchExtent::low)
      .def_ro("high", &MatchExtent::high);
  nb::class_<Match::Value>(m, "MatchValue", "What a name of a rule's left side is.")
      .def_ro("name", &Match::Value::name)
      .def_ro("text", &Match::Value::text)
      .def_ro("dtype", &Match::Value::dtype)
      .def_ro("shape", &Match::Value::shape)
      .def_ro("number", &Match::Value::number);
  nb::class_<Match>(m, "Match", "A place where the left side of a rule was found.")
      .def_ro("rule", &Match::rule)
      .def_ro("function", &Match::function)
      .def_ro("root", &Match::root)
      .def_ro("values", &Match::values)
      .def_ro("symbols", &Match::symbols)
      .def(
          "__getitem__", [](const Match& match, const std::string& name) { return match[name]; },
          nb::arg("name"));
}

Pass text_pass_of(const std::string& name, const std::string& description, const nb::callable& edit) {
  return text_pass(name, description, [kept = keep_object(edit)](const std::string& module) {
    const nb::gil_scoped_acquire lock;
    try {
      return nb::cast<std::string>(nb::borrow(static_cast<PyObject*>(const_cast<void*>(kept.get())))(module));
    } catch (nb::python_error& error) {
      keep_exception(error);
      throw std::runtime_error(error.what());
    }
  });
}

} // namespace

void bind_passes(nb::module_& m) {
  bind_tables_of_passes(m);
  nb::class_<Pass>(m, "Pass", "A named rewrite of the terms that never changes a result; see luminal.passes.")
      .def_prop_ro("name", &Pass::name)
      .def_prop_ro("description", &Pass::description)
      .def_prop_ro("parts", &Pass::parts, "The passes that a sequence runs.")
      .def(
          "__or__", [](const Pass& a, const Pass& b) { return a | b; }, nb::is_operator(),
          "One after the other.")
      .def(
          "__eq__",
          [](const Pass& a, nb::handle b) {
            return nb::isinstance<Pass>(b) && a == nb::cast<const Pass&>(b);
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const Pass& a) { return std::hash<std::string>()(a.name()); })
      .def("__repr__", [](const Pass& a) { return "Pass(" + a.name() + ")"; });
  nb::class_<Rules>(m, "Rules", "An immutable list of rules in text form; docs/passes.md has the grammar.")
      .def_static("parse", &Rules::parse, nb::arg("text"), nb::arg("file") = "<rules>")
      .def_prop_ro("names", &Rules::names)
      .def(
          "when",
          [](const Rules& rules, const std::string& rule, const nb::callable& predicate) {
            return rules.when(rule, [kept = keep_object(predicate)](const Match& match) {
              const nb::gil_scoped_acquire lock;
              try {
                return nb::cast<bool>(nb::bool_(nb::borrow(static_cast<PyObject*>(
                    const_cast<void*>(kept.get())))(nb::cast(match, nb::rv_policy::copy))));
              } catch (nb::python_error& error) {
                keep_exception(error);
                return false;
              }
            });
          },
          nb::arg("rule"), nb::arg("predicate"),
          nb::sig("def when(self, rule: str, predicate: collections.abc.Callable[[Match], bool]) -> Rules"),
          "The same rules, one of them only where the predicate holds, too.")
      .def(
          "as_pass",
          [](const Rules& rules, const std::string& name, Numerics allowed,
             std::shared_ptr<RewriteReport> report) { return rules.pass(name, allowed, std::move(report)); },
          nb::arg("name") = "rules", nb::arg("allowed") = "range", nb::arg("report") = nb::none(),
          "Replaces at every place that is not refused.")
      .def("test", &Rules::test, nb::arg("instances") = 40, nb::arg("seed") = 1,
           "Tries every rule on random small instances: counterexamples as text.")
      .def("__str__", &Rules::to_string);
  nb::module_ passes = m.def_submodule("passes", "Passes by their names, and what joins them.");
  passes.def("common_subexpressions", &passes::common_subexpressions, "Equal values become one.");
  passes.def("dead_code", &passes::dead_code, "What no result needs goes.");
  passes.def("constants", &passes::constants, nb::arg("limit") = 4096,
             "Values that depend on constants only are computed.");
  passes.def("arithmetic", &passes::arithmetic, nb::arg("allowed") = "exact",
             "x * 1, -(-x), min(x, inf), ...");
  passes.def("reductions", &passes::reductions, nb::arg("allowed") = "exact",
             "Folds over axes of extent 1 and of values that do not vary.");
  passes.def("views", &passes::views, "A view of a view is one view.");
  passes.def("depth_first", &passes::depth_first, "Nodes in an order of less memory.");
  passes.def("defaults", &passes::defaults, "What compile runs unless told otherwise.");
  passes.def("none", &passes::none, "Nothing.");
  passes.def("all_passes", &all_passes, "Every pass that has a name.");
  passes.def(
      "parse", [](const std::string& names) { return parse_passes(names); }, nb::arg("names"),
      "\"views,arithmetic-range,dead-code\".");
  passes.def("sequence", &sequence, nb::arg("parts"), nb::arg("name") = "", "One after the other.");
  passes.def("looped", &looped, nb::arg("pass_"), nb::arg("most") = 16,
             "Again and again until nothing changes.");
  passes.def("timed", &timed, nb::arg("pass_"), nb::arg("table"), "Appends a row to the table at each run.");
  passes.def("checked", &checked, nb::arg("pass_"), "Verifies the module after the pass.");
  passes.def("text_pass", &text_pass_of, nb::arg("name"), nb::arg("description"), nb::arg("edit"),
             nb::sig("def text_pass(name: str, description: str, edit: collections.abc.Callable[[str], str]) "
                     "-> luminal._core.Pass"),
             "A pass of the user over the text form: what edit gives is parsed and verified.");
}

} // namespace luminal::python
