# tools/torch_goldens_harness.py -- cases that must fail: the test of the harness gives each of them
# a row that is wrong (see torch_goldens.py).
import torch


def cases(add):
    x = torch.tensor([1.0, 2.0])
    for name in ["value", "nan", "dtype", "shape", "count", "error", "row"]:
        add(name, "wrong_" + name, [x], x)
    add("right", "same", [x], x)
