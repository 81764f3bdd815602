# python/tests/test_wheel.py -- the wheel: built from the tree, installed into an environment of its
# own, used there.
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["LUMINAL_SOURCE"])
BUILD = pathlib.Path(os.environ["LUMINAL_BUILD"])


class Wheel(unittest.TestCase):
    def test_wheel(self):
        if BUILD != SOURCE / "build":
            self.skipTest("the wheel is built from the folder `build` of the tree")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps",
                            "-w", folder, str(SOURCE)], check=True, env=environment)
            wheel, = pathlib.Path(folder).glob("luminal-*.whl")
            names = zipfile.ZipFile(wheel).namelist()
            for name in ("luminal/__init__.py", "luminal/py.typed", "luminal/_core/__init__.pyi",
                         "pyluminal/__init__.py"):
                self.assertIn(name, names)
            self.assertEqual(len([name for name in names if name.startswith("luminal/_core.")]), 1)
            target = pathlib.Path(folder) / "site"
            subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
                            "--target", str(target), str(wheel)], check=True, env=environment)
            program = ("import luminal as pl; c = (pl.tensor([[1, 2]]) @ pl.tensor([[3], [4]])).keep(); "
                       "pl.execute(); print(c.tolist(), pl.__file__)")
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                                  env={**environment, "PYTHONPATH": str(target)}, cwd=folder)
            self.assertEqual(done.stdout.strip(), f"[[11]] {target}/luminal/__init__.py", done.stderr)


if __name__ == "__main__":
    unittest.main()
