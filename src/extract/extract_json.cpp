// extract/extract_json.cpp -- the JSON of egraph-serialize: a reader on nlohmann-json's events,
// bounded in depth, and a writer.
#include "extract/extract_json.h"
#include "base/file.h"
#include "base/text.h"
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace luminal::egraph {
namespace {

constexpr int max_depth = 64;

struct Refusal {
  std::string text;
};

std::string in_quotes(std::string_view text) { return '"' + printable(text) + '"'; }

/// Collects the graph from the events. `path_` says where the reader stands; what is not known is
/// read over.
class Reader {
public:
  bool null() { return value(Kind::null, "null"); }
  bool boolean(bool v) {
    flag_ = v;
    return value(Kind::boolean, "a boolean");
  }
  bool number_integer(int64_t v) { return real(double(v)); }
  bool number_unsigned(uint64_t v) { return real(double(v)); }
  bool number_float(double v, const std::string& text) {
    if (!std::isfinite(v)) throw Refusal{fmt::format("number {}, which no double can hold", in_quotes(text))};
    return real(v);
  }
  bool string(std::string& v) {
    text_ = std::move(v);
    return value(Kind::text, "a string");
  }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool key(std::string& v) {
    key_ = std::move(v);
    if (skip_ > 0) return true;
    if (place() == Place::top) {
      for (const bool* seen : {&seen_nodes_, &seen_roots_, &seen_data_})
        if (*seen && key_ == name_of(seen)) throw Refusal{fmt::format("{} stands twice", in_quotes(key_))};
      (key_ == "nodes"           ? seen_nodes_
       : key_ == "root_eclasses" ? seen_roots_
       : key_ == "class_data"    ? seen_data_
                                 : ignored_) = true;
    } else if (place() == Place::nodes) {
      if (!node_index_.try_emplace(key_, uint32_t(graph.nodes.size())).second)
        throw Refusal{fmt::format("node {} stands twice", in_quotes(key_))};
    } else if (place() == Place::node) {
      const auto member = member_of(key_);
      if (member && (members_ & 1 << *member))
        throw Refusal{fmt::format("node {} has {} twice", in_quotes(graph.nodes.back().id), in_quotes(key_))};
      if (member) members_ |= 1 << *member;
    }
    return true;
  }
  bool start_object(size_t) {
    if (skip_ > 0) return deeper();
    if (path_.empty()) return enter(Place::top);
    switch (place()) {
    case Place::top:
      if (key_ == "nodes") return enter(Place::nodes);
      if (key_ == "class_data") return enter(Place::class_data);
      if (key_ == "root_eclasses") wrong("\"root_eclasses\"", "an object", "an array of class ids");
      break;
    case Place::nodes:
      graph.nodes.push_back({key_, {}, {}, no_row, 1, false});
      child_ids_.emplace_back();
      members_ = 0;
      return enter(Place::node);
    case Place::node:
      if (member_of(key_) >= 0) wrong_member("an object");
      break;
    case Place::class_data:
      data_.emplace_back(key_, std::vector<std::pair<std::string, std::string>>());
      return enter(Place::class_entry);
    case Place::class_entry:
      wrong(fmt::format("data of class {}", in_quotes(data_.back().first)), "an object", "a string");
    case Place::children: wrong_child("an object");
    case Place::roots: wrong("an element of \"root_eclasses\"", "an object", "a class id");
    }
    skip_ = 1;
    return true;
  }
  bool start_array(size_t) {
    if (skip_ > 0) return deeper();
    if (path_.empty()) wrong("the document", "an array", "an object with \"nodes\"");
    switch (place()) {
    case Place::top:
      if (key_ == "root_eclasses") return enter(Place::roots);
      if (key_ == "nodes" || key_ == "class_data") wrong(in_quotes(key_), "an array", "an object");
      break;
    case Place::nodes: wrong(fmt::format("node {}", in_quotes(key_)), "an array", "an object");
    case Place::node:
      if (key_ == "children") return enter(Place::children);
      if (member_of(key_) >= 0) wrong_member("an array");
      break;
    case Place::class_data: wrong(fmt::format("data of class {}", in_quotes(key_)), "an array", "an object");
    case Place::class_entry:
      wrong(fmt::format("data of class {}", in_quotes(data_.back().first)), "an array", "a string");
    case Place::children: wrong_child("an array");
    case Place::roots: wrong("an element of \"root_eclasses\"", "an array", "a class id");
    }
    skip_ = 1;
    return true;
  }
  bool end_object() {
    if (skip_ > 0) return --skip_, true;
    if (place() == Place::node) {
      const auto& id = graph.nodes.back().id;
      if (!(members_ & 1)) throw Refusal{fmt::format("node {} has no \"op\"", in_quotes(id))};
      if (!(members_ & 2)) throw Refusal{fmt::format("node {} has no \"eclass\"", in_quotes(id))};
    }
    path_.pop_back();
    return true;
  }
  bool end_array() {
    if (skip_ > 0) return --skip_, true;
    path_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    std::string_view reason = error.what();
    if (const auto colon = reason.find(": "); colon != std::string_view::npos)
      reason.remove_prefix(colon + 2);
    throw Refusal{fmt::format("offset {}: not JSON: {}", position, printable(reason, 160))};
  }

  /// After the last event: names become numbers.
  void finish() {
    if (!seen_nodes_) throw Refusal{"the document has no \"nodes\""};
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (const auto& id : child_ids_[i]) {
        const auto at = node_index_.find(id);
        if (at == node_index_.end())
          throw Refusal{fmt::format("node {} has a child {}, which is not a node",
                                    in_quotes(graph.nodes[i].id), in_quotes(id))};
        graph.nodes[i].children.push_back(at->second);
      }
    for (const auto& id : root_ids_) {
      const auto at = class_index_.find(id);
      if (at == class_index_.end()) throw Refusal{fmt::format("root class {} has no node", in_quotes(id))};
      graph.roots.push_back(at->second);
    }
    for (auto& [id, data] : data_) {
      const auto at = class_index_.find(id);
      if (at == class_index_.end())
        throw Refusal{fmt::format("class_data names {}, a class without a node", in_quotes(id))};
      if (!graph.classes[at->second].data.empty())
        throw Refusal{fmt::format("class_data names {} twice", in_quotes(id))};
      graph.classes[at->second].data = std::move(data);
    }
  }

  SerializedGraph graph;

private:
  enum class Place { top, nodes, node, children, roots, class_data, class_entry };
  enum class Kind { null, boolean, number, text };

  Place place() const { return path_.back(); }
  bool enter(Place place) {
    path_.push_back(place);
    return true;
  }
  bool deeper() {
    if (++skip_ > max_depth) throw Refusal{fmt::format("JSON nested deeper than {} levels", max_depth)};
    return true;
  }
  const char* name_of(const bool* seen) const {
    return seen == &seen_nodes_ ? "nodes" : seen == &seen_roots_ ? "root_eclasses" : "class_data";
  }
  static std::optional<size_t> member_of(std::string_view key) {
    constexpr std::string_view members[] = {"op", "eclass", "children", "cost", "subsumed"};
    for (size_t i = 0; i < std::size(members); ++i)
      if (key == members[i]) return i;
    return {};
  }
  [[noreturn]] static void wrong(std::string_view what, std::string_view found, std::string_view expected) {
    throw Refusal{fmt::format("{} is {}, expected {}", what, found, expected)};
  }
  [[noreturn]] void wrong_member(std::string_view found) const {
    constexpr std::string_view expected[] = {"a string", "a string", "an array of node ids", "a number",
                                             "a boolean"};
    wrong(fmt::format("{} of node {}", in_quotes(key_), in_quotes(graph.nodes.back().id)), found,
          expected[*member_of(key_)]);
  }
  [[noreturn]] void wrong_child(std::string_view found) const {
    wrong(fmt::format("a child of node {}", in_quotes(graph.nodes.back().id)), found, "a node id");
  }
  bool real(double v) {
    number_ = v;
    return value(Kind::number, "a number");
  }
  bool value(Kind kind, std::string_view found) {
    if (skip_ > 0) return true;
    if (path_.empty()) wrong("the document", found, "an object with \"nodes\"");
    switch (place()) {
    case Place::top:
      if (key_ == "nodes" || key_ == "class_data") wrong(in_quotes(key_), found, "an object");
      if (key_ == "root_eclasses") wrong("\"root_eclasses\"", found, "an array of class ids");
      return true;
    case Place::nodes: wrong(fmt::format("node {}", in_quotes(key_)), found, "an object");
    case Place::node: return member(kind, found);
    case Place::children:
      if (kind != Kind::text) wrong_child(found);
      child_ids_.back().push_back(std::move(text_));
      return true;
    case Place::roots:
      if (kind != Kind::text) wrong("an element of \"root_eclasses\"", found, "a class id");
      root_ids_.push_back(std::move(text_));
      return true;
    case Place::class_data: wrong(fmt::format("data of class {}", in_quotes(key_)), found, "an object");
    case Place::class_entry:
      if (kind == Kind::null && key_ == "type") return true; // a class without a type
      if (kind != Kind::text)
        wrong(fmt::format("data of class {}", in_quotes(data_.back().first)), found, "a string");
      data_.back().second.emplace_back(key_, std::move(text_));
      return true;
    }
    return true;
  }
  bool member(Kind kind, std::string_view found) {
    constexpr Kind expected[] = {Kind::text, Kind::text, Kind::null, Kind::number, Kind::boolean};
    const auto i = member_of(key_);
    if (!i) return true;
    if (i == 2 || kind != expected[*i]) wrong_member(found);
    auto& node = graph.nodes.back();
    if (i == 0) node.op = std::move(text_);
    if (i == 1) {
      const auto [at, made] = class_index_.try_emplace(text_, uint32_t(graph.classes.size()));
      if (made) graph.classes.push_back({text_, {}});
      node.of_class = at->second;
    }
    if (i == 3) node.cost = number_;
    if (i == 4) node.subsumed = flag_;
    return true;
  }

  std::vector<Place> path_;
  int skip_ = 0; // levels below a member that is read over
  int members_ = 0;
  bool seen_nodes_ = false, seen_roots_ = false, seen_data_ = false, ignored_ = false, flag_ = false;
  double number_ = 0;
  std::string key_, text_;
  std::vector<std::vector<std::string>> child_ids_;
  std::vector<std::string> root_ids_;
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::string>>>> data_;
  std::unordered_map<std::string, uint32_t> node_index_, class_index_; // looked up, never walked over
};

/// The shortest text that reads back as the same number.
std::string number(double v) { return fmt::format("{}", v); }

} // namespace

Result<SerializedGraph> read_egraph_json(std::string_view text, std::string_view file) {
  Reader reader;
  try {
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader))
      return Failure{fmt::format("{}: not JSON", file)};
    reader.finish();
  } catch (const Refusal& refusal) {
    return Failure{fmt::format("{}: {}", file, refusal.text)};
  }
  return std::move(reader.graph);
}

Result<SerializedGraph> load_egraph_json(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return text.failure();
  return read_egraph_json(*text, path);
}

std::string write_egraph_json(const SerializedGraph& graph) {
  std::string out = "{\"nodes\": {";
  const char* separator = "\n";
  for (const auto& node : graph.nodes) {
    out += separator;
    separator = ",\n";
    out +=
        fmt::format("\"{}\": {{\"op\": \"{}\", \"children\": [", json_escape(node.id), json_escape(node.op));
    for (size_t i = 0; i < node.children.size(); ++i)
      out += fmt::format("{}\"{}\"", i ? ", " : "", json_escape(graph.nodes[node.children[i]].id));
    out += fmt::format("], \"eclass\": \"{}\", \"cost\": {}, \"subsumed\": {}}}",
                       json_escape(graph.classes[node.of_class].id), number(node.cost), node.subsumed);
  }
  out += "},\n\"root_eclasses\": [";
  for (size_t i = 0; i < graph.roots.size(); ++i)
    out += fmt::format("{}\"{}\"", i ? ", " : "", json_escape(graph.classes[graph.roots[i]].id));
  out += "],\n\"class_data\": {";
  separator = "\n";
  for (const auto& c : graph.classes) {
    if (c.data.empty()) continue;
    out += fmt::format("{}\"{}\": {{", separator, json_escape(c.id));
    separator = ",\n";
    for (size_t i = 0; i < c.data.size(); ++i)
      out += fmt::format("{}\"{}\": \"{}\"", i ? ", " : "", json_escape(c.data[i].first),
                         json_escape(c.data[i].second));
    out += '}';
  }
  return out + "}}\n";
}

ExtractionProblem SerializedGraph::problem(bool with_subsumed) const {
  ExtractionBuilder builder;
  builder.add_classes(uint32_t(classes.size()));
  std::vector<uint32_t> children;
  for (const auto& node : nodes) {
    children.clear();
    for (const uint32_t child : node.children) children.push_back(nodes[child].of_class);
    builder.add_row(node.of_class, children, node.subsumed && !with_subsumed ? infinite_cost : node.cost);
  }
  for (const uint32_t root : roots) builder.add_root(root);
  return builder.build();
}

} // namespace luminal::egraph
