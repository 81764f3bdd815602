# tools/torch_goldens_nn.py -- cases of products, convolution, pooling, resampling, normalisation
# and Fourier transforms (see torch_goldens.py).
import math

import torch
import torch.nn.functional as F

inf, nan = math.inf, math.nan


def r(*shape):
    """Few different numbers: they compress, and sums of their products are exact."""
    return torch.randint(-8, 9, shape) / 4


def products(add):
    for name, a, b in [("vv", (5,), (5,)), ("vm", (5,), (5, 3)), ("mv", (4, 5), (5,)),
                       ("bv", (2, 4, 5), (5,)), ("vb", (4,), (2, 4, 5)),
                       ("bb", (2, 1, 4, 5), (3, 5, 2)), ("empty", (2, 0), (0, 3)), ("none", (0, 4), (4, 3)),
                       ("one", (1, 1), (1, 1))]:
        x, y = r(*a), r(*b)
        add(f"matmul.{name}", "matmul", [x, y], x @ y)
    x, y = torch.randint(-99, 99, (3, 4), dtype=torch.int8), torch.randint(-99, 99, (4, 5), dtype=torch.int8)
    add("matmul.i8_wraps", "matmul", [x, y], x @ y)
    x, y = torch.randn(3, 70).bfloat16(), torch.randn(70, 2).bfloat16()
    add("matmul.bf16", "matmul", [x, y], x @ y)
    for eq, shapes in [("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]),
                       ("ij,jk->ki", [(2, 3), (3, 4)]), ("ii->i", [(3, 3)]),
                       ("ii", [(3, 3)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("i,j->ij", [(2,), (3,)]),
                       ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
                       ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]), ("...i->...", [(2, 3, 4)]),
                       ("i...,i...->...", [(3, 2), (3, 2)]),
                       ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
                       ("bhwi,hw,io->bo", [(2, 3, 2, 4), (3, 2), (4, 5)]), ("ijj->i", [(2, 3, 3)]),
                       ("ij,ij->ij", [(2, 3), (2, 3)]), ("ba", [(2, 3)]), ("...ba", [(2, 3, 4)]),
                       ("bij,kj->kbi", [(2, 3, 4), (5, 4)]),
                       ("ij,j->i", [(1, 3), (3,)]), (" i j , j k -> i k ", [(2, 3), (3, 4)]),
                       ("aB,Bc", [(2, 3), (3, 2)]), ("...,...", [(2, 3), (3,)])]:
        tensors = [r(*s) for s in shapes]
        add(f"einsum.{eq}", "einsum", tensors, torch.einsum(eq, *tensors), eq=eq)
    a, b = r(3, 4, 5), r(4, 3, 2)
    add("tensordot.named", "tensordot", [a, b], torch.tensordot(a, b, dims=([1, 0], [0, 1])), a=[1, 0],
        b=[0, 1])
    add("tensordot.count", "tensordot", [r(2, 3, 4), r(3, 4, 5)], None, count=2)
    add("tensordot.none", "tensordot", [r(2), r(3)], None, count=0)
    add("dot", "dot", [r(6), r(6)], None)
    add("inner", "inner", [r(2, 3), r(4, 3)], None)
    add("outer", "outer", [r(3), r(4)], None)
    add("mv", "mv", [r(3, 4), r(4)], None)
    add("bmm", "bmm", [r(2, 3, 4), r(2, 4, 5)], None)
    x, w, b = r(2, 3, 4), r(5, 4), r(5)
    add("linear.plain", "linear", [x, w], F.linear(x, w))
    add("linear.square", "linear", [torch.eye(2), torch.tensor([[1.0, 3], [2, 4]]), torch.tensor([10.0, 20])],
        F.linear(torch.eye(2), torch.tensor([[1.0, 3], [2, 4]]), torch.tensor([10.0, 20])))
    x1, x2, w = r(2, 3), r(2, 4), r(5, 3, 4)
    add("bilinear", "bilinear", [x1, x2, w, b], F.bilinear(x1, x2, w, b))
    x, y = torch.tensor([[1.0, 2, 3], [0, 0, 0]]), torch.tensor([[4.0, -5, 6]])
    add("cosine.broadcast", "cosine_similarity", [x, y], F.cosine_similarity(x, y, dim=1), dim=1)
    add("cosine.axis0", "cosine_similarity", [x, x.flip(0)], F.cosine_similarity(x, x.flip(0), dim=0), dim=0)
    q, k, v = torch.randn(1, 4, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 6)
    k4, v4 = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    bias = torch.randn(1, 4, 3, 5)
    sdpa = F.scaled_dot_product_attention
    add("sdpa.plain", "sdpa", [q, k4, v4], sdpa(q, k4, v4))
    add("sdpa.scale", "sdpa", [q, k4, v4], sdpa(q, k4, v4, scale=0.3), scale_number=0.3)
    add("sdpa.causal", "sdpa", [q, k4, v4], sdpa(q, k4, v4, is_causal=True), causal=True)
    add("sdpa.mask", "sdpa", [q, k4, v4, mask], sdpa(q, k4, v4, attn_mask=mask))
    add("sdpa.bias", "sdpa", [q, k4, v4, bias], sdpa(q, k4, v4, attn_mask=bias))
    add("sdpa.grouped", "sdpa", [q, k, v], sdpa(q, k, v, enable_gqa=True))
    add("sdpa.grouped_bias", "sdpa", [q, k, v, bias], sdpa(q, k, v, attn_mask=bias, enable_gqa=True))
    add("sdpa.grouped_mask", "sdpa", [q, k, v, mask], sdpa(q, k, v, attn_mask=mask, enable_gqa=True))
    add("sdpa.no_heads", "sdpa", [q[0, 0], k[0, 0], v[0, 0]], sdpa(q[0, 0], k[0, 0], v[0, 0]))


def windows(add):
    for n, xs, ws, kinds in [
            (1, (2, 4, 9), (6, 4, 3), [{}, {"stride": 2, "padding": 1}, {"dilation": 3, "padding": 2},
                                       {"word": "same"}, {"word": "valid"}]),
            (1, (2, 4, 9), (6, 2, 4), [{"groups": 2, "word": "same"}]),
                             (1, (2, 4, 9), (8, 1, 3), [{"groups": 4, "padding": 1}]),
            (1, (2, 4, 9), (4, 1, 3), [{"groups": 4}]), (1, (4, 9), (3, 4, 2), [{}]),
            (2, (1, 3, 7, 6), (2, 3, 3, 2), [{}, {"stride": [2, 1], "padding": [1, 0]},
                                             {"dilation": [1, 2], "padding": [0, 2]},
                                             {"word": "same", "dilation": [2, 1]}]),
            (2, (1, 4, 5, 5), (4, 2, 3, 3), [{"groups": 2, "padding": 1, "stride": 2}]),
                             (3, (1, 2, 4, 3, 5), (2, 2, 2, 3, 1), [{"padding": [1, 1, 0]}])]:
        x, w, b = r(*xs), r(*ws), r(ws[0])
        f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]
        for i, kind in enumerate(kinds):
            arguments = {("padding" if k == "word" else k): v for k, v in kind.items()}
            add(f"conv{n}d.{xs}.{ws}.{i}", f"conv{n}d", [x, w, b], f(x, w, b, **arguments), **kind)
    for n, xs, ws, kinds in [
            (1, (2, 4, 5), (4, 3, 3), [{}, {"stride": 2}, {"stride": 3, "padding": 1, "output_padding": 2},
                                       {"dilation": 2, "padding": 2}, {"padding": 2}]),
            (1, (2, 4, 5), (4, 3, 4), [{"groups": 2, "stride": 2, "padding": 1}]),
            (2, (1, 2, 3, 4), (2, 3, 3, 2), [{"stride": [2, 1], "padding": [1, 0],
                                              "output_padding": [1, 0]}]),
                             (3, (1, 2, 2, 3, 2), (2, 1, 2, 2, 3), [{"stride": 2}])]:
        x, w, b = r(*xs), r(*ws), r(ws[1] * kinds[0].get("groups", 1))
        f = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[n]
        for i, kind in enumerate(kinds):
            add(f"conv_transpose{n}d.{xs}.{ws}.{i}", f"conv_transpose{n}d", [x, w, b], f(x, w, b, **kind),
                **kind)
    x = r(1, 2, 7, 6)
    x[0, 0, 2, 3], x[0, 1, 6, 5], x[0, 1, 0] = inf, nan, -inf
    for i, kind in enumerate([{"kernel": 2}, {"kernel": 3, "stride": 2},
                              {"kernel": 3, "stride": 2, "padding": 1}, {"kernel": [2, 3], "stride": [1, 2]},
                              {"kernel": 3, "stride": 2, "ceil_mode": True},
                              {"kernel": 2, "stride": 3, "padding": 1, "ceil_mode": True},
                              {"kernel": 2, "dilation": 2, "stride": 1}]):
        arguments = {("kernel_size" if k == "kernel" else k): v for k, v in kind.items()}
        add(f"max_pool2d.{i}", "max_pool2d", [x], F.max_pool2d(x, **arguments), **kind)
        add(f"max_pool2d_indices.{i}", "max_pool2d_indices", [x],
            F.max_pool2d(x, **arguments, return_indices=True), **kind)
        if "dilation" not in kind:
            add(f"avg_pool2d.{i}", "avg_pool2d", [x], F.avg_pool2d(x, **arguments), **kind)
            add(f"avg_pool2d.excluded{i}", "avg_pool2d", [x],
                F.avg_pool2d(x, **arguments, count_include_pad=False), **kind, count_include_pad=False)
    y = r(2, 3, 9)
    add("max_pool1d", "max_pool1d", [y], F.max_pool1d(y, 3, 2, 1), kernel=3, stride=2, padding=1)
    add("avg_pool1d", "avg_pool1d", [y], F.avg_pool1d(y, 4, 3, 2, True, False), kernel=4, stride=3, padding=2,
        ceil_mode=True, count_include_pad=False)
    z = r(1, 2, 4, 3, 5)
    add("max_pool3d", "max_pool3d", [z], F.max_pool3d(z, 2), kernel=2)
    add("avg_pool3d", "avg_pool3d", [z], F.avg_pool3d(z, [2, 3, 2], 1), kernel=[2, 3, 2], stride=1)
    add("avg_pool2d.divisor", "avg_pool2d", [r(1, 1, 4, 4)], None, kernel=2, divisor=3)
    p = r(1, 2, 6, 5).abs()
    add("lp_pool2d", "lp_pool2d", [p], F.lp_pool2d(p, 3.0, 2, 2), p=3.0, kernel=2, stride=2)
    for sizes in [(1, 1), (3, 4), (7, 6), (5, 2), (9, 3)]:
        add(f"adaptive_avg.{sizes}", "adaptive_avg_pool", [x], F.adaptive_avg_pool2d(x, sizes),
            sizes=list(sizes))
        add(f"adaptive_max.{sizes}", "adaptive_max_pool", [x], F.adaptive_max_pool2d(x, sizes),
            sizes=list(sizes))
    u = r(1, 2, 5, 4)
    for sizes in [(5, 4), (10, 8), (3, 7), (1, 1), (2, 2)]:
        for name, mode in [("nearest", "nearest"), ("nearest_exact", "nearest-exact"),
                           ("bilinear", "bilinear"), ("bicubic", "bicubic")]:
            add(f"upsample_{name}.{sizes}", f"upsample_{name}", [u], F.interpolate(u, sizes, mode=mode),
                sizes=list(sizes))
            if name.startswith("bi"):
                add(f"upsample_{name}.corners{sizes}", f"upsample_{name}", [u],
                    F.interpolate(u, sizes, mode=mode, align_corners=True),
                    sizes=list(sizes), align_corners=True)
    add("upsample_linear", "upsample_linear", [y], F.interpolate(y, 5, mode="linear"), sizes=[5])
    add("upsample_trilinear", "upsample_linear", [z], F.interpolate(z, (3, 6, 5), mode="trilinear"),
        sizes=[3, 6, 5])
    s = r(2, 8, 3, 2)
    add("pixel_shuffle", "pixel_shuffle", [s], F.pixel_shuffle(s, 2), factor=2)
    s = r(2, 2, 6, 4)
    add("pixel_unshuffle", "pixel_unshuffle", [s], F.pixel_unshuffle(s, 2), factor=2)
    for n in (1, 2, 8, 12, 17, 64, 96):
        c = torch.view_as_real(torch.fft.fft(torch.view_as_complex(r(2, n, 2))))
        x = r(2, n, 2)
        add(f"fft.{n}", "fft", [x], torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))), atol=2e-5)
        add(f"ifft.{n}", "ifft", [x], torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x))), atol=2e-6)
        real = r(2, n)
        add(f"rfft.{n}", "rfft", [real], torch.view_as_real(torch.fft.rfft(real)), atol=2e-5)
        half = r(2, n // 2 + 1, 2)
        add(f"irfft.{n}", "irfft", [half], torch.fft.irfft(torch.view_as_complex(half), n), n=n, atol=2e-6)


def norms(add):
    x, w, b = torch.randn(2, 4, 3, 5), r(4), r(4)
    add("group_norm.plain", "group_norm", [x], F.group_norm(x, 2), groups=2)
    add("group_norm.weighted", "group_norm", [x, w, b], F.group_norm(x, 4, w, b), groups=4)
    add("instance_norm.weighted", "instance_norm", [x, w, b], F.instance_norm(x, weight=w, bias=b))
    m, v = r(4), r(4).abs() + 0.5
    add("batch_norm.plain", "batch_norm", [x, m, v], F.batch_norm(x, m, v))
    add("batch_norm.weighted", "batch_norm", [x, m, v, w, b], F.batch_norm(x, m, v, w, b, eps=0.1), eps=0.1)
    w2, b2 = r(3, 5), r(3, 5)
    add("layer_norm.two_axes", "layer_norm", [x, w2, b2], F.layer_norm(x, (3, 5), w2, b2))
    add("rms_norm.two_axes", "rms_norm", [x, w2], F.rms_norm(x, (3, 5), w2, eps=1e-5))
    square = torch.tensor([[0.0, 0.0], [2.0, 6.0]])
    add("layer_norm.axis0", "layer_norm", [square], F.layer_norm(square.T, (2,)).T.contiguous(), dim=0)
    large = torch.randn(3, 64) + 1000
    add("layer_norm.offset", "layer_norm", [large], F.layer_norm(large.double(), (64,)).float(), dim=1,
        rtol=1e-3, atol=1e-3)
    bf = torch.randn(3, 64).bfloat16() + 3
    add("layer_norm.bf16", "layer_norm", [bf], F.layer_norm(bf, (64,)), dim=1)


def recurrent(add):
    x = torch.randn(2, 4, 3)
    for name, module in [("lstm", torch.nn.LSTM(3, 2, batch_first=True)),
                         ("gru", torch.nn.GRU(3, 2, batch_first=True))]:
        add(name, name, [x] + [p.detach() for p in module.parameters()], module(x)[0])


def cases(add):
    named = {"tensordot": lambda a, b, count: torch.tensordot(a, b, dims=count), "avg_pool2d": lambda x,
             kernel, divisor: F.avg_pool2d(x, kernel, divisor_override=divisor)}

    def computed(name, op, inputs, outputs, **attrs):
        if outputs is None:
            outputs = named.get(op, getattr(torch, op, None))(*inputs, **attrs)
        add(name, op, inputs, outputs, **attrs)

    products(computed)
    windows(computed)
    norms(computed)
    recurrent(computed)
