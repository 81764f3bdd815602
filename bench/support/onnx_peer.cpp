// bench/support/onnx_peer.cpp -- ONNX Runtime as a peer: models of one node, written here byte by
// byte (a model file is a message of Protocol Buffers).
#include "harness.h"

namespace luminal::bench {

namespace {
const char* onnx_program = R"(
import sys
try:
    import numpy as np
    import onnxruntime as ort
except Exception as error:
    print("absent", error, flush=True)
    sys.exit(0)
print("onnxruntime", ort.__version__, flush=True)
ort.set_default_logger_severity(3)
random = np.random.default_rng(1)

def number(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])
def integer(field, n): return number(field << 3) + number(n)
def text(field, data):
    data = data.encode() if isinstance(data, str) else data
    return number(field << 3 | 2) + number(len(data)) + data
def value(name, shape):
    dims = b"".join(text(1, integer(1, d)) for d in shape)
    return text(1, name) + text(2, text(1, integer(1, 1) + text(2, dims)))
def tensor(name, array):
    return b"".join(integer(1, d) for d in array.shape) + integer(2, 1) + text(8, name) + text(9, array.tobytes())
def ints(name, values):
    return text(1, name) + b"".join(integer(8, v) for v in values) + integer(20, 7)

def conv_model(x, w, y, stride, pad, groups):
    attributes = [ints("strides", [stride] * 2), ints("pads", [pad] * 4), ints("kernel_shape", w.shape[2:]),
                  text(1, "group") + integer(3, groups) + integer(20, 2)]
    node = text(1, "x") + text(1, "w") + text(2, "y") + text(4, "Conv") + b"".join(text(5, a) for a in attributes)
    graph = text(1, node) + text(2, "g") + text(5, tensor("w", w)) + text(11, value("x", x)) + text(12, value("y", y))
    return integer(1, 8) + text(7, graph) + text(8, integer(2, 13))

def case(w, n, threads):
    batch, i, o, size, k, stride, groups, copies = n
    out = (size + 2 * (k // 2) - k) // stride + 1
    weights = random.standard_normal((o, i // groups, k, k), np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    model = conv_model((batch, i, size, size), weights, (batch, o, out, out), stride, k // 2, groups)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    y = ort.OrtValue.ortvalue_from_numpy(np.zeros((batch, o, out, out), np.float32))
    calls = []
    for _ in range(copies):
        binding = session.io_binding()
        x = ort.OrtValue.ortvalue_from_numpy(random.standard_normal((batch, i, size, size), np.float32))
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("y", y)
        calls.append(lambda binding=binding, x=x: session.run_with_iobinding(binding))
    return calls

serve(lambda w, a, threads: case(w, [int(x) for x in a], threads))
)";
} // namespace

OnnxRuntime::OnnxRuntime() : PythonPeer("ONNX Runtime", onnx_program) {}

} // namespace luminal::bench
