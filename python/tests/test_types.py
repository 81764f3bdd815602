# python/tests/test_types.py -- the stubs under mypy --strict: the package itself, and a program
# whose types are stated.
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.environ["PYTHONPATH"].split(os.pathsep)[0]
# A tensor compares by elements, and overloads overlap where a number may be a tensor: both are on purpose.
CONFIG = ("[mypy]\nstrict = True\n[mypy-luminal._core]\n"
          "disable_error_code = override, overload-overlap, overload-cannot-match, misc\n")
PROGRAM = '''
import luminal as pl
import numpy as np
import typing

g = pl.Graph()
n = g.dim("n", 1, 4)
x = g.input((n, 3), dtype="f32")
y = (2 * x @ pl.weight("w", np.ones((3, 2))) + 1).relu().keep()
one: pl.Tensor = y
values, indices = pl.topk(y, 1)
two: pl.Tensor = values
three: pl.Tensor = y[0, ::2, None]
four: pl.Tensor = y == 1
shape: tuple[typing.Any, ...] = y.shape
g.compile(seconds=1.0, progress=True, sizes={"n": [1, 4]})
print(y.numpy().shape, y.dtype is pl.f32, g.report(), pl.passes.views() | pl.passes.dead_code())
data = pl.datasets.from_arrays(x=np.ones((4, 2)), y=np.ones(4))


def model(scope: pl.ModelScope) -> tuple[pl.Tensor, dict[str, pl.Tensor]]:
    w = scope.parameter("w", (2, 1), pl.init.xavier())
    loss = pl.mse_loss(scope.input("x") @ w, scope.input("y"), "sum")
    return loss, {"same": loss}


trainer = pl.Trainer(model, data, steps=3, optimizer=lambda: pl.adamw(pl.schedules.warm_up(3, 0.1)),
                     on_step=lambda record: print(record.loss), on_nonfinite="skip")
five: float = trainer.run().loss
pl.Trainer(pl.train_models.mlp(hidden=[3]), data)
text: str = pl.LanguageModel("model.gguf", temperature=0).generate("a", 3)
'''
WRONG = ("import luminal as pl\npl.tensor([1]).reshape('a')\npl.conv2d(1, 2, stride='x')\n"
         "pl.compile(speed=1)\npl.tensor([1]).pad([(0, 1, 1)], mode='mirror')\n")


def mypy(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "mypy.ini"
        config.write_text(CONFIG)
        program = pathlib.Path(folder) / "program.py"
        if arguments[0] != "-p":
            program.write_text(arguments[0])
            arguments = (str(program),)
        done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir",
                               str(pathlib.Path(PACKAGE).parent / "mypy"), *arguments],
                              capture_output=True, text=True, env={**os.environ, "MYPYPATH": PACKAGE},
                              cwd=folder)
        return done.returncode, done.stdout + done.stderr


class Types(unittest.TestCase):
    def setUp(self):
        if not (pathlib.Path(PACKAGE) / "luminal/_core/__init__.pyi").exists():
            self.skipTest("the stubs are not built: ninja luminal_stubs")

    def test_package(self):
        code, text = mypy("-p", "luminal")
        self.assertEqual(code, 0, text)

    def test_program(self):
        code, text = mypy(PROGRAM)
        self.assertEqual(code, 0, text)

    def test_mistakes_are_found(self):
        code, text = mypy(WRONG)
        self.assertEqual(code, 1)
        for line in (2, 4, 5):
            self.assertIn(f"program.py:{line}: error", text)


if __name__ == "__main__":
    unittest.main()
