# formats/golden/make_pieces.py -- makes pieces.json: SentencePiece models (small ones, in base64) and
# tiktoken's encodings (their rank files are in ../shared/data/tokenizers), with what the libraries
# themselves make of some texts. Needs: pip install sentencepiece==0.2.3 protobuf tiktoken. Usage:
# python make_pieces.py ../shared/data/tokenizers pieces.json
import base64
import json
import random
import sys
import tempfile
import sentencepiece
import tiktoken
from sentencepiece import sentencepiece_model_pb2

folder, out = sys.argv[1:]
random.seed(11)
words = ("the a cat dog house garden river 12 2026 3.14 don't we'll sings runs quietly under over and, "
         "but. why? na\u00efve \u00e9t\u00e9 gr\u00f6\u00dfe \u043a\u043e\u0442 "
         "\u0434\u043e\u043c (yes) --- x+y hello Hello").split()
corpus = [" ".join(random.choice(words) for _ in range(12)) for _ in range(400)]
texts = ["", " ", "   ", "a", "hello world", " hello  world ",
         "Hello, world!\n\n  The na\u00efve cat's 12345 houses.", "don't we'll HELLO'S",
         "\u043a\u043e\u0442 \u0438 \u0434\u043e\u043c \u4f60\u597d\uff0c\u4e16\u754c",
         "\U0001f999 llama \u200d\t tab", "\u00bd\u00b2 \ufb01ne \u212b A\u030a",
         "gr\u00f6\u00dfe GR\u00d6SSE", "a\u0000b\u00a0c\u3000d", "\u2581under\u2581 _x_", "a" * 60,
         "x = y + 1;  // code\n\tif (a) { return 12345678; }\r\n", "I'\u017f it'S WE'LL", "  \n \n  ",
         "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0928\u092e\u0938\u094d\u0924\u0947 "
         "\u0645\u0631\u062d\u0628\u0627"]
rules = {"\u00bd": "1/2", "\u00b2": "2", "\ufb01": "fi", "A\u030a": "\u00c5", "\u3000": " ", "\u00a0": " ",
         "\t": " ", "\u200d": "", "HELLO": "Hello", "\uff0c": ","}
result = {"sentencepiece": [], "tiktoken": {}}
with tempfile.TemporaryDirectory() as temporary:
    open(temporary + "/rules.tsv", "w").write("".join(
        " ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
        for a, b in rules.items()))
    open(temporary + "/text", "w").write("\n".join(corpus))
    kinds = {
        "unigram": dict(normalization_rule_tsv=temporary + "/rules.tsv", vocab_size=150),
        "unigram, bytes": dict(normalization_rule_name="identity", byte_fallback=True, vocab_size=400,
                               remove_extra_whitespaces=False),
        "unigram, no prefix": dict(normalization_rule_tsv=temporary + "/rules.tsv", vocab_size=130,
                                   add_dummy_prefix=False),
        "BPE with a table": dict(normalization_rule_tsv=temporary + "/rules.tsv", model_type="bpe",
                                 vocab_size=180),
    }
    for name, options in kinds.items():
        sentencepiece.SentencePieceTrainer.train(input=temporary + "/text", model_prefix=temporary + "/m",
                                                 hard_vocab_limit=False, minloglevel=2, **options)
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(open(temporary + "/m.model", "rb").read())
        proto.trainer_spec.ClearField("input")  # paths of the machine
        proto.trainer_spec.ClearField("model_prefix")
        proto.normalizer_spec.ClearField("normalization_rule_tsv")
        model = proto.SerializeToString()
        p = sentencepiece.SentencePieceProcessor(model_proto=model)
        rows = [[t, p.encode(t), p.decode(p.encode(t))] for t in texts if "\0" not in t]
        result["sentencepiece"].append({"name": name, "model": base64.b64encode(model).decode(),
                                        "cases": rows})
letters = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")
gpt2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
for file, pattern in {"cl100k_base.tiktoken": letters, "whisper-gpt2.tiktoken": gpt2,
                      "whisper-multilingual.tiktoken": gpt2}.items():
    ranks = {base64.b64decode(token + b"=="): int(rank) for token, rank in
             (line.split() for line in open(f"{folder}/{file}", "rb") if line.strip())}
    encoding = tiktoken.Encoding(file, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    result["tiktoken"][file] = [[t, encoding.encode_ordinary(t)] for t in texts]
json.dump(result, open(out, "w"), ensure_ascii=True, separators=(",", ":"))
open(out, "a").write("\n")
