#!/usr/bin/env python3
# tests/tree/program_media_test.py -- the program hears and sees: transcribe, classify and detect; the
# examples of docs/program.md, word by word; wrong sound, wrong pictures, wrong models.
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

from program import SOURCE, Luminal, check, documented_words, failures

DATA = pathlib.Path(os.environ.get("LUMINAL_TEST_DATA", SOURCE.parent / "shared" / "data"))


def wav(seconds, rate=22050):
    samples = [int(12000 * math.sin(i * (0.1 + i * 3e-6))) for i in range(int(seconds * rate))]
    body = struct.pack(f"<{len(samples)}h", *samples)
    return (b"RIFF" + struct.pack("<I", 36 + len(body)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16) + b"data" +
            struct.pack("<I", len(body)) + body)


def ppm(width, height, colour):
    return f"P6 {width} {height} 255\n".encode() + bytes(colour) * (width * height)


def field(number, value):
    """A field of a protobuf: a whole number, or bytes with their length."""
    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def node(operator, inputs, outputs, **attributes):
    out = b"".join(field(1, x) for x in inputs) + b"".join(field(2, x) for x in outputs) + field(4, operator)
    for name, value in attributes.items():
        whole = [value] if isinstance(value, int) else value
        kind = field(3, value) + field(20, 2) if isinstance(value, int) else (
            b"".join(field(8, x) for x in whole) + field(20, 7))
        out += field(5, field(1, name) + kind)
    return field(1, out)


def tensor(name, shape, values):
    return field(5, b"".join(field(1, x) for x in shape) + field(2, 1) + field(8, name) +
                 field(9, struct.pack(f"<{len(values)}f", *values)))


def value(number, name, shape):
    dims = b"".join(field(1, field(1, x) if isinstance(x, int) else field(2, x)) for x in shape)
    return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, dims))))


def onnx(path, graph):
    path.write_bytes(field(1, 8) + field(2, "test") + field(7, graph) + field(8, field(2, 17)))


def models(folder):
    """A classifier that answers with the mean of each channel, and detectors that know two boxes."""
    onnx(folder / "mean.onnx",
         node("GlobalAveragePool", ["x"], ["m"]) + node("Flatten", ["m"], ["y"], axis=1) + field(2, "mean") +
         value(11, "x", [1, 3, 14, 14]) + value(12, "y", [1, 3]))
    pooled = node("GlobalAveragePool", ["x"], ["m"]) + node("Flatten", ["m"], ["y"], axis=1)
    pooled += field(2, "mean")
    onnx(folder / "open.onnx", pooled + value(11, "x", [1, 3, "h", "w"]) + value(12, "y", [1, 3]))
    onnx(folder / "two.onnx", pooled + value(11, "x", [1, 3, 4, 4]) + value(11, "z", [1]) +
         value(12, "y", [1, 3]))
    onnx(folder / "grey.onnx",
         node("Flatten", ["x"], ["y"], axis=1) + field(2, "grey") + value(11, "x", [1, 1, 2, 2]) +
         value(12, "y", [1, 4]))
    onnx(folder / "pairs.onnx",
         tensor("s", [1, 3, 2], [0.1, 0.9, 0.3, 0.7, 0.2, 0.8]) +
         tensor("b", [1, 3, 4], [0.25, 0.25, 0.5, 0.75, 0.5, 0, 1, 0.5, 0.25, 0.26, 0.5, 0.76]) +
         tensor("zero", [1], [0]) + node("ReduceMean", ["x"], ["m"], keepdims=0) +
         node("Mul", ["m", "zero"], ["n"]) + node("Add", ["s", "n"], ["scores"]) +
         node("Add", ["b", "n"], ["boxes"]) + field(2, "pairs") + value(11, "x", [1, 3, 24, 32]) +
         value(12, "scores", [1, 3, 2]) + value(12, "boxes", [1, 3, 4]))
    # Grids of 4 x 4, 2 x 2 and one cell for pictures of 32 x 32; a box in cell (1, 2) of the first one.
    grid = [0.0] * 21 * 7
    grid[9 * 7:10 * 7] = [0.5, 0.25, math.log(2), math.log(1), 0.9, 0.1, 0.8]
    onnx(folder / "yolox.onnx",
         tensor("g", [1, 21, 7], grid) + tensor("zero", [1], [0]) +
         node("ReduceMean", ["x"], ["m"], keepdims=0) + node("Mul", ["m", "zero"], ["n"]) +
         node("Add", ["g", "n"], ["y"]) + field(2, "yolox") +
         value(11, "x", [1, 3, 32, 32]) + value(12, "y", [1, 21, 7]))


def examples(luminal, heading, folder):
    """Runs the commands below a heading of docs/program.md in the folder; what they print."""
    page = (SOURCE / "docs" / "program.md").read_text().split(f"\n## {heading}", 1)[1].split("\n## ")[0]
    commands = re.findall(r"```sh\n(.*?)```", page, re.S)[0].strip().splitlines()
    shown = []
    path = f"{pathlib.Path(luminal.program).resolve().parent}:{os.environ['PATH']}"
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL,
            env=luminal.environment | {"PATH": path})
        check(done.returncode == 0, f"{command} ends with {done.returncode}: {done.stderr.decode()[-300:]}")
        shown.append(done.stdout.decode())
    return shown


def transcribe(luminal, folder):
    folder.mkdir()
    (folder / "whisper-tiny").symlink_to(SOURCE / "tests" / "models" / "whisper")
    (folder / "texts").mkdir()
    for name in ("talk.mp3", "a.wav", "b.flac", "rede.ogg"):
        (folder / name).write_bytes(wav(2.5))
    shown = examples(luminal, "luminal transcribe", folder)
    lines = shown[0].splitlines()
    check(lines and all(re.match(r"\[00:00:0\d\.\d{3} --> 00:00:0\d\.\d{3}\] ", line) for line in lines),
          f"transcribe shows {lines}")
    check(re.match(r"1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n", (folder / "talk.srt").read_text()),
          "talk.srt")
    check(sorted(os.listdir(folder / "texts")) == ["a.json", "a.txt", "a.vtt", "b.json", "b.txt", "b.vtt"],
          f"files of --out: {sorted(os.listdir(folder / 'texts'))}")
    check((folder / "texts" / "a.vtt").read_text().startswith("WEBVTT\n\n00:0"), "a.vtt")
    model, a = folder / "whisper-tiny", folder / "a.wav"
    answer = json.loads(luminal("transcribe", model, a, "--json", "--language", "fr", "--beam-size", "1")[0])
    result = answer["results"][0]
    check(set(answer) | set(result) | set(result["segments"][0]) <= documented_words("luminal transcribe"),
          f"keys of transcribe: {sorted(answer)} {sorted(result)}")
    check(result["language"] == "fr" and abs(result["duration"] - 2.5) < 1e-3 and
          result["text"] == "".join(s["text"] for s in result["segments"]), f"transcribe --json: {answer}")

    (folder / "empty.wav").write_bytes(b"")
    (folder / "cut.wav").write_bytes(wav(1)[:-100])
    (folder / "text.wav").write_text("a text, whatever its name says")
    luminal.refuses("transcribe", model, folder / "empty.wav", says="empty")
    luminal.refuses("transcribe", model, folder / "cut.wav", says="the file ends early: 44000 bytes of")
    luminal.refuses("transcribe", model, folder / "text.wav", says="not sound that can be read")
    luminal.refuses("transcribe", model, folder / "absent.wav", says="absent.wav")
    luminal.refuses("transcribe", model, a, "--language", "xx", says="language xx: the model knows en de fr")
    luminal.refuses("transcribe", model, a, "--format", "txt,srt", code=2,
                    says="several formats go into files")
    luminal.refuses("transcribe", model, a, "--format", "txt", "--out", folder / "no",
                    says="/no: no such folder")
    luminal.refuses("transcribe", model, code=2, says="audio")
    (folder / "ggml-tiny.bin").write_bytes(b"lmgg" + bytes(100))
    luminal.refuses("transcribe", folder / "ggml-tiny.bin", a,
                    says="ggml-tiny.bin: offset 4: n_vocab is 0, expected 1 to")
    luminal.refuses("run", folder / "ggml-tiny.bin", "a",
                    says="a ggml file of whisper.cpp: a Whisper model, which luminal transcribe reads")
    luminal.refuses("transcribe", SOURCE / "models" / "builtin" / "luminal-tales.gguf", a,
                    says="tales.gguf: a GGUF file; a Whisper model is read from a Hugging Face folder or "
                         "from a file of whisper.cpp")


def classify(luminal, folder):
    folder.mkdir()
    models(folder)
    (folder / "squeezenet1.1.onnx").symlink_to(folder / "mean.onnx")
    (folder / "mnist.onnx").symlink_to(folder / "grey.onnx")
    pictures = SOURCE / "tests" / "models" / "pictures"
    (folder / "resnet-50").symlink_to(pictures / "resnet")
    (folder / "cat.jpg").write_bytes(ppm(40, 20, (10, 250, 20)))
    (folder / "three.png").write_bytes(b"P6 2 2 255\n" + bytes([0, 0, 0, 255, 255, 255, 9, 9, 9, 0, 0, 0]))
    (folder / "imagenet.txt").write_text("red\ngreen\nblue\n")
    shown = examples(luminal, "luminal classify", folder)
    check(len(shown) == 3 and len(shown[0].splitlines()) == 5 and "  fish, gold\n" in shown[0],
          f"classify: {shown[0]}")
    check([line.split()[1] for line in shown[1].splitlines()] == ["green", "blue", "red"],
          f"classify: {shown[1]}")
    check(shown[2].splitlines()[0] == "1.0000  class 1", f"classify: {shown[2]}")
    luminal.refuses("classify", pictures / "vit", folder / "cat.jpg", says="vit/model.safetensors")
    luminal.refuses("detect", folder / "resnet-50", folder / "cat.jpg",
                    says=r"outputs \[1, 5\] are not boxes of a known form")
    mean, cat = folder / "mean.onnx", folder / "cat.jpg"
    options = ("--scale", "1", "--mean", "0", "--std", "10", "--fit", "letterbox")
    answer = json.loads(luminal("classify", mean, cat, cat, *options, "--json", "-k", "2")[0])
    check(set(answer) | set(answer["results"][0]) | set(answer["results"][0]["classes"][0]) <=
          documented_words("luminal classify"), f"keys of classify: {answer}")
    # Seven of fourteen rows are the picture, the others grey 114.
    means = [(c + 114) / 2 / 10 for c in (10, 250, 20)]
    parts = [math.exp(m) for m in means]
    got = {row["class"]: row["score"] for row in answer["results"][1]["classes"]}
    check(set(got) == {1, 2} and all(abs(got[k] - parts[k] / sum(parts)) < 1e-5 for k in got),
          f"scores: {got}")
    blue = json.loads(luminal("classify", mean, cat, *options, "--bgr", "--json", "-k", "2")[0])
    check([row["class"] for row in blue["results"][0]["classes"]] == [1, 0], "--bgr changes nothing")

    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "empty.png").write_bytes(b"")
    (folder / "empty.txt").write_text("\n\n")
    luminal.refuses("classify", mean, folder / "broken.png",
                    says="broken.png: not a picture that can be read")
    luminal.refuses("classify", mean, folder / "empty.png", says="empty.png")
    luminal.refuses("classify", mean, cat, "--size", "28",
                    says=r"mean.onnx: the input x \[1, 3, 14, 14\] has another size than --size says")
    luminal.refuses("classify", mean, cat, "--size", "2x3x4", code=2, says="--size 2x3x4: 640, or 480x640")
    luminal.refuses("classify", mean, cat, "--mean", "1,2",
                    says="2 numbers for 3 channels: one, or one a channel, is expected")
    luminal.refuses("classify", cat, cat, says="cat.jpg")
    luminal.refuses("classify", folder / "open.onnx", cat,
                    says=r"open.onnx: the input x \[1, 3, -1, -1\] leaves its size open: --size gives it")
    luminal("classify", folder / "open.onnx", cat, "--size", "6x8")
    luminal.refuses("classify", folder / "two.onnx", cat,
                    says=re.escape("two.onnx: 2 inputs; one picture is expected, [1, 1 or 3, height, width] "
                                   "or [1, height, width, 1 or 3]"))
    luminal.refuses("classify", mean, cat, "--labels", folder / "empty.txt",
                    says="empty.txt: no names, expected one a line")
    luminal.refuses("classify", folder / "pairs.onnx", cat,
                    says=re.escape("pairs.onnx: the output scores [1, 3, 2] has no classes, [1, classes] is "
                                   "expected"))


def detect(luminal, folder):
    folder.mkdir()
    models(folder)
    (folder / "yolox_nano.onnx").symlink_to(folder / "yolox.onnx")
    (folder / "version-RFB-320.onnx").symlink_to(folder / "pairs.onnx")
    (folder / "street.jpg").write_bytes(ppm(64, 48, (200, 200, 200)))
    (folder / "party.jpg").write_bytes(ppm(64, 48, (90, 90, 90)))
    shown = examples(luminal, "luminal detect", folder)
    # Cell (1, 2): its centre is 12, 18 of 32, and 24, 36 of the picture, which is twice as large.
    check(shown[0] == "0.720  8 28 40 44  bicycle\n", f"detect: {shown[0]}")
    check((folder / "boxes.png").read_bytes().startswith(b"\x89PNG"), "boxes.png is not a picture")
    answer = json.loads(shown[1])
    boxes = answer["results"][0]["boxes"]
    check(set(answer) | set(answer["results"][0]) | set(boxes[0]) <= documented_words("luminal detect"),
          f"keys of detect: {answer}")
    check([(round(b["score"], 4), b["class"], b["box"]) for b in boxes] ==
          [(0.9, 1, [16, 12, 32, 36])], f"detect: {boxes}")
    pairs, party = folder / "pairs.onnx", folder / "party.jpg"
    every = luminal("detect", pairs, party, "--overlap", "1")[0].decode().splitlines()
    check([line.split()[0] for line in every] == ["0.900", "0.800", "0.700"], f"detect --overlap 1: {every}")
    none, note = luminal("detect", pairs, party, "--score", "0.95")
    check(none == b"" and "nothing is found" in note, f"detect without boxes: {none} {note}")
    drawn = folder / "drawn.bmp"
    luminal("detect", pairs, party, "-o", drawn)
    pixels = drawn.read_bytes()[54:]  # rows from below, blue first
    at = lambda x, y: tuple(pixels[((47 - y) * 64 + x) * 3 + k] for k in (2, 1, 0))
    check(at(24, 24) == (90, 90, 90) and at(16, 30) != (90, 90, 90) and at(16, 30) == at(31, 30) and
          at(40, 40) == (90, 90, 90), f"the frame: {at(16, 30)} {at(24, 24)}")
    luminal.refuses("detect", folder / "mean.onnx", party,
                    says=r"outputs \[1, 3\] are not boxes of a known form: yolox, yolov5, yolov8, "
                         r"pairs")
    luminal.refuses("detect", pairs, party, "--form", "yolov8",
                    says="outputs .* do not have the form that was asked for")
    luminal.refuses("detect", pairs, party, "-o", folder / "x.gif",
                    says="x.gif: a picture is written as .png, .jpg or .bmp")
    luminal.refuses("detect", pairs, party, party, "-o", drawn, code=2, says="--out names a folder")


def real_models(luminal, folder):
    """What published models find in real pictures."""
    if not (DATA / "vision").is_dir():
        print("skipped: no test data, so no published models")
        return
    folder.mkdir()
    vision = DATA / "vision"
    answer = json.loads(luminal("detect", vision / "yolox_nano.onnx", vision / "dog.jpg", "--labels", "coco",
                                "--json", "-o", folder / "dog.png")[0])["results"][0]
    found = {b["label"]: b for b in answer["boxes"]}
    for label, score, box in (("dog", 0.855, [133, 207, 326, 543]), ("bicycle", 0.803, [48, 136, 572, 425]),
                              ("car", 0.798, [466, 78, 692, 171])):
        b = found.get(label, {"score": 0, "box": [0, 0, 0, 0]})
        check(abs(b["score"] - score) < 0.05 and max(abs(x - y) for x, y in zip(b["box"], box)) < 12,
              f"{label}: {b}, expected {score} {box}")
    faces = json.loads(luminal("detect", vision / "ultraface_rfb_320.onnx", vision / "grace_hopper_224.png",
                               "--score", "0.7", "--json")[0])["results"][0]["boxes"]
    check(len(faces) == 1 and faces[0]["score"] > 0.9, f"faces: {faces}")
    hopper = json.loads(luminal("classify", vision / "squeezenet1.1.onnx", vision / "grace_hopper_224.png",
                                "--fit", "stretch", "--json")[0])["results"][0]["classes"]
    check([c["class"] for c in hopper[:2]] == [834, 652], f"a suit, a military uniform: {hopper}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        luminal = Luminal(sys.argv[1], folder / "cache")
        transcribe(luminal, folder / "transcribe")
        classify(luminal, folder / "classify")
        detect(luminal, folder / "detect")
        real_models(luminal, folder / "real")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
