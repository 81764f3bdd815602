#!/usr/bin/env python3
# bench/kernelbench.py -- the problems of KernelBench through torch.compile(backend="luminal"): equal to
# eager, and how fast beside inductor.
#
#   ./bench.sh kernelbench --source FOLDER [--levels 1,2,3] [--only NAME] [--part i/n] [--rows FILE]
#   [--json FILE] [--no-time] [--no-inductor] [--threads 2,1] [--seconds 0.1] [--turns 3]
#   [--processor-time] [--slower]
#   ./bench.sh kernelbench --source FOLDER --cut     makes the table of cuts anew: kernelbench_cuts.json
#
# FOLDER: the folder KernelBench of github.com/ScalingIntelligence/KernelBench, with level1, level2,
# level3. Sizes are cut by the table so
# that a problem fits into 4 GB and 2 s. One JSON row a problem; what --rows has already is not run again.
import argparse
import ast
import contextlib
import io
import json
import math
import pathlib
import statistics
import sys
import time
import types

CUTS = pathlib.Path(__file__).with_name("kernelbench_cuts.json")
RTOL, ATOL = 1e-4, 1e-5
LARGE, LONG = 64 << 20, 4e9  # bytes of inputs and operations of products that a cut problem has at most


def problems(source, levels, only):
    for level in levels:
        files = sorted(
            (source / f"level{level}").glob("*.py"), key=lambda file: int(file.stem.split("_")[0])
        )
        for file in files:
            name = f"level{level}/{file.stem}"
            if not only or any(word in name for word in only.split(",")):
                yield name, file


def number_of(node):
    """The whole number that an expression without names is."""
    try:
        value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})  # noqa: S307
    except Exception:  # it has names
        return None
    return value if type(value) is int else None


def constants(tree):
    """Names of whole numbers that the file sets at its top, with their nodes, which are constants from
    now on."""
    found = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        number = number_of(node.value)
        if number is not None:
            node.value = ast.copy_location(ast.Constant(number), node.value)
            found.update({target.id: node.value for target in node.targets if isinstance(target, ast.Name)})
        if isinstance(node.value, (ast.Tuple, ast.List)) and isinstance(node.targets[0], ast.Name):
            for index, item in enumerate(node.value.elts):
                if number_of(item) is not None:
                    node.value.elts[index] = ast.copy_location(ast.Constant(number_of(item)), item)
                    found[f"{node.targets[0].id}[{index}]"] = node.value.elts[index]
    return found


def load(file, cuts):
    tree = ast.parse(file.read_text())
    known = constants(tree)
    for name, number in cuts.items():
        known[name].value = number
    module = types.ModuleType("problem")
    exec(compile(tree, str(file), "exec"), module.__dict__)  # noqa: S102
    return module


def made(torch, file, cuts):
    torch.manual_seed(0)
    module = load(file, cuts)
    model = module.Model(*module.get_init_inputs()).eval()
    return model, module.get_inputs()


def seconds_of(call, most=0.3, least=3, clock=time.perf_counter):
    times = []
    end = time.perf_counter() + most
    while len(times) < least or time.perf_counter() < end:
        begin = clock()
        call()
        times.append(clock() - begin)
    return statistics.median(times)


class PeakMemory:
    """Megabytes of this process at the peak, from here on; None where the system does not tell."""

    def __init__(self):
        with contextlib.suppress(OSError):
            pathlib.Path("/proc/self/clear_refs").write_text("5")

    def megabytes(self):
        with contextlib.suppress(OSError):
            for line in pathlib.Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) // 1024
        return None


def estimate(torch, file, cuts):
    """Bytes of inputs and parameters, and operations of products; None where these sizes do not belong
    together. Nothing
    is computed."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    try:
        with FakeTensorMode(), torch.no_grad(), FlopCounterMode(display=False) as counter:
            module = load(file, cuts)
            inputs = module.get_inputs()
            model = module.Model(*module.get_init_inputs())
            model(*inputs)
            tensors = [x for x in [*inputs, *model.parameters()] if isinstance(x, torch.Tensor)]
            return sum(x.numel() * x.element_size() for x in tensors), counter.get_total_flops()
    except Exception:  # whatever a model says of sizes that do not fit
        return None


def cut_of(torch, file):
    """Halves the largest number that can be halved, until the problem is small enough."""
    known = {name: node.value for name, node in constants(ast.parse(file.read_text())).items()}
    cuts, fixed = {}, set()
    for _ in range(60):
        size = estimate(torch, file, cuts)
        if size is not None and size[0] <= LARGE and size[1] <= LONG:
            break
        candidates = sorted(
            (cuts.get(name, number), name)
            for name, number in known.items()
            if name not in fixed and cuts.get(name, number) >= 8
        )
        if not candidates:
            break
        number, name = candidates[-1]
        equal = {
            other: number // 2 for value, other in candidates if value == number
        }  # may belong together
        for smaller in ({name: number // 2}, equal):
            if estimate(torch, file, {**cuts, **smaller}) is not None:
                cuts.update(smaller)
                break
        else:
            fixed.add(name)
    return cuts


def errors(torch, x, exact):
    """Against float64: the greatest error, the root of the mean of the squared relative errors, and how many
    elements are beyond the tolerance."""
    wide = x.double()
    off = (wide - exact).abs()
    relative = off / exact.abs().clamp(min=ATOL)
    return {
        "max": float(off.max()),
        "relative": float(relative.square().mean().sqrt()),
        "beyond": int((off > ATOL + RTOL * exact.abs()).sum()),
    }


def difference(torch, got, wanted, exact):
    """(what differs beyond rounding, or None; errors against float64 where the tolerance alone does not
    tell). Where both sides round, ours has to be as near to float64 as eager is, within twice its error."""
    got, wanted = (
        [x for x in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(x, torch.Tensor)]
        for v in (got, wanted)
    )
    told = None
    for index, (a, b) in enumerate(zip(got, wanted)):
        try:
            torch.testing.assert_close(a, b, equal_nan=True, rtol=RTOL, atol=ATOL, check_stride=False)
        except AssertionError as error:
            text = " ".join(str(error).split())[:200]
            if a.shape != b.shape or not a.is_floating_point():
                return text, told
            reference = exact()
            reference = reference[index] if isinstance(reference, (list, tuple)) else reference
            told = {"luminal": errors(torch, a, reference), "eager": errors(torch, b, reference)}
            ours, theirs = told["luminal"], told["eager"]
            # NaN fails each of these
            near = ours["max"] <= 2 * theirs["max"] + 1e-6 * float(reference.abs().max())
            near = near and ours["relative"] <= 2 * theirs["relative"] + 1e-6
            if not near or ours["beyond"] > 2 * theirs["beyond"] + a.numel() // 100_000:
                return text, told
    return None, told


def left_in_pytorch(told):
    """What the back end said; models warn on standard error as well."""
    return [line for line in told.splitlines() if line.startswith("luminal: ")]


def thread_counts(arguments):
    return [int(count) for count in arguments.threads.split(",")]


def run_problem(torch, file, cuts, arguments):
    model, inputs = made(torch, file, cuts)
    with torch.no_grad():
        wanted = model(*inputs)
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="luminal")
        told = io.StringIO()
        memory = PeakMemory()
        before = memory.megabytes()
        begin = time.perf_counter()
        try:
            with contextlib.redirect_stderr(told):
                got = compiled(*inputs)
        except Exception as error:
            return {
                "status": "error",
                "reason": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}",
            }
        first = time.perf_counter() - begin
        peak = memory.megabytes()

        def exact():
            wide, numbers = made(torch, file, cuts)
            return wide.double()(
                *[
                    x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
                    for x in numbers
                ]
            )

        wrong, rounding = difference(torch, got, wanted, exact)
        row = {
            "status": "wrong" if wrong else "equal",
            "reason": wrong or " ".join(left_in_pytorch(told.getvalue()))[:300],
            "first_call_s": first,
        }
        if rounding:
            row["errors_against_float64"] = rounding
        if peak is not None:
            row |= {"before_mb": before, "peak_mb": peak}
        if arguments.no_time or wrong:
            return row
        others = {"eager": model, "luminal": compiled}
        if not arguments.no_inductor:
            torch._dynamo.reset()
            begin = time.perf_counter()
            compiled(*inputs)
            others["inductor"] = torch.compile(model, backend="inductor")
            begin = time.perf_counter()
            others["inductor"](*inputs)
            row["inductor_first_call_s"] = time.perf_counter() - begin
        clock = time.process_time if arguments.processor_time else time.perf_counter
        for threads in thread_counts(arguments):
            torch.set_num_threads(threads)  # Dynamo compiles anew: kernels of inductor have it in them
            rounds = {name: [] for name in others}
            for _ in range(arguments.turns):
                for name, call in others.items():
                    rounds[name].append(
                        seconds_of(lambda call=call: call(*inputs), arguments.seconds, clock=clock)
                    )
            row[f"ms_{threads}"] = {name: 1e3 * min(list_) for name, list_ in rounds.items()}
        return row


def times_faster(row, threads, peer):
    """Times that the peer takes as long as ours; None where one of them was not timed."""
    times = row.get(f"ms_{threads}", {})
    return times[peer] / times["luminal"] if peer in times else None


def summary(rows, counts):
    for level in (1, 2, 3):
        own = [row for name, row in rows.items() if name.startswith(f"level{level}/")]
        if not own:
            continue
        text = f"level {level}: {sum(row['status'] == 'equal' for row in own)} of {len(own)} equal to eager"
        parted = sum(bool(row["reason"]) for row in own if row["status"] == "equal")
        print(text + f", {parted} of them with parts in PyTorch")
        for threads in counts:
            text = ""
            for peer in ("eager", "inductor"):
                ratios = [ratio for row in own if (ratio := times_faster(row, threads, peer)) is not None]
                if ratios:
                    mean = math.exp(statistics.fmean(map(math.log, ratios)))
                    slower = sum(ratio < 0.98 for ratio in ratios)
                    text += f"; {mean:.2f} x {peer} ({slower} of {len(ratios)} slower than 0.98 x)"
            if text:
                print(f"  {threads} thread{'s' * (threads > 1)}{text}")


def print_slower(rows, counts):
    """The problems that take longer than a peer, worst first."""
    for threads in counts:
        for peer in ("eager", "inductor"):
            found = ((times_faster(row, threads, peer), name) for name, row in rows.items())
            for ratio, name in sorted(item for item in found if item[0] is not None and item[0] < 0.98):
                times = rows[name][f"ms_{threads}"]
                print(f"{threads} {peer:8} {ratio:5.2f} {times['luminal']:9.3f} ms  {name}")


def main():
    parser = argparse.ArgumentParser(description='KernelBench through torch.compile(backend="luminal").')
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--only")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--rows", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--seconds", type=float, default=0.1, help="of one program in a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count what the threads of this process compute: for one thread on a machine that others use",
    )
    parser.add_argument("--slower", action="store_true", help="name the problems slower than a peer")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--no-inductor", action="store_true")
    arguments = parser.parse_args()
    if not arguments.source or not (arguments.source / "level1").is_dir():
        print(
            "kernelbench: the problems come from github.com/ScalingIntelligence/KernelBench: --source FOLDER "
            "(with level1, level2, level3)",
            file=sys.stderr,
        )
        return 2
    try:
        import torch
    except ImportError:
        print("kernelbench: PyTorch is not installed here; ./bench.sh peers installs it", file=sys.stderr)
        return 2
    table = json.loads(CUTS.read_text()) if CUTS.exists() else {}
    part, parts = (int(number) for number in arguments.part.split("/"))
    chosen = [
        item
        for index, item in enumerate(
            problems(arguments.source, arguments.levels.split(","), arguments.only)
        )
        if index % parts == part
    ]
    if arguments.cut:
        for name, file in chosen:
            size = estimate(torch, file, table.get(name, {}))
            if size is not None and size[0] <= LARGE and size[1] <= LONG:
                continue  # what fits stays
            table[name] = cut_of(torch, file)
            print(name, table[name], file=sys.stderr)
            CUTS.write_text(
                "{\n"
                + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(table.items()))
                + "\n}\n"
            )
        return 0
    rows = {}
    if arguments.rows and arguments.rows.exists():
        rows = {row["name"]: row for row in map(json.loads, arguments.rows.read_text().splitlines())}
    for name, file in chosen:
        if name in rows:
            continue
        rows[name] = {"name": name, **run_problem(torch, file, table.get(name, {}), arguments)}
        print(json.dumps(rows[name]), file=sys.stderr)
        if arguments.rows:
            with arguments.rows.open("a") as out:
                out.write(json.dumps(rows[name]) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps(list(rows.values()), indent=1) + "\n")
    summary(rows, thread_counts(arguments))
    if arguments.slower:
        print_slower(rows, thread_counts(arguments))
    return 0 if all(row["status"] == "equal" for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
