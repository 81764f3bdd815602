# python/tests/test_torch_operators.py -- a fixed part of PyTorch's operator data base through the back
# end: no sample is wrong, and nearly all are ours. LUMINAL_TORCH_PARTS: one of so many parts (600); 33
# runs 3 % of the samples.
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


def run_part(case, parts, *words):
    where.find()
    try:
        import expecttest  # noqa: F401
    except ImportError:
        case.skipTest("PyTorch's operator data base needs expecttest (pip install expecttest)")
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
    case.assertEqual(done.returncode, 0, done.stderr[-4000:])
    case.assertGreater(len(made), 30)
    reached = [row for row in made if row["status"] in ("passed", "handed") and row["core"]]
    reached = [row for row in reached if "random numbers" not in row["reason"]]
    passed = sum(row["status"] == "passed" for row in reached)
    case.assertGreater(
        passed / len(reached), 0.95, [row for row in reached if row["status"] != "passed"]
    )


class Operators(unittest.TestCase):
    def test_results(self):
        run_part(self, int(os.environ.get("LUMINAL_TORCH_PARTS", "600")))


if __name__ == "__main__":
    unittest.main()
