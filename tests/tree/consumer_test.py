#!/usr/bin/env python3
# tests/tree/consumer_test.py -- installs a build into a scratch folder and uses it as strangers do:
# find_package, a version that does not fit, pkg-config, and the source tree as a folder of another
# project.
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = SOURCE / "tests" / "consumer" / "main.cpp"


class Failed(Exception):
    pass


def run(*command, fails=False, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True,
                          **options)
    if (done.returncode != 0) != fails:
        raise Failed(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def run_consumer(program, folder, **variables):
    """The program computes a layer, and reports a mistake with its own source line."""
    got = run(program, env=dict(os.environ, LUMINAL_CACHE_DIR=str(folder / "cache"),
                                **variables)).splitlines()
    mistake = next(n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if "x.matmul(x);" in line)
    if got[:1] != ["5 6 0 0"] or len(got) != 2 or not re.fullmatch(rf"\[matmul\] .*\[2, 3\].* at "
                                                                   rf"main.cpp:{mistake}", got[1]):
        raise Failed(f"{program} prints {got}")


def check_headers(prefix):
    want = sorted(p.name for p in (SOURCE / "include" / "luminal").glob("*.h"))
    have = sorted(p.name for p in (prefix / "include" / "luminal").glob("*.h"))
    if want != have:
        raise Failed(f"installed headers {have}, in the tree {want}")


def check_find_package(args, prefix, folder):
    configure = [args.cmake, "-G", args.generator, "-S", SOURCE / "tests" / "consumer",
                 f"-DCMAKE_CXX_COMPILER={args.compiler}", f"-DCMAKE_PREFIX_PATH={prefix}",
                 "-DCMAKE_BUILD_TYPE=Release"]
    run(*configure, "-B", folder / "build")
    run(args.cmake, "--build", folder / "build")
    run_consumer(folder / "build" / "consumer", folder)
    refused = run(*configure, "-B", folder / "newer", "-DLUMINAL_WANTED=0.999", fails=True)
    if "0.999" not in refused:
        raise Failed(f"a version that does not fit is refused for another reason:\n{refused}")


def check_pkg_config(args, prefix, folder):
    if not shutil.which("pkg-config"):
        raise Failed("pkg-config is not installed")
    path = next(prefix.rglob("luminal.pc")).parent
    environment = dict(os.environ, PKG_CONFIG_PATH=str(path))
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", "luminal", env=environment))
    run(args.compiler, "-std=c++20", PROGRAM, "-o", folder / "by_pc", *flags)
    run_consumer(folder / "by_pc", folder, LD_LIBRARY_PATH=str(path.parent))


def check_subdirectory(args, folder):
    """Configured only: building would repeat the whole build."""
    run(args.cmake, "-G", args.generator, "-S", SOURCE / "tests" / "consumer", "-B", folder / "inside",
        f"-DCMAKE_CXX_COMPILER={args.compiler}", f"-DLUMINAL_SOURCE={SOURCE}")
    help_text = run(args.cmake, "--build", folder / "inside", "--target", "help")
    for target in ("consumer", "luminal_library"):
        if target not in help_text:
            raise Failed(f"no target {target} where Luminal is a folder of another project")
    if "test_tree" in help_text:
        raise Failed("the tests are built where Luminal is a folder of another project")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    # with a space in the path, on purpose
    with tempfile.TemporaryDirectory(prefix="luminal consumer ") as scratch:
        folder = pathlib.Path(scratch)
        prefix = folder / "installed"
        try:
            run(args.cmake, "--install", args.build, "--prefix", prefix)
            check_headers(prefix)
            check_find_package(args, prefix, folder)
            check_pkg_config(args, prefix, folder)
            check_subdirectory(args, folder)
        except Failed as failure:
            print(failure)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
