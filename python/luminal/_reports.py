# python/luminal/_reports.py -- report(): the default graph's kernels, and those of what other frameworks
# gave.
import collections.abc

from . import _core

_others: list[collections.abc.Callable[[], str]] = []


def add(report: collections.abc.Callable[[], str]) -> None:
    """Its text follows that of the default graph."""
    _others.append(report)


def report() -> str:
    """One line a kernel: name, shape, schedule, bytes, what was decided and why; of the default graph,
    then of models that
    torch.compile gave to this library, with what stays in PyTorch."""
    return "\n".join(
        text.rstrip("\n") for text in (_core.report(), *(other() for other in _others)) if text
    )
