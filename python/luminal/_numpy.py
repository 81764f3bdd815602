# python/luminal/_numpy.py -- numpy's functions of a Tensor.
"""Operators between arrays and tensors make terms. Other functions of numpy compute at once, which a term
cannot: they say what to write."""
import typing

# An operator of numpy: the tensor's for (tensor, other), and for (other, tensor).
_OPERATORS = {
    "add": ("__add__", "__radd__"), "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"), "divide": ("__truediv__", "__rtruediv__"),
    "true_divide": ("__truediv__", "__rtruediv__"), "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"), "power": ("__pow__", "__rpow__"),
    "matmul": ("__matmul__", "__rmatmul__"), "less": ("__lt__", "__gt__"), "greater": ("__gt__", "__lt__"),
    "less_equal": ("__le__", "__ge__"), "greater_equal": ("__ge__", "__le__"), "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"), "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"), "bitwise_xor": ("__xor__", "__rxor__"),
    "left_shift": ("__lshift__", "__rlshift__"), "right_shift": ("__rshift__", "__rrshift__"),
}
_OTHER_NAMES = {"absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh",
                "arccosh": "acosh", "arctanh": "atanh", "conjugate": "conj", "rint": "round"}


def array_ufunc(self: typing.Any, ufunc: typing.Any, method: str, *inputs: typing.Any,
                **options: typing.Any) -> typing.Any:
    """Tensor.__array_ufunc__: a term for an operator of two values. Throws TypeError for all else."""
    operators = _OPERATORS.get(ufunc.__name__)
    if operators and method == "__call__" and len(inputs) == 2 and not options:
        first = inputs[0] is self
        operator = getattr(self, operators[0 if first else 1], None)
        if operator is not None:
            return operator(inputs[1 if first else 0])
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    own = _OTHER_NAMES.get(name, name)
    values = f"np.{name}(x.numpy()) takes values that are there"
    if method == "__call__" and len(inputs) == 1 and hasattr(self, own):
        values = f"write x.{own}(); {values}"
    raise TypeError(f"[numpy] np.{name} computes at once, and a Tensor is a term: {values}")
