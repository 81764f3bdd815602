#!/usr/bin/env python3
# tools/torch_goldens.py -- makes tests/tensor/goldens/*.{json,safetensors} with an installed
# PyTorch: small cases whose results the tests compare with. The cases stand in
# torch_goldens_<name>.py beside this file, each with a function `cases(add)`. Usage:
# torch_goldens.py [name ...]
import importlib
import json
import math
import pathlib
import struct
import sys

import torch

TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.bool: "BOOL",
}


def bytes_of(tensor):
    # An axis of 1 may keep any stride otherwise.
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    if tensor.numel() == 0:
        return b""
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def plain(value):
    """What JSON has no number for is written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


class Goldens:
    def __init__(self):
        self.cases, self.tensors, self.names = [], {}, set()

    def add(self, name, op, inputs, outputs, **attrs):
        """One case: `outputs` is a tensor or a list of them. Equal tensors are stored once."""
        assert name not in self.names, name
        self.names.add(name)
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        case = {"name": name, "op": op, "attrs": {k: plain(v) for k, v in attrs.items() if v is not None},
                "inputs": [], "outputs": []}
        for kind, group in (("inputs", inputs), ("outputs", outputs)):
            for i, tensor in enumerate(group):
                data = (TYPES[tensor.dtype], tuple(tensor.shape), bytes_of(tensor))
                case[kind].append(self.tensors.setdefault(data, f"{name}.{kind[:-1]}{i}"))
        self.cases.append(case)

    def write(self, stem):
        index = "[\n" + ",\n".join(json.dumps(case) for case in self.cases) + "\n]\n"
        stem.with_suffix(".json").write_text(index)
        # Larger elements first keeps every tensor aligned.
        order = sorted(self.tensors.items(), key=lambda item: -{"F64": 8, "I64": 8, "F32": 4, "I32": 4,
                                                                "F16": 2,
                                                               "BF16": 2, "I16": 2}.get(item[0][0], 1))
        header, body = {}, b""
        for (dtype, shape, data), name in order:
            header[name] = {"dtype": dtype, "shape": list(shape),
                            "data_offsets": [len(body), len(body) + len(data)]}
            body += data
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        stem.with_suffix(".safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
        print(f"{stem.name}: {len(self.cases)} cases, {len(index) + len(text) + len(body)} bytes")


def main():
    here = pathlib.Path(__file__).resolve().parent
    folder = here.parent / "tests" / "tensor" / "goldens"
    folder.mkdir(exist_ok=True)
    names = sys.argv[1:] or sorted(p.stem.removeprefix("torch_goldens_")
                                   for p in here.glob("torch_goldens_*.py"))
    sys.path.insert(0, str(here))
    for name in names:
        torch.manual_seed(20250101)
        goldens = Goldens()
        importlib.import_module(f"torch_goldens_{name}").cases(goldens.add)
        goldens.write(folder / name)


if __name__ == "__main__":
    main()
