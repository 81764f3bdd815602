# python/luminal/_results.py -- named tuples: what operations with several results give.
import typing

if typing.TYPE_CHECKING:
    from ._core import Tensor


class Indexed(typing.NamedTuple):
    """Values and their places (i64) along an axis."""
    values: "Tensor"
    indices: "Tensor"


class VarMean(typing.NamedTuple):
    """Variance and mean, from the same passes."""
    var: "Tensor"
    mean: "Tensor"


class StdMean(typing.NamedTuple):
    """Standard deviation and mean."""
    std: "Tensor"
    mean: "Tensor"


class MinMax(typing.NamedTuple):
    """The least and the greatest."""
    min: "Tensor"
    max: "Tensor"


class MaxPool(typing.NamedTuple):
    """The greatest of each window and its place (i64) in the pooled axes."""
    values: "Tensor"
    indices: "Tensor"


class Bounded(typing.NamedTuple):
    """A fixed capacity, and how much of it is used (i64); more than the capacity means that the
    others were left out."""
    values: "Tensor"
    count: "Tensor"  # type: ignore[assignment]


class Unique(typing.NamedTuple):
    """Values in ascending order, which of them each element is, how often each occurs, and how many
    there are."""
    values: "Tensor"
    inverse: "Tensor"
    counts: "Tensor"
    count: "Tensor"  # type: ignore[assignment]
