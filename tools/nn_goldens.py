#!/usr/bin/env python3
# tools/nn_goldens.py -- makes tests/nn/goldens.safetensors: parameters, inputs, results of PyTorch's modules.
"""Of a case named NAME the file holds NAME.PARAMETER as in the module's state_dict, NAME/in0 .. and
NAME/out0 .., and NAME/after.BUFFER where a step in training mode changes a buffer. tests/nn/modules_test.cpp
makes the same modules. Usage: nn_goldens.py"""

import json
import pathlib
import struct

import torch
from torch import nn

TYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
tensors = {}


def add(name, tensor):
    assert name not in tensors, name
    tensors[name] = tensor.detach().clone().contiguous()


def r(*shape):
    """Few different numbers: the file compresses."""
    return torch.randint(-8, 9, shape) / 4


def case(name, module, *inputs, outputs=None, train=False, **kwargs):
    """The module's parameters are drawn anew, so that biases and norms are not 0 and 1."""
    with torch.no_grad():
        for key, p in module.named_parameters():
            p.copy_(
                torch.randint(-8, 9, p.shape) / 16 + (1 if "norm" in key and key.endswith("weight") else 0)
            )
    module.train(train)
    for key, value in module.state_dict().items():
        add(f"{name}.{key}", value)
    for i, x in enumerate(inputs):
        add(f"{name}/in{i}", x)
    result = outputs(module(*inputs, **kwargs)) if outputs else module(*inputs, **kwargs)
    for i, y in enumerate(result if isinstance(result, (list, tuple)) else [result]):
        add(f"{name}/out{i}", y)
    if train:
        for key, value in module.named_buffers():
            add(f"{name}/after.{key}", value)


class Rotary(nn.Module):
    """Su et al. 2021, as Hugging Face (halves) or interleaved (GPT-J)."""

    def __init__(self, interleaved, rotated):
        super().__init__()
        self.interleaved, self.rotated = interleaved, rotated

    def forward(self, x):
        n, d = x.shape[-2], self.rotated
        angle = torch.outer(torch.arange(n).float(), 10000 ** (-torch.arange(0, d, 2).float() / d))
        c, s, part = angle.cos(), angle.sin(), x[..., :d]
        if self.interleaved:
            a, b = part[..., 0::2], part[..., 1::2]
            turned = torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2)
        else:
            a, b = part.chunk(2, -1)
            turned = torch.cat([a * c - b * s, b * c + a * s], -1)
        return torch.cat([turned, x[..., d:]], -1)


class Grouped(nn.Module):
    """Attention of Qwen3: grouped heads, norms of queries and keys, rotation; with a sliding window."""

    def __init__(self, window):
        super().__init__()
        self.window = window
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(12, 16), nn.Linear(12, 8), nn.Linear(12, 8)
        self.o_proj = nn.Linear(16, 12, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(4, eps=1e-6), nn.RMSNorm(4, eps=1e-6)
        self.rotary = Rotary(False, 4)

    def forward(self, x):
        b, n, _ = x.shape
        split = lambda t, h: t.view(b, n, h, 4).transpose(1, 2)
        q, k, v = split(self.q_proj(x), 4), split(self.k_proj(x), 2), split(self.v_proj(x), 2)
        q, k = self.rotary(self.q_norm(q)), self.rotary(self.k_norm(k))
        place = torch.arange(n)
        seen = place[None] <= place[:, None]
        if self.window:
            seen &= place[None] > place[:, None] - self.window
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, n, 16))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 5, bias=False)
        self.w1, self.w3 = nn.Parameter(torch.zeros(5, 8, 6)), nn.Parameter(torch.zeros(5, 8, 6))
        self.w2 = nn.Parameter(torch.zeros(5, 6, 8))

    def forward(self, x):
        share, chosen = self.gate(x).softmax(-1).topk(2)
        share = share / share.sum(-1, keepdim=True)
        rows = []
        for token, s, c in zip(x.reshape(-1, 6), share.reshape(-1, 2), chosen.reshape(-1, 2)):
            rows.append(
                sum(
                    s[i] * (self.w2[e] @ (nn.functional.silu(self.w1[e] @ token) * (self.w3[e] @ token)))
                    for i, e in enumerate(c)
                )
            )
        return torch.stack(rows).reshape(x.shape)


def main():
    torch.manual_seed(20250101)
    case("linear", nn.Linear(5, 3), r(2, 4, 5))
    case("linear_plain", nn.Linear(5, 3, bias=False), r(5))
    case("bilinear", nn.Bilinear(3, 4, 2), r(5, 3), r(5, 4))
    case("embedding", nn.Embedding(7, 4, padding_idx=2), torch.tensor([[0, 2, 6], [1, 1, 5]]))
    case("prelu", nn.PReLU(3), r(2, 3, 4))
    case("sequential", nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2), nn.Tanh()), r(3, 4))
    case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), r(2, 4, 9))
    case(
        "conv2d",
        nn.Conv2d(3, 4, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1), bias=False),
        r(1, 3, 7, 8),
    )
    case("conv2d_same", nn.Conv2d(2, 3, 3, padding="same"), r(2, 2, 5, 6))
    case("conv3d", nn.Conv3d(2, 3, 2), r(1, 2, 3, 4, 3))
    case("conv_transpose1d", nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1), r(1, 3, 5))
    case("conv_transpose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, dilation=2), r(1, 4, 3, 4))
    case("conv_transpose3d", nn.ConvTranspose3d(2, 3, 2), r(1, 2, 2, 3, 2))
    case("pools", Pools(), r(1, 2, 7, 5))
    case("batch_norm_eval", nn.BatchNorm2d(3), r(4, 3, 2, 2))
    case("batch_norm_train", nn.BatchNorm2d(3, momentum=0.3), r(4, 3, 2, 2), train=True)
    case("batch_norm_mean", nn.BatchNorm1d(3, momentum=None), r(6, 3), train=True)
    case("layer_norm", nn.LayerNorm([3, 4]), r(2, 3, 4))
    case("layer_norm_plain", nn.LayerNorm(4, elementwise_affine=False), r(2, 3, 4))
    case("rms_norm", nn.RMSNorm(6, eps=1e-6), r(2, 6))
    case("group_norm", nn.GroupNorm(2, 4), r(2, 4, 3))
    case("instance_norm", nn.InstanceNorm2d(3, affine=True), r(2, 3, 4, 2))
    flat = lambda y: [y[0], *(y[1] if isinstance(y[1], tuple) else [y[1]])]
    case("rnn", nn.RNN(3, 4), r(5, 2, 3), outputs=flat)
    case("rnn_relu", nn.RNN(3, 4, nonlinearity="relu", bias=False), r(5, 2, 3), outputs=flat)
    case("lstm", nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), r(2, 5, 3), outputs=flat)
    case("gru", nn.GRU(3, 4, num_layers=2, bidirectional=True), r(5, 2, 3), outputs=flat)
    case("lstm_cell", Cell(nn.LSTMCell(3, 4)), r(2, 3), r(2, 4), r(2, 4))
    case("gru_cell", nn.GRUCell(3, 4), r(2, 3), r(2, 4))
    case("rotary", Rotary(False, 6), r(2, 3, 5, 6))
    case("rotary_part", Rotary(True, 4), r(3, 5, 6))
    mha = lambda y: y[0]
    x, memory = r(2, 5, 8), r(2, 3, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.tensor([[False, False, False, False, True], [False, False, False, True, True]])
    case(
        "multihead",
        nn.MultiheadAttention(8, 2, batch_first=True),
        x,
        x,
        x,
        outputs=mha,
        attn_mask=causal,
        is_causal=True,
    )
    case("multihead_padding", nn.MultiheadAttention(8, 4, batch_first=True), x, x, x, padding, outputs=mha)
    case(
        "multihead_cross",
        nn.MultiheadAttention(8, 2, kdim=6, vdim=4),
        r(5, 2, 8),
        r(3, 2, 6),
        r(3, 2, 4),
        outputs=mha,
    )
    case("grouped", Grouped(0), r(2, 6, 12))
    case("grouped_window", Grouped(3), r(1, 6, 12))
    options = dict(dim_feedforward=12, batch_first=True)
    case("encoder_layer", nn.TransformerEncoderLayer(8, 2, activation="gelu", **options), x)
    case(
        "encoder_first",
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, norm_first=True, **options), 2, norm=nn.LayerNorm(8)
        ),
        x,
    )
    case(
        "decoder_layer",
        nn.TransformerDecoderLayer(8, 2, **options),
        x,
        memory,
        tgt_mask=causal,
        tgt_is_causal=True,
    )
    case("transformer", nn.Transformer(8, 2, 1, 1, **options), memory, x, tgt_mask=causal, tgt_is_causal=True)
    case("experts", Experts(), r(2, 3, 6))
    write(pathlib.Path(__file__).resolve().parent.parent / "tests" / "nn" / "goldens.safetensors")


class Pools(nn.Module):
    def forward(self, x):
        return [
            nn.MaxPool2d(3, 2, 1)(x),
            nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)(x),
            nn.AdaptiveAvgPool2d((2, 3))(x),
            nn.AdaptiveMaxPool2d(2)(x),
            nn.Upsample(scale_factor=2, mode="bilinear")(x),
            nn.Flatten()(x),
        ]


class Cell(nn.Module):
    """An LSTMCell with its states as two inputs, and its own names of parameters."""

    def __init__(self, cell):
        super().__init__()
        for name, p in cell.named_parameters():
            self.register_parameter(name, p)
        self.cell = [cell]

    def forward(self, x, h, c):
        return list(self.cell[0](x, (h, c)))


def write(path):
    header, body = {}, b""
    for name, tensor in sorted(
        tensors.items(), key=lambda item: {torch.int64: 0, torch.float32: 1}.get(item[1].dtype, 2)
    ):
        data = tensor.numpy().tobytes()
        header[name] = {
            "dtype": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    print(f"{path}: {len(tensors)} tensors, {len(text) + len(body)} bytes")


if __name__ == "__main__":
    main()
