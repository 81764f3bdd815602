# python/tests/test_runner.py -- Runner: a graph over memory that others own.
import unittest

import luminal as pl
import numpy as np


def address(array):
    return array.ctypes.data


class Runner(unittest.TestCase):
    def test_reads_and_writes_in_place(self):
        for rows in (3, 300):  # small results are copied, large ones written in place
            with pl.Graph() as g:
                n = g.dim("n", 1, 1000)
                x, y = g.input((n, 100)), g.input((100,))
                runner = pl.Runner(g, ["n"], [x, y], [x * 2 + y, (x + 1).sum(0)])
            for size in (rows, rows + 1):
                a, b = np.random.rand(size, 100).astype("f4"), np.random.rand(100).astype("f4")
                c, d = np.full((size, 100), np.nan, "f4"), np.full(100, np.nan, "f4")
                runner.run([size], [address(a), address(b)], [address(c), address(d)])
                np.testing.assert_allclose(c, a * 2 + b, rtol=1e-6)
                np.testing.assert_allclose(d, (a + 1).sum(0), rtol=1e-5)

    def test_results_that_are_inputs_or_constants(self):
        with pl.Graph() as g:
            x = g.input((20000,))
            same, three = x.contiguous(), g.constant([3.0]).expand(20000).contiguous()
            runner = pl.Runner(g, [], [x], [same, three])
        a = np.random.rand(20000).astype("f4")
        b, c = np.zeros_like(a), np.zeros_like(a)
        runner.run([], [address(a)], [address(b), address(c)])
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(c, 3)

    def test_states_of_the_caller(self):
        with pl.Graph() as g:
            x = g.input((50, 400))
            total, last = g.state("total", (50, 400)), g.state("last", (400,))
            g.update(total, total * 0.5 + x)
            g.update(last, x.flip(0)[0] + last)
            y = total.sum(0)  # of the old one
            runner = pl.Runner(g, [], [x, total, last], [y])
            a = np.random.rand(50, 400).astype("f4")
            for _ in range(2):  # each time in other memory
                b, c = np.random.rand(50, 400).astype("f4"), np.random.rand(400).astype("f4")
                old, before, made = b.copy(), c.copy(), np.zeros(400, "f4")
                runner.run([], [address(a), address(b), address(c)], [address(made)])
                np.testing.assert_allclose(b, old * 0.5 + a, rtol=1e-6)
                np.testing.assert_allclose(c, before + a[-1], rtol=1e-6)
                np.testing.assert_allclose(made, old.sum(0), rtol=1e-5)

    def test_mistakes(self):
        with pl.Graph() as g:
            x = g.input((3,))
            y = x + 1
            runner = pl.Runner(g, [], [x], [y])
            other = pl.Graph()

            def wrong(text, call):
                with self.assertRaises(pl.Error) as caught:
                    call()
                self.assertIn(text, str(caught.exception))
            wrong("[run] 0 sizes, 1 inputs and 1 outputs are needed; 1, 0 and 1 were given",
                  lambda: runner.run([1], [], [0]))
            wrong(" is not an input: only a tensor made by tensor reads the caller's memory",
                  lambda: pl.Runner(g, [], [y], [y]))
            wrong("the graph has no dimension m", lambda: pl.Runner(g, ["m"], [x], [y]))
            wrong("argument x takes 12 bytes; none were given", lambda: self.run_nothing())
            a = np.zeros(3, "f4")
            runner.run([], [address(a)], [address(a.copy())])
            y.drop()
            z = (x * 2).keep()
            wrong(" is not kept any more", lambda: runner.run([], [address(a)], [address(a)]))
            del z, other

    def run_nothing(self):
        with pl.Graph() as g:
            x = g.input((3,), name="x")
            pl.Runner(g, [], [x], [x + 1]).run([], [0], [0])


if __name__ == "__main__":
    unittest.main()
