# python/luminal/torch/imported.py -- from_torch: a module through torch.export as a Graph to print,
# explain, export and save.
from __future__ import annotations

import typing

import torch  # type: ignore[import-not-found, unused-ignore]

import luminal as pl

from . import operators  # noqa: F401
from .backend import decompositions
from .executor import range_of
from .program import HEADROOM, LEAST_HIGH
from .record import Dimensions, node_of, type_of
from .terms import Lowering, Ref, Unsupported

T = typing.Any


class Imported(pl.Graph):
    """A Graph with the module's inputs and results by name: `inputs`, `outputs`. Parameters are weights
    that read the
    module's memory. Called with PyTorch's tensors, it gives PyTorch's tensors."""

    inputs: dict[str, pl.Tensor]
    outputs: dict[str, pl.Tensor]
    held: list[T]  # the module's tensors, whose memory is read

    def __call__(self, *arguments: T) -> T:
        """Runs the graph on tensors, in the order of `inputs`; one result, or a tuple of them."""
        if len(arguments) != len(self.inputs):
            raise TypeError(
                f"[from_torch] {len(self.inputs)} tensors are needed ({', '.join(self.inputs)}), "
                f"{len(arguments)} were given"
            )
        for source, argument in zip(self.inputs.values(), arguments):
            source.borrow(argument.contiguous())
        self.execute()
        made = tuple(torch.from_dlpack(output) for output in self.outputs.values())
        return made[0] if len(made) == 1 else made


def from_torch(
    module: T, example_inputs: tuple[T, ...], dynamic_shapes: T = None, *, strict: bool = False
) -> Imported:
    """A module of PyTorch as a Graph, through torch.export with the core ATen decompositions.
    example_inputs and
    dynamic_shapes: as torch.export takes them. Throws Error for an operator that has no terms: all of
    them, with their
    lines."""
    was_training = module.training
    with torch.no_grad():
        exported = torch.export.export(
            module, tuple(example_inputs), dynamic_shapes=dynamic_shapes, strict=strict
        )
        exported = exported.run_decompositions(decompositions())
    if was_training and any("batch_norm" in str(node.target) for node in exported.graph.nodes):
        raise pl.Error(
            "[from_torch] the module is in training mode: module.eval() first, or use torch.compile to train"
        )
    return Maker(exported).graph


class Maker:
    """Walks an exported program once."""

    def __init__(self, exported: T) -> None:
        self.exported = exported
        self.graph = Imported()
        self.graph.inputs, self.graph.outputs, self.graph.held = {}, {}, []
        nodes = list(exported.graph.nodes)
        dimensions = Dimensions(self.graph, self.ranges(nodes))
        self.lowering = Lowering(self.graph, dimensions.dim_of)
        with self.graph:
            for node in nodes:
                if node.op == "placeholder":
                    self.add_input(node)
            failed = [text for node in nodes if node.op == "call_function" for text in self.add(node)]
            if failed:
                raise pl.Error(
                    "[from_torch] these operators have no terms: " + "; ".join(dict.fromkeys(failed))
                )
            self.add_outputs(next(node for node in nodes if node.op == "output"))

    def ranges(self, nodes: list[T]) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for node in nodes:
            value = node.meta.get("val")
            for size in [value, *(value.shape if isinstance(value, torch.Tensor) else ())]:
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    low, high, first = range_of(size)
                    stated = self.exported.range_constraints.get(size.node.expr)  # what the user said of it
                    if stated is not None:
                        low, high = (
                            int(end) if end.is_Integer else usual
                            for end, usual in ((stated.lower, low), (stated.upper, high))
                        )
                    found[str(size.node.expr)] = (
                        low,
                        high if high < 2**31 else max(LEAST_HIGH, HEADROOM * first),
                    )
        return found

    def add_input(self, node: T) -> None:
        spec = next(
            s
            for s in self.exported.graph_signature.input_specs
            if getattr(s.arg, "name", None) == node.name
        )
        if spec.kind == torch.export.graph_signature.InputKind.TOKEN:
            return  # stands for the order of effects; what has one has no terms
        value = node.meta["val"]
        if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
            if not isinstance(value, torch.Tensor):
                if isinstance(value, torch.SymInt):
                    raise pl.Error(
                        f"[from_torch] {node.name} is a number that changes; only sizes of tensors may"
                    )
                return
            type_ = type_of(value)
            source = self.graph.input(self.lowering.sizes(type_.shape), dtype=type_.dtype, name=node.name)
            self.graph.inputs[node.name] = self.lowering.values[node.name] = source
            return
        tensor = self.tensor_of(spec)
        source = self.graph.weight(spec.target, tuple(tensor.shape), dtype=type_of(tensor).dtype)
        tensor = tensor.detach().contiguous()
        self.graph.held.append(tensor)
        source.borrow(tensor)
        self.lowering.values[node.name] = source

    def tensor_of(self, spec: T) -> T:
        for table in (self.exported.state_dict, self.exported.constants):
            if spec.target in table:
                return table[spec.target]
        raise pl.Error(f"[from_torch] {spec.target} has no value")

    def add(self, node: T) -> list[str]:
        """The node's terms, or why there are none."""
        record = node_of(node)
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool)):
            return []
        if record.op == "aten._assert_tensor_metadata.default":
            return []  # types and devices, which the export has checked
        try:
            missing = [
                x.name
                for x in [*record.args, *record.kwargs.values()]
                if isinstance(x, Ref) and x.name not in self.lowering.values
            ]
            if missing:
                return []  # what they lack has been named
            self.lowering.add(record)
            return []
        except (Unsupported, pl.Error, NotImplementedError, TypeError, ValueError) as error:
            return [
                f"{record.op}{' at ' + record.line if record.line else ''} ({str(error).splitlines()[0]})"
            ]

    def add_outputs(self, node: T) -> None:
        kinds = torch.export.graph_signature.OutputKind
        for spec, result in zip(self.exported.graph_signature.output_specs, node.args[0]):
            if spec.kind != kinds.USER_OUTPUT:
                raise pl.Error(
                    f"[from_torch] the module changes {spec.target}; a Graph is pure (module.eval() helps)"
                )
            if not isinstance(result, torch.fx.Node) or not isinstance(result.meta["val"], torch.Tensor):
                continue
            value = self.lowering.value_of(result.name)
            while self.has_name(value):  # an input, or a result before: each result has a name of its own
                value = value.unsqueeze(0).squeeze(0)
            value.name = name = f"output{len(self.graph.outputs)}" if len(node.args[0]) > 1 else "output"
            self.graph.outputs[name] = value.keep()

    def has_name(self, value: pl.Tensor) -> bool:
        info = pl.inspect(value)
        return info.op in ("input", "weight") or info.name in self.graph.outputs
