# tools/torch_goldens_index.py -- cases of movement, gather and scatter, scans, sorting, generators
# (see torch_goldens.py).
import math

import torch

inf, nan = math.inf, math.nan
SPECIAL = torch.tensor([2.0, -0.0, nan, 1, inf, 0.0, 1, -inf, -3.5, 2, 1e-40, nan, -3.5, 5, 0.0])
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
         torch.int8,
         torch.uint8, torch.bool]


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def grid(*shape, dtype=torch.float32):
    n = math.prod(shape)
    values = (torch.arange(n) * 7 % 23 - 5) % 2 if dtype == torch.bool else torch.arange(n) * 7 % 23
    return values.reshape(shape).to(dtype)


def movement(add):
    x, y = grid(2, 3, 4), grid(4, 5)
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0], [-1, 0, 1]):
        add(f"permute.{order}", "permute", [x], x.permute(order), dims=order)
    add("transpose", "transpose", [x], x.transpose(0, -1), a=0, b=-1)
    add("t.matrix", "t", [y], y.t())
    add("t.line", "t", [grid(3)], grid(3).t())
    for a, b in [([0], [2]), ([0, 1], [1, 2]), ([2, 0], [0, 2]), ([-1], [0])]:
        add(f"movedim.{a}.{b}", "movedim", [x], torch.movedim(x, a, b), a=a, b=b)
    for shape in ([4, 6], [-1], [2, -1, 2], [24, 1], [3, 2, 2, 2]):
        add(f"reshape.{shape}", "reshape", [x], x.reshape(shape), shape=shape)
    add("reshape.transposed", "reshape_t", [x], x.transpose(0, 2).reshape(6, 4), shape=[6, 4])
    for a, b in [(0, -1), (1, 2), (0, 1), (1, 1)]:
        add(f"flatten.{a}.{b}", "flatten", [x], x.flatten(a, b), a=a, b=b)
    add("flatten.scalar", "flatten", [torch.tensor(3.0)], torch.tensor(3.0).flatten(), a=0, b=-1)
    add("unflatten", "unflatten", [x], x.unflatten(2, (2, -1)), axis=2, shape=[2, -1])
    one = grid(1, 3, 1, 2, 1)
    add("squeeze.all", "squeeze", [one], one.squeeze())
    add("squeeze.one", "squeeze", [one], one.squeeze(2), dims=[2])
    add("squeeze.several", "squeeze", [one], one.squeeze((0, -1)), dims=[0, -1])
    add("expand.new", "expand", [grid(3, 1)], grid(3, 1).expand(2, 3, 4), shape=[2, 3, 4])
    add("expand.keep", "expand", [grid(3, 1)], grid(3, 1).expand(-1, 4), shape=[-1, 4])
    add("unsqueeze", "unsqueeze", [x], x.unsqueeze(-2), axis=-2)
    for dims in ([0], [2], [0, 2], [-1, 0, 1]):
        add(f"flip.{dims}", "flip", [x], x.flip(dims), dims=dims)
    for shift, dims in [([1], [0]), ([-1], [2]), ([5, -2], [1, 2]), ([7], []), ([0], [1]), ([3, 1], [1, 1])]:
        add(f"roll.{shift}.{dims}", "roll", [x], torch.roll(x, shift, dims), shift=shift, dims=dims)
    for k in (-1, 0, 1, 2, 3, 6):
        add(f"rot90.{k}", "rot90", [x], torch.rot90(x, k, (0, 2)), k=k, a=0, b=2)
    add("rot90.turned", "rot90", [x], torch.rot90(x, 1, (2, 1)), k=1, a=2, b=1)
    for times in ([2, 1, 1], [1, 2, 3], [2, 1, 1, 2], [0, 1, 1]):
        add(f"repeat.{times}", "repeat", [x], x.repeat(times), times=times)
    for times in ([2], [2, 3], [2, 1, 1, 2]):
        add(f"tile.{times}", "tile", [x], x.tile(times), times=times)
    for n, axis in [(2, 0), (3, -1), (1, 1), (0, 1)]:
        add(f"repeat_interleave.{n}.{axis}", "repeat_interleave", [x], x.repeat_interleave(n, axis),
            repeats=n, dim=axis)
    for size, step, axis in [(2, 1, 0), (2, 2, 2), (3, 2, 1), (1, 3, 2)]:
        add(f"unfold.{size}.{step}.{axis}", "unfold", [x], x.unfold(axis, size, step), size=size, step=step,
            axis=axis)
    for k in (-3, -1, 0, 1, 2, 9):
        add(f"tril.{k}", "tril", [x], x.tril(k), k=k)
        add(f"triu.{k}", "triu", [SPECIAL.reshape(3, 5)], SPECIAL.reshape(3, 5).triu(k), k=k)
        add(f"diagonal.{k}", "diagonal", [x], x.diagonal(k, 1, 2), k=k, a=1, b=2)
    add("diagonal.axes", "diagonal", [x], x.diagonal(1, -1, 0), k=1, a=-1, b=0)
    for k in (-2, 0, 1):
        add(f"diag.line.{k}", "diag", [grid(3)], grid(3).diag(k), k=k)
        add(f"diag.matrix.{k}", "diag", [y], y.diag(k), k=k)
        add(f"diag_embed.{k}", "diag_embed", [grid(2, 3)], torch.diag_embed(grid(2, 3), k), k=k, a=-2, b=-1)
    add("diag_embed.axes", "diag_embed", [x], torch.diag_embed(x, 1, 0, 2), k=1, a=0, b=2)
    add("trace.f32", "trace", [y], y.trace())
    add("trace.i32", "trace", [y.int()], y.int().trace())
    lines = [grid(3), grid(2) + 1, grid(4)]
    for indexing in ("ij", "xy"):
        add(f"meshgrid.{indexing}", "meshgrid", lines, torch.meshgrid(*lines, indexing=indexing),
            xy=indexing == "xy")
    add("cartesian_prod", "cartesian_prod", lines, torch.cartesian_prod(*lines))
    add("cartesian_prod.one", "cartesian_prod", lines[:1], torch.cartesian_prod(lines[0]))


def slicing(add):
    line = grid(7)
    for start in (None, 0, 2, -3, -9, 9):
        for end in (None, 5, -1, 9, -9):
            for step in (1, 2, 3):
                add(f"slice.{start}.{end}.{step}", "slice_one", [line], line[start:end:step], start=start,
                    end=end, step=step)
            for step in (-1, -2):  # PyTorch has none; NumPy says how
                out = torch.from_numpy(line.numpy()[start:end:step].copy())
                add(f"slice.{start}.{end}.{step}", "slice_one", [line], out, start=start, end=end, step=step)
    x = grid(3, 4, 5)
    add("narrow", "narrow", [x], x.narrow(2, 1, 3), axis=2, start=1, length=3)
    add("narrow.back", "narrow", [x], x.narrow(1, -2, 2), axis=1, start=-2, length=2)
    add("narrow.none", "narrow", [x], x.narrow(1, 4, 0), axis=1, start=4, length=0)
    add("select", "select_index", [x], x.select(1, 2), axis=1, index=2)
    add("select.back", "select_index", [x], x.select(-1, -5), axis=-1, index=-5)
    add("split", "split", [x], torch.split(x, 2, 2), size=2, axis=2)
    add("split.sizes", "split_sizes", [x], torch.split(x, [1, 0, 3], 1), sizes=[1, 0, 3], axis=1)
    for n in (1, 2, 3, 4, 9):
        add(f"chunk.{n}", "chunk", [x], torch.chunk(x, n, 2), parts=n, axis=2)
    add("unbind", "unbind", [x], torch.unbind(x, 1), axis=1)
    pad = torch.nn.functional.pad
    for mode, amounts in [("reflect", (2, 1)), ("reflect", (0, 4)), ("replicate", (3, 9)),
                          ("circular", (5, 2)), ("circular", (0, 5)),
                          ("replicate", (0, 0))]:
        add(f"pad.{mode}.{amounts}", "pad_axes", [x], pad(x, amounts, mode), mode=mode, axes=[2],
            before=[amounts[0]], after=[amounts[1]])
    for mode in ("reflect", "replicate", "circular"):
        add(f"pad.{mode}.two", "pad_axes", [grid(1, 1, 4, 5)], pad(grid(1, 1, 4, 5), (1, 2, 3, 2), mode),
            mode=mode, axes=[3, 2], before=[1, 3],
            after=[2, 2])
    for amounts in [(1, 2), (-1, 2), (2, -3), (-2, -3)]:
        add(f"pad.constant.{amounts}", "pad_axes", [x], pad(x, amounts, value=2.5), mode="constant", axes=[2],
            before=[amounts[0]],
            after=[amounts[1]], value=2.5)
    add("pad.nan", "pad_axes", [x], pad(x, (1, 0, 0, 1), value=nan), mode="constant", axes=[2, 1],
        before=[1, 0], after=[0, 1], value=nan)
    add("pad.int", "pad_axes", [x.int()], pad(x.int(), (1, 0), value=-7), mode="constant", axes=[2],
        before=[1], after=[0], value=-7)
    parts = [grid(2, 3), grid(2, 1) + 30, grid(2, 0), grid(2, 4) + 50]
    add("cat.ragged", "cat", parts, torch.cat(parts, 1), dim=1)
    add("cat.promotes", "cat", [grid(2, dtype=torch.int32), grid(3), grid(2, dtype=torch.bool)],
        torch.cat([grid(2, dtype=torch.int32), grid(3), grid(2, dtype=torch.bool)]), dim=0)
    many = [grid(2, 3) + i for i in range(5)]
    for axis in (0, 1, 2, -1):
        add(f"stack.{axis}", "stack", many, torch.stack(many, axis), dim=axis)
    add("stack.scalars", "stack", [torch.tensor(1.5), torch.tensor(2.0)],
        torch.stack([torch.tensor(1.5), torch.tensor(2.0)]), dim=0)
    add("hstack.lines", "hstack", [grid(2), grid(3)], torch.hstack([grid(2), grid(3)]))
    add("hstack", "hstack", parts, torch.hstack(parts))
    add("vstack", "vstack", [grid(3), grid(2, 3)], torch.vstack([grid(3), grid(2, 3)]))


def indexing(add):
    x = grid(3, 4, 5)
    index = torch.tensor([[[2, 0, 1], [1, 1, 0]], [[0, 2, 2], [0, 0, 1]]])
    for axis in (0, 1, 2):
        add(f"gather.{axis}", "gather", [x, index], torch.gather(x, axis, index), dim=axis)
    add("gather.i32", "gather", [x, index.int()], torch.gather(x, 1, index), dim=1)
    wide = torch.tensor([[[4, 4, 0, 0, 1, 2, 3]]])
    add("take_along", "take_along", [x, wide], torch.take_along_dim(x, wide, 2), dim=2)
    ids = torch.tensor([2, 0, 2, 1])
    for axis in (0, 1, -1):
        add(f"index_select.{axis}", "index_select", [x, ids], torch.index_select(x, axis, ids), dim=axis)
    table = grid(6, 4)
    rows = torch.tensor([[5, 0, 3], [3, 3, 1]])
    add("embedding.two", "embedding", [table, rows], torch.nn.functional.embedding(
        rows, table, padding_idx=3), padding_idx=3)
    add("index_get", "index_get", [x, rows % 3, torch.tensor([0, 1, 3])],
        x[rows % 3, torch.tensor([0, 1, 3])])
    add("gather_nd", "gather_nd", [x, torch.tensor([[0, 1], [2, 3]])],
        x[torch.tensor([0, 2]), torch.tensor([1, 3])])
    src = grid(2, 2, 3) + 100
    for dtype in TYPES:
        a, s = x.to(dtype), (src - 98).to(dtype)
        add(f"scatter.{name_of(dtype)}", "scatter", [a, index, s], torch.scatter(a, 1, index, s), dim=1)
        add(f"scatter_add.{name_of(dtype)}", "scatter_add", [a, index, s], torch.scatter_add(a, 0, index, s),
            dim=0)
    for dtype in (torch.float32, torch.int32):
        for how in ("sum", "prod", "amin", "amax"):
            for include in (True, False):
                a, s = x.to(dtype), (src % 5).to(dtype)
                add(f"scatter_reduce.{name_of(dtype)}.{how}.{include}", "scatter_reduce", [a, index, s],
                    torch.scatter_reduce(a, 2, index, s, how, include_self=include), dim=2, how=how,
                    include=include)
    bad = torch.tensor([nan, 1.0, nan, 3.0])
    at = torch.tensor([0, 0, 1, 1])
    for how in ("sum", "amin", "amax"):
        add(f"scatter_reduce.nan.{how}", "scatter_reduce", [torch.tensor([2.0, 2.0]), at, bad],
            torch.scatter_reduce(torch.tensor([2.0, 2.0]), 0, at, bad, how), dim=0, how=how, include=True)
    larger = grid(3, 3, 4) + 100
    add("scatter.larger", "scatter", [x, index, larger], torch.scatter(x, 1, index, larger), dim=1)
    add("scatter.value", "scatter_value", [x, index], torch.scatter(x, 2, index, 7.5), dim=2, value=7.5)
    values = grid(3, 4, 4) + 30
    add("index_add", "index_add", [x, ids, values], torch.index_add(x, 2, ids, values, alpha=0.5), dim=2,
        alpha=0.5)
    add("index_copy", "index_copy", [x, torch.tensor([3, 0]), values[..., :2]],
        torch.index_copy(x, 2, torch.tensor([3, 0]), values[..., :2]), dim=2)
    add("index_fill", "index_fill", [x, ids], torch.index_fill(x, 1, ids, -1.5), dim=1, value=-1.5)
    put = torch.tensor([[1.0], [2.0]])
    add("index_put", "index_put", [x, torch.tensor([0, 2]), torch.tensor([1, 1]), put],
        x.index_put((torch.tensor([0, 2]), torch.tensor([1, 1])), put.expand(2, 5)), accumulate=False)
    again = torch.tensor([1, 1])
    add("index_put.add", "index_put", [x, again, again, put],
        x.index_put((again, again), put.expand(2, 5), accumulate=True), accumulate=True)
    add("one_hot", "one_hot", [rows], torch.nn.functional.one_hot(rows, 7), classes=7)
    for t in (SPECIAL, grid(3, 4), grid(2, 2, 3).bool(), torch.tensor(3.0)):
        found = torch.nonzero(t)
        out = torch.full((20, t.dim()), -1)
        out[: len(found)] = found
        add(f"nonzero.{t.dim()}", "nonzero", [t], [out, torch.tensor(len(found))], capacity=20)
    mask = grid(3, 4) % 3 == 1
    picked = torch.masked_select(grid(3, 4), mask)
    out = torch.full((9,), -2.0)
    out[: len(picked)] = picked
    add("masked_select", "masked_select", [grid(3, 4), mask], [out, torch.tensor(len(picked))], capacity=9,
        fill=-2)
    add("masked_select.short", "masked_select", [grid(3, 4), mask], [picked[:2], torch.tensor(len(picked))],
        capacity=2, fill=0)
    for dtype in (torch.float32, torch.int64, torch.int8, torch.bool):
        t = (grid(4, 6) % 5).to(dtype)
        values, inverse, counts = torch.unique(t, return_inverse=True, return_counts=True)
        n = len(values)
        out, many = torch.zeros(8, dtype=dtype), torch.zeros(8, dtype=torch.int64)
        out[:n], many[:n] = values, counts
        add(f"unique.{name_of(dtype)}", "unique", [t], [out, inverse, many, torch.tensor(n)], capacity=8)
    line = torch.tensor([-inf, -1.0, 0.0, 0.0, 2.0, 5.0, inf])
    probe = torch.tensor([[-inf, -2.0, -1.0, 0.0], [1.0, 5.0, inf, 7.0]])
    for right in (False, True):
        add(f"searchsorted.{right}", "searchsorted", [line, probe],
            torch.searchsorted(line, probe, right=right), right=right)
        add(f"searchsorted.nan.{right}", "searchsorted", [line, torch.tensor([nan])],
            torch.searchsorted(line, torch.tensor([nan]), right=right),
            right=right)
        add(f"bucketize.{right}", "bucketize", [grid(3, 5, dtype=torch.int32),
                                                torch.tensor([3, 7, 7, 20], dtype=torch.int32)],
            torch.bucketize(grid(3, 5, dtype=torch.int32), torch.tensor([3, 7, 7, 20], dtype=torch.int32),
                            right=right), right=right)
    batch = grid(3, 9).sort(1).values
    add("searchsorted.batch", "searchsorted", [batch, grid(3, 2)], torch.searchsorted(batch, grid(3, 2)),
        right=False)
    add("bincount", "bincount", [rows.flatten()], torch.bincount(rows.flatten(), minlength=8), bins=8)
    weights = grid(6) / 4
    add("bincount.weights", "bincount", [rows.flatten(), weights],
        torch.bincount(rows.flatten(), weights, minlength=8), bins=8)
    add("histc", "histc", [grid(5, 7)], torch.histc(grid(5, 7), 6, 2, 20), bins=6, low=2, high=20)
    out_of_range = torch.tensor([-1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
    add("histc.outside", "histc", [out_of_range], torch.histc(out_of_range, 4, 0, 1), bins=4, low=0, high=1)


def scans(add):
    x = grid(2, 3, 5) - 8
    for dtype in TYPES:
        t = x.to(dtype)
        add(f"cumsum.{name_of(dtype)}", "cumsum", [t], torch.cumsum(t, 1), dim=1)
        small = (x % 3 - 1).to(dtype)
        add(f"cumprod.{name_of(dtype)}", "cumprod", [small], torch.cumprod(small, 2), dim=2)
        if dtype not in (torch.float16,):
            for name, f in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
                out = f(t, 2)
                add(f"{name}.{name_of(dtype)}", name, [t], [out.values, out.indices], dim=2)
    for name, f in [("cummax", torch.cummax), ("cummin", torch.cummin)]:
        for shift in (0, 3, 8):
            t = SPECIAL.roll(shift)
            out = f(t, 0)
            add(f"{name}.special.{shift}", name, [t], [out.values, out.indices], dim=0)
    add("cumsum.special", "cumsum", [SPECIAL], torch.cumsum(SPECIAL, 0), dim=0)
    add("cumprod.special", "cumprod", [SPECIAL], torch.cumprod(SPECIAL, 0), dim=0)
    add("cumsum.scalar", "cumsum", [torch.tensor(4.0)], torch.cumsum(torch.tensor(4.0), 0), dim=0)
    add("cumprod.appendix", "cumprod", [torch.tensor([-1.0, 2, 3])],
        torch.cumprod(torch.tensor([-1.0, 2, 3]), 0), dim=0)
    for t in (grid(3, 4) / 3, torch.tensor([-inf, -inf, 1.0, 1000.0, -1000.0]),
              torch.tensor([1.0, inf, 2.0, inf]), torch.tensor([-inf, 3.0, nan, 1.0]),
              torch.tensor([1e4, -1e4, 1e4])):
        add(f"logcumsumexp.{t.numel()}.{t.flatten()[0]}", "logcumsumexp", [t], torch.logcumsumexp(t, -1),
            dim=-1)
    for n in (0, 1, 2):
        add(f"diff.{n}", "diff", [x], torch.diff(x, n, 2), n=n, dim=2)
    add("diff.bool", "diff", [grid(3, 5).bool()], torch.diff(grid(3, 5).bool()), n=1, dim=-1)
    add("diff.none", "diff", [grid(2, 1)], torch.diff(grid(2, 1)), n=1, dim=-1)


def order(add):
    for dtype in TYPES:
        t = (grid(3, 9) - 8).to(dtype)
        for descending in (False, True):
            for axis in (0, 1):
                out = torch.sort(t, dim=axis, descending=descending, stable=True)
                add(f"sort.{name_of(dtype)}.{descending}.{axis}", "sort", [t], [out.values, out.indices],
                    dim=axis, descending=descending)
    for descending in (False, True):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            t = SPECIAL.to(dtype)
            out = torch.sort(t, descending=descending, stable=True)
            add(f"sort.special.{name_of(dtype)}.{descending}", "sort", [t], [out.values, out.indices], dim=0,
                descending=descending)
        add(f"argsort.{descending}", "argsort", [grid(4, 5)],
            torch.argsort(grid(4, 5), dim=0, descending=descending, stable=True), dim=0,
            descending=descending)
    distinct = (torch.arange(600) * 97 % 600 - 250).reshape(2, 300)
    for dtype in (torch.float32, torch.int32, torch.int16, torch.float64):
        t = distinct.to(dtype)
        for largest in (True, False):
            out = torch.topk(t, 5, 1, largest)
            add(f"topk.{name_of(dtype)}.{largest}", "topk", [t], [out.values, out.indices], k=5, dim=1,
                largest=largest)
            out = torch.topk(t[:, :20], 3, 1, largest)
            add(f"topk.short.{name_of(dtype)}.{largest}", "topk", [t[:, :20]], [out.values, out.indices], k=3,
                dim=1, largest=largest)
    odd = distinct.float()
    odd[0, 7] = odd[0, 100] = nan
    odd[0, 30], odd[1, 5], odd[1, 250] = inf, -inf, -inf
    for largest in (True, False):
        add(f"topk.special.{largest}", "topk_values", [odd], torch.topk(odd, 6, 1, largest).values, k=6,
            dim=1, largest=largest)
    for k in (1, 3, 9):
        out = torch.kthvalue(distinct[:, :9], k)
        add(f"kthvalue.{k}", "kthvalue", [distinct[:, :9]], [out.values, out.indices], k=k, dim=-1,
            keep=False)
    for n in (1, 4, 5, 6):
        out = torch.median(distinct[:, :n].float(), 1, keepdim=True)
        add(f"median.{n}", "median", [distinct[:, :n].float()], [out.values, out.indices], dim=1, keep=True)
    line = torch.tensor([[1.0, 5, 2], [nan, 1, 2]])
    out = torch.median(line, 1)
    add("median.nan", "median", [line], [out.values, out.indices], dim=1, keep=False)
    out = torch.median(distinct[:, :6], 0)
    add("median.i64", "median", [distinct[:, :6]], [out.values, out.indices], dim=0, keep=False)


def generators(add):
    for start, end, step in [(0, 5, 1), (2, 17, 3), (5, -4, -2), (3, 3, 1)]:
        add(f"arange.{start}.{end}.{step}", "arange", [], torch.arange(start, end, step), start=start,
            end=end, step=step)
    for start, end, step in [(0, 1, 0.1), (1.5, -1, -0.25), (0, 0.30000001, 0.1), (2.5, 3, 1)]:
        add(f"arange.float.{start}.{end}.{step}", "arange_float", [], torch.arange(start, end, step),
            start=start, end=end, step=step)
    for start, end, n in [(0, 1, 5), (-3, 7, 11), (2, 1, 4), (5, 6, 1), (1, 2, 2), (0, 0, 3), (0, 1, 0)]:
        add(f"linspace.{start}.{end}.{n}", "linspace", [], torch.linspace(start, end, n), start=start,
            end=end, count=n)
        add(f"linspace.f64.{start}.{end}.{n}", "linspace", [],
            torch.linspace(start, end, n, dtype=torch.float64), start=start, end=end, count=n,
            f64=True)
    add("logspace", "logspace", [], torch.logspace(-2, 2, 5), start=-2, end=2, count=5, base=10)
    add("logspace.two", "logspace", [], torch.logspace(0, 8, 9, base=2), start=0, end=8, count=9, base=2)
    for n, m in [(3, 3), (2, 4), (4, 2), (0, 2)]:
        add(f"eye.{n}.{m}", "eye", [], torch.eye(n, m), n=n, m=m)
        add(f"tri.{n}.{m}", "tri", [], torch.ones(n, m).tril(1), n=n, m=m, k=1)
    x = grid(2, 3, dtype=torch.int16)
    add("full", "full", [], torch.full((2, 3), 2.5), shape=[2, 3], value=2.5)
    add("like", "like", [x], [torch.full_like(x, 7), torch.zeros_like(x), torch.ones_like(x)])


def casts(add):
    values = torch.tensor([0.0, -0.0, 0.5, 1.5, 2.5, -1.5, 100.7, -100.7, 6e-8, 1e-3, 1.0 / 3])
    for source in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        t = values.to(source)
        for target in TYPES:
            inside = t if target != torch.uint8 else t.abs()  # out of range is not defined in PyTorch
            add(f"cast.{name_of(source)}.{name_of(target)}", "cast", [inside], inside.to(target),
                to=name_of(target))
    special = torch.tensor([inf, -inf, nan, 1e-40, 70000.0, 3.5e38 / 2, -1e-45])
    for target in (torch.float64, torch.float16, torch.bfloat16, torch.bool):
        add(f"cast.special.{name_of(target)}", "cast", [special], special.to(target), to=name_of(target))
    integers = torch.tensor([0, 1, -1, 127, 128, -129, 255, 256, 32768, 65537, -(2**31), 2**31 + 5, 2**53 + 1,
                             -(2**63)])
    for source in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
        t = integers.to(source)
        for target in TYPES:
            add(f"cast.{name_of(source)}.{name_of(target)}", "cast", [t], t.to(target), to=name_of(target))
    x = grid(2, 8)
    for target in (torch.int32, torch.int64, torch.int16, torch.uint8, torch.float64, torch.bfloat16):
        add(f"bitcast.{name_of(target)}", "bitcast", [x], x.view(target), to=name_of(target))


def cases(add):
    for part in (movement, slicing, indexing, scans, order, generators, casts):
        part(add)
