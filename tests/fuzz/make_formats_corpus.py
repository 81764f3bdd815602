# fuzz/make_formats_corpus.py -- makes the seeds of the parsers of model files: small valid files
# and near misses. Standard library only. Usage: python3 tests/fuzz/make_formats_corpus.py (writes
# tests/fuzz/corpus/formats_*)
import base64
import json
import os
import shutil
import struct
import zlib

here = os.path.dirname(os.path.abspath(__file__))
golden = os.path.join(here, "..", "formats", "golden")


def put(what, name, content):
    folder = os.path.join(here, "corpus", "formats_" + what)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())


def safetensors(header, data):
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text)) + text.encode() + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


put("safetensors", "two", safetensors({"__metadata__": {"format": "pt"},
                                       "a.weight": tensor("F32", [2, 2], 0, 16),
                                       "b": tensor("BOOL", [3], 16, 19)}, bytes(19)))
put("safetensors", "empty", safetensors("{}", b""))
put("safetensors", "scalar_and_zero", safetensors({"s": tensor("I64", [], 0, 8),
                                                   "z": tensor("F16", [0, 4], 8, 8)}, bytes(8)))
put("safetensors", "types", safetensors({t: tensor(t, [1], i * 8, i * 8 + n)
                                         for i, (t, n) in enumerate([("F64", 8), ("U64", 8), ("I64", 8)])},
                                        bytes(24)))
put("safetensors", "fp8", safetensors({"a": tensor("F8_E4M3", [3], 0, 3), "b": tensor("F8_E5M2", [1], 3, 4),
                                       "c": tensor("BF16", [1], 4, 6)}, bytes(6)))
put("safetensors", "hole", safetensors({"a": tensor("U8", [1], 1, 2)}, bytes(2)))
put("safetensors", "overlap", safetensors({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [1], 1, 2)},
                                          bytes(2)))
put("safetensors", "huge", safetensors({"a": tensor("U8", [2**32, 2**32], 0, 2**62)}, b""))
put("safetensors", "deep", safetensors('{"a":' + "[" * 70 + "]" * 70 + "}", b""))


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


TYPES = {"u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"),
         "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q"),
         "i64": (11, "<q"), "f64": (12, "<d")}


def value(kind, v):
    if kind == "str": return struct.pack("<I", 8) + text(v)
    if kind == "strs": return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(text(x) for x in v)
    if kind.endswith("s"):
        number, form = TYPES[kind[:-1]]
        return struct.pack("<IIQ", 9, number, len(v)) + b"".join(struct.pack(form, x) for x in v)
    number, form = TYPES[kind]
    return struct.pack("<I", number) + struct.pack(form, v)


def gguf(pairs, tensors=(), version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    for key, kind, v in pairs: out += text(key) + value(kind, v)
    offset, data = 0, b""
    for name, ne, number, size in tensors:
        out += text(name) + struct.pack("<I", len(ne)) + b"".join(struct.pack("<Q", n)
                                                                  for n in ne) + struct.pack(
                                                                      "<IQ", number, offset)
        data += bytes(range(size)) + bytes(-size % alignment)
        offset = len(data)
    return out + bytes(-len(out) % alignment) + data


llama = [("general.architecture", "str", "llama"), ("llama.embedding_length", "u32", 32),
         ("llama.block_count", "u32", 1), ("llama.attention.head_count", "u32", 4),
         ("llama.attention.head_count_kv", "u32", 2), ("llama.feed_forward_length", "u32", 64),
         ("llama.context_length", "u32", 128),
         ("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5), ("llama.rope.freq_base", "f32", 10000.0)]
spm = ["<unk>", "<s>", "</s>", "<0x41>", "\u2581", "a", "b", "ab", "\u2581a", "t", "h", "e", "c"]
tokens = [("tokenizer.ggml.model", "str", "llama"), ("tokenizer.ggml.tokens", "strs", spm),
          ("tokenizer.ggml.scores", "f32s", [-i for i in range(len(spm))]),
          ("tokenizer.ggml.token_type", "i32s", [2, 3, 3, 6] + [1] * (len(spm) - 4)),
          ("tokenizer.ggml.bos_token_id", "u32", 1),
          ("tokenizer.ggml.eos_token_id", "u32", 2), ("tokenizer.ggml.unknown_token_id", "u32", 0)]
bpe = [("tokenizer.ggml.model", "str", "gpt2"), ("tokenizer.ggml.pre", "str", "llama-bpe"),
       ("tokenizer.ggml.tokens", "strs", ["a", "b", "ab", "\u0120", "t", "h", "e", "<|end|>"]),
       ("tokenizer.ggml.token_type", "i32s", [1] * 7 + [3]), ("tokenizer.ggml.merges", "strs", ["a b"])]
put("gguf", "llama", gguf(llama + tokens, [("token_embd.weight", (32, 13), 8, 34 * 13 % 256),
                                           ("rope_freqs.weight", (4,), 0, 16)][1:]))
put("gguf", "bpe", gguf(llama + bpe))
put("gguf", "types", gguf([(k, k, 1) for k in TYPES] + [("s", "str", "x"), ("nested", "u8s", [1, 2])]))
put("gguf", "tensors", gguf([], [("a", (4, 2), 0, 32), ("q", (32,), 2, 18), ("k", (256,), 12, 144),
                                 ("s", (), 1, 2), ("z", (0,), 0, 0)]))
put("gguf", "aligned", gguf([("general.alignment", "u32", 64)], [("a", (3,), 24, 3), ("b", (1,), 30, 2)],
                            alignment=64))
put("gguf", "adapter", gguf([("general.type", "str", "adapter"), ("general.architecture", "str", "llama"),
                             ("adapter.type", "str", "lora"), ("adapter.lora.alpha", "f32", 8.0)],
                            [("blk.0.attn_q.weight.lora_a", (4, 2), 0, 32),
                             ("blk.0.attn_q.weight.lora_b", (2, 4), 0, 32),
                             ("blk.0.ffn_up_exps.weight.lora_a", (4, 1, 2), 0, 32),
                             ("blk.0.ffn_up_exps.weight.lora_b", (1, 4, 2), 0, 32),
                             ("token_embd.weight.lora_a", (2, 4), 0, 32),
                             ("token_embd.weight.lora_b", (2, 4), 0, 32),
                             ("blk.0.attn_norm.weight", (4,), 0, 16)]))
put("gguf", "v2", gguf([("a", "u8", 1)], version=2))
put("gguf", "huge_counts", b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60) + bytes(64))
put("gguf", "nested", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("a") + struct.pack("<I", 9)
    + struct.pack("<IQ", 9, 1) * 10)

base = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512, "hidden_size": 64,
        "intermediate_size": 172, "num_hidden_layers": 5,
        "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "eos_token_id": [1, 2], "torch_dtype": "float32", "hidden_act": "silu", "sliding_window": None}
put("config", "llama", json.dumps(base) + "\n---\n" + json.dumps({"eos_token_id": [2, 3], "bos_token_id": 1}))
for rope in ({"rope_type": "linear", "factor": 4.0}, {"type": "dynamic", "factor": 2.0},
             {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192},
             {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
              "mscale_all_dim": 0.7, "truncate": False, "rope_theta": 1e6}):
    put("config", rope.get("rope_type", rope.get("type")),
        json.dumps({**base, "rope_parameters": rope, "head_dim": 16, "partial_rotary_factor": 0.5}))
put("config", "adapter", json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 8, "use_rslora": True,
                                     "use_dora": False, "bias": "none", "init_lora_weights": "gaussian",
                                     "rank_pattern": {"k_proj": 4},
                                     "alpha_pattern": {"layers\\.[01].*q_proj": 4}}))
put("config", "mixed", json.dumps({**base, "sliding_window": 8, "layer_types": ["sliding_attention"],
                                   "num_local_experts": 4, "num_experts_per_tok": 2}))

with open(os.path.join(golden, "tokenizers.json")) as f:
    for entry in json.load(f):
        t = json.loads(entry["tokenizer"])
        # Short vocabularies keep the seeds small; every construct stays.
        model = t["model"]
        if model["type"] == "Unigram":
            model["vocab"] = model["vocab"][:40] + [v for v in model["vocab"] if v[0].startswith("<0x0")]
            keep = {v[0]: i for i, v in enumerate(model["vocab"])}
        else:
            keep = {k: v for k, v in model["vocab"].items() if v < 3 or len(k) == 1 and v < 110
                    or k.startswith("<0x0") or k in ("[UNK]", "##a", "##b", "a</w>", "b</w>")}
            if "merges" in model:
                model["merges"] = [m for m in model["merges"] if m[0] in keep and m[1] in keep][:6]
            for n, m in enumerate(model.get("merges", [])): keep["".join(m)] = 400 + n
            keep = {k: i for i, k in enumerate(dict(sorted(keep.items(), key=lambda kv: kv[1])))}
            model["vocab"] = keep
        for n, a in enumerate(t["added_tokens"]): a["id"] = keep.get(a["content"], 1000 + n)
        t["post_processor"] = t["post_processor"] if "SpecialToken" not in json.dumps(
            t["post_processor"]) and "Bert" not in json.dumps(t["post_processor"]) else None
        put("tokenizer_json", entry["name"].replace(" ", "_").replace(",", ""),
            json.dumps(t, ensure_ascii=False, separators=(",", ":")))
put("tokenizer_json", "template", json.dumps({
    "model": {"type": "BPE", "unk_token": "<u>", "vocab": {"<u>": 0, "a": 1, "b": 2, "ab": 3},
              "merges": ["a b"]}, "decoder": {"type": "Fuse"},
    "added_tokens": [{"id": 4, "content": "<s>", "special": True, "lstrip": True, "rstrip": True,
                      "single_word": True, "normalized": False}],
    "post_processor": {"type": "Sequence", "processors": [{"type": "TemplateProcessing",
                                                           "single": [{"SpecialToken": {
                                                               "id": "<s>", "type_id": 0}},
                                                                      {"Sequence": {
                                                                          "id": "A", "type_id": 0}}],
                                                           "pair": [],
                                                           "special_tokens": {
                                                               "<s>": {"id": "<s>", "ids": [4],
                                                                       "tokens": ["<s>"]}}}]}}))

for name in sorted(os.listdir(os.path.join(golden, "npy"))):
    os.makedirs(os.path.join(here, "corpus", "formats_npy"), exist_ok=True)
    shutil.copyfile(os.path.join(golden, "npy", name), os.path.join(here, "corpus", "formats_npy", name))


# ONNX: fields of protobuf messages, number and value; a number, bytes, or (what, value).
def varint(n):
    n &= 2**64 - 1
    out = b""
    while n > 127: out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def message(*fields):
    out = b""
    for number, v in fields:
        if isinstance(v, float): out += varint(number << 3 | 5) + struct.pack("<f", v)
        elif isinstance(v, int): out += varint(number << 3) + varint(v)
        else:
            v = v.encode() if isinstance(v, str) else v
            out += varint(number << 3 | 2) + varint(len(v)) + v
    return out


def onnx_tensor(name, kind, shape, *data):
    return message((1, b"".join(varint(d) for d in shape)), (2, kind), *data, (8, name))


def onnx_value(name, kind, *shape):
    dims = [(1, message((1, d) if isinstance(d, int) else (2, d))) for d in shape]
    return message((1, name), (2, message((1, message((1, kind), (2, message(*dims)))))))


def onnx_node(op, inputs, outputs, *attributes):
    return message(*[(1, i) for i in inputs], *[(2, o) for o in outputs], (3, op + "_1"), (4, op),
                   *[(5, a) for a in attributes])


def onnx_model(graph, *more):
    return message((1, 8), (2, "corpus"), (8, message((1, ""), (2, 17))), (7, graph),
                   (14, message((1, "author"), (2, "nobody"))), *more)


scale = onnx_tensor("w", 1, [2], (9, struct.pack("<2f", 1.5, -2)))
fields = [onnx_tensor("floats", 1, [2], (4, struct.pack("<2f", 1, 2))),
          onnx_tensor("one_by_one", 7, [2], (7, 1), (7, -1)),
          onnx_tensor("half", 10, [3], (5, varint(15360) * 3)),
          onnx_tensor("nibbles", 22, [3], (5, varint(0x21) + varint(3))),
          onnx_tensor("bools", 9, [2], (5, varint(1) + varint(0))),
          onnx_tensor("doubles", 11, [1], (10, struct.pack("<d", 3))),
          onnx_tensor("u32", 12, [2], (11, varint(7) + varint(8))),
          onnx_tensor("words", 8, [2], (6, "a"), (6, "b")), onnx_tensor("empty", 1, [0, 4], (9, b""))]
then = message((1, onnx_node("Relu", ["x"], ["t"])), (2, "then"), (12, onnx_value("t", 1, 2)))
other = message((1, onnx_node("Neg", ["x"], ["e"])), (2, "else"), (12, onnx_value("e", 1, 2)))
nodes = [onnx_node("Mul", ["x", "w"], ["y"]), onnx_node("If", ["c"], ["z"],
                                                        message((1, "then_branch"), (6, then), (20, 5)),
                                                        message((1, "else_branch"), (6, other), (20, 5))),
         onnx_node("Any", ["", "z"], ["o"], message((1, "f"), (2, 0.5), (20, 1)),
                   message((1, "i"), (3, -3), (20, 2)), message((1, "s"), (4, "same"), (20, 3)),
                   message((1, "t"), (5, scale), (20, 4)),
                   message((1, "fs"), (7, struct.pack("<f", 1)), (20, 6)),
                   message((1, "is"), (8, varint(1) + varint(2)), (20, 7)),
                   message((1, "ss"), (9, "a"), (9, "b"), (20, 8)))]
graph = message(*[(1, n) for n in nodes], (2, "graph"), (5, scale), *[(5, f) for f in fields],
                (11, onnx_value("x", 1, "n", 2)), (12, onnx_value("o", 1)))
body = message((1, "Twice"), (4, "a"), (5, "b"), (6, "alpha"),
               (7, onnx_node("Add", ["a", "a"], ["b"], message((1, "alpha"), (21, "alpha"), (20, 1)))),
               (9, message((1, ""), (2, 17))), (10, "local"))
put("onnx", "tensor", scale)
put("onnx", "model", onnx_model(graph, (25, body)))
put("onnx", "small", onnx_model(message((1, onnx_node("Relu", ["x"], ["y"])), (11, onnx_value("x", 1, 2)),
                                        (12, onnx_value("y", 1, 2)))))
put("onnx", "external", onnx_model(message((5, onnx_tensor("w", 1, [2],
                                                           (13, message((1, "location"), (2, "../w.bin"))),
                                                           (14, 1))))))
put("onnx", "short", onnx_model(message((5, onnx_tensor("w", 1, [3], (9, bytes(8)))))))
put("onnx", "huge", onnx_model(message((5, onnx_tensor("w", 1, [2**40, 2**40], (9, b""))))))
deep = message((4, "Loop"))
for _ in range(40): deep = message((4, "Loop"), (5, message((1, "body"), (6, message((1, deep))), (20, 5))))
put("onnx", "deep", onnx_model(message((1, deep))))
put("onnx", "sparse", onnx_model(message((15, message((1, scale),
                                                      (2, onnx_tensor("", 7, [2],
                                                                      (7, varint(0) + varint(3)))),
                                                      (3, varint(4)))))))

with open(os.path.join(golden, "pieces.json")) as f:
    for model in json.load(f)["sentencepiece"]:
        put("tokenizer_files", model["name"].replace(" ", "_").replace(",", ""),
            base64.b64decode(model["model"]))
put("tokenizer_files", "tiktoken", "IQ== 0\nIg== 1\nYWI= 2\n")
put("tokenizer_files", "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\nthe\ncat\n##t\n1\n##2\n")
put("tokenizer_files", "vocab.json",
    '{"a":0,"b":1,"ab":2,"t":3,"\\u0120":4,"<|endoftext|>":5}\0#version: 0.2\na b\n')


def whisper(sizes, tensors, tokens=(b"a", b"", b"\xc4\xa0"), mels=2):
    """A file of whisper.cpp. tensors: (name, ggml's type, shape innermost first, bytes)."""
    out = b"lmgg" + struct.pack("<11i", *sizes) + struct.pack("<ii", mels, 3) + struct.pack("<6f", *range(6))
    out += struct.pack("<i", len(tokens)) + b"".join(struct.pack("<i", len(t)) + t for t in tokens)
    for name, kind, shape, data in tensors:
        out += struct.pack("<iii", len(shape), len(name), kind) + struct.pack(f"<{len(shape)}i", *shape)
        out += name.encode() + data
    return out


small = (6, 5, 8, 2, 1, 4, 8, 2, 1, 2, 1)
put("whisper", "tensors", whisper(small, [("a.weight", 0, (3, 2), bytes(24)), ("b", 1, (4,), bytes(8)),
                                          ("c", 8, (32, 2), bytes(68))]))
put("whisper", "english", whisper((51864, *small[1:]), []))
put("whisper", "no_tokens", whisper(small, [], tokens=()))
put("whisper", "twice", whisper(small, [("a", 0, (1,), bytes(4))] * 2))
put("whisper", "huge", whisper(small, [("a", 0, (2**31 - 1,) * 4, bytes(8))]))
put("whisper", "cut", whisper(small, [("a", 0, (4, 4), bytes(63))]))
put("whisper", "filters", whisper(small, [], mels=1))


def png(width, height, kind, rows):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    lines = b"".join(b"\0" + row for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines))
            + chunk(b"IEND", b""))


put("image", "colours.png", png(3, 2, 2, [bytes(range(9)), bytes(range(9, 18))]))
put("image", "grey.png", png(4, 2, 0, [bytes(4), bytes([255, 0, 255, 0])]))
put("image", "opacity.png", png(1, 1, 6, [bytes([1, 2, 3, 128])]))
put("image", "grey.pgm", b"P5\n# a comment\n3 2\n255\n" + bytes(range(6)))
put("image", "colours.ppm", b"P6 2 1 255\n" + bytes(range(6)))
put("image", "two.bmp", b"BM" + struct.pack("<IHHI", 62, 0, 0, 54)
    + struct.pack("<IiiHHIIiiII", 40, 2, 1, 1, 24, 0, 8, 2835, 2835, 0, 0) + bytes([1, 2, 3, 4, 5, 6, 0, 0]))
put("image", "one.gif", b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes([0, 0, 0, 255, 255, 255])
    + b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + bytes([2, 2, 0x4C, 1, 0]) + b";")


def wav(form, bits, channels, data, rate=8000):
    frame = channels * bits // 8
    fmt = struct.pack("<HHIIHH", form, channels, rate, rate * frame, frame, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


put("audio", "16.wav", wav(1, 16, 1, struct.pack("<8h", *range(-400, 400, 100))))
put("audio", "8_stereo.wav", wav(1, 8, 2, bytes(range(0, 250, 25))))
put("audio", "f32.wav", wav(3, 32, 1, struct.pack("<4f", 0, 0.5, -0.5, 1), 16000))
put("audio", "16.aiff", b"FORM" + struct.pack(">I", 46 + 8) + b"AIFFCOMM"
    + struct.pack(">IhIh", 18, 1, 4, 16) + bytes([0x40, 0x0B, 0xFA, 0, 0, 0, 0, 0, 0, 0])
    + b"SSND" + struct.pack(">III", 16, 0, 0) + struct.pack(">4h", 0, 100, -100, 0))

put("chat_template", "chatml", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
put("chat_template", "llama2", "{% set s = '' %}{%- if messages[0].role == 'system' -%}"
    "{% set s = messages[0].content %}{% set messages = messages[1:] %}{% endif %}{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}"
    "{{ bos_token ~ '[INST] ' + s + m.content }}{% endfor %}")
put("chat_template", "macro", "{% macro line(a, b='x') %}{{ a|upper }}:{{ b }}{% endmacro %}"
    "{% set ns = namespace(k=0) %}{% for i in range(n) if i is not none %}{% set ns.k = ns.k + i %}"
    "{{ line(i|string, b=ns.k) }}{% endfor %}{# no text #}{{ {'a': [1, 2.5, true]} | tojson(indent=2) }}"
    "{{ messages | length }}")
put("chat_template", "tools", "{% if tools is defined and tools %}{{ tools|map(attribute='name')|join(',') }}"
    "{% elif not tools %}{{ 'none' if tools is none else 'some' }}{% else %}-{% endif %}{{ '%s' % n }}")

put("grammar", "list", 'root ::= "[" (item ("," item)*)? "]"\nitem ::= [0-9]{1,3} '
    '| "\\"" [^"\\\\]* "\\"" # a text\n')
put("grammar", "rules", 'root ::= (a | b)+ "."\na ::= "x" b?\nb ::= [a-z\\u00e4] | .\n')
put("grammar", "object.schema", json.dumps({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 30},
    "tags": {"type": "array", "items": {"enum": ["a", 1, None]}, "minItems": 1, "maxItems": 2}},
    "required": ["name"], "additionalProperties": False}))
put("grammar", "refs.schema", json.dumps({"$ref": "#/$defs/t", "$defs": {"t": {"anyOf": [
    {"type": "null"}, {"type": "object", "properties": {"next": {"$ref": "#/$defs/t"}}}]}}}))
put("config", "moondream", json.dumps({"model_type": "moondream1", "config": {
    "text": {"dim": 32, "ff_dim": 64, "n_layers": 2, "n_heads": 2, "vocab_size": 260, "max_context": 128},
    "vision": {"enc_dim": 24, "enc_patch_size": 4, "enc_n_layers": 2, "enc_ff_dim": 40, "enc_n_heads": 2,
               "crop_size": 24, "max_crops": 4, "overlap_margin": 1, "in_channels": 3},
    "tokenizer": {"bos_id": 3, "eos_id": 3, "templates": {"query": {"prefix": [1, 2], "suffix": [3]},
                                                          "caption": {"normal": [4]}}}}}))
