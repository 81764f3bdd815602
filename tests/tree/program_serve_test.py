#!/usr/bin/env python3
# tests/tree/program_serve_test.py LUMINAL -- the server, as clients meet it: answers, streams, several at
# once, requests that mean harm, clients that go away, and its end.
import concurrent.futures
import http.client
import json
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

LUMINAL = sys.argv[1]
MODEL = str(pathlib.Path(__file__).resolve().parents[2] / "models" / "builtin" / "luminal-tales.gguf")
PROMPT = "Once there was"


class Server:
    """A server of the built-in model, or another one, at a free port."""

    def __init__(self, *options, model=MODEL):
        command = [
            LUMINAL,
            "serve",
            str(model),
            "--port",
            "0",
            "--ctx",
            "256",
            "--threads",
            "2",
            "--json",
            *options,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.port = json.loads(line)["port"]

    def ask(self, method, path, body=None, headers=None):
        """(status, body) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def complete(self, prompt=PROMPT, **options):
        body = {"prompt": prompt, "max_tokens": 24, "temperature": 0, **options}
        status, text = self.ask("POST", "/v1/completions", body)
        assert status == 200, (status, text)
        return json.loads(text)

    def stream(self, path, body):
        """The events of a stream, without [DONE], which must be the last one."""
        status, text = self.ask("POST", path, {**body, "stream": True})
        assert status == 200, (status, text)
        lines = [line for line in text.split("\n") if line]
        assert all(line.startswith("data: ") for line in lines), lines
        assert lines[-1] == "data: [DONE]", lines[-1]
        return [json.loads(line[6:]) for line in lines[:-1]]

    def metric(self, name):
        text = self.ask("GET", "/metrics")[1]
        return float(
            next(line.split()[1] for line in text.split("\n") if line.startswith(f"luminal_{name} "))
        )

    def wait_for(self, name, value, seconds=60):
        end = time.monotonic() + seconds
        while self.metric(name) != value:
            assert time.monotonic() < end, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.02)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(60)
        assert code == 0, (code, self.process.stderr.read())


def answers(server):
    assert json.loads(server.ask("GET", "/health")[1]) == {"status": "ok"}
    assert len(json.loads(server.ask("GET", "/v1/models")[1])["data"]) == 1
    assert "<html" in server.ask("GET", "/")[1]
    done = subprocess.run(
        [LUMINAL, "run", MODEL, PROMPT, "-n", "24", "--temp", "0", "--threads", "2", "--no-display-prompt"],
        capture_output=True,
        text=True,
        check=True,
    )
    alone = server.complete()
    text = alone["choices"][0]["text"]
    assert done.stdout.rstrip("\n") == text, (done.stdout, text)
    assert (
        alone["choices"][0]["finish_reason"] == "length" and alone["usage"]["completion_tokens"] == 24
    ), alone
    again = server.complete()
    assert again["choices"][0]["text"] == text
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, again
    events = server.stream(
        "/v1/completions",
        {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "stream_options": {"include_usage": True}},
    )
    assert "".join(e["choices"][0]["text"] for e in events if e["choices"]) == text, events
    assert events[-1]["usage"]["completion_tokens"] == 24, events
    stop = text[len(text) // 2 : len(text) // 2 + 3]
    cut = server.complete(stop=[stop])
    assert cut["choices"][0]["text"] == text[: text.index(stop)], (cut, stop)
    assert cut["choices"][0]["finish_reason"] == "stop"
    seeded = [server.complete(temperature=1.5, seed=7)["choices"][0]["text"] for _ in range(2)]
    assert seeded[0] == seeded[1]
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Tell me"}, {"type": "text", "text": " more"}]}
    ]
    body = {"messages": messages, "max_tokens": 8, "temperature": 0}
    chat = json.loads(server.ask("POST", "/v1/chat/completions", body)[1])
    streamed = server.stream("/v1/chat/completions", body)
    content = "".join(e["choices"][0]["delta"].get("content", "") for e in streamed)
    assert chat["choices"][0]["message"] == {"role": "assistant", "content": content}, (chat, content)
    assert streamed[0]["choices"][0]["delta"]["role"] == "assistant"
    ids = json.loads(server.ask("POST", "/tokenize", {"content": PROMPT})[1])["tokens"]
    assert json.loads(server.ask("POST", "/detokenize", {"tokens": ids})[1])["content"].strip() == PROMPT


def several_at_once(server):
    prompts = [
        PROMPT,
        "The lamp",
        "Ada was",
        "A small boat went",
        "Rain",
        "In the morning the box",
        "Far away",
        "She",
    ]
    alone = {p: server.complete(p)["choices"][0]["text"] for p in prompts}
    together = {}

    def one(prompt):
        together[prompt] = server.complete(prompt)["choices"][0]["text"]

    threads = [threading.Thread(target=one, args=(p,)) for p in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone, {p: (alone[p], together.get(p)) for p in prompts if alone[p] != together.get(p)}


def refusals(server):
    def refused(status, says, path, body, headers=None, method="POST"):
        got, text = server.ask(method, path, body, headers)
        message = json.loads(text)["error"]["message"]
        assert got == status and says in message, (got, message, says)

    path = "/v1/completions"
    refused(400, "the body is not JSON", path, b"{")
    refused(400, "the body is not JSON", path, b'{"prompt": "\xff\xfe"}')
    refused(400, "the body is not a JSON object", path, [1])
    refused(400, "the body is nested too deep", path, b"[" * 5000)
    refused(400, "prompt is missing", path, {})
    neither = "prompt is neither a text or a list of token ids nor a list of these"
    refused(400, neither, path, {"prompt": [1, "a"]})
    refused(400, neither, path, {"prompt": ["a", 1]})
    refused(400, neither, path, {"prompt": [10**9]})
    refused(400, "max_tokens is 0, expected 1", path, {"prompt": "a", "max_tokens": 0})
    refused(400, "temperature is not a number", path, {"prompt": "a", "temperature": "hot"})
    refused(400, "top_p is 2", path, {"prompt": "a", "top_p": 2})
    refused(400, "n is 0, expected 1 to 128", path, {"prompt": "a", "n": 0})
    refused(400, "100 texts in one request, the server takes 67 at most", path, {"prompt": "a", "n": 100})
    refused(400, "99 texts in one request, the server takes 67 at most", path, {"prompt": ["a"] * 99})
    refused(400, "logprobs is 21, expected 0 to 20", path, {"prompt": "a", "logprobs": 21})
    refused(400, "max_token is not a field that is known here", path, {"prompt": "a", "max_token": 2})
    refused(400, "echo is not supported", path, {"prompt": "a", "echo": True})
    refused(400, "stream_options is not an object", path, {"prompt": "a", "stream_options": 1})
    refused(400, "logit_bias is not an object of token ids with numbers from -100 to 100", path,
            {"prompt": "a", "logit_bias": {"1": 101}})
    refused(400, "logit_bias names the token 99999, there are 1024", path,
            {"prompt": "a", "logit_bias": {"99999": 1}})
    refused(415, "bodies with a Content-Encoding are not read", path, b"x" * 10, {"Content-Encoding": "gzip"})
    refused(400, "stream is not true or false", path, {"prompt": "a", "stream": 1})
    refused(400, "17 stop texts, at most 16 are supported", path, {"prompt": "a", "stop": ["x"] * 17})
    refused(400, "tokens, the context of the model holds 256", path, {"prompt": "word " * 2000})
    chat = "/v1/chat/completions"
    refused(400, "messages is not a list of messages", chat, {"messages": []})
    refused(400, "a message has no role", chat, {"messages": [{"content": "a"}]})
    refused(
        400,
        'a part of a message of type "input_audio" is not supported: text is',
        chat,
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
    )
    refused(
        400,
        "a part of a message is a picture, and luminal-tales takes none",
        chat,
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    )
    refused(
        400,
        'response_format "xml" is not supported',
        chat,
        {"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "xml"}},
    )
    refused(400, "grammar: offset 4: ::= is expected", path, {"prompt": "a", "grammar": "root"})
    refused(400, "no token of the vocabulary may follow: the grammar leaves none", path,
            {"prompt": "a", "grammar": "root ::= root"})
    refused(400, "grammar is not a text", path, {"prompt": "a", "grammar": 1})
    refused(
        400, "grammar and json_schema both say what the text is like", path,
        {"prompt": "a", "grammar": "root ::= \"a\"", "json_schema": {}},
    )
    refused(400, "response_format has no type", path, {"prompt": "a", "response_format": {}})
    refused(400, "response_format json_schema has no schema", path,
            {"prompt": "a", "response_format": {"type": "json_schema"}})
    refused(400, "\"pattern\" is not supported in a schema here", path,
            {"prompt": "a", "json_schema": {"type": "string", "pattern": "a"}})
    refused(400, "stop is not a text or a list of texts", path, {"prompt": "a", "stop": [1]})
    refused(400, "tool_choice: auto and none are supported", chat,
            {"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"})
    refused(400, "a message is not an object", chat, {"messages": [1]})
    refused(
        400,
        "the content of a message is neither a text nor a list of parts",
        chat,
        {"messages": [{"role": "user", "content": 1}]},
    )
    refused(400, "tools is not a list", chat, {"messages": [{"role": "user", "content": "a"}], "tools": 1})
    refused(
        400,
        "chat_template_kwargs is not an object",
        chat,
        {"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": 1},
    )
    refused(400, "content is not a text", "/tokenize", {"content": 1})
    refused(404, "there is no GET /nothing", "/nothing", None, None, "GET")
    refused(413, "the body is larger than --max-body", path, b"x" * 200000)
    refused(413, "of forms: name Content-Type: application/json", path, b"x" * 20000,
            {"Content-Type": "application/x-www-form-urlencoded"})
    refused(400, "tokens is not a list of token ids", "/detokenize", {"tokens": [-1]})


def formats(server):
    """Texts that fit a grammar or a schema, several at once, whatever the model would rather write."""
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                               "age": {"type": "integer", "minimum": 3, "maximum": 12}},
              "required": ["name", "age"]}
    wishes = [
        ({"grammar": "root ::= \"the \" (\"cat\" | \"dog\") \".\""}, lambda t: t in ("the cat.", "the dog.")),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
         lambda t: 3 <= json.loads(t)["age"] <= 12 and len(json.loads(t)["name"]) <= 8),
        ({"json_schema": {"enum": ["one", "two"]}}, lambda t: json.loads(t) in ("one", "two")),
    ]

    def one(number):
        wish, good = wishes[number % len(wishes)]
        answer = server.complete(prompt=PROMPT, max_tokens=120, temperature=0.9, seed=number, **wish)
        choice = answer["choices"][0]
        assert good(choice["text"]) and choice["finish_reason"] == "stop", answer

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(one, range(6)))


def harm(server):
    """Bytes that are no requests: the server goes on."""
    generator = random.Random(20250101)
    whole = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 34\r\n\r\n"
    whole += b'{"prompt": "a", "max_tokens": 1}  '
    for i in range(300):
        data = bytearray(whole)
        for _ in range(generator.randrange(1, 12)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        data = bytes(data[: generator.randrange(1, len(data) + 1)]) if i % 3 else generator.randbytes(64)
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.settimeout(0.01)
            try:
                connection.sendall(data)
                connection.recv(100)
            except OSError:
                pass
    assert server.ask("GET", "/health")[0] == 200
    server.wait_for("requests_running", 0)


def gone_clients(server):
    """Clients that leave in the middle of a stream free their places."""
    body = json.dumps({"prompt": PROMPT, "max_tokens": 100000, "stream": True, "ignore_eos": True}).encode()
    request = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for _ in range(8):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(request)
        assert connection.recv(2000)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        connection.close()
    server.wait_for("requests_running", 0)
    server.wait_for("requests_waiting", 0)
    server.complete()


def ends_what_it_writes(server):
    """What is being written when the end is asked for is written to its end."""
    body = json.dumps({"prompt": PROMPT, "max_tokens": 150, "stream": True, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        text = connection.recv(2000)
        assert b"data: " in text or b" 200 " in text, text
        server.process.send_signal(signal.SIGTERM)
        while more := connection.recv(65536):
            text += more
    assert b'"finish_reason":"length"' in text.replace(b" ", b""), text[-400:]
    assert b"data: [DONE]" in text, text[-400:]
    assert server.process.wait(60) == 0, server.process.stderr.read()


def wordless(folder):
    """A template that writes nothing, of a tokenizer without a begin token."""
    shutil.copytree(pathlib.Path(MODEL).parent / "hf", folder)
    for name, changes in (
        ("tokenizer_config.json", {"chat_template": "{{ '' }}", "add_bos_token": False}),
        ("tokenizer.json", {"post_processor": None}),
    ):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    server = Server(model=folder)
    body = {"messages": [{"role": "user", "content": "a"}]}
    status, text = server.ask("POST", "/v1/chat/completions", body)
    says = "the chat template makes an empty prompt of these messages"
    assert status == 400 and json.loads(text)["error"]["message"] == says, text
    server.end()


def padded(folder):
    """A model whose table has more rows than its tokenizer has tokens: such tokens have no text."""
    source = pathlib.Path(MODEL).parent / "hf"
    shutil.copytree(source, folder)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    table = header["model.embed_tokens.weight"]
    begin, end = table["data_offsets"]
    row = (end - begin) // table["shape"][0]
    table["shape"][0] += 500
    table["data_offsets"] = [len(data) - 8 - size, len(data) - 8 - size + (end - begin) + 500 * row]
    rows = data[8 + size + begin : 8 + size + end]
    body = data[8 + size :] + rows + rows[: 500 * row]  # the first rows once more: as likely
    body = body[:begin] + body[end:]  # no hole
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["data_offsets"][0] >= begin:
            tensor["data_offsets"] = [at - (end - begin) for at in tensor["data_offsets"]]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    config = json.loads((folder / "config.json").read_text())
    config["vocab_size"] += 500
    (folder / "config.json").write_text(json.dumps(config))

    server = Server(model=folder)
    answer = server.complete(temperature=1, top_k=0, top_p=1, max_tokens=60, ignore_eos=True)
    assert answer["usage"]["completion_tokens"] == 60 and answer["choices"][0]["text"], answer
    assert server.ask("GET", "/health")[0] == 200
    server.end(signal.SIGTERM)
    run = [LUMINAL, "run", str(folder), PROMPT, "--temp", "1", "--top-k", "0", "--top-p", "1", "-n", "60"]
    done = subprocess.run([*run, "--ignore-eos", "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and any(t >= 1024 for t in json.loads(done.stdout)["tokens"]), done


def several_drafted(server):
    """Each of several texts has its own proposals, and what is sampled is what it is alone."""
    every = {"seed": 7, "max_tokens": 30, "ignore_eos": True}
    names = (("Ada", 0), ("Ben", 0.8), ("Cleo", 0.8))
    wishes = [{"prompt": f"{PROMPT} {name}", "temperature": heat, **every} for name, heat in names]
    alone = [server.complete(**wish) for wish in wishes]
    steps = server.metric("steps_total")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda wish: server.complete(**wish), wishes))
    for one, other in zip(alone, together):
        assert one["choices"][0]["text"] == other["choices"][0]["text"], (one, other)
        counts = other["timings"]
        assert 0 < counts["draft_n_accepted"] <= counts["draft_n"], other
    assert server.metric("steps_total") - steps <= 75, "90 tokens, which alone take 90 steps without a draft"


def drafted():
    """With a draft every answer is what it is without one; what was proposed is counted."""
    server = Server("--parallel", "3", "--chat-template", "chatml", "--draft", MODEL, "--draft-count", "3")
    answers(server)
    several_at_once(server)
    formats(server)
    answer = server.complete(prompt=PROMPT + " a")
    counts = answer["timings"]
    assert answer["usage"]["completion_tokens"] == 24 and counts["predicted_n"] == 24, answer
    # The model as its own draft: all proposals are accepted, but for rounding.
    assert counts["draft_n"] >= 15 and counts["draft_n_accepted"] >= counts["draft_n"] - 4, answer
    events = server.stream("/v1/completions", {"prompt": PROMPT, "max_tokens": 24, "temperature": 0})
    assert events[-1]["timings"]["draft_n"] > 0 and "timings" not in events[0], events
    proposed, accepted = server.metric("draft_tokens_total"), server.metric("draft_tokens_accepted_total")
    assert 0 < accepted <= proposed, (accepted, proposed)
    steps = server.metric("steps_total")
    server.complete(prompt=PROMPT + " a", max_tokens=40)
    assert server.metric("steps_total") - steps < 25, "40 tokens, up to 4 a step"
    assert server.metric("draft_tokens_total") > proposed
    several_drafted(server)
    gone_clients(server)
    ends_what_it_writes(server)

    def refused(*options, code, says):
        command = [LUMINAL, "serve", MODEL, "--port", "0", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        lines = [line for line in done.stderr.splitlines() if line.startswith("luminal: ")]
        assert done.returncode == code and len(lines) == 1 and says in lines[0], done

    refused("--draft", "/no/such.gguf", code=1, says="/no/such.gguf: no such file or folder")
    refused("--draft", __file__, code=1, says="expected a GGUF file, a safetensors file or a Hugging Face")
    refused("--draft-count", "3", code=2, says="it is for --draft")
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder) / "other.gguf"
        data = pathlib.Path(MODEL).read_bytes()
        data = data.replace(b"<|end|>", b"<|fin|>")  # another spelling of one token
        other.write_bytes(data)
        says = f'{other}: a draft has the tokenizer of its model: token 1 is "<|fin|>", in {MODEL} it is'
        refused("--draft", str(other), code=1, says=says)


def main():
    server = Server("--parallel", "3", "--chat-template", "chatml", "--max-body", "100K")
    answers(server)
    several_at_once(server)
    refusals(server)
    formats(server)
    harm(server)
    gone_clients(server)
    assert "draft" not in server.ask("GET", "/metrics")[1]
    assert "draft_n" not in server.complete()["timings"]
    ends_what_it_writes(server)
    drafted()
    with tempfile.TemporaryDirectory() as folder:
        padded(pathlib.Path(folder) / "padded")

    server = Server("--parallel", "1", "--queue", "0")  # nothing waits, but a place is free
    server.complete()
    server.end()
    server = Server("--parallel", "1", "--queue", "1", "--api-key", "secret", "--max-tokens", "5")
    assert server.ask("GET", "/health")[0] == 200
    assert server.ask("POST", "/v1/completions", {"prompt": "a"})[0] == 401
    assert server.ask("GET", "/metrics", None, {"Authorization": "Bearer secreT"})[0] == 401
    key = {"Authorization": "Bearer secret"}
    status, text = server.ask(
        "POST", "/v1/completions", {"prompt": "a", "max_tokens": 50, "ignore_eos": True}, key
    )
    assert status == 200 and json.loads(text)["usage"]["completion_tokens"] == 5, text
    server.end(signal.SIGINT)
    busy = socket.socket()
    busy.bind(("127.0.0.1", 0))
    busy.listen()
    done = subprocess.run(
        [LUMINAL, "serve", MODEL, "--port", str(busy.getsockname()[1]), "--ctx", "64"],
        capture_output=True,
        text=True,
    )
    place = f"127.0.0.1:{busy.getsockname()[1]} cannot be listened at; --port and --host name another place"
    assert done.returncode == 1 and place in done.stderr, done
    with tempfile.TemporaryDirectory() as folder:
        bare = pathlib.Path(folder) / "bare.gguf"
        bare.write_bytes(pathlib.Path(MODEL).read_bytes().replace(b"chat_template", b"chat_templatX"))
        done = subprocess.run([LUMINAL, "chat", str(bare), "hello"], capture_output=True, text=True)
        says = f"{bare}: no chat template in the file; --chat-template chatml or FILE names one"
        assert done.returncode == 1 and says in done.stderr, done
        wordless(pathlib.Path(folder) / "wordless")
    chat = [LUMINAL, "chat", MODEL, "--chat-template", "chatml", "--temp", "0", "-n", "6"]
    one = subprocess.run([*chat, "hello"], capture_output=True, text=True, check=True)
    two = subprocess.run(
        chat, input="hello\n/new\nhello\n/bye\nmore\n", capture_output=True, text=True, check=True
    )
    assert two.stdout == one.stdout * 2, (one.stdout, two.stdout)
    done = subprocess.run([*chat, "word " * 5000, "--ctx", "64"], capture_output=True, text=True)
    says = "the conversation has .* tokens, the context holds 64: raise --ctx or begin anew (/new)"
    says = says.replace("(", "[(]").replace(")", "[)]")
    assert done.returncode == 1 and re.search(says, done.stderr), done
    ids = subprocess.run(
        [LUMINAL, "tokenize", MODEL, PROMPT, "--ids"], capture_output=True, text=True, check=True
    )
    rows = subprocess.run([LUMINAL, "tokenize", MODEL, PROMPT], capture_output=True, text=True, check=True)
    assert ids.stdout.strip().split(",") == [line.split()[0] for line in rows.stdout.splitlines()], (
        ids,
        rows,
    )
    print("the server: all well")


main()
