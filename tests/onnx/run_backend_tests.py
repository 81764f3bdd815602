# onnx/run_backend_tests.py -- unpacks ONNX's backend tests, runs them (or a shard), and holds the
# outcome against expected.txt: the tests that are out, and why. Usage: run_backend_tests.py PROGRAM
# [--shard I/N] [--interpret] [--table docs/onnx.md]. Exit code 77 where the tests are not here.
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
archive = "conformance/onnx-backend-tests-1.22.0.tar.xz"


def expected():
    """Test -> reason."""
    rows = {}
    for line in (here / "expected.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            reason, name = line.split(": ", 1)
            for test in name.split():
                rows[test] = reason
    return rows


def shard_of(index, shard):
    if not shard: return True
    part, parts = map(int, shard.split("/"))
    return index % parts == part


def run(program, folder, options):
    lines = subprocess.run([program, str(folder), *options], stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    outcome = {}
    for line in lines:
        verdict, rest = line.split(" ", 1)
        name, _, why = rest.partition(": ")
        outcome[name] = (verdict, why)
    return outcome


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--shard", default="")
    parser.add_argument("--interpret", action="store_true")
    parser.add_argument("--table", default="")
    a = parser.parse_args()
    data = pathlib.Path(os.environ.get("LUMINAL_TEST_DATA", here.parents[1] / ".." / "shared" / "data"))
    if not (data / archive).exists():
        print(f"{data / archive} is not here (LUMINAL_TEST_DATA names its folder)")
        return 77
    options = (["--shard", a.shard] if a.shard else []) + (["--interpret"] if a.interpret else [])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "xf", str(data / archive), "-C", folder], check=True)
        outcome = run(a.program, folder, options)
        names = sorted(str(p.parent) for p in pathlib.Path(folder).rglob("model.onnx"))
        wanted = {pathlib.Path(n).name for i, n in enumerate(names) if shard_of(i, a.shard)}
        if a.table:
            import table
            table.write(pathlib.Path(folder), outcome, expected(), pathlib.Path(a.table))
    out = expected()
    mistakes = [f"{n}: did not run" for n in sorted(wanted - outcome.keys())]
    mistakes += [f"{n}: {why}" for n, (verdict, why) in sorted(outcome.items()) if verdict == "fail"
                 and n not in out]
    mistakes += [f"{n}: passes, and expected.txt says {out[n]}" for n, (verdict, _) in sorted(outcome.items())
                 if verdict != "fail" and n in out]
    passed = sum(verdict != "fail" for verdict, _ in outcome.values())
    print("\n".join([*mistakes, f"{passed} of {len(outcome)} pass"]))
    return 1 if mistakes or not outcome else 0


if __name__ == "__main__":
    sys.exit(main())
