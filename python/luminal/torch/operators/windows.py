# python/luminal/torch/operators/windows.py -- pools, resampling.
from __future__ import annotations

import typing

import luminal as pl

from ..terms import FLOATS, Lowering, Unsupported, operator, word

C = Lowering
T = typing.Any


def each(values: T, rank: int) -> list[T]:
    """One number for all axes, or one an axis."""
    list_ = list(values) if isinstance(values, (list, tuple)) else [values]
    return list_ * rank if len(list_) == 1 else list_


def avg_pool(rank: int) -> typing.Callable[..., T]:
    def pool(
        c: C,
        x: T,
        kernel: T,
        stride: T = None,
        padding: T = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: T = None,
    ) -> T:
        kernel = each(kernel, rank)
        return average(
            x,
            kernel,
            each(stride, rank) if stride else kernel,
            each(padding, rank),
            ceil_mode,
            count_include_pad,
            divisor_override,
        )

    return pool


def average(
    x: T, kernel: T, stride: T, padding: T, ceil_mode: bool, count_include_pad: bool, divisor: T
) -> T:
    if word(x) not in FLOATS:
        raise Unsupported("averages of integers")
    return pl.avg_pool(
        x,
        kernel,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor=divisor or 0,
    )


def max_pool(rank: int) -> typing.Callable[..., T]:
    def pool(
        c: C, x: T, kernel: T, stride: T = None, padding: T = 0, dilation: T = 1, ceil_mode: bool = False
    ) -> T:
        kernel = each(kernel, rank)
        found = pl.max_pool_with_indices(
            x,
            kernel,
            stride=each(stride, rank) if stride else kernel,
            padding=each(padding, rank),
            dilation=each(dilation, rank),
            ceil_mode=ceil_mode,
        )
        return found.values, found.indices

    return pool


for _rank in (1, 2, 3):
    operator(f"aten.avg_pool{_rank}d")(avg_pool(_rank))
    operator(f"aten.max_pool{_rank}d_with_indices")(max_pool(_rank))


@operator("aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d", "aten.adaptive_avg_pool1d")
def adaptive_avg_pool(c: C, x: T, sizes: T) -> T:
    return pl.adaptive_avg_pool(x, list(sizes))


# ---- resampling ----
def check_scales(x: T, sizes: T, scales: T) -> None:
    """The library's factor is new size / old size; PyTorch takes the one that was given."""
    for old, new, scale in zip(x.shape[-len(sizes) :], sizes, scales):
        if scale is None:
            continue
        if not isinstance(old, int) or not isinstance(new, int) or abs(old * scale - new) > 1e-6 * new:
            raise Unsupported("a factor that is not new size / old size")


def spatial(c: C, rank: int) -> list[T]:
    return list(c.shape[-rank:])


def resample(x: T, sizes: T, mode: T, align_corners: bool, scales: T) -> T:
    if word(x) not in FLOATS:
        raise Unsupported("resampling of integers")
    check_scales(x, sizes, scales)
    return pl.interpolate(x, sizes, mode=mode, align_corners=align_corners)


def list_of_scales(scales: T, rank: int) -> list[T]:
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        return list(scales[0])
    return [*scales, *[None] * (rank - len(scales))]


MODES = {
    "upsample_nearest1d": ("nearest", 1),
    "upsample_nearest2d": ("nearest", 2),
    "upsample_nearest3d": ("nearest", 3),
    "_upsample_nearest_exact1d": ("nearest_exact", 1),
    "_upsample_nearest_exact2d": ("nearest_exact", 2),
    "_upsample_nearest_exact3d": ("nearest_exact", 3),
    "upsample_linear1d": ("linear", 1),
    "upsample_bilinear2d": ("linear", 2),
    "upsample_trilinear3d": ("linear", 3),
    "upsample_bicubic2d": ("cubic", 2),
}


def upsample(mode: str, rank: int) -> typing.Callable[..., T]:
    def made(c: C, x: T, size: T, *more: T, **_: T) -> T:
        align = bool(more[0]) if mode in ("linear", "cubic") else False
        scales = more[1:] if mode in ("linear", "cubic") else more
        return resample(x, spatial(c, rank), mode, align, list_of_scales(scales, rank))

    return made


for _name, (_mode, _rank) in MODES.items():
    operator(f"aten.{_name}", f"aten.{_name}.vec")(upsample(_mode, _rank))


@operator("aten.grid_sampler_2d")
def grid_sampler(c: C, x: T, grid: T, mode: int, padding: int, align_corners: bool) -> T:
    if mode == 2:
        raise Unsupported("cubic sampling")
    return pl.grid_sample(
        x,
        grid,
        mode=("linear", "nearest")[mode],
        padding=("zeros", "border", "reflection")[padding],
        align_corners=align_corners,
    )


def adaptive_max_pool(rank: int) -> typing.Callable[..., T]:
    def pool(c: C, x: T, sizes: T) -> T:
        """Windows floor(i n / size) .. ceil((i + 1) n / size), each padded to the longest."""
        sizes, lead = each(sizes, rank), list(x.shape[:-rank])
        extents = list(x.shape[-rank:])
        if any(not isinstance(size, int) for size in [*sizes, *extents]):
            raise Unsupported("adaptive maxima of sizes that change")
        if any(size == 0 for size in [*sizes, *lead] if isinstance(size, int)):
            return c.full(c.shape, 0, c.dtype), c.full(c.shape, 0, "i64")
        values: T = x
        places: T = None
        for k, (n, size) in enumerate(zip(extents, sizes)):
            starts = [i * n // size for i in range(size)]
            ends = [-(-(i + 1) * n // size) for i in range(size)]
            longest = max(end - start for start, end in zip(starts, ends))
            index = c.graph.constant(
                [[min(start + j, end - 1) for j in range(longest)] for start, end in zip(starts, ends)],
                "i64",
            )
            axis = len(lead) + 2 * k
            values = values.index_select(axis, index.reshape(-1))
            values = values.reshape(*values.shape[:axis], size, longest, *values.shape[axis + 1 :])
            shape = [1] * (2 * rank)
            shape[2 * k], shape[2 * k + 1] = size, longest
            part = index.reshape(*shape)
            places = part if places is None else places * n + part
        order = [
            *range(len(lead)),
            *(len(lead) + 2 * k for k in range(rank)),
            *(len(lead) + 2 * k + 1 for k in range(rank)),
        ]
        values = values.permute(*order)
        window: T = 1
        for size in values.shape[len(lead) + rank :]:
            window = window * size
        flat = values.reshape(*lead, *sizes, window)
        places = places.permute(*[2 * k for k in range(rank)], *[2 * k + 1 for k in range(rank)]).reshape(
            *sizes, window
        )
        best = pl.argmax(flat, axis=-1, keepdims=True)
        wide = places.reshape(*[1] * len(lead), *sizes, window).expand(*flat.shape)
        return pl.max(flat, axis=-1), wide.gather(len(lead) + rank, best).squeeze(-1)

    return pool


for _rank in (2, 3):
    operator(f"aten.adaptive_max_pool{_rank}d")(adaptive_max_pool(_rank))
