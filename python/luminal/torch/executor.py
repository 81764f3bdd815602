# python/luminal/torch/executor.py -- an ATen graph as programs of ours and, where an operator has no
# terms, calls of PyTorch.
from __future__ import annotations

import operator
import sys
import typing

import torch  # type: ignore[import-not-found, unused-ignore]

import luminal as pl

from .options import Options
from .program import Failed, Program
from .record import Dimensions, Known, expression_of, function_of, is_symbolic, line_of, op_of, type_of
from .terms import DTYPES, OPERATORS, Symbolic, Type

T = typing.Any
TOLD: set[tuple[str, str]] = set()  # what stderr has been told


class NotSupported(RuntimeError):
    """options={"fullgraph": True}, and an operator has no terms."""


ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu.default"


def is_random(node: T) -> bool:
    if op_of(node) == ATTENTION:  # random with dropout only, its fourth argument
        return bool(node.args[3] if len(node.args) > 3 else node.kwargs.get("dropout_p", 0))
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
    )


def types_of(node: T) -> list[T]:
    made = type_of(node.meta.get("val"))
    return list(made) if isinstance(made, tuple) else [made]


def refusal(node: T) -> typing.Optional[str]:
    """Why a node cannot be ours, before its terms are tried; None where it may."""
    if is_random(node):
        return "random numbers are PyTorch's, so that a seed gives the same ones as without compilation"
    if op_of(node) not in OPERATORS:
        return "the operator is not known"
    for node_ in [node, *node.all_input_nodes]:
        if is_symbolic(node_) or node_.op == "get_attr":
            continue
        for type_ in types_of(node_):
            if isinstance(type_, Type) and type_.dtype not in DTYPES:
                return f"elements are {type_.dtype}"
    if any(
        symbol.name.startswith(("u", "zuf"))
        for type_ in types_of(node)
        if isinstance(type_, Type)
        for size in type_.shape
        if not isinstance(size, int)
        for symbol in size.expression.free_symbols
    ):
        return "its size depends on values"
    return None


class Executor:
    """A graph of torch.fx, after AOTAutograd, as steps: programs, and nodes that PyTorch computes."""

    def __init__(self, module: T, options: Options, frozen: typing.Optional[set[int]] = None) -> None:
        """frozen: which inputs are weights of the programs, and so are constants; None: nothing is."""
        self.module, self.options = module, options
        self.graph = module.graph
        self.inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        self.output = next(node for node in self.graph.nodes if node.op == "output")
        # What inputs become, as AOTAutograd writes it behind all else. A result that is such a copy is the
        # input.
        self.updates: dict[T, T] = {}
        self.copies: set[T] = set()
        for node in self.graph.nodes:
            if op_of(node) == "aten.copy_.default" and node.args[0].op == "placeholder":
                self.updates[node.args[0]] = node.args[1]
                self.copies.add(node)
        self.results: list[T] = [
            node.args[0] if isinstance(node, torch.fx.Node) and node in self.copies else node
            for node in self.output.args[0]
        ]
        self.constants = {
            node.name: getattr_of(module, node.target) for node in self.graph.nodes if node.op == "get_attr"
        }
        for node in self.graph.nodes:
            if (
                node.op == "get_attr"
                and "val" not in node.meta
                and isinstance(self.constants[node.name], torch.Tensor)
            ):
                node.meta["val"] = self.constants[node.name]
        self.frozen: set[T] = set()
        if frozen is not None:
            self.frozen = {node for index, node in enumerate(self.inputs) if index in frozen}
            self.frozen |= {node for node in self.graph.nodes if node.op == "get_attr"}
        self.reasons: dict[str, tuple[str, str, str]] = (
            {}
        )  # node: (operator, line, why it stays in PyTorch)
        self.symbols, self.sources = self.find_symbols()
        self.known = Known(self.shape_env(), self.symbols)
        self.symbols = self.known.ranges
        ranges = {name: (low, high) for name, (low, high, _) in self.symbols.items()}
        self.sizes = Dimensions(pl.Graph(), ranges, self.known)
        self.extents: set[pl.Dim] = set()
        self.numbers: dict[T, T] = {}
        chains = {node: view_of_input(node) for node in self.results if isinstance(node, torch.fx.Node)}
        self.views = {node: chain for node, chain in chains.items() if chain}
        self.make_steps()
        self.alone = self.one_program()
        self.tell()

    # ---- sizes ----
    def find_symbols(self) -> tuple[dict[str, tuple[int, int, int]], dict[str, tuple[int, int]]]:
        """Each symbol's range and first size; where an input tells its value: (input, axis), -1 for
        a number."""
        sources: dict[str, tuple[int, int]] = {}
        ranges: dict[str, tuple[int, int, int]] = {}

        def see(number: T, place: tuple[int, int]) -> None:
            if isinstance(number, (torch.SymInt, torch.SymFloat)):
                expression = number.node.expr
                if expression.is_Symbol and str(expression) not in sources:
                    sources[str(expression)] = place
                    ranges[str(expression)] = range_of(number)

        for index, node in enumerate(self.inputs):
            value = node.meta.get("val")
            see(value, (index, -1))
            if isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    see(size, (index, axis))
        return ranges, sources

    def shape_env(self) -> T:
        """Where PyTorch keeps what it found out about sizes; None where all are numbers."""
        for node in self.inputs:
            value = node.meta.get("val")
            for number in (value, *(value.shape if isinstance(value, torch.Tensor) else ())):
                if isinstance(number, torch.SymInt) and number.node.shape_env is not None:
                    return number.node.shape_env
        return None

    def values_of(self, arguments: list[T]) -> dict[str, int]:
        return {
            name: arguments[index] if axis < 0 else arguments[index].shape[axis]
            for name, (index, axis) in self.sources.items()
        }

    def number(self, node: T) -> T:
        """A symbolic node's value as a function of the symbols' values."""
        if node not in self.numbers:
            self.numbers[node] = function_of(node.meta["val"].node.expr, list(self.symbols))
        return self.numbers[node]

    # ---- steps ----
    def make_steps(self) -> None:
        failed: dict[T, str] = {}
        while True:
            try:
                self.steps = self.steps_with(failed)
                return
            except Failed as error:
                nodes = [error.node] if error.node is not None else error.nodes
                for node in nodes:
                    failed[node.args[0] if op_of(node) == "getitem" else node] = str(error)

    def steps_with(self, failed: dict[T, str]) -> list[T]:
        levels = self.levels(failed)
        parts: dict[int, list[T]] = {}
        for node, level in levels.items():
            parts.setdefault(level, []).append(node)
        states = self.states_of(levels)
        needed: dict[T, int] = {}  # the last level that reads a node; results are read behind all
        for node, level in levels.items():
            for source in node.all_input_nodes:
                needed[source] = max(needed.get(source, level), level)
        for result in self.results:
            if isinstance(result, torch.fx.Node) and result not in self.views:
                needed[result] = sys.maxsize
        for value in self.updates.values() if not states else ():
            needed[value] = sys.maxsize
        steps: list[T] = []
        for level in sorted(parts):
            nodes = parts[level]
            if level % 2:
                steps.append(nodes)
                continue
            inside = set(nodes)
            inputs = list(
                dict.fromkeys(
                    source
                    for node in nodes
                    for source in node.all_input_nodes
                    if source not in inside and not is_integer(source)
                )
            )
            outputs = [
                node
                for node in nodes
                if needed.get(node, level) > level and isinstance(node.meta["val"], torch.Tensor)
            ]
            if not outputs and not states:
                continue
            try:
                steps.append(
                    Program(
                        nodes, inputs, outputs, self.symbols, self.options, self.frozen, self.known, states
                    )
                )
            except Failed as error:
                if error.node is None:  # the whole part
                    error.nodes = [node for node in nodes if op_of(node) != "getitem"]
                raise
        return steps

    def states_of(self, levels: dict[T, int]) -> dict[T, T]:
        """Inputs that one program of fixed sizes updates where they lie, and what they become; none where
        they are copied to after all steps."""
        if self.symbols or self.views or any(levels.values()):
            return {}
        values = list(self.updates.values())
        for source, value in self.updates.items():
            old, new = source.meta["val"], value.meta["val"]
            if (
                value not in levels
                or values.count(value) > 1
                or value in self.results
                or (old.dtype, old.shape) != (new.dtype, new.shape)
                or not old.is_contiguous()
                or old.numel() == 0
            ):
                return {}
        return self.updates

    def rounded_size(self, node: T) -> typing.Optional[str]:
        """Why sizes of a node or of what it reads are not dimensions."""
        for node_ in [node, *node.all_input_nodes]:
            for type_ in types_of(node_) if not is_symbolic(node_) else ():
                for size in type_.shape if isinstance(type_, Type) else ():
                    try:
                        extent = self.sizes.dim_of(expression_of_size(size))
                        if isinstance(extent, pl.Dim) and extent not in self.extents:
                            self.sizes.graph.input((extent,))  # it is seen that no size is negative
                            self.extents.add(extent)
                    except (NotImplementedError, pl.Error) as error:
                        return str(error)
        return None

    def levels(self, failed: dict[T, str]) -> dict[T, int]:
        """Ours are even, PyTorch's odd; a node's level is not below those of its inputs. Random numbers
        keep their order."""
        levels: dict[T, int] = {}
        self.reasons = {}
        random = -1
        for node in self.graph.nodes:
            if node.op != "call_function" or is_symbolic(node) or node in self.copies:
                continue
            sources = [levels[source] for source in node.all_input_nodes if source in levels]
            if op_of(node) == "getitem" and node.args[0] in levels:
                levels[node] = levels[node.args[0]]
                continue
            why = failed.get(node) or refusal(node) or self.rounded_size(node)
            odd = 1 if why else 0
            if why:
                self.reasons[node.name] = (op_of(node), line_of(node), why)
            level = max([-1 if odd else 0, *(source + (source % 2 != odd) for source in sources)])
            if is_random(node):
                level = random = max(level, random)
            levels[node] = level
        return levels

    def tell(self) -> None:
        """Names on stderr, once, what stays in PyTorch; with fullgraph it is an error."""
        left = {
            (op, line): why
            for name, (op, line, why) in self.reasons.items()
            if not why.startswith("random")
        }
        if left and self.options.fullgraph:
            raise NotSupported(
                "[torch.compile] fullgraph: "
                + "; ".join(
                    f"{op} has no terms{' at ' + line if line else ''} ({why})"
                    for (op, line), why in left.items()
                )
            )
        for (op, line), why in left.items():
            if (op, line) not in TOLD:
                TOLD.add((op, line))
                print(
                    f"luminal: {op} stays in PyTorch{' at ' + line if line else ''}: {why}", file=sys.stderr
                )

    def reload(self) -> None:
        """Frozen tensors are read again at the next call."""
        for step in self.steps:
            if isinstance(step, Program):
                step.forget()

    def report(self) -> str:
        """The steps in their order: reports of programs, and what PyTorch computes, with line and
        reason."""
        text = []
        for step in self.steps:
            if isinstance(step, Program):
                text.append(step.graph.report().rstrip())
                continue
            for node in step:
                if node.name in self.reasons:
                    op, line, why = self.reasons[node.name]
                    text.append(f"in PyTorch: {op}{' at ' + line if line else ''}: {why}")
        return "\n".join(text)

    def one_program(self) -> T:
        """Where one program of fixed sizes is all there is: the program, which arguments it reads, and for
        each result whether it is the program's, an argument or views of one, and its place there, or the
        result itself. None otherwise. A call then makes no dictionary of values, which a small program would
        notice."""
        if len(self.steps) != 1 or self.symbols or not isinstance(self.steps[0], Program):
            return None
        program = self.steps[0]
        if self.updates and not program.states:
            return None
        arguments = {node: index for index, node in enumerate(self.inputs)}
        outputs = {node: index for index, node in enumerate(program.outputs)}
        places: list[tuple[T, T]] = []
        for node in self.results:
            if not isinstance(node, torch.fx.Node):
                places.append((None, node))
            elif node in self.views:
                chain = self.views[node]
                if any(len(view.all_input_nodes) != 1 for view in chain):
                    return None
                calls = [(view.target, view.args[1:], view.kwargs) for view in chain]
                places.append((calls, arguments[chain[0].args[0]]))
            elif node in outputs:
                places.append((True, outputs[node]))
            elif node in arguments:
                places.append((False, arguments[node]))
            else:
                return None
        if any(node not in arguments for node in program.inputs):
            return None
        return program, [arguments[node] for node in program.inputs], places

    # ---- running ----
    def __call__(self, arguments: list[T]) -> list[T]:
        if self.alone is not None:
            program, reads, places = self.alone
            made = program([arguments[index] for index in reads], {})
            results = [
                (
                    place
                    if ours is None
                    else made[place] if ours is True else viewed(arguments[place], ours or ())
                )
                for ours, place in places
            ]
            arguments.clear()
            return results
        values = self.values_of(arguments)
        env: dict[T, T] = dict(zip(self.inputs, arguments))
        arguments.clear()
        for step in self.steps:
            if isinstance(step, Program):
                tensors = [
                    env[node] if node in env else self.read(node, env, values) for node in step.inputs
                ]
                env.update(zip(step.outputs, step(tensors, values)))
            else:
                for node in step:
                    env[node] = self.call(node, env, values)
        for chain in self.views.values():
            for node in chain:
                env[node] = self.call(node, env, values)
        results = [
            self.read(result, env, values) if isinstance(result, torch.fx.Node) else result
            for result in self.results
        ]
        if self.updates and not any(isinstance(step, Program) and step.states for step in self.steps):
            made = [(env[source], self.read(value, env, values)) for source, value in self.updates.items()]
            for tensor, value in made:
                tensor.copy_(value)
        return results

    def read(self, node: T, env: dict[T, T], values: dict[str, int]) -> T:
        if node in env:
            return env[node]
        if node.op == "get_attr":
            return self.constants[node.name]
        number = self.number(node)
        number = number(*values.values()) if callable(number) else number
        if isinstance(node.meta["val"], torch.SymFloat):
            return torch.tensor(number, dtype=torch.float64)
        return number

    def call(self, node: T, env: dict[T, T], values: dict[str, int]) -> T:
        def argument(source: T) -> T:
            if is_symbolic(source):
                number = self.number(source)
                return number(*values.values()) if callable(number) else number
            return self.read(source, env, values)

        if node.target is operator.getitem:
            return argument(node.args[0])[node.args[1]]
        arguments = torch.fx.node.map_arg(node.args, argument)
        words = torch.fx.node.map_arg(node.kwargs, argument)
        return node.target(*arguments, **words)


def expression_of_size(size: T) -> T:
    return size.expression if isinstance(size, Symbolic) else size


def is_view(node: T) -> bool:
    """Shares memory with its first argument, which it does not change."""
    if node.target is operator.getitem:
        return isinstance(node.args[0], torch.fx.Node) and is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.returns or is_symbolic(node):
        return False
    alias = schema.returns[0].alias_info
    return alias is not None and not alias.is_write


def view_of_input(node: T) -> list[T]:
    """The views that lead from an input of the graph to a result, in their order; none where it is something
    else. Such a result is not computed, it is the same view of the argument: PyTorch takes its strides and
    its offset from what it is given, and no memory is copied."""
    chain: list[T] = []
    while node.op == "call_function" and is_view(node):
        chain.insert(0, node)
        node = node.args[0]
    return chain if node.op == "placeholder" else []


def viewed(value: T, calls: T) -> T:
    for function, arguments, words in calls:
        value = function(value, *arguments, **words)
    return value


def is_integer(node: T) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, int)) and not isinstance(
        node.meta.get("val"), torch.SymFloat
    )


def getattr_of(module: T, path: str) -> T:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def range_of(number: T) -> tuple[int, int, int]:
    node = number.node
    first = int(node.hint) if node.hint is not None else 16
    found = node.shape_env.var_to_range.get(node.expr) if node.shape_env is not None else None
    if found is None:
        return 1, sys.maxsize, first
    low = int(found.lower) if found.lower.is_Integer else 1
    high = int(found.upper) if getattr(found.upper, "is_Integer", False) else sys.maxsize
    return max(low, 0), max(min(high, 2**40), first), first
