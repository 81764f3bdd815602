// models/speech_decoder.cpp -- rules of Whisper's tokens, beam search and sampling.
#include "models/speech_decoder.h"
#include "base/text.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <zlib.h>

namespace luminal::models {
namespace {

constexpr int32_t most_first_time = 50; // the first time stamp is at most one second

double log_sum(std::span<const float> logits) {
  const float most = *std::ranges::max_element(logits);
  if (most == -INFINITY) return -INFINITY;
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - double(most));
  return double(most) + std::log(sum);
}

double compression_of(const std::string& text) {
  uLongf size = compressBound(uLong(text.size()));
  std::vector<Bytef> packed(size);
  if (compress(packed.data(), &size, reinterpret_cast<const Bytef*>(text.data()), uLong(text.size())) != Z_OK)
    return 0;
  return double(text.size()) / double(size);
}

} // namespace

void apply_speech_rules(std::span<float> logits, std::span<const int32_t> said, const SpeechTokens& tokens,
                        bool times) {
  const auto forbid = [&](int64_t from, int64_t to) {
    for (int64_t i = std::max<int64_t>(0, from); i < std::min(to, int64_t(logits.size())); i++)
      logits[size_t(i)] = -INFINITY;
  };
  const auto forbid_one = [&](int32_t token) { forbid(token, token + 1); };
  if (said.empty()) std::ranges::for_each(tokens.blank, forbid_one);
  std::ranges::for_each(tokens.silenced, forbid_one);
  forbid_one(tokens.no_times);
  const int32_t first = tokens.first_time;
  const auto size = int64_t(logits.size());
  if (!times) return forbid(first, size);
  // Time stamps stand in pairs, the end of a segment and the beginning of the next one, and grow.
  const auto is_time = [&](size_t from_end) {
    return from_end <= said.size() && said[said.size() - from_end] >= first;
  };
  const bool last = is_time(1), before = said.size() < 2 || is_time(2);
  if (last && before) forbid(first, size);
  if (last && !before) forbid(0, tokens.end);
  const auto latest = std::ranges::find_if(said.rbegin(), said.rend(), [&](int32_t t) { return t >= first; });
  if (latest != said.rend()) forbid(first, *latest + (last && !before ? 0 : 1));
  if (said.empty()) {
    forbid(0, first);
    forbid(first + most_first_time + 1, size);
  }
  // Where a time stamp of whatever value is likelier than each word, it is one.
  const std::span<const float> words = logits.first(size_t(first)), stamps = logits.subspan(size_t(first));
  if (log_sum(stamps) > double(*std::ranges::max_element(words))) forbid(0, first);
}

SpeechDecoder::SpeechDecoder(SpeechModel& model, const SpeechOptions& options)
    : model_(model), options_(options), random_(options.seed) {
  const SpeechTokens& t = model.tokens();
  std::vector<std::string_view> known;
  for (const auto& [name, id] : t.languages) known.emplace_back(name);
  if (known.empty()) known.emplace_back("en");
  if (!options.language.empty() && std::ranges::find(known, options.language) == known.end())
    throw Error(fmt::format("language {}: the model knows {}", options.language, join(known, " ")));
  if (options.translate && (t.languages.empty() || !t.translate)) throw Error("the model does not translate");
}

std::string SpeechDecoder::detect_language() {
  const SpeechTokens& t = model_.tokens();
  if (t.languages.empty()) return "";
  if (!options_.language.empty()) return options_.language;
  SpeechModel::Places places;
  const int32_t row = 0;
  const std::span<const float> logits = model_.begin({&t.start, 1}, {&row, 1}, places);
  model_.restart();
  return std::ranges::max_element(t.languages, {}, [&](const auto& l) { return logits[size_t(l.second)]; })
      ->first;
}

SpeechText SpeechDecoder::decode(std::span<const int32_t> before, const std::string& language) {
  const SpeechTokens& t = model_.tokens();
  std::vector<int32_t> begin;
  if (!before.empty()) {
    const auto most = size_t(model_.config().text_context / 2 - 1);
    before = before.last(std::min(before.size(), most));
    begin.push_back(t.previous);
    begin.insert(begin.end(), before.begin(), before.end());
  }
  const size_t start = begin.size();
  begin.push_back(t.start);
  for (const auto& [name, id] : t.languages)
    if (name == language) {
      begin.push_back(id);
      begin.push_back(options_.translate ? *t.translate : t.transcribe.value_or(t.start));
    }
  if (!options_.times) begin.push_back(t.no_times);
  SpeechText text;
  for (double temperature = options_.temperature; temperature <= 1 + 1e-9;
       temperature += options_.temperature_step) {
    text = try_once(begin, start, temperature);
    const bool unlikely = text.likelihood < options_.likelihood_limit;
    const bool silence = text.no_speech > options_.no_speech_limit && unlikely;
    if (silence || (!unlikely && text.compression <= options_.compression_limit)) break;
    if (options_.temperature_step <= 0) break;
  }
  return text;
}

std::vector<float> SpeechDecoder::allowed(std::span<const float> logits,
                                          std::span<const int32_t> said) const {
  std::vector<float> out(logits.begin(), logits.end());
  apply_speech_rules(out, said, model_.tokens(), options_.times);
  return out;
}

SpeechText SpeechDecoder::try_once(std::span<const int32_t> begin, size_t start, double temperature) {
  const SpeechTokens& t = model_.tokens();
  const auto vocabulary = size_t(model_.config().vocabulary);
  const size_t most =
      std::min(size_t(model_.config().text_context / 2), size_t(model_.config().text_context) - begin.size());
  model_.restart();
  std::vector<Candidate> texts(1), finished;
  const int32_t rows[] = {int32_t(start), int32_t(begin.size()) - 1};
  std::span<const float> logits = model_.begin(begin, rows, texts[0].places);
  SpeechText result{.temperature = temperature};
  const std::span<const float> first = logits.first(vocabulary);
  result.no_speech = std::exp(double(first[size_t(t.no_speech)]) - log_sum(first));
  logits = logits.subspan(vocabulary);
  std::vector<float> copies;
  if (temperature > 0) {
    texts.resize(size_t(options_.best_of), texts[0]);
    for (size_t i = 0; i < texts.size(); i++) copies.insert(copies.end(), logits.begin(), logits.end());
    logits = copies;
  }
  for (size_t length = 0; length < most; length++) {
    if (temperature > 0)
      extend_samples(texts, logits, temperature);
    else
      extend_beams(texts, logits, finished);
    for (size_t i = texts.size(); temperature > 0 && i-- > 0;)
      if (texts[i].ended) {
        finished.push_back(std::move(texts[i]));
        texts.erase(texts.begin() + std::ptrdiff_t(i));
      }
    if (texts.empty() || (temperature <= 0 && finished.size() >= size_t(options_.beams))) break;
    if (length + 1 == most) break;
    std::vector<int32_t> next;
    std::vector<SpeechModel::Places> places;
    for (Candidate& text : texts) {
      next.push_back(text.said.back());
      places.push_back(std::move(text.places));
    }
    logits = model_.append(next, places);
    for (size_t i = 0; i < texts.size(); i++) texts[i].places = std::move(places[i]);
  }
  const size_t wanted = temperature > 0 ? size_t(options_.best_of) : size_t(options_.beams);
  for (Candidate& text : texts) // likelier ones first
    if (finished.size() < wanted) finished.push_back(std::move(text));
  const Candidate& best = *std::ranges::max_element(finished, {}, &Candidate::score);
  result.tokens = best.said;
  if (best.ended) result.tokens.pop_back();
  result.likelihood = best.sum / double(result.tokens.size() + 1);
  std::vector<int32_t> words;
  for (const int32_t token : result.tokens)
    if (token < t.end) words.push_back(token);
  result.compression = compression_of(std::string(trim(model_.tokenizer().decode(words))));
  return result;
}

void SpeechDecoder::extend_beams(std::vector<Candidate>& texts, std::span<const float> logits,
                                 std::vector<Candidate>& finished) const {
  const auto vocabulary = size_t(model_.config().vocabulary), beams = size_t(options_.beams);
  struct Choice {
    double sum;
    size_t text;
    int32_t token;
  };
  std::vector<Choice> choices;
  const auto likelier = [](const Choice& a, const Choice& b) {
    return a.sum != b.sum ? a.sum > b.sum : a.text != b.text ? a.text < b.text : a.token < b.token;
  };
  for (size_t i = 0; i < texts.size(); i++) {
    const std::vector<float> row = allowed(logits.subspan(i * vocabulary, vocabulary), texts[i].said);
    const double all = log_sum(row);
    std::vector<Choice> own;
    for (size_t token = 0; token < vocabulary; token++)
      if (row[token] > -INFINITY) own.push_back({texts[i].sum + double(row[token]) - all, i, int32_t(token)});
    const size_t keep = std::min(own.size(), beams + 1);
    std::partial_sort(own.begin(), own.begin() + std::ptrdiff_t(keep), own.end(), likelier);
    choices.insert(choices.end(), own.begin(), own.begin() + std::ptrdiff_t(keep));
  }
  std::ranges::sort(choices, likelier);
  std::vector<Candidate> next;
  for (const Choice& choice : choices) {
    Candidate text = texts[choice.text];
    text.said.push_back(choice.token);
    text.sum = choice.sum;
    text.ended = choice.token == model_.tokens().end;
    if (text.ended) {
      if (finished.size() < beams) finished.push_back(std::move(text));
    } else {
      next.push_back(std::move(text));
    }
    if (next.size() == beams) break;
  }
  texts = std::move(next);
}

void SpeechDecoder::extend_samples(std::vector<Candidate>& texts, std::span<const float> logits,
                                   double temperature) {
  const auto vocabulary = size_t(model_.config().vocabulary);
  for (size_t i = 0; i < texts.size(); i++) {
    const std::vector<float> row = allowed(logits.subspan(i * vocabulary, vocabulary), texts[i].said);
    const float most = *std::ranges::max_element(row);
    double total = 0;
    for (const float x : row) total += std::exp((double(x) - double(most)) / temperature);
    // 53 random bits: a number in [0, 1) that does not depend on the standard library.
    double at = double(random_() >> 11) * 0x1p-53 * total;
    int32_t token = int32_t(std::ranges::max_element(row) - row.begin());
    for (size_t k = 0; k < vocabulary; k++) {
      const double part = std::exp((double(row[k]) - double(most)) / temperature);
      if (part > 0 && at < part) {
        token = int32_t(k);
        break;
      }
      at -= part;
    }
    texts[i].sum += double(row[size_t(token)]) - log_sum(row);
    texts[i].said.push_back(token);
    texts[i].ended = token == model_.tokens().end;
  }
}

} // namespace luminal::models
