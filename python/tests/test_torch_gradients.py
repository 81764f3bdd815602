# python/tests/test_torch_gradients.py -- gradients of what torch.compile(model, backend="luminal") makes, and
# training steps: as eager PyTorch has them.
import contextlib
import io
import unittest
import warnings

import test_torch
from test_torch import compiled

torch = None


def setUpModule():
    global torch
    test_torch.setUpModule()
    torch = test_torch.torch


class Gradients(test_torch.Case):
    def test_bags_of_embeddings(self):
        nn = torch.nn.functional
        ids, starts = torch.tensor([0, 1, 4, 1, 2, 2, 0]), torch.tensor([0, 2, 2, 7])
        for words in (
            {"mode": "sum"},
            {"mode": "mean", "padding_idx": 2},
            {"mode": "max"},
            {"mode": "max", "padding_idx": 1},
            {"mode": "sum", "include_last_offset": True},
        ):
            for dtype in (torch.float32, torch.bfloat16):
                with self.subTest(**words, dtype=dtype):
                    w = torch.randn(5, 3, dtype=dtype, requires_grad=True)
                    made = self.check(lambda w: nn.embedding_bag(ids, w, starts, **words), w)
                    seeds = torch.randn(4 - ("include_last_offset" in words), 3, dtype=dtype)
                    got, wanted = (
                        torch.autograd.grad(function(w), w, seeds)[0]
                        for function in (made, lambda w: nn.embedding_bag(ids, w, starts, **words))
                    )
                    self.same(got, wanted, **({} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}))
        each = torch.randn(1, 7, requires_grad=True)
        self.check(
            lambda w, each: torch.autograd.grad(
                nn.embedding_bag(ids[None], w, mode="sum", per_sample_weights=each).sum(), (w, each)
            ),
            torch.randn(5, 3, requires_grad=True),
            each,
        )

    def test_moved_grids(self):
        nn = torch.nn.functional
        for size in ((2, 3, 7, 9), (1, 1, 4, 2), (2, 1, 3, 4, 5), (3, 2, 1, 1)):
            for corners in (False, True):
                for dtype in (torch.float32, torch.float64):
                    axes = len(size) - 2
                    # PyTorch's own gradient of grids with one place along an axis cannot be traced.
                    trained = min(size[2:]) > 1
                    theta = torch.randn(size[0], axes, axes + 1, dtype=dtype, requires_grad=trained)
                    with self.subTest(size=size, corners=corners, dtype=dtype), warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # corners of one place

                        def grid(theta):
                            return nn.affine_grid(theta, size, align_corners=corners)

                        made = self.check(grid, theta)
                        if trained:
                            seeds = torch.randn_like(grid(theta))
                            got, wanted = (
                                torch.autograd.grad(f(theta), theta, seeds)[0] for f in (made, grid)
                            )
                            self.same(got, wanted)

    def test_one_number_in_each_line(self):
        nn = torch.nn.functional
        labels = torch.tensor([[0, 3, 2], [3, 1, 1]])
        for ignored in (-100, 1):
            with self.subTest(ignored=ignored):
                x = torch.randn(2, 4, 3, requires_grad=True)

                def loss(x):
                    return nn.cross_entropy(x, labels, ignore_index=ignored)

                made = self.check(loss, x)
                got, wanted = (torch.autograd.grad(f(x), x)[0] for f in (made, loss))
                self.same(got, wanted)
        scattered = compiled(lambda at, value: torch.full((3, 5), 2.0).scatter(1, at[:, None], value))
        at, value = torch.tensor([4, 0, 2]), torch.tensor([[1.0], [-3.0], [float("nan")]])
        wanted = torch.full((3, 5), 2.0).scatter(1, at[:, None], value)
        self.same(scattered(at, value), wanted, equal_nan=True)
        with self.assertRaisesRegex(Exception, "scatter|index|range"):
            scattered(torch.tensor([4, 5, 2]), value)

    def test_normalised_weights(self):
        for dim in (0, 1):
            layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 5), dim=dim)
            x = torch.randn(3, 4, requires_grad=True)
            made = self.check(layer, x)
            inputs = [x, *layer.parameters()]
            got, wanted = (torch.autograd.grad((f(x) ** 2).sum(), inputs) for f in (made, layer))
            self.same(got, wanted)

    def test_gradients(self):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(36, 10),
        )
        twin = torch.nn.Sequential(
            *[type(m)(*a) for m, a in zip(model, [(1, 4, 3), (), (2,), (), (36, 10)])]
        )
        twin.load_state_dict(model.state_dict())
        x, y = torch.randn(5, 1, 8, 8), torch.randint(0, 10, (5,))
        made = compiled(model)
        optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (model, twin)]
        for _ in range(3):
            losses = []
            for m, optimizer in zip((made, twin), optimizers):
                optimizer.zero_grad()
                losses.append(torch.nn.functional.cross_entropy(m(x), y))
                losses[-1].backward()
            self.same(*losses)
            for a, b in zip(model.parameters(), twin.parameters()):
                self.same(a.grad, b.grad, rtol=1e-4, atol=1e-5)
            for optimizer in optimizers:
                optimizer.step()

    def test_gradients_of_attention(self):
        attention = torch.nn.functional.scaled_dot_product_attention
        seen = torch.ones(4, 3, dtype=torch.bool).tril()
        seen[1] = False
        for words in ({"is_causal": True}, {"attn_mask": seen}, {"scale": 0.3}):
            for width in (8, 5):  # 8: PyTorch's operator for processors; 5: its parts
                x = [torch.randn(2, 2, n, d, requires_grad=True) for n, d in ((4, 8), (3, 8), (3, width))]
                upstream = torch.randn(2, 2, 4, width)

                def call(q, k, v, words=words):
                    return attention(q, k, v, **words)

                with contextlib.redirect_stderr(io.StringIO()) as told:
                    got = compiled(call)(*x)
                    found = torch.autograd.grad(got, x, upstream)
                self.assertEqual(told.getvalue(), "")
                self.same(got, call(*x))
                self.same(found, torch.autograd.grad(call(*x), x, upstream))

    def test_resampling_stays_whole(self):
        from luminal.torch import backend

        x = torch.randn(2, 3, 5, 6, requires_grad=True)
        ways = [
            {"scale_factor": 2.0, "mode": "nearest"},
            {"scale_factor": 3.0, "mode": "bilinear"},
            {"size": (4, 9), "mode": "bilinear", "align_corners": True},
            {"scale_factor": 1.7, "mode": "bilinear"},  # 1.7 is not 8 / 5: what PyTorch makes of it
            {"scale_factor": 2.0, "mode": "bicubic"},
        ]
        for words in ways:
            with self.subTest(**words):
                made = self.check(lambda x: torch.nn.functional.interpolate(x, **words), x, quiet=False)
                nodes = [node for one in backend.made if one() is not None for node in one().graph.nodes]
                whole = any("upsample" in str(node.target) for node in nodes)
                self.assertEqual(whole, words.get("scale_factor") != 1.7)
                got, wanted = (
                    torch.autograd.grad(f(x).square().sum(), x)[0]
                    for f in (made, lambda x: torch.nn.functional.interpolate(x, **words))
                )
                self.same(got, wanted)
                del made, nodes
                backend.made.clear()

    def test_frozen_models_train_as_others(self):
        models = [torch.nn.Linear(4, 4) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        made, x = compiled(models[0], options={"freezing": True}), torch.randn(3, 4)
        for model, call in ((models[0], made), (models[1], models[1])):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(3):
                optimizer.zero_grad()
                call(x).square().sum().backward()
                optimizer.step()
        self.same(models[0].weight, models[1].weight)
        with torch.no_grad():
            self.same(made(x), models[1](x))


if __name__ == "__main__":
    unittest.main()
