#!/usr/bin/env python3
# python/tests/pytorch/op_db.py -- PyTorch's own operator data base through the back end: every sample
# equals eager, or is handed to PyTorch by name.
#
#   op_db.py --rows FILE [--part i/n] [--only NAME] [--dtypes f32,i64,bool,bf16] [--gradients] [--seconds S]
#   op_db.py --table FILE... [--share TEXT]   the table of docs/torch.md, on standard output
#
# One JSON row a sample; what FILE has already is not run again.
import argparse
import collections
import contextlib
import io
import json
import pathlib
import sys
import time
import zlib

DTYPES = {"f32": "float32", "i64": "int64", "bool": "bool", "bf16": "bfloat16"}


def flatten(torch, sample):
    """Tensors of a sample, and what makes (input, args, kwargs) from tensors in their places."""
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def rebuilt(tensors):
        whole = list(leaves)
        for place, tensor in zip(places, tensors):
            whole[place] = tensor
        return pytree.tree_unflatten(whole, spec)

    return [leaves[place] for place in places], rebuilt


def tensors_of(torch, value):
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def detached(torch, tensors):
    return [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors]


def equal(torch, got, wanted, exact):
    """None, or the difference. Where PyTorch's tolerances are not met, being as near to the result in
    double counts."""
    if len(got) != len(wanted):
        return f"{len(got)} results, {len(wanted)} wanted"
    for index, (a, b) in enumerate(zip(got, wanted)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {index} is {a.dtype}{list(a.shape)}, {b.dtype}{list(b.shape)} wanted"
        try:
            torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)
        except AssertionError as error:
            reference = exact()[index] if exact else None
            if reference is None or not nearer(torch, a, b, reference):
                return f"result {index}: " + " ".join(str(error).split())[:300]
    return None


def nearer(torch, ours, eager, exact):
    if not ours.dtype.is_floating_point or exact.shape != ours.shape:
        return False
    ours, eager, exact = ours.double(), eager.double(), exact.double()
    if not torch.equal(torch.isfinite(ours), torch.isfinite(exact)):
        return False
    finite = torch.isfinite(exact)
    ours, eager, exact = ours[finite], eager[finite], exact[finite]
    scale = exact.abs().max() if exact.numel() else 0
    return bool(
        ((ours - exact).abs().max() <= 2 * (eager - exact).abs().max() + 1e-7 * scale)
        if exact.numel()
        else True
    )


def in_double(torch, call, tensors, upstream=None):
    """The results in double, or, of what is given upstream, the gradients."""

    def made():
        wide = [
            t.detach().double().requires_grad_(t.requires_grad) if t.dtype.is_floating_point else t
            for t in tensors
        ]
        try:
            results = tensors_of(torch, call(wide))
            if upstream is None:
                return results
            return gradients_of(torch, wide, results, [u.double() for u in upstream])[0]
        except Exception:  # not every operator takes double beside what it was given
            return None

    cache = []

    def exact():
        if not cache:
            cache.append(made())
        return cache[0] or collections.defaultdict(lambda: None)

    return exact


def is_core(torch, name):
    """Whether an operator, "aten.add.Tensor", is one of those that PyTorch's decompositions lead to."""
    found = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return torch.Tag.core in getattr(found, "tags", ())


def in_eager(torch, values):
    """Where nothing can be computed in double: eager's values, off by the rounding of the largest."""
    return lambda: [
        v + 1e-6 * v.abs().max() if v.dtype.is_floating_point and v.numel() else v for v in values
    ]


def run_sample(torch, op, sample, gradients):
    """A row without its key."""
    from torch._functorch.aot_autograd import aot_function, make_boxed_func
    from luminal.torch import backend
    from luminal.torch.executor import TOLD
    from luminal.torch.options import Options

    made = []

    def compiler(module, inputs):
        function = backend.compile_graph(module, inputs, Options())
        made.append(function.executor)
        return function

    tensors, rebuilt = flatten(torch, sample)

    def call(tensors):
        value, args, kwargs = rebuilt(tensors)
        return op(value, *args, **kwargs)

    TOLD.clear()
    torch.manual_seed(1)
    given = detached(torch, tensors)
    try:
        wanted = tensors_of(torch, call(given))
        wanted_gradients, upstream = gradients_of(torch, given, wanted, None) if gradients else ([], None)
    except Exception as error:
        return {
            "status": "skipped",
            "reason": f"eager: {type(error).__name__}: {str(error).splitlines()[0][:120]}",
        }
    if not wanted:
        return {"status": "skipped", "reason": "gives no tensor"}
    torch.manual_seed(1)
    given_ours = detached(torch, tensors)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            compiled = aot_function(
                lambda *list_: call(list_),
                fw_compiler=compiler,
                bw_compiler=compiler,
                decompositions=backend.decompositions(),
            )
            got = tensors_of(torch, compiled(*given_ours))
            got_gradients = gradients_of(torch, given_ours, got, upstream)[0] if gradients else []
    except Exception as error:
        text = str(error).splitlines() or [""]
        kind = "trace" if not made else "error"
        return {"status": kind, "core": True, "reason": f"{type(error).__name__}: {text[0][:300]}"}
    left = sorted({op_ for executor in made for op_, _, why in executor.reasons.values()})
    reasons = sorted({f"{op_}: {why}" for executor in made for op_, _, why in executor.reasons.values()})
    row = {
        "status": "passed" if not left else "handed",
        "core": all(is_core(torch, op_) for op_ in left),
        "reason": "; ".join(reasons)[:300],
    }
    wrong = equal(torch, got, wanted, in_double(torch, call, tensors))
    if gradients and not wrong:
        wrong = equal(torch, got_gradients, wanted_gradients, in_double(torch, call, tensors, upstream))
    if wrong and op.name == "topk" and not gradients and torch.equal(got[0], wanted[0]):
        # which of equal elements is taken is nobody's promise
        dim = sample.args[1] if len(sample.args) > 1 else sample.kwargs.get("dim", -1)
        taken = got[1] if sample.input.dim() else got[1].reshape(())
        wrong = None if torch.equal(sample.input.gather(dim, taken), got[0]) else wrong
    if wrong and "empty" in op.name and wrong.find(" wanted") < 0:
        wrong = None  # values that nobody set
    if any("random numbers" in reason for reason in reasons):
        # what AOTAutograd's graph draws in PyTorch; eager has another operator for it, in place. (As near
        # to the result in double as eager is: that says nothing of two that were drawn apart.)
        torch.manual_seed(1)
        again = detached(torch, tensors)
        plain = aot_function(
            lambda *list_: call(list_),
            fw_compiler=lambda module, _: make_boxed_func(module.forward),
            decompositions=backend.decompositions(),
        )
        wanted, given = tensors_of(torch, plain(*again)), again
        wanted_gradients = gradients_of(torch, again, wanted, upstream)[0] if gradients else []
        exact = in_eager(torch, [*wanted, *wanted_gradients])
        wrong = equal(torch, [*got, *got_gradients], [*wanted, *wanted_gradients], exact)
    changed = None if wrong else equal(torch, given_ours, given, None)
    if wrong or changed:
        row |= {
            "status": "wrong",
            "reason": (wrong or f"inputs afterwards: {changed}") + (f" (with {left})" if left else ""),
        }
    return row


def gradients_of(torch, inputs, results, upstream):
    inputs = [tensor for tensor in inputs if tensor.requires_grad]
    results = [tensor for tensor in results if tensor.requires_grad]
    if not inputs or not results:
        return [], []
    if upstream is None:
        generator = torch.Generator().manual_seed(2)
        upstream = [torch.randn(r.shape, generator=generator).to(r.dtype) for r in results]
    made = torch.autograd.grad(results, inputs, upstream, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for g, i in zip(made, inputs)], upstream


def samples_of(torch, op, dtype, gradients):
    torch.manual_seed(zlib.crc32(op.name.encode()) % 1000)
    try:
        yield from op.sample_inputs("cpu", dtype, requires_grad=gradients)
    except Exception:  # samples that this build of PyTorch cannot make
        return


def run(arguments):
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    rows = pathlib.Path(arguments.rows)
    done = set()
    if rows.exists():
        done = {tuple(json.loads(line)["key"]) for line in rows.read_text().splitlines()}
    part, parts = (int(number) for number in arguments.part.split("/"))
    end = time.monotonic() + arguments.seconds if arguments.seconds else None
    counts = collections.Counter()
    with rows.open("a") as out:
        for op in op_db:
            name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
            if arguments.only and op.name not in arguments.only.split(","):
                continue
            for word in arguments.dtypes.split(","):
                dtype = getattr(torch, DTYPES[word])
                if dtype not in (
                    op.supported_backward_dtypes("cpu")
                    if arguments.gradients
                    else op.supported_dtypes("cpu")
                ):
                    continue
                if arguments.gradients and not op.supports_autograd:
                    continue
                number = zlib.crc32(f"{name} {word}".encode()) % parts  # parts are spread over operators
                for index, sample in enumerate(samples_of(torch, op, dtype, arguments.gradients)):
                    key = (name, word, index, bool(arguments.gradients))
                    if (number + index) % parts != part or key in done:
                        continue
                    if end and time.monotonic() > end:
                        return counts
                    begin = time.monotonic()
                    row = {"key": key, **run_sample(torch, op, sample, arguments.gradients)}
                    row["seconds"] = round(time.monotonic() - begin, 3)
                    counts[row["status"]] += 1
                    out.write(json.dumps(row) + "\n")
                    out.flush()
                    if row["status"] in ("wrong", "error", "trace"):
                        print(f"{name} {word} {index}: {row['status']}: {row['reason']}", file=sys.stderr)
                    torch._dynamo.reset()
    return counts


def main():
    parser = argparse.ArgumentParser(description="PyTorch's operator data base through the back end.")
    parser.add_argument("--rows")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--only")
    parser.add_argument("--dtypes", default="f32,i64,bool,bf16")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--table", nargs="+")
    parser.add_argument("--share", default="", help="of all samples, in words")
    arguments = parser.parse_args()
    if arguments.table:
        import table

        print(table.page(arguments.table, part=arguments.share))
        return 0
    if not arguments.rows:
        parser.error("--rows FILE or --table FILE...")
    counts = run(arguments)
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    return 1 if counts["wrong"] or counts["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
