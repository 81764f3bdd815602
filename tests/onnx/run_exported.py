#!/usr/bin/env python3
# tests/onnx/run_exported.py -- files that save_onnx wrote, in ONNX Runtime.
"""Runs exported ONNX files: onnx.checker accepts each, and ONNX Runtime gives what is expected.

usage: run_exported.py FOLDER

For each NAME.onnx there is NAME.npz with input.X (the bytes), shape.X, size.D (of dimensions that are
inputs), value.Y and within.Y (what result Y is, and how far it may be from it).
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime

NARROW = {onnx.TensorProto.BFLOAT16: "u2", onnx.TensorProto.FLOAT8E4M3FN: "u1",
          onnx.TensorProto.FLOAT8E5M2: "u1"}


def as_double(model):
    """numpy has no type for the narrow floats: such results are cast."""
    for output in model.graph.output:
        if output.type.tensor_type.elem_type in NARROW:
            name = output.name
            for node in model.graph.node:
                node.output[:] = [name + ".narrow" if n == name else n for n in node.output]
                node.input[:] = [name + ".narrow" if n == name else n for n in node.input]
            model.graph.node.append(onnx.helper.make_node("Cast", [name + ".narrow"], [name], to=1))
            output.type.tensor_type.elem_type = 1


def value_of(given, data):
    name, kind = given.name, given.type.tensor_type.elem_type
    if f"size.{name}" in data:
        return onnxruntime.OrtValue.ortvalue_from_numpy(data[f"size.{name}"])
    shape = tuple(map(int, data[f"shape.{name}"]))
    if kind in NARROW:
        bits = np.frombuffer(data[f"input.{name}"].tobytes(), NARROW[kind]).reshape(shape)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    return onnxruntime.OrtValue.ortvalue_from_numpy(
        np.frombuffer(data[f"input.{name}"].tobytes(), dtype).reshape(shape)
    )


def difference(path):
    onnx.checker.check_model(str(path), full_check=True)
    data = np.load(path.with_suffix(".npz"))
    model = onnx.load(path)
    as_double(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    given = {g.name: value_of(g, data) for g in model.graph.input}
    names = [o.name for o in model.graph.output]
    for name, value in zip(names, session.run_with_ort_values(names, given)):
        got = np.asarray(value.numpy(), "f8")
        wanted, within = data[f"value.{name}"], data[f"within.{name}"]
        if got.shape != wanted.shape:
            return f"{name} has the shape {got.shape}, not {wanted.shape}"
        with np.errstate(invalid="ignore"):
            close = (got == wanted) | (np.isnan(got) & np.isnan(wanted)) | (np.abs(got - wanted) <= within)
            close |= np.isinf(within)  # nothing is known of these
        if not close.all():
            at = tuple(np.argwhere(~close)[0])
            return f"{name}{list(map(int, at))} is {got[at]}, not {wanted[at]} (within {within[at]})"
    return None


def main():
    failed = 0
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
    for path in paths:
        try:
            text = difference(path)
        except Exception as error:  # each file is judged by itself
            text = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:400]}"
        if text:
            failed += 1
            print(f"{path.name}: {text}")
    if not paths:
        print("no files")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
