// formats/tokenizer_split.cpp -- cutting a text into pieces that tokens do not cross.
#include "formats/tokenizer_model.h"
#include <algorithm>

namespace luminal::detail {
namespace {

using Span = std::pair<size_t, size_t>;
using Behavior = SplitStep::Behavior;

/// A stretch of a piece, and whether the pattern found it.
struct Stretch {
  Span span;
  bool found;
};

/// Matches and what lies between them, in order.
void stretches_of(const std::vector<Span>& matches, size_t length, std::vector<Stretch>& out) {
  size_t position = 0;
  for (const auto& [begin, end] : matches) {
    if (begin > position) out.push_back({{position, begin}, false});
    out.push_back({{begin, end}, true});
    position = end;
  }
  if (position < length) out.push_back({{position, length}, false});
}

void cut(const std::vector<Stretch>& stretches, Behavior behavior, size_t offset, std::vector<Span>& out) {
  const auto push = [&](const Span& span) { out.emplace_back(span.first + offset, span.second + offset); };
  bool before = false;
  const size_t first = out.size();
  switch (behavior) {
  case Behavior::removed:
    for (const auto& s : stretches)
      if (!s.found) push(s.span);
    break;
  case Behavior::isolated:
    for (const auto& s : stretches) push(s.span);
    break;
  case Behavior::contiguous:
    for (const auto& s : stretches) {
      if (out.size() > first && s.found == before)
        out.back().second = s.span.second + offset;
      else
        push(s.span);
      before = s.found;
    }
    break;
  case Behavior::merged_with_previous:
    for (const auto& s : stretches) {
      if (out.size() > first && s.found && !before)
        out.back().second = s.span.second + offset;
      else
        push(s.span);
      before = s.found;
    }
    break;
  case Behavior::merged_with_next:
    for (size_t i = stretches.size(); i-- > 0;) {
      const auto& s = stretches[i];
      if (out.size() > first && s.found && !before)
        out.back().first = s.span.first + offset;
      else
        push(s.span);
      before = s.found;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
    break;
  }
}

template <class Predicate>
void characters_that(std::string_view text, Predicate predicate, std::vector<Span>& out) {
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    if (predicate(next_character(text, position))) out.emplace_back(begin, position);
  }
}

void find_matches(const SplitStep& step, std::string_view text, std::vector<Span>& out) {
  switch (step.kind) {
  case SplitStep::Kind::regex:
  case SplitStep::Kind::byte_level:
    if (step.regex) step.regex->find_all(text, out);
    break;
  case SplitStep::Kind::text:
  case SplitStep::Kind::metaspace:
    for (size_t at = text.find(step.text); at != std::string_view::npos;
         at = text.find(step.text, at + step.text.size()))
      out.emplace_back(at, at + step.text.size());
    break;
  case SplitStep::Kind::digits: characters_that(text, is_number, out); break;
  case SplitStep::Kind::punctuation: characters_that(text, is_punctuation, out); break;
  case SplitStep::Kind::whitespace: characters_that(text, is_space, out); break;
  }
}

void cut_pieces(const SplitStep& step, Behavior behavior, Pieces& pieces) {
  std::vector<Span> spans, matches;
  std::vector<Stretch> stretches;
  for (const auto& [begin, end] : pieces.spans) {
    const std::string_view piece = std::string_view(pieces.text).substr(begin, end - begin);
    matches.clear();
    stretches.clear();
    find_matches(step, piece, matches);
    stretches_of(matches, piece.size(), stretches);
    if (step.invert)
      for (auto& s : stretches) s.found = !s.found;
    cut(stretches, behavior, begin, spans);
  }
  pieces.spans = std::move(spans);
}

/// Rewrites every piece; `rewrite(piece, is_first, out)` appends the new text.
template <class Rewrite> void rewrite_pieces(Pieces& pieces, Rewrite rewrite) {
  std::string text;
  text.reserve(pieces.text.size() + pieces.spans.size());
  bool first = true;
  for (auto& [begin, end] : pieces.spans) {
    const size_t start = text.size();
    rewrite(std::string_view(pieces.text).substr(begin, end - begin), first && begin == 0, text);
    begin = start;
    end = text.size();
    first = false;
  }
  pieces.text = std::move(text);
}

void byte_level(const SplitStep& step, Pieces& pieces) {
  if (step.prefix == SplitStep::Prefix::always)
    rewrite_pieces(pieces, [](std::string_view piece, bool, std::string& out) {
      if (!piece.starts_with(' ')) out += ' ';
      out += piece;
    });
  if (step.regex) cut_pieces(step, Behavior::isolated, pieces);
}

void metaspace(const SplitStep& step, Pieces& pieces) {
  rewrite_pieces(pieces, [&](std::string_view piece, bool is_first, std::string& out) {
    const bool wanted = step.prefix == SplitStep::Prefix::always ||
                        (step.prefix == SplitStep::Prefix::first && is_first && pieces.at_text_start);
    if (wanted && !piece.starts_with(' ') && !piece.starts_with(step.text)) out += step.text;
    for (const char c : piece) {
      if (c == ' ')
        out += step.text;
      else
        out += c;
    }
  });
  if (step.split) cut_pieces(step, Behavior::merged_with_next, pieces);
}

} // namespace

bool split(const std::vector<SplitStep>& steps, Pieces& pieces) {
  for (const SplitStep& step : steps) {
    if (step.kind == SplitStep::Kind::byte_level) {
      byte_level(step, pieces);
      if (&step == &steps.back()) return true;
      rewrite_pieces(
          pieces, [](std::string_view piece, bool, std::string& out) { out += byte_level_spelling(piece); });
    } else if (step.kind == SplitStep::Kind::metaspace)
      metaspace(step, pieces);
    else
      cut_pieces(step, step.behavior, pieces);
  }
  return false;
}

} // namespace luminal::detail
