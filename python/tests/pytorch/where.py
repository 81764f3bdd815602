# python/tests/pytorch/where.py -- finds PyTorch and other packages for the tests, or skips.
import importlib
import importlib.util
import os
import pathlib
import sys
import unittest


def find():
    """PyTorch, as find_module does."""
    torch = find_module("torch", "PyTorch")
    torch.set_num_threads(1)
    return torch


def find_module(name, title=None):
    """A module of this Python, of LUMINAL_PEERS_PYTHON's environment, or of what `./bench.sh peers` makes.
    Skips without it. Of package.part: the package, with that part imported."""
    package = name.split(".")[0]
    if importlib.util.find_spec(package) is None:
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        python = pathlib.Path(os.environ.get("LUMINAL_PEERS_PYTHON") or cache / "luminal/peers/bin/python")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = python.parent.parent / "lib" / version / "site-packages"
        if (packages / package).is_dir():
            sys.path.append(str(packages))
            importlib.invalidate_caches()
    if importlib.util.find_spec(package) is None:
        raise unittest.SkipTest(
            f"{title or package} is not installed for this Python (`./bench.sh peers` installs it)")
    importlib.import_module(name)
    return sys.modules[package]
