# python/luminal/torch/resampling.py -- operators of resampling stay whole: their terms read neighbours
# through views, where PyTorch's decompositions gather by computed indices.
from __future__ import annotations

import contextlib
import typing

import torch  # type: ignore[import-not-found, unused-ignore]
from torch._decomp.decompositions import (  # type: ignore[import-not-found, unused-ignore]
    upsample_compute_output_size,
)

T = typing.Any

# Each with the number of axes that it resamples. Linear and cubic interpolation take align_corners as well.
RANKS = {
    "upsample_nearest1d": 1,
    "upsample_nearest2d": 2,
    "upsample_nearest3d": 3,
    "_upsample_nearest_exact1d": 1,
    "_upsample_nearest_exact2d": 2,
    "_upsample_nearest_exact3d": 3,
    "upsample_linear1d": 1,
    "upsample_bilinear2d": 2,
    "upsample_trilinear3d": 3,
    "upsample_bicubic2d": 2,
}
NAMES = tuple(f"{name}.default" for name in RANKS)


def has_terms(x: T, sizes: T, scales: T) -> bool:
    """Floats of known sizes, by factors that are new size / old size."""
    old = x.shape[-len(sizes) :]
    known = x.dtype.is_floating_point and all(isinstance(n, int) and n > 0 for n in [*old, *sizes])
    return known and all(
        scale is None or abs(a * scale - b) <= 1e-6 * b for a, b, scale in zip(old, sizes, scales)
    )


def whole(packet: T, decomposed: T) -> T:
    """The overload `vec`, which takes factors or sizes, as a call of the operator that takes both."""

    def call(x: T, output_size: T, *more: T) -> T:
        sizes = upsample_compute_output_size(x.size(), output_size, more[-1])
        scales = list(more[-1]) if more[-1] else [None] * len(sizes)
        if not has_terms(x, sizes, scales):
            return decomposed(x, output_size, *more)
        return packet.default(x, sizes, *more[:-1], *scales)

    return call


@contextlib.contextmanager
def kept() -> typing.Iterator[None]:
    """While a graph is traced."""
    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    before = []
    for name in RANKS:
        packet = getattr(torch.ops.aten, name)
        for op in (packet.vec, packet.default):
            before.append((op, dict(op.py_kernels)))
            for key in keys:
                decomposed = op.py_kernels.pop(key, None)
                if decomposed is not None and op is packet.vec:
                    op.py_kernels[key] = whole(packet, decomposed)
            op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, kernels in before:
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
