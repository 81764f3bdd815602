# examples/python/05_numpy.py -- lesson 5: data in and out. Arrays are read and handed over without
# a copy where they can be.
import luminal as pl
import numpy as np

array = np.arange(6, dtype=np.float32).reshape(2, 3)
x = pl.from_numpy(array)      # reads the array's memory at each execute
y = (x * 2 + array[0]).keep()  # an array beside a tensor is a constant
pl.execute()
print(y.numpy())

array[:] = 1                  # seen by the next execute
pl.execute()
print(np.from_dlpack(y))      # so do torch.from_dlpack(y) and others

# Numbers take the type of the tensor beside them, as in numpy 2 and PyTorch.
half = pl.tensor([1, 2], dtype=np.float16)
print((half * 1.5).dtype, (half + np.float32(1)).dtype, (half + pl.tensor([1.0])).dtype)

# Slices and indices are numpy's.
picked = x[:, ::-1][np.array([1, 0, 1]), 1:].keep()
pl.execute()
print(picked.shape, picked.tolist())
