#!/usr/bin/env python3
# tests/tree/serve_hostile_test.py LUMINAL [--count N] [--seed S] -- requests that mean harm, N of them drawn
# at random: the server answers each with a status that fits, stays there, and takes no more memory.
import argparse
import concurrent.futures
import gzip
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "builtin" / "luminal-tales.gguf"
MAX_BODY = 100_000
PATHS = ["/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"]
GOOD = {
    "/v1/completions": {"prompt": "Ada", "max_tokens": 2},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2},
    "/tokenize": {"content": "Ada"},
    "/detokenize": {"tokens": [1, 2]},
}
# Every field that a client may send, so that each meets values of other types.
FIELDS = {
    "/v1/completions": "model prompt max_tokens temperature top_p top_k min_p n stop seed logprobs stream "
    "stream_options echo suffix best_of frequency_penalty presence_penalty repeat_penalty logit_bias user "
    "grammar json_schema response_format ignore_eos max_completion_tokens",
    "/v1/chat/completions": "model messages max_tokens max_completion_tokens temperature top_p top_k min_p n "
    "stop seed logprobs top_logprobs stream stream_options tools tool_choice parallel_tool_calls functions "
    "function_call response_format frequency_penalty presence_penalty logit_bias user metadata store "
    "modalities audio prediction reasoning_effort chat_template_kwargs grammar json_schema ignore_eos",
    "/tokenize": "content add_special parse_special",
    "/detokenize": "tokens",
}
ODD = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    -(2**31),
    2**53,
    2**63,
    -(2**63),
    2**64,
    10**30,
    0.5,
    -0.5,
    1e308,
    -1e308,
    5e-324,
    "",
    " ",
    "a",
    "\0",
    "1",
    "null",
    "\ud800",
    "\U0001f600" * 40,
    "word " * 3000,
    [],
    {},
    [[]],
    [{}],
    [None],
    [1],
    [-1],
    [10**12],
    ["a"],
    ["a", 1],
    [[1, 2], [3]],
    {"a": 1},
    {"type": "x"},
    {"type": None},
    {"role": "user"},
    [{"role": "user"}],
    [{"role": "user", "content": None}],
    [{"role": 1, "content": "a"}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "user", "content": [{"type": "image_url"}]}],
    [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        }
    ],
    [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}],
    [{"role": "tool", "content": "a", "tool_call_id": 1}],
    [{"type": "function", "function": {"name": "f"}}],
    {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
    {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}},
    {"type": "json_object", "schema": 1},
    "root ::= root",
    'root ::= "a"*',
    "root ::= (",
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    {"type": "array", "minItems": 10**9},
    {"type": "string", "maxLength": 10**12},
    {"enum": []},
    {"50256": -100},
    {"1": "a"},
    {"x": 1},
    {"include_usage": 1},
    {"include_usage": True},
]


class Server:
    def __init__(self, luminal):
        command = [luminal, "serve", str(MODEL), "--port", "0", "--ctx", "256", "--threads", "1", "--json"]
        command += ["--max-body", str(MAX_BODY), "--max-tokens", "16", "--timeout", "60", "--queue", "64"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = json.loads(self.process.stdout.readline())["port"]

    def connect(self, timeout=60):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout)
        return connection

    def status(self, name):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith(name + ":")))

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def post(path, body, *headers):
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"".join(h + b"\r\n" for h in headers) + b"\r\n" + body


def encoded(value):
    return json.dumps(value).encode()


def answers(data):
    """[(status, body)] of all answers in these bytes, the last of which may be cut off."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        if not first.startswith(b"HTTP/1.1 "):
            raise ValueError(f"no answer: {data[:200]!r}")
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(b":") for line in lines)}
        status = int(first.split()[1])
        if status == 100:
            data = rest
            continue
        if fields.get(b"transfer-encoding") == b"chunked":
            body = b""
            while True:
                size, _, rest = rest.partition(b"\r\n")
                count = int(size or b"0", 16)
                body, rest = body + rest[:count], rest[count + 2 :]
                if count == 0:
                    break
        else:
            count = int(fields.get(b"content-length", b"0"))
            body, rest = rest[:count], rest[count:]
        found.append((status, body))
        data = rest
    return found


def receive(connection, enough=None):
    """All bytes until the end, or until `enough` of them says so."""
    data = b""
    while enough is None or not enough(data):
        try:
            more = connection.recv(65536)
        except ConnectionResetError:
            break
        if not more:
            break
        data += more
    return data


def exchange(server, data, ends=False):
    """Sends bytes and gives the answers. ends: says that no more will come."""
    with server.connect() as connection:
        try:
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before the end
        return answers(receive(connection))


def well(answer, statuses):
    status, body = answer
    assert status in statuses, (status, body[:300])
    if status >= 400:
        error = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"} and error["message"], error
        kind = "server_error" if status >= 500 else "invalid_request_error"
        assert error["type"] == kind, (status, error)
    elif body[:5] != b"data:":
        json.loads(body)


# ---- kinds of harm: each takes the server and a generator of random numbers ----


def wrong_field(server, r):
    path = r.choice(PATHS)
    body = dict(GOOD[path])
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        body[r.choice(FIELDS[path].split())] = r.choice(ODD)
    got = exchange(server, post(path, encoded(body), b"Connection: close"))
    assert len(got) == 1, (body, got)
    try:
        well(got[0], (200, 400, 404, 413, 503))
    except AssertionError as error:
        raise AssertionError(f"{path} {json.dumps(body)[:300]}: {error}") from error


def wrong_json(server, r):
    text = bytearray(encoded(GOOD["/v1/chat/completions"]))
    kind = r.randrange(8)
    if kind == 0:
        text = text[: r.randrange(len(text))]
    elif kind == 1:
        text[r.randrange(len(text))] = r.randrange(256)
    elif kind == 2:
        text = b"[" * r.randrange(1, 50000) + b"]" * r.randrange(50000)
    elif kind == 3:
        text = b'{"prompt": ' + r.choice([b"NaN", b"1e999", b"-", b"0x10", b"'a'", b'\xef\xbb\xbf"a"']) + b"}"
    elif kind == 4:
        text = r.choice([b"", b"\0", b"\xff" * 1000, b"null", b"1", b'"', b"{}{}", "{}".encode("utf-16")])
    elif kind == 5:
        text = b'{"messages": [{"role": "user", "content": "' + r.randbytes(40).replace(b'"', b"") + b'"}]}'
    elif kind == 6:
        text = b"{" + b'"a": 1, ' * 9000 + b'"prompt": "a", "max_tokens": 1}'
    else:
        text = text.replace(b"Hello", r.choice([b"\\ud800", b"\\u0000", b"\\x", b"\xc3", b"\xed\xa0\x80"]))
    path = r.choice(PATHS[:3])
    got = exchange(server, post(path, bytes(text), b"Connection: close"))
    assert len(got) == 1, (text[:100], got)
    well(got[0], (200, 400))


def broken_http(server, r):
    good = post("/v1/completions", encoded(GOOD["/v1/completions"]))
    kind = r.randrange(9)
    if kind == 0:
        data = r.randbytes(r.randrange(1, 3000))
    elif kind == 1:
        data = bytearray(good)
        for _ in range(r.randrange(1, 8)):
            data[r.randrange(len(data))] = r.randrange(256)
        data = bytes(data)
    elif kind == 2:
        data = r.choice(
            [
                b"GET\r\n\r\n",
                b"GET /\r\n\r\n",
                b"GET / HTTP/9.9\r\n\r\n",
                b"get / http/1.1\r\n\r\n",
                b"\r\n\r\n\r\n",
                b"GET  /  HTTP/1.1\r\n\r\n",
                b"BREW /pot HTTP/1.1\r\n\r\n",
                b"GET http://x/ HTTP/1.1\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + r.randbytes(200),
            ]
        )
    elif kind == 3:
        data = b"GET /" + b"a" * r.choice([8000, 9000, 200000]) + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    elif kind == 4:
        value = r.choice([b"-1", b"a", b"", b"1e3", b"0x10", b"99999999999999999999999", b"4, 4"])
        data = good.replace(b"Content-Length: ", b"Content-Length: " + value + b"\r\nX: ")
    elif kind == 5:
        data = good.replace(
            b"Host: x", r.choice([b"Host x", b": x", b"Host: \0", b" Host: x", b"\xff: \xfe"])
        )
    elif kind == 6:
        data = good.replace(b"\r\n", b"\n")
    elif kind == 7:
        data = good.replace(b"Host: x", b"Host: x\r\nContent-Length: 5")
    else:
        data = good.replace(
            b"Host: x", b"Range: bytes=" + r.choice([b"0-", b"-", b"5-1", b"0-,0-,0-", b"a-b"])
        )
    for answer in exchange(server, data, True):  # where there is none, the connection has ended
        if answer[0] < 400:
            continue
        well(answer, range(400, 506))


def many_headers(server, r):
    if r.random() < 0.5:
        lines = b"X: " + b"a" * r.choice([7000, 9000, 300000]) + b"\r\n"
    else:
        lines = b"".join(b"X-%d: a\r\n" % i for i in range(r.choice([50, 2000, 50000])))
    data = b"GET /health HTTP/1.1\r\nHost: x\r\n" + lines + b"Connection: close\r\n\r\n"
    for answer in exchange(server, data):
        well(answer, (200, 400, 431))


def endless_headers(server, r):
    """Lines of a header without an end: the server must not keep them all."""
    line = b"X-%d: " % r.randrange(10) + b"a" * 1000 + b"\r\n"
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        sent = 0
        try:
            while sent < 30_000_000:
                connection.sendall(line * 100)
                sent += 100 * len(line)
        except OSError:
            pass
        assert sent < 30_000_000, "the server takes headers without an end"


def large_body(server, r):
    path = r.choice(PATHS)
    body = b'{"prompt": "' + b"a" * r.choice([MAX_BODY - 20, MAX_BODY + 1, 5 * MAX_BODY]) + b'"}'
    if r.random() < 0.5:
        data = post(path, body, b"Connection: close")
    else:
        data = b"POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % path.encode()
        for at in range(0, len(body), 5000):
            part = body[at : at + 5000]
            data += b"%x\r\n" % len(part) + part + b"\r\n"
        data += b"0\r\n\r\n"
    got = exchange(server, data)
    expected = (413,) if len(body) > MAX_BODY else (400,)
    if got:  # else the connection was reset while the body was sent
        well(got[0], expected)


def chunked(server, r):
    body = encoded(GOOD["/v1/completions"])
    kind = r.randrange(6)
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    half = len(body) // 2
    good = (
        b"%x\r\n" % half + body[:half] + b"\r\n%x\r\n" % (len(body) - half) + body[half:] + b"\r\n0\r\n\r\n"
    )
    if kind == 0:
        (answer,) = exchange(server, head + good)
        return well(answer, (200,))
    data = (
        head
        + [
            b"zz\r\n",
            b"-5\r\n" + body,
            b"ffffffffffffffff\r\n" + body,
            good[:half],
            b"5;a=b\r\nhello\r\n",
            b"%x\r\n" % len(body) + body + b"XX0\r\n\r\n",
        ][kind]
    )
    for answer in exchange(server, data, True):
        well(answer, (200, 400, 413))


def pipelined(server, r):
    count = r.randrange(2, 8)
    data = b"".join(post("/tokenize", encoded({"content": "a" * (i + 1)})) for i in range(count))
    got = exchange(server, data)
    assert len(got) == count, (count, got)
    for answer in got:
        well(answer, (200,))


def compressed(server, r):
    """A small body that becomes a large one."""
    body = gzip.compress(b'{"prompt": "' + b"a" * 50_000_000 + b'"}', 1)[: MAX_BODY - 1]
    data = post(r.choice(PATHS), body, b"Content-Encoding: " + r.choice([b"gzip", b"br", b"deflate"]))
    (answer,) = exchange(server, data)
    well(answer, (415,))


def leaves_early(server, r):
    stream = r.random() < 0.5
    body = encoded({"prompt": "Ada", "max_tokens": 16, "ignore_eos": True, "stream": stream})
    data = post("/v1/completions", body)
    data = data[: r.choice([1, 20, len(data) - len(body), len(data) - 3, len(data)])]
    with server.connect() as connection:
        connection.sendall(data)
        if r.random() < 0.3 and len(data) > len(body):
            connection.settimeout(0.05)
            try:
                connection.recv(1)
            except OSError:
                pass
        if r.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def slow_reader(server, r):
    body = encoded({"prompt": "Ada", "max_tokens": 16, "stream": True, "ignore_eos": True})
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(post("/v1/completions", body, b"Connection: close"))
        data = b""
        while more := connection.recv(200):
            data += more
            time.sleep(0.01)
    ((status, text),) = answers(data)
    assert status == 200 and text.endswith(b"data: [DONE]\n\n"), (status, text[-200:])


def slow_writer(server, r):
    data = post("/tokenize", encoded(GOOD["/tokenize"]), b"Connection: close")
    with server.connect() as connection:
        for at in range(0, len(data), 16):
            connection.sendall(data[at : at + 16])
            time.sleep(r.random() * 0.1)
        (answer,) = answers(receive(connection))
    well(answer, (200,))


def other_methods(server, r):
    method = r.choice(["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT", "GET"])
    path = r.choice(
        [*PATHS, "/", "/health", "/..", "/%2e%2e/etc/passwd", "/%00", "/%", "*", "/v1/models/" + "a" * 99]
    )
    for status, body in exchange(
        server, f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    ):
        assert status == 200 or 400 <= status < 506, status
        if status >= 400 and method != "HEAD":
            well((status, body), range(400, 506))


KINDS = [
    (wrong_field, 50),
    (wrong_json, 15),
    (broken_http, 12),
    (many_headers, 3),
    (large_body, 3),
    (chunked, 4),
    (pipelined, 3),
    (compressed, 1),
    (leaves_early, 5),
    (slow_reader, 1),
    (slow_writer, 1),
    (other_methods, 3),
]


def idle_connections(server, count):
    """Connections that say nothing, or a little at a time, keep nobody else out."""
    held = [server.connect() for _ in range(count)]
    for connection in held[::2]:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nX: ")
    begin = time.monotonic()
    ((status, _),) = exchange(server, b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
    seconds = time.monotonic() - begin
    for connection in held:
        connection.close()
    assert status == 200 and seconds < 2.5, f"{count} idle connections: answered after {seconds:.1f} s"


def dribbler(server, limit):
    """A request whose bytes come one at a time without an end is given up after a while."""
    with server.connect() as connection:
        begin = time.monotonic()
        connection.sendall(b"GET /health HTTP/1.1\r\nX: ")
        try:
            while time.monotonic() < begin + limit:
                connection.sendall(b"a")
                time.sleep(0.2)
        except OSError:
            return
    raise AssertionError(f"a request is still read after {limit} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("luminal")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--only", help="one kind")
    a = parser.parse_args()
    server = Server(a.luminal)
    failures = []

    def one(number):
        r = random.Random(a.seed * 1_000_000 + number)
        kind = r.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
        if a.only:
            kind = globals()[a.only]
        try:
            kind(server, r)
        except Exception as error:  # noqa: BLE001: all of them are told
            failures.append(f"request {number} ({kind.__name__}): {type(error).__name__}: {error}")

    def alone():
        data = post(
            "/v1/completions",
            encoded({"prompt": "Ada", "max_tokens": 12, "temperature": 0}),
            b"Connection: close",
        )
        ((status, body),) = exchange(server, data)
        assert status == 200, (status, body)
        return json.loads(body)["choices"][0]["text"]

    def run(numbers):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            list(pool.map(one, numbers))

    def other(check, *arguments):
        try:
            check(server, *arguments)
        except Exception as error:  # noqa: BLE001
            failures.append(f"{check.__name__}: {type(error).__name__}: {error}")

    text = alone()
    run(range(a.count // 3))  # what is touched once is touched now
    rss, files = server.status("VmRSS"), server.files()
    slow = threading.Thread(target=other, args=(dribbler, 45))
    slow.start()
    run(range(a.count // 3, a.count))
    other(endless_headers, random.Random(a.seed))
    other(idle_connections, 200)
    slow.join()
    end = time.monotonic() + 60
    while True:  # who left makes room
        ((_, body),) = exchange(server, b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n")
        rows = dict(line.split() for line in body.decode().splitlines() if not line.startswith("#"))
        if (
            rows["luminal_requests_running"] == rows["luminal_requests_waiting"] == "0"
            and server.files() <= files + 8
        ):
            break
        if time.monotonic() > end:
            failures.append(f"after all of it: {rows}, {server.files()} files, {files} before")
            break
        time.sleep(0.1)
    try:
        assert alone() == text, "another text than before"
    except Exception as error:  # noqa: BLE001
        failures.append(f"the server is not what it was: {error!r}")
    grown = server.status("VmRSS") - rss
    if grown > 48 * 1024:
        failures.append(f"resident memory grew from {rss} to {rss + grown} kB")
    code = server.process.poll()
    if code is None:
        server.process.terminate()
        code = server.process.wait(60)
    if code != 0:
        failures.append(f"the server ended with {code}")
    for failure in failures:
        print("WRONG", failure)
    print(f"{a.count} hostile requests, {len(failures)} wrong, memory {rss} to {rss + grown} kB")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
