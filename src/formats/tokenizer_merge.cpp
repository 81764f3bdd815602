// formats/tokenizer_merge.cpp -- one piece of text to tokens: merges by rank or by score, bytes for
// what is left.
#include "base/check.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <limits>
#include <queue>

namespace luminal::detail {
namespace {

/// Up to here a scan over all pairs beats the heap.
constexpr size_t few_symbols = 24;

void merge_ranked_by_scan(const MergeTable& merges, std::vector<int32_t>& symbols) {
  constexpr int32_t none = std::numeric_limits<int32_t>::max();
  // Rank and result of the pair that begins at each symbol.
  std::array<const MergeTable::Merge*, few_symbols> pairs{};
  for (size_t i = 0; i + 1 < symbols.size(); ++i) pairs[i] = merges.find(symbols[i], symbols[i + 1]);
  while (symbols.size() > 1) {
    size_t best = 0;
    int32_t rank = none;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      if (pairs[i] != nullptr && pairs[i]->rank < rank) rank = pairs[i]->rank, best = i;
    if (rank == none) return;
    symbols[best] = pairs[best]->result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    for (size_t i = best + 1; i + 1 < symbols.size(); ++i) pairs[i] = pairs[i + 1];
    if (best + 1 < symbols.size()) pairs[best] = merges.find(symbols[best], symbols[best + 1]);
    if (best > 0) pairs[best - 1] = merges.find(symbols[best - 1], symbols[best]);
  }
}

struct Link {
  int32_t previous, next;
};

} // namespace

void merge_ranked_with_heap(const MergeTable& merges, std::vector<int32_t>& symbols) {
  struct Candidate {
    int32_t rank, position, left, right, result;
    bool operator<(const Candidate& other) const { // the queue gives the greatest: lowest rank, then leftmost
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  std::vector<Link> links(symbols.size());
  std::priority_queue<Candidate> queue;
  const auto offer = [&](int32_t position) {
    const int32_t next = links[static_cast<size_t>(position)].next;
    if (next < 0) return;
    const int32_t left = symbols[static_cast<size_t>(position)], right = symbols[static_cast<size_t>(next)];
    if (const auto* merge = merges.find(left, right))
      queue.push({merge->rank, position, left, right, merge->result});
  };
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) links[static_cast<size_t>(i)] = {i - 1, i + 1 < count ? i + 1 : -1};
  for (int32_t i = 0; i < count; ++i) offer(i);
  std::vector<bool> gone(symbols.size());
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const auto position = static_cast<size_t>(best.position);
    if (gone[position] || symbols[position] != best.left) continue;
    const int32_t next = links[position].next;
    if (next < 0 || symbols[static_cast<size_t>(next)] != best.right) continue;
    symbols[position] = best.result;
    gone[static_cast<size_t>(next)] = true;
    links[position].next = links[static_cast<size_t>(next)].next;
    if (links[position].next >= 0) links[static_cast<size_t>(links[position].next)].previous = best.position;
    if (links[position].previous >= 0) offer(links[position].previous);
    offer(best.position);
  }
  size_t kept = 0;
  for (size_t i = 0; i < symbols.size(); ++i)
    if (!gone[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

void merge_ranked(const MergeTable& merges, std::vector<int32_t>& symbols) {
  if (symbols.size() <= few_symbols)
    merge_ranked_by_scan(merges, symbols);
  else
    merge_ranked_with_heap(merges, symbols);
}

namespace {

/// SentencePiece's order: the pair whose joined text is the token with the highest score joins
/// first, leftmost among equals.
class ScoredMerge {
public:
  ScoredMerge(const TokenizerModel& model, std::string_view piece) : model_(model), piece_(piece) {}

  template <class Emit> void run(Emit emit) {
    if (run_by_scan(emit)) return;
    for (size_t position = 0; position < piece_.size();) {
      const size_t begin = position;
      next_character(piece_, position);
      const auto i = static_cast<int32_t>(symbols_.size());
      symbols_.push_back({begin, position - begin, i - 1, i + 1});
    }
    if (symbols_.empty()) return;
    symbols_.back().next = -1;
    for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols_.size()); ++i) offer(i, i + 1);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Symbol& left = at(best.left);
      Symbol& right = at(best.right);
      if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (right.next >= 0) at(right.next).previous = best.left;
      if (left.previous >= 0) offer(left.previous, best.left);
      if (left.next >= 0) offer(best.left, left.next);
    }
    for (int32_t i = 0; i >= 0; i = at(i).next) emit(piece_.substr(at(i).begin, at(i).length));
  }

private:
  /// Few characters: all pairs are looked at for each join. False where there are more.
  template <class Emit> bool run_by_scan(Emit emit) {
    std::array<size_t, few_symbols + 1> begins{}; // of the symbols, and the end
    std::array<int32_t, few_symbols> pairs{};     // the token that the pair at each becomes, or -1
    size_t count = 0;
    for (size_t position = 0; position < piece_.size(); next_character(piece_, position)) {
      if (count == few_symbols) return false;
      begins[count++] = position;
    }
    begins[count] = piece_.size();
    const auto look = [&](size_t i) {
      pairs[i] = i + 1 < count ? model_.plain_token(piece_.substr(begins[i], begins[i + 2] - begins[i])) : -1;
    };
    const auto score = [&](size_t i) { return model_.scores[static_cast<size_t>(pairs[i])]; };
    for (size_t i = 0; i < count; ++i) look(i);
    while (count > 1) {
      size_t best = count;
      for (size_t i = 0; i + 1 < count; ++i)
        if (pairs[i] >= 0 && (best == count || score(i) > score(best))) best = i;
      if (best == count) break;
      for (size_t i = best + 1; i < count; ++i) begins[i] = begins[i + 1];
      for (size_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
      --count;
      look(best);
      if (best > 0) look(best - 1);
    }
    for (size_t i = 0; i < count; ++i) emit(piece_.substr(begins[i], begins[i + 1] - begins[i]));
    return true;
  }

  struct Symbol {
    size_t begin, length;
    int32_t previous, next;
  };
  struct Candidate {
    double score;
    int32_t left, right;
    size_t length;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };
  Symbol& at(int32_t i) { return symbols_[static_cast<size_t>(i)]; }
  void offer(int32_t left, int32_t right) {
    const std::string_view joined = piece_.substr(at(left).begin, at(left).length + at(right).length);
    const int32_t id = model_.plain_token(joined);
    if (id >= 0) queue_.push({model_.scores[static_cast<size_t>(id)], left, right, joined.size()});
  }

  const TokenizerModel& model_;
  std::string_view piece_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
};

} // namespace

bool append_bytes(const TokenizerModel& model, std::string_view text, std::vector<int32_t>& out) {
  for (const char c : text)
    if (model.byte_tokens[static_cast<unsigned char>(c)] < 0) return false;
  for (const char c : text) out.push_back(model.byte_tokens[static_cast<unsigned char>(c)]);
  return true;
}

void append_unknown(const TokenizerModel& model, std::string_view text, std::vector<int32_t>& out) {
  if (model.unknown)
    out.push_back(*model.unknown);
  else
    throw Error(fmt::format(
        "[tokenizer] character {} is not in the vocabulary, which has neither bytes nor an unknown token",
        in_quotes(text)));
}

int32_t TokenizerModel::plain_token(std::string_view text) const {
  const int32_t id = index.find(texts, text);
  if (id < 0) return -1;
  const auto row = static_cast<size_t>(id);
  return kinds[row] == TokenKind::control || (!outside_model.empty() && outside_model[row]) ? -1 : id;
}

void TokenizerModel::encode_piece(std::string_view piece, std::vector<int32_t>& out) const {
  if (piece.empty()) return;
  if (rule == PieceRule::unigram) return encode_unigram(*this, piece, out);
  if (rule == PieceRule::word_pieces) return encode_word_pieces(*this, piece, out);
  if (rule == PieceRule::words) {
    const int32_t id = plain_token(piece);
    return id >= 0 ? out.push_back(id) : append_unknown(*this, piece, out);
  }
  if (rule == PieceRule::scored) {
    bool after_unknown = false;
    ScoredMerge(*this, piece).run([&](std::string_view text) {
      const int32_t id = plain_token(text);
      const bool known = id >= 0 || append_bytes(*this, text, out);
      if (id >= 0)
        out.push_back(id);
      else if (!known && !(fuse_unknown && after_unknown))
        append_unknown(*this, text, out);
      after_unknown = !known;
    });
    return;
  }
  if (whole_pieces) {
    if (const int32_t id = plain_token(piece); id >= 0) return out.push_back(id);
  }
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  bool after_unknown = false;
  for (size_t position = 0; position < piece.size();) {
    const size_t begin = position;
    next_character(piece, position);
    const std::string_view character = piece.substr(begin, position - begin);
    const bool last = position == piece.size() && !word_end.empty();
    const int32_t id = last ? plain_token(std::string(character) + word_end) : plain_token(character);
    if (id >= 0)
      symbols.push_back(id);
    else if (byte_fallback && append_bytes(*this, character, symbols)) {
    } else {
      if (!(fuse_unknown && after_unknown)) append_unknown(*this, character, symbols);
      after_unknown = true;
      continue;
    }
    after_unknown = false;
  }
  merge_ranked(merges, symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

} // namespace luminal::detail
