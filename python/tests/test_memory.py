# python/tests/test_memory.py -- graphs that were dropped leave no memory behind.
import gc
import os
import resource
import unittest

import luminal as pl
import numpy as np


class Memory(unittest.TestCase):
    def test_thousand_graphs_leave_memory_level(self):
        def make(i):
            with pl.Graph() as g:
                x = pl.tensor(np.full((50, 50), i, np.float32))
                y = ((x @ x).relu() + x[::-1]).keep()
                w = pl.weight("w", np.ones((50, 50), np.float32))
                (w * 2).keep()
                if i % 10 == 0:
                    g.execute()
                    y.numpy()

        def used():
            gc.collect()
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize()

        if not os.path.exists("/proc/self/statm"):
            self.skipTest("no /proc on this machine")
        for i in range(200):
            make(i)
        before = used()
        for i in range(1000):
            make(i)
        self.assertLess(used() - before, 24 << 20)  # a graph that stayed would be 30 kB each


if __name__ == "__main__":
    unittest.main()
