# python/tests/test_torch.py -- torch.compile(model, backend="luminal"): values, aliases, sizes that
# change, what stays in PyTorch.
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402

torch = None


def setUpModule():
    global torch
    torch = where.find()


def compiled(function, **words):
    torch._dynamo.reset()
    return torch.compile(function, backend="luminal", **words)


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def same(self, got, wanted, **words):
        torch.testing.assert_close(got, wanted, **words)

    def check(self, function, *arguments, quiet=True, **words):
        """The compiled function gives what eager gives, and nothing stays in PyTorch."""
        wanted = function(*[a.clone() if isinstance(a, torch.Tensor) else a for a in arguments])
        made = compiled(function, **words)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            got = made(*arguments)
        if quiet:
            self.assertEqual(told.getvalue(), "")
        self.same(got, wanted)
        return made


class Values(Case):
    def test_elementwise_and_products(self):
        self.check(
            lambda x, w: torch.relu(x @ w + 1).softmax(-1) * x.sum(), torch.randn(4, 5), torch.randn(5, 3)
        )

    def test_module(self):
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
        )
        x = torch.randn(3, 8)
        with torch.no_grad():
            self.check(model, x)

    def test_activation_of_a_product(self):
        b, x, w = torch.randn(4), torch.randn(3, 5), torch.randn(5, 4)
        for gelu in (True, False):
            self.check(lambda *all_, gelu=gelu: torch._addmm_activation(*all_, use_gelu=gelu), b, x, w)

    def test_layers_of_an_encoder(self):
        x, hidden = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False, False, True, True, False]])
        causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
        for words in ({}, {"norm_first": True, "activation": "gelu"}):
            layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **words).eval()
            with torch.no_grad():
                for masks in (
                    {},
                    {"src_mask": causal},
                    {"src_key_padding_mask": hidden},
                    {"src_mask": causal, "src_key_padding_mask": hidden},
                ):
                    self.check(lambda v, m=masks, layer=layer: layer(v, **m), x)

    def test_attention_with_its_projections(self):
        x, y = torch.randn(2, 5, 16), torch.randn(2, 5, 16)
        w, b, out, c = (torch.randn(*s) / 4 for s in ((48, 16), (48,), (16, 16), (16,)))
        native = torch._native_multi_head_attention
        self.check(lambda x: native(x, x, x, 16, 4, w, b, out, c, None, True, False), x)
        later = torch.ones(5, 5).triu(1) > 0
        self.check(lambda x: native(x, x, x, 16, 4, w, b, out, c, later, True, True, 0), x)
        self.check(lambda x, y: native(x, y, y, 16, 4, w, b, out, c), x, y)

    def test_heads_that_share_keys(self):
        """PyTorch's operator for processors takes fewer heads of keys than of queries; also with gradients,
        and with sizes that change."""
        attention = torch.nn.functional.scaled_dot_product_attention
        for heads in (1, 2, 4):
            sets = [
                [torch.randn(b, n, length, 8, requires_grad=True) for n in (4, heads, heads)]
                for b, length in ((2, 5), (3, 7))
            ]
            made = compiled(lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True), dynamic=True)
            for x in sets:
                with contextlib.redirect_stderr(io.StringIO()) as told:
                    got = made(*x)
                    found = torch.autograd.grad(got.sin().sum(), x)
                wanted = attention(*x, is_causal=True, enable_gqa=True)
                self.assertEqual(told.getvalue(), "")
                self.same(got, wanted)
                self.same(found, torch.autograd.grad(wanted.sin().sum(), x))

    def test_rows_in_groups(self):
        """A matrix for each group of rows, as experts have them; a group may have no row."""
        own = where.find_module("transformers.integrations.moe") and torch.ops.transformers
        for ends in ((3, 3, 10, 12), (0, 5, 12, 12)):
            x, w = torch.randn(12, 8, requires_grad=True), torch.randn(4, 8, 6, requires_grad=True)
            offsets = torch.tensor(ends, dtype=torch.int32)

            def call(x, w, offsets):
                return own.grouped_mm_fallback(x.sin(), w, offsets).square()

            made = self.check(call, x, w, offsets, dynamic=True)
            got, wanted = (torch.autograd.grad(f(x, w, offsets).sum(), (x, w)) for f in (made, call))
            self.same(got, wanted)
        x, w = torch.randn(12, 16).bfloat16(), torch.randn(4, 16, 8).bfloat16()
        self.check(lambda x, w, o: torch.nn.functional.grouped_mm(x, w, offs=o), x, w, offsets)

    def test_convolutions(self):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1, stride=2),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.ConvTranspose2d(8, 4, 2, stride=2),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
        ).eval()
        with torch.no_grad():
            self.check(model, torch.randn(2, 3, 16, 16))

    def test_numbers_promote_as_in_pytorch(self):
        def f(i, x, zero, b):
            return (
                i * 2.5,
                i + zero,
                x + zero.double(),
                b + b,
                i // 2,
                i / 3,
                (x > 1) & b,
                i < 1.5,
                x.half() * x.bfloat16(),
            )

        self.check(
            f, torch.arange(4), torch.randn(4), torch.tensor(1.5), torch.tensor([True, False, True, True])
        )

    def test_whole_powers(self):
        x = torch.tensor([0.0, -0.0, 1.5, -2.25, float("inf"), -float("inf"), float("nan"), 1e-30, 1e30])
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            f = lambda x: tuple(x**n for n in range(-3, 10))  # noqa: E731
            for got, wanted in zip(compiled(f)(x.to(dtype)), f(x.to(dtype))):
                self.same(got, wanted, equal_nan=True)

    def test_strides_of_results(self):
        def f(x):
            return (x + 1).t(), (x * 2).permute(1, 0)[1:], x.expand(2, 3, 4) + 0, (x + 2)[:, ::2]

        x = torch.randn(3, 4)
        for got, wanted in zip(compiled(f)(x), f(x)):
            self.same(got, wanted)
            self.assertEqual(got.stride(), wanted.stride())

    def test_inputs_of_any_layout(self):
        f = lambda x, y: x * 2 + y  # noqa: E731
        base = torch.randn(6, 8)
        for x in (base.t(), base[::2, 1:].t()[:7], base[0].expand(8, 8)[:, :6], base.t()[1:]):
            self.check(f, x, torch.randn(x.shape))

    def test_results_that_lie_in_one_place(self):
        def f(x):
            return (x.t() + 0).t(), (x.t() + 0) * 1, torch.linalg.svd(x, full_matrices=False)[0].mT

        x = torch.randn(3, 5)
        made = compiled(f)
        with contextlib.redirect_stderr(io.StringIO()):
            self.same(made(x), f(x))

    def test_nothing_and_scalars(self):
        self.check(
            lambda x, y: (x.sum(), torch.cat([x, y]), y * 2, x.new_zeros(3)),
            torch.randn(0, 3),
            torch.randn(2, 3),
        )


    def test_reductions_at_places(self):
        to = torch.tensor([0, 2, 0, 1])
        for how in ("prod", "mean", "amax", "amin"):
            self.check(
                lambda x, y: (
                    x.index_reduce(1, to, y, how),
                    x.index_reduce(1, to, y, how, include_self=False),
                    x.narrow_copy(1, 1, 2),
                ),
                torch.randn(3, 5),
                torch.randn(3, 4),
            )

    def test_negated_views_are_read_as_they_are(self):
        import luminal as pl

        x = torch.randn(3, dtype=torch.complex64).conj().imag  # its memory has the other sign
        with pl.Graph():
            y = (pl.from_dlpack(x) * 2).keep()
            pl.execute()
            self.same(torch.from_dlpack(y), x * 2)

    def test_conversions_to_narrow_integers_wrap(self):
        x = torch.tensor([-5.0, -1.7, 255.9, 256, 300, -300, 70000, 1e6, 0.5, -0.5])
        self.check(lambda x: [x.to(t) for t in (torch.uint8, torch.int8, torch.int16, torch.int32)], x)

    def test_places_in_rows_with_nan(self):
        """As PyTorch halves: a NaN in the row comes before every value, one that is looked for after all."""
        inf, nan = float("inf"), float("nan")
        row = [-inf, -1.0, 0.0, 0.0, 2.0, inf]
        values = torch.tensor([-inf, -3.0, -1.0, -0.0, 0.0, 1.0, 2.0, inf, nan])
        lines = [torch.tensor(row[:n] + [nan] * odd) for n in (0, 1, 2, 4, 6) for odd in (0, 1, 3)]

        def places(values, *lines):
            return [
                find
                for line in lines
                for right in (False, True)
                for find in (
                    torch.searchsorted(line, values, right=right),
                    torch.bucketize(values, line, right=right),
                )
            ]

        for type in (torch.float32, torch.float64, torch.bfloat16):
            with self.subTest(type=type):
                self.check(places, values.to(type), *(line.to(type) for line in lines))


class Meaning(Case):
    """Changes in place, views, aliases."""

    def test_inputs_that_change(self):
        def f(x, y):
            x.add_(1)
            y[0] = 7
            y[:, 1].mul_(2)
            return x * y

        x, y = torch.randn(3, 3), torch.randn(3, 3)
        x2, y2 = x.clone(), y.clone()
        wanted, got = f(x, y), compiled(f)(x2, y2)
        self.same((got, x2, y2), (wanted, x, y))

    def test_results_that_are_views(self):
        def f(x):
            return x.view(-1), x[1], x, x.detach()

        x = torch.randn(2, 3)
        got = compiled(f)(x)
        for one in got:
            self.assertEqual(one.untyped_storage().data_ptr(), x.untyped_storage().data_ptr())
        got[0][0] = 5
        self.assertEqual(x[0, 0], 5)

    def test_views_that_gradients_read_are_not_computed(self):
        from luminal.torch import backend

        x, w = torch.randn(4, 6, requires_grad=True), torch.randn(6, 5, requires_grad=True)
        made = compiled(lambda x, w: x @ w)
        old = len(backend.made)
        y = made(x, w)  # whose transposed factors stand among the results of the forward graph
        y.sum().backward()
        self.same(x.grad, w.sum(1).expand(4, 6).contiguous())
        forward, gradients = [one() for one in backend.made[old:]]
        self.assertEqual([len(step.outputs) for step in forward.steps], [1])
        self.assertGreater(len(forward.views), 0)
        self.assertEqual(len(gradients.views), 0)

    def test_products_of_three(self):
        for bias in (True, False):
            module = torch.nn.Bilinear(20, 30, 7, bias=bias)
            compiled = torch.compile(module, backend="luminal", options={"fullgraph": True})
            a, b = torch.randn(4, 5, 20, requires_grad=True), torch.randn(4, 5, 30, requires_grad=True)
            places = [a, b, *module.parameters()]
            ours, theirs = compiled(a, b), module(a, b)
            torch.testing.assert_close(ours, theirs)
            weights = torch.randn_like(ours)
            for one, other in zip(
                torch.autograd.grad(ours, places, weights), torch.autograd.grad(theirs, places, weights)
            ):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

    def test_buffers_are_updated(self):
        model, twin = (
            torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3)) for _ in range(2)
        )
        twin.load_state_dict(model.state_dict())
        x = torch.randn(4, 2, 5, 5)
        made = compiled(model)
        for _ in range(2):
            self.same(made(x), twin(x))
        for name, value in twin.state_dict().items():
            self.same(model.state_dict()[name], value)

    def test_parameters_are_borrowed(self):
        from luminal.torch import program

        read = []
        call = program.Program.__call__

        def spy(self, tensors, values):
            read.extend(tensor.data_ptr() for tensor in tensors)
            return call(self, tensors, values)

        layer = torch.nn.Linear(64, 64)
        program.Program.__call__ = spy
        try:
            with torch.no_grad():
                made = compiled(layer)
                x = torch.randn(2, 64)
                self.same(made(x), layer(x))
                layer.weight.mul_(2)  # is seen, since nothing was copied
                self.same(made(x), layer(x))
        finally:
            program.Program.__call__ = call
        for tensor in (layer.weight, layer.bias, x):
            self.assertIn(tensor.data_ptr(), read)


class Sizes(Case):
    def test_sizes_that_change(self):
        from luminal.torch import backend

        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1))
        made = compiled(lambda x: model(x).reshape(-1, 4).sum(0) * x.shape[0], dynamic=True)
        before = len(backend.made)
        with torch.no_grad():
            for rows in (3, 2, 17, 64, 5):
                x = torch.randn(rows, 8)
                self.same(made(x), model(x).reshape(-1, 4).sum(0) * rows)
        self.assertEqual(len(backend.made) - before, 1)

    def test_sizes_beyond_what_was_planned(self):
        made = compiled(lambda x: (x * 2).cumsum(0), dynamic=True)
        for rows in (3, 5000, 100000, 4):
            x = torch.randint(0, 3, (rows,)).float()
            self.same(made(x), (x * 2).cumsum(0))


class Masked(Case):
    def test_queries_that_attend_to_nothing(self):
        attention = torch.nn.functional.scaled_dot_product_attention
        seen = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 1]]).bool()
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            added = torch.zeros(3, 3, dtype=dtype).masked_fill(~seen, float("-inf"))
            for width in (8, 5):
                x = [torch.randn(1, 2, 3, d).to(dtype) for d in (8, 8, width)]
                for mask in (seen, added):
                    call = compiled(lambda q, k, v, m: attention(q, k, v, attn_mask=m))
                    wanted = attention(*[t.double() for t in x], attn_mask=seen)
                    self.assertFalse(wanted[:, :, 1].any())
                    # (PyTorch rounds the weights to narrow types between the products)
                    self.same(call(*x, mask), wanted.to(dtype), rtol=2e-2, atol=2e-3 if width == 5 else 1e-5)

    def test_quotients_that_are_hidden(self):
        def mean(x, n, w):  # of n elements, where there are any
            return torch.where((n > 0)[:, None], x / n[:, None], 0) @ w

        self.check(mean, torch.randn(6, 5), torch.tensor([0.0, 1, 2, 0, 3, 0]), torch.randn(5, 4))

    def test_infinities_that_are_hidden(self):
        def finite(a, b):
            return torch.where(torch.isfinite(a)[:, None], a[:, None] * b, 0).sum(1)

        def masked(a, b, m):
            return torch.where(m, a[:, None] * b, 0).sum(1)

        a, b = torch.tensor([1.0, float("inf"), 2, float("nan")]), torch.randn(4, 40)
        self.check(finite, a, b)
        self.check(masked, a, b, (torch.rand(4, 40) > 0.5) & torch.isfinite(a)[:, None])

    def test_random_numbers_are_pytorchs(self):
        f = lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x) * torch.randn(
            4
        )  # noqa: E731
        x = torch.ones(8, 4)
        torch.manual_seed(3)
        wanted = [f(x), f(x)]
        made = compiled(f)
        torch.manual_seed(3)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            got = [made(x), made(x)]
        self.same(got, wanted)
        self.assertEqual(told.getvalue(), "")


class InPyTorch(Case):
    def test_what_stays_is_named(self):
        import luminal

        f = lambda x: torch.linalg.inv(x * 2) @ x + 1  # noqa: E731
        x = torch.randn(3, 3)
        made = compiled(f)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.same(made(x), f(x), rtol=1e-4, atol=1e-4)
        line = told.getvalue()
        self.assertIn("aten.linalg_inv_ex.default stays in PyTorch at ", line)
        self.assertIn("test_torch.py:", line)
        self.assertIn("in PyTorch: aten.linalg_inv_ex.default at ", luminal.report())
        with self.assertRaisesRegex(
            Exception, r"fullgraph: aten.linalg_inv_ex.default has no terms at .*test_torch.py"
        ):
            compiled(f, options={"fullgraph": True})(x)

    def test_types_that_tracing_tells_wrong(self):
        """An operator gives bfloat16 where its own description for tracing says float32."""
        library = torch.library.Library("luminal_tests", "FRAGMENT")
        library.define("halves(Tensor x) -> Tensor")
        library.impl("halves", lambda x: x / 2, "CompositeExplicitAutograd")
        library.impl("halves", lambda x: torch.empty_like(x, dtype=torch.float32), "Meta")
        f = lambda x: torch.ops.luminal_tests.halves(x).to(torch.bfloat16) * 4  # noqa: E731
        x = torch.randn(5).bfloat16()
        with contextlib.redirect_stderr(io.StringIO()):
            self.same(compiled(f)(x), 2 * x)

    def test_threads_are_those_of_pytorch(self):
        from luminal.torch import program

        asked = []
        words_of = program.compile_words

        def recorded(options):
            asked.append(words_of(options)["threads"])
            return words_of(options)

        before = torch.get_num_threads()
        f = compiled(lambda x: x + 1)
        x = torch.randn(4)
        with unittest.mock.patch.object(program, "compile_words", recorded), unittest.mock.patch.dict(
            "os.environ", {"LUMINAL_THREADS": "0"}
        ):
            try:
                for threads in (1, 2):
                    torch.set_num_threads(threads)
                    self.same(f(x), x + 1)
            finally:
                torch.set_num_threads(before)
            compiled(lambda x: x + 2, options={"threads": 3})(x)
        self.assertEqual(asked, [1, 2, 3])

    def test_options(self):
        x = torch.randn(4)
        self.check(lambda x: x + 1, x, options={"threads": 1, "max_error": 0, "activations": "f32"})
        self.check(lambda x: x + 1, x, options={"mode": "budget", "budget": 0.1})
        for options, text in (
            ({"speed": 1}, "there is no option 'speed'; there are activations, budget"),
            ({"mode": "fastest"}, "there is no mode 'fastest'"),
            ({"budget": -1}, "budget takes a number"),
            ({"mode": "budget"}, "mode budget needs budget"),
            ({"activations": "q8"}, "activations 'q8'"),
        ):
            with self.assertRaisesRegex(Exception, text):
                compiled(lambda x: x + 1, options=options)(x)


class Import(Case):
    def test_from_torch(self):
        import luminal
        from luminal.torch import from_torch

        model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4)).eval()
        x = torch.randn(3, 6)
        graph = from_torch(model, (x,))
        self.same(graph(x), model(x))
        self.assertIsInstance(graph, luminal.Graph)
        self.assertIn("0.weight", graph.to_string())
        rows = torch.export.Dim("rows", min=1, max=100)
        graph = luminal.from_torch(model, (x,), ({0: rows},))
        for size in (1, 7, 100):
            x = torch.randn(size, 6)
            self.same(graph(x), model(x))

        class Results(torch.nn.Module):  # an input, a parameter, one twice, of other types, and a size
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(3))

            def forward(self, x, rows):
                y = x * 2
                halves = {"half": y.half(), "size": rows.shape[0]}
                return y, [x, y, (self.weight, y)], halves, None

        module, rows = Results(), torch.zeros(3)
        graph = luminal.from_torch(module, (x, rows), ({}, {0: torch.export.Dim.AUTO}))
        self.assertEqual(list(graph.outputs), [f"output{i}" for i in range(6)])
        self.assertEqual([value.name for value in graph.outputs.values()], list(graph.outputs))
        for made, want in zip(graph(x, rows), (2 * x, x, 2 * x, module.weight, 2 * x, (2 * x).half())):
            self.assertEqual(made.dtype, want.dtype)
            self.same(made, want.detach())
        with self.assertRaisesRegex(
            luminal.Error, "these operators have no terms: aten.linalg_inv_ex.default at .*test_torch.py"
        ):

            class Inverse(torch.nn.Module):
                def forward(self, x):
                    return torch.linalg.inv(x)

            from_torch(Inverse(), (torch.eye(3),))

    def test_nothing_is_imported_by_the_user(self):
        text = (
            "import torch\nf = torch.compile(lambda x: x * 2 + 1, "
            "backend='luminal')\nprint(f(torch.ones(2)).tolist())\n"
            "print(torch._dynamo.list_backends(None).count('luminal'))\n"
        )
        path = os.pathsep.join([os.environ["PYTHONPATH"], *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.assertEqual(done.stdout, "[3.0, 3.0]\n1\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
