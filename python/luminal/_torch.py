# python/luminal/_torch.py -- from_torch, without PyTorch until it is called.
import typing

from ._core import Error

if typing.TYPE_CHECKING:
    from .torch.imported import Imported


def from_torch(
    module: typing.Any,
    example_inputs: tuple[typing.Any, ...],
    dynamic_shapes: typing.Any = None,
    *,
    strict: bool = False,
) -> "Imported":
    """A module of PyTorch as a Graph, through torch.export. example_inputs, dynamic_shapes, strict: as
    torch.export takes them. The graph has `inputs` and `outputs` by name, reads the module's parameters
    in place, and runs on PyTorch's tensors when it is called. Results that are not tensors (None, numbers,
    sizes) are left out. Throws Error for operators that have no terms: all of them, with their lines.
    """
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        raise Error("[from_torch] PyTorch is not installed: pip install torch") from None
    from .torch.imported import from_torch as make

    return make(module, example_inputs, dynamic_shapes, strict=strict)
