// egg/egg_view.cpp -- the drawings: rows by distance from a class, as DOT and as HTML.
#include "egg/egg_view.h"
#include "base/text.h"
#include "egg/egg_state.h"
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace luminal::egraph {
namespace {

using Json = nlohmann::ordered_json;

struct ViewArgument {
  std::string text;    ///< of a value
  size_t of_class = 0; ///< of a class
  bool is_class = false;
};
struct ViewRow {
  std::string function, rule;
  std::vector<ViewArgument> arguments;
  double cost = 0; ///< of the cheapest term with this row at the root
  bool subsumed = false, best = false;
};
struct ViewClass {
  std::string sort;
  ClassId id = 0;
  double cost = 0;
  std::vector<ViewRow> rows;
  size_t missing = 0; ///< rows that are not taken
};
struct View {
  std::vector<ViewClass> classes; ///< by distance, the focus first
  size_t shown = 0, reachable = 0;
};

std::string short_text(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  return text.substr(0, utf8_complete_prefix(std::string_view(text).substr(0, most))) + "...";
}

View collect(EggProgram& program, EggValue focus, size_t most) {
  EggProgram::Impl& p = program.impl();
  if (p.schema.sorts[focus.sort].type != SortType::classes)
    throw Error(fmt::format("only classes can be drawn; this is a value of the sort {}",
                            program.sort_name(focus.sort)));
  p.graph.rebuild();
  std::unordered_map<OpId, const FunctionInfo*> functions;
  for (const FunctionInfo& f : p.schema.functions) functions[f.op] = &f;
  TermWriter terms(p, {focus.sort});
  View view;
  std::unordered_map<ClassId, size_t> number;
  std::deque<size_t> open;
  const auto visit = [&](SortId sort, ClassId id) {
    const ClassId leader = p.graph.find(id);
    const auto [at, fresh] = number.try_emplace(leader, view.classes.size());
    if (fresh) {
      ViewClass c;
      c.sort = program.sort_name(sort);
      c.id = leader;
      c.cost = terms.cost(sort, leader);
      view.classes.push_back(std::move(c));
      open.push_back(at->second);
    }
    return at->second;
  };
  visit(focus.sort, focus.value);
  while (!open.empty()) {
    const size_t at = open.front();
    open.pop_front();
    for (const RowView& row : p.graph.class_rows(view.classes[at].id)) {
      const auto found = functions.find(row.op);
      if (found == functions.end() || found->second->hidden) continue;
      const FunctionInfo& f = *found->second;
      ++view.reachable;
      const bool taken = view.shown < most;
      ViewRow out;
      out.cost = static_cast<double>(f.cost);
      for (size_t i = 0; i < f.inputs.size(); ++i) {
        ViewArgument argument;
        argument.is_class = p.schema.sorts[f.inputs[i]].type == SortType::classes;
        const double cost = terms.cost(f.inputs[i], row.cells[i]);
        out.cost += cost;
        if (argument.is_class)
          argument.of_class = visit(f.inputs[i], row.cells[i]);
        else if (taken)
          argument.text = cost < HUGE_VAL ? short_text(terms.text(f.inputs[i], row.cells[i]), 60) : "?";
        out.arguments.push_back(std::move(argument));
      }
      if (!taken) {
        ++view.classes[at].missing;
        continue;
      }
      ++view.shown;
      out.function = p.syntax.text(f.name);
      out.subsumed = row.subsumed;
      const RuleId rule = p.graph.creator(row.op, row.row);
      if (rule != absent) out.rule = p.graph.rule(rule).name;
      // Costs are sums of integers: equal ones are equal as doubles.
      out.best = !row.subsumed && f.kind == FunctionKind::constructor && out.cost == view.classes[at].cost;
      view.classes[at].rows.push_back(std::move(out));
    }
  }
  return view;
}

std::string dot_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

constexpr std::string_view page_head = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>e-graph</title><style>
body{font:14px/1.5 system-ui,sans-serif;margin:1.5em;background:#fff;color:#222}
code{font:13px ui-monospace,monospace}
ul{list-style:none;margin:.2em 0 .2em 1em;padding-left:.6em;border-left:1px solid #ccc}
button{font:12px ui-monospace,monospace;margin:0 .2em;border:1px solid #999;border-radius:4px;background:#f4f4f4;color:inherit;cursor:pointer}
.best>code{font-weight:bold}.gone>code{text-decoration:line-through}.note{color:#777;font-size:12px}
@media(prefers-color-scheme:dark){body{background:#191919;color:#ddd}button{background:#333}ul{border-color:#555}}
</style></head><body><h1>e-graph</h1><p id="count"></p><div id="root"></div>
<script type="application/json" id="data">)";

constexpr std::string_view page_tail = R"(</script><script>
const data=JSON.parse(document.getElementById('data').textContent);
let shown=0;
const count=()=>document.getElementById('count').textContent=
  shown+' rows shown, '+(data.reachable-shown)+' hidden'+
  (data.reachable>data.held?' ('+(data.reachable-data.held)+' of them are not in this page)':'')+'. Bold: cheapest; struck: subsumed.';
function make(tag,text,cls){const e=document.createElement(tag);if(text!=null)e.textContent=text;if(cls)e.className=cls;return e}
function classList(i){
  const c=data.classes[i],ul=make('ul');
  for(const r of c.rows){
    const li=make('li',null,(r.best?'best ':'')+(r.subsumed?'gone':''));
    li.append(make('code','('+r.f));
    const slots=[];
    for(const a of r.args){
      if(typeof a==='string')li.append(make('code',' '+a));
      else{
        const k=data.classes[a],b=make('button',k.sort+' #'+k.id);
        b.onclick=()=>{const old=slots[b.dataset.n];if(old){shown-=old.querySelectorAll('li').length;old.remove();slots[b.dataset.n]=null}
          else{const n=classList(a);slots[b.dataset.n]=n;li.append(n)}count()};
        b.dataset.n=slots.length;slots.push(null);li.append(b);
      }
    }
    li.append(make('code',')'));
    li.append(make('span',' cost '+(r.cost==null?'none':r.cost)+(r.rule?', by '+r.rule:''),'note'));
    ul.append(li);shown++;
  }
  if(c.missing)ul.append(make('div',c.missing+' more rows are not in this page','note'));
  return ul;
}
const root=document.getElementById('root');
root.append(make('code',data.classes[0].sort+' #'+data.classes[0].id));
root.append(classList(0));count();
</script></body></html>
)";

} // namespace

std::string view_dot(EggProgram& program, EggValue focus, size_t most) {
  const View view = collect(program, focus, most);
  std::string out = fmt::format(
      "digraph egraph {{\n  compound=true;\n  labelloc=t;\n  label=\"{} rows shown, {} hidden\";\n"
      "  node [shape=box, fontname=monospace];\n",
      view.shown, view.reachable - view.shown);
  std::string edges;
  for (size_t i = 0; i < view.classes.size(); ++i) {
    const ViewClass& c = view.classes[i];
    if (c.rows.empty()) continue;
    out += fmt::format("  subgraph cluster_{} {{\n    style={};\n    label=\"{} #{}{}\";\n", i,
                       i == 0 ? "\"dashed,bold\"" : "dashed", dot_text(c.sort), c.id,
                       c.missing > 0 ? fmt::format(", {} rows hidden", c.missing) : "");
    for (size_t r = 0; r < c.rows.size(); ++r) {
      const ViewRow& row = c.rows[r];
      std::string label = row.function;
      for (const ViewArgument& a : row.arguments) label += a.is_class ? " ." : " " + a.text;
      out += fmt::format("    n{}_{} [label=\"{}\"{}{}];\n", i, r, dot_text(label),
                         row.best ? ", penwidth=2" : "", row.subsumed ? ", style=dotted" : "");
      for (const ViewArgument& a : row.arguments)
        if (a.is_class && !view.classes[a.of_class].rows.empty())
          edges += fmt::format("  n{}_{} -> n{}_0 [lhead=cluster_{}];\n", i, r, a.of_class, a.of_class);
    }
    out += "  }\n";
  }
  return out + edges + "}\n";
}

std::string view_html(EggProgram& program, EggValue focus, size_t most) {
  const View view = collect(program, focus, most);
  Json json{{"reachable", view.reachable}, {"held", view.shown}, {"classes", Json::array()}};
  const auto number = [](double cost) { return cost < HUGE_VAL ? Json(cost) : Json(nullptr); };
  for (const ViewClass& c : view.classes) {
    Json rows = Json::array();
    for (const ViewRow& row : c.rows) {
      Json args = Json::array();
      for (const ViewArgument& a : row.arguments)
        args.push_back(a.is_class ? Json(a.of_class) : Json(a.text));
      rows.push_back({{"f", row.function},
                      {"args", std::move(args)},
                      {"cost", number(row.cost)},
                      {"best", row.best},
                      {"subsumed", row.subsumed},
                      {"rule", utf8_sanitized(row.rule)}});
    }
    json["classes"].push_back(
        {{"sort", c.sort}, {"id", c.id}, {"rows", std::move(rows)}, {"missing", c.missing}});
  }
  std::string data;
  for (const char c : json.dump()) { // no text may end the script element
    if (c == '<')
      data += "\\u003c";
    else
      data += c;
  }
  return std::string(page_head) + data + std::string(page_tail);
}

} // namespace luminal::egraph
