# tools/torch_goldens_math.py -- cases of arithmetic, functions, reductions, products, convolution, pooling (see torch_goldens.py).
import math

import torch

inf, nan = math.inf, math.nan
SPECIAL = torch.tensor([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3.25, 100.25, inf, -inf, nan, 1e-40, -1e-40, 3e38,
                        -3e38, 1e-8, 7, -7.75])


def cases(add):
    other = SPECIAL.roll(5)
    for name, f in [("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div),
                    ("maximum", torch.maximum), ("minimum", torch.minimum)]:
        add(f"{name}.special", name, [SPECIAL, other], f(SPECIAL, other))
        add(f"{name}.table", name, [SPECIAL.unsqueeze(1), SPECIAL], f(SPECIAL.unsqueeze(1), SPECIAL))
