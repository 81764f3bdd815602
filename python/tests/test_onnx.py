# python/tests/test_onnx.py -- from_onnx: a file as a graph, run on numpy arrays; save_onnx: back.
import pathlib
import struct
import tempfile
import unittest

import luminal as pl
import numpy as np


def number(field, value):
    """A field of protobuf that is a number (below 128)."""
    return bytes([field << 3, value])


def part(field, value):
    """A field that is a text or a message."""
    value = value.encode() if isinstance(value, str) else value
    length = [len(value)] if len(value) < 128 else [len(value) & 127 | 128, len(value) >> 7]
    return bytes([field << 3 | 2, *length]) + value


def value_info(name, *dims):
    extents = b"".join(part(1, part(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return part(1, name) + part(2, part(1, number(1, 1) + part(2, extents)))


def node(operator, inputs, output):
    return b"".join(part(1, name) for name in inputs) + part(2, output) + part(4, operator)


def whole_numbers(name, values):
    """An attribute; of one number where it is not a list."""
    if isinstance(values, int):
        return part(5, part(1, name) + number(3, values) + bytes([160, 1, 2]))
    return part(5, part(1, name) + b"".join(number(8, value) for value in values) + bytes([160, 1, 7]))


def model(operator="Relu"):
    """y = relu(x @ w) for x of [n, 3], and the product itself."""
    w = number(1, 3) + number(1, 2) + number(2, 1) + part(8, "w")
    w += part(9, struct.pack("<6f", 1, 0, 0, -1, 1, 1))
    graph = part(1, node("MatMul", ["x", "w"], "product")) + part(1, node(operator, ["product"], "y"))
    graph += part(5, w) + part(11, value_info("x", "n", 3))
    graph += part(12, value_info("y", "n", 2)) + part(12, value_info("product", "n", 2))
    return number(1, 8) + part(2, "tests") + part(7, graph) + part(8, number(2, 17))


class Onnx(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "model.onnx"
        self.path.write_bytes(model())

    def tearDown(self):
        self.folder.cleanup()

    def test_a_file_is_a_function_of_arrays(self):
        made = pl.from_onnx(self.path)
        self.assertEqual(repr(made), "OnnxModel(x -> y, product)")
        self.assertEqual((list(made.inputs), list(made.outputs)), (["x"], ["y", "product"]))
        self.assertEqual((made.opsets, made.producer, made.fixed), ({"": 17}, "tests", []))
        w = np.array([[1, 0], [0, -1], [1, 1]], "f4")
        for rows in (1, 5):  # one program for all sizes
            x = np.random.randn(rows, 3).astype("f4")
            for y, product in (made(x), made(x=x)):
                np.testing.assert_allclose(product, x @ w, rtol=1e-6)
                np.testing.assert_allclose(y, np.maximum(x @ w, 0), rtol=1e-6)
        self.assertIn("kernel", made.graph.report())

    def test_windows_larger_than_what_is_left(self):
        """With ceil_mode a window counts that begins inside, also where it is the only one."""
        pool = node("MaxPool", ["x"], "y") + whole_numbers("ceil_mode", 1)
        for name, values in (("kernel_shape", [3, 3]), ("strides", [3, 3]), ("pads", [1, 1, 0, 0])):
            pool += whole_numbers(name, values)
        graph = part(1, pool) + part(11, value_info("x", 1, 1, 5, 1)) + part(12, value_info("y", 1, 1, 2, 1))
        self.path.write_bytes(number(1, 8) + part(2, "tests") + part(7, graph) + part(8, number(2, 17)))
        x = np.array([3, -1, -2, -4, -3], "f4").reshape(1, 1, 5, 1)
        np.testing.assert_array_equal(pl.from_onnx(self.path)(x)[0].flatten(), [3, -2])

    def test_what_is_resized_to_nothing_is_empty(self):
        scales = number(1, 4) + number(2, 1) + part(8, "scales") + part(9, struct.pack("<4f", 1, 1, 0.25, 2))
        graph = part(1, node("Resize", ["x", "", "scales"], "y")) + part(5, scales)
        graph += part(11, value_info("x", 1, 1, 3, 2)) + part(12, value_info("y", 1, 1, "h", 4))
        self.path.write_bytes(number(1, 8) + part(2, "tests") + part(7, graph) + part(8, number(2, 17)))
        made = pl.from_onnx(self.path)
        self.assertEqual(made(np.ones((1, 1, 3, 2), "f4")).shape, (1, 1, 0, 4))

    def test_sizes_are_fixed_or_bounded(self):
        x = np.ones((4, 3), "f4")
        for options in ({"dims": {"n": 4}}, {"shapes": {"x": [4, 3]}}):
            made = pl.from_onnx(self.path, **options)
            self.assertEqual(made.inputs["x"].shape, (4, 3))
            self.assertEqual(made(x)[0].shape, (4, 2))
        self.assertEqual(pl.from_onnx(self.path, dims={"n": (2, 8)}).inputs["x"].shape[0].high, 8)

    def test_a_graph_is_a_file(self):
        made = pl.from_onnx(self.path, dims={"n": (1, 8)})
        again = self.path.with_name("again.onnx")
        pl.save_onnx(again, graph=made.graph, metadata={"author": "nobody"})
        back = pl.from_onnx(again, dims={"n": (1, 8)})
        self.assertEqual(back.metadata, {"author": "nobody"})
        x = np.random.randn(5, 3).astype("f4")
        for wanted, got in zip(sorted(made.outputs), sorted(back.outputs)):
            self.assertEqual(wanted, got)
        for wanted, got in zip(made(x), [dict(zip(back.outputs, back(x)))[name] for name in made.outputs]):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
        with self.assertRaisesRegex(pl.Error, "must end in .onnx"):
            pl.save_onnx(self.path.with_name("again.bin"), graph=made.graph)

    def test_mistakes_are_named(self):
        made = pl.from_onnx(self.path)
        with self.assertRaisesRegex(pl.Error, r"1 inputs are needed \(x\), 0 were given"):
            made()
        with self.assertRaisesRegex(pl.Error, "the model has no input 'z'; it has x"):
            made(z=np.ones((1, 3), "f4"))
        with self.assertRaisesRegex(pl.Error, "none.onnx"):
            pl.from_onnx(self.path.with_name("none.onnx"))
        self.path.write_bytes(model("Hyperbole"))
        with self.assertRaisesRegex(pl.Error, "Hyperbole"):
            pl.from_onnx(self.path)


if __name__ == "__main__":
    unittest.main()
