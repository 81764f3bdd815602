#!/usr/bin/env python3
# tests/tree/program_files_test.py -- the program writes model files: quantize and convert there and back, a
# disk that is full, what is not a model; and embed on a folder.
import base64
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from program import BUILTIN, Luminal, check, documented_words, failures

MODEL = BUILTIN / "luminal-tales.gguf"


def text_of(luminal, model):
    return json.loads(luminal("run", model, "Ada", "-n", "12", "--temp", "0", "--json")[0])["text"]


def write_models(luminal, folder):
    """quantize and convert: the same text from the other format, smaller files, one line where it fails."""
    folder.mkdir()
    want = text_of(luminal, MODEL)
    luminal("convert", BUILTIN / "hf", folder / "a.gguf")
    check(text_of(luminal, folder / "a.gguf") == want, "a folder as GGUF gives another text")
    luminal("convert", folder / "a.gguf", folder / "hf")
    check(text_of(luminal, folder / "hf") == want, "GGUF as a folder gives another text")
    shown, errors = luminal("quantize", MODEL, folder / "q8.gguf", "q8_0", "--json")
    answer = json.loads(shown)
    check(set(answer) <= documented_words("luminal quantize"), f"keys of quantize: {sorted(answer)}")
    check(answer["bytes_after"] < answer["bytes_before"] or answer["types"].get("Q8_0", 0) > 0,
          f"quantize --json: {answer}")
    shown = luminal("quantize", MODEL, folder / "q4.gguf", "Q4_K_M")[0].decode()
    check(shown.startswith(f"{folder / 'q4.gguf'}: {answer['tensors']} tensors ("),
          f"quantize shows {shown!r}")
    check(text_of(luminal, folder / "q4.gguf"), "a model of four bits gives no text")

    luminal.refuses("quantize", MODEL, folder / "x.gguf", "Q9_9",
                    says="weights are not written as Q9_9; known are F32")
    luminal.refuses("quantize", MODEL, folder / "x.bin", "Q8_0", code=2,
                    says="the name of a GGUF file is expected")
    luminal.refuses("convert", MODEL, folder / "hf",
                    says="is there already, expected a folder that is new or empty")
    luminal.refuses("quantize", folder / "absent.gguf", folder / "x.gguf", "Q8_0", says="absent.gguf")
    (folder / "weights.pt").write_bytes(b"\x80\x02}q\x00." + bytes(64))
    luminal.refuses("convert", folder / "weights.pt", folder / "x.gguf", says="weights.pt.*safetensors")
    before = sorted(os.listdir(folder))
    full = subprocess.run(["bash", "-c", 'trap "" XFSZ; ulimit -f 16; exec "$@"', "sh", luminal.program,
                           "quantize", MODEL, folder / "full.gguf", "F32"], capture_output=True, text=True,
                          env=luminal.environment, check=False)
    check(full.returncode == 1 and full.stderr.strip().splitlines()[-1].startswith(
        f"luminal: {folder / 'full.gguf'}: "), f"a full disk: {full.returncode} {full.stderr!r}")
    check(sorted(os.listdir(folder)) == before, f"a full disk leaves {sorted(os.listdir(folder))}")


TERMS = """fn @main(%x: f32[2, 3], weight %w: f32[3]) {
  %b = view %w [i: 2, j: 3] -> [j]
  %y = mul %x, %b
  return y = %y
}
"""


def write_onnx(luminal, folder):
    """convert to ONNX: terms, a language model and an ONNX file; one line and no file where it fails."""
    folder.mkdir()
    (folder / "terms.lum").write_text(TERMS)
    header = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    (folder / "w.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header + struct.pack("<3f", 1, 10, 100))
    shown = luminal("convert", folder / "terms.lum", folder / "terms.onnx", "-i", folder / "w.safetensors")[0]
    check(shown.decode().startswith(f"{folder / 'terms.onnx'}: 1 nodes, 12 bytes of weights, opset 20"),
          f"convert shows {shown!r}")
    answer = json.loads(luminal("convert", folder / "terms.onnx", folder / "again.onnx", "--json")[0])
    check(set(answer) <= documented_words("luminal convert") and answer["nodes"] == 1,
          f"convert to ONNX --json: {answer}")
    answer = json.loads(luminal("convert", MODEL, folder / "model.onnx", "--ctx", "64", "--json")[0])
    check(answer["nodes"] > 20 and answer["weight_bytes"] > 1000, f"a language model as ONNX: {answer}")
    luminal("inspect", folder / "model.onnx")

    before = sorted(os.listdir(folder))
    luminal.refuses("convert", folder / "terms.lum", folder / "x.onnx",
                    says="weight w is missing: the files of --inputs have none")
    luminal.refuses("convert", folder / "absent.onnx", folder / "x.onnx",
                    says="luminal: .onnx. .*absent.onnx: No such file or directory$")
    luminal.refuses("convert", folder / "w.safetensors", folder / "x.onnx", says="w.safetensors")
    luminal.refuses("convert", folder / "again.onnx", folder / "no" / "x.onnx", says="no/x.onnx")
    luminal.refuses("convert", MODEL, folder / "x.onnx", "--type", "F16", code=2, says="it is not for ONNX")
    luminal.refuses("convert", MODEL, folder / "x.gguf", "--ctx", "64", code=2, says="it is for ONNX")
    full = subprocess.run(["bash", "-c", 'trap "" XFSZ; ulimit -f 16; exec "$@"', "sh", luminal.program,
                           "convert", MODEL, folder / "full.onnx"], capture_output=True, text=True,
                          env=luminal.environment, check=False)
    check(full.returncode == 1 and "full.onnx: " in full.stderr.strip().splitlines()[-1],
          f"a full disk: {full.returncode} {full.stderr!r}")
    check(sorted(os.listdir(folder)) == before, f"failures leave {sorted(os.listdir(folder))}")


def save_bert(folder):
    """A random BERT model of two layers as a folder."""
    generator = random.Random(3)
    width, inner = 16, 24
    layer = {}
    for name, rows, columns in (("attention.self.query", width, width),
                                ("attention.self.key", width, width),
                                ("attention.self.value", width, width),
                                ("attention.output.dense", width, width),
                                ("intermediate.dense", inner, width), ("output.dense", width, inner)):
        layer[name + ".weight"], layer[name + ".bias"] = [rows, columns], [rows]
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        layer[name + ".weight"], layer[name + ".bias"] = [width], [width]
    shapes = {"embeddings.word_embeddings.weight": [9, width],
              "embeddings.position_embeddings.weight": [12, width],
              "embeddings.token_type_embeddings.weight": [2, width], "embeddings.LayerNorm.weight": [width],
              "embeddings.LayerNorm.bias": [width]}
    for i in range(2):
        shapes |= {f"encoder.layer.{i}.{name}": shape for name, shape in layer.items()}
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *(generator.uniform(-1, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "bert", "vocab_size": 9, "hidden_size": width, "num_hidden_layers": 2,
        "num_attention_heads": 2, "intermediate_size": inner, "max_position_embeddings": 12}))
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\ncat\nsat\n##s\ndog\n")


def embed_texts(luminal, folder):
    """embed: a line a text, cosines, JSON; a text that is too long is refused, never cut."""
    save_bert(folder)
    lines = luminal("embed", folder, "the cat", "the dogs", "the cat")[0].decode().splitlines()
    vectors = [[float(x) for x in line.split()] for line in lines]
    check([len(v) for v in vectors] == [16, 16, 16], f"embed gives {lines}")
    check(vectors[0] == vectors[2] and vectors[0] != vectors[1], "equal texts have equal vectors")
    check(all(abs(sum(x * x for x in v) - 1) < 1e-5 for v in vectors), "vectors of length 1")
    answer = json.loads(luminal("embed", folder, "-f", "-", "--similarity", "--json",
                                given=b"the cat\nthe dogs\n")[0])
    check(set(answer) | set(answer["embeddings"][0]) <= documented_words("luminal embed"),
          f"keys of embed: {sorted(answer)}")
    check([e["tokens"] for e in answer["embeddings"]] == [4, 5], f"embed --json: {answer['embeddings']}")
    dot = sum(x * y for x, y in zip(vectors[0], vectors[1]))
    check(abs(answer["similarity"][0][1] - dot) < 1e-5 and abs(answer["similarity"][1][1] - 1) < 1e-5,
          f"similarity: {answer['similarity']}")
    luminal.refuses("embed", folder, "the " * 20, says="the text has 22 tokens, the model takes 12")
    luminal.refuses("embed", folder, code=2, says="a text is missing")
    luminal.refuses("embed", MODEL, "a", says="a Hugging Face folder of a BERT model is expected")


def serve_embeddings(luminal, folder):
    """/v1/embeddings: the vectors that embed prints, as numbers and in base64; mistakes in OpenAI's form."""
    want = [float(x) for x in luminal("embed", folder, "the cat")[0].split()]
    server = subprocess.Popen(
        [luminal.program, "serve", MODEL, "--port", "0", "--json", "--embeddings", folder],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=luminal.environment)
    try:
        port = json.loads(server.stdout.readline())["port"]

        def ask(body, code=200):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/embeddings",
                                             json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    check(reply.status == code, f"{body}: {reply.status}")
                    return json.load(reply)
            except urllib.error.HTTPError as error:
                check(error.code == code, f"{body}: {error.code}, expected {code}")
                return json.load(error)

        answer = ask({"input": ["the cat", "the dogs"], "model": "x"})
        check([row["index"] for row in answer["data"]] == [0, 1], f"embeddings: {answer}")
        near = max(abs(x - y) for x, y in zip(answer["data"][0]["embedding"], want))
        check(near < 1e-5 and answer["usage"] == {"prompt_tokens": 9, "total_tokens": 9},
              f"embeddings: {answer}")
        packed = ask({"input": [2, 4, 5, 3], "encoding_format": "base64"})["data"][0]["embedding"]
        plain = struct.pack("<16f", *answer["data"][0]["embedding"])
        check(base64.b64decode(packed) == plain, "base64 or tokens differ")
        for body, says in (({}, "input is missing: a text, a list of texts or of tokens"),
                           ({"input": []}, "input is not a text, a list of texts or of tokens"),
                           ({"input": [1e9]}, "input is not a text, a list of texts or of tokens"),
                           ({"input": "a", "encoding_format": "odd"},
                            'encoding_format is not "float" or "base64"'),
                           ({"input": "a", "dimensions": 8},
                            "dimensions is 8, vectors of this model have 16"),
                           ({"input": ["a"] * 2049}, "input has 2049 texts, at most 2048 are taken"),
                           ({"input": "the " * 20}, "the text has 22 tokens, the model takes 12"),
                           ([], "the body is not a JSON object")):
            check(ask(body, 400)["error"]["message"] == says, f"{str(body)[:80]} is not refused with {says}")
    finally:
        server.terminate()
        server.wait(timeout=60)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        luminal = Luminal(sys.argv[1], folder / "cache")
        write_models(luminal, folder / "files")
        write_onnx(luminal, folder / "onnx")
        embed_texts(luminal, folder / "bert")
        serve_embeddings(luminal, folder / "bert")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
