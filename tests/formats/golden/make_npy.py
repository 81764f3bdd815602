# formats/golden/make_npy.py -- makes the arrays of golden/npy. Needs numpy (2.4.6 was used). Usage:
# python make_npy.py npy
import os
import sys
import numpy as np
from numpy.lib import format

folder = sys.argv[1]
x = (np.arange(24) - 5).reshape(2, 3, 4)


def save(name, array, version=(1, 0)):
    with open(os.path.join(folder, name), "wb") as f:
        format.write_array(f, array, version=version)


save("v1_f4.npy", x.astype("<f4"))
save("v2_f8_fortran.npy", np.asfortranarray(x.astype("<f8")), (2, 0))
save("v3_big_endian_i2.npy", x.astype(">i2"), (3, 0))
save("big_endian_fortran_f2.npy", np.asfortranarray(x.astype(">f2")))
save("bool.npy", x > 3)
save("scalar_u8.npy", np.uint64(2**63 + 1))
save("empty_i4.npy", np.zeros((3, 0, 2), "<i4"))
np.savez(os.path.join(folder, "stored.npz"), a=x.astype("<i4"), b=np.float32([1.5, -2]))
np.savez_compressed(os.path.join(folder, "deflated.npz"), a=x.astype("<i4"), z=np.zeros((64, 64), "<f4"))
