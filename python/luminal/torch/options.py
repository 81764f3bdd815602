# python/luminal/torch/options.py -- what torch.compile(..., backend="luminal", options={...}) takes.
from __future__ import annotations

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class Options:
    """See docs/python.md. mode: "fast", "optimal", "budget"; budget: seconds of search for each program."""

    mode: str = "fast"
    budget: float = 0
    threads: int = 0
    activations: str = "f32"
    max_error: float = 0
    fullgraph: bool = False
    progress: bool = False
    freezing: bool = False

    @staticmethod
    def read(mode: typing.Optional[str], given: typing.Optional[dict[str, typing.Any]]) -> "Options":
        fields = {field.name: field for field in dataclasses.fields(Options)}
        words = dict(given or {})
        if mode is not None and mode != "default":
            words.setdefault("mode", mode)
        for name in words:
            if name not in fields:
                raise ValueError(
                    f"[torch.compile] there is no option {name!r}; there are {', '.join(sorted(fields))}"
                )
        for name in ("budget", "max_error"):
            if (
                isinstance(words.get(name), bool)
                or not isinstance(words.get(name, 0), (int, float))
                or words.get(name, 0) < 0
            ):
                raise ValueError(
                    f"[torch.compile] {name} takes a number that is not negative, not {words[name]!r}"
                )
        if words.get("budget") and "mode" not in words:
            words["mode"] = "budget"
        for name in ("fullgraph", "progress", "freezing"):
            if not isinstance(words.get(name, False), bool):
                raise ValueError(f"[torch.compile] {name} is True or False, not {words[name]!r}")
        options = Options(**words)
        if options.mode not in ("fast", "optimal", "budget"):
            raise ValueError(
                f"[torch.compile] there is no mode {options.mode!r}; there are fast, optimal, budget"
            )
        if options.mode == "budget" and not options.budget:
            raise ValueError("[torch.compile] mode budget needs budget, the seconds of its search")
        if options.activations != "f32":
            raise ValueError(
                f"[torch.compile] activations {options.activations!r} need weights of 4 or 8 bits; a module "
                f"of "
                "PyTorch has its own element types, and only 'f32' means them"
            )
        return options

    def compile_words(self) -> dict[str, typing.Any]:
        """For Graph.compile."""
        words: dict[str, typing.Any] = {"threads": self.threads or None, "mode": self.mode}
        if self.mode != "fast":
            words["progress"] = self.progress
        if self.budget:
            words["seconds"] = float(self.budget)
        if self.max_error:
            words["max_error"] = float(self.max_error)
        return {name: value for name, value in words.items() if value is not None}
