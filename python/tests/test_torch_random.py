# python/tests/test_torch_random.py -- random compositions of PyTorch's operators through the back end, with
# and without gradients. LUMINAL_RANDOM_SEEDS=FIRST:COUNT runs other ones.
import contextlib
import io
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402
from random_programs import Program  # noqa: E402

torch = None


def setUpModule():
    global torch
    torch = where.find()


def run(function, values, gradients):
    """Results, and gradients of their weighted sum. Inputs are not changed."""
    floats = [v.dtype.is_floating_point for v in values]
    leaves = [v.clone().requires_grad_(gradients and f) for v, f in zip(values, floats)]
    made = function(*[leaf * 1 if f else leaf for leaf, f in zip(leaves, floats)])
    total = 0
    for place, result in enumerate(made):
        if result.requires_grad:
            generator = torch.Generator().manual_seed(place)
            weights = torch.randn(result.shape, generator=generator).to(result.dtype)
            total = total + (result * weights).sum().double()
    found = []
    if isinstance(total, torch.Tensor):
        leaves = [leaf for leaf in leaves if leaf.requires_grad]
        found = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
    return [r.detach() for r in [*made, *found]]


def differs(got, wanted, exact, near):
    """Of the first result that is off by more than rounding allows: eager's own error, and what changes when
    the inputs do by a unit in the last place of f32, are allowed several times."""
    for place, (a, b, e, n) in enumerate(zip(got, wanted, exact, near)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {place} is {a.dtype}{list(a.shape)}, {b.dtype}{list(b.shape)} wanted"
        if not a.numel():
            continue
        a, b, e, n = (t.double() for t in (a, b, e, n))
        scale = b.abs().nan_to_num(0, 0, 0).max()
        allowed = 1e-5 * scale + 8 * ((b - e).abs() + (e - n).abs()).nan_to_num(torch.inf, torch.inf).max()
        off = (a - b).abs()
        wrong = ~((off <= allowed) | (a == b) | (a.isnan() & b.isnan()))
        if wrong.any():
            return f"result {place} is off by {off[wrong].max():.3g}, {allowed:.3g} is allowed"
    return None


class RandomPrograms(unittest.TestCase):
    def check(self, seed):
        """Wrong, refused or right."""
        gradients = seed % 3 == 0
        program = Program(torch, seed).make()
        with self.subTest(seed=seed, gradients=gradients, program=program.source()):
            function, values = program.function(), program.values()
            wide = [v.double() if v.dtype.is_floating_point else v for v in values]
            close = [v + 1e-7 * (1 + v.abs()) if v.dtype == torch.float64 else v for v in wide]
            try:
                wanted = run(function, values, gradients)
                exact, near = run(function, wide, gradients), run(function, close, gradients)
            except RuntimeError:  # some line has no gradient, or takes no other type
                return False
            torch._dynamo.reset()
            with contextlib.redirect_stderr(io.StringIO()) as told:
                got = run(torch.compile(function, backend="luminal", dynamic=False), values, gradients)
            self.assertIsNone(differs(got, wanted, exact, near))
            for line in told.getvalue().splitlines():
                self.assertNotIn("Error:", line)
            return True

    def check_sizes(self, seed):
        """The same program with dimensions, at its sizes and at others: each extent above 1 is doubled."""
        program = Program(torch, seed).make()
        with self.subTest(seed=seed, program=program.source()):
            function, values = program.function(), program.values()
            generator = torch.Generator().manual_seed(seed)
            places = [torch.arange(n * (1 + (n > 1))) % n for n in range(1, 400)]

            def doubled(x):
                for axis, size in enumerate(x.shape):
                    x = x.index_select(axis, places[size - 1]) if size else x
                return x * (1 + torch.rand(x.shape, generator=generator)) if x.is_floating_point() else x

            made = None
            for inputs in (values, [doubled(x) for x in values]):
                wide = [v.double() if v.dtype.is_floating_point else v for v in inputs]
                close = [v + 1e-7 * (1 + v.abs()) if v.dtype == torch.float64 else v for v in wide]
                try:
                    wanted = run(function, inputs, False)
                    exact, near = run(function, wide, False), run(function, close, False)
                except (RuntimeError, IndexError):  # not at these sizes
                    return made is not None
                if made is None:
                    torch._dynamo.reset()
                    made = torch.compile(function, backend="luminal", dynamic=True)
                with contextlib.redirect_stderr(io.StringIO()):
                    got = run(made, inputs, False)
                self.assertIsNone(differs(got, wanted, exact, near))
            return True

    def test_sizes(self):
        first, count = map(int, os.environ.get("LUMINAL_RANDOM_SEEDS", "100:14").split(":"))
        checked = sum(bool(self.check_sizes(seed)) for seed in range(first, first + count))
        self.assertGreater(checked, count // 3)

    def test_programs(self):
        first, count = map(int, os.environ.get("LUMINAL_RANDOM_SEEDS", "0:40").split(":"))
        checked = sum(bool(self.check(seed)) for seed in range(first, first + count))
        self.assertGreater(checked, count // 3)


if __name__ == "__main__":
    unittest.main()
