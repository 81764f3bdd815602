# python/tests/test_torch_operator_gradients.py -- gradients of a fixed part of PyTorch's operator data
# base, as test_torch_operators.py has it.
import os
import unittest

from test_torch_operators import run_part


class Gradients(unittest.TestCase):
    def test_gradients(self):
        parts = int(os.environ.get("LUMINAL_TORCH_PARTS", "600")) // 2
        run_part(self, parts, "--gradients", "--dtypes", "f32")


if __name__ == "__main__":
    unittest.main()
