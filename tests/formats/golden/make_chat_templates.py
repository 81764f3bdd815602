# formats/golden/make_chat_templates.py -- makes chat_templates.json: what Jinja 3.1 makes of the templates
# beside it, which are like those of models, with the settings of Hugging Face transformers.
# Needs: pip install jinja2==3.1.6. Usage: make_chat_templates.py chat_templates.json
import json
import pathlib
import sys

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

CHAT = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "  What is 2 + 2? \n"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": 'Say "ö" & <b>'},
]
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": [2.5, None, True]}}}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}},
    }
]
COMMON = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}

FOLDER = pathlib.Path(__file__).resolve().parent / "templates"


def environment():
    class GenerationTag(Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )

    def raise_exception(message):
        raise TemplateError(message)

    env.globals["raise_exception"] = raise_exception
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    return env


def main():
    calls = CHAT[:2] + [
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "3.5"},
        {"role": "tool", "content": "4"},
    ]
    thought = CHAT[:2] + [{"role": "assistant", "content": "<think>\nhm\n</think>\n\n4"}, CHAT[3]]
    parts = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " what? "}]}]
    chats = {
        "chat": {"messages": CHAT},
        "user": {"messages": CHAT[3:]},
        "tools": {"messages": calls, "tools": TOOLS},
        "thought": {"messages": thought, "enable_thinking": False},
        "parts": {"messages": parts},
        "wrong": {"messages": CHAT[1:2] * 2},
    }
    cases = []
    for name in ["chatml", "llama2", "llama3", "qwen", "gemma"]:
        source = (FOLDER / f"{name}.jinja").read_text()
        for chat, variables in chats.items():
            cases.append((f"{name}.{chat}", source, {**COMMON, **variables}))
    more = {"items": [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}, {"n": 3, "s": ""}]}
    for path in sorted(FOLDER.glob("pieces.*.jinja")):
        cases.append((path.stem, path.read_text(), more))
    rows = []
    for name, source, variables in cases:
        row = {"name": name, "template": source, "variables": variables}
        try:
            row["text"] = environment().from_string(source).render(**variables)
        except TemplateError as error:
            row["error"] = str(error)
        except TypeError:
            row["error"] = None
        rows.append(row)
    with open(sys.argv[1], "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")


main()
