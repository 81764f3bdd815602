# python/tests/test_training.py -- losses, optimizers, schedules, data sets and the loop, from Python:
# against numpy, and the C++ messages with the line of the Python file.
import gc
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import luminal as pl
import numpy as np

random = np.random.default_rng(3)


def values(*tensors):
    for tensor in tensors:
        tensor.keep()
    tensors[0].graph.execute()
    return [tensor.numpy() for tensor in tensors]


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def spirals(points=64):
    turn = np.sqrt(np.arange(points) // 2 / points * 2) * 5
    side = np.where(np.arange(points) % 2 == 0, 1, -1)
    x = np.stack([side * turn * np.cos(turn), side * turn * np.sin(turn)], 1).astype(np.float32) / 4
    return pl.datasets.from_arrays(x=x, y=np.arange(points) % 2)


def model(scope):
    w = scope.parameter("w", (2, 16), pl.init.normal(1))
    head = scope.parameter("head", (16, 2), pl.init.xavier())
    logits = scope.dropout(pl.tanh(scope.input("x") @ w), 0.1) @ head
    return pl.cross_entropy(logits, scope.input("y")), {"accuracy": pl.accuracy(logits, scope.input("y"))}


def bits(trainer):
    return [trainer.parameter(name).numpy().tobytes() for name in trainer.parameter_names]


class Losses(unittest.TestCase):
    def test_against_numpy(self):
        x, y = random.normal(size=(2, 5, 7)).astype(np.float32)
        classes = np.array([0, 6, 3, 3, 1])
        logs = log_softmax(x)
        picked = -logs[np.arange(5), classes]
        weight = random.uniform(0.5, 2, 7).astype(np.float32)
        with pl.Graph():
            a, b = pl.tensor(x), pl.tensor(y)
            found = values(
                pl.mse_loss(a, b), pl.l1_loss(a, b, "sum"), pl.huber_loss(a, b, 0.5, "none"),
                pl.cross_entropy(a, classes), pl.cross_entropy(a, classes, weight=weight),
                pl.cross_entropy(a, classes, label_smoothing=0.1, reduction="sum"),
                pl.nll_loss(pl.log_softmax(a), classes, ignore_index=3),
                pl.binary_cross_entropy_with_logits(a, (y > 0).astype(np.float32), pos_weight=weight))
        d = np.abs(x - y)
        bce = np.log1p(np.exp(-x)) * weight * (y > 0) + np.log1p(np.exp(x)) * (y <= 0)
        expected = [((x - y) ** 2).mean(), d.sum(), np.where(d < 0.5, d * d / 2, 0.5 * (d - 0.25)),
                    picked.mean(), (picked * weight[classes]).sum() / weight[classes].sum(),
                    (0.9 * picked - 0.1 * logs.mean(1)).sum(), picked[classes != 3].mean(), bce.mean()]
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)

    def test_mistakes(self):
        with pl.Graph():
            with self.assertRaisesRegex(pl.Error, "there is no 'average'; there are mean, sum, none"):
                pl.mse_loss(pl.tensor([1.0]), 2.0, "average")
            with self.assertRaisesRegex(pl.Error, r"\[cross_entropy\].* at .*test_training\.py:\d+"):
                pl.cross_entropy(pl.input((4, 3)), pl.input((5,), "i64"))


class Optimizers(unittest.TestCase):
    def test_first_steps_against_numpy(self):
        start, slope = random.normal(size=(2, 6)).astype(np.float32)
        m, v = 0.1 * slope, 0.001 * slope**2
        adam = start - 0.01 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8)
        rules = {
            "sgd": (lambda: pl.sgd(0.1, weight_decay=0.5), start - 0.1 * (slope + 0.5 * start)),
            "adam": (lambda: pl.adam(0.01), adam),
            "adamw": (lambda: pl.adamw(0.01, weight_decay=0.5), adam - 0.01 * 0.5 * start),
            "lion": (lambda: pl.lion(0.1), start - 0.1 * np.sign(slope)),
            "rmsprop": (lambda: pl.rmsprop(0.1), start - 0.1 * slope / (np.sqrt(0.01 * slope**2) + 1e-8)),
            "adagrad": (lambda: pl.adagrad(0.1), start - 0.1 * slope / (np.abs(slope) + 1e-10)),
        }
        for name, (make, expected) in rules.items():
            with self.subTest(name), pl.Graph() as g:
                w = pl.state("w", start)
                loss = (w * slope).sum()
                make().update([w], pl.gradients([loss], [w]))
                g.execute()
                np.testing.assert_allclose(w.numpy(), expected, rtol=1e-4, atol=1e-6)
        for make in (pl.adadelta, pl.lamb):
            with pl.Graph() as g:
                w = pl.state("w", start)
                make(0.1).update([w], pl.gradients([(w * slope).sum()], [w]))
                g.execute()
                self.assertTrue(((w.numpy() - start) * slope < 0).all())
        with pl.Graph() as g:
            w = pl.state("w", np.eye(3, dtype=np.float32))
            pl.muon(0.1, weight_decay=0).update([w], [pl.tensor(np.eye(3, dtype=np.float32))])
            g.execute()
            self.assertTrue((np.diag(w.numpy()) < 1).all())

    def test_norms_of_negative_orders(self):
        """Of an element that is 0 the norm is 0, and has no gradient; else that of the formula."""
        x = np.array([[0, 1], [2, 4], [0, 0]], np.float32)
        with pl.Graph() as g:
            t = pl.input((3, 2), name="x")
            y = t.norm(-1, 1)
            slope = pl.gradients([y.sum()], [t])[0].retrieve()
            y = y.retrieve()
            t.set(x)
            g.execute()
            np.testing.assert_allclose(y.numpy(), [0, 4 / 3, 0], rtol=1e-6)
            np.testing.assert_allclose(slope.numpy(), [[0, 0], [4 / 9, 1 / 9], [0, 0]], rtol=1e-6)

    def test_cosines_of_numbers(self):
        with pl.Graph() as g:
            y = pl.cosine_similarity(pl.tensor(2.0), pl.tensor(-3.0), axis=0).retrieve()
            g.execute()
            self.assertAlmostEqual(float(y.numpy()), -1.0, places=6)

    def test_schedules(self):
        s = pl.schedules
        rates = {
            "cosine": (s.cosine(1, 4, 0.2), [0.2 + 0.4 * (1 + np.cos(np.pi * i / 4)) for i in range(4)]),
            "linear": (s.linear(1, 0, 4), [1, 0.75, 0.5, 0.25]),
            "exponential": (s.exponential(1, 0.5), [1, 0.5, 0.25, 0.125]),
            "step": (s.step(1, 2), [1, 1, 0.1, 0.1]),
            "steps_at": (s.steps_at(1, [1, 3]), [1, 0.1, 0.1, 0.01]),
            "polynomial": (s.polynomial(1, 4, 2), [1, 0.5625, 0.25, 0.0625]),
            "warm_up": (s.warm_up(2, 1.0), [0.5, 1, 1, 1]),
            "function": (lambda step: 1 / (step + 1), [1, 1 / 2, 1 / 3, 1 / 4]),
        }
        for name, (schedule, expected) in rates.items():
            with self.subTest(name), pl.Graph() as g:
                w = pl.state("w", np.zeros(1, np.float32))
                optimizer = pl.sgd(schedule)
                optimizer.update([w], [pl.tensor(np.ones(1, np.float32))])
                rate = optimizer.learning_rate.keep()
                found = []
                for _ in range(4):
                    g.execute()
                    found.append(rate.item())
                np.testing.assert_allclose(found, expected, rtol=1e-6)
                np.testing.assert_allclose(w.numpy(), [-sum(expected)], rtol=1e-5)
        with pl.Graph(), self.assertRaisesRegex(pl.Error, "a learning rate is a number, a tensor"):
            pl.sgd("fast")

    def test_accumulated_clipped_scaled(self):
        with pl.Graph() as g:
            x = pl.input((2,))
            w = pl.state("w", np.ones(2, np.float32))
            scaler = pl.GradScaler(initial=8)
            gradients, finite = scaler.unscaled(pl.gradients([scaler.scaled((w * x).sum())], [w]))
            gradients, ready = pl.accumulate(gradients, 2)
            clipped, norm = pl.clip_grad_norm(gradients, 1.0)
            pl.sgd(1.0).update([w], clipped, when=ready & finite)
            average, = pl.moving_averages([w], 0.5, ready)
            norm.keep()
            for values_of_x in ([6.0, 0.0], [0.0, 8.0]):
                x.set(values_of_x)
                g.execute()
            self.assertAlmostEqual(norm.item(), 5, places=5)
            np.testing.assert_allclose(w.numpy(), [0.4, 0.2], rtol=1e-5)
            self.assertEqual(average.shape, (2,))
            self.assertEqual(scaler.scale.dtype, pl.f32)
            low, = pl.clip_grad_value([pl.tensor([-3.0, 0.5])], 1)
            np.testing.assert_array_equal(values(low)[0], [-1, 0.5])

    def test_names_of_other_versions(self):
        def stepped(update, narrow=pl.f32, skipped=0):
            with pl.Graph() as g:
                initial = np.array([0.5, -1], np.float32)
                w = pl.state("w", initial)
                x = pl.tensor([[1.0, 2.0], [3.0, -1.0]])
                loss = ((x.cast(narrow) @ w.cast(narrow)).cast(pl.f32) - 1.0).square().mean()
                update(loss, w)
                g.execute()
                for _ in range(skipped):  # a loss that overflows halves its scale and skips the step
                    if (w.numpy() == initial).all():
                        g.execute()
                g.execute()
                return w.numpy()

        def plain(loss, w):
            pl.sgd(0.1).update([w], pl.gradients([loss], [w]))

        def accumulated(loss, w):
            gradients, ready = pl.GradientAccumulator(2).accumulate(pl.gradients([loss], [w]))
            pl.sgd(0.1).update([w], gradients, when=ready)

        def again(loss, w):
            pl.sgd(0.1).update([w], pl.gradients([loss], [w], segments=3))

        expected = stepped(plain)
        self.assertTrue((stepped(accumulated) != expected).any())  # one step of two executes
        np.testing.assert_array_equal(stepped(again), expected)
        for narrow in (pl.bf16, pl.f16):
            def mixed(loss, w, narrow=narrow):
                gradients, finite = pl.AMPContext(narrow).gradients(loss, [w])
                pl.sgd(0.1).update([w], gradients, when=finite)
            np.testing.assert_allclose(stepped(mixed, narrow, skipped=8), expected, atol=0.02)
        with pl.Graph():
            self.assertEqual(pl.AMPContext().cast(pl.tensor([1.0])).dtype, pl.bf16)
            manager = pl.CheckpointManager()
            x = pl.tensor([1.0, 2.0])
            inner, = manager.checkpoint([x], lambda v: v.square())
            outer, = manager.checkpoint([inner], lambda v: v.square())
            np.testing.assert_array_equal(values(pl.gradient(outer.sum(), x))[0], [4, 32])
            self.assertEqual(manager.parts, 2)


class Data(unittest.TestCase):
    def test_arrays(self):
        x = np.arange(12, dtype=np.float16).reshape(4, 3)
        data = pl.datasets.from_arrays(x=x, y=[0.5, 1, 2, 3])
        self.assertEqual(len(data), 4)
        self.assertEqual(data.fields, {"x": (pl.f16, (3,)), "y": (pl.f32, ())})
        np.testing.assert_array_equal(data[-1]["x"], x[3])
        self.assertEqual(data[0]["y"], 0.5)
        with self.assertRaises(IndexError):
            data[4]
        first, rest = pl.datasets.split(data, 0.5, seed=1)
        seen = sorted(float(part[i]["y"]) for part in (first, rest) for i in range(len(part)))
        self.assertEqual(seen, [0.5, 1, 2, 3])
        self.assertEqual(pl.datasets.part(data, 1, 2)[0]["y"], 1)
        with self.assertRaisesRegex(pl.Error, "y has 3 samples, x has 4"):
            pl.datasets.from_arrays(x=x, y=[1, 2, 3])

    def test_samples_of_python(self):
        class Squares:
            def __len__(self):
                return 6

            def __getitem__(self, i):
                if i == 5:
                    raise ValueError("sample 5 is broken")
                return {"x": np.full(2, i * i, np.float32), "y": i}

        data = pl.datasets.from_samples(Squares())
        self.assertEqual(data.fields["y"][0], pl.i64)
        loader = pl.DataLoader(pl.datasets.part(data, 0, 5), batch=2, shuffle=False, endless=False)
        self.assertEqual([batch["y"].tolist() for batch in loader], [[0, 1], [2, 3], [4]])
        self.assertEqual((loader.batches_per_epoch, loader.position), (3, 3))
        loader.seek(1)
        self.assertEqual(next(loader)["x"].tolist(), [[4, 4], [9, 9]])
        with self.assertRaisesRegex(ValueError, "sample 5 is broken"):
            for _ in pl.DataLoader(data, batch=6, endless=False):
                pass
        with self.assertRaisesRegex(pl.Error, "a sample is a dict of arrays"):
            pl.datasets.from_samples([1, 2])
        with self.assertRaisesRegex(pl.Error, "sample 1 has another type or shape of x than sample 0"):
            next(pl.DataLoader(pl.datasets.from_samples([{"x": [1, 2]}, {"x": [1, 2, 3]}]), batch=2))
        del loader
        gc.collect()

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            np.save(folder / "x.npy", np.arange(6).reshape(3, 2))
            self.assertEqual(pl.datasets.from_files({"x": folder / "x.npy"})[1]["x"].tolist(), [2, 3])
            (folder / "t.txt").write_text("abcabcabc")
            letters = pl.Vocabulary.characters("abc")
            text = pl.datasets.text_file(folder / "t.txt", letters, context=4, stride=1)
            self.assertEqual(letters.decode(text[0]["targets"].tolist()), "bcab")
            self.assertEqual((len(letters), len(text)), (3, 5))
            np.arange(9, dtype=np.uint16).tofile(folder / "t.bin")
            self.assertEqual(pl.datasets.token_file(folder / "t.bin", context=4)[1]["tokens"].tolist(),
                             [4, 5, 6, 7])
            (folder / "t.csv").write_text("a;b;c\n1;2;yes\n3;4;no\n")
            table = pl.datasets.csv_file(folder / "t.csv", "c", separator=";")
            self.assertEqual((table[1]["x"].tolist(), table.classes("y")), ([3, 4], ["no", "yes"]))
            (folder / "t.jsonl").write_text('{"x": [1, 2], "text": "a"}\n{"x": [3, 4], "text": "b"}\n')
            self.assertEqual(pl.datasets.jsonl_file(folder / "t.jsonl", ["x"])[1]["x"].tolist(), [3, 4])
            self.assertEqual(pl.datasets.jsonl_text(folder / "t.jsonl"), "a\nb\n")
            with self.assertRaisesRegex(pl.Error, "none.npy"):
                pl.datasets.from_files({"x": folder / "none.npy"})


class Loop(unittest.TestCase):
    def test_run_and_resume(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            records, saved, checked = [], [], []
            trainer = pl.Trainer(model, spirals(), folder=run, steps=6, batch=16, seed=1, clip_norm=1,
                                 validation=spirals(32), save_every=3, optimizer=lambda: pl.adamw(0.01),
                                 on_step=records.append, on_checkpoint=saved.append,
                                 on_validation=checked.append)
            summary = trainer.run()
            self.assertEqual((summary.steps, summary.stopped, trainer.steps_done), (6, False, 6))
            self.assertEqual([r.step for r in records], [1, 2, 3, 4, 5, 6])
            self.assertEqual(set(records[0].metrics), {"accuracy"})
            self.assertAlmostEqual(records[0].learning_rate, 0.01)
            self.assertEqual(summary.checkpoint, saved[-1])
            self.assertEqual(checked[-1].loss, summary.validation_loss)
            for name in ("metrics.csv", "metrics.jsonl", "loss.svg", "model.safetensors"):
                self.assertTrue((run / name).exists(), name)
            whole, first, second = (pl.Trainer(model, spirals(), batch=16, seed=1) for _ in range(3))
            for _ in range(4):
                whole.step()
            for _ in range(2):
                first.step()
            first.save(run / "two.safetensors")
            second.resume(run / "two.safetensors")
            for _ in range(2):
                second.step()
            self.assertEqual(bits(whole), bits(second))
            self.assertNotEqual(bits(whole), bits(first))
            with self.assertRaisesRegex(pl.Error, "was written with seed 1, now it is 2"):
                pl.Trainer(model, spirals(), batch=16, seed=2).resume(run / "two.safetensors")
            with pl.Graph() as g:
                w = pl.weight("w", (2, 16))
                pl.load(run / "model.safetensors", strict=False)
                np.testing.assert_array_equal(values(w * 1)[0], trainer.parameter("w").numpy())

    def test_ready_models_learn(self):
        x = np.zeros((32, 6, 6), np.uint8)
        x[::2, 2] = 255
        x[1::2, :, 2] = 255
        data = pl.datasets.from_arrays(x=x, y=np.arange(32) % 2)
        for make in (pl.train_models.mlp(hidden=[8], outputs=2), pl.train_models.cnn(channels=[4], classes=2),
                     lambda scope: pl.train_models.mlp(hidden=[8], outputs=2)(scope)):
            trainer = pl.Trainer(make, data, batch=16, steps=30, optimizer=lambda: pl.adam(0.02))
            first = trainer.step()
            self.assertLess(trainer.run().loss, 0.5 * first.loss)
        tokens = pl.datasets.from_tokens([0, 1, 2] * 20, context=6)
        for make in (pl.train_models.gpt(vocabulary=3, context=6, layers=1, heads=2, width=8),
                     pl.train_models.llama(vocabulary=3, layers=1, heads=2, kv_heads=1, width=8, hidden=8)):
            trainer = pl.Trainer(make, tokens, batch=4, optimizer=lambda: pl.adamw(0.02))
            self.assertLess(min(trainer.step().loss for _ in range(20)), 1.0)

    def test_first_values(self):
        start = random.normal(size=(2, 3)).astype(np.float32)

        def own(scope):
            w = scope.parameter("w", (2, 3), start)
            u = scope.parameter("u", 3, lambda key, shape: pl.random_uniform(key, shape, low=2, high=3))
            c = scope.parameter("c", (), 0.5)
            return pl.mse_loss((scope.input("x") @ w + u) * c, 0.0)

        trainer = pl.Trainer(own, spirals(), batch=4)
        np.testing.assert_array_equal(trainer.parameter("w").numpy(), start)
        u = trainer.parameter("u").numpy()
        self.assertTrue(((u >= 2) & (u < 3)).all())
        self.assertEqual(trainer.parameter("c").item(), 0.5)
        with self.assertRaisesRegex(pl.Error, r"first value of w is f32\[2, 3\], the parameter f32\[3, 2\]"):
            pl.Trainer(lambda s: pl.mse_loss(s.parameter("w", (3, 2), start), 0.0), spirals())

    def test_with_values(self):
        trainer = pl.Trainer(model, spirals(), batch=16, steps=5)
        trainer.run()
        kept = []

        def infer(scope):
            kept.append((scope.parameter("w", (2, 16)) * 2).keep())
            self.assertFalse(scope.training)

        trainer.with_values(infer).execute()
        np.testing.assert_array_equal(kept[0].numpy(), trainer.parameter("w").numpy() * 2)

    def test_mistakes(self):
        kept = []
        data = spirals()
        with self.assertRaisesRegex(pl.Error, r"no field z; it has x, y at .*test_training\.py"):
            pl.Trainer(lambda scope: scope.input("z"), data)
        with self.assertRaisesRegex(pl.Error, r"gives its loss, or \(loss, \{name: metric\}\)"):
            pl.Trainer(lambda scope: kept.append(scope), data)
        with self.assertRaisesRegex(pl.Error, "its scope is for the time of the call"):
            kept[0].input("x")
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            pl.Trainer(lambda scope: 1 / 0, data)
        with self.assertRaisesRegex(pl.Error, "optimizer is a function that makes one"):
            pl.Trainer(model, data, optimizer=3)
        with self.assertRaisesRegex(TypeError, "there is no option speed"):
            pl.Trainer(model, data, compile={"speed": 1})

        def broken(scope):
            w = scope.parameter("w", (2,), 1.0)
            return (w * scope.input("x") - 1e9).log().mean()

        with self.assertRaisesRegex(pl.Error, r"the first NaN comes from log at .*test_training\.py:\d+"):
            pl.Trainer(broken, data).step()

    def test_functions_between_steps(self):
        def stop(record):
            return record.step < 3

        trainer = pl.Trainer(model, spirals(), steps=50, on_step=stop)
        self.assertTrue(trainer.run().stopped)
        self.assertEqual(trainer.steps_done, 3)

        def fail(record):
            raise KeyError("mine")

        trainer = pl.Trainer(model, spirals(), steps=50, on_step=fail)
        with self.assertRaisesRegex(KeyError, "mine"):
            trainer.run()
        self.assertEqual(trainer.steps_done, 1)

    def test_interrupt_saves(self):
        with tempfile.TemporaryDirectory() as folder:
            text = ("import luminal as pl, numpy as np\n"
                    "data = pl.datasets.from_arrays(x=np.ones((8, 2), np.float32))\n"
                    "t = pl.Trainer(lambda s: pl.mse_loss(s.input('x') * s.parameter('w', 2), 1.0), data,\n"
                    f"               batch=4, steps=10**9, folder={folder + '/run'!r},\n"
                    "               on_step=lambda r: print(r.step, flush=True) if r.step < 4 else None)\n"
                    "try:\n    t.run()\nexcept KeyboardInterrupt:\n    print('interrupted', t.steps_done)\n")
            process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True,
                                       env=os.environ)
            while process.stdout.readline() != "3\n":
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            words = process.communicate(timeout=60)[0].split()
            self.assertEqual(words[0], "interrupted")
            self.assertTrue((pathlib.Path(folder) / f"run/checkpoints/step-{int(words[1]):08}.safetensors")
                            .exists())


if __name__ == "__main__":
    unittest.main()
