# tools/builtin_model/train.py -- trains the built-in model on a fresh stream of tales; writes a
# checkpoint for export.py.
"""Needs PyTorch (see README.md). One thread, deterministic for one machine type and PyTorch version.
    python3 train.py --out /tmp/builtin --steps 3600 --seed 20
Every document is seen once. Matrices are trained by Muon, the embedding and the norms by AdamW."""
import argparse
import json
import os
import random
import time
from itertools import islice

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import bpe
from grammar import stream
from model import Config, Llama

TOKENIZER_DOCUMENTS = 20000


def encoded(tokenizer, seed, limit):
    """Endless (ids, first id that is learnt): begin, prompt, text, end. One document in twelve is
    followed by a second one."""
    rng, docs = random.Random(seed + 1), stream(seed)
    while True:
        ids, learn = one(tokenizer, next(docs))
        if rng.random() < 1 / 12:
            more, _ = one(tokenizer, next(docs))
            if len(ids) + len(more) <= limit:
                ids += more
        if len(ids) <= limit:
            yield ids, learn


def one(tokenizer, doc):
    prompt = len(tokenizer.encode(doc.prompt)) if doc.made_up else 0
    return [0] + tokenizer.encode(doc.full) + [1], prompt


def batches(tokenizer, seed, tokens, limit):
    """Endless (inputs, targets) of documents of similar length, at most `tokens` positions each;
    -100 marks what is not learnt."""
    docs, rng = encoded(tokenizer, seed, limit + 1), random.Random(seed + 2)
    while True:
        pool = sorted(islice(docs, 2048), key=lambda d: len(d[0]))
        rows, start = [], 0
        while start < len(pool):
            stop = start
            while stop < len(pool) and (stop + 1 - start) * (len(pool[stop][0]) - 1) <= tokens:
                stop += 1
            rows.append(pool[start:stop])
            start = stop
        rng.shuffle(rows)
        for group in rows:
            width = max(len(ids) for ids, _ in group) - 1
            x, y = torch.zeros(len(group), width, dtype=torch.long), torch.full((len(group), width), -100)
            for i, (ids, learn) in enumerate(group):
                x[i, :len(ids) - 1] = torch.tensor(ids[:-1])
                y[i, learn:len(ids) - 1] = torch.tensor(ids[learn + 1:])
            yield x, y


def loss_of(model, x, y):
    hidden = model(x)[y >= 0]
    return F.cross_entropy(model.logits(hidden), y[y >= 0])


def rate(step, steps):
    """Warm-up, constant, then linear to zero over the last 60 %."""
    return min(1.0, (step + 1) / 100, (steps - step) / (0.6 * steps))


def save(model, folder):
    save_file({"model." + k: v.contiguous() for k, v in model.state_dict().items()},
              os.path.join(folder, "model.safetensors"))


def main():
    parser = argparse.ArgumentParser(description="train the built-in model")
    parser.add_argument("--out", required=True,
                        help="folder for model.safetensors, tokenizer.json, train.json")
    parser.add_argument("--steps", type=int, default=3600)
    parser.add_argument("--tokens", type=int, default=6144, help="positions per step")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--muon", type=float, default=0.01)
    parser.add_argument("--adam", type=float, default=0.004)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)

    config = Config()
    tokenizer = bpe.Tokenizer(bpe.train((d.full for d in islice(stream(args.seed + 1000),
                                                                TOKENIZER_DOCUMENTS)), config.vocab_size))
    tokenizer.save(os.path.join(args.out, "tokenizer.json"))
    with open(os.path.join(args.out, "config.json"), "w", encoding="utf-8") as out:
        json.dump(config.as_dict(), out)
    model = Llama(config)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count} parameters, {len(tokenizer.tokens)} tokens, seed {args.seed}", flush=True)

    matrices = [p for n, p in model.named_parameters() if "proj" in n]
    others = [p for n, p in model.named_parameters() if "proj" not in n]
    optimizers = [torch.optim.Muon(matrices, lr=args.muon, momentum=0.95, weight_decay=0.05,
                                   adjust_lr_fn="match_rms_adamw"),
                  torch.optim.AdamW(others, lr=args.adam, betas=(0.9, 0.98), weight_decay=0.0)]
    peak = [g["lr"] for o in optimizers for g in o.param_groups]

    held_out = list(islice(batches(tokenizer, args.seed + 5000, args.tokens, config.max_position_embeddings),
                           12))
    data = batches(tokenizer, args.seed, args.tokens, config.max_position_embeddings)
    began, seen, average, log = time.time(), 0, None, []
    for step in range(args.steps):
        scale = rate(step, args.steps)
        for optimizer, lr in zip(optimizers, peak):
            optimizer.param_groups[0]["lr"] = lr * scale
        x, y = next(data)
        loss = loss_of(model, x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        seen += int((y >= 0).sum())
        average = loss.item() if average is None else 0.97 * average + 0.03 * loss.item()
        if (step + 1) % 100 == 0 or step + 1 == args.steps:
            print(f"step {step + 1}/{args.steps} loss {average:.4f} tokens {seen} "
                  f"{time.time() - began:.0f} s", flush=True)
            log.append([step + 1, round(average, 4)])
        if (step + 1) % 500 == 0:
            save(model, args.out)
    with torch.no_grad():
        held = sum(loss_of(model, x, y).item() for x, y in held_out) / len(held_out)
    seconds = time.time() - began
    print(f"held-out loss {held:.4f} after {seen} tokens in {seconds:.0f} s")
    save(model, args.out)
    with open(os.path.join(args.out, "train.json"), "w", encoding="utf-8") as out:
        json.dump(dict(config=config.as_dict(), parameters=count, seed=args.seed, steps=args.steps,
                       tokens_per_step=args.tokens, tokens=seen,
                       held_out_loss=round(held, 4), seconds=round(seconds), torch=torch.__version__,
                       log=log), out, indent=1)


if __name__ == "__main__":
    main()
