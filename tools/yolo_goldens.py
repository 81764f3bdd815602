#!/usr/bin/env python3
# tools/yolo_goldens.py -- makes tests/models/yolo.safetensors: what small models of the form of YOLOv8 give,
# by modules of torch.
"""The network as its published figures and weights have it, written here with torch modules whose names are
those of the weights; values of weights are a function of their names (module_goldens.py). Only outputs are
stored. Needs: pip install torch transformers safetensors numpy. Usage: yolo_goldens.py"""

import pathlib

import torch
from module_goldens import fill, pictures
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models" / "yolo.safetensors"
BINS = 16


class Layer(nn.Module):
    def __init__(self, before, after, kernel=1, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(after, eps=1e-3)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Pair(nn.Module):
    def __init__(self, width, around):
        super().__init__()
        self.cv1, self.cv2, self.around = Layer(width, width, 3), Layer(width, width, 3), around

    def forward(self, x):
        y = self.cv2(self.cv1(x))
        return x + y if self.around else y


class Stage(nn.Module):
    def __init__(self, before, after, count, around):
        super().__init__()
        self.cv1 = Layer(before, after)
        self.m = nn.ModuleList(Pair(after // 2, around) for _ in range(count))
        self.cv2 = Layer((2 + count) * (after // 2), after)

    def forward(self, x):
        parts = list(self.cv1(x).chunk(2, 1))
        for pair in self.m:
            parts.append(pair(parts[-1]))
        return self.cv2(torch.cat(parts, 1))


class Pyramid(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cv1, self.cv2 = Layer(width, width // 2), Layer(2 * width, width)

    def forward(self, x):
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.cv2(torch.cat(parts, 1))


class Head(nn.Module):
    def __init__(self, widths, classes):
        super().__init__()
        boxes, kinds = max(16, widths[0] // 4, 4 * BINS), max(widths[0], min(classes, 100))
        self.cv2 = nn.ModuleList(
            nn.Sequential(Layer(w, boxes, 3), Layer(boxes, boxes, 3), nn.Conv2d(boxes, 4 * BINS, 1))
            for w in widths)
        self.cv3 = nn.ModuleList(
            nn.Sequential(Layer(w, kinds, 3), Layer(kinds, kinds, 3), nn.Conv2d(kinds, classes, 1))
            for w in widths)

    def forward(self, levels):
        boxes, scores = [], []
        for i, x in enumerate(levels):
            stride, (rows, columns) = 8 << i, x.shape[2:]
            sides = self.cv2[i](x).flatten(2).unflatten(1, (4, BINS)).softmax(2)
            sides = torch.einsum("nsbp,b->nsp", sides, torch.arange(BINS).float())
            y, x_at = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
            centre = torch.stack([x_at.flatten(), y.flatten()])
            near, far = centre - sides[:, :2], centre + sides[:, 2:]
            boxes.append(torch.cat([(near + far) / 2, far - near], 1) * stride)
            scores.append(self.cv3[i](x).flatten(2).sigmoid())
        return torch.cat([torch.cat(boxes, 2), torch.cat(scores, 2)], 1)


class Yolo(nn.Module):
    def __init__(self, c, repeats, classes):
        super().__init__()
        none, r = nn.Identity, repeats
        self.model = nn.ModuleList([
            Layer(3, c[0], 3, 2), Layer(c[0], c[1], 3, 2), Stage(c[1], c[1], r[0], True),
            Layer(c[1], c[2], 3, 2), Stage(c[2], c[2], r[1], True), Layer(c[2], c[3], 3, 2),
            Stage(c[3], c[3], r[2], True), Layer(c[3], c[4], 3, 2), Stage(c[4], c[4], r[3], True),
            Pyramid(c[4]),
            none(), none(), Stage(c[4] + c[3], c[3], r[0], False), none(), none(),
            Stage(c[3] + c[2], c[2], r[0], False), Layer(c[2], c[2], 3, 2), none(),
            Stage(c[2] + c[3], c[3], r[0], False), Layer(c[3], c[3], 3, 2), none(),
            Stage(c[3] + c[4], c[4], r[0], False), Head(c[2:], classes)])

    def forward(self, x):
        m, at = self.model, {}
        for i in range(10):
            at[i] = x = m[i](x)
        at[12] = m[12](torch.cat([F.interpolate(at[9], scale_factor=2), at[6]], 1))
        at[15] = m[15](torch.cat([F.interpolate(at[12], scale_factor=2), at[4]], 1))
        at[18] = m[18](torch.cat([m[16](at[15]), at[12]], 1))
        at[21] = m[21](torch.cat([m[19](at[18]), at[9]], 1))
        return m[22]([at[15], at[18], at[21]])


def main():
    out = {}
    with torch.no_grad():
        out["small"] = fill(Yolo((8, 16, 24, 32, 40), (1, 2, 2, 1), 5))(pictures(64))
        wide = pictures(96)[:, :, :32]
        out["deep"] = fill(Yolo((8, 8, 16, 16, 24), (2, 3, 1, 2), 3))(wide)
    for name, value in out.items():
        print(name, tuple(value.shape), float(value.abs().max()))
    save_file({name: value.float().contiguous() for name, value in out.items()}, FILE)


if __name__ == "__main__":
    main()
