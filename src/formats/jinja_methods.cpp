// formats/jinja_methods.cpp -- methods of Python's strings, dictionaries and lists.
#include "formats/jinja_text.h"
#include <algorithm>

namespace luminal::jinja {
namespace {

using namespace detail;

Value pairs_of(const Dict& dict) {
  List out;
  for (const auto& [key, value] : dict) out.emplace_back(List{Value(key), value});
  return out;
}

bool any_of(const Value& what, const std::function<bool(const std::string&)>& test) {
  if (what.string()) return test(*what.string());
  if (!what.list()) fail(fmt::format("{} where a string is expected", what.kind()));
  return std::any_of(what.list()->begin(), what.list()->end(),
                     [&](const Value& v) { return v.string() && test(*v.string()); });
}

Value string_method(const std::string& s, std::string_view name) {
  const auto method = [&](auto f) {
    return Value(Function([s, f](const Arguments& a) { return Value(f(s, a)); }));
  };
  if (name == "upper") return method([](const std::string& t, const Arguments&) { return cased(t, true); });
  if (name == "lower") return method([](const std::string& t, const Arguments&) { return cased(t, false); });
  if (name == "title") return method([](const std::string& t, const Arguments&) { return titled(t, true); });
  if (name == "capitalize")
    return method([](const std::string& t, const Arguments&) { return titled(t, false); });
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const bool left = name != "rstrip", right = name != "lstrip";
    return method([left, right](const std::string& t, const Arguments& a) {
      const Value* set = Given("strip", a, 1).find(0, "chars");
      return stripped(t, set && set->string() ? std::string_view(*set->string()) : blanks, left, right);
    });
  }
  if (name == "split" || name == "rsplit")
    return method([last = name == "rsplit"](const std::string& t, const Arguments& a) {
      const Given given("split", a, 2);
      const Value* by = given.find(0, "sep");
      const int64_t most = given.integer(1, "maxsplit", -1);
      const std::optional<std::string> separator =
          by && by->string() ? std::optional(*by->string()) : std::nullopt;
      List parts = split_text(t, separator, last ? -1 : most);
      if (last && most >= 0 &&
          int64_t(parts.size()) > most + 1) { // what is in front of the last ones stays together
        if (!separator) fail("rsplit by blanks into a few parts is not supported");
        List front(parts.begin(), parts.end() - most);
        List out{Value(joined(front, *separator, nullptr))};
        out.insert(out.end(), parts.end() - most, parts.end());
        return out;
      }
      return parts;
    });
  if (name == "splitlines")
    return method([](const std::string& t, const Arguments&) {
      List parts = split_text(t, "\n", -1);
      if (!parts.empty() && parts.back().string()->empty()) parts.pop_back();
      return parts;
    });
  if (name == "startswith" || name == "endswith")
    return method([start = name == "startswith"](const std::string& t, const Arguments& a) {
      return any_of(Given("startswith", a, 1).need(0, "prefix"),
                    [&](const std::string& p) { return start ? t.starts_with(p) : t.ends_with(p); });
    });
  if (name == "replace")
    return method([](const std::string& t, const Arguments& a) {
      const Given given("replace", a, 3);
      return replaced(t, given.text(0, "old"), given.text(1, "new"), given.integer(2, "count", -1));
    });
  if (name == "find" || name == "rfind" || name == "index")
    return method([which = std::string(name)](const std::string& t, const Arguments& a) {
      const std::string part = Given(which, a, 1).text(0, "sub");
      const size_t at = which == "rfind" ? t.rfind(part) : t.find(part);
      if (at == std::string::npos && which == "index")
        fail(fmt::format("{} is not in the string", in_quotes(part)));
      return at == std::string::npos ? int64_t(-1) : length_of(Value(t.substr(0, at)));
    });
  if (name == "count")
    return method([](const std::string& t, const Arguments& a) {
      const std::string part = Given("count", a, 1).text(0, "sub");
      if (part.empty()) return length_of(Value(t)) + 1;
      return int64_t(split_text(t, part, -1).size()) - 1;
    });
  if (name == "join")
    return method([](const std::string& t, const Arguments& a) {
      return joined(Given("join", a, 1).need(0, "iterable"), t, nullptr);
    });
  if (name == "removeprefix" || name == "removesuffix")
    return method([prefix = name == "removeprefix"](const std::string& t, const Arguments& a) {
      const std::string part = Given("removeprefix", a, 1).text(0, "prefix");
      if (prefix) return t.starts_with(part) ? t.substr(part.size()) : t;
      return t.ends_with(part) ? t.substr(0, t.size() - part.size()) : t;
    });
  if (name == "isdigit")
    return method([](const std::string& t, const Arguments&) {
      return !t.empty() && std::all_of(t.begin(), t.end(), [](char c) { return c >= '0' && c <= '9'; });
    });
  return Value::Undefined{std::string(name)};
}

Value dict_method(const Value& x, std::string_view name) {
  const auto method = [&](auto f) {
    return Value(Function([x, f](const Arguments& a) { return Value(f(*x.dict(), a)); }));
  };
  if (name == "items") return method([](Dict& d, const Arguments&) { return pairs_of(d); });
  if (name == "keys" || name == "values")
    return method([keys = name == "keys"](Dict& d, const Arguments&) {
      List out;
      for (const auto& [key, value] : d) out.push_back(keys ? Value(key) : value);
      return out;
    });
  if (name == "get")
    return Value(Function([x](const Arguments& a) {
      const Given given("get", a, 2);
      const Value* found = x.find(given.need(0, "key").str());
      const Value* otherwise = given.find(1, "default");
      return found ? *found : otherwise ? *otherwise : Value(nullptr);
    }));
  if (name == "update")
    return method([](Dict& d, const Arguments& a) {
      const Value* other = Given("update", a, 1).find(0, "other");
      Dict added = other && other->dict() ? *other->dict() : Dict();
      added.insert(added.end(), a.named.begin(), a.named.end());
      for (auto& [key, value] : added) {
        const auto at = std::find_if(d.begin(), d.end(), [&](const auto& e) { return e.first == key; });
        if (at == d.end())
          d.emplace_back(key, value);
        else
          at->second = value;
      }
      return Value(nullptr);
    });
  return Value::Undefined{std::string(name)};
}

Value list_method(const Value& x, std::string_view name) {
  const auto method = [&](auto f) {
    return Value(Function([x, f](const Arguments& a) { return Value(f(*x.list(), a)); }));
  };
  if (name == "append")
    return method([](List& l, const Arguments& a) {
      l.push_back(Given("append", a, 1).need(0, "object"));
      return Value(nullptr);
    });
  if (name == "extend")
    return method([](List& l, const Arguments& a) {
      const List more = items_of("extend", Given("extend", a, 1).need(0, "iterable"));
      l.insert(l.end(), more.begin(), more.end());
      return Value(nullptr);
    });
  if (name == "pop")
    return method([](List& l, const Arguments& a) {
      int64_t at = Given("pop", a, 1).integer(0, "index", -1);
      if (at < 0) at += int64_t(l.size());
      if (at < 0 || at >= int64_t(l.size()))
        fail(fmt::format("pop: a list of {} has no such item", l.size()));
      Value taken = l[size_t(at)];
      l.erase(l.begin() + at);
      return taken;
    });
  if (name == "index" || name == "count")
    return method([index = name == "index"](List& l, const Arguments& a) {
      const Value& wanted = Given("index", a, 1).need(0, "value");
      if (!index) return int64_t(std::count(l.begin(), l.end(), wanted));
      const auto at = std::find(l.begin(), l.end(), wanted);
      if (at == l.end()) fail(fmt::format("{} is not in the list", wanted.repr()));
      return int64_t(at - l.begin());
    });
  return Value::Undefined{std::string(name)};
}

} // namespace

Value method_of(const Value& x, std::string_view name) {
  if (x.string()) return string_method(*x.string(), name);
  if (x.dict()) return dict_method(x, name);
  if (x.list()) return list_method(x, name);
  return Value::Undefined{std::string(name)};
}

} // namespace luminal::jinja
