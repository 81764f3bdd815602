# formats/golden/make_tokenizers.py -- makes tokenizers.json: small tokenizers of every supported
# construct, with what Hugging Face tokenizers makes of some texts. Needs: pip install
# tokenizers==0.23.3 sentencepiece==0.2.3 protobuf. Usage: python make_tokenizers.py tokenizers.json
import json
import random
import sys
import tempfile
import sentencepiece as sentencepiece_library
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

random.seed(7)
words = ("the a cat dog house garden river 12 2026 3.14 don't we'll sings runs quietly under over and, but. "
         "why? naïve "
         "été größe кот дом 你好 世界 (yes) --- x+y hello Hello HELLO").split()
corpus = [" ".join(random.choice(words) for _ in range(12)) for _ in range(300)]
llama3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
          r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
P, N, D = pre_tokenizers, normalizers, decoders


def byte_level(name, pre, normalizer=None, ignore_merges=False, post=None, add=(), vocab=330):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre
    if normalizer: t.normalizer = normalizer
    t.decoder = D.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=vocab,
                                                      special_tokens=["<|end|>", "<|start|>"],
                                                      initial_alphabet=P.ByteLevel.alphabet(),
                                                      show_progress=False))
    t.add_tokens(list(add))
    if post: t.post_processor = post
    return name, t


def sentencepiece(name, normalizer, pre, decoder, post=None, add=(), byte_fallback=True, unk="<unk>"):
    t = Tokenizer(models.BPE(unk_token=unk, fuse_unk=True, byte_fallback=byte_fallback))
    if normalizer: t.normalizer = normalizer
    if pre: t.pre_tokenizer = pre
    t.decoder = decoder
    bytes_ = [f"<0x{i:02X}>" for i in range(256)] if byte_fallback else []
    lines = [w for line in corpus for w in (" " + line).replace(" ", " \u2581").split(
        " ")] if pre is None else corpus
    trainer = trainers.BpeTrainer(vocab_size=400 if byte_fallback else 150,
                                  special_tokens=["<unk>", "<s>", "</s>"] + bytes_, show_progress=False)
    keep = t.normalizer
    if pre is None:
        t.normalizer = N.Sequence([])
        t.pre_tokenizer = P.WhitespaceSplit()
        t.train_from_iterator(lines, trainer)
        t = Tokenizer.from_str(json.dumps({**json.loads(t.to_str()), "pre_tokenizer": None}))
        t.normalizer = keep
    else:
        t.train_from_iterator(lines, trainer)
    # The trainer lists its special tokens as added tokens; the bytes are ordinary ones.
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(j))
    t.add_tokens(list(add))
    if post: t.post_processor = post
    return name, t


bos = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
around = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                              processors.TemplateProcessing(single="<|start|> $A <|end|>",
                                                            special_tokens=[("<|start|>", 1),
                                                                            ("<|end|>", 0)])])
llama_decoder = D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
cases = [
    byte_level("byte-level regex", P.ByteLevel(add_prefix_space=False)),
    byte_level("byte-level prefix", P.ByteLevel(add_prefix_space=True),
               post=processors.RobertaProcessing(("<|end|>", 0), ("<|start|>", 1))),
    byte_level("llama-3 split", P.Sequence([P.Split(Regex(llama3), "isolated"),
                                            P.ByteLevel(add_prefix_space=False, use_regex=False)]),
               ignore_merges=True, post=around,
               add=[AddedToken("<|cut|>", lstrip=True, rstrip=True, special=True),
                    AddedToken("hel", single_word=True),
                    AddedToken("HEL lo", normalized=False)]),
    byte_level("nfc, digits", P.Sequence([P.Digits(individual_digits=True),
                                          P.ByteLevel(add_prefix_space=False)]), normalizer=N.NFC()),
    byte_level("falcon", P.Sequence([P.Punctuation("contiguous"), P.ByteLevel(add_prefix_space=False),
                                     P.Digits(individual_digits=False),
                                     P.Split(Regex("[0-9][0-9][0-9]"), "isolated")])),
    byte_level("nfkc, lowercase, strip", P.Sequence([P.WhitespaceSplit(),
                                                     P.Split("o", "merged_with_previous"),
                                                     P.ByteLevel(add_prefix_space=False, use_regex=False)]),
               normalizer=N.Sequence([N.NFKC(), N.Lowercase(), N.Strip(), N.Replace(Regex(r"\s+"), " "),
                                      N.Replace("ß", "ss")]),
               add=[AddedToken("Dog House", normalized=True)]),
    byte_level("behaviors", P.Sequence([P.Split(" ", "merged_with_next"),
                                        P.Split(Regex("[aeiou]+"), "contiguous"),
                                        P.Split(Regex("[a-z]+"), "removed", invert=False),
                                        P.ByteLevel(add_prefix_space=False, use_regex=False)])),
    byte_level("inverted", P.Sequence([P.Split(Regex(r"\w+"), "merged_with_previous", invert=True),
                                       P.ByteLevel(add_prefix_space=False, use_regex=False)]),
               normalizer=N.NFD()),
    sentencepiece("llama-2", N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]), None, llama_decoder,
                  bos,
                  add=[AddedToken("<|user|>", rstrip=True, special=True),
                       AddedToken("house!", normalized=True)]),
    sentencepiece("metaspace first", None, P.Metaspace(prepend_scheme="first", split=False),
                  D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse()]),
                  add=[AddedToken("<mid>", special=True)]),
    sentencepiece("metaspace always", None, P.Metaspace(prepend_scheme="always"),
                  D.Metaspace(prepend_scheme="always"), bos, byte_fallback=False),
    sentencepiece("metaspace never", N.NFKD(), P.Metaspace(prepend_scheme="never"),
                  D.Metaspace(prepend_scheme="never"), byte_fallback=False),
]


def word_pieces(name, normalizer, words_only=False):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = Tokenizer(models.WordLevel(unk_token="[UNK]") if words_only else
                  models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, P.BertPreTokenizer(), D.WordPiece()
    kind = trainers.WordLevelTrainer if words_only else trainers.WordPieceTrainer
    t.train_from_iterator(corpus, kind(vocab_size=160, special_tokens=special, show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return name, t


def clip(name):
    t = Tokenizer(models.BPE(unk_token="<|end|>", end_of_word_suffix="</w>"))
    t.normalizer = N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()])
    t.pre_tokenizer = P.Sequence([
        P.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        P.ByteLevel(add_prefix_space=False)])
    t.decoder = D.ByteLevel()
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=640, end_of_word_suffix="</w>",
                                                      special_tokens=["<|end|>", "<|start|>"],
                                                      initial_alphabet=P.ByteLevel.alphabet(),
                                                      show_progress=False))
    return name, t


def unigram(name, normalizer, pre, decoder, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = P.Metaspace()
    bytes_ = [f"<0x{i:02X}>" for i in range(256)] if byte_fallback else []
    trainer = trainers.UnigramTrainer(vocab_size=150, special_tokens=["<unk>", "<s>", "</s>"],
                                      unk_token="<unk>", show_progress=False)
    t.train_from_iterator(corpus, trainer)
    j = json.loads(t.to_str())
    j["model"]["vocab"] = [[text, round(score, 6)] for text, score in j["model"]["vocab"]]
    j["model"]["vocab"] += [[b, 0.0] for b in bytes_]
    j["model"]["byte_fallback"] = byte_fallback
    t = Tokenizer.from_str(json.dumps(j))
    if normalizer: t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre, decoder
    t.post_processor = bos
    return name, t


# A table of characters as SentencePiece compiles it from rules.
rules = {"\u00bd": "1/2", "\u00b2": "2", "\ufb01": "fi", "A\u030a": "\u00c5", "\u212b": "\u00c5",
         "\u3000": " ", "\u00a0": " ", "\t": " ", "\n": " ", "\u200d": "", "HELLO": "Hello", "\uff0c": ","}
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/rules.tsv", "w").write("".join(
        " ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
        for a, b in rules.items()))
    open(folder + "/text", "w").write("\n".join(corpus))
    sentencepiece_library.SentencePieceTrainer.train(
        input=folder + "/text", model_prefix=folder + "/m", vocab_size=120, hard_vocab_limit=False,
        normalization_rule_tsv=folder + "/rules.tsv", minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(open(folder + "/m.model", "rb").read())
    table = N.Precompiled(proto.normalizer_spec.precompiled_charsmap)

meta = P.Metaspace(prepend_scheme="always")
meta_decoder = D.Metaspace(prepend_scheme="always")
cases += [
    word_pieces("bert uncased", N.BertNormalizer()),
    word_pieces("bert cased", N.BertNormalizer(lowercase=False, strip_accents=False,
                                               handle_chinese_chars=False)),
    word_pieces("word level", N.BertNormalizer(clean_text=False), words_only=True),
    clip("clip"),
    unigram("t5", N.Sequence([table, N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), "\u2581")]),
            P.Sequence([P.WhitespaceSplit(), meta]), meta_decoder),
    unigram("unigram, bytes", N.Sequence([N.NFD(), N.StripAccents()]), meta,
            D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]), True),
    unigram("unigram, one piece", N.Sequence([N.Prepend("\u2581"), N.Replace(" ", "\u2581")]), None,
            meta_decoder),
]
texts = ["", " ", "   ", "\n", "a", "hello world", " hello  world ",
         "Hello, world!\n\n  The naïve cat's 12345 houses.", "don't we'll HELLO'S", "кот и дом 你好，世界",
         "🦙 llama \u200d\t tab", "<|start|>the cat<|end|>", "the <s> dog</s>!", "x  <|cut|> \n y",
         "hel hello (hel) HEL lo", "Dog House dog house", "house! house",
         "<|user|>  hi<|user|>\nthere", "one<mid>two <mid> three", "\u00bd\u00b2 \ufb01ne \u212b A\u030a İ ﬀ",
         "3.14159 2026-11-21", "größe GRÖSSE", "a\u0000b\u00a0c\u3000d", "▁under▁ _x_", "a" * 60]
out = []
for name, t in cases:
    rows = []
    for text in texts:
        ids, plain = t.encode(text).ids, t.encode(text, add_special_tokens=False).ids
        rows.append([text, ids, plain, t.decode(ids), t.decode(ids, skip_special_tokens=False)])
    out.append({"name": name, "tokenizer": t.to_str(), "cases": rows})
json.dump(out, open(sys.argv[1], "w"), ensure_ascii=True, separators=(",", ":"))
open(sys.argv[1], "a").write("\n")
