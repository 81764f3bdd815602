# python/tests/test_onnx_random.py -- random ONNX graphs beside ONNX Runtime: operators of many kinds, several
# versions of the operator set, empty dimensions, If, Loop and Scan, quantised products.
# LUMINAL_RANDOM_SEEDS=FIRST:COUNT runs other ones; LUMINAL_RANDOM_FAILURES=FOLDER keeps those that fail.
import os
import pathlib
import random
import sys
import tempfile
import unittest

import luminal as pl
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import where  # noqa: E402

onnx = runtime = None
UNARY = """Relu Sigmoid Tanh Exp Abs Neg Floor Ceil Round Erf Softplus Softsign Elu LeakyRelu HardSigmoid Selu
    HardSwish Sin Cos Sqrt Reciprocal Sign Identity Atan Celu ThresholdedRelu Shrink Asinh Log""".split()
BINARY = "Add Sub Mul Max Min Div PRelu Less Equal GreaterOrEqual Mean Sum".split()
REDUCTIONS = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceLogSumExp ReduceProd
    ReduceSumSquare ReduceLogSum""".split()


def setUpModule():
    global onnx, runtime
    onnx, runtime = where.find_module("onnx.helper"), where.find_module("onnxruntime")
    runtime.set_default_logger_severity(4)


class Refused(Exception):
    """ONNX Runtime does not take the node, or its values are of no use."""


class Program:
    def __init__(self, seed):
        self.random, self.numpy = random.Random(seed), np.random.RandomState(seed)
        self.opset = self.random.choice([11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21])
        self.nodes, self.constants, self.inputs, self.values = [], [], {}, {}
        shape = [self.extent() for _ in range(self.random.choice([1, 2, 3, 4, 4]))]
        while np.prod(shape) > 6000:
            shape[self.random.randrange(len(shape))] = 2
        self.input(shape)
        self.input([1 if self.random.random() < 0.3 else extent for extent in shape])
        if self.random.random() < 0.3:
            self.input(shape, np.int64)

    def extent(self):
        return self.random.choice([1, 1, 2, 3, 4, 5, 8, 12, 17, 33] + [0] * (self.random.random() < 0.1))

    def input(self, shape, dtype=np.float32):
        values = self.numpy.randn(*shape) if dtype == np.float32 else self.numpy.randint(-5, 6, shape)
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values[name] = np.asarray(values, dtype)

    def constant(self, values, dtype=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weights(self, *shape):
        return self.constant(self.numpy.randn(*shape))

    def model(self, nodes, inputs, results):
        """Types of results are left to whoever reads the model."""
        used = {name for node in nodes for name in names_of(node)}
        graph = onnx.helper.make_graph(
            nodes, "graph",
            [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype),
                                                value.shape)
             for name, value in inputs.items() if name in used],
            [onnx.ValueInfoProto(name=name) for name in results],
            [constant for constant in self.constants if constant.name in used])
        versions = [onnx.helper.make_opsetid("", self.opset), onnx.helper.make_opsetid("com.microsoft", 1)]
        return onnx.helper.make_model(graph, opset_imports=versions, ir_version=8)

    def run(self, nodes, inputs, results):
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        model = self.model(nodes, inputs, results)
        try:
            session = runtime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
            return session.run(None, {given.name: inputs[given.name] for given in session.get_inputs()})
        except Exception as error:  # its types of errors have no common base
            raise Refused(str(error)) from error

    def add(self, operator, inputs, results=1, body=None, **attributes):
        """One node more, if ONNX Runtime computes it from the values that are there."""
        names = [f"v{len(self.nodes)}_{k}" for k in range(results)]
        node = onnx.helper.make_node(operator, inputs, names, **attributes)
        values = self.run([node], self.values, names)
        for value in values:
            if not isinstance(value, np.ndarray) or value.size > 20000 or value.dtype == np.float16:
                raise Refused
            if value.dtype == np.float32 and not (np.isfinite(value).all() and (abs(value) < 1e4).all()):
                raise Refused
        self.nodes.append(node)
        self.values.update(zip(names, values))

    def pick(self, dtype=None, rank=None):
        names = [name for name, value in self.values.items()
                 if dtype in (None, value.dtype) and (rank is None or value.ndim in rank)]
        if not names:
            raise Refused
        return self.random.choice(names[-4:] if self.random.random() < 0.8 else names)

    def make(self):
        for _ in range(60):
            if len(self.nodes) >= 9:
                break
            try:
                self.random.choice(FAMILIES)(self, self.random)
            except (Refused, ValueError, IndexError, ZeroDivisionError):
                pass  # (empty axes have no places, groups or factors)
        return self

    def results(self):
        return [name for name in self.values if name not in self.inputs]

    def __str__(self):
        return f"opset {self.opset}: " + "; ".join(
            f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)}"
            + "".join(f", {a.name}={onnx.helper.get_attribute_value(a)}" for a in node.attribute
                      if a.type != onnx.AttributeProto.GRAPH) + ")" for node in self.nodes)


def names_of(node):
    """What the node reads, its bodies included."""
    names = list(node.input)
    for attribute in node.attribute:
        for inner in attribute.g.node:
            names += names_of(inner)
    return names


def axis_of(p, name):
    rank = p.values[name].ndim
    return p.random.randrange(-rank, rank)


def elements(p, r):
    if r.random() < 0.5:
        p.add(r.choice(UNARY), [p.pick(np.float32)])
    else:
        a = p.pick()
        p.add(r.choice(BINARY), [a, p.pick(p.values[a].dtype)])


def choices(p, r):
    a = p.pick(np.float32)
    if r.random() < 0.3:
        p.add("Clip", [a, p.constant(-0.5), p.constant(0.7)])
    elif r.random() < 0.5:
        p.add("Cast", [p.pick()], to=r.choice([1, 6, 7, 9]))
    else:
        p.add("Where", [p.pick(np.bool_), a, r.choice([p.constant(0.5), p.pick(np.float32)])])


def views(p, r):
    a = p.pick()
    shape, axis = p.values[a].shape, axis_of(p, a)
    rank = len(shape)
    kind = r.randrange(9)
    if kind == 0:
        p.add("Transpose", [a], perm=r.sample(range(rank), rank))
    elif kind == 1:
        p.add("Reshape", [a, p.constant([-1, r.choice([1, 2, 3, 4])], np.int64)])
    elif kind == 2:
        begin, end = r.randint(-3, 3), r.randint(-3, 40)
        lists = [p.constant([n], np.int64) for n in (begin, end, axis, r.choice([1, 2, -1]))]
        p.add("Slice", [a, *lists])
    elif kind == 3:
        p.add("Concat", [a, r.choice([a, p.pick(p.values[a].dtype)])], axis=axis)
    elif kind == 4:
        p.add("Expand", [a, p.constant([r.choice([1, 2, n]) for n in (3, *shape)], np.int64)])
    elif kind == 5:
        p.add("Tile", [a, p.constant([r.randint(0 if r.random() < 0.1 else 1, 2) for _ in shape], np.int64)])
    elif kind == 6:
        pads = p.constant([r.randint(0, 2) for _ in range(2 * rank)], np.int64)
        p.add("Pad", [a, pads], mode=r.choice(["constant", "reflect", "edge"]))
    elif kind == 7:
        p.add(r.choice(["Squeeze", "Flatten", "Shape", "Size"]), [a])
    else:
        inputs = [a, p.constant([axis], np.int64)] if p.opset >= 13 else [a]
        p.add("Unsqueeze", inputs, **({} if p.opset >= 13 else {"axes": [abs(axis)]}))


def parts(p, r):
    a = p.pick()
    axis = axis_of(p, a)
    extent = p.values[a].shape[axis]
    kind = r.randrange(6)
    if kind == 0:
        places = p.numpy.randint(-extent, extent, [r.choice([0, 1, 3]), 2])
        p.add("Gather", [a, p.constant(places, np.int64)], axis=axis)
    elif kind == 1:
        places = p.numpy.randint(-extent, extent, p.values[a].shape)
        p.add("GatherElements", [a, p.constant(places, np.int64)], axis=axis)
    elif kind == 2:
        shape = [r.randint(1, n) for n in p.values[a].shape]
        places = np.argsort(p.numpy.rand(*p.values[a].shape), axis)[tuple(slice(n) for n in shape)]
        updates = p.constant(p.numpy.randn(*shape) * 3, p.values[a].dtype)
        p.add("ScatterElements", [a, p.constant(places, np.int64), updates], axis=axis)
    elif kind == 3:
        count = p.constant([r.randint(0, extent)], np.int64)
        p.add("TopK", [a, count], 2, axis=axis, largest=r.randint(0, 1))
    elif kind == 4 and extent > 1 and p.opset >= 13:
        first = r.randint(1, extent - 1)
        p.add("Split", [a, p.constant([first, extent - first], np.int64)], 2, axis=axis)
    else:
        p.add("Trilu", [a], upper=r.randint(0, 1))


def reductions(p, r):
    a = p.pick(np.float32)
    if not p.values[a].size:  # of no elements only a sum is defined
        return p.add("ReduceSum", [a])
    axis = axis_of(p, a)
    operator = r.choice(REDUCTIONS + ["ArgMax", "ArgMin", "Softmax", "LogSoftmax", "Hardmax", "CumSum"])
    if operator == "CumSum":
        p.add(operator, [a, p.constant(axis, np.int64)], exclusive=r.randint(0, 1), reverse=r.randint(0, 1))
    elif not operator.startswith("Reduce"):
        p.add(operator, [a], axis=axis)
    elif p.opset >= (13 if operator == "ReduceSum" else 18):
        axes = r.choice([[], [axis], [axis], list({0, axis % p.values[a].ndim})])
        options = {"noop_with_empty_axes": r.randint(0, 1)} if r.random() < 0.3 else {}
        p.add(operator, [a, p.constant(axes, np.int64)], keepdims=r.randint(0, 1), **options)
    else:
        p.add(operator, [a], keepdims=r.randint(0, 1), **r.choice([{}, {"axes": [axis]}]))


def products(p, r):
    a = p.pick(np.float32)
    last = p.values[a].shape[-1]
    kind = r.randrange(4)
    if kind == 0:
        p.add("MatMul", [a, p.weights(last, r.choice([1, 5, 16]))])
    elif kind == 1:
        p.add("Gemm", [a, p.weights(3, last), p.weights(3)], transB=1, alpha=0.5, beta=2.0)
    elif kind == 2:
        p.add("Einsum", [a, p.weights(last, 2)], equation="...i,ij->...j")
    elif p.opset >= 17:  # (ONNX Runtime takes it earlier, too)
        p.add("LayerNormalization", [a, p.weights(last)])


def windows(p, r):
    a = p.pick(np.float32, (3, 4))
    channels, axes = p.values[a].shape[1], p.values[a].ndim - 2
    kernel, strides = [r.choice([1, 2, 3])] * axes, [r.choice([1, 2])] * axes
    kind = r.randrange(4)
    if kind == 0:
        groups = r.choice([1, channels])
        padding = r.choice([{}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"},
                            {"pads": [1] * 2 * axes}])
        weights = p.weights(groups * r.choice([1, 2]), channels // groups, *kernel)
        p.add("Conv", [a, weights], group=groups, strides=strides, **padding)
    elif kind == 1:
        p.add("ConvTranspose", [a, p.weights(channels, 3, *kernel)], strides=strides)
    elif kind == 2:
        if min(p.values[a].shape[2:]) < 2:  # (a kernel that is larger than its input is refused)
            raise Refused
        pads = [r.randint(0, 1) for _ in range(2 * axes)]
        p.add(r.choice(["MaxPool", "AveragePool"]), [a], kernel_shape=[2] * axes, strides=strides, pads=pads,
              ceil_mode=r.randint(0, 1))
    else:  # exact factors: with broken ones ONNX Runtime rounds places otherwise than the specification
        p.add("Resize", [a, "", p.constant([1, 1] + [r.choice([1, 2, 0.5])] * axes)],
              mode=r.choice(["nearest", "linear"]),
              coordinate_transformation_mode=r.choice(["half_pixel", "asymmetric", "pytorch_half_pixel"]))


def quantised(p, r):
    a = p.pick(np.float32)
    last = p.values[a].shape[-1]
    zero = p.constant(r.randint(100, 150), np.uint8)
    if r.random() < 0.5:
        p.add("QuantizeLinear", [a, p.constant(0.03125), zero])
        p.add("DequantizeLinear", [f"v{len(p.nodes) - 1}_0", p.constant(0.03125), zero])
    else:
        p.add("QuantizeLinear", [a, p.constant(0.0625), zero])
        weights = p.constant(p.numpy.randint(-128, 128, [last, 3]), np.int8)
        p.add("MatMulInteger", [f"v{len(p.nodes) - 1}_0", weights, zero])


def runtimes_own(p, r):
    """Operators of ONNX Runtime, as its quantisers and its optimiser write them."""
    a, own = p.pick(np.float32), {"domain": "com.microsoft"}
    shape, kind = p.values[a].shape, r.randrange(9)
    last = shape[-1]
    if kind == 4 and len(shape) != 3 or kind == 8 and min(shape[2:], default=0) < 2:
        raise Refused  # (a kernel that is larger than its input is)
    if kind == 0:
        p.add(r.choice(["Gelu", "FastGelu", "QuickGelu"]), [a], **own)
    elif kind == 1:
        p.add("BiasGelu", [a, p.weights(last)], **own)
    elif kind == 2:
        p.add("FusedMatMul", [a, p.weights(3, last)], transB=1, alpha=0.5, **own)
    elif kind == 3:
        activation = r.choice([{"activation": "Relu"}, {"activation": "LeakyRelu", "activation_alpha": 0.2}])
        p.add("FusedGemm", [a, p.weights(3, last), p.weights(3)], transB=1, **activation, **own)
    elif kind == 4:
        p.add(r.choice(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"]),
              [a, p.weights(*shape), p.weights(last)], epsilon=1e-5, **own)
    elif kind == 5:
        b = p.constant(p.numpy.randint(-128, 128, [last, 3]), np.int8)
        p.add("DynamicQuantizeMatMul", [a, b, p.constant(0.02)], **own)
    elif kind == 6:
        data = p.constant(p.numpy.randint(0, 256, [5, 16]), np.uint8)
        index = p.constant(p.numpy.randint(-5, 5, [2, 3]), np.int64)
        scales = p.constant(p.numpy.rand(5, 2))
        p.add("GatherBlockQuantized", [data, index, scales], bits=4, block_size=16, quantize_axis=1, **own)
    else:
        x, zero = (p.constant(0.03125), p.constant(128, np.uint8)), p.constant(120, np.uint8)
        p.add("QuantizeLinear", [a, *x], **r.choice([{}, own]))
        q, y = f"v{len(p.nodes) - 1}_0", [p.constant(0.015625), zero]
        if kind == 7:
            p.add("QLinearSoftmax", [q, *x, *y], axis=-1, opset=13, **own)
        else:
            p.add("QLinearAveragePool", [q, *x, *y], kernel_shape=[2] * (len(shape) - 2),
                  channels_last=0, **own)
        p.add("DequantizeLinear", [f"v{len(p.nodes) - 1}_0", *y], **r.choice([{}, own]))


def body_of(p, name, nodes, inputs, results):
    info = onnx.helper.make_tensor_value_info
    return onnx.helper.make_graph(
        nodes, name, [info(n, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(t)), s) for n, t, s in inputs],
        [info(n, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(t)), s) for n, t, s in results])


def control(p, r):
    a = p.pick(np.float32)
    shape, kind, node = list(p.values[a].shape), r.randrange(3), onnx.helper.make_node
    step = r.choice(["Tanh", "Sigmoid", "Sin", "Neg"])
    if kind == 0:  # the branches read what stands outside
        then = body_of(p, "then", [node(step, [a], ["t"])], [], [("t", "f4", shape)])
        other = body_of(p, "other", [node("Mul", [a, a], ["e"])], [], [("e", "f4", shape)])
        condition = p.constant(r.random() < 0.5, np.bool_)
        if r.random() < 0.6:
            p.add("ReduceMax", [a], keepdims=0)
            p.add("Less", [f"v{len(p.nodes) - 1}_0", p.constant(0.5)])
            condition = f"v{len(p.nodes) - 1}_0"
        p.add("If", [condition], then_branch=then, else_branch=other)
    elif kind == 1:
        inner = [node("Identity", ["go"], ["on"]), node(step, ["s"], ["u"]), node("Add", ["u", a], ["s2"]),
                 node("Identity", ["u"], ["each"])]
        body = body_of(p, "body", inner, [("i", "i8", []), ("go", "?", []), ("s", "f4", shape)],
                       [("on", "?", []), ("s2", "f4", shape), ("each", "f4", shape)])
        p.add("Loop", [p.constant(r.randint(0, 4), np.int64), p.constant(True, np.bool_), a], 2, body=body)
    else:
        inner = [node("Add", ["s", "x"], ["t"]), node(step, ["t"], ["s2"]), node("Mul", ["s2", "x"], ["y"])]
        body = body_of(p, "body", inner, [("s", "f4", shape[1:]), ("x", "f4", shape[1:])],
                       [("s2", "f4", shape[1:]), ("y", "f4", shape[1:])])
        p.add("Scan", [p.weights(*shape[1:]), a], 2, body=body, num_scan_inputs=1,
              scan_input_directions=[r.randint(0, 1)])


FAMILIES = [elements] * 6 + [views] * 5 + [parts] * 3 + [reductions] * 3 + [products] * 2 + [
    windows, windows, choices, choices, quantised, control, runtimes_own, runtimes_own]


def differs(name, got, wanted, near):
    """What ONNX Runtime changes where the inputs do by a few units in the last place is allowed, several
    times; integers that do not change are exact."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{name} is {got.dtype}{list(got.shape)}, {wanted.dtype}{list(wanted.shape)} wanted"
    if not got.size or near.shape != wanted.shape:
        return None
    got, wanted, near = (value.astype("f8") for value in (got, wanted, near))
    off, moved = abs(got - wanted).max(), abs(near - wanted).max()
    allowed = 2e-5 * abs(wanted).max() + 16 * moved
    return None if off <= allowed else f"{name} is off by {off:.3g}, {allowed:.3g} is allowed"


class RandomGraphs(unittest.TestCase):
    def check(self, seed):
        program = Program(seed).make()
        results = program.results()
        if not results:
            return False
        close = {name: value if value.dtype != np.float32 else value * np.float32(1 + 3e-7)
                 for name, value in program.inputs.items()}
        with self.subTest(seed=seed, program=str(program)), tempfile.TemporaryDirectory() as folder:
            near = dict(zip(results, program.run(program.nodes, close, results)))
            path = pathlib.Path(os.environ.get("LUMINAL_RANDOM_FAILURES", folder)) / f"{seed}.onnx"
            order = list(program.nodes)
            if seed % 4 == 0:  # converters append nodes: the order of the file is not that of use
                program.random.shuffle(order)
            model = program.model(order, program.inputs, results)
            onnx.save(model, path)
            np.savez(path.with_suffix(".npz"), **program.inputs)
            made = pl.from_onnx(path)
            got = dict(zip(made.outputs, made(**{name: program.inputs[name] for name in made.inputs})))
            for name in results:
                self.assertIsNone(differs(name, got[name], program.values[name], near[name]))
            path.unlink()
            path.with_suffix(".npz").unlink()
        return True

    def test_sizes_of_other_inputs(self):
        """Resize to the size of another input, and places whose number changes: one program for all."""
        node, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
        constants = {"zero": [0], "two": [2], "four": [4]}
        sizes = [((1, 2, 4, 4), (1, 2, 8, 8)), ((1, 2, 3, 5), (1, 2, 7, 6)), ((1, 2, 8, 6), (1, 2, 3, 4))]
        found = []
        for mode in ("nearest", "linear", "cubic"):
            for places in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
                words = {"nearest_mode": "floor"} if mode == "nearest" else {}
                resize = [node("Shape", ["z"], ["sz"]), node("Slice", ["sz", "two", "four"], ["hw"]),
                          node("Shape", ["x"], ["sx"]), node("Slice", ["sx", "zero", "two"], ["nc"]),
                          node("Concat", ["nc", "hw"], ["s"], axis=0),
                          node("Resize", ["x", "", "", "s"], ["y"], mode=mode,
                               coordinate_transformation_mode=places, **words)]
                inputs = [info("x", 1, ["b", 2, "h", "w"]), info("z", 1, ["b", 2, "u", "v"])]
                found.append((f"{mode} {places}", resize, inputs, [
                    {"x": np.random.randn(*x).astype("f4"), "z": np.zeros(z, "f4")} for x, z in sizes]))
        for how in ("none", "add", "max"):
            put = [node("ScatterND", ["x", "i", "u"], ["t"], reduction=how),
                   node("GatherND", ["t", "i"], ["y"])]
            inputs = [info("x", 1, ["n", 3, 2]), info("i", 7, ["k", 2]), info("u", 1, ["k", 2])]
            found.append((f"scatter {how}", put, inputs, [
                {"x": np.random.randn(n, 3, 2).astype("f4"), "u": np.random.randn(k, 2).astype("f4"),
                 "i": np.array([divmod(p, 3) for p in np.random.permutation(3 * n)[:k]])}
                for n, k in ((4, 5), (2, 1), (6, 9))]))
        for title, nodes, inputs, sets in found:
            with self.subTest(title), tempfile.TemporaryDirectory() as folder:
                graph = onnx.helper.make_graph(
                    nodes, "graph", inputs, [onnx.ValueInfoProto(name="y")],
                    [onnx.numpy_helper.from_array(np.array(v), name) for name, v in constants.items()])
                path = pathlib.Path(folder) / "sizes.onnx"
                onnx.save(onnx.helper.make_model(
                    graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), path)
                made, session = pl.from_onnx(path), runtime.InferenceSession(str(path))
                for values in sets:
                    wanted = session.run(["y"], values)[0]
                    got = made(**{name: values[name] for name in made.inputs})
                    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)

    def test_graphs(self):
        first, count = map(int, os.environ.get("LUMINAL_RANDOM_SEEDS", "0:120").split(":"))
        checked = sum(bool(self.check(seed)) for seed in range(first, first + count))
        self.assertGreater(checked, count // 2)


if __name__ == "__main__":
    unittest.main()
