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
from . import resampling
from .decompose import foreach_decompositions, mend, other_decompositions
from .executor import Executor
from .options import Options

T = typing.Any
made: list["weakref.ref[Executor]"] = []  # in the order in which they were compiled

# Operators that have terms of their own, better than what their decompositions say, and those whose
# decompositions differ from eager: they round otherwise, or, of attention, give its weights in place of the
# logarithms of sums that its gradient reads.
SPACED = tuple(
    f"{name}.{overload}"
    for name in ("linspace", "logspace")
    for overload in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")
)
KEPT = (
    "silu.default",
    "embedding_dense_backward.default",
    "_unsafe_view.default",
    "_scaled_dot_product_flash_attention_for_cpu.default",
    *SPACED,
    *resampling.NAMES,
)


@functools.cache
def decompositions() -> dict[T, T]:
    """PyTorch's way from all operators to the core ones."""
    table = dict(core_aten_decompositions())
    for name in KEPT:
        op, overload = name.rsplit(".", 1)
        table.pop(getattr(getattr(torch.ops.aten, op), overload), None)
    return {**table, **foreach_decompositions(), **other_decompositions()}


def unchanging() -> set[int]:
    """Which inputs of the graph that AOTAutograd compiles are parameters and buffers that it does not
    change."""
    context = torch._guards.TracingContext.try_get()
    facts = context.fw_metadata if context is not None else None
    if facts is None:
        return set()
    changed = {index for index, fact in enumerate(facts.input_info) if fact.mutates_data}
    return set(facts.static_input_indices) - set(facts.mutated_inp_runtime_indices) - changed


def compile_graph(module: T, inputs: T, options: Options, inference: bool = False) -> T:
    """A graph of AOTAutograd (pure, no aliases) as a function of a list of its inputs."""
    frozen = unchanging() if inference and options.freezing else None
    executor = Executor(module, options, frozen)
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
    mend(module)
    compiler = functools.partial(compile_graph, options=Options.read(mode, options))
    with resampling.kept():
        return aot_autograd(
            fw_compiler=compiler,
            bw_compiler=compiler,
            inference_compiler=functools.partial(compiler, inference=True),
            decompositions=decompositions(),
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )(module, example_inputs)


def reload() -> None:
    """Parameters that options={"freezing": True} packed are read again at the next call. Needed only after
    a change that PyTorch does not count: through `.data`, `.detach().numpy()`, another process."""
    for executor in (one() for one in made):
        if executor is not None:
            executor.reload()


def report() -> str:
    """All models that torch.compile made with this back end and that live: their kernels, and what stays
    in PyTorch."""
    return "\n".join(executor.report() for executor in (one() for one in made) if executor is not None)


_reports.add(report)
