# examples/python/02_dynamic_dimensions.py -- lesson 2: sizes that change from step to step, without
# compiling again.
import luminal as pl
import numpy as np

g = pl.Graph()
batch = g.dim("batch", 1, 1024)  # a name and a range
x = g.input((batch, 4))
mean = x.mean(axis=0).keep()
first_differences = (x[:, 1:] - x[:, :-1]).keep()
print("x is", x.shape)

g.compile()
for rows in (1, 3, 1000):
    # The dimension takes the size of the values.
    x.set(np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) % 7)
    g.execute()
    print(f"{rows:4} rows: mean", mean.numpy().round(4), "and", first_differences.numpy().shape,
          "differences")
