// formats/tokenizer_unigram.cpp -- SentencePiece's unigram: the cut of a text whose tokens have the
// highest sum of scores. Taku Kudo, Subword Regularization, https://arxiv.org/abs/1804.10959
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>

namespace luminal::detail {
namespace {

/// The token that ends at a byte in the best cut up to there.
template <class Real> struct End {
  Real score = 0;
  int64_t from = -1; ///< -1: no cut ends here
  int32_t id = -1;   ///< -1: a character that is not a token
};

template <class Real>
void encode(const TokenizerModel& model, std::string_view piece, std::vector<int32_t>& out) {
  std::vector<End<Real>> ends(piece.size() + 1);
  const auto offer = [&](size_t at, Real score, size_t from, int32_t id) {
    if (ends[at].from < 0 || score > ends[at].score) ends[at] = {score, static_cast<int64_t>(from), id};
  };
  for (size_t start = 0; start < piece.size();) {
    size_t next = start;
    next_character(piece, next);
    const Real before = ends[start].score;
    bool known = false;
    model.trie.prefixes(piece.substr(start), [&](size_t length, int32_t id) {
      offer(start + length, before + static_cast<Real>(model.scores[static_cast<size_t>(id)]), start, id);
      known = known || start + length == next;
    });
    if (!known) offer(next, before + static_cast<Real>(model.unknown_score), start, -1);
    start = next;
  }
  std::vector<std::pair<size_t, int32_t>> cut; // where each token begins, from the last to the first
  for (size_t at = piece.size(); at > 0; at = cut.back().first)
    cut.emplace_back(static_cast<size_t>(ends[at].from), ends[at].id);
  std::reverse(cut.begin(), cut.end());
  for (size_t i = 0; i < cut.size();) {
    if (cut[i].second >= 0) {
      out.push_back(cut[i++].second);
      continue;
    }
    // Neighbouring unknown characters are one unknown token.
    const size_t first = i;
    while (i < cut.size() && cut[i].second < 0) ++i;
    const size_t begin = cut[first].first, end = i < cut.size() ? cut[i].first : piece.size();
    const std::string_view unknown = piece.substr(begin, end - begin);
    if (!model.byte_fallback || !append_bytes(model, unknown, out)) append_unknown(model, unknown, out);
  }
}

} // namespace

void encode_unigram(const TokenizerModel& model, std::string_view piece, std::vector<int32_t>& out) {
  if (model.single_precision)
    encode<float>(model, piece, out);
  else
    encode<double>(model, piece, out);
}

} // namespace luminal::detail
