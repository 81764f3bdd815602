// search/measure_log.cpp -- questions and answers as lines, written and read.
#include "search/measure_log.h"
#include "base/check.h"
#include "base/file.h"
#include "base/text.h"
#include "search/tuning_file.h"
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace luminal::search {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* log_key = "luminal_search_log";
constexpr const char *kept_key = "kept", *quarantined_key = "quarantined", *samples_key = "samples",
                     *yes_key = "yes", *question_key = "ask", *end_key = "end";

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n') + 1)); }

/// The entry as `luminal cache export` has it, and back.
Json entry_json(const TuningEntry& entry) {
  const std::string text = export_entries({entry});
  return Json::parse(text.substr(text.find('\n') + 1));
}
TuningEntry entry_of(const Json& json) {
  auto read = import_entries(first_line(export_entries({})) + line_of(json));
  if (!read) throw Error(read.error());
  if (!read->mistakes.empty()) throw Error(read->mistakes[0]);
  return read->entries.at(0);
}

Json head_json(const MeasureLogHead& head) {
  return {{log_key, MeasureLog::version},
          {"program", head.program.hex()},
          {"instructions", head.machine.instructions},
          {"llvm", head.machine.llvm},
          {"codegen", hex16(head.machine.codegen)},
          {"device", hex16(head.machine.device)},
          {"threads", head.machine.threads},
          {"mode", head.mode},
          {"seconds", head.seconds},
          {"filter", head.filter},
          {"confirm", head.confirm},
          {"profile", Json::parse(head.profile)},
          {"about", head.about.empty() ? Json::object() : Json::parse(head.about)}};
}

MeasureLogHead head_of(const Json& json) {
  MeasureLogHead head;
  const auto hash = [&](const char* name, auto& to) {
    if (!parse_hex(json.at(name).get<std::string>(), to))
      throw Error(fmt::format("{}: hexadecimal digits are expected", name));
  };
  hash("program", head.program);
  hash("codegen", head.machine.codegen);
  hash("device", head.machine.device);
  head.machine.instructions = json.at("instructions").get<std::string>();
  head.machine.llvm = json.at("llvm").get<std::string>();
  head.machine.threads = json.at("threads").get<int>();
  head.mode = json.at("mode").get<std::string>();
  head.seconds = json.at("seconds").get<double>();
  head.filter = json.at("filter").get<std::string>();
  head.confirm = json.at("confirm").get<bool>();
  head.profile = json.at("profile").dump();
  head.about = json.at("about").dump();
  return head;
}

/// The library's words without its own numbers.
std::string reason_of(const std::exception& error) {
  std::string_view reason = error.what();
  if (reason.starts_with("[json.exception")) reason.remove_prefix(reason.find("] ") + 2);
  return utf8_sanitized(reason);
}

} // namespace

struct MeasureLog::Impl {
  enum class Kind : uint8_t { answer, sample, yes };
  struct Event {
    Kind kind = Kind::answer;
    std::string question, subject;
    Answer answer;
    int64_t after = 0; // of a yes: how often it was no since the event before
    int candidate = 0; // of a sample
    int line = 0;
  };

  MeasureLogHead head;
  bool replays = false;
  std::string path; // that it was read from
  // Written:
  std::string lines; // answers so far
  Json samples;      // of the line that is open
  int64_t no = 0;    // of questions since the last event
  std::shared_ptr<TuningCache> cache;
  std::vector<TuningEntry> entries;
  std::vector<QuarantineEntry> quarantined;
  std::set<Hash128> structures, keys;
  // Read:
  std::deque<Event> left;
  int last_line = 0;

  void flush_samples() {
    if (samples.empty()) return;
    lines += line_of({{samples_key, std::exchange(samples, Json::array())}});
  }
  void write(const Json& json) {
    flush_samples();
    lines += line_of(json);
  }

  [[noreturn]] void refuse(const std::string& wanted) const {
    if (left.empty())
      throw Error(fmt::format("the log {} ends too early: this search asks for {}", path, wanted));
    const Event& there = left.front();
    std::string has = there.question;
    if (there.kind == Kind::sample) has = fmt::format("a time of candidate {}", there.candidate);
    if (there.kind == Kind::yes) has = fmt::format("\"{}\": yes", there.question);
    if (!there.subject.empty()) has += " of " + there.subject;
    throw Error(fmt::format("the log {} is not of this search: line {} has {}, and this search asks for {}",
                            path, there.line, has, wanted));
  }
  Event take() {
    Event event = std::move(left.front());
    left.pop_front();
    no = 0;
    last_line = event.line;
    return event;
  }

  void read_line(const Json& json, int line) {
    if (json.contains(kept_key)) {
      entries.push_back(entry_of(json[kept_key]));
      entries.back().checked = json.at("checked").get<bool>();
    } else if (json.contains(quarantined_key)) {
      QuarantineEntry q;
      const Json& parts = json[quarantined_key];
      if (!parse_hex(parts.at(0).get<std::string>(), q.key) ||
          !parse_hex(parts.at(1).get<std::string>(), q.schedule))
        throw Error("quarantined: two hashes are expected");
      q.cause = parts.at(2).get<std::string>();
      quarantined.push_back(std::move(q));
    } else if (json.contains(samples_key)) {
      const Json& parts = json[samples_key];
      if (!parts.is_array() || parts.size() % 2 != 0) throw Error("samples: pairs are expected");
      for (size_t i = 0; i < parts.size(); i += 2) {
        Event& event = left.emplace_back();
        event.kind = Kind::sample;
        event.line = line;
        event.candidate = parts[i].get<int>();
        if (parts[i + 1].is_string())
          event.answer = {false, parts[i + 1].get<std::string>(), {}};
        else
          event.answer.numbers = {parts[i + 1].get<double>()};
      }
    } else if (json.contains(yes_key)) {
      Event& event = left.emplace_back();
      event.kind = Kind::yes;
      event.line = line;
      event.question = json[yes_key].get<std::string>();
      event.after = json.at("after").get<int64_t>();
    } else {
      Event& event = left.emplace_back();
      event.line = line;
      event.question = json.at(question_key).get<std::string>();
      event.subject = json.at("of").get<std::string>();
      event.answer.ok = json.at("ok").get<bool>();
      event.answer.text = json.at("text").get<std::string>();
      event.answer.numbers = json.at("numbers").get<std::vector<double>>();
    }
  }
};

MeasureLog::MeasureLog(MeasureLogHead head) : impl_(std::make_unique<Impl>()) {
  impl_->head = std::move(head);
  impl_->samples = Json::array();
}
MeasureLog::~MeasureLog() = default;

Result<std::shared_ptr<MeasureLog>> MeasureLog::read(const std::string& path) {
  auto text = read_file(path);
  if (!text) return text.failure();
  const auto fails = [&](const std::string& why) { return Failure{fmt::format("{}: {}", path, why)}; };
  auto log = std::make_shared<MeasureLog>(MeasureLogHead());
  Impl& impl = *log->impl_;
  impl.replays = true;
  impl.path = path;
  int number = 0;
  bool ended = false;
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size() - 1);
    const std::string_view line = std::string_view(*text).substr(at, end - at);
    ++number;
    try {
      if (ended) throw Error("nothing is expected behind the end");
      const Json json = Json::parse(line);
      if (!json.is_object()) throw Error("an object is expected");
      if (number == 1) {
        if (!json.contains(log_key)) throw Error("no head");
        if (json[log_key] != version)
          return fails(fmt::format("version {} of logs, this program reads version {}", json[log_key].dump(),
                                   version));
        impl.head = head_of(json);
      } else if (json.contains(end_key)) {
        Hash128 sum;
        if (!parse_hex(json[end_key].get<std::string>(), sum) ||
            sum != hash128(std::string_view(*text).substr(0, at)))
          return fails("is damaged: its checksum is another one");
        ended = true;
      } else
        impl.read_line(json, number);
    } catch (const std::exception& error) {
      if (number == 1)
        return fails(
            fmt::format("is not a log of a search: line 1 has no {{\"{}\": {}, ...}}", log_key, version));
      return fails(!ended && end + 1 >= text->size()
                       ? std::string("has no end: the search that wrote it, or a copy of it, was cut off")
                       : fmt::format("line {}: {}", number, reason_of(error)));
    }
    at = end + 1;
  }
  if (number == 0) return fails("is empty");
  if (!ended) return fails("has no end: the search that wrote it, or a copy of it, was cut off");
  return log;
}

bool MeasureLog::replays() const { return impl_->replays; }
const MeasureLogHead& MeasureLog::head() const { return impl_->head; }

MeasureLog::Answer MeasureLog::ask(std::string_view question, std::string_view subject,
                                   const std::function<Answer()>& machine) {
  Impl& impl = *impl_;
  if (impl.replays) {
    if (impl.left.empty() || impl.left.front().kind != Impl::Kind::answer ||
        impl.left.front().question != question || impl.left.front().subject != subject)
      impl.refuse(subject.empty() ? std::string(question) : fmt::format("{} of {}", question, subject));
    return impl.take().answer;
  }
  Answer answer = machine();
  for (const double number : answer.numbers)
    LUMINAL_CHECK(std::isfinite(number), "{} of {} is not a number", question, subject);
  impl.no = 0;
  impl.write({{question_key, question},
              {"of", subject},
              {"ok", answer.ok},
              {"text", answer.text},
              {"numbers", answer.numbers}});
  return answer;
}

Result<double> MeasureLog::sample(int candidate, const std::function<Result<double>()>& machine) {
  Impl& impl = *impl_;
  if (impl.replays) {
    if (impl.left.empty() || impl.left.front().kind != Impl::Kind::sample ||
        impl.left.front().candidate != candidate)
      impl.refuse(fmt::format("a time of candidate {}", candidate));
    Answer answer = impl.take().answer;
    if (!answer.ok) return Failure{std::move(answer.text)};
    return answer.numbers[0];
  }
  Result<double> seconds = machine();
  if (seconds && !std::isfinite(*seconds)) seconds = Failure{"its time is not a time"};
  impl.no = 0;
  impl.samples.push_back(candidate);
  impl.samples.push_back(seconds ? Json(*seconds) : Json(seconds.error()));
  return seconds;
}

bool MeasureLog::yes(std::string_view question, const std::function<bool()>& machine) {
  Impl& impl = *impl_;
  if (impl.replays) {
    const bool next = !impl.left.empty() && impl.left.front().kind == Impl::Kind::yes;
    if (next && impl.left.front().after == impl.no) {
      if (impl.left.front().question != question) impl.refuse(fmt::format("\"{}\"", question));
      impl.take();
      return true;
    }
    ++impl.no;
    return false;
  }
  if (!machine()) {
    ++impl.no;
    return false;
  }
  impl.write({{yes_key, question}, {"after", impl.no}});
  impl.no = 0;
  return true;
}

std::shared_ptr<TuningCache> MeasureLog::cache_for(std::shared_ptr<TuningCache> cache) {
  Impl& impl = *impl_;
  if (impl.cache) return impl.cache; // a search for other sizes
  if (impl.replays) cache = nullptr;
  if (cache) {
    const TuningKey& here = impl.head.machine;
    impl.entries = cache->entries();
    std::erase_if(impl.entries, [&](const TuningEntry& entry) {
      return entry.key.device != here.device || entry.key.instructions != here.instructions ||
             entry.key.codegen != here.codegen || entry.key.llvm != here.llvm;
    });
    impl.quarantined = cache->quarantine_entries();
  }
  impl.cache = std::make_shared<TuningCache>("");
  for (const TuningEntry& entry : impl.entries) impl.cache->put(entry, TuningCache::Keep::newest);
  for (const QuarantineEntry& q : impl.quarantined) impl.cache->quarantine(q);
  impl.cache->set_mirror(std::move(cache));
  return impl.cache;
}

void MeasureLog::uses(const TuningKey& key) {
  impl_->structures.insert(key.structure);
  impl_->keys.insert(key.hash());
}

std::string MeasureLog::text() const {
  Impl& impl = *impl_;
  impl.flush_samples();
  std::string text = line_of(head_json(impl.head));
  for (const TuningEntry& entry : impl.entries)
    if (impl.structures.contains(entry.key.structure))
      text += line_of({{kept_key, entry_json(entry)}, {"checked", entry.checked}});
  for (const QuarantineEntry& q : impl.quarantined)
    if (impl.keys.contains(q.key))
      text += line_of({{quarantined_key, {q.key.hex(), q.schedule.hex(), q.cause}}});
  text += impl.lines;
  return text + line_of({{end_key, hash128(text).hex()}});
}

void MeasureLog::require_end() const {
  if (!impl_->left.empty())
    throw Error(fmt::format("the log {} is not of this search, which has ended at line {} of it", impl_->path,
                            impl_->last_line));
}

Result<void> outcome(MeasureLog* log, std::string_view question, std::string_view subject,
                     const std::function<Result<void>()>& machine) {
  if (!log) return machine();
  std::optional<Failure> failure; // whole, where it is not out of a log
  const auto answer = log->ask(question, subject, [&]() -> MeasureLog::Answer {
    const auto done = machine();
    if (!done) failure = done.failure();
    return {done.ok(), done ? "" : done.error(), {}};
  });
  if (!answer.ok) return failure.value_or(Failure{answer.text});
  return {};
}

Result<double> seconds(MeasureLog* log, std::string_view question, std::string_view subject,
                       const std::function<Result<double>()>& machine) {
  if (!log) return machine();
  const auto answer = log->ask(question, subject, [&]() -> MeasureLog::Answer {
    const auto time = machine();
    return {time.ok(), time ? "" : time.error(), time ? std::vector{*time} : std::vector<double>()};
  });
  if (!answer.ok) return Failure{answer.text};
  return answer.numbers.at(0);
}

} // namespace luminal::search
