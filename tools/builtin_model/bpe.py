# tools/builtin_model/bpe.py -- a byte-level BPE tokenizer of the gpt2 kind: trainer, encoder,
# decoder, tokenizer.json.
"""The 256 bytes are tokens, so every UTF-8 prompt can be encoded. Text is cut by GPT-2's pattern
('s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+) before merging.
Standard library only."""
import json
import unicodedata
from collections import Counter

BEGIN, END = "<|begin|>", "<|end|>"
SPECIALS = [BEGIN, END]  # ids 0 and 1
WHITE = set("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(c) for c in range(0x2000, 0x200b)}
CONTRACTIONS = ("'re", "'ve", "'ll", "'s", "'t", "'m", "'d")


def byte_letters():
    """GPT-2's printable letter for each of the 256 bytes."""
    keep = list(range(0x21, 0x7f)) + list(range(0xa1, 0xad)) + list(range(0xae, 0x100))
    letters, extra = {}, 0
    for byte in range(256):
        if byte in keep:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + extra)
            extra += 1
    return letters


LETTERS = byte_letters()
BYTES = {letter: byte for byte, letter in LETTERS.items()}


def char_class(char):
    if char in WHITE:
        return "space"
    return {"L": "letter", "N": "number"}.get(unicodedata.category(char)[0], "other")


def split(text):
    """The pieces of GPT-2's pattern, in order; joined they give the text."""
    pieces, i, n = [], 0, len(text)
    while i < n:
        found = next((c for c in CONTRACTIONS if text.startswith(c, i)), None)
        if found:
            j = i + len(found)
        else:
            start = i + 1 if text[i] == " " and i + 1 < n and char_class(text[i + 1]) != "space" else i
            kind = char_class(text[start])
            j = start
            while j < n and char_class(text[j]) == kind:
                j += 1
            # A run of white space leaves its last character to the word that follows it.
            if kind == "space" and j < n and j - i > 1:
                j -= 1
        pieces.append(text[i:j])
        i = j
    return pieces


def letters_of(piece):
    return [LETTERS[b] for b in piece.encode("utf-8")]


def train(texts, vocab_size):
    """The merges, best first. Only ASCII is merged: rarer characters stay bytes, which keeps the
    small vocabulary for words."""
    words = Counter(piece for text in texts for piece in split(text))
    state = {w: letters_of(w) for w in words}
    ascii_letters = {LETTERS[b] for b in range(128)}
    merges = []
    while len(merges) < vocab_size - 256 - len(SPECIALS):
        pairs = Counter()
        for word, parts in state.items():
            for pair in zip(parts, parts[1:]):
                if set(pair[0] + pair[1]) <= ascii_letters:
                    pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for word, parts in state.items():
            if best[0] in parts:
                state[word] = merge(parts, best)
    return merges


def merge(parts, pair):
    out, i = [], 0
    while i < len(parts):
        if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.tokens = SPECIALS + [LETTERS[b] for b in range(256)] + [x + y for x, y in self.merges]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        if len(self.ids) != len(self.tokens):
            raise ValueError("two merges give the same token")
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.cache = {}

    def encode_piece(self, piece):
        if piece not in self.cache:
            parts = letters_of(piece)
            while len(parts) > 1:
                best = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
                if best not in self.rank:
                    break
                parts = merge(parts, best)
            self.cache[piece] = [self.ids[p] for p in parts]
        return self.cache[piece]

    def encode(self, text):
        """Ids of plain text, without the begin token."""
        return [i for piece in split(text) for i in self.encode_piece(piece)]

    def decode(self, ids):
        """The text; special tokens give nothing, broken UTF-8 gives U+FFFD."""
        raw = bytes(BYTES[c] for i in ids if i >= len(SPECIALS) for c in self.tokens[i])
        return raw.decode("utf-8", errors="replace")

    def to_huggingface(self):
        """The contents of tokenizer.json."""
        special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False, "special": True}
                   for i, t in enumerate(SPECIALS)]
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        begin = {"SpecialToken": {"id": BEGIN, "type_id": 0}}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
                "normalizer": None, "pre_tokenizer": level,
                "post_processor": {"type": "TemplateProcessing",
                                   "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
                                   "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}},
                                            {"Sequence": {"id": "B", "type_id": 0}}],
                                   "special_tokens": {BEGIN: {"id": BEGIN, "ids": [0], "tokens": [BEGIN]}}},
                "decoder": level,
                "model": {"type": "BPE", "dropout": None, "unk_token": None,
                          "continuing_subword_prefix": None, "end_of_word_suffix": None,
                          "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                          "vocab": self.ids,
                          "merges": [" ".join(m) for m in self.merges]}}

    def save(self, path):
        with open(path, "w", encoding="utf-8") as out:
            json.dump(self.to_huggingface(), out, ensure_ascii=False, separators=(",", ":"))
            out.write("\n")

    @classmethod
    def load(cls, path):
        with open(path, encoding="utf-8") as file:
            return cls([tuple(m.split(" ")) for m in json.load(file)["model"]["merges"]])
