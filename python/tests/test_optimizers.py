# python/tests/test_optimizers.py -- 50 steps of every optimizer with the same gradients: against PyTorch's in
# f64 where it has one, against the paper's formula in f64 otherwise.
import pathlib
import sys
import unittest

import luminal as pl
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402

STEPS = 50
SHAPES = {"matrix": (6, 9), "tall": (12, 5), "bias": (7,)}


def data(names, seed=1):
    random = np.random.default_rng(seed)
    start = {n: random.standard_normal(SHAPES[n]).astype(np.float32) for n in names}
    slopes = [{n: random.standard_normal(SHAPES[n]).astype(np.float32) for n in names} for _ in range(STEPS)]
    slopes[7] = {n: 0 * g for n, g in slopes[7].items()}  # a step without a slope
    return start, slopes


def ours(make, names, start, slopes, groups=None):
    """groups: names with the keywords of their update."""
    with pl.Graph() as graph:
        parameters = {n: pl.state(n, start[n]) for n in names}
        inputs = {n: pl.input(SHAPES[n], name="g_" + n) for n in names}
        optimizer = make()
        for members, words in groups or [(names, {})]:
            optimizer.update([parameters[n] for n in members], [inputs[n] for n in members], **words)
        for slope in slopes:
            for n in names:
                inputs[n].set(slope[n])
            graph.execute()
        return {n: parameters[n].numpy() for n in names}


def lamb(start, slopes, rate=0.02, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.1):
    w, m, v = start.astype(np.float64), 0.0, 0.0
    for t, g in enumerate(slopes, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g.astype(np.float64) ** 2
        step = m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + eps) + weight_decay * w
        length, size = np.linalg.norm(w), np.linalg.norm(step)
        w = w - rate * (length / size if length > 0 and size > 0 else 1.0) * step
    return w


def lion(start, slopes, rate=0.02, beta1=0.9, beta2=0.99, weight_decay=0.1):
    w, m = start.astype(np.float64), 0.0
    for g in slopes:
        w = w - rate * (np.sign(beta1 * m + (1 - beta1) * g) + weight_decay * w)
        m = beta2 * m + (1 - beta2) * g
    return w


class Case(unittest.TestCase):
    def check(self, made, want, tolerance=2e-5):
        for name, value in made.items():
            scale = np.abs(want[name]).max()
            self.assertLess(np.abs(value - want[name]).max() / scale, tolerance, name)


class Formulas(Case):
    def test_lamb_and_lion(self):
        names = list(SHAPES)
        start, slopes = data(names)
        for make, formula in [(lambda: pl.lamb(0.02, weight_decay=0.1), lamb),
                              (lambda: pl.lion(0.02, weight_decay=0.1), lion)]:
            with self.subTest(formula.__name__):
                made = ours(make, names, start, slopes)
                self.check(made, {n: formula(start[n], [g[n] for g in slopes]) for n in names})


class AgainstPyTorch(Case):
    @classmethod
    def setUpClass(cls):
        global torch
        torch = where.find()

    CASES = [
        ("sgd", dict(), "SGD", dict()),
        ("sgd", dict(weight_decay=0.1), "SGD", dict(weight_decay=0.1)),
        ("sgd", dict(momentum=0.9, dampening=0.3), "SGD", dict(momentum=0.9, dampening=0.3)),
        ("sgd", dict(momentum=0.9, nesterov=True, weight_decay=0.1), "SGD",
         dict(momentum=0.9, nesterov=True, weight_decay=0.1)),
        ("adam", dict(), "Adam", dict()),
        ("adam", dict(weight_decay=0.1, beta1=0.8, beta2=0.95), "Adam",
         dict(weight_decay=0.1, betas=(0.8, 0.95))),
        ("adam", dict(amsgrad=True), "Adam", dict(amsgrad=True)),
        ("adamw", dict(weight_decay=0.1), "AdamW", dict(weight_decay=0.1)),
        ("adamw", dict(amsgrad=True), "AdamW", dict(amsgrad=True)),
        ("rmsprop", dict(), "RMSprop", dict()),
        ("rmsprop", dict(centered=True), "RMSprop", dict(centered=True)),
        ("rmsprop", dict(centered=True, momentum=0.9, weight_decay=0.1), "RMSprop",
         dict(centered=True, momentum=0.9, weight_decay=0.1)),
        ("adagrad", dict(), "Adagrad", dict()),
        ("adagrad", dict(rate_decay=0.1, weight_decay=0.1, initial_accumulator=0.2), "Adagrad",
         dict(lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2)),
        ("adadelta", dict(), "Adadelta", dict()),
        ("adadelta", dict(rho=0.8, weight_decay=0.1), "Adadelta", dict(rho=0.8, weight_decay=0.1)),
    ]

    def theirs(self, make, names, start, slopes, groups=None):
        parameters = {n: torch.nn.Parameter(torch.tensor(start[n], dtype=torch.float64)) for n in names}
        optimizer = make([{"params": [parameters[n] for n in members], **words}
                          for members, words in groups or [(names, {})]])
        for slope in slopes:
            for n in names:
                parameters[n].grad = torch.tensor(slope[n], dtype=torch.float64)
            optimizer.step()
        return {n: p.detach().numpy() for n, p in parameters.items()}

    def test_every_optimizer(self):
        names = list(SHAPES)
        start, slopes = data(names)
        for own, words, name, their_words in self.CASES:
            with self.subTest(own, **words):
                made = ours(lambda own=own, words=words: getattr(pl, own)(0.02, **words),
                            names, start, slopes)
                want = self.theirs(
                    lambda p, name=name, words=their_words: getattr(torch.optim, name)(p, lr=0.02, **words),
                    names, start, slopes)
                self.check(made, want)

    def test_groups(self):
        names = list(SHAPES)
        start, slopes = data(names, seed=2)
        for own, name, words in [("sgd", "SGD", dict(momentum=0.9)), ("adamw", "AdamW", {}),
                                 ("adam", "Adam", {}), ("rmsprop", "RMSprop", {}),
                                 ("adagrad", "Adagrad", {})]:
            with self.subTest(own):
                made = ours(lambda own=own, words=words: getattr(pl, own)(0.02, weight_decay=0.1, **words),
                            names, start, slopes,
                            [(["matrix"], {}), (["tall"], {"rate": 0.25}), (["bias"], {"weight_decay": 0.0})])
                want = self.theirs(
                    lambda p, name=name, words=words:
                        getattr(torch.optim, name)(p, lr=0.02, weight_decay=0.1, **words),
                    names, start, slopes,
                    [(["matrix"], {}), (["tall"], {"lr": 0.005}), (["bias"], {"weight_decay": 0.0})])
                self.check(made, want)

    def test_muon(self):
        # PyTorch's iterations are in bf16: its formula in f64 is the judge, and PyTorch is near it.
        names = ["matrix", "tall"]
        start, slopes = data(names)
        made = ours(lambda: pl.muon(0.02, weight_decay=0.1), names, start, slopes)
        want = {n: self.muon(start[n], [g[n] for g in slopes]) for n in names}
        self.check(made, want, 2e-4)  # the first singular values are near the steep part of the iteration
        theirs = self.theirs(lambda p: torch.optim.Muon(p, lr=0.02, weight_decay=0.1), names, start, slopes)
        self.check(theirs, want, 0.05)

    @staticmethod
    def muon(start, slopes, rate=0.02, momentum=0.95, weight_decay=0.1):
        w, m = start.astype(np.float64), 0.0
        for g in slopes:
            m = momentum * m + (1 - momentum) * g
            x = (1 - momentum) * g + momentum * m
            x = x.T if w.shape[0] > w.shape[1] else x
            x = x / max(np.linalg.norm(x), 1e-7)
            for _ in range(5):
                s = x @ x.T
                x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
            x = x.T if w.shape[0] > w.shape[1] else x
            w = w * (1 - rate * weight_decay) - rate * max(1.0, w.shape[0] / w.shape[1]) ** 0.5 * x
        return w


if __name__ == "__main__":
    unittest.main()
