#!/usr/bin/env python3
# bench/models.py -- whole networks beside PyTorch (eager and compiled), ONNX Runtime and OpenVINO.
#
#   ./bench.sh models [--only NAME,..] [--batches 1,8] [--threads 2,1] [--budget SECONDS] [--json FILE]
#   [--rounds N] [--no-inductor] [--processor-time]
#
# Weights are random, in f32. A network is made by torchvision or transformers and written as an ONNX
# file, which ours, ONNX Runtime and OpenVINO read; "torch" is ours through torch.compile, "frozen" the same
# with the option freezing. With a budget "tuned" is ours after a search of that many seconds. All run by
# turns; the time is the least of all.
import argparse
import json
import math
import os
import pathlib
import re
import statistics
import sys
import time
import warnings

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
FILES = CACHE / "luminal/peers/models"
# Multiply-adds of one picture or text, in 1e9: for the share of the processor's peak.
WORKS = {"resnet50": 4.09, "mobilenet_v2": 0.30, "vit_b_16": 17.56, "bert_base_128": 11.2, "yolov8n": 4.35}
NAMES_OF_OPERATORS = []  # a declaration lives as long as its library


def vision(torch):
    """The module torchvision. Its builds for CUDA cannot load their operators beside a PyTorch for CPUs, and
    then name operators that are not there; the networks here call none of them, so their names are enough."""
    while True:
        try:
            import torchvision

            return torchvision
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[module]
            NAMES_OF_OPERATORS.append(torch.library.Library("torchvision", "FRAGMENT"))
            NAMES_OF_OPERATORS[-1].define(f"{missing[1]}(Tensor values) -> Tensor")


def network(torch, name, batch):
    """A module in evaluation mode and its inputs."""
    torch.manual_seed(0)
    if name.startswith("bert"):
        from transformers import BertConfig, BertModel

        class Texts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.bert = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False)

            def forward(self, ids):
                return self.bert(ids).last_hidden_state

        return Texts().eval(), torch.randint(0, 30522, (batch, 128))
    if name == "yolov8n":
        from peers.yolov8 import Yolo

        return Yolo().eval(), torch.randn(batch, 3, 640, 640)
    torchvision = vision(torch)
    model = getattr(torchvision.models, name)(weights=None)
    if name == "vit_b_16":  # the head is zero before training
        torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model.eval(), torch.randn(batch, 3, 224, 224)


def onnx_file(torch, name, batch, model, inputs):
    """The network as a file, made once."""
    path = FILES / f"{name}_{batch}.onnx"
    if not path.exists():
        FILES.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (inputs,), str(path), dynamo=True, verbose=False, optimize=True)
    return path


def ours(path, inputs, threads, budget):
    import luminal as pl

    begin = time.perf_counter()
    model = pl.from_onnx(path)
    options = {"mode": "budget", "budget": budget} if budget else {}
    model.graph.compile(threads=threads, **options)
    array = inputs.numpy()

    def call():
        return model(array)

    result = call()
    return call, result, time.perf_counter() - begin


def onnx_runtime(path, inputs, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name, array = session.get_inputs()[0].name, inputs.numpy()
    return lambda: session.run(None, {name: array})[0]


def openvino(path, inputs, threads):
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(str(path), "CPU", settings).create_infer_request()
    array = inputs.numpy()
    return lambda: next(iter(request.infer([array]).values()))


def contenders(torch, name, batch, threads, arguments):
    """Name of each and what runs it once, with the seconds until the first result."""
    model, inputs = network(torch, name, batch)
    path = onnx_file(torch, name, batch, model, inputs)
    calls, first = {}, {}

    def add(of, make):
        begin = time.perf_counter()
        try:
            calls[of] = make()
            calls[of]()
        except Exception as error:  # a peer that is absent or refuses the network is named
            calls.pop(of, None)
            reason = (str(error).splitlines() or [""])[0][:160]
            print(f"{name}: {of}: {type(error).__name__}: {reason}", file=sys.stderr)
        first[of] = time.perf_counter() - begin

    def compiled(backend, **options):
        torch._dynamo.reset()
        function = torch.compile(model, backend=backend, options=options or None)
        return lambda: function(inputs)

    add("eager", lambda: lambda: model(inputs))
    wanted = calls["eager"]()
    add("ours", lambda: ours(path, inputs, threads, 0)[0])
    if arguments.budget:
        add("tuned", lambda: ours(path, inputs, threads, arguments.budget)[0])
    add("torch", lambda: compiled("luminal"))
    add("frozen", lambda: compiled("luminal", freezing=True))
    if not arguments.no_inductor:
        add("inductor", lambda: compiled("inductor"))
    add("onnxruntime", lambda: onnx_runtime(path, inputs, threads))
    add("openvino", lambda: openvino(path, inputs, threads))
    wrong = {}
    for of, call in calls.items():
        got = torch.as_tensor(call())
        # Fixed inputs and weights: what is apart by more than rounding of 50 layers is another network.
        apart = float((got - wanted).abs().max() / wanted.abs().max())
        if not apart < 1e-3:
            wrong[of] = apart
    return calls, first, wrong


def timed(calls, rounds, clock=time.perf_counter):
    times = {of: [] for of in calls}
    for _ in range(rounds):
        for of, call in calls.items():
            time.sleep(0.02)  # threads of the one before go to sleep
            call()
            end = time.perf_counter() + 0.25
            while True:
                begin = clock()
                call()
                times[of].append(clock() - begin)
                if time.perf_counter() > end:
                    break
    return {of: min(list_) for of, list_ in times.items()}


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description="Whole networks beside their peers.")
    parser.add_argument("--only", default=",".join(WORKS))
    parser.add_argument("--batches", type=numbers, default=[1, 8])
    parser.add_argument("--threads", type=numbers, default=[2, 1])
    parser.add_argument("--budget", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="of all threads of the process, for one thread on a machine that others use",
    )
    arguments = parser.parse_args()
    clock = time.process_time if arguments.processor_time else time.perf_counter
    try:
        import torch
    except ImportError:
        print("models: PyTorch is not installed here; ./bench.sh peers installs it", file=sys.stderr)
        return 2
    rows, ratios = [], []
    for name in arguments.only.split(","):
        if name not in WORKS:
            print(f"models: there is no network '{name}'. There are: {', '.join(WORKS)}", file=sys.stderr)
            return 2
        for batch in arguments.batches:
            for threads in arguments.threads:
                torch.set_num_threads(threads)
                os.environ["LUMINAL_THREADS"] = str(threads)
                with torch.inference_mode():
                    calls, first, wrong = contenders(torch, name, batch, threads, arguments)
                    times = timed(calls, arguments.rounds, clock)
                row = {"name": name, "batch": batch, "threads": threads, "first_s": first, "wrong": wrong}
                row["ms"] = {of: 1e3 * seconds for of, seconds in times.items()}
                peers = {of: t for of, t in times.items() if of not in ("ours", "tuned", "torch", "frozen")}
                best = min(peers, key=peers.get)
                ours_ = min(times[of] for of in ("ours", "tuned") if of in times)
                row["ratio"], row["best_peer"] = peers[best] / ours_, best
                row["gflops"] = 2 * WORKS[name] * batch / ours_
                ratios.append(row["ratio"])
                rows.append(row)
                print(
                    f"{name} x {batch}, {threads} threads: {row['ratio']:.2f} x {best}; "
                    + "; ".join(f"{of} {ms:.2f} ms" for of, ms in row["ms"].items())
                    + f"; {row['gflops']:.0f} GFLOP/s"
                    + (f"; WRONG: {wrong}" if wrong else ""),
                    flush=True,
                )
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        least = min(ratios)
        print(f"{len(ratios)} rows, geometric mean {mean:.2f} x the best peer of each, least {least:.2f} x")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
