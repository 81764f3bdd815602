# tools/builtin_model/export.py -- writes the trained model as GGUF and as a Hugging Face folder,
# with reference outputs.
"""Needs only numpy.   python3 export.py --from /tmp/builtin --to ../../models/builtin The weights
are rounded to float16 once; both forms hold those numbers, and reference.json is computed from them
in float64."""
import argparse
import hashlib
import json
import os
import shutil
import struct

import numpy as np

import bpe
from reference import Reference

NAME = "luminal-tales"
DESCRIPTION = "Tiny tales of Lantern Bay: a small Llama trained on the text of a seeded grammar."
CHAT = ("{% for message in messages %}{% if message['role'] == 'assistant' %}{{ message['content'] + "
        "eos_token }}"
        "{% else %}{{ bos_token + message['content'] + '\\n\\n' }}{% endif %}{% endfor %}")
PROMPTS = ["", "Once upon a time", "Tell me about Lumi.", "What does a compiler dream of?",
           "Why is the sea salty?",
           "The Crab and the Whale\n\n", "Write a letter to the moon.", "Tell me about penguins."]
LOGITS_PROMPT = "Tell me a story about Ada the compiler."
DTYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]],
                             DTYPES[v["dtype"]]).reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(t.shape), "data_offsets": [offset, offset + t.nbytes]}
        offset += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            out.write(t.tobytes())


def write_json(path, value, **how):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False, **(how or {"indent": 2}))
        out.write("\n")


# ---- GGUF version 3 ----

def gguf_string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value):
    """A metadata value with its type tag: int -> uint32, float -> float32, bool, str, lists of str
    or of int32."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(gguf_string(v) for v in value)
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def interleave(weight, heads):
    """Rows of a query or key matrix from rotate-half order to the interleaved order of GGUF's llama."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def gguf_tensors(tensors, c):
    """(name, array) in file order; the norms are float32, as llama.cpp expects of vectors, with the
    same float16 values."""
    parts = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down"}
    yield "token_embd.weight", tensors["model.embed_tokens.weight"]
    for i in range(c["num_hidden_layers"]):
        for theirs, ours in parts.items():
            t = tensors[f"model.layers.{i}.{theirs}.weight"]
            if ours in ("attn_q", "attn_k"):
                t = interleave(t, c["num_attention_heads"] if ours == "attn_q" else c["num_key_value_heads"])
            yield f"blk.{i}.{ours}.weight", t.astype(np.float32) if t.ndim == 1 else t
    yield "output_norm.weight", tensors["model.norm.weight"].astype(np.float32)


def write_gguf(path, tensors, c, tokenizer):
    meta = {"general.architecture": "llama", "general.name": NAME, "general.description": DESCRIPTION,
            "general.license": "mit",
            "general.file_type": 1, "general.alignment": 32, "llama.vocab_size": c["vocab_size"],
            "llama.context_length": c["max_position_embeddings"], "llama.embedding_length": c["hidden_size"],
            "llama.block_count": c["num_hidden_layers"], "llama.feed_forward_length": c["intermediate_size"],
            "llama.attention.head_count": c["num_attention_heads"],
            "llama.attention.head_count_kv": c["num_key_value_heads"],
            "llama.attention.key_length": c["head_dim"], "llama.attention.value_length": c["head_dim"],
            "llama.attention.layer_norm_rms_epsilon": c["rms_norm_eps"],
            "llama.rope.dimension_count": c["head_dim"],
            "llama.rope.freq_base": c["rope_theta"], "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": tokenizer.tokens, "tokenizer.ggml.token_type": [3, 3]
            + [1] * (len(tokenizer.tokens) - 2),
            "tokenizer.ggml.merges": [" ".join(m) for m in tokenizer.merges],
            "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.add_bos_token": True,
            "tokenizer.chat_template": CHAT}
    listed = list(gguf_tensors(tensors, c))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(meta))
    head += b"".join(gguf_string(k) + gguf_value(v) for k, v in meta.items())
    body = b""
    for name, t in listed:
        kind = 0 if t.dtype == np.float32 else 1
        head += gguf_string(name) + struct.pack(f"<I{t.ndim}QIQ", t.ndim, *reversed(t.shape), kind, len(body))
        body += t.tobytes()
        body += b"\0" * (-len(body) % 32)
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32) + body)


def write_folder(path, tensors, c, tokenizer):
    os.makedirs(path, exist_ok=True)
    write_safetensors(os.path.join(path, "model.safetensors"), tensors)
    write_json(os.path.join(path, "config.json"), {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", **c, "hidden_act": "silu",
                                                   "attention_bias": False, "mlp_bias": False,
        "attention_dropout": 0.0, "rope_scaling": None, "tie_word_embeddings": True, "bos_token_id": 0,
                                                   "eos_token_id": 1,
        "initializer_range": 0.02, "pretraining_tp": 1, "use_cache": True, "torch_dtype": "float16"})
    write_json(os.path.join(path, "generation_config.json"),
               {"bos_token_id": 0, "eos_token_id": 1, "do_sample": True, "temperature": 0.8})
    tokenizer.save(os.path.join(path, "tokenizer.json"))
    write_json(os.path.join(path, "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bpe.BEGIN, "eos_token": bpe.END,
                                                             "add_bos_token": True,
        "clean_up_tokenization_spaces": False, "model_max_length": c["max_position_embeddings"],
                                                             "chat_template": CHAT,
        "added_tokens_decoder": {str(i): {"content": t, "lstrip": False, "normalized": False, "rstrip": False,
                                          "single_word": False,
                                          "special": True} for i, t in enumerate(bpe.SPECIALS)}})


def references(tensors, c, tokenizer, tokens):
    model, out = Reference(tensors, c), []
    for prompt in PROMPTS:
        ids = [0] + tokenizer.encode(prompt)
        new, lead = model.generate(ids, tokens, end=1)
        out.append(dict(prompt=prompt, prompt_tokens=ids, tokens=new, text=tokenizer.decode(new),
                        stop="end" if new[-1] == 1 else "length",
                        smallest_lead=round(float(lead), 5)))
    ids = [0] + tokenizer.encode(LOGITS_PROMPT)
    values = [float(np.float32(v)) for v in model.prompt(ids)]
    return dict(greedy=out, logits=dict(prompt=LOGITS_PROMPT, prompt_tokens=ids, values=values))


def main():
    parser = argparse.ArgumentParser(description="export the built-in model")
    parser.add_argument("--from", dest="source", required=True, help="folder written by train.py")
    parser.add_argument("--to", required=True, help="models/builtin")
    parser.add_argument("--tokens", type=int, default=160, help="length of the reference continuations")
    args = parser.parse_args()
    with open(os.path.join(args.source, "train.json"), encoding="utf-8") as file:
        c = json.load(file)["config"]
    tokenizer = bpe.Tokenizer.load(os.path.join(args.source, "tokenizer.json"))
    tensors = {k: v.astype(np.float16) for k, v in read_safetensors(
        os.path.join(args.source, "model.safetensors")).items()}
    folder, gguf = os.path.join(args.to, "hf"), os.path.join(args.to, NAME + ".gguf")
    write_folder(folder, tensors, c, tokenizer)
    write_gguf(gguf, tensors, c, tokenizer)
    shutil.copyfile(os.path.join(args.source, "train.json"), os.path.join(args.to, "train.json"))
    files = [gguf] + [os.path.join(folder, f) for f in sorted(os.listdir(folder))]
    digests = {os.path.relpath(f, args.to): hashlib.sha256(open(f, "rb").read()).hexdigest() for f in files}
    write_json(os.path.join(args.to, "reference.json"),
               dict(sha256=digests, **references(tensors, c, tokenizer, args.tokens)), indent=1)
    for f in files:
        print(f"{os.path.getsize(f):8d}  {f}")


if __name__ == "__main__":
    main()
