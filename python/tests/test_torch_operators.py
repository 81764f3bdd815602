# python/tests/test_torch_operators.py -- a fixed part of PyTorch's operator data base through the back
# end: no sample is
# wrong, and nearly all are ours. LUMINAL_TORCH_PARTS: one of so many parts (600); 33 runs 3 % of the
# samples.
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent / "pytorch"
sys.path.insert(0, str(HERE))
import where  # noqa: E402


class Operators(unittest.TestCase):
    def run_part(self, parts, *words):
        where.find()
        try:
            import expecttest  # noqa: F401
        except ImportError:
            self.skipTest("PyTorch's operator data base needs expecttest (pip install expecttest)")
        with tempfile.TemporaryDirectory() as folder:
            rows = pathlib.Path(folder) / "rows"
            path = os.pathsep.join([os.environ["PYTHONPATH"], *sys.path[1:]])
            done = subprocess.run(
                [
                    sys.executable,
                    str(HERE / "op_db.py"),
                    "--rows",
                    str(rows),
                    "--part",
                    f"7/{parts}",
                    *words,
                ],
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": path, "LUMINAL_THREADS": "1"},
            )
            made = [json.loads(line) for line in rows.read_text().splitlines()]
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        self.assertGreater(len(made), 30)
        reached = [row for row in made if row["status"] in ("passed", "handed") and row["core"]]
        reached = [row for row in reached if "random numbers" not in row["reason"]]
        passed = sum(row["status"] == "passed" for row in reached)
        self.assertGreater(
            passed / len(reached), 0.95, [row for row in reached if row["status"] != "passed"]
        )

    def test_results(self):
        self.run_part(int(os.environ.get("LUMINAL_TORCH_PARTS", "600")))

    def test_gradients(self):
        parts = int(os.environ.get("LUMINAL_TORCH_PARTS", "600")) // 2
        self.run_part(parts, "--gradients", "--dtypes", "f32")


if __name__ == "__main__":
    unittest.main()
