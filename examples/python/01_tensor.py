# examples/python/01_tensor.py -- lesson 1: a graph is written down, compiled for this machine, and run.
import luminal as pl
import numpy as np

# Tensors are handles in a lazy graph: nothing is computed here. Functions of the module act on a
# default graph.
x = pl.input((2, 3))                                 # given at each execute
w = pl.weight("w", np.array([[1, 0], [0, 1], [1, 1]], np.float32))  # given once
y = (x @ w + 1).relu().keep()                        # kept: readable after execute

x.set([[1, 2, 3], [-4, -5, -6]])
pl.execute()  # compiles first
print(y.numpy())

# A mistake is reported where it was made.
try:
    x @ x
except pl.Error as error:
    print(error)
