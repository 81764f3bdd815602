#!/usr/bin/env python3
# tests/tree/program_image_test.py -- run --image: the answer of the goldens, from a folder and from pictures
# of every kind; wrong pictures, wrong models, contexts that are too short, an interrupted run.
import base64
import concurrent.futures
import json
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib

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
    luminal.refuses("serve", MODEL, "--port", "0", "--ctx", "20",
                    says="a picture takes 37 tokens, the context holds 20: raise --ctx")
    luminal.refuses("bench", MODEL, "-p", "8", "-n", "4",
                    says="a model of pictures and texts, which luminal run --image takes, and luminal serve")


def served(luminal):
    """Conversations about pictures, several at once."""
    process = subprocess.Popen([luminal.program, "serve", MODEL, "--port", "0", "--json", "--parallel", "3"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=luminal.environment)  # fmt: skip
    place = json.loads(process.stdout.readline())

    def post(messages, **more):
        url = f"http://127.0.0.1:{place['port']}/v1/chat/completions"
        body = json.dumps({"messages": messages, "temperature": 0, "max_tokens": 8, **more}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            return json.load(urllib.request.urlopen(request, timeout=120))
        except urllib.error.HTTPError as error:
            return json.load(error)

    def asked(picture, question):
        kind = "png" if picture.startswith(b"\x89PNG") else "x-portable-pixmap"
        url = f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question}]
        return {"role": "user", "content": parts}

    def refused(messages, says, **more):
        answer = post(messages, **more)
        check("error" in answer and says in answer["error"]["message"], f"{says}: {answer}")

    try:
        run = [luminal("run", MODEL, question, "--image", PICTURE, "--temp", "0", "-n", "8", "--json")[0]
               for question in ("Is it red?", "Why?")]  # fmt: skip
        texts = [json.loads(line)["text"] for line in run]
        png, dot = PICTURE.read_bytes(), b"P6 1 1 255\n\x01\x02\x03"
        wanted = [(png, "Is it red?"), (dot, "Is it red?"), (png, "Why?")] * 3
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            got = list(pool.map(lambda one: post([asked(*one)]), wanted))
        told = [answer["choices"][0]["message"]["content"] for answer in got]
        check([told[0], told[2]] == texts and told[0] != told[1], f"answers about pictures: {told} {texts}")
        check(told == told[:3] * 3, f"one picture, one answer: {told}")
        again = post([asked(png, "Is it red?")])
        check(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 37, again["usage"])
        turns = [asked(png, "Is it red?"), {"role": "assistant", "content": "no"},
                 {"role": "user", "content": "Why?"}]  # fmt: skip
        size = 1 + 36 + len("\n\nQuestion: Is it red?\n\nAnswer: no\n\nQuestion: Why?\n\nAnswer:")
        check(post(turns)["usage"]["prompt_tokens"] == size, "a conversation about a picture")
        plain = post([{"role": "user", "content": "Hello"}])
        check(plain["usage"]["completion_tokens"] == 8, f"without a picture: {plain}")

        def part(**fields):
            return [{"role": "user", "content": [{"type": "image_url", **fields}]}]

        refused(part(image_url={"url": "https://example.org/a.png"}), 
                "pictures are taken as data: URLs, nothing is fetched from elsewhere")
        refused(part(image_url={"url": "data:image/png;base64,AAAA"}), "not a picture that can be read")
        refused(part(image_url={"url": "data:image/png,AAAA"}), "the data: URL of a picture is not in base64")
        refused(part(image_url={"url": "data:a;base64,A"}), "the data: URL of a picture is not in base64")
        refused(part(), "a part of type image_url has no url")
        refused([{"role": "user", "content": [{"type": "input_audio"}]}],
                'a part of a message of type "input_audio" is not supported: text and image_url are')
        refused([asked(png, "a"), {"role": "assistant", "content": ""}, asked(png, "b")],
                "several pictures: one can be asked about")
        refused([{"role": "assistant", "content": "a"}], "messages are not of user and assistant by turns")
        refused([asked(png, "a"), asked(png, "a")], "messages are not of user and assistant by turns")
        refused([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
                "the last message is not of the user")
        refused([{"role": "user", "content": "a"}, {**asked(png, "a"), "role": "assistant"}],
                "a picture in a message of the assistant")
        refused([{"role": "system", "content": "a"}],
                'a message of the role "system": the model knows user and assistant')
        refused([{"content": "a"}], "a message has no role")
        refused([{"role": "user", "content": 1}],
                "the content of a message is neither a text nor a list of parts")
        refused([asked(png, "a")], "tools is not supported: the model has no template", tools=[])
        refused([asked(png, "word " * 100)], "tokens, the context of the model holds 128")
        side = 8300  # a small file with many pixels

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        wide = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
        wide += chunk(b"IDAT", zlib.compress(bytes((side // 8 + 2) * side))) + chunk(b"IEND", b"")
        refused([asked(wide, "a")], "the picture has 8300 x 8300 pixels, at most 67108864 are read")
    finally:
        process.terminate()
        check(process.wait(60) == 0, process.stderr.read())


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
        served(luminal)
        interrupted(luminal)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
