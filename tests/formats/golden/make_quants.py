# formats/golden/make_quants.py -- makes quants.safetensors: random blocks with what gguf's
# reference code makes of them. Needs: pip install gguf==0.19.0 numpy safetensors. Usage: python
# make_quants.py quants.safetensors
import sys
import numpy as np
import gguf
from gguf.quants import dequantize, quantize
from gguf.constants import GGMLQuantizationType as T, GGML_QUANT_SIZES
from safetensors.numpy import save_file

rng = np.random.default_rng(20)
out = {}
# Where the f16 scales stand in a block: random bytes there could be NaN or infinite.
scales = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82],
          T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [],
          T.TQ1_0: [52], T.TQ2_0: [64]}
for t, places in scales.items():
    elements, size = GGML_QUANT_SIZES[t]
    blocks = 3 if elements == 256 else 6
    raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    for place in places:
        raw[:, place:place + 2] = (rng.standard_normal((blocks, 1)) * 0.1).astype(np.float16).view(np.uint8)
    if t == T.MXFP4:
        raw[:, 0] = rng.integers(110, 140, blocks)
    out[f"{t.name}.bytes"] = raw.reshape(-1)
    out[f"{t.name}.values"] = dequantize(raw, t).astype(np.float32).reshape(-1)
x = (rng.standard_normal(256) * rng.uniform(0.01, 4, 256)).astype(np.float32)
x[32:64] = 0
out["x"] = x
for t in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.MXFP4, T.TQ1_0, T.TQ2_0):
    out[f"{t.name}.quantized"] = quantize(x, t).reshape(-1)
save_file(out, sys.argv[1], {"made by": f"make_quants.py, gguf 0.19.0, numpy {np.__version__}"})
