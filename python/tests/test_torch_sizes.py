# python/tests/test_torch_sizes.py -- sizes that change, through torch.compile: what PyTorch's guards say of
# them, sizes that are computed in floating point, several threads.
import contextlib
import io
import pathlib
import sys
import threading
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402

torch = None


def setUpModule():
    global torch
    torch = where.find()


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()

    def check(self, function, *sets, quiet=True):
        """Compiled once for all sets of inputs it gives what eager gives, and gradients; nothing stays in
        PyTorch. What was told is returned."""
        made = torch.compile(function, backend="luminal", dynamic=True)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            for inputs in sets:
                found = []
                for each in (made, function):
                    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
                    results = each(*leaves)
                    results = results if isinstance(results, tuple) else (results,)
                    total = sum((r * r).sum() for r in results if r.requires_grad)
                    total.backward()
                    found.append([*results, *(leaf.grad for leaf in leaves if leaf.requires_grad)])
                torch.testing.assert_close(*found)
        if quiet:
            self.assertEqual(told.getvalue(), "")
        return told.getvalue()


class Guards(Case):
    def test_ranges_whose_step_is_a_number_of_another_type(self):
        def falling(x):  # the positions of XLNet
            n = x.shape[0]
            return x.sum() * torch.arange(n, -n, -1.0, dtype=torch.int64).float()

        def halves(x):
            return x + torch.arange(x.shape[0], x.shape[0] + 2.0, 0.5)[:, None]

        self.check(falling, *((torch.randn(n, 1),) for n in (3, 5, 8)))
        self.check(halves, *((torch.randn(n, 4, 1),) for n in (3, 5, 8)))

    def test_rows_of_a_picture_before_others(self):
        """The flattened rows of one picture are a part of more; its size is that of another input."""

        def joined(table, x):
            n = 2 * (x.shape[0] // 8) - 1
            old = table[:49].reshape(1, 7, 7, -1).permute(0, 3, 1, 2)
            new = torch.nn.functional.interpolate(old, size=(n, n), mode="bilinear")
            return torch.cat([new.permute(0, 2, 3, 1).reshape(n * n, -1), table[49:]])

        self.check(joined, *[(torch.randn(52, 4), torch.randn(n, 2)) for n in (32, 40, 16)])

    def test_a_square_that_is_a_number(self):
        def windows(x):
            n = x.shape[1] // 8
            rows = x[:, ::8][:, :n].unsqueeze(2)
            return (rows.expand(x.shape[0], n, n, x.shape[2]) * 2).view(x.shape[0], 16, x.shape[2])

        self.check(windows, *[(torch.randn(b, 32, c),) for b, c in ((2, 5), (3, 4))])

    def test_numbers_behind_factors(self):
        """4 * (n // 2) == 8, and beside a row for the class ((n // 8) ** 2 + 1 == 5): sizes of tables."""
        pairs, squares = (torch.nn.Parameter(torch.randn(rows, 4)) for rows in (8, 5))

        def tubes(x, w=torch.nn.Parameter(torch.randn(4, 3, 2, 2))):
            y = torch.nn.functional.conv2d(x, w, stride=2).flatten(2).transpose(1, 2) + pairs
            return y.reshape(-1, 4, 2, 2).sum(3)

        def patches(x, w=torch.nn.Parameter(torch.randn(4, 3, 8, 8) / 14)):
            y = torch.nn.functional.conv2d(x, w, stride=8).flatten(2).transpose(1, 2)
            y = torch.cat([y[:, :1], y], 1) + squares
            rows = (y.shape[1] - 1) // 4
            return y[:, 1:].reshape(-1, rows, 4, 4).transpose(1, 2).flatten(2)

        self.check(tubes, *[(torch.randn(b, 3, 4, 8),) for b in (2, 3, 5)])
        self.check(patches, *[(torch.randn(b, 3, 16, 16),) for b in (2, 3, 5)])

    def test_parts_that_are_as_long_as_others(self):
        """Every second element from the first and from the second on: as many, where PyTorch says so."""

        def folded(x):
            parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
            return torch.cat(parts, 0) * 2

        self.check(folded, *[(torch.randn(2, n, n),) for n in (8, 12, 6)])

    def test_layers_of_an_encoder(self):
        """Of any batch, length and, as PyTorch sees it, width; but of the width that the weights have."""
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
        made = torch.compile(layer, backend="luminal", dynamic=True)
        with torch.no_grad(), contextlib.redirect_stderr(io.StringIO()) as told:
            for shape in ((2, 5, 16), (3, 7, 16)):
                x = torch.randn(shape)
                torch.testing.assert_close(made(x), layer(x))
            for width in (15, 17):
                with self.assertRaises(Exception):
                    made(torch.randn(2, 5, width))
        self.assertEqual(told.getvalue(), "")

    def test_guards_that_say_the_same(self):
        """PyTorch repeats them: 60 of them take no longer than one."""
        import sympy
        from luminal.torch.record import Known

        a, b = sympy.symbols("a b", integer=True, positive=True)
        guards = [types.SimpleNamespace(expr=sympy.Eq(a + 1, b, evaluate=False)) for _ in range(60)]
        env = types.SimpleNamespace(guards=guards, replace=lambda side: side)
        known = Known(env, {"a": (2, 100, 5), "b": (2, 100, 6)})
        self.assertEqual(known.equal[a + 1], b)

    def test_attention_of_any_size(self):
        """Also the number of features, and memory for the largest of all sizes cannot be addressed."""
        attention = torch.nn.functional.scaled_dot_product_attention
        for sets in ([(2, 4, 5, 8), (3, 2, 6, 4)], [(2, 3, 4, 16), (5, 2, 9, 8)]):
            self.check(
                lambda q, k, v: attention(q, k, v, is_causal=True),
                *[[torch.randn(s) for _ in range(3)] for s in sets],
            )

    def test_places_that_count_from_the_end(self):
        """By a number and by minus a size, before the first element too."""

        def ends(x, y):
            n = y.shape[0]
            some = x[:, -n:], x[-n:].sin(), x[:, -n] * 2, x[:, -40:] + 1, x[:, -3:], x[:, -40::2] * 2
            return *some, x[:, -7:-2] * 3, x[:, 1:7] * 4

        sizes = ((5, 8, 3), (7, 9, 4), (5, 6, 3), (6, 5, 2))
        self.check(ends, *[(torch.randn(a, b), torch.randn(n)) for a, b, n in sizes])

    def test_equal_sizes(self):
        def up_and_across(x):  # the joint of a U-Net
            low = torch.nn.functional.avg_pool2d(x, 4)
            up = torch.nn.functional.interpolate(low, scale_factor=2, mode="nearest")
            return torch.cat([up, torch.nn.functional.max_pool2d(x, 2)], 1)

        self.check(up_and_across, *[(torch.randn(2, 3, *s),) for s in ((8, 12), (12, 16), (16, 9))])

    def test_gathers_and_scatters(self):
        def places(x, rows, values):
            to = rows[:, None].expand(-1, x.shape[1])
            return (
                x.index_put((rows,), values),
                x.scatter_add(0, to, values),
                torch.gather(values, 0, to),
            )

        sets = [(torch.randn(n, m), torch.randperm(n), torch.randn(n, m)) for n, m in ((9, 6), (7, 5))]
        self.check(places, *sets)

    def test_weights_of_attention_that_a_mask_hides(self):
        """They are zeros where the mask hides a whole tile of keys, too, and the gradients read them."""

        def weights(rows, keys):
            hidden = torch.triu(torch.ones(rows, keys, dtype=torch.bool), 1)
            return lambda q, k: ((q @ k.mT) * 0.17).masked_fill(hidden, -torch.inf).softmax(-1)

        for rows, keys in ((17, 64), (40, 64), (40, 200)):
            with self.subTest(rows=rows, keys=keys):
                self.check(weights(rows, keys), (torch.randn(2, 2, rows, 32), torch.randn(2, 2, keys, 32)))

    def test_scratch_without_a_largest_size(self):
        """The sums are made in pairs: with five ranges their bytes fill more than 63 bits."""
        told = self.check(lambda x: x.logcumsumexp(-1), (torch.randn(2, 3, 4, 5, 7),), quiet=False)
        self.assertIn("logcumsumexp", told)
        self.assertIn("has no largest size: every dimension needs a range", told)

    def test_windows(self):
        def windows(x):
            b, h, w, c = x.shape
            parts = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
            parts = parts.softmax(-2)
            return parts.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c) + x

        self.check(windows, *[(torch.randn(2, *s, 3),) for s in ((8, 12), (16, 8), (4, 20))])

    def test_halves(self):
        def gated(x, y):
            a, b = x.unflatten(-1, (2, -1)).unbind(-2)
            return a * b + y, x.unflatten(-1, (-1, 2)).sum(-1) - y

        self.check(gated, *[(torch.randn(n, 2 * m), torch.randn(n, m)) for n, m in ((4, 5), (3, 8))])


class Computed(Case):
    def resize(self, factor, mode):
        return lambda x: torch.nn.functional.interpolate(x, scale_factor=factor, mode=mode)

    def test_factors(self):
        sets = [(torch.randn(2, 3, *s),) for s in ((8, 12), (7, 5))]
        for factor, mode in ((1.5, "nearest"), (0.5, "nearest"), (2.0, "bilinear"), (0.75, "bicubic")):
            with self.subTest(factor=factor, mode=mode):
                self.check(self.resize(factor, mode), *sets, quiet=False)

    def test_factors_that_round_stay_in_pytorch(self):
        told = self.check(self.resize(0.7, "nearest"), (torch.randn(1, 2, 9, 8),), quiet=False)
        self.assertIn("stays in PyTorch", told)
        self.assertIn("0.7", told)


class Views(Case):
    def test_results_that_are_views_of_inputs(self):
        def views(x):
            return x.chunk(2, 0)[-1], x[1:, ::2].t(), x.unfold(1, 2, 1)[0], x + 1

        made = torch.compile(views, backend="luminal", dynamic=True)
        for shape in ((5, 6), (4, 8), (7, 3)):
            x = torch.randn(shape)
            got, wanted = made(x), views(x)
            for a, b in zip(got, wanted):
                torch.testing.assert_close(a, b)
                self.assertEqual(a.stride(), b.stride())
            for a, b in zip(got[:3], wanted):
                self.assertEqual(a.data_ptr(), b.data_ptr())


class Threads(Case):
    def test_one_function(self):
        model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
        made = torch.compile(model, backend="luminal")
        failures = []
        with torch.no_grad():
            made(torch.randn(4, 8))

        def call(seed):
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
            try:
                with torch.no_grad():
                    for _ in range(50):
                        torch.testing.assert_close(made(x), model(x))
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main()
