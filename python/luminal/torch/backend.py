# python/luminal/torch/backend.py -- from Dynamo's graph, through AOTAutograd and the core ATen
# decompositions, to executors.
from __future__ import annotations

import functools
import typing
import weakref

import torch  # type: ignore[import-not-found, unused-ignore]
from torch._decomp import core_aten_decompositions  # type: ignore[import-not-found, unused-ignore]
from torch._dynamo.backends.common import aot_autograd  # type: ignore[import-not-found, unused-ignore]
from torch._functorch.partitioners import (  # type: ignore[import-not-found, unused-ignore]
    min_cut_rematerialization_partition,
)

from .. import _reports
from .executor import Executor
from .options import Options

T = typing.Any
made: list["weakref.ref[Executor]"] = []  # in the order in which they were compiled

# Operators that have terms of their own, better than what their decompositions say, and those whose
# decompositions round otherwise than eager does.
SPACED = tuple(
    f"{name}.{overload}"
    for name in ("linspace", "logspace")
    for overload in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
)
KEPT = ("silu.default", "embedding_dense_backward.default", "_unsafe_view.default", *SPACED)


@functools.cache
def decompositions() -> dict[T, T]:
    """PyTorch's way from all operators to the core ones."""
    table = dict(core_aten_decompositions())
    for name in KEPT:
        op, overload = name.rsplit(".", 1)
        table.pop(getattr(getattr(torch.ops.aten, op), overload), None)
    return table


def compile_graph(module: T, inputs: T, options: Options) -> T:
    """A graph of AOTAutograd (pure, no aliases) as a function of a list of its inputs."""
    executor = Executor(module, options)
    made.append(weakref.ref(executor))

    def run(arguments: list[T]) -> list[T]:
        return executor(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    run.executor = executor  # type: ignore[attr-defined]
    return run


def backend(
    module: T,
    example_inputs: T,
    *,
    mode: typing.Optional[str] = None,
    options: typing.Optional[dict[str, T]] = None,
) -> T:
    """What torch.compile calls. mode and options: those of torch.compile; see docs/python.md."""
    compiler = functools.partial(compile_graph, options=Options.read(mode, options))
    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=False,
    )(module, example_inputs)


def report() -> str:
    """All models that torch.compile made with this back end and that live: their kernels, and what stays
    in PyTorch."""
    return "\n".join(executor.report() for executor in (one() for one in made) if executor is not None)


_reports.add(report)
