#!/usr/bin/env python3
# bench/flex.py -- variants of attention, each written out as its formula, beside PyTorch's flex_attention.
#
#   ./bench.sh flex [--only NAME,..] [--lengths 1024,4096] [--threads 2,1] [--dtype f32|bf16]
#   [--budget SECONDS] [--rounds N] [--seconds S] [--processor-time] [--json FILE] [--no-flex]
#
# "ours" is the formula as a graph of the module, "torch" the same formula of PyTorch through torch.compile
# with our back end, "eager" the formula as PyTorch runs it, "flex" flex_attention compiled by PyTorch (a
# mask as a block mask, made beforehand). All run by turns; the time is the least of all, with
# --processor-time that of the process. "values" is the memory of values between kernels, at its peak.
import argparse
import collections
import json
import math
import os
import pathlib
import statistics
import sys
import time

BATCH, HEADS, DEPTH = 1, 8, 64
WINDOW, PREFIX, CAP = 256, 200, 20.0
Data = collections.namedtuple("Data", "q k v doc slope sink")
# Of a pair: indices of query and key, the documents both belong to, the slope of the head.
Pair = collections.namedtuple("Pair", "i j doc_i doc_j slope")


def later(at):
    return at.j <= at.i


# Each: the changed score s (or None), the condition under which a pair takes part (or None), and whether a
# learned logit of each head joins the sum (a sink). `lib` is torch or the module, `at` a Pair.
VARIANTS = {
    "full": (None, None, False),
    "causal": (None, lambda lib, at: later(at), False),
    "soft-capped": (lambda lib, s, at: lib.tanh(s / CAP) * CAP, None, False),
    "alibi": (lambda lib, s, at: s + at.slope * (at.j - at.i), lambda lib, at: later(at), False),
    "window": (None, lambda lib, at: later(at) & (at.i - at.j <= WINDOW), False),
    "document": (None, lambda lib, at: at.doc_i == at.doc_j, False),
    "document causal": (None, lambda lib, at: (at.doc_i == at.doc_j) & later(at), False),
    "prefix": (None, lambda lib, at: later(at) | (at.j < PREFIX), False),
    "sinks": (None, lambda lib, at: later(at), True),
}


def data(torch, length, dtype):
    torch.manual_seed(0)
    shape = (BATCH, HEADS, length, DEPTH)
    q, k, v = (torch.randn(shape).to(dtype) for _ in range(3))
    ends = torch.sort(torch.randperm(length)[:7]).values  # eight documents
    documents = torch.searchsorted(ends, torch.arange(length), right=True)
    slopes = 2.0 ** -torch.arange(1, HEADS + 1, dtype=torch.float32)
    return Data(q, k, v, documents, slopes, torch.randn(HEADS))


def formula(lib, name, q, k, v, doc, slope, sink, i, j):
    """softmax(score(q k^T / sqrt(d))) v with scores in f32: [b, h, n, d] three times -> [b, h, n, d]."""
    score, mask, sinks = VARIANTS[name]
    n = q.shape[2]
    at = Pair(
        i.reshape(n, 1), j.reshape(1, n), doc.reshape(n, 1), doc.reshape(1, n), slope.reshape(HEADS, 1, 1)
    )
    s = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(DEPTH))
    if score:
        s = score(lib, s, at)
    if mask:
        s = lib.where(mask(lib, at), s, -math.inf)
    if sinks:
        s = lib.concat([s, sink.reshape(1, HEADS, 1, 1).expand(BATCH, HEADS, n, 1)], -1)
    return lib.softmax(s, -1)[..., :n] @ v


def eager(torch, name, d):
    index = torch.arange(d.q.shape[2])
    return lambda: formula(torch, name, *d, index, index)


def compiled(torch, name, d):
    torch._dynamo.reset()

    def whole(*inputs):
        index = torch.arange(inputs[0].shape[2])
        return formula(torch, name, *inputs, index, index)

    function = torch.compile(whole, backend="luminal")
    return lambda: function(*d)


def ours(name, d, threads, budget):
    import luminal as pl

    graph = pl.Graph()
    with graph:
        tensors = [pl.from_dlpack(x) for x in d]
        index = pl.arange(0, d.q.shape[2], 1, dtype="i64")
        result = formula(pl, name, *tensors, index, index).keep()
    options = {"mode": "budget", "budget": budget} if budget else {}
    graph.compile(threads=threads, **options)

    def call():
        graph.execute()
        return result

    return call, graph


def flex(torch, name, d):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    score, mask, sinks = VARIANTS[name]
    q, k, v, doc, slope, sink = d
    n = q.shape[2]

    def changed(s, b, h, i, j):
        return score(torch, s, Pair(i, j, doc[i], doc[j], slope[h]))

    def taken(b, h, i, j):
        return mask(torch, Pair(i, j, doc[i], doc[j], slope[h]))

    change = changed if score else None
    block_mask = create_block_mask(taken, None, None, n, n, device="cpu") if mask else None
    torch._dynamo.reset()
    function = torch.compile(flex_attention, fullgraph=True)
    if not sinks:
        return lambda: function(q, k, v, score_mod=change, block_mask=block_mask)

    def with_sink():
        out, total = flex_attention(q, k, v, block_mask=block_mask, return_lse=True)
        return out * torch.sigmoid(total - sink.reshape(HEADS, 1)).unsqueeze(-1)

    return torch.compile(with_sink, fullgraph=True)


def timed(calls, rounds, seconds, clock):
    times = {of: [] for of in calls}
    for _ in range(rounds):
        for of, call in calls.items():
            time.sleep(0.02)  # threads of the one before go to sleep
            call()
            end = time.perf_counter() + seconds
            while True:
                begin = clock()
                call()
                times[of].append(clock() - begin)
                if time.perf_counter() > end:
                    break
    return {of: min(list_) for of, list_ in times.items()}


def row_of(torch, name, length, threads, dtype, arguments):
    d = data(torch, length, dtype)
    calls, failed = {}, {}

    def add(of, make):
        try:
            calls[of] = make()
            calls[of]()
        except Exception as error:  # a peer that is absent or refuses the variant is named
            calls.pop(of, None)
            failed[of] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
            print(f"{name}: {of}: {failed[of]}", file=sys.stderr)

    add("eager", lambda: eager(torch, name, d))
    call, graph = ours(name, d, threads, arguments.budget)
    add("ours", lambda: call)
    add("torch", lambda: compiled(torch, name, d))
    if not arguments.no_flex:
        add("flex", lambda: flex(torch, name, d))
    wanted = eager(torch, name, Data(*(x.double() if x.is_floating_point() else x for x in d)))()
    apart = {}
    for of, call in calls.items():
        result = call()
        result = torch.from_dlpack(result) if of == "ours" else result
        apart[of] = float((result.double() - wanted).abs().max() / wanted.abs().max())
        if not apart[of] < (1e-4 if dtype == torch.float32 else 3e-2):
            raise SystemExit(f"flex: {name}: {of} is off by {apart[of]:.2e}")
    clock = time.process_time if arguments.processor_time else time.perf_counter
    times = timed(calls, arguments.rounds, arguments.seconds, clock)
    return {
        "name": name,
        "length": length,
        "threads": threads,
        "ms": {of: 1e3 * seconds for of, seconds in times.items()},
        "apart": apart,
        "failed": failed,
        "values": graph.memory().arena - graph.memory().kept,
    }


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description="Variants of attention beside flex_attention.")
    parser.add_argument("--only", default=",".join(VARIANTS))
    parser.add_argument("--lengths", type=numbers, default=[1024, 4096])
    parser.add_argument("--threads", type=numbers, default=[2, 1])
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--budget", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--no-flex", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("flex: PyTorch is not installed here; ./bench.sh peers installs it", file=sys.stderr)
        return 2
    names = arguments.only.split(",")
    for name in names:
        if name not in VARIANTS:
            print(f"flex: there is no variant '{name}'. There are: {', '.join(VARIANTS)}", file=sys.stderr)
            return 2
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[arguments.dtype]
    rows, ratios = [], {"flex": [], "eager": []}
    for length in arguments.lengths:
        for threads in arguments.threads:
            torch.set_num_threads(threads)
            os.environ["LUMINAL_THREADS"] = str(threads)
            for name in names:
                with torch.no_grad():
                    row = row_of(torch, name, length, threads, dtype, arguments)
                rows.append(row)
                ms = row["ms"]
                text = ", ".join(f"{of} {t:.2f}" for of, t in ms.items())
                for peer, list_ in ratios.items():
                    if peer in ms:
                        list_.append(ms[peer] / ms["ours"])
                        text += f"; {list_[-1]:.2f} x {peer}"
                text += f"; values {row['values'] / 2**20:.2f} MiB"
                print(f"{name} {length} t{threads}: {text}", flush=True)
                if arguments.json:
                    arguments.json.write_text(json.dumps(rows, indent=1))
    for peer, list_ in ratios.items():
        if list_:
            print(f"geometric mean {statistics.geometric_mean(list_):.2f} x {peer}, least {min(list_):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
