#!/usr/bin/env python3
# tests/tree/serve_openai_test.py LUMINAL -- the server, as OpenAI's own Python client has it.
# LUMINAL_OPENAI_PYTHON names an interpreter with the package `openai`; without one the test is skipped.
import json
import os
import pathlib
import subprocess
import sys

if len(sys.argv) > 1 and sys.argv[1] != "--client":
    python = os.environ.get("LUMINAL_OPENAI_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import openai"], capture_output=True).returncode != 0:
        print(f"{python} has no package openai: LUMINAL_OPENAI_PYTHON names an interpreter that has")
        sys.exit(77)
    sys.exit(subprocess.run([python, __file__, "--client", sys.argv[1]]).returncode)

import openai  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TALES = SOURCE / "models" / "builtin" / "luminal-tales.gguf"
MOONDREAM = SOURCE / "tests" / "models" / "moondream"
MESSAGES = [{"role": "user", "content": "Ada was a"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
# A template with a place for tools, and for calls in messages of before.
TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments.city }}{% endfor %}{% endfor %}"
)


class Server:
    def __init__(self, *options):
        command = [sys.argv[2], "serve", *map(str, options), "--port", "0", "--json", "--threads", "2"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        place = json.loads(line)
        self.client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{place['port']}/v1", api_key="key", max_retries=0, timeout=120
        )

    def __enter__(self):
        return self.client

    def __exit__(self, *error):
        self.process.terminate()
        assert self.process.wait(60) == 0


def refused(kind, says, call, **fields):
    try:
        call(**fields)
    except kind as error:
        assert says in error.body["message"], error.body
        return error.body
    raise AssertionError(f"{says}: was answered")


def chats(client):
    chat = client.chat.completions.create
    common = dict(model="any", messages=MESSAGES, temperature=0, max_tokens=12)
    one = chat(**common, user="someone", seed=1, top_p=0.9, presence_penalty=0, frequency_penalty=0)
    text = one.choices[0].message.content
    assert one.object == "chat.completion" and one.choices[0].finish_reason == "length" and text
    assert one.usage.completion_tokens == 12
    assert one.usage.total_tokens == one.usage.prompt_tokens + 12
    assert (
        chat(**(common | dict(max_tokens=None, max_completion_tokens=12))).choices[0].message.content == text
    )
    stream = list(chat(**common, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in stream if c.choices) == text
    assert stream[0].choices[0].delta.role == "assistant" and stream[-1].usage.completion_tokens == 12
    assert [c.choices[0].finish_reason for c in stream if c.choices][-1] == "length"
    # Several answers: the first has the seed that is given, and greedy ones are equal.
    three = chat(**common, n=3)
    assert [c.message.content for c in three.choices] == [text] * 3 and three.usage.completion_tokens == 36
    assert [c.index for c in three.choices] == [0, 1, 2]
    parts = ["", "", ""]
    for chunk in chat(**common, n=3, stream=True):
        parts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert parts == [text] * 3, parts
    drawn = chat(**(common | dict(temperature=1.5)), n=4, seed=5)
    assert len({c.message.content for c in drawn.choices}) > 1
    assert (
        drawn.choices[0].message.content
        == chat(**(common | dict(temperature=1.5)), seed=5).choices[0].message.content
    )
    middle = text[4:8]
    cut = chat(**common, stop=["\0never", middle])
    assert (
        cut.choices[0].message.content == text[: text.index(middle)]
        and cut.choices[0].finish_reason == "stop"
    )
    developer = [
        {"role": "developer", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
    ]
    system = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    answers = [chat(**(common | dict(messages=m))).choices[0].message.content for m in (developer, system)]
    assert answers[0] == answers[1]
    schema = {
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 3, "maximum": 12}},
        "required": ["age"],
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
    shaped = chat(**(common | dict(max_tokens=60)), response_format=wanted)
    assert 3 <= json.loads(shaped.choices[0].message.content)["age"] <= 12, shaped


def logprobs(client):
    chat = client.chat.completions.create
    common = dict(model="any", messages=MESSAGES, temperature=0, max_tokens=6)
    answer = chat(**common, logprobs=True, top_logprobs=3).choices[0]
    rows = answer.logprobs.content
    assert len(rows) == 6 and "".join(row.token for row in rows).strip() == answer.message.content.strip()
    for row in rows:
        assert row.logprob <= 0 and len(row.top_logprobs) == 3 and bytes(row.bytes).decode() == row.token
        assert row.top_logprobs[0].token == row.token and row.top_logprobs[0].logprob == row.logprob  # greedy
        assert [t.logprob for t in row.top_logprobs] == sorted(
            (t.logprob for t in row.top_logprobs), reverse=True
        )
    streamed = [
        row
        for chunk in chat(**common, logprobs=True, stream=True)
        if chunk.choices and chunk.choices[0].logprobs
        for row in chunk.choices[0].logprobs.content
    ]
    assert [row.logprob for row in streamed] == [row.logprob for row in rows]
    assert chat(**common).choices[0].logprobs is None
    # The likeliest token is forbidden, then another one forced.
    ids = {}
    for row in rows[0].top_logprobs:
        found = client.post(
            "http://{}/tokenize".format(client.base_url.netloc.decode()),
            cast_to=object,
            body={"content": row.token},
        )
        ids[row.token] = found["tokens"][-1]
    first = rows[0].top_logprobs
    other = chat(**common, logprobs=True, logit_bias={str(ids[first[0].token]): -100})
    assert other.choices[0].logprobs.content[0].token == first[1].token, (other, first)
    text = client.completions.create(
        model="any", prompt=["Ada", "The lamp"], max_tokens=4, temperature=0, logprobs=2
    )
    assert [c.index for c in text.choices] == [0, 1]
    for choice in text.choices:
        p = choice.logprobs
        assert "".join(p.tokens) == choice.text and len(p.token_logprobs) == len(p.top_logprobs) == 4
        assert p.text_offset == [len("".join(p.tokens[:i])) for i in range(4)]
        assert all(max(top.values()) == own for top, own in zip(p.top_logprobs, p.token_logprobs))
    pairs = client.completions.create(
        model="any", prompt=["Ada", "The lamp"], n=2, max_tokens=4, temperature=0
    )
    assert [c.text for c in pairs.choices] == [c.text for c in text.choices for _ in range(2)]


def refusals(client):
    chat = client.chat.completions.create
    common = dict(model="any", messages=MESSAGES, max_tokens=2)
    bad = openai.BadRequestError
    body = refused(bad, "is not a field that is known here", chat, **common, extra_body={"max_token": 3})
    assert body["code"] == "unknown_parameter" and body["param"] == "max_token"
    refused(bad, "top_logprobs asks for logprobs: true", chat, **common, top_logprobs=2)
    refused(bad, "n is 129, expected 1 to 128", chat, **common, n=129)
    refused(bad, "100 texts in one request, the server takes 68 at most", chat, **common, n=100)
    refused(bad, "modalities is not supported", chat, **common, modalities=["text", "audio"])
    refused(bad, "reasoning_effort is not supported", chat, **common, reasoning_effort="low")
    refused(bad, "the chat template of the model has no place for tools", chat, **common, tools=[TOOL])
    refused(bad, "logit_bias is not an object of token ids", chat, **common, logit_bias={"a": 1})
    refused(bad, "logit_bias names the token 999999", chat, **common, logit_bias={"999999": 1})
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    refused(bad, "a part of a message is a picture, and", chat, **(common | dict(messages=picture)))
    refused(bad, "stream_options is not an object", chat, **common, extra_body={"stream_options": 1})
    refused(bad, "model is not a text", chat, **common, extra_body={"model": 1})
    refused(openai.NotFoundError, "there is no", client.embeddings.create, model="any", input="a")
    chat(**common, modalities=["text"], metadata={"a": "b"}, store=False, service_tier="auto")


def tools(client):
    """The model calls a tool because a grammar lets it write nothing else."""
    common = dict(model="any", messages=MESSAGES, tools=[TOOL], max_tokens=100)
    call = r'"{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}"'
    forms = [
        f"root ::= {call}",
        f'root ::= "<tool_call>\\n" {call} "\\n</tool_call>"',
        f'root ::= "[" {call} "]"',
    ]
    for grammar in forms:
        for stream in (False, True):
            answer = client.chat.completions.create(**common, stream=stream, extra_body={"grammar": grammar})
            if stream:
                chunks = [c.choices[0] for c in answer if c.choices]
                (calls,) = [c.delta.tool_calls for c in chunks if c.delta.tool_calls]
                assert calls[0].index == 0 and chunks[-1].finish_reason == "tool_calls", chunks
            else:
                calls = answer.choices[0].message.tool_calls
                assert (
                    answer.choices[0].finish_reason == "tool_calls"
                    and answer.choices[0].message.content is None
                )
            assert len(calls) == 1 and calls[0].type == "function" and calls[0].id, calls
            assert calls[0].function.name == "weather", calls
            assert json.loads(calls[0].function.arguments) == {"city": "Ulm"}, calls
    plain = client.chat.completions.create(**common, extra_body={"grammar": 'root ::= "{\\"name\\": 1}"'})
    assert plain.choices[0].message.content == '{"name": 1}' and plain.choices[0].finish_reason == "stop"
    calls = [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}}]
    history = [
        *MESSAGES,
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "rain"},
    ]
    plain = [{"role": "user", "content": MESSAGES[0]["content"] + "Ulmrain"}]
    answers = [
        client.chat.completions.create(model="any", messages=m, temperature=0, max_tokens=8)
        .choices[0]
        .message.content
        for m in (history, plain)
    ]
    assert answers[0] == answers[1], answers
    refused(
        openai.BadRequestError,
        "tool_choice: auto and none are supported",
        client.chat.completions.create,
        **common,
        tool_choice="required",
    )


def main():
    with Server(TALES, "--ctx", "256") as client:
        assert [m.id for m in client.models.list().data]
        chats(client)
        logprobs(client)
        refusals(client)
    template = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"luminal-tools-{os.getpid()}.jinja"
    template.write_text(TEMPLATE)
    try:
        with Server(TALES, "--ctx", "512", "--chat-template", template) as client:
            tools(client)
    finally:
        template.unlink()
    print("the server, by OpenAI's client: all well")


main()
