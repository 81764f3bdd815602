// formats/chat_template.cpp -- what a template does with its variables.
#include "formats/chat_template.h"
#include "formats/jinja_syntax.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include "luminal/error.h"
#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>

namespace luminal {

using namespace jinja;

struct ChatTemplate::Program {
  std::string name;
  Block block;
};

namespace {

constexpr size_t most_text = size_t(16) << 20;
constexpr int most_steps = 1000000, most_calls = 100;

/// The words of a template's raise_exception, on their way out.
struct Raised {
  std::string text;
};

enum class Flow : uint8_t { next, break_loop, continue_loop };

class Evaluator {
public:
  Evaluator(const std::string& name, const Dict& variables) : name_(name) {
    frames_.emplace_back();
    builtins();
    for (const auto& [key, value] : variables) frames_[0][key] = value;
  }

  std::string run(const Block& block) {
    std::string out;
    execute(block, out);
    return out;
  }

private:
  using Frame = std::map<std::string, Value>;

  template <class F> auto at_line(int line, F&& f) {
    try {
      return f();
    } catch (const Error& error) {
      const std::string text = error.what();
      if (text.starts_with(name_ + ": line ")) throw; // the innermost line is the right one
      throw Error(fmt::format("{}: line {}: {}", name_, line, text));
    }
  }
  [[noreturn]] static void fail(const std::string& what) { throw Error(what); }
  void count_step(int line) {
    if (++steps_ > most_steps)
      throw Error(fmt::format("{}: line {}: more than {} steps", name_, line, most_steps));
  }
  void append(std::string& out, const std::string& text, int line) {
    if (out.size() + text.size() > most_text)
      throw Error(fmt::format("{}: line {}: a text of more than {} bytes", name_, line, most_text));
    out += text;
  }

  void builtins() {
    Frame& globals = frames_[0];
    globals["raise_exception"] = Function([](const Arguments& a) -> Value {
      throw Raised{a.positional.empty() ? std::string("the template refuses the messages")
                                        : a.positional[0].str()};
    });
    globals["namespace"] = Function([](const Arguments& a) -> Value {
      Dict members = a.positional.empty() || !a.positional[0].dict() ? Dict() : *a.positional[0].dict();
      members.insert(members.end(), a.named.begin(), a.named.end());
      return members;
    });
    globals["dict"] = globals["namespace"];
    globals["range"] = Function([](const Arguments& a) -> Value {
      int64_t numbers[3] = {0, 0, 1};
      const size_t n = a.positional.size();
      if (n < 1 || n > 3) fail(fmt::format("range with {} arguments", n));
      for (size_t i = 0; i < n; i++) {
        const auto* value = a.positional[i].as<int64_t>();
        if (!value) fail(fmt::format("range of {}", a.positional[i].kind()));
        numbers[n == 1 ? 1 : i] = *value;
      }
      const auto [first, end, step] = numbers;
      if (step == 0) fail("range with a step of 0");
      List all;
      for (int64_t i = first; step > 0 ? i < end : i > end; i += step) {
        if (all.size() >= size_t(most_steps)) fail("a range that is too long");
        all.emplace_back(i);
      }
      return all;
    });
    globals["strftime_now"] = Function([](const Arguments& a) -> Value {
      const std::time_t now = std::time(nullptr);
      std::tm parts{};
      localtime_r(&now, &parts);
      char text[256];
      const std::string format = a.positional.empty() ? "%Y-%m-%d" : a.positional[0].str();
      return std::string(text, std::strftime(text, sizeof text, format.c_str(), &parts));
    });
  }

  // ---- statements ----
  Flow execute(const Block& block, std::string& out) {
    for (const Statement& s : block) {
      count_step(s.line);
      const Flow flow = execute(s, out);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }
  Flow execute(const Statement& s, std::string& out) {
    switch (s.kind) {
    case Statement::Kind::text: append(out, s.text, s.line); return Flow::next;
    case Statement::Kind::output: append(out, value(*s.value).str(), s.line); return Flow::next;
    case Statement::Kind::condition:
      for (const auto& [test, body] : s.branches)
        if (!test || value(*test).truth()) return execute(body, out);
      return Flow::next;
    case Statement::Kind::loop: loop(s, out); return Flow::next;
    case Statement::Kind::set: assign(s); return Flow::next;
    case Statement::Kind::macro: frames_.back()[s.text] = macro(s); return Flow::next;
    case Statement::Kind::filter: {
      std::string inner;
      const Flow flow = scoped(s.body, inner);
      append(out, filtered(*s.value, inner).str(), s.line);
      return flow;
    }
    case Statement::Kind::break_loop: return Flow::break_loop;
    case Statement::Kind::continue_loop: return Flow::continue_loop;
    case Statement::Kind::scope: return scoped(s.body, out);
    }
    return Flow::next;
  }
  Flow scoped(const Block& body, std::string& out) {
    frames_.emplace_back();
    const Flow flow = execute(body, out);
    frames_.pop_back();
    return flow;
  }

  void unpack(const Statement& s, const std::vector<std::string>& names, const Value& given) {
    if (names.size() == 1) {
      frames_.back()[names[0]] = given;
      return;
    }
    const List* parts = given.list();
    if (!parts || parts->size() != names.size())
      throw Error(fmt::format("{}: line {}: {} for {} variables", name_, s.line,
                              parts ? fmt::format("{} values", parts->size()) : given.kind(), names.size()));
    for (size_t i = 0; i < names.size(); i++) frames_.back()[names[i]] = (*parts)[i];
  }

  void assign(const Statement& s) {
    Value given;
    if (s.value) {
      given = value(*s.value);
    } else {
      std::string text;
      scoped(s.body, text);
      given = s.filter ? filtered(*s.filter, text) : Value(text);
    }
    if (s.member.empty()) return unpack(s, s.names, given);
    Value* target = lookup(s.names[0]);
    if (!target || !target->dict())
      throw Error(fmt::format("{}: line {}: {} is not a namespace", name_, s.line, s.names[0]));
    set_member(*target->dict(), s.member, given);
  }
  static void set_member(Dict& dict, const std::string& key, const Value& given) {
    for (auto& [name, held] : dict)
      if (name == key) {
        held = given;
        return;
      }
    dict.emplace_back(key, given);
  }

  void loop(const Statement& s, std::string& out) {
    const Value over = value(*s.value);
    List items;
    if (over.is_undefined())
      throw Error(fmt::format("{}: line {}: {} is undefined", name_, s.line, undefined_name(over)));
    items = at_line(s.line, [&] { return *apply_filter("list", over, {}).list(); });
    if (s.filter) {
      List kept;
      for (const Value& item : items) {
        count_step(s.line);
        frames_.emplace_back();
        unpack(s, s.names, item);
        if (value(*s.filter).truth()) kept.push_back(item);
        frames_.pop_back();
      }
      items = std::move(kept);
    }
    if (items.empty()) {
      scoped(s.otherwise, out);
      return;
    }
    const auto count = int64_t(items.size());
    for (int64_t i = 0; i < count; i++) {
      count_step(s.line);
      frames_.emplace_back();
      Dict state{{"index", i + 1},        {"index0", i},
                 {"revindex", count - i}, {"revindex0", count - i - 1},
                 {"first", i == 0},       {"last", i == count - 1},
                 {"length", count}};
      if (i > 0) state.emplace_back("previtem", items[size_t(i - 1)]);
      if (i + 1 < count) state.emplace_back("nextitem", items[size_t(i + 1)]);
      state.emplace_back("cycle", Function([i](const Arguments& a) -> Value {
                           if (a.positional.empty()) fail("cycle of nothing");
                           return a.positional[size_t(i) % a.positional.size()];
                         }));
      frames_.back()["loop"] = state;
      unpack(s, s.names, items[size_t(i)]);
      const Flow flow = execute(s.body, out);
      frames_.pop_back();
      if (flow == Flow::break_loop) break;
    }
  }

  Value macro(const Statement& s) {
    return Function([this, &s](const Arguments& a) -> Value {
      if (++calls_ > most_calls) fail(fmt::format("macro {} calls itself too often", s.text));
      if (a.positional.size() > s.parameters.size())
        fail(fmt::format("macro {} takes {} arguments, {} are given", s.text, s.parameters.size(),
                         a.positional.size()));
      for (const auto& [name, _] : a.named)
        if (std::none_of(s.parameters.begin(), s.parameters.end(),
                         [&](const auto& p) { return p.first == name; }))
          fail(fmt::format("macro {} has no parameter {}", s.text, name));
      // A macro sees the variables of the template, not those of its caller.
      std::vector<Frame> callers(std::make_move_iterator(frames_.begin() + 1),
                                 std::make_move_iterator(frames_.end()));
      frames_.resize(1);
      frames_.emplace_back();
      for (size_t i = 0; i < s.parameters.size(); i++) {
        const auto& [name, otherwise] = s.parameters[i];
        const auto named = std::find_if(a.named.begin(), a.named.end(),
                                        [&, &n = name](const auto& p) { return p.first == n; });
        Value given = i < a.positional.size()  ? a.positional[i]
                      : named != a.named.end() ? named->second
                      : otherwise              ? value(*otherwise)
                                               : Value(Value::Undefined{name});
        frames_.back()[name] = std::move(given);
      }
      std::string out;
      execute(s.body, out);
      frames_.resize(1);
      frames_.insert(frames_.end(), std::make_move_iterator(callers.begin()),
                     std::make_move_iterator(callers.end()));
      calls_--;
      return out;
    });
  }

  // ---- expressions ----
  Value* lookup(const std::string& name) {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame)
      if (const auto at = frame->find(name); at != frame->end()) return &at->second;
    return nullptr;
  }
  static std::string undefined_name(const Value& v) {
    const std::string& name = v.as<Value::Undefined>()->name;
    return name.empty() ? "a value" : detail::in_quotes(name);
  }
  void need_defined(const Value& v) {
    if (v.is_undefined()) fail(fmt::format("{} is undefined", undefined_name(v)));
  }

  Arguments arguments(const Call& call) {
    Arguments a;
    for (const auto& e : call.positional) a.positional.push_back(value(*e));
    for (const auto& [name, e] : call.named) a.named.emplace_back(name, value(*e));
    return a;
  }
  /// The filters of a block on its text.
  Value filtered(const Expression& e, const std::string& text) {
    const Value x = e.parts[0] ? filtered(*e.parts[0], text) : Value(text);
    return at_line(e.line, [&] { return apply_filter(e.text, x, arguments(e.call)); });
  }

  Value value(const Expression& e) {
    count_step(e.line);
    return at_line(e.line, [&] { return evaluate(e); });
  }

  Value evaluate(const Expression& e) {
    using Kind = Expression::Kind;
    switch (e.kind) {
    case Kind::literal: return e.value;
    case Kind::name: {
      const Value* found = lookup(e.text);
      return found ? *found : Value(Value::Undefined{e.text});
    }
    case Kind::list: {
      List items;
      for (const auto& part : e.parts) items.push_back(value(*part));
      return items;
    }
    case Kind::dict: {
      Dict dict;
      for (size_t i = 0; i < e.parts.size(); i += 2)
        set_member(dict, value(*e.parts[i]).str(), value(*e.parts[i + 1]));
      return dict;
    }
    case Kind::unary: {
      const Value x = value(*e.parts[0]);
      if (e.text == "not") return !x.truth();
      return arithmetic(e.text, Value(0), x);
    }
    case Kind::binary: {
      const Value a = value(*e.parts[0]);
      if (e.text == "and") return a.truth() ? value(*e.parts[1]) : a;
      if (e.text == "or") return a.truth() ? a : value(*e.parts[1]);
      const Value b = value(*e.parts[1]);
      return e.text == "~" ? joined(a.str(), b.str()) : arithmetic(e.text, a, b);
    }
    case Kind::compare: {
      Value a = value(*e.parts[0]);
      for (size_t i = 0; i < e.texts.size(); i++) {
        Value b = value(*e.parts[i + 1]);
        if (!compared(e.texts[i], a, b)) return false;
        a = std::move(b);
      }
      return true;
    }
    case Kind::choice:
      if (value(*e.parts[0]).truth()) return value(*e.parts[1]);
      return e.parts[2] ? value(*e.parts[2]) : Value();
    case Kind::member: {
      const Value x = value(*e.parts[0]);
      need_defined(x);
      if (const Value* found = x.find(e.text)) return *found;
      return method_of(x, e.text);
    }
    case Kind::item: return item(value(*e.parts[0]), value(*e.parts[1]));
    case Kind::slice: return slice(e);
    case Kind::call: {
      const Value f = value(*e.parts[0]);
      need_defined(f);
      if (!f.function()) fail(fmt::format("{} is called", f.kind()));
      return (*f.function())(arguments(e.call));
    }
    case Kind::filter: {
      const Value x = value(*e.parts[0]);
      if (e.text != "default" && e.text != "d" && e.text != "items" && e.text != "list" &&
          e.text != "string" && e.text != "length" && e.text != "count" && e.text != "join")
        need_defined(x);
      if (x.is_undefined() &&
          (e.text == "list" || e.text == "length" || e.text == "count" || e.text == "join"))
        return apply_filter(e.text, List(), arguments(e.call));
      return apply_filter(e.text, x, arguments(e.call));
    }
    case Kind::test: return apply_test(e.text, value(*e.parts[0]), arguments(e.call)) != e.negated;
    }
    return {};
  }

  static bool compared(const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return a == b;
    if (op == "!=") return !(a == b);
    if (op == "in") return contains(b, a);
    if (op == "not in") return !contains(b, a);
    if (op == "<") return less(a, b);
    if (op == ">") return less(b, a);
    if (op == "<=") return !less(b, a);
    return !less(a, b);
  }

  static Value item(const Value& x, const Value& key) {
    if (x.is_undefined()) fail(fmt::format("{} is undefined", undefined_name(x)));
    if (key.string()) {
      if (const Value* found = x.find(*key.string())) return *found;
      return x.dict() ? Value(Value::Undefined{*key.string()}) : method_of(x, *key.string());
    }
    const auto* index = key.as<int64_t>();
    if (index && (x.list() || x.string())) {
      const Value list = apply_filter("list", x, {});
      const auto size = int64_t(list.list()->size());
      const int64_t at = *index < 0 ? *index + size : *index;
      return at >= 0 && at < size ? (*list.list())[size_t(at)] : Value();
    }
    return {};
  }

  Value slice(const Expression& e) {
    const Value x = value(*e.parts[0]);
    need_defined(x);
    const Value all = apply_filter("list", x, {});
    const auto size = int64_t(all.list()->size());
    std::optional<int64_t> bounds[3];
    for (size_t i = 0; i < 3; i++) {
      if (!e.parts[i + 1]) continue;
      const Value bound = value(*e.parts[i + 1]);
      if (bound.is_none()) continue;
      if (!bound.as<int64_t>()) fail(fmt::format("a slice to {}", bound.kind()));
      bounds[i] = *bound.as<int64_t>();
    }
    const int64_t step = bounds[2].value_or(1);
    if (step == 0) fail("a slice with a step of 0");
    const auto clamped = [&](std::optional<int64_t> given, int64_t otherwise) {
      if (!given) return otherwise;
      const int64_t at = *given < 0 ? *given + size : *given;
      return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
    };
    const int64_t first = clamped(bounds[0], step > 0 ? 0 : size - 1),
                  end = clamped(bounds[1], step > 0 ? size : -1);
    List out;
    for (int64_t i = first; step > 0 ? i < end : i > end; i += step) out.push_back((*all.list())[size_t(i)]);
    return x.string() ? apply_filter("join", out, {}) : Value(out);
  }

  static std::optional<int64_t> whole(const Value& v) {
    if (const auto* i = v.as<int64_t>()) return *i;
    if (const auto* b = v.as<bool>()) return *b ? 1 : 0;
    return {};
  }
  static Value joined(const std::string& a, const std::string& b) {
    if (a.size() + b.size() > most_text) fail("a text that is too long");
    return a + b;
  }
  static Value arithmetic(const std::string& op, const Value& a, const Value& b) {
    if (op == "+" && a.string() && b.string()) return joined(*a.string(), *b.string());
    if (op == "+" && a.list() && b.list()) {
      List both = *a.list();
      both.insert(both.end(), b.list()->begin(), b.list()->end());
      return both;
    }
    if (op == "*" && a.string() && whole(b)) {
      std::string out;
      if (double(a.string()->size()) * double(*whole(b)) > double(most_text)) fail("a text that is too long");
      for (int64_t i = 0; i < *whole(b); i++) out += *a.string();
      return out;
    }
    const auto wrong = [&]() { fail(fmt::format("{} {} {}", a.kind(), op, b.kind())); };
    if (const auto x = whole(a), y = whole(b); x && y && op != "/") {
      int64_t r = 0;
      bool over = false;
      if (op == "+") over = __builtin_add_overflow(*x, *y, &r);
      if (op == "-") over = __builtin_sub_overflow(*x, *y, &r);
      if (op == "*") over = __builtin_mul_overflow(*x, *y, &r);
      if (op == "//" || op == "%") {
        if (*y == 0) fail("a division by zero");
        if (*y == -1) return op == "%" ? Value(0) : arithmetic("-", Value(0), a);
        int64_t quotient = *x / *y;
        if (*x % *y != 0 && (*x < 0) != (*y < 0)) quotient--;
        return op == "//" ? quotient : *x - quotient * *y;
      }
      if (op == "**") {
        if (*y < 0) return std::pow(double(*x), double(*y));
        r = 1;
        for (int64_t i = 0; i < *y && !over && !(r == 0 || (*x == 1)); i++)
          over = __builtin_mul_overflow(r, *x, &r);
      }
      if (over) fail("an integer that is too large");
      return r;
    }
    const auto real = [&](const Value& v) -> double {
      if (const auto* d = v.as<double>()) return *d;
      if (const auto i = whole(v)) return double(*i);
      wrong();
      return 0;
    };
    const double x = real(a), y = real(b);
    if (op == "+") return x + y;
    if (op == "-") return x - y;
    if (op == "*") return x * y;
    if (op == "**") return std::pow(x, y);
    if (y == 0) fail("a division by zero");
    if (op == "/") return x / y;
    if (op == "//") return std::floor(x / y);
    return x - std::floor(x / y) * y;
  }

  const std::string& name_;
  std::vector<Frame> frames_;
  int steps_ = 0, calls_ = 0;
};

} // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view name) {
  return detail::guarded(name, [&] {
    if (const auto bad = detail::find_invalid_utf8(source))
      throw detail::ParseFailure{fmt::format("{}: not UTF-8 at byte {}", name, *bad)};
    ChatTemplate made;
    made.program_ = std::make_shared<const Program>(Program{std::string(name), parse_template(source, name)});
    return made;
  });
}

std::string ChatTemplate::render(const Dict& variables) const {
  try {
    return Evaluator(program_->name, variables).run(program_->block);
  } catch (const Raised& raised) {
    throw Error(fmt::format("{}: {}", program_->name, raised.text));
  }
}

} // namespace luminal
