#!/usr/bin/env python3
# tools/picture_goldens.py -- makes tests/models/pictures: folders of models that classify, as transformers
# writes them, and what these see in a picture.
"""Weights are a function of their names (tools/module_goldens.py), so that folders hold configurations only,
but for the smallest one.
Needs: pip install "transformers<5" torch safetensors "pillow<12" numpy. Usage: picture_goldens.py"""

import pathlib
import sys

import torch
import transformers
from PIL import Image
from safetensors.torch import save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from module_goldens import fill  # noqa: E402

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models"
LABELS = {i: name for i, name in enumerate(["tench", "fish, gold", "cock", "hen", "jay"])}
STATISTICS = dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225])


def main():
    t = transformers
    picture = Image.open(TESTS / "moondream" / "picture.png").convert("RGB")
    cases = {
        "vit": (
            t.ViTForImageClassification(
                t.ViTConfig(
                    hidden_size=32,
                    num_hidden_layers=2,
                    num_attention_heads=4,
                    intermediate_size=48,
                    image_size=24,
                    patch_size=8,
                    id2label=LABELS,
                )
            ),
            t.ViTImageProcessor(size=dict(height=24, width=24)),
        ),
        "resnet": (
            t.ResNetForImageClassification(
                t.ResNetConfig(embedding_size=8, hidden_sizes=[16, 24], depths=[1, 2], id2label=LABELS)
            ),
            t.ConvNextImageProcessor(size=dict(shortest_edge=28), crop_pct=0.875, resample=3, **STATISTICS),
        ),
        "resnet_basic": (
            t.ResNetForImageClassification(
                t.ResNetConfig(
                    embedding_size=8,
                    hidden_sizes=[8, 12],
                    depths=[2, 1],
                    layer_type="basic",
                    downsample_in_first_stage=True,
                    id2label=LABELS,
                )
            ),
            t.BitImageProcessor(
                size=dict(shortest_edge=40), crop_size=dict(height=32, width=28), resample=3, **STATISTICS
            ),
        ),
        "mobilenet": (
            t.MobileNetV2ForImageClassification(
                t.MobileNetV2Config(depth_multiplier=0.35, image_size=32, id2label=LABELS)
            ),
            t.MobileNetV2ImageProcessor(size=dict(shortest_edge=36), crop_size=dict(height=32, width=32)),
        ),
    }
    out = {}
    with torch.no_grad():
        for name, (model, processor) in cases.items():
            folder = TESTS / "pictures" / name
            folder.mkdir(parents=True, exist_ok=True)
            fill(model)
            model.config.architectures = [type(model).__name__]
            model.config.save_pretrained(folder)
            if name == "resnet":  # small enough to be there as people have it
                model.save_pretrained(folder)
            processor.save_pretrained(folder)
            pixels = processor(picture, return_tensors="pt")["pixel_values"]
            out[f"{name}.pixels"] = pixels.contiguous()
            out[f"{name}.logits"] = model(pixels).logits.contiguous()
            print(name, tuple(pixels.shape), out[f"{name}.logits"])
    save_file(out, TESTS / "pictures" / "goldens.safetensors")


main()
