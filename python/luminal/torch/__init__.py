# python/luminal/torch/__init__.py -- the back end of torch.compile: torch.compile(model,
# backend="luminal").
"""What PyTorch loads by the entry point `torch_dynamo_backends`; nobody needs to import it. See
docs/python.md.

>>> model = torch.compile(model, backend="luminal")
>>> options = {"mode": "budget", "budget": 10, "fullgraph": True}
>>> model = torch.compile(model, backend="luminal", options=options)
"""

import typing

_PLACES = {
    "from_torch": "imported",
    "Imported": "imported",
    "NotSupported": "executor",
    "reload": "backend",
    "report": "backend",
}


def __getattr__(name: str) -> typing.Any:
    """These need PyTorch; `terms` and `operators` do not."""
    if name not in _PLACES:
        raise AttributeError(f"module 'luminal.torch' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"luminal.torch.{_PLACES[name]}"), name)
