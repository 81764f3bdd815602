# python/tests/test_onnx_fused.py -- fused operators of ONNX Runtime's optimisers (com.microsoft) with random
# options, beside ONNX Runtime; slices that end at another input's size.
# LUMINAL_RANDOM_SEEDS=FIRST:COUNT runs other ones.
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


def setUpModule():
    global onnx, runtime
    onnx, runtime = where.find_module("onnx.helper"), where.find_module("onnxruntime")
    runtime.set_default_logger_severity(4)


class Model:
    """One fused node: inputs of dynamic sizes, weights, two sets of values."""

    def __init__(self, seed):
        self.random, self.numpy = random.Random(seed), np.random.RandomState(seed)
        self.names, self.inputs, self.weights, self.words, self.results = [], {}, [], {}, ["y"]
        self.before = []  # nodes
        self.sizes = [self.some_sizes() for _ in range(2)]

    def some_sizes(self):
        pick = self.random.randint
        sizes = {"b": pick(1, 3), "s": pick(1, 5), "p": pick(1, 4), "l": pick(1, 6)}
        return {**sizes, "t": sizes["s"] + sizes["p"]}

    def maybe(self, share=0.5):
        return self.random.random() < share

    def floats(self, *shape):
        return self.numpy.randn(*shape).astype("f4")

    def put(self, place, name):
        self.names += [""] * (place + 1 - len(self.names))
        self.names[place] = name

    def input(self, place, name, shape, made=None, dtype="f4"):
        """made: of sizes and the shape's numbers, its values."""
        self.put(place, name)
        values = []
        for sizes in self.sizes:
            extents = [sizes.get(extent, extent) for extent in shape]
            values.append((made(sizes, *extents) if made else self.floats(*extents)).astype(dtype))
        self.inputs[name] = (shape, values)

    def weight(self, place, name, values):
        self.put(place, name)
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(values), name))

    def mask(self, place, keys):
        """Of lengths, or of keys, where each query sees one at least."""

        def lengths(sizes, batch):
            return self.numpy.randint(1, sizes[keys] + 1, batch)

        def seen(sizes, *shape):
            found = self.numpy.randint(0, 2, shape)
            found[..., 0] = 1
            return found

        shape = self.random.choice([["b"], ["b", keys], ["b", "s", keys]])
        self.input(place, "mask", shape, lengths if len(shape) == 1 else seen, "i4")

    def tables(self, pairs):
        angles = np.outer(np.arange(32), 0.1 ** (np.arange(pairs) / pairs))
        return np.cos(angles).astype("f4"), np.sin(angles).astype("f4")

    def attention(self, name="Attention"):
        heads, size = self.random.choice([1, 2, 3]), 4
        hidden = heads * size
        self.words = {"num_heads": heads, "unidirectional": int(self.maybe())}
        if name == "QAttention":
            self.input(0, "x", ["b", "s", hidden], lambda _, *e: self.numpy.randint(0, 256, e), "u1")
            self.weight(1, "w", self.numpy.randint(-99, 99, (hidden, 3 * hidden)).astype("i1"))
            self.weight(2, "bias", self.floats(3 * hidden))
            self.weight(3, "xs", np.float32(0.02))
            self.weight(4, "ws", np.float32(0.01))
            self.weight(6, "xz", np.uint8(120))
            self.weight(7, "wz", np.int8(self.random.choice([0, 3])))
            mask, past = 5, 8
        else:
            self.input(0, "x", ["b", "s", hidden])
            self.weight(1, "w", self.floats(hidden, 3 * hidden) / 2)
            self.weight(2, "bias", self.floats(3 * hidden))
            mask, past = 3, 4
        keys = "s"
        if self.maybe():
            keys = "t"
            self.input(past, "past", [2, "b", heads, "p", size])
            self.results.append("present")
        elif name == "Attention" and self.maybe():
            self.input(5, "scores", [self.random.choice([1, "b"]), heads, "s", "s"])
        if self.maybe():
            self.mask(mask, keys)
        return name

    def quantised_attention(self):
        return self.attention("QAttention")

    def multi_head_attention(self):
        heads, size = self.random.choice([1, 2, 3]), 4
        hidden, keys = heads * size, "l"
        self.words = {"num_heads": heads}
        self.input(0, "q", ["b", "s", hidden])
        apart = self.maybe(0.2)
        if apart:  # of another sequence, which lies there already
            self.input(1, "k", ["b", heads, "l", size])
            self.input(2, "v", ["b", heads, "l", size])
        else:
            if self.maybe():
                keys = "s"
                self.words["unidirectional"] = int(self.maybe())
            self.input(1, "k", ["b", keys, hidden])
            self.input(2, "v", ["b", keys, hidden])
            if self.maybe():
                self.weight(3, "bias", self.floats(3 * hidden))
            if keys == "s" and self.maybe():
                keys = "t"
                self.input(6, "past_k", ["b", heads, "p", size])
                self.input(7, "past_v", ["b", heads, "p", size])
                self.results += ["present_k", "present_v"]
        if self.maybe():
            self.mask(4, keys)
        if self.maybe():
            self.input(5, "scores", ["b", self.random.choice([1, heads]), "s", keys])
        return "MultiHeadAttention"

    def group_query_attention(self):
        groups, size = self.random.choice([1, 2]), 16
        heads = groups * self.random.choice([1, 2, 3])
        self.words = {"num_heads": heads, "kv_num_heads": groups}
        past = self.maybe(0.6)
        if past:
            for sizes in self.sizes:  # one new place, of sequences of several lengths
                sizes.update(s=1, t=1 + sizes["p"])
        if self.maybe():
            self.input(0, "q", ["b", "s", (heads + 2 * groups) * size])
        else:
            self.input(0, "q", ["b", "s", heads * size])
            self.input(1, "k", ["b", "s", groups * size])
            self.input(2, "v", ["b", "s", groups * size])
        keys = "t" if past else "s"
        if past:
            self.input(3, "past_k", ["b", groups, "p", size])
            self.input(4, "past_v", ["b", groups, "p", size])
        self.results += ["present_k", "present_v"]

        def lengths(sizes, batch):  # less 1; the longest one fills the keys
            found = self.numpy.randint(1, sizes["t"], batch) if past else np.full(batch, sizes["s"] - 1)
            found[0] = sizes[keys] - 1
            return found

        self.input(5, "lengths", ["b"], lengths, "i4")
        self.input(6, "mask", ["b", keys], lambda _, *e: np.ones(e), "i4")
        self.names[6] = "longest"
        self.weights.append(onnx.numpy_helper.from_array(np.int64(1), "one"))
        self.before = [
            onnx.helper.make_node("Shape", ["mask"], ["shape"]),
            onnx.helper.make_node("Gather", ["shape", "one"], ["extent"]),
            onnx.helper.make_node("Cast", ["extent"], ["longest"], to=onnx.TensorProto.INT32),
        ]
        if self.maybe():
            self.words |= {"do_rotary": 1, "rotary_interleaved": int(self.maybe())}
            cosines, sines = self.tables(size // 2)
            self.weight(7, "cosines", cosines)
            self.weight(8, "sines", sines)
            if self.maybe():
                self.input(9, "places", ["b", "s"], lambda _, *e: self.numpy.randint(0, 25, e), "i8")
        if self.maybe(0.3):
            self.input(10, "scores", [self.random.choice([1, "b"]), 1, "s", keys])
        if self.maybe(0.3):
            self.weight(11, "sink", self.floats(heads))
        elif self.maybe(0.3):
            self.words["smooth_softmax"] = 1
        if self.maybe(0.3):
            self.words["local_window_size"] = self.random.randint(1, 3)
        if self.maybe(0.3):
            self.words["softcap"] = 2.0
        return "GroupQueryAttention"

    def rotary_embedding(self):
        size, turned = 8, self.random.choice([0, 4])
        self.words = {"interleaved": int(self.maybe())}
        if turned:
            self.words |= {"rotary_embedding_dim": turned, "num_heads": 3}
        self.input(0, "x", ["b", "s", 3 * size] if self.maybe() else ["b", 3, "s", size])
        one = self.maybe()
        self.input(
            1, "places", [1] if one else ["b", "s"], lambda _, *e: self.numpy.randint(0, 25, e), "i8"
        )
        cosines, sines = self.tables((turned or size) // 2)
        self.weight(2, "cosines", cosines)
        self.weight(3, "sines", sines)
        return "RotaryEmbedding"

    def embedding(self):
        def below(count):
            return lambda _, *extents: self.numpy.randint(0, count, extents)

        self.words = {"epsilon": 1e-5}
        self.input(0, "ids", ["b", "s"], below(20), "i4")
        self.weight(2, "words", self.floats(20, 8))
        self.weight(3, "positions", self.floats(16, 8))
        self.weight(5, "gamma", self.floats(8))
        self.weight(6, "beta", self.floats(8))
        if self.maybe():
            self.input(1, "kinds", ["b", "s"], below(2), "i4")
            self.weight(4, "segments", self.floats(2, 8))
        if self.maybe():
            self.input(7, "mask", ["b", "s"], below(2), "i4")
        if self.maybe():
            self.input(8, "places", ["b", "s"], below(16), "i4")
        self.results += ["lengths", "sum"]
        return "EmbedLayerNormalization"

    def skip_normalisation(self):
        centred = self.maybe()
        self.words = {"epsilon": 1e-5}
        self.input(0, "x", ["b", "s", 8])
        self.input(1, "skip", self.random.choice([["b", "s", 8], [1, "s", 8], ["s", 8]]))
        for name in ["gamma"] + (["beta"] if centred else []) + (["bias"] if self.maybe() else []):
            self.weight(len(self.names), name, self.floats(8))
        self.results += ["", "", "sum"]
        return "SkipLayerNormalization" if centred else "SkipSimplifiedLayerNormalization"

    def convolution(self):
        act, numbers = self.random.choice(
            [("Relu", []), ("Tanh", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.7]), ("Sigmoid", [])]
        )
        self.words = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "activation": act}
        if numbers:
            self.words["activation_params"] = numbers
        self.input(0, "x", ["b", 3, 6, 5])
        self.weight(1, "w", self.floats(4, 3, 3, 3))
        self.weight(2, "bias", self.floats(4))
        if self.maybe():
            self.input(3, "z", ["b", 4, 6, 5])
        return "FusedConv"

    def packed_product(self):
        bits, block = self.random.choice([2, 4, 8]), self.random.choice([16, 32])
        depth, columns = self.random.choice([32, 40, 64]), self.random.randint(1, 9)
        blocks = -(-depth // block)
        self.words = {"K": depth, "N": columns, "bits": bits, "block_size": block}
        self.input(0, "x", ["s", depth])
        bytes_ = (columns, blocks, block * bits // 8)
        self.weight(1, "codes", self.numpy.randint(0, 256, bytes_).astype("u1"))
        self.weight(2, "scales", np.abs(self.floats(columns * blocks)) / 10)
        if self.maybe():
            row = (blocks * bits + 7) // 8
            self.weight(3, "zeros", self.numpy.randint(0, 256, columns * row).astype("u1"))
        return "MatMulNBits"

    def slices(self):
        """x[from:n of another input], which may be more than x has."""
        self.input(0, "x", ["s", 3])
        self.input(1, "other", ["l", 2])
        for name, values in (("zero", [0]), ("from", [self.random.choice([0, 1])])):
            self.weights.append(onnx.numpy_helper.from_array(np.array(values), name))
        self.before = [
            onnx.helper.make_node("Shape", ["other"], ["shape"]),
            onnx.helper.make_node("Gather", ["shape", "zero"], ["end"]),
        ]
        self.names = ["x", "from", "end", "zero"]
        return "Slice"

    def build(self):
        kinds = [
            *(self.attention, self.quantised_attention, self.multi_head_attention),
            *(self.group_query_attention, self.group_query_attention, self.rotary_embedding),
            *(self.embedding, self.skip_normalisation, self.convolution, self.packed_product, self.slices),
        ]
        operator = self.random.choice(kinds)()
        words = dict(self.words, domain="" if operator == "Slice" else "com.microsoft")
        nodes = [*self.before, onnx.helper.make_node(operator, self.names, self.results, **words)]
        info = onnx.helper.make_tensor_value_info
        types = {"f4": 1, "i4": 6, "i8": 7, "u1": 2}
        inputs = [
            info(name, types[values[0].dtype.str[1:]], shape)
            for name, (shape, values) in self.inputs.items()
        ]
        results = [info(name, 6 if name == "lengths" else 1, None) for name in self.results if name]
        graph = onnx.helper.make_graph(nodes, "fused", inputs, results, self.weights)
        opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
        return operator, onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


class Fused(unittest.TestCase):
    def check(self, seed, path):
        model = Model(seed)
        operator, made = model.build()
        onnx.save(made, path)
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        ours = pl.from_onnx(path)
        names = [name for name in model.results if name]
        for index in range(2):
            given = {name: values[index] for name, (_, values) in model.inputs.items()}
            wanted = session.run(names, given)
            got = ours(**{name: given[name] for name in ours.inputs})
            found = dict(zip(ours.outputs, got if isinstance(got, (list, tuple)) else [got]))
            for name, value in zip(names, wanted):
                self.assertEqual(found[name].dtype, value.dtype, (operator, name))
                np.testing.assert_allclose(
                    found[name], value, rtol=1e-4, atol=1e-4, err_msg=f"{operator} {name} {model.words}"
                )

    def test_random_options(self):
        first, count = (int(n) for n in os.environ.get("LUMINAL_RANDOM_SEEDS", "0:40").split(":"))
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(first, first + count):
                with self.subTest(seed=seed):
                    self.check(seed, pathlib.Path(folder) / "model.onnx")


if __name__ == "__main__":
    unittest.main()
