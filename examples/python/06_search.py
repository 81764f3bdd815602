# examples/python/06_search.py -- lesson 6: faster kernels by measuring: a search with a time limit,
# which Ctrl-C ends early.
import luminal as pl
import numpy as np

x = pl.tensor(np.ones((64, 256), np.float32), name="x")
w = pl.weight("w", np.full((256, 64), 0.5, np.float32))
y = (x @ w).softmax().keep().set_name("y")

pl.compile(seconds=2)  # progress=True shows a line meanwhile
summary = pl.default_graph().search_summary()
print("kernels:", summary.kernels, "wrong results:", summary.mismatches)
pl.execute()
print("every row sums to 1:", bool(np.allclose(y.numpy().sum(1), 1)))
print("the report names the result:", "y" in pl.report())
