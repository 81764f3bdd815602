# tools/builtin_model/verify.py -- other people's programs read the exported model and must agree
# with reference.json.
"""Needs torch, transformers, accelerate, tokenizers and gguf (see README.md).   python3 verify.py
../../models/builtin Checks: both tokenizers on the reference prompts and on random text; the GGUF's
tensors equal the folder's; greedy text of transformers from both forms, as far as its arithmetic
allows; the logits. Exit code 1 where anything differs."""
import argparse
import itertools
import json
import os
import random
import sys

import numpy as np
import torch
from gguf import GGUFReader
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

import bpe
from export import gguf_tensors, read_safetensors
from grammar import stream

failures = []


def check(what, good):
    print(("ok    " if good else "WRONG ") + what)
    if not good:
        failures.append(what)


def random_texts(count):
    """Tales, and strings that mix white space, contractions, digits and letters of many scripts."""
    rng = random.Random(4)
    common = list(" \n\t'abcst12!?\"") + ["'s", "'ll", "  ", "☾"]
    ranges = [(1, 0x250), (0x370, 0x600), (0x900, 0x980), (0x2000, 0x2200), (0x3000, 0x3100),
              (0x4e00, 0x4e40), (0x1f600, 0x1f640)]
    for doc in itertools.islice(stream(99), count // 5):
        yield doc.full
    for _ in range(count):
        yield "".join(rng.choice(common) if rng.random() < 0.6 else chr(rng.randrange(*rng.choice(ranges)))
                      for _ in range(rng.randint(0, 40)))


def main():
    parser = argparse.ArgumentParser(description="verify the exported model with other programs")
    parser.add_argument("models", help="models/builtin")
    args = parser.parse_args()
    folder, gguf = os.path.join(args.models, "hf"), os.path.join(args.models, "luminal-tales.gguf")
    with open(os.path.join(args.models, "reference.json"), encoding="utf-8") as file:
        reference = json.load(file)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)

    ours, theirs = bpe.Tokenizer.load(os.path.join(folder, "tokenizer.json")), Tokenizer.from_file(
        os.path.join(folder, "tokenizer.json"))
    texts = list(random_texts(20000)) + [g["prompt"] for g in reference["greedy"]]
    check(f"tokenizers encodes {len(texts)} texts alike",
          all([0] + ours.encode(t) == theirs.encode(t).ids for t in texts))
    check("and decodes them", all(theirs.decode(theirs.encode(t).ids) == t == ours.decode(ours.encode(t))
                                  for t in texts))

    reader = GGUFReader(gguf)
    strings = lambda key: [bytes(reader.fields[key].parts[i]).decode() for i in reader.fields[key].data]
    check("gguf tokens", strings("tokenizer.ggml.tokens") == ours.tokens)
    check("gguf merges", strings("tokenizer.ggml.merges") == [" ".join(m) for m in ours.merges])
    wanted = list(gguf_tensors(read_safetensors(os.path.join(folder, "model.safetensors")), config))
    check("gguf tensors", [(t.name, list(reversed(t.shape.tolist())))
                           for t in reader.tensors] == [(n, list(t.shape)) for n, t in wanted]
          and all(np.array_equal(t.data.reshape(w.shape), w) for t, (_, w) in zip(reader.tensors, wanted)))

    tokenizer = AutoTokenizer.from_pretrained(folder)
    check("transformers encodes with the begin token", tokenizer("Tell me about Lumi.").input_ids == [0]
          + ours.encode("Tell me about Lumi."))
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Who is Otto?"}], tokenize=False,
                                         add_generation_prompt=True)
    check("chat template", chat == bpe.BEGIN + "Who is Otto?\n\n")
    models = {"folder": AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
              "gguf": AutoModelForCausalLM.from_pretrained(args.models, gguf_file=os.path.basename(gguf),
                                                           dtype=torch.float32)}
    for name, model in models.items():
        with torch.no_grad():
            logits = model(torch.tensor([reference["logits"]["prompt_tokens"]])).logits[
                0, -1].double().numpy()
        worst = np.abs(logits - np.array(reference["logits"]["values"])).max()
        check(f"{name}: logits within 1e-4 (worst {worst:.1e})", worst < 1e-4)
        for g in reference["greedy"]:
            ids = torch.tensor([g["prompt_tokens"]])
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                                 max_new_tokens=len(g["tokens"]), pad_token_id=1)
            check(f"{name}: greedy text after {g['prompt']!r}", out[0, ids.shape[1]:].tolist() == g["tokens"])
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
