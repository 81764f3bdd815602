# python/tests/pytorch/where.py -- finds PyTorch for the tests, or says why they are skipped.
import importlib.util
import os
import pathlib
import sys
import unittest


def find():
    """PyTorch of this Python, of LUMINAL_PEERS_PYTHON's environment, or of what `./bench.sh peers` makes.
    Skips without it."""
    if importlib.util.find_spec("torch") is None:
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        python = pathlib.Path(os.environ.get("LUMINAL_PEERS_PYTHON") or cache / "luminal/peers/bin/python")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = python.parent.parent / "lib" / version / "site-packages"
        if (packages / "torch").is_dir():
            sys.path.append(str(packages))
            importlib.invalidate_caches()
    if importlib.util.find_spec("torch") is None:
        raise unittest.SkipTest("PyTorch is not installed for this Python (`./bench.sh peers` installs it)")
    import torch

    torch.set_num_threads(1)
    return torch
