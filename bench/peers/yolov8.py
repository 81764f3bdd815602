# bench/peers/yolov8.py -- YOLOv8n as a module of PyTorch, from its published description: a backbone with
# cross-stage blocks, features of three scales joined up and down, and a head without anchors whose
# distances are means over 16 bins.
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, inputs, outputs, kernel=1, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x):
        return nn.functional.silu(self.norm(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, width, residual):
        super().__init__()
        self.first, self.second, self.residual = Conv(width, width, 3), Conv(width, width, 3), residual

    def forward(self, x):
        y = self.second(self.first(x))
        return x + y if self.residual else y


class CrossStage(nn.Module):
    """Half of the channels go through the blocks; what each block gives is kept."""

    def __init__(self, inputs, outputs, blocks, residual):
        super().__init__()
        half = outputs // 2
        self.split = Conv(inputs, outputs)
        self.blocks = nn.ModuleList(Bottleneck(half, residual) for _ in range(blocks))
        self.join = Conv(half * (2 + blocks), outputs)

    def forward(self, x):
        parts = list(self.split(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.join(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Maxima over windows of 5, 9 and 13."""

    def __init__(self, width):
        super().__init__()
        self.reduce, self.join = Conv(width, width // 2), Conv(width * 2, width)

    def forward(self, x):
        parts = [self.reduce(x)]
        for _ in range(3):
            parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.join(torch.cat(parts, 1))


class Yolo(nn.Module):
    """[n, 3, h, w] to boxes (centre and size in pixels) and scores of classes: [n, 4 + classes, cells]."""

    def __init__(self, classes=80):
        super().__init__()
        self.to8 = nn.Sequential(
            Conv(3, 16, 3, 2),
            Conv(16, 32, 3, 2),
            CrossStage(32, 32, 1, True),
            Conv(32, 64, 3, 2),
            CrossStage(64, 64, 2, True),
        )
        self.to16 = nn.Sequential(Conv(64, 128, 3, 2), CrossStage(128, 128, 2, True))
        self.to32 = nn.Sequential(Conv(128, 256, 3, 2), CrossStage(256, 256, 1, True), Pyramid(256))
        self.up16, self.up8 = CrossStage(384, 128, 1, False), CrossStage(192, 64, 1, False)
        self.down16, self.join16 = Conv(64, 64, 3, 2), CrossStage(192, 128, 1, False)
        self.down32, self.join32 = Conv(128, 128, 3, 2), CrossStage(384, 256, 1, False)
        scales = (64, 128, 256)
        self.boxes = nn.ModuleList(
            nn.Sequential(Conv(c, 64, 3), Conv(64, 64, 3), nn.Conv2d(64, 64, 1)) for c in scales
        )
        self.scores = nn.ModuleList(
            nn.Sequential(Conv(c, classes, 3), Conv(classes, classes, 3), nn.Conv2d(classes, classes, 1))
            for c in scales
        )
        self.register_buffer("bins", torch.arange(16.0))

    def features(self, x):
        p8 = self.to8(x)
        p16 = self.to16(p8)
        p32 = self.to32(p16)
        n16 = self.up16(torch.cat([nn.functional.interpolate(p32, scale_factor=2.0), p16], 1))
        n8 = self.up8(torch.cat([nn.functional.interpolate(n16, scale_factor=2.0), p8], 1))
        n16 = self.join16(torch.cat([self.down16(n8), n16], 1))
        return n8, n16, self.join32(torch.cat([self.down32(n16), p32], 1))

    def forward(self, x):
        boxes, scores = [], []
        for i, (stride, f) in enumerate(zip((8, 16, 32), self.features(x))):
            n, _, h, w = f.shape
            distances = self.boxes[i](f).view(n, 4, 16, h * w).softmax(2)
            left, top, right, bottom = (distances * self.bins.view(1, 1, 16, 1)).sum(2).unbind(1)
            cx = (torch.arange(w, dtype=f.dtype) + 0.5).repeat(h)
            cy = (torch.arange(h, dtype=f.dtype) + 0.5).repeat_interleave(w)
            box = [cx + (right - left) / 2, cy + (bottom - top) / 2, left + right, top + bottom]
            boxes.append(torch.stack(box, 1) * stride)
            scores.append(self.scores[i](f).flatten(2).sigmoid())
        return torch.cat([torch.cat(boxes, 2), torch.cat(scores, 2)], 1)
