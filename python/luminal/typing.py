# python/luminal/typing.py -- names for what functions take; for type checkers and readers, not
# imported by the module itself.
from __future__ import annotations

import collections.abc
import typing

import numpy.typing

from ._core import DType, Dim, Tensor

NumpyArray = numpy.typing.NDArray[typing.Any]


class Array(typing.Protocol):
    """numpy arrays and scalars, and what can be read as one."""
    def __array__(self) -> typing.Any: ...


class DLPack(typing.Protocol):
    """Tensors of PyTorch, JAX, CuPy, .. in the processor's memory."""
    def __dlpack__(self) -> typing.Any: ...


Size = typing.Union[int, Dim]
Shape = typing.Union[Size, collections.abc.Sequence[Size]]
Number = typing.Union[bool, int, float]
TensorLike = typing.Union[Tensor, Number, Dim, Array, DLPack]
ArrayLike = typing.Union[Number, Array, DLPack, collections.abc.Sequence[typing.Any]]
DTypeLike = typing.Union[DType, str, type, Array, typing.Any]
Index = typing.Union[int, Dim, slice, None, typing.Any, collections.abc.Sequence[int], Tensor,
                     tuple[typing.Any, ...]]
