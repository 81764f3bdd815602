# tools/builtin_model/sample.py -- reads aloud what a trained or exported model has to tell (numpy only).
"""python3 sample.py ../../models/builtin/hf --prompt "Tell me about Lumi." --temp 0.8 --count 3 --seed 1"""
import argparse
import json
import os

import numpy as np

import bpe
from export import read_safetensors
from reference import Reference


def sampler(rng, temperature, top_p):
    """A function from logits to a token: temperature, then the smallest set of tokens that holds
    `top_p` of the mass."""
    def choose(logits):
        p = np.exp((logits - logits.max()) / temperature)
        p /= p.sum()
        order = np.argsort(-p)
        keep = order[:int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1]
        return int(rng.choice(keep, p=p[keep] / p[keep].sum()))
    return choose


def main():
    parser = argparse.ArgumentParser(description="sample from the built-in model")
    parser.add_argument("folder", help="a folder of train.py or models/builtin/hf")
    parser.add_argument("--prompt", default="")
    parser.add_argument("--temp", type=float, default=0.8, help="0 is greedy")
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-n", type=int, default=512)
    args = parser.parse_args()
    with open(os.path.join(args.folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    model = Reference(read_safetensors(os.path.join(args.folder, "model.safetensors")), config)
    tokenizer = bpe.Tokenizer.load(os.path.join(args.folder, "tokenizer.json"))
    rng = np.random.default_rng(args.seed)
    for _ in range(args.count):
        choose = sampler(rng, args.temp, args.top_p) if args.temp > 0 else None
        ids, lead = model.generate([0] + tokenizer.encode(args.prompt), args.n, end=1, choose=choose)
        print(f"{args.prompt}{tokenizer.decode(ids)}\n\n[{len(ids)} tokens, smallest lead {lead:.3f}]\n"
              + "-" * 60)


if __name__ == "__main__":
    main()
