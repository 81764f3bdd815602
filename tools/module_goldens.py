#!/usr/bin/env python3
# tools/module_goldens.py -- makes tests/models/modules.safetensors: what small models of several families
# give, by transformers.
"""Weights are a function of their names (`weights` here, and in tests/models/modules_test.cpp), so that only
outputs are stored. Needs: pip install transformers torch safetensors numpy. Usage: module_goldens.py"""

import pathlib
import zlib

import numpy
import torch
import transformers
from safetensors.torch import save_file

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models" / "modules.safetensors"


def uniform(name, count):
    """-1..1, the same on every machine: a hash of name and place."""
    h = (numpy.arange(1, count + 1, dtype=numpy.uint64) * 2654435761 + zlib.crc32(name.encode())) & 0xFFFFFFFF
    h ^= h >> numpy.uint64(15)
    h = (h * numpy.uint64(2246822519)) & numpy.uint64(0xFFFFFFFF)
    h ^= h >> numpy.uint64(13)
    return h.astype(numpy.float64) / 2**31 - 1


def weights(name, shape):
    u = uniform(name, max(1, int(numpy.prod(shape)))).reshape(shape)
    if name.endswith("running_var"):
        return 1.5 + 0.5 * u
    if len(shape) == 1 and name.endswith("weight"):
        return 1 + 0.2 * u  # of a norm
    if len(shape) > 1:
        return u * numpy.sqrt(3 / max(1, numpy.prod(shape[1:])))
    return 0.2 * u


# What files call these, which have other names inside of transformers 5.
PUBLISHED = (("vit.layers.", "vit.encoder.layer."), (".attention.q_proj", ".attention.attention.query"),
             (".attention.k_proj", ".attention.attention.key"),
             (".attention.v_proj", ".attention.attention.value"),
             (".attention.o_proj", ".attention.output.dense"), (".mlp.fc1", ".intermediate.dense"),
             (".mlp.fc2", ".output.dense"))


def published(name):
    if name.startswith("vit."):
        for inside, outside in PUBLISHED:
            name = name.replace(inside, outside)
    return name


def fill(model):
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                value.copy_(torch.from_numpy(numpy.asarray(weights(published(name), tuple(value.shape)))))
    return model.eval()


def pictures(side, count=1):
    return torch.from_numpy(uniform("picture", count * 3 * side * side).reshape(count, 3, side, side)).float()


def main():
    out = {}
    with torch.no_grad():
        vit = fill(transformers.ViTForImageClassification(transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=24,
            patch_size=8, num_labels=7)))
        out["vit"] = vit(pictures(24)).logits
        clip = fill(transformers.CLIPModel(transformers.CLIPConfig(
            text_config=dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
                             vocab_size=64, max_position_embeddings=12, eos_token_id=63, bos_token_id=62),
            vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                               num_attention_heads=4, image_size=24, patch_size=8),
            projection_dim=16)))
        texts = torch.tensor([[62, 5, 9, 63, 0, 0], [62, 40, 17, 22, 30, 63]])
        found = clip(input_ids=texts, pixel_values=pictures(24, 2))
        out["clip.image"], out["clip.text"] = found.image_embeds, found.text_embeds
        out["clip.logits"] = found.logits_per_image
        for side in (64, 57):
            mobile = fill(transformers.MobileNetV2ForImageClassification(
                transformers.MobileNetV2Config(depth_multiplier=0.35, num_labels=9, image_size=side)))
            out[f"mobilenet.{side}"] = mobile(pictures(side)).logits
        mamba = fill(transformers.Mamba2ForCausalLM(transformers.Mamba2Config(
            num_heads=8, head_dim=8, vocab_size=32, hidden_size=32, state_size=12, num_hidden_layers=2,
            n_groups=2, expand=2, chunk_size=4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            tie_word_embeddings=False)))
        tokens = torch.tensor([[(7 * i * i + 3) % 32 for i in range(13)]])
        out["mamba2"] = mamba(tokens).logits[0]
    for name, value in out.items():
        print(name, tuple(value.shape), float(value.abs().max()))
    save_file({name: value.float().contiguous() for name, value in out.items()}, FILE)


if __name__ == "__main__":
    main()
