# python/luminal/torch/operators/__init__.py -- all ATen operators that have terms, a file for each kind.
# Needs no PyTorch.
from . import (
    elements,
    encoders,
    gradients,
    indexing,
    movement,
    normalise,
    products,
    reductions,
    windows,
)  # noqa: F401
