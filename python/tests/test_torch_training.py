# python/tests/test_torch_training.py -- random modules with every loss of PyTorch, and steps of its
# optimizers, through the back end. LUMINAL_RANDOM_SEEDS=FIRST:COUNT runs other modules.
import contextlib
import copy
import io
import logging
import os
import pathlib
import random
import re
import sys
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402

torch = nn = F = None

# Of [batch, channels] (and after _: of [batch, channels, length]); C: channels, L: the last size.
LAYERS = """
nn.Linear(L, 7) | nn.Linear(L, 5, bias=False) | nn.LayerNorm(L) | nn.RMSNorm(L, 1e-5) | nn.GroupNorm(1, C)
nn.BatchNorm1d(C) | nn.BatchNorm1d(C, momentum=None, affine=False) | nn.GELU() | nn.ReLU(True) | nn.SELU(True)
nn.Hardswish() | nn.Mish() | nn.PReLU() | nn.Softmax(-1) | nn.Dropout(0.0) | nn.Softshrink() | nn.Tanhshrink()
"""
SPATIAL = """
nn.Conv1d(C, 6, 3, padding=1, padding_mode="circular") | nn.Conv1d(C, 2 * C, 2, 2, 1, groups=C)
nn.Conv1d(C, 4, 3, padding="same", dilation=2, padding_mode="reflect") | nn.ConvTranspose1d(C, 3, 2, 2, 0, 1)
nn.ConvTranspose1d(C, C, 3, 1, 1, groups=C, dilation=2) | nn.InstanceNorm1d(C, affine=True) | nn.Flatten()
nn.MaxPool1d(2, 1, 1, ceil_mode=True) | nn.AvgPool1d(3, 2, 1) | nn.AdaptiveAvgPool1d(3) | nn.Upsample(size=7)
nn.Upsample(scale_factor=2, mode="linear") | nn.AdaptiveMaxPool1d(2) | nn.LocalResponseNorm(3)
Output(nn.LSTM(L, 5, batch_first=True)) | Output(nn.GRU(L, 3, 2, batch_first=True, bidirectional=True))
nn.TransformerEncoderLayer(L, 1, 9, 0.0, batch_first=True, norm_first=True)
"""
# y: what the module gives, t: numbers like it, k and labels: classes; p: the reduction.
LOSSES = """
mse_loss(y, t, p) | l1_loss(y, t, p) | smooth_l1_loss(y, t, p, beta=0.5) | huber_loss(y, t, p, delta=0.7)
cross_entropy(y, k, p) | cross_entropy(y, k, p, label_smoothing=0.1) | cross_entropy(y, t.softmax(1), p)
cross_entropy(y, k, p, weight=t.abs().mean(others)) | nll_loss(y.log_softmax(1), k, p)
kl_div(y.log_softmax(1), t.softmax(1), p) | kl_div(y.log_softmax(1), t.log_softmax(1), p, log_target=True)
binary_cross_entropy(y.sigmoid(), t.sigmoid(), p) | gaussian_nll_loss(y, t, y * y + 0.5, p, full=True)
binary_cross_entropy_with_logits(y, t.sigmoid(), p, pos_weight=t[0].abs()) | soft_margin_loss(y, t.sign(), p)
poisson_nll_loss(y.clamp(max=4), 3 * t.abs(), p, full=True) | hinge_embedding_loss(y, t.sign(), p)
multilabel_soft_margin_loss(y, (t > 0).to(y.dtype), p) | margin_ranking_loss(y, t, t.sign(), p, margin=0.2)
multi_margin_loss(y.flatten(1), k.reshape(len(k), -1)[:, 0] % wide, p)
multilabel_margin_loss(y.flatten(1), labels, p)
cosine_embedding_loss(y.flatten(1), t.flatten(1), t.flatten(1)[:, 0].sign(), p, margin=0.1)
triplet_margin_loss(y.flatten(1), t.flatten(1), t.flatten(1).flip(1), p, swap=True)
"""
OPTIMIZERS = """
SGD(p, 0.1, 0.9, nesterov=True, weight_decay=0.01) | Adam(p, 0.01)
AdamW(p, 0.01, amsgrad=True, maximize=True)
RMSprop(p, 0.01, centered=True, momentum=0.5) | Adagrad(p) | Adadelta(p) | NAdam(p) | RAdam(p) | Adamax(p)
"""


def setUpModule():
    global torch, nn, F
    torch = where.find()
    nn, F = torch.nn, torch.nn.functional
    warnings.filterwarnings("ignore", "reduction: 'mean'")
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)


def rows(text):
    return [row.strip() for line in text.strip().splitlines() for row in line.split(" | ")]


def module_of(seed):
    """A module, and an input of it."""
    draw, numbers = random.Random(seed), torch.manual_seed(seed)

    class Output(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)[0]

    sizes = [draw.choice([1, 2, 3, 4, 5, 8, 9]) for _ in range(draw.choice([1, 2, 2, 2]))]
    first = y = torch.randn(4, *sizes, generator=numbers)
    layers = []
    for _ in range(40):
        row = draw.choice(rows(LAYERS) + (rows(SPATIAL) if y.dim() == 3 else []))
        try:
            layer = eval(row, {"nn": nn, "Output": Output, "C": y.shape[1], "L": y.shape[-1]})
            made = layer(y.clone())
            layer(y.clone().requires_grad_() * 1).sum().backward()
        except (RuntimeError, ValueError):  # it does not fit, or eager cannot train it
            continue
        layers, y = [*layers, layer], made.detach()
        if len(layers) == 4:
            break
    return nn.Sequential(*layers), first, y.shape


def loss_of(row, shape, seed):
    """A function of what a module gives and of numbers, and the numbers."""
    numbers = torch.Generator().manual_seed(seed)
    t = torch.randn(shape, generator=numbers)
    wide = t.flatten(1).shape[1]
    labels = torch.stack([torch.randperm(wide, generator=numbers) for _ in range(shape[0])])
    labels[:, wide // 2 : wide // 2 + wide % 2] = -1
    names = {
        "F": F,
        "k": torch.randint(0, shape[1], (shape[0], *shape[2:]), generator=numbers),
        "labels": labels,
        "p": ("mean", "sum")[seed % 2],
        "others": tuple(axis for axis in range(len(shape)) if axis != 1),
        "wide": wide,
    }
    return eval("lambda y, t: F." + re.sub(r"\bp\b(?=[,)])", "reduction=p", row), names), t


def step(module, function, x, t):
    """The loss, what the module gives, gradients, and buffers."""
    x = x.clone().requires_grad_()
    module.zero_grad()
    y, value = function(module, x * 1, t)  # the first layer may change what it gets
    value.backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in module.parameters()]
    return [value.detach(), y.detach(), x.grad, *gradients, *(b.clone() for b in module.buffers())]


class Modules(unittest.TestCase):
    def check(self, seed):
        """Two steps, then one in the other mode, beside eager's; its error in f32 is allowed several
        times. False: eager cannot do it."""
        module, x, shape = module_of(seed)
        row = rows(LOSSES)[seed % len(rows(LOSSES))]
        with self.subTest(seed=seed, loss=row, module=str(module)):
            loss, t = loss_of(row, shape, seed)

            def function(module, x, t):
                y = module(x)
                return y, loss(y, t)

            torch._dynamo.reset()
            made = torch.compile(function, backend="luminal", dynamic=False)
            ours = copy.deepcopy(module)
            for number in range(3):
                if number == 2:
                    module.train(not module.training), ours.train(module.training)
                wide, near = (copy.deepcopy(module).double() for _ in range(2))
                with torch.no_grad():
                    for parameter in near.parameters():
                        parameter.mul_(1 + 1e-7)
                try:
                    exact = step(wide, function, x.double(), t.double())
                    close = step(near, function, x.double() * (1 + 1e-7), t.double())
                    wanted = step(module, function, x, t)
                except RuntimeError:  # what a gradient needs is changed in place
                    return False
                with contextlib.redirect_stderr(io.StringIO()) as told:
                    got = step(ours, made, x, t)
                self.assertNotIn("Error:", told.getvalue())
                for place, (a, b, e, n) in enumerate(zip(got, wanted, exact, close, strict=True)):
                    self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype), f"result {place}")
                    a, b, e, n = (v.double() for v in (a, b, e, n))
                    scale = b.abs().max() if b.numel() else 0
                    allowed = 1e-9 + 1e-5 * scale + 8 * ((b - e).abs() + (e - n).abs()).max()
                    self.assertTrue(((a - b).abs() <= allowed).all(), f"step {number}, result {place}")
                x = x.flip(0) * 0.9
                with torch.no_grad():
                    for p, q in zip(module.parameters(), ours.parameters()):
                        p.mul_(0.99), q.mul_(0.99)
                ours.load_state_dict(module.state_dict())
        return True

    def test_training(self):
        first, count = map(int, os.environ.get("LUMINAL_RANDOM_SEEDS", "0:23").split(":"))
        ran = sum(self.check(seed) is not False for seed in range(first, first + count))
        self.assertGreater(ran, count // 2)


class Optimizers(unittest.TestCase):
    def test_steps(self):
        for row in rows(OPTIMIZERS):
            for foreach in (False, True):
                with self.subTest(row, foreach=foreach):
                    self.steps(row, foreach)

    def steps(self, row, foreach):
        """Steps are one program: no operator stays in PyTorch."""
        numbers = torch.Generator().manual_seed(0)
        parameters, optimizers = [], []
        for _ in range(2):
            numbers.manual_seed(1)
            p = [nn.Parameter(torch.randn(s, generator=numbers)) for s in ((7, 5), (5,), (1,), ())]
            names = {"p": p, "torch": torch}
            parameters.append(p)
            optimizers.append(eval(f"torch.optim.{row[:-1]}, foreach={foreach})", names))
        torch._dynamo.reset()
        made = torch.compile(optimizers[1].step, backend="luminal", options={"fullgraph": True})
        for _ in range(3):
            for a, b in zip(*parameters):
                a.grad = torch.randn(a.shape, generator=numbers)
                b.grad = a.grad.clone()
            optimizers[0].step()
            made()
        for a, b in zip(*parameters):
            torch.testing.assert_close(b.detach(), a.detach(), rtol=1e-5, atol=1e-6)

    def test_states_where_they_lie(self):
        """What a step changes it changes in the memory of the caller, in one kernel for each shape."""
        import luminal.torch

        for make, kernels in (
            (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), 2),
            (lambda p: torch.optim.AdamW(p, 0.01), None),
        ):
            ours = [torch.randn(40, 30), torch.randn(30)]
            theirs = [p.clone() for p in ours]
            one, other = make(ours), make(theirs)
            places = [p.data_ptr() for p in ours]
            step = torch.compile(one.step, backend="luminal")
            for _ in range(4):
                for p, q in zip(ours, theirs):
                    p.grad = torch.randn_like(p)
                    q.grad = p.grad.clone()
                versions = [p._version for p in ours]
                step()
                other.step()
                for p, q, version in zip(ours, theirs, versions):
                    torch.testing.assert_close(p, q)
                    self.assertGreater(p._version, version)
            self.assertEqual(places, [p.data_ptr() for p in ours])
            report = luminal.torch.report().split("plan main:")[-1]
            self.assertIn(": state f32[40, 30]", report)
            if kernels:
                self.assertIn(f"{kernels} kernels", report)

    def test_changed_arguments(self):
        """Old values are read before they are changed; arguments may be strided, swapped, or returned."""

        def swapped(x, y):
            t = x.clone()
            x.copy_(y)
            y.copy_(t)

        def moved(x, y):
            x.copy_(x.flip(0))
            y.add_(x.roll(1, 1))
            return y + x

        def summed(x, y):
            x.copy_(torch.cumsum(x, 0))
            y.copy_(y @ x)
            return x

        def part(x, y):
            x[2:5] = y[1:4]
            return x.sum()

        def spread(x, y):
            x.copy_(y.sum(0, keepdim=True).expand_as(x))
            return x[0]

        def transposed(x, y):
            x.t().add_(y)

        for function in (swapped, moved, summed, part, spread, transposed):
            for strided in (False, True):
                with self.subTest(function=function.__name__, strided=strided):
                    torch._dynamo.reset()
                    compiled = torch.compile(function, backend="luminal", dynamic=False)
                    x, y = torch.randn(24, 24), torch.randn(24, 24)
                    x = torch.randn(24, 48)[:, ::2] if strided else x
                    a, b = x.clone(), y.clone()
                    for _ in range(3):
                        with torch.no_grad():
                            made, expected = compiled(x, y), function(a, b)
                        torch.testing.assert_close(x, a)
                        torch.testing.assert_close(y, b)
                        if expected is not None:
                            torch.testing.assert_close(made, expected)

    def test_clipping(self):
        parameters = [[nn.Parameter(torch.ones(s)) for s in ((3, 4), (5,))] for _ in range(2)]
        for p in (p for both in parameters for p in both):
            p.grad = torch.linspace(-1, 2, p.numel()).reshape(p.shape)
        made = torch.compile(nn.utils.clip_grad_norm_, backend="luminal", options={"fullgraph": True})
        torch.testing.assert_close(made(parameters[0], 0.5), nn.utils.clip_grad_norm_(parameters[1], 0.5))
        for a, b in zip(*parameters):
            torch.testing.assert_close(a.grad, b.grad)


if __name__ == "__main__":
    unittest.main()
