# python/tests/test_lowering.py -- ATen operators to terms without PyTorch: graphs and values that
# tests/pytorch/recorded.py recorded.
import pathlib
import sys
import unittest

import luminal as pl
import luminal.torch.operators  # noqa: F401
import numpy as np
from luminal.torch.terms import OPERATORS, Lowering, Node, Ref, Type, Unsupported, promoted

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pytorch"))
import recorded  # noqa: E402

WORDS = {"float32": "f32", "int64": "i64", "float64": "f64", "bool": "bool"}


class Lowered(unittest.TestCase):
    def test_recorded_graphs(self):
        names = set()
        for name, nodes, inputs, results in recorded.read():
            with self.subTest(name), pl.Graph() as graph:
                lowering = Lowering(graph, lambda expression: expression)
                for input_, value in inputs.items():
                    lowering.values[input_] = pl.tensor(value)
                for node in nodes:
                    lowering.add(node)
                    names.add(node.op)
                kept = [lowering.value_of(node).contiguous().keep() for node, _ in results]
                graph.execute()
                for tensor, (node, wanted) in zip(kept, results):
                    got = tensor.numpy()
                    self.assertEqual((got.shape, got.dtype), (wanted.shape, wanted.dtype), node)
                    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5, err_msg=f"{name} {node}")
        self.assertGreater(len(names), 50)  # the file reaches that many operators
        self.assertLessEqual(names - {"getitem"}, set(OPERATORS))

    def test_joined_parts_that_agree_by_guards(self):
        """[4, 2] and [n // 2, 2] side by side: PyTorch's guards say n // 2 == 4; other sizes are refused."""
        with pl.Graph() as graph:
            n = graph.dim("n", 4, 20)
            half = n // 2
            a, b = pl.input((4, 2), name="a"), pl.input((half, 2), name="b")
            lowering = Lowering(graph, lambda expression: expression)
            lowering.values.update(a=a, b=b)
            lowering.add(
                Node("y", "aten.cat.default", ([Ref("a"), Ref("b")], 1), {}, Type("f32", (half, 4)))
            )
            y = lowering.value_of("y").keep()
            x = np.arange(8, dtype=np.float32).reshape(4, 2)
            a.set(x)
            graph.set_dim("n", 8)
            b.set(x + 1)
            graph.execute()
            np.testing.assert_array_equal(y.numpy(), np.concatenate([x, x + 1], 1))
            graph.set_dim("n", 12)
            b.set(np.zeros((6, 2), np.float32))
            with self.assertRaises(pl.Error):
                graph.execute()

    def test_what_is_refused(self):
        def add(op, *args, dtype="f32", shape=(2,)):
            with pl.Graph() as graph:
                lowering = Lowering(graph, lambda expression: expression)
                lowering.values["x"] = pl.tensor([1.0, 2.0])
                lowering.add(Node("y", op, args, {}, Type(dtype, shape)))

        with self.assertRaisesRegex(Unsupported, "the operator is not known"):
            add("aten.linalg_inv_ex.default", Ref("x"))
        with self.assertRaisesRegex(Unsupported, "elements are complex64"):
            add("aten.add.Tensor", Ref("x"), 1, dtype="complex64")
        with self.assertRaisesRegex(
            Unsupported, r"its result would have the shape \[2\] where PyTorch has \[3\]"
        ):
            add("aten.exp.default", Ref("x"), shape=(3,))
        with self.assertRaisesRegex(Unsupported, "complex numbers"):
            add("aten.add.Tensor", Ref("x"), 1j)

    def test_promotion(self):
        for a, b, wanted in (
            ("u8", "i8", "i16"),
            ("f16", "bf16", "f32"),
            ("i64", "f16", "f16"),
            ("bool", "u8", "u8"),
            ("i32", "i64", "i64"),
            ("f32", "f64", "f64"),
        ):
            self.assertEqual((promoted(a, b), promoted(b, a)), (wanted, wanted))


if __name__ == "__main__":
    unittest.main()
