#!/usr/bin/env python3
# bench/serve.py -- luminal serve beside llama-server: one model, texts of several clients at once.
#
#   ./bench.sh serve [--model FILE.gguf] [--clients 1,4,16] [--prompt N] [--tokens N] [--threads N]
#   [--rounds N] [--json FILE]
#
# Each round both servers answer by turns: every client sends two requests, one after the other, with a prompt
# of its own that no request had before. A figure is the tokens written in a second, all clients together,
# with the time of the prompts in it; the best of the rounds. Without --model a Llama of random weights is
# made once: 24 layers, 1024 wide, Q8_0, a vocabulary of 32,000. Both servers round activations to
# 8 bits, which is what llama.cpp does with such weights.
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "luminal/peers"
PEER = CACHE / "llama/build/bin/llama-server"
ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS, HIDDEN, HEADS, KV_HEADS, INNER, VOCABULARY, CONTEXT = 24, 1024, 16, 4, 2816, 32000, 2048


def random_model(path):
    """A GGUF file of random Q8_0 weights with a SentencePiece vocabulary: bytes, words of two letters, and
    what no text meets."""
    import numpy

    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def entry(key, value):
        if isinstance(value, str):
            return text(key) + struct.pack("<I", 8) + text(value)
        if isinstance(value, float):
            return text(key) + struct.pack("<If", 6, value)
        return text(key) + struct.pack("<II", 4, value)

    def entries(key, kind, values, form):
        return text(key) + struct.pack("<IIQ", 9, kind, len(values)) + b"".join(map(form, values))

    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [f"\u2581{a}{b}" for a in letters for b in letters]
    words += [*(f"\u2581{a}" for a in letters), "\u2581", *letters]
    words += [f"{k:05}" for k in range(VOCABULARY - 259 - len(words))]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *words]
    kinds = [2, 3, 3, *[6] * 256, *[1] * len(words)]
    scores = [0.0] * 259 + [-float(k) for k in range(len(words))]
    head = HIDDEN // HEADS
    metadata = [
        entry("general.architecture", "llama"),
        entry("general.name", "random"),
        entry("llama.block_count", LAYERS),
        entry("llama.context_length", CONTEXT),
        entry("llama.embedding_length", HIDDEN),
        entry("llama.feed_forward_length", INNER),
        entry("llama.attention.head_count", HEADS),
        entry("llama.attention.head_count_kv", KV_HEADS),
        entry("llama.attention.layer_norm_rms_epsilon", 1e-5),
        entry("llama.rope.dimension_count", head),
        entry("llama.rope.freq_base", 10000.0),
        entry("llama.vocab_size", VOCABULARY),
        entry("tokenizer.ggml.model", "llama"),
        entries("tokenizer.ggml.tokens", 8, tokens, text),
        entries("tokenizer.ggml.scores", 6, scores, lambda v: struct.pack("<f", v)),
        entries("tokenizer.ggml.token_type", 5, kinds, lambda v: struct.pack("<i", v)),
        entry("tokenizer.ggml.bos_token_id", 1),
        entry("tokenizer.ggml.eos_token_id", 2),
    ]
    shapes = [("token_embd.weight", (VOCABULARY, HIDDEN)), ("output_norm.weight", (HIDDEN,))]
    shapes.append(("output.weight", (VOCABULARY, HIDDEN)))
    for k in range(LAYERS):
        for part, shape in (
            ("attn_norm", (HIDDEN,)),
            ("attn_q", (HIDDEN, HIDDEN)),
            ("attn_k", (KV_HEADS * head, HIDDEN)),
            ("attn_v", (KV_HEADS * head, HIDDEN)),
            ("attn_output", (HIDDEN, HIDDEN)),
            ("ffn_norm", (HIDDEN,)),
            ("ffn_gate", (INNER, HIDDEN)),
            ("ffn_up", (INNER, HIDDEN)),
            ("ffn_down", (HIDDEN, INNER)),
        ):
            shapes.append((f"blk.{k}.{part}.weight", shape))
    draw = numpy.random.default_rng(0)
    tensors, table, at = [], [], 0
    for name, shape in shapes:
        if len(shape) == 1:
            data, kind = numpy.ones(shape, "<f4").tobytes(), 0
        else:
            blocks = shape[0] * shape[1] // 32
            made = numpy.zeros(blocks, numpy.dtype([("d", "<f2"), ("q", "i1", 32)]))
            made["q"] = draw.integers(-127, 128, (blocks, 32), "i1")
            made["d"] = 1 / (73 * shape[1] ** 0.5)
            data, kind = made.tobytes(), 8
        table.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, at))
        tensors.append(data + bytes(-len(data) % 32))
        at += len(tensors[-1])
    start = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata)) + b"".join(metadata + table)
    part = path.with_suffix(".part")
    with open(part, "wb") as out:
        out.write(start + bytes(-len(start) % 32))
        out.writelines(tensors)
    part.rename(path)


class Server:
    def __init__(self, name, command, port):
        self.name, self.address = name, f"http://127.0.0.1:{port}"
        told = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=told)
        for _ in range(1200):
            if self.process.poll() is not None:
                told.seek(0)
                lines = told.read().decode(errors="replace").splitlines() or ["it says nothing"]
                sys.exit(f"{name} ended with {self.process.returncode}: {lines[-1]}")
            try:
                with urllib.request.urlopen(self.address + "/health", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.1)
        self.stop()
        sys.exit(f"{name} is not ready after two minutes")

    def complete(self, prompt, tokens):
        """How many tokens were written."""
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "logit_bias": {"2": -100}}
        request = urllib.request.Request(
            self.address + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=1200) as answer:
            return json.load(answer)["usage"]["completion_tokens"]

    def rate(self, clients, prompts, tokens):
        """Tokens a second of clients that each send their share of the prompts, one after the other."""

        def client(k):
            return sum(self.complete(p, tokens) for p in prompts[k::clients])

        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            written = sum(pool.map(client, range(clients)))
        return written / (time.perf_counter() - start)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def counts(text):
    """Whole numbers from 1 on, with commas between."""
    numbers = [int(n) for n in text.split(",")]
    if min(numbers) < 1:
        raise ValueError(text)
    return numbers


def main():
    parser = argparse.ArgumentParser(description="luminal serve beside llama-server")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--clients", type=counts, default="1,4,16")
    parser.add_argument("--prompt", type=int, default=64, help="words of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    if not PEER.exists():
        print(f"llama-server is absent ({PEER}): ./bench.sh peers builds it", file=sys.stderr)
    model = args.model
    if model is None:
        model = CACHE / "models/serve-q8_0.gguf"
        if not model.exists():
            model.parent.mkdir(parents=True, exist_ok=True)
            random_model(model)
    places, context = max(args.clients), args.prompt * 4 + args.tokens + 64
    common = ["-t", str(args.threads)]
    draw = random.Random(0)

    def word():
        return "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=2))

    rows, servers = [], []
    try:
        command = [ROOT / "build/luminal", "serve", model, "--port", "8391", "--activations", "q8"]
        servers.append(Server("luminal", command + ["--np", str(places), "-c", str(context), *common], 8391))
        if PEER.exists():
            command = [PEER, "-m", model, "--port", "8392", "--no-webui"]
            whole = ["-np", str(places), "-c", str(context * places), *common]
            servers.append(Server("llama-server", command + whole, 8392))
        print(f"{'clients':>8}{'luminal':>12}{'llama-server':>14}{'ratio':>8}   tokens a second")
        for n in args.clients:
            best = {server.name: 0.0 for server in servers}
            for _ in range(args.rounds):
                for server in servers:
                    prompts = [" ".join(word() for _ in range(args.prompt)) for _ in range(2 * n)]
                    best[server.name] = max(best[server.name], server.rate(n, prompts, args.tokens))
            ours, theirs = best["luminal"], best.get("llama-server", 0.0)
            ratio = f"{ours / theirs:8.2f}" if theirs else f"{'-':>8}"
            print(f"{n:>8}{ours:>12.1f}{theirs:>14.1f}{ratio}", flush=True)
            rows.append({"clients": n, **best})
    finally:
        for server in servers:
            server.stop()
    if args.json:
        what = {"model": str(model), "prompt": args.prompt, "tokens": args.tokens, "threads": args.threads}
        args.json.write_text(json.dumps({**what, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
