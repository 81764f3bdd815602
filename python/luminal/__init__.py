# python/luminal/__init__.py -- the module: Luminal's C++ interface in Python. `import luminal as pl`.
"""Luminal, a deep-learning compiler: a model is a lazy graph, every kernel is generated for the
machine at hand.

>>> import luminal as pl
>>> c = (pl.tensor([[1, 2], [3, 4]]) @ pl.tensor([[5, 6], [7, 8]])).retrieve()
>>> pl.compile("cpu")
>>> pl.execute()
>>> print(c.numpy())
"""
from ._core import *  # noqa: F403
from ._core import DType as _DType
from ._core import (Error, InternalError, OutOfMemoryError, datasets, init, passes, schedules,  # noqa: F401
                    train_models)
from ._reports import report as report
from ._results import Bounded as Bounded
from ._results import Indexed as Indexed
from ._results import MaxPool as MaxPool
from ._results import MinMax as MinMax
from ._results import StdMean as StdMean
from ._results import Unique as Unique
from ._results import VarMean as VarMean
from ._torch import from_torch as from_torch

bool = _DType.bool
__version__ = "0.1.0"
