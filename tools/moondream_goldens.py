#!/usr/bin/env python3
# tools/moondream_goldens.py -- makes tests/models/moondream/*: a small Moondream 2, by transformers.
"""A folder as people have it (config.json, model.safetensors, tokenizer.json) with random weights, a picture,
and in golden.safetensors what comes of it: features and rows of pictures, logits behind a prompt, greedy
tokens. The vision part is SigLIP's and the text model Phi's (with the picture's tokens seeing each other), so
both are computed by transformers; what Moondream has around them (https://github.com/vikhyat/moondream,
image_crops.py and vision.py) is computed here. tests/models/moondream_test.cpp runs the folder.
Needs: pip install transformers torch safetensors 'pillow<12' (later ones resize down before across, which
rounds otherwise than what the models were trained on). Usage: moondream_goldens.py"""

import json
import math
import pathlib

import numpy
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import PhiConfig, PhiForCausalLM, SiglipVisionConfig, SiglipVisionModel

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models" / "moondream"
PATCH, SIDE, OVERLAP, TILES = 4, 6, 1, 4  # pixels; patches; patches; at most
CROP, WINDOW = PATCH * SIDE, SIDE - 2 * OVERLAP
WIDTH, LAYERS, HEADS, INNER, BETWEEN = 24, 2, 2, 40, 48
TEXT = dict(dim=32, ff_dim=64, n_layers=2, n_heads=2, n_kv_heads=2, vocab_size=260, max_context=128)
END = 256


def letters():
    """The characters that stand for bytes in byte-level BPE (GPT-2), in the order of the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b if b in plain else next(others)) for b in range(256)]


def tokenizer():
    end = {"id": END, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": {c: i for i, c in enumerate(letters())}, "merges": []}
    return {"version": "1.0", "added_tokens": [end], "normalizer": None, "pre_tokenizer": byte_level,
            "post_processor": byte_level, "decoder": byte_level, "model": model}  # fmt: skip


def ids(text):
    return list(text.encode())


def models():
    torch.manual_seed(5)
    vision = SiglipVisionModel(
        SiglipVisionConfig(hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
                           num_attention_heads=HEADS, image_size=CROP, patch_size=PATCH, layer_norm_eps=1e-5,
                           hidden_act="gelu_pytorch_tanh", vision_use_head=False)  # fmt: skip
    )
    text = PhiForCausalLM(
        PhiConfig(vocab_size=TEXT["vocab_size"], hidden_size=TEXT["dim"], intermediate_size=TEXT["ff_dim"],
                  num_hidden_layers=TEXT["n_layers"], num_attention_heads=TEXT["n_heads"],
                  num_key_value_heads=TEXT["n_kv_heads"], max_position_embeddings=TEXT["max_context"],
                  hidden_act="gelu_new", layer_norm_eps=1e-5, partial_rotary_factor=0.5,
                  tie_word_embeddings=False, attn_implementation="eager")  # fmt: skip
    )
    projection = torch.nn.ModuleDict({"fc1": torch.nn.Linear(2 * WIDTH, BETWEEN),
                                      "fc2": torch.nn.Linear(BETWEEN, TEXT["dim"])})  # fmt: skip
    for module in (vision, text, projection):
        for name, weight in module.named_parameters():
            scale = 1.0 if weight.dim() == 1 or "embed" in name else 1.6 / math.sqrt(weight[0].numel())
            values = torch.randn(weight.shape) * scale * (0.3 if weight.dim() == 1 else 1)
            if name.endswith("norm.weight") or "norm1.weight" in name or "norm2.weight" in name:
                values = 1 + values
            weight.data = values.half().float()
        module.eval()
        module.double()
    return vision, text, projection


def tensors(vision, text, projection):
    """The weights by the names of Moondream's folder."""
    out = {}
    v, t = dict(vision.named_parameters()), dict(text.named_parameters())
    v = {name.removeprefix("vision_model."): weight for name, weight in v.items()}

    def both(ours, theirs, table):
        for kind in ("weight", "bias"):
            out[f"model.{ours}.{kind}"] = table[f"{theirs}.{kind}"]

    def joined(ours, theirs, table):
        for kind in ("weight", "bias"):
            out[f"model.{ours}.{kind}"] = torch.cat([table[f"{theirs}.{p}_proj.{kind}"] for p in "qkv"])

    out["model.vision.patch_emb.weight"] = v["embeddings.patch_embedding.weight"].flatten(1)
    out["model.vision.patch_emb.bias"] = v["embeddings.patch_embedding.bias"]
    out["model.vision.pos_emb"] = v["embeddings.position_embedding.weight"].unsqueeze(0)
    both("vision.post_ln", "post_layernorm", v)
    for i in range(LAYERS):
        here, there = f"vision.blocks.{i}", f"encoder.layers.{i}"
        joined(f"{here}.attn.qkv", f"{there}.self_attn", v)
        for ours, theirs in (("ln1", "layer_norm1"), ("ln2", "layer_norm2"), ("mlp.fc1", "mlp.fc1"),
                             ("attn.proj", "self_attn.out_proj"), ("mlp.fc2", "mlp.fc2")):  # fmt: skip
            both(f"{here}.{ours}", f"{there}.{theirs}", v)
    for name, weight in projection.named_parameters():
        out[f"model.vision.proj_mlp.{name}"] = weight
    out["model.text.wte"] = t["model.embed_tokens.weight"]
    both("text.post_ln", "model.final_layernorm", t)
    both("text.lm_head", "lm_head", t)
    for i in range(TEXT["n_layers"]):
        here, there = f"text.blocks.{i}", f"model.layers.{i}"
        joined(f"{here}.attn.qkv", f"{there}.self_attn", t)
        for ours, theirs in (("ln", "input_layernorm"), ("attn.proj", "self_attn.dense"),
                             ("mlp.fc1", "mlp.fc1"), ("mlp.fc2", "mlp.fc2")):  # fmt: skip
            both(f"{here}.{ours}", f"{there}.{theirs}", t)
    out["model.region.coord_features"] = torch.zeros(1, 4)  # which answers about pictures do not use
    return {name: weight.detach().half().contiguous() for name, weight in out.items()}


def normalised(pixels):
    return (torch.from_numpy(numpy.array(pixels)).double() / 255 - 0.5).permute(2, 0, 1) / 0.5


def features(vision, pixels):
    return vision(pixels.unsqueeze(0)).last_hidden_state[0]


def picture_rows(vision, projection, picture, tiling):
    """Features of the whole picture beside those of its tiles, which are put together and pooled."""
    whole = features(vision, normalised(picture.resize((CROP, CROP), Image.Resampling.LANCZOS)))
    down, across = tiling
    height, width = down * WINDOW + 2 * OVERLAP, across * WINDOW + 2 * OVERLAP
    fitted = normalised(picture.resize((width * PATCH, height * PATCH), Image.Resampling.LANCZOS))
    joined = torch.zeros(height, width, WIDTH, dtype=torch.double)
    for i in reversed(range(down)):
        for j in reversed(range(across)):
            y, x = i * WINDOW, j * WINDOW
            tile = fitted[:, y * PATCH : y * PATCH + CROP, x * PATCH : x * PATCH + CROP]
            tile = features(vision, tile).reshape(SIDE, SIDE, WIDTH)
            top, left = (0 if i == 0 else OVERLAP), (0 if j == 0 else OVERLAP)
            bottom = SIDE if i == down - 1 else SIDE - OVERLAP
            right = SIDE if j == across - 1 else SIDE - OVERLAP
            joined[y + top : y + bottom, x + left : x + right] = tile[top:bottom, left:right]
    pooled = torch.nn.functional.adaptive_avg_pool2d(joined.permute(2, 0, 1), (SIDE, SIDE))
    both = torch.cat([whole, pooled.permute(1, 2, 0).reshape(SIDE * SIDE, WIDTH)], dim=-1)
    return projection["fc2"](torch.nn.functional.gelu(projection["fc1"](both), approximate="tanh"))


def logits(text, rows, tokens):
    """Behind every token of: the begin, the picture, the tokens."""
    embed = text.get_input_embeddings()
    all_rows = torch.cat([embed(torch.tensor([END])), rows, embed(torch.tensor(tokens))])
    n, prefix = all_rows.shape[0], 1 + rows.shape[0]
    seen = torch.tril(torch.ones(n, n, dtype=torch.bool))
    seen[:prefix, :prefix] = True
    mask = torch.zeros(1, 1, n, n, dtype=torch.double).masked_fill(~seen, -1e30)
    return text(inputs_embeds=all_rows.unsqueeze(0), attention_mask=mask).logits[0]


def main():
    FOLDER.mkdir(exist_ok=True)
    vision, text, projection = models()
    question, answer, caption = "\n\nQuestion:", "\n\nAnswer:", "\n\nLong caption:"
    config = {
        "architectures": ["HfMoondream"],
        "model_type": "moondream1",
        "config": {
            "text": TEXT,
            "vision": dict(enc_dim=WIDTH, enc_patch_size=PATCH, enc_n_layers=LAYERS, enc_ff_dim=INNER,
                           enc_n_heads=HEADS, proj_out_dim=TEXT["dim"], crop_size=CROP, in_channels=3,
                           max_crops=TILES, overlap_margin=OVERLAP, proj_inner_dim=BETWEEN),  # fmt: skip
            "tokenizer": {
                "bos_id": END,
                "eos_id": END,
                "templates": {
                    "caption": {"normal": ids(caption)},
                    "query": {"prefix": ids(question), "suffix": ids(answer)},
                },
            },
        },
        "torch_dtype": "float16",
    }
    (FOLDER / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (FOLDER / "tokenizer.json").write_text(json.dumps(tokenizer(), indent=0, ensure_ascii=False) + "\n")
    save_file(tensors(vision, text, projection), FOLDER / "model.safetensors")

    generator = numpy.random.default_rng(3)
    small = generator.integers(0, 256, (7, 5, 3), dtype=numpy.uint8)
    picture = Image.fromarray(small).resize((29, 43), Image.Resampling.BICUBIC)  # 43 high: two tiles down
    picture.save(FOLDER / "picture.png")
    whole = Image.fromarray(generator.integers(0, 256, (CROP, CROP, 3), dtype=numpy.uint8))
    golden = {}
    with torch.no_grad():
        golden["whole.pixels"] = torch.from_numpy(numpy.array(whole))
        golden["whole.features"] = features(vision, normalised(whole))
        golden["whole.rows"] = picture_rows(vision, projection, whole, (1, 1))
        golden["picture.pixels"] = torch.from_numpy(numpy.array(picture))
        for name, size in (("small", (CROP, CROP)), ("large", (70, 31))):
            other = picture.resize(size, Image.Resampling.LANCZOS)
            golden[f"picture.{name}"] = torch.from_numpy(numpy.array(other))
        rows = golden["picture.rows"] = picture_rows(vision, projection, picture, (2, 1))
        tokens = ids(question + " Is it red?" + answer)
        golden["logits"] = logits(text, rows, tokens)[-len(tokens) :]
        for _ in range(12):
            tokens.append(int(logits(text, rows, tokens)[-1].argmax()))
        golden["tokens"] = torch.tensor(tokens, dtype=torch.int32)
    golden = {n: (t.float() if t.is_floating_point() else t).contiguous() for n, t in golden.items()}
    save_file(golden, FOLDER / "golden.safetensors")
    print(tokens)


main()
