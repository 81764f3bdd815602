#!/usr/bin/env python3
# tools/run_fuzzers.py -- runs every libFuzzer program of a build for a while, several at once, and
# says what they found. New inputs of interest stay in BUILD/fuzz/<name>, findings in
# BUILD/fuzz/<name>.findings.
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys


def run(program, args):
    name = program.name.removeprefix("fuzz_")
    work, findings = args.build / "fuzz" / name, args.build / "fuzz" / f"{name}.findings"
    work.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([program, work, args.corpus / name, f"-max_total_time={args.seconds}",
                           "-timeout=10",
                           "-rss_limit_mb=4096", f"-artifact_prefix={findings}/", "-print_final_stats=1",
                           "-seed=1"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    runs = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    covered = re.findall(r"cov: (\d+)", done.stdout)
    print(f"{name}: {runs.group(1) if runs else '?'} runs, coverage {covered[-1] if covered else '?'}, "
          f"{'clean' if done.returncode == 0 else 'FINDING'}", flush=True)
    return (name, done.stdout) if done.returncode != 0 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*", help="only these")
    args = parser.parse_args()
    programs = [p for p in sorted((args.build / "tests" / "fuzz").glob("fuzz_*")) if p.is_file()
                and p.suffix == ""
                and (not args.names or p.name.removeprefix("fuzz_") in args.names)]
    if not programs:
        print("no fuzz programs there")
        return 1
    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
        failed = [result for result in pool.map(lambda p: run(p, args), programs) if result]
    for name, output in failed:
        print(f"\n=== {name}\n" + "\n".join(output.splitlines()[-60:]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
