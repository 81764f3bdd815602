#!/usr/bin/env python3
# tests/tree/program_adapters_test.py -- --lora of run, chat, serve and convert; run --prompt-cache.
import json
import pathlib
import random
import re
import struct
import sys
import tempfile

from program import BUILTIN, Luminal, check, failures

GGUF = BUILTIN / "luminal-tales.gguf"
FOLDER = BUILTIN / "hf"


def save_adapter(folder, seed, scale, module="mlp.down_proj", rows=96, columns=160):
    """A PEFT adapter of one matrix in two layers."""
    generator = random.Random(seed)
    header, data = {}, b""
    for layer in (0, 3):
        for kind, shape in (("A", [4, columns]), ("B", [rows, 4])):
            values = [generator.uniform(-scale, scale) for _ in range(shape[0] * shape[1])]
            part = struct.pack(f"<{len(values)}f", *values)
            header[f"base_model.model.model.layers.{layer}.{module}.lora_{kind}.weight"] = {
                "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
            data += part
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_dora": False, "target_modules": [module]}))


def text_of(luminal, model, *options):
    return json.loads(luminal("run", model, "Ada", "-n", "16", "--temp", "0", "--json", *options)[0])["text"]


def adapters(luminal, folder):
    """The text of a merged model; nothing of scale 0; a mistake is one line."""
    save_adapter(folder / "first", 1, 0.3)
    save_adapter(folder / "second", 2, 0.3, module="self_attn.q_proj", columns=96)
    both = ("--lora", folder / "first", "--lora", f"{folder / 'second'}:1.5")
    plain, want = text_of(luminal, FOLDER), text_of(luminal, FOLDER, *both)
    check(want != plain, "adapters change no text")
    check(text_of(luminal, GGUF, *both) == want, "adapters on a GGUF file give another text")
    check(text_of(luminal, FOLDER, "--lora", f"{folder / 'first'}:0") == plain, "scale 0 is not the model")
    luminal("convert", FOLDER, folder / "merged.gguf", *both)
    check(text_of(luminal, folder / "merged.gguf") == want, "the merged model gives another text")
    luminal("convert", GGUF, folder / "merged", *both)
    check(text_of(luminal, folder / "merged") == want, "the merged folder gives another text")
    luminal("quantize", GGUF, folder / "q8.gguf", "Q8_0", *both)
    luminal("quantize", GGUF, folder / "base.gguf", "Q8_0")
    check(text_of(luminal, folder / "base.gguf", *both), "no text of a model in blocks with adapters")
    check((folder / "q8.gguf").read_bytes() != (folder / "base.gguf").read_bytes(), "quantize --lora")

    luminal.refuses("run", FOLDER, "Ada", "--lora", folder / "none", says="none: no such file or folder$")
    luminal.refuses("run", FOLDER, "Ada", "--lora", f"{folder / 'first'}:much", code=2,
                    says="--lora .*first:much: a number is expected behind the colon, such as 0.5, not much$")
    luminal.refuses("run", FOLDER, "Ada", "--lora", f"{folder / 'first'}:", code=2,
                    says="a number is expected behind the colon, such as 0.5, not nothing$")
    # A draft changes no text, whether it is often right or seldom.
    chat = ("chat", GGUF, "Ada", "--chat-template", "chatml", "--temp", "0", "-n", "12", "--json")
    alone = json.loads(luminal(*chat)[0])
    check("draft" not in alone, f"chat without a draft: {alone}")
    for draft in (GGUF, folder / "merged.gguf"):
        answer = json.loads(luminal(*chat, "--draft", draft, "--draft-count", "3")[0])
        check(answer["text"] == alone["text"], f"a draft changes the text: {answer}")
        check(answer["draft"]["count"] == 3 and answer["draft"]["proposed"] > 0, f"chat --draft: {answer}")
        check(draft != GGUF or answer["draft"]["share"] == 1, f"the model as its own draft: {answer}")
    luminal.refuses(*chat[:-1], "--draft", folder / "none.gguf", says="none.gguf: no such file")
    luminal.refuses(*chat[:-1], "--draft-count", "3", code=2, says="it is for --draft")
    luminal.refuses("chat", GGUF, "Ada", "--chat-template", "chatml", "--lora", folder / "none",
                    says="no such file or folder$")
    luminal.refuses("serve", GGUF, "--port", "0", "--lora", folder / "none", says="no such file or folder$")
    luminal.refuses("convert", GGUF, folder / "x.gguf", "--lora", folder / "none",
                    says="no such file or folder$")
    check(not (folder / "x.gguf").exists(), "a refused adapter leaves a file")
    save_adapter(folder / "wide", 1, 0.3, columns=96)
    luminal.refuses("run", FOLDER, "Ada", "--lora", folder / "wide",
                    says=r"wide/adapter_model.safetensors: tensors .*lora_A.weight, F32 \[4, 96\], and .*, "
                         r"do not fit model.layers.0.mlp.down_proj.weight, F16 \[96, 160\]$")
    config = folder / "second" / "adapter_config.json"
    config.write_text(config.read_text().replace('"use_dora": false', '"use_dora": true'))
    luminal.refuses("run", FOLDER, "Ada", "--lora", folder / "second",
                    says='adapter_config.json: "use_dora" is set, which is not supported$')


def prompt_cache(luminal, folder):
    """The same text from a cache, of which only what differs is read; what is not a cache is refused."""
    cache = folder / "prompt.cache"
    tale = "Ada had a small red boat. She took it to the lake and the wind blew."

    def run(prompt, *options, model=GGUF):
        shown, errors = luminal("run", model, prompt, "-n", "12", "--temp", "0", "--json", *options)
        return json.loads(shown), errors

    want = run(tale)[0]
    count = len(want["prompt_tokens"])
    check(want["cached_tokens"] == 0, f"cached_tokens without a cache: {want['cached_tokens']}")
    first, _ = run(tale, "--prompt-cache", cache)
    check(first["cached_tokens"] == 0 and first["text"] == want["text"], "the first run with a cache")
    written = cache.read_bytes()
    again, errors = run(tale, "--prompt-cache", cache)
    check(again["cached_tokens"] == count - 1 and again["text"] == want["text"], f"the second run: {again}")
    check(f"prompt cache: {count - 1} of {count} tokens from {cache}" in errors,
          f"the second run says {errors}")
    check(cache.read_bytes() == written, "a prompt that is held whole changes the file")
    drafted, _ = run(tale, "--prompt-cache", cache, "--draft", GGUF)
    check(drafted["cached_tokens"] == count - 1 and drafted["text"] == want["text"] and
          drafted["draft"]["share"] == 1, f"with a draft: {drafted}")
    luminal.refuses("run", GGUF, "--prompts", folder / "a.txt", "--prompt-cache", cache, code=2,
                    says="--prompt-cache: it is not for --prompts")
    # Longer and shorter texts; the file of a read-only one stays.
    longer = tale + " Then it began to rain."
    plain = run(longer)[0]
    more, _ = run(longer, "--prompt-cache", cache, "--prompt-cache-ro", "--ctx", "200")
    check(count - 2 <= more["cached_tokens"] <= count and more["text"] == plain["text"], f"longer: {more}")
    check(cache.read_bytes() == written, "--prompt-cache-ro writes")
    run(longer, "--prompt-cache", cache)
    check(len(cache.read_bytes()) > len(written), "a longer prompt is not written")
    less, _ = run(tale[:20], "--prompt-cache", cache)
    check(less["text"] == run(tale[:20])[0]["text"], "a shorter prompt gives another text")

    # Another model, another type: a note, and the file is replaced.
    luminal("quantize", GGUF, folder / "q8.gguf", "Q8_0")
    run(tale, "--prompt-cache", cache)
    for options, says in (((), "it is of another model, or of another way to compute it"),
                          (("--cache-type", "f16"), "its keys and values are f32, those of this run f16")):
        answer, errors = run(tale, "--prompt-cache", cache, *options, model=folder / "q8.gguf")
        check(f"note: {cache}: {says}; the prompt is read anew and the file replaced\n" in errors,
              f"another model says {errors!r}")
        check(answer["cached_tokens"] == 0, "tokens of another model are taken")
        answer, errors = run(tale, "--prompt-cache", cache, *options, model=folder / "q8.gguf")
        check(answer["cached_tokens"] == count - 1, "the replaced file is not read")

    content = cache.read_bytes()
    for damaged, says in ((b"GGUF" + content[4:], 'begins with "GGUFROMP", expected a prompt cache'),
                          (content[:-100], "the file is cut off or damaged$"),
                          (content[:100] + b"\x55\xaa\x55" + content[103:],
                           "content is not what was written, expected an intact file$")):
        cache.write_bytes(damaged)
        luminal.refuses("run", folder / "q8.gguf", tale, "--prompt-cache", cache,
                        says=re.escape(str(cache)) + ".*" + says)
        check(cache.read_bytes() == damaged, "a refused file is overwritten")
    luminal.refuses("run", GGUF, tale, "--prompt-cache", folder / "none" / "c",
                    says="--prompt-cache .*: there is no folder .*none$")
    luminal.refuses("run", GGUF, tale, "--prompt-cache", folder / "c", "--prompt-cache-ro",
                    says="--prompt-cache .*: no such file, and it is not to be written$")
    luminal.refuses("run", GGUF, tale, "--prompt-cache-ro", code=2, says="--prompt-cache")
    check(not list(folder.glob("*.tmp")), "temporary files are left")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        luminal = Luminal(sys.argv[1], folder / "cache")
        for test in (adapters, prompt_cache):
            place = folder / test.__name__
            place.mkdir()
            test(luminal, place)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
