#!/usr/bin/env python3
# tests/tree/program_image_test.py -- run --image: the answer of the goldens, from a folder and from pictures
# of every kind; wrong pictures, wrong models, contexts that are too short, an interrupted run.
import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

from program import BUILTIN, SOURCE, Luminal, check, failures

MODEL = SOURCE / "tests" / "models" / "moondream"
PICTURE = MODEL / "picture.png"
QUESTION = "Is it red?"


def golden_tokens():
    """The greedy tokens behind the question, of transformers."""
    data = (MODEL / "golden.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8 : 8 + size])["tokens"]["data_offsets"]
    tokens = struct.unpack(f"<{(end - begin) // 4}i", data[8 + size + begin : 8 + size + end])
    return list(tokens[-12:])


def answers(luminal, folder):
    ask = ("--image", PICTURE, "--temp", "0", "--json")
    answer = json.loads(luminal("run", MODEL, QUESTION, *ask, "-n", "8")[0])
    check(answer["tokens"] == golden_tokens()[:8], f"other tokens: {answer['tokens']}")
    check(len(answer["prompt_tokens"]) == 37 + len(f"\n\nQuestion: {QUESTION}\n\nAnswer:"), "prompt")
    check(answer["prompt_tokens"][1:37] == list(range(260, 296)), "rows of the picture")
    check(answer["timings"]["image_s"] > 0, "no time of the vision part")
    (folder / "question.txt").write_text(QUESTION + "\n")
    other = json.loads(luminal("run", "-m", MODEL, "-f", folder / "question.txt", *ask, "-n", "8")[0])
    check(other["tokens"] == answer["tokens"], "the question from a file")
    described = json.loads(luminal("run", MODEL, *ask, "-n", "2")[0])
    check(bytes(described["prompt_tokens"][37:]) == b"\n\nLong caption:", "a description")
    text, errors = luminal("run", MODEL, QUESTION, "--image", PICTURE, "--temp", "0", "-n", "3")
    check(QUESTION.encode() not in text and "picture 29 x 43: 36 tokens" in errors, (text, errors))
    # Another picture of another kind, one pixel large.
    (folder / "dot.ppm").write_bytes(b"P6 1 1 255\n\x01\x02\x03")
    dot = json.loads(luminal("run", MODEL, QUESTION, "--image", folder / "dot.ppm", "--temp", "0", "--json",
                             "-n", "8")[0])
    check(len(dot["tokens"]) > 0, "a picture of one pixel")
    # The text model alone.
    plain = json.loads(luminal("run", MODEL, "Hello", "--temp", "0", "--json", "-n", "4")[0])
    check(plain["architecture"] == "phi2" and len(plain["tokens"]) > 0, plain)


def refusals(luminal, folder):
    image = ("--image", PICTURE)
    luminal.refuses("run", MODEL, QUESTION, "--image", folder / "none.png", says="none.png: .*No such file")
    (folder / "text.png").write_text("no picture\n")
    luminal.refuses("run", MODEL, QUESTION, "--image", folder / "text.png", says="text.png: ")
    luminal.refuses("run", MODEL, QUESTION, "--image", MODEL, says="moondream: ")
    gguf = BUILTIN / "luminal-tales.gguf"
    luminal.refuses("run", gguf, QUESTION, *image,
                    says="of the architecture llama, which takes no pictures here; expected Moondream 2")
    luminal.refuses("run", MODEL, QUESTION, *image, "--mmproj", gguf, says="the folder has the vision part")
    luminal.refuses("run", MODEL, QUESTION, "--mmproj", gguf, code=2, says="--mmproj: it is for --image")
    luminal.refuses("run", MODEL, *image, "--tokens", "1,2", code=2, says="--tokens: it is not for --image")
    luminal.refuses("run", MODEL, QUESTION, *image, "--ctx", "37",
                    says="a picture takes 37 tokens, the context holds 37: raise --ctx")
    luminal.refuses("run", MODEL, QUESTION, *image, "--ctx", "50",
                    says="the picture and the prompt have 68 tokens, the context holds 50: raise --ctx or "
                         "shorten the prompt")
    luminal.refuses("run", MODEL, QUESTION, *image, "--max-memory", "1K", says="memory")
    luminal.refuses("serve", MODEL, "--port", "0",
                    says="a model of pictures and texts, which luminal run takes, with --image PICTURE")


def interrupted(luminal):
    """Ctrl-C ends a run with a picture as it ends others: here while it compiles."""
    process = subprocess.Popen([luminal.program, "run", MODEL, QUESTION, "--image", PICTURE, "--no-cache"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=luminal.environment)  # fmt: skip
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    ended = (130, -signal.SIGINT)  # by the program, or before it looks out for it
    check(process.returncode in ended, f"exit code {process.returncode}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        luminal = Luminal(sys.argv[1], folder / "cache")
        answers(luminal, folder)
        refusals(luminal, folder)
        interrupted(luminal)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
