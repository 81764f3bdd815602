# python/tests/test_torch_accuracy.py -- how far results of long sums, products and scans are from
# float64: not further than eager's, by a small factor. Samples of operators are too short to tell.
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402

torch = None
LONG = 1 << 15
FACTOR = 2.5  # of eager's error: the order of a sum is free
ROUNDING = 6e-8  # half a unit in the last place of f32


def setUpModule():
    global torch
    torch = where.find()


def error_of(made, exact):
    """Root of the mean of the squared relative errors; an element near zero counts by the others' size."""
    scale = exact.abs() + 1e-3 * exact.abs().mean()
    return ((made.double() - exact) / scale).square().mean().sqrt().item()


class Accuracy(unittest.TestCase):
    def check(self, name, function, x):
        wanted = function(x)
        torch._dynamo.reset()
        made = torch.compile(function, backend="luminal")(x)
        exact = function(x.double())
        ours, eager = error_of(made, exact), error_of(wanted, exact)
        self.assertTrue(
            ours <= FACTOR * max(eager, ROUNDING), f"{name} {list(x.shape)}: {ours:.3g}, eager {eager:.3g}"
        )

    def check_all(self, table, *samples):
        with torch.no_grad():
            for name, function in table.items():
                for x in samples:
                    with self.subTest(name, shape=list(x.shape)):
                        self.check(name, function, x)

    def rows(self, seed):
        generator = torch.Generator().manual_seed(seed)
        rows = int(torch.randint(1, 9, (), generator=generator))
        length = LONG + int(torch.randint(0, 100, (), generator=generator))
        return torch.randn(rows, length, generator=generator)

    def test_scans(self):
        """PyTorch carries the partial results in f64."""
        for axis in (0, 1):
            samples = [x.T.contiguous() if axis == 0 else x for x in (self.rows(1), 2 + self.rows(2))]
            self.check_all(
                {
                    "cumsum": lambda x, axis=axis: x.cumsum(axis),
                    "cumprod": lambda x, axis=axis: (1 + 1e-3 * x).cumprod(axis),
                    "logcumsumexp": lambda x, axis=axis: x.logcumsumexp(axis),
                },
                *samples,
            )

    def test_exponentials_of_differences_of_scans(self):
        """Decay between two places of a sequence, as models of state spaces have it."""

        def decay(x):
            sums = x[:, :256].cumsum(-1)
            below = torch.ones(256, 256, dtype=torch.bool).tril()
            return (sums[:, :, None] - sums[:, None, :]).masked_fill(~below, -torch.inf).exp().sum(-1)

        self.check_all({"decay": decay}, self.rows(3), self.rows(4))

    def test_sums_along_rows(self):
        self.check_all(
            {
                "sum": lambda x: x.sum(-1),
                "mean": lambda x: x.mean(-1),
                "variance": lambda x: x.var(-1),
                "norm": lambda x: x.norm(dim=-1),
                "logsumexp": lambda x: x.logsumexp(-1),
                "softmax": lambda x: x.softmax(-1),
                "product": lambda x: (1 + 1e-3 * x).prod(-1),
                "matmul": lambda x: x @ x.T,
            },
            3 + self.rows(5),
            self.rows(6).abs(),
        )

    def test_sums_along_columns(self):
        generator = torch.Generator().manual_seed(9)
        self.check_all(
            {
                "sum": lambda x: x.sum(0),
                "mean": lambda x: x.mean(0),
                "variance": lambda x: x.var(0),
                "norm": lambda x: x.norm(dim=0),
                "squares": lambda x: (x * x).sum(),
                "logsumexp": lambda x: x.logsumexp(0),
                "matmul": lambda x: x.T @ x,
            },
            3 + self.rows(7).T.contiguous(),
            self.rows(8).abs().T.contiguous(),
            3 + torch.randn(LONG, 33, generator=generator),
            3 + torch.randn(8000, 128, generator=generator),
        )


if __name__ == "__main__":
    unittest.main()
