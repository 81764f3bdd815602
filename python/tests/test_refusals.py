# python/tests/test_refusals.py -- what is said of arguments that do not fit, and of memory that is not there.
import unittest

import luminal as pl
import numpy as np


class Refusals(unittest.TestCase):
    def test_too_little_memory_has_a_type_and_numbers(self):
        with pl.Graph() as g:
            (pl.zeros((1024, 1024)) @ pl.zeros((1024, 1024)) + 1).keep()
            with self.assertRaisesRegex(pl.OutOfMemoryError, "the limit is 1.0 MiB: take smaller") as caught:
                g.compile(max_memory=1 << 20)
        self.assertIsInstance(caught.exception, pl.Error)
        self.assertEqual(caught.exception.available, 1 << 20)
        self.assertGreater(caught.exception.needed, 1 << 20)
        with pl.Graph() as g:
            n = g.dim("n", 1, 1 << 22)
            x = g.input((n,))
            (x.unsqueeze(0) * x.unsqueeze(1)).keep()
            x.set(np.zeros(1 << 21, np.float32))
            with self.assertRaisesRegex(pl.OutOfMemoryError, "n = 2097152.*take smaller sizes") as caught:
                g.execute()
        self.assertGreater(caught.exception.needed, caught.exception.available)

    def test_arguments_whose_items_do_not_fit(self):
        with self.assertRaisesRegex(TypeError, "shape holds 2.5, not a whole number"):
            pl.zeros((2.5, 3))
        with self.assertRaisesRegex(TypeError, "'float33' is not a dtype; the dtypes are bool, .*f32"):
            pl.zeros((2,), dtype="float33")
        with pl.Graph() as g:
            (pl.zeros((2,)) + 1).keep()
            for seconds in (0, -1, float("nan")):
                with self.assertRaisesRegex(pl.Error, "seconds is how long to search, more than 0"):
                    g.compile(seconds=seconds)
            with self.assertRaisesRegex(TypeError, "max_memory takes a number of bytes, not '1G'"):
                g.compile(max_memory="1G")


if __name__ == "__main__":
    unittest.main()
