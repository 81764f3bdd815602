# tools/torch_goldens_more.py -- cases of statistics, products, functions of elements, sampling and
# joins that are made of others (see torch_goldens.py).
import math

import torch
import torch.nn.functional as F

inf, nan = math.inf, math.nan
LINE = torch.tensor([0.0, -0.0, 1, -1, 0.5, -0.5, 0.25, 2.5, -3.25, 100, inf, -inf, nan, 1e-8])


def r(*shape):
    return torch.randint(-8, 9, shape) / 4


def elements(add):
    row, column = LINE, LINE.unsqueeze(1)
    for name in ("logaddexp", "logaddexp2", "xlogy"):
        add(f"{name}.table", name, [column, row], getattr(torch, name)(column, row))
    p = torch.tensor([0.0, 0.25, 0.5, 1.0, -0.5, nan])
    add("logit", "logit", [p], torch.logit(p))
    add("logit.eps", "logit", [p], torch.logit(p, 0.125), eps=0.125)
    for name in ("sinc", "deg2rad", "rad2deg"):
        add(name, name, [LINE], getattr(torch, name)(LINE))
    add("sinc.integers", "sinc", [torch.tensor([0, 1])], torch.sinc(torch.tensor([0, 1])), atol=1e-6)
    numbers = LINE[~LINE.isnan()]  # PyTorch gives 0 for NaN
    add("heaviside", "heaviside", [numbers, torch.tensor(0.5)], torch.heaviside(numbers, torch.tensor(0.5)))
    add("ldexp", "ldexp", [LINE, torch.tensor([3])], torch.ldexp(LINE, torch.tensor([3])))
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        add(f"nan_to_num.{dtype}", "nan_to_num", [LINE.to(dtype)], torch.nan_to_num(LINE.to(dtype)))
    add("nan_to_num.given", "nan_to_num", [LINE], torch.nan_to_num(LINE, 1.5, 7.0, -9.0), nan=1.5, posinf=7.0,
        neginf=-9.0)
    near = torch.tensor([1.0, 1.000001, 1.1, inf, nan])
    for equal_nan in (False, True):
        add(f"isclose.{equal_nan}", "isclose", [near, near.unsqueeze(1)],
            torch.isclose(near, near.unsqueeze(1), equal_nan=equal_nan), equal_nan=equal_nan)
    add("isclose.integers", "isclose", [torch.tensor([1, 100000, 5]), torch.tensor([1, 100001, 6])],
        torch.isclose(torch.tensor([1, 100000, 5]), torch.tensor([1, 100001, 6])))
    add("isin", "isin", [torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 4, 9])],
        torch.isin(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 4, 9])))
    x, a, b = r(2, 3), r(3), r(2, 1) + 3
    add("addcmul", "addcmul", [x, a, b], torch.addcmul(x, a, b, value=0.5), value=0.5)
    add("addcdiv", "addcdiv", [x, a, b], torch.addcdiv(x, a, b, value=0.5), value=0.5)
    for name in ("hardshrink", "softshrink"):
        for limit in (0.5, 0.25):
            add(f"{name}.{limit}", name, [LINE], getattr(F, name)(LINE, limit), limit=limit)
    add("tanhshrink", "tanhshrink", [LINE], F.tanhshrink(LINE))
    add("softmin", "softmin", [r(2, 5)], None, dim=1)


def statistics(add):
    x = torch.tensor([[3.0, 1, 2, 5], [4, 4, -1, 0], [nan, 1, 2, 3]])
    q = [0.0, 0.25, 0.4, 0.5, 1.0]
    for between in ("linear", "lower", "higher", "midpoint", "nearest"):
        add(f"quantile.{between}", "quantiles", [x], torch.quantile(x, torch.tensor(q), 1,
                                                                    interpolation=between), q=q, dim=1,
            between=between)
    add("quantile.one", "quantile", [x], torch.quantile(x, 0.3, 0, keepdim=True), q=0.3, dim=0, keepdim=True)
    add("quantile.all", "quantile", [x[:2]], torch.quantile(x[:2], 0.3), q=0.3)
    add("quantile.all_kept", "quantiles", [x[:2]], torch.quantile(x[:2], torch.tensor([0.3]), keepdim=True),
        q=[0.3], keepdim=True)
    add("quantile.f64", "quantiles", [x.double()], torch.quantile(x.double(), torch.tensor(q).double(), -1,
                                                                  keepdim=True),
        q=[float(torch.tensor(v)) for v in q], dim=-1, keepdim=True)
    many = torch.tensor([[1, 3, 3, 2, 2, 0], [5, 5, 5, 5, 5, 5], [1, 2, 3, 4, 5, 6]])
    for dtype in (torch.float32, torch.int64, torch.int8):
        add(f"mode.{dtype}", "mode_values", [many.to(dtype)], torch.mode(many.to(dtype), 1).values, dim=1)
    add("mode.keep", "mode_values", [many], torch.mode(many, 0, keepdim=True).values, dim=0, keepdim=True)
    add("mode.unique", "mode", [torch.tensor([[7.0, 1, 1], [2, 2, 9]])],
        list(torch.mode(torch.tensor([[7.0, 1, 1], [2, 2, 9]]), 1)), dim=1)
    for name in ("nansum", "nanmean"):
        for dim in (0, 1):
            add(f"{name}.{dim}", name, [x], getattr(torch, name)(x, dim, keepdim=dim == 0), dim=dim,
                keepdim=dim == 0)
        nothing = torch.full((2, 2), nan)
        add(f"{name}.nothing", name, [nothing], getattr(torch, name)(nothing, 1), dim=1)
    add("aminmax", "aminmax", [x], list(torch.aminmax(x, dim=1)), dim=1)
    add("std_mean", "std_mean", [x], list(torch.std_mean(x, dim=1)), dim=1)
    y = r(3, 6)
    for correction in (0, 1):
        add(f"cov.{correction}", "cov", [y], torch.cov(y, correction=correction), correction=correction)
    add("cov.line", "cov", [y[0]], torch.cov(y[0]), correction=1)
    add("corrcoef", "corrcoef", [y], torch.corrcoef(y), atol=1e-6)
    add("trapezoid", "trapezoid", [y], torch.trapezoid(y, dx=0.5, dim=0), dx=0.5, dim=0)


def products(add):
    x, a, b = r(3), r(2, 4), r(4, 3)
    for beta, alpha in [(1, 1), (0.5, 2), (0, 1)]:
        attrs = {"beta": beta, "alpha": alpha}
        add(f"addmm.{beta}", "addmm", [x, a, b], torch.addmm(x, a, b, **attrs), **attrs)
    bad = torch.full((2, 3), nan)
    add("addmm.unread", "addmm", [bad, a, b], torch.addmm(bad, a, b, beta=0), beta=0, alpha=1)
    add("addmv", "addmv", [r(2), a, r(4)], None, beta=2, alpha=0.5)
    add("addr", "addr", [r(2, 3), r(2), r(3)], None, beta=2, alpha=0.5)
    add("baddbmm", "baddbmm", [r(2, 1, 3), r(2, 2, 4), r(2, 4, 3)], None, beta=2, alpha=0.5)
    add("addbmm", "addbmm", [r(2, 3), r(5, 2, 4), r(5, 4, 3)], None, beta=2, alpha=0.5)
    add("addmm.ints", "addmm", [torch.tensor([1, 2]), torch.eye(2).long(), torch.tensor([[3, 4], [5, 6]])],
        torch.addmm(torch.tensor([1, 2]), torch.eye(2).long(), torch.tensor([[3, 4], [5, 6]]), beta=3,
                    alpha=2), beta=3, alpha=2, whole=True)
    c = [r(2, 3), r(3, 4), r(4)]
    add("multi_dot", "multi_dot", c, torch.linalg.multi_dot(c))
    m = r(2, 3, 3)
    for n in (0, 1, 2, 5):
        add(f"matrix_power.{n}", "matrix_power", [m], torch.matrix_power(m, n), n=n)
    add("vecdot", "vecdot", [r(2, 3, 4), r(3, 1)], None, dim=1)
    for p, q in [((2, 3), (4, 1)), ((3,), (2, 2)), ((2, 1, 2), (3,))]:
        u, v = r(*p), r(*q)
        add(f"kron.{p}", "kron", [u, v], torch.kron(u, v))
    add("cross", "cross", [r(2, 3), r(2, 3)], None, dim=1)
    add("cross.broadcast", "cross", [r(3, 2), r(3, 1)], None, dim=0)
    line = torch.tensor([2, -1, 3])
    add("vander", "vander", [line], torch.vander(line), columns=0)
    add("vander.rising", "vander", [line.float()], torch.vander(line.float(), 5, True), columns=5,
        increasing=True)
    u, v = r(2, 4, 3), r(5, 3)
    for p in (2.0, 1.0, 0.0, inf, 3.0):
        add(f"cdist.{p}", "cdist", [u, v], torch.cdist(u, v, p), p=p, atol=1e-5)
    add("pairwise_distance", "pairwise_distance", [r(4, 3), r(4, 3)], None, p=2.0)
    parts = [r(2, 2), r(3), r(1, 2)]
    add("block_diag", "block_diag", parts, torch.block_diag(*parts))


def sampling(add):
    x = r(2, 2, 4, 5)
    grid = torch.rand(2, 3, 4, 2) * 3 - 1.5
    grid[0, 0, 0] = torch.tensor([1.0, -1.0])
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (False, True):
                add(f"grid_sample.{mode}.{padding}.{corners}", "grid_sample", [x, grid],
                    F.grid_sample(x, grid, mode, padding, corners),
                    mode=mode, padding=padding, align_corners=corners, atol=2e-6)
    theta = r(2, 2, 3)
    for corners in (False, True):
        add(f"affine_grid.{corners}", "affine_grid", [theta], F.affine_grid(theta, (2, 1, 3, 4), corners),
            height=3, width=4, align_corners=corners)
    image = r(1, 2, 5, 6)
    for i, kind in enumerate([{"kernel": [2, 3]}, {"kernel": [3, 2], "stride": [2, 1], "padding": [1, 0],
                                                   "dilation": [1, 2]}]):
        arguments = {("kernel_size" if k == "kernel" else k): v for k, v in kind.items()}
        columns = F.unfold(image, **arguments)
        add(f"unfold.{i}", "unfold_image", [image], columns, **kind)
        add(f"fold.{i}", "fold_image", [columns], F.fold(columns, (5, 6), **arguments), sizes=[5, 6], **kind)
    for size in (2, 3):
        add(f"local_response_norm.{size}", "local_response_norm", [image.repeat(1, 2, 1, 1)],
            F.local_response_norm(image.repeat(1, 2, 1, 1), size, 0.5), size=size, alpha=0.5)
    add("channel_shuffle", "channel_shuffle", [r(1, 6, 2, 2)], None, groups=3)


def places(add):
    x = r(3, 4)
    index = torch.tensor([[0, 1, 0, 3], [2, 2, 2, 1]])
    values = r(2, 4)
    for dtype in (torch.float32, torch.int32):
        for include in (True, False):
            t, v = (x * 4).to(dtype), (values * 4).to(dtype)
            add(f"scatter_mean.{dtype}.{include}", "scatter_mean", [t, index, v],
                torch.scatter_reduce(t, 1, index, v, "mean", include_self=include), dim=1, include=include)
    mask = x > 0.3
    add("masked_scatter", "masked_scatter", [x, mask, r(20)], None)
    add("masked_scatter.broadcast", "masked_scatter", [r(2, 3), torch.tensor([True, False, True]), r(2, 2)],
        None)
    add("take", "take", [x, torch.tensor([[0, 11], [5, 5]])], None)
    add("select_scatter", "select_scatter", [x, r(3)], None, dim=1, index=-1)
    two = r(3, 2)
    add("slice_scatter", "slice_scatter", [x, two], torch.slice_scatter(x, two, 1, 1, 3), dim=1, start=1)
    for name in ("tril_indices", "triu_indices"):
        for offset in (-1, 0, 2):
            add(f"{name}.{offset}", name, [], getattr(torch, name)(3, 4, offset), rows=3, columns=4,
                offset=offset)
    lines = [r(2), r(2)]
    add("dstack", "dstack", lines, torch.dstack(lines))
    parts = [r(3), r(3, 2)]
    add("column_stack", "column_stack", parts, torch.column_stack(parts))
    for n in (2, 3, 5):
        add(f"tensor_split.{n}", "tensor_split", [x], list(torch.tensor_split(x, n, 1)), parts=n, dim=1)
    add("hsplit", "hsplit", [x], list(torch.hsplit(x, 2)), parts=2)
    add("hsplit.line", "hsplit", [x[0]], list(torch.hsplit(x[0], 2)), parts=2)
    add("vsplit", "vsplit", [x], list(torch.vsplit(x, 3)), parts=3)
    add("dsplit", "dsplit", [r(1, 2, 4)], None, parts=2)


def cases(add):
    special = {"vecdot": lambda a, b, dim: torch.linalg.vecdot(a, b, dim=dim), "cross": lambda a, b,
               dim: torch.linalg.cross(a, b, dim=dim),
               "channel_shuffle": F.channel_shuffle, "softmin": F.softmin,
               "pairwise_distance": F.pairwise_distance,
               "dsplit": lambda x, parts: list(torch.dsplit(x, parts)),
               "select_scatter": torch.select_scatter}

    def computed(name, op, inputs, outputs, **attrs):
        if outputs is None:
            outputs = special.get(op, getattr(torch, op, None) or getattr(F, op, None))(*inputs, **attrs)
        add(name, op, inputs, outputs, **attrs)

    for part in (elements, statistics, products, sampling, places):
        part(computed)
