# python/tests/test_numpy.py -- numpy's operators and functions of tensors.
import unittest

import luminal as pl
import numpy as np


class Functions(unittest.TestCase):
    def test_functions_of_numpy(self):
        with pl.Graph() as g:
            x = pl.tensor([[1.0, 2], [3, 4]])
            a = np.array([[1, 3], [0, 2]], np.float32)
            made = {"add": (a + x, np.add(x, a)), "subtract": (a - x, np.subtract(a, x)),
                    "matmul": (a @ x, np.matmul(a, x)), "true_divide": (np.float32(2) / x, np.divide(a, x)),
                    "less": (a < x, np.less(x, a)), "power": (x**2, np.power(x, 2.0))}
            for pair in made.values():
                for y in pair:
                    self.assertIsInstance(y.keep(), pl.Tensor)
            g.execute()
            values = np.array([[1, 2], [3, 4]], np.float32)
            for name, want in {"add": (a + values, values + a), "subtract": (a - values, a - values),
                               "matmul": (a @ values, a @ values), "true_divide": (2 / values, a / values),
                               "less": (a < values, values < a), "power": (values**2, values**2)}.items():
                for y, expected in zip(made[name], want):
                    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
            for function, text in ((np.sin, r"\[numpy\] np.sin computes at once, and a Tensor is a term: "
                                            r"write x.sin\(\); np.sin\(x.numpy\(\)\) takes values that are"),
                                   (np.absolute, r"write x.abs\(\)"),
                                   (np.cbrt, r"is a term: np.cbrt\(x.numpy"),
                                   (np.add.reduce, r"np.add.reduce\(x.numpy")):
                with self.assertRaisesRegex(TypeError, text):
                    function(x)
            with self.assertRaisesRegex(TypeError, "np.add computes at once"):
                a += x


if __name__ == "__main__":
    unittest.main()
