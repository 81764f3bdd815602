// formats/tokenizer_index.cpp -- hash tables and the trie of a tokenizer.
#include "base/check.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <bit>
#include <functional>

namespace luminal::detail {
namespace {

uint64_t mixed(uint64_t x) { // finalizer of splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

} // namespace

void TextIndex::reserve(size_t count) {
  LUMINAL_CHECK(count_ == 0);
  slots_.assign(std::bit_ceil(std::max<size_t>(16, count * 2)), -1);
}

void TextIndex::grow(const std::vector<std::string>& texts, size_t slots) {
  std::vector<int32_t> old(slots, -1);
  old.swap(slots_);
  for (const int32_t id : old) {
    if (id < 0) continue;
    size_t slot = std::hash<std::string_view>{}(texts[static_cast<size_t>(id)]) & (slots_.size() - 1);
    while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = id;
  }
}

bool TextIndex::add(const std::vector<std::string>& texts, int32_t id) {
  if ((count_ + 1) * 2 > slots_.size()) grow(texts, std::max<size_t>(16, slots_.size() * 2));
  const std::string_view text = texts[static_cast<size_t>(id)];
  size_t slot = std::hash<std::string_view>{}(text) & (slots_.size() - 1);
  while (slots_[slot] >= 0) {
    if (texts[static_cast<size_t>(slots_[slot])] == text) return false;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = id;
  ++count_;
  return true;
}

int32_t TextIndex::find(const std::vector<std::string>& texts, std::string_view text) const {
  if (slots_.empty()) return -1;
  size_t slot = std::hash<std::string_view>{}(text) & (slots_.size() - 1);
  while (slots_[slot] >= 0) {
    if (texts[static_cast<size_t>(slots_[slot])] == text) return slots_[slot];
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return -1;
}

void MergeTable::reserve(size_t count) {
  LUMINAL_CHECK(count_ == 0);
  slots_.assign(std::bit_ceil(std::max<size_t>(16, count * 2)), Merge{});
}

size_t MergeTable::slot(int32_t left, int32_t right) const {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  return mixed(key) & (slots_.size() - 1);
}

void MergeTable::add(int32_t left, int32_t right, int32_t rank, int32_t result) {
  LUMINAL_CHECK((count_ + 1) * 2 <= slots_.size(), "merge table of {} slots is full", slots_.size());
  size_t at = slot(left, right);
  while (slots_[at].left >= 0) {
    if (slots_[at].left == left && slots_[at].right == right) return;
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = {left, right, rank, result};
  ++count_;
}

const MergeTable::Merge* MergeTable::find(int32_t left, int32_t right) const {
  if (left < 0 || right < 0 || slots_.empty()) return nullptr;
  size_t at = slot(left, right);
  while (slots_[at].left >= 0) {
    if (slots_[at].left == left && slots_[at].right == right) return &slots_[at];
    at = (at + 1) & (slots_.size() - 1);
  }
  return nullptr;
}

void AddedTokenMatcher::add(std::string_view content, uint32_t value) {
  LUMINAL_CHECK(!content.empty());
  if (nodes_.empty()) nodes_.emplace_back();
  first_[static_cast<unsigned char>(content[0])] = true;
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      auto& children = nodes_[node].children;
      children.insert(
          std::lower_bound(children.begin(), children.end(), std::pair<unsigned char, uint32_t>(byte, 0)),
          {byte, next});
    }
    node = next;
  }
  if (nodes_[node].value < 0) nodes_[node].value = value;
}

uint32_t AddedTokenMatcher::child(uint32_t node, unsigned char byte) const {
  const auto& children = nodes_[node].children;
  const auto at =
      std::lower_bound(children.begin(), children.end(), std::pair<unsigned char, uint32_t>(byte, 0));
  return at != children.end() && at->first == byte ? at->second : 0;
}

PieceTrie::PieceTrie(std::vector<std::pair<std::string_view, int32_t>> texts) {
  std::stable_sort(texts.begin(), texts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Each entry: the texts of a node, which agree up to `depth`.
  struct Range {
    size_t first, last, depth;
    uint32_t node;
  };
  nodes_.emplace_back();
  std::vector<Range> open = {{0, texts.size(), 0, 0}};
  for (size_t done = 0; done < open.size(); ++done) { // breadth first: children are neighbours
    auto [first, last, depth, node] = open[done];
    for (; first < last && texts[first].first.size() == depth; ++first)
      if (nodes_[node].value < 0) nodes_[node].value = texts[first].second;
    nodes_[node].first = static_cast<uint32_t>(labels_.size());
    while (first < last) {
      const char label = texts[first].first[depth];
      size_t end = first;
      while (end < last && texts[end].first[depth] == label) ++end;
      const auto child = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      labels_.push_back(static_cast<unsigned char>(label));
      targets_.push_back(child);
      ++nodes_[node].count;
      open.push_back({first, end, depth + 1, child});
      first = end;
    }
  }
}

uint32_t PieceTrie::child(uint32_t node, unsigned char byte) const {
  const auto first = labels_.begin() + nodes_[node].first, last = first + nodes_[node].count;
  const auto at = std::lower_bound(first, last, byte);
  return at != last && *at == byte ? targets_[static_cast<size_t>(at - labels_.begin())] : 0;
}

PieceCache::Entry* PieceCache::find(std::string_view piece, size_t hash) {
  if (slots_.empty()) return nullptr;
  for (size_t slot = hash & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
    Entry& entry = slots_[slot];
    if (entry.bytes == 0) return nullptr;
    if (entry.hash == hash && std::string_view(texts_).substr(entry.first_byte, entry.bytes) == piece)
      return &entry;
  }
}

void PieceCache::add(std::string_view piece, size_t hash, std::span<const int32_t> ids) {
  if (piece.empty() || count_ == most_entries) return;
  if ((count_ + 1) * 2 > slots_.size()) {
    std::vector<Entry> old(std::max<size_t>(256, slots_.size() * 4));
    old.swap(slots_);
    for (const Entry& entry : old) {
      if (entry.bytes == 0) continue;
      size_t slot = entry.hash & (slots_.size() - 1);
      while (slots_[slot].bytes != 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = entry;
    }
  }
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].bytes != 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {hash, static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(piece.size()),
                  static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(ids.size())};
  texts_ += piece;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++count_;
}

void TokenizerModel::index_pieces() {
  std::vector<std::pair<std::string_view, int32_t>> plain;
  plain.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    if (!texts[i].empty() && (kinds[i] == TokenKind::normal || kinds[i] == TokenKind::user_defined) &&
        (outside_model.empty() || !outside_model[i]))
      plain.emplace_back(texts[i], static_cast<int32_t>(i));
  trie = PieceTrie(std::move(plain));
}

void TokenizerModel::settle_cuts(std::string_view mark) {
  if (index.find(texts, mark) < 0) return;
  for (const std::string& text : texts) {
    size_t behind = 0; // the marks at the beginning
    while (text.compare(behind, mark.size(), mark) == 0) behind += mark.size();
    if (text.find(mark, behind) != std::string::npos) return;
  }
  cut_before = mark;
}

void TokenizerModel::find_byte_tokens() {
  for (size_t byte = 0; byte < 256; ++byte)
    byte_tokens[byte] = index.find(texts, fmt::format("<0x{:02X}>", byte));
}

void TokenizerModel::add_token(std::string text, TokenKind kind) {
  const auto id = static_cast<int32_t>(texts.size());
  texts.push_back(std::move(text));
  kinds.push_back(kind);
  if (!texts.back().empty()) index.add(texts, id);
}

void TokenizerModel::index_added_tokens() {
  for (size_t i = 0; i < added.size(); ++i)
    if (!added[i].content.empty())
      (added[i].normalized ? normalized_matcher : raw_matcher)
          .add(added[i].content, static_cast<uint32_t>(i));
}

} // namespace luminal::detail
