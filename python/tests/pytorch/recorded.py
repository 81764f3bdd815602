#!/usr/bin/env python3
# python/tests/pytorch/recorded.py -- ATen graphs with their values in a file, so that the lowering is
# tested where there is no PyTorch.
#
#   recorded.py            writes recorded.json beside it; needs PyTorch
import base64
import dataclasses
import json
import pathlib

FILE = pathlib.Path(__file__).with_name("recorded.json")


def encoded(x):
    """Arguments of a node: references, lists, numbers."""
    from luminal.torch.terms import Ref

    if isinstance(x, Ref):
        return {"ref": x.name}
    if isinstance(x, float) and (x != x or x in (float("inf"), float("-inf"))):
        return {"float": str(x)}
    return [encoded(item) for item in x] if isinstance(x, (list, tuple)) else x


def decoded(x):
    from luminal.torch.terms import Ref

    if isinstance(x, dict):
        return Ref(x["ref"]) if "ref" in x else float(x["float"])
    return [decoded(item) for item in x] if isinstance(x, list) else x


def read():
    """(name, nodes, inputs {name: array}, results [(node's name, array)]) of each case."""
    from luminal.torch.terms import Node, Type

    def type_of(x):
        if x is None or "dtype" in x:
            return None if x is None else Type(x["dtype"], tuple(x["shape"]), x["packed"])
        return tuple(type_of(part) for part in x["parts"])

    for case in json.loads(FILE.read_text()):
        nodes = [
            Node(
                n["name"],
                n["op"],
                tuple(decoded(n["args"])),
                {k: decoded(v) for k, v in n["kwargs"].items()},
                type_of(n["type"]),
            )
            for n in case["nodes"]
        ]
        yield (
            case["name"],
            nodes,
            {name: array(value) for name, value in case["inputs"].items()},
            [(name, array(value)) for name, value in case["results"]],
        )


def array(value):
    import numpy

    return numpy.frombuffer(base64.b64decode(value["data"]), value["dtype"]).reshape(value["shape"])


def packed(tensor):
    value = tensor.detach().contiguous().numpy()
    return {
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "data": base64.b64encode(value.tobytes()).decode(),
    }


def cases(torch):
    """Small functions that reach every file of the operators."""
    F = torch.nn.functional
    torch.manual_seed(1)

    def r(*shape):
        return torch.randn(*shape)

    ids = torch.tensor([[0, 2], [1, 1]])
    yield "elements", lambda x, y: (torch.where(x > y, x.exp(), y.tanh()) / 3 + x.clamp(-1, 1).sign(),), (
        r(3, 4),
        r(4),
    )
    yield "promotion", lambda i, x: (i * 2.5, i // 2, x.double() + i, i < 1.5, (i + 1).float().pow(2)), (
        ids,
        r(2, 2),
    )
    yield "movement", lambda x: (
        torch.cat([x[:, 1:], x.flip(1)], 1).permute(1, 0).reshape(-1)[::2],
        F.pad(x, (1, -1)),
        x.unfold(1, 2, 2),
        torch.tril(x),
    ), (
        r(4, 4),
    )
    yield "indexing", lambda w, i, x: (
        F.embedding(i, w),
        w[i],
        x.index_put((i[0],), torch.ones(2, 3)),
        x.gather(0, i[:, :1].expand(2, 3)),
        x.scatter_add(1, i, torch.ones(2, 2)),
    ), (r(3, 5), ids, r(4, 3))
    yield "reductions", lambda x: (
        x.sum(0),
        x.var(1),
        x.amax((0, 1)),
        x.max(1)[1],
        x.cumsum(1),
        x.sort(0)[0],
        x.topk(2)[0],
    ), (
        r(4, 5),
    )
    yield "windows", lambda x, w: (
        F.conv2d(x, w, padding=1),
        F.max_pool2d(x, 2),
        F.avg_pool2d(x, 2, 1),
        F.interpolate(x, size=(8, 8), mode="bilinear"),
    ), (r(1, 2, 4, 4), r(3, 2, 3, 3))
    yield "normalise", lambda x, w: (
        F.layer_norm(x, (4,), w),
        F.softmax(x, 0),
        F.group_norm(x.reshape(1, 4, 3), 2),
    ), (r(3, 4), r(4))
    q = r(1, 2, 3, 4)
    yield "attention", lambda q, k: (
        F.scaled_dot_product_attention(q, k, k, is_causal=True),
        torch.baddbmm(q[0], q[0], k[0, :, :, :4].mT @ k[0]),
    ), (q, r(1, 2, 3, 4))
    x, w = r(1, 2, 4, 4).requires_grad_(), r(2, 2, 3, 3).requires_grad_()

    def trained(x, w):
        loss = F.avg_pool2d(F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2), 2).square().sum()
        return torch.autograd.grad(loss, (x, w))

    yield "gradients", trained, (x, w)


def main():
    import torch
    from luminal.torch.backend import decompositions
    from luminal.torch.record import node_of
    from torch._functorch.aot_autograd import aot_function
    from torch.fx.experimental.proxy_tensor import make_fx

    made = []
    for name, function, arguments in cases(torch):
        if name == "gradients":
            graph = make_fx(function, decomposition_table=decompositions(), tracing_mode="fake")(*arguments)
        else:
            found = []
            aot_function(
                function,
                fw_compiler=lambda module, _: found.append(module) or module,
                decompositions=decompositions(),
            )(*arguments)
            graph = found[0]
        nodes = list(graph.graph.nodes)
        names = [node.name for node in nodes if node.op == "placeholder"]
        results = [node for node in nodes if node.op == "output"][0].args[0]
        values = graph(*arguments)
        records = [node_of(node) for node in nodes if node.op == "call_function"]
        made.append(
            {
                "name": name,
                "nodes": [
                    {
                        "name": n.name,
                        "op": n.op,
                        "args": encoded(n.args),
                        "kwargs": {k: encoded(v) for k, v in n.kwargs.items()},
                        "type": types(n.type),
                    }
                    for n in records
                ],
                "inputs": {n: packed(value) for n, value in zip(names, arguments)},
                "results": [[node.name, packed(value)] for node, value in zip(results, values)],
            }
        )
    FILE.write_text("[\n" + ",\n".join(json.dumps(case) for case in made) + "\n]\n")


def types(x):
    if isinstance(x, tuple):
        return {"parts": [types(part) for part in x]}
    return None if x is None else dataclasses.asdict(x)


if __name__ == "__main__":
    main()
