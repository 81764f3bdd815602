# python/tests/pytorch/random_programs.py -- random compositions of PyTorch's operators as source text.
#
# Each line is tried in eager mode when it is made, so patterns may be loose. The same seed gives the same
# program. Letters of a pattern stand for: F a tensor of floating-point numbers, V one that may be
# changed, T any, B a mask, D an axis, N a small number, P a positive one, S a subscript, C a constant.
# {sizes:kind} is a new input (f: numbers, b: a mask, iK: indices below K); X in it is the first tensor of
# the pattern.
import random
import re

ELEMENTS = """
torch.relu(F) | nn.gelu(F) | nn.silu(F) | torch.tanh(F) | torch.sigmoid(F) | 2 ** F.clamp(-3, 3) | -F
F.abs() + C | torch.exp(F.clamp(max=3)) | torch.log(F.abs() + 0.1) | torch.rsqrt(F.abs() + 0.5)
torch.sin(F) | F.clamp(-1, 0.5) | torch.floor(F) | torch.round(F) | nn.softplus(F) | nn.elu(F)
nn.hardswish(F) | F.double() | T.float() | ~B | F + C | F * C | C - F | F / 1.7 | F % 2.0 | F > C | F == C
B.float() | B.sum() | F * B | B & B | F < F | F + F | F - F | F * F | F / (F.abs() + 0.5)
torch.maximum(F, F) | torch.lerp(F, F, 0.3) | torch.where(B, F, C) | torch.where(F > 0, C / F, 0)
F.masked_fill(B, -inf).softmax(D).nan_to_num(0) | torch.where(B, F, F)
"""
VIEWS = """
T.transpose(D, D) | T.flatten(N) | T.squeeze() | T.unsqueeze(D) | T.expand(2, *T.shape) | T[S] | T[S]
T[S, S] | T[..., S] | T.chunk(2, D)[0] | T.chunk(2, D)[-1] | T.unfold(D, P, P) | T.flip(D)
torch.roll(T, N, D) | T.reshape(-1) | T.repeat_interleave(2, D) | T.tril(D) | T.triu(D) | T.diagonal(D)
T.movedim(D, D) | T.narrow(D, N, N) | torch.cat([T, T], D) | torch.cat([F * 2, F.flip(0)], D)
torch.stack([T, T], D) | torch.rot90(T) | T.repeat(2, 1) | nn.pad(F, (N, N))
nn.pad(F, (N, N, N, N), value=C) | nn.pad(F, (P, N), mode="replicate") | nn.pad(F, (1, 1), mode="reflect")
F.unflatten(D, (2, -1)) | F.unflatten(D, (-1, 2)).flatten(N) | F[::2] + F[1::2]
F[1:] + F[:-1] | F[:2] * torch.exp(F[-2:].clamp(max=3))
"""
FOLDS = """
F.sum(D) | F.mean(D, keepdim=True) | F.sum() | F.amax(D) | F.max(D)[0] | F.argmax(D)
F.var(D, correction=0) | F.norm(2, D) | F.logsumexp(D) | F.cumsum(D) | F.clamp(-1.2, 1.2).cumprod(D)
F.sort(D)[0] | F.prod(D) | F.softmax(D) | F.log_softmax(D) | torch.cummax(F, D)[0] | F.topk(1, D)[0]
B.any(D, keepdim=True) | B.all(D) | nn.normalize(F, dim=D) | F.median(D)[0] | F - F.mean(D, True)
F / F.abs().sum(D, True).clamp(min=0.1) | nn.layer_norm(F, F.shape[-1:]) | nn.rms_norm(F, F.shape[-1:])
nn.group_norm(F, 1) | nn.glu(F, D) | (F * 200).to(torch.uint8).sum(D) | (F * 100).to(torch.int8)
nn.batch_norm(F, None, None, {X.shape[1]:f}, {X.shape[1]:f}, training=True) | nn.instance_norm(F)
"""
PLACES = """
torch.select_scatter(F, F.select(D, 0) * 2, D, N) | torch.slice_scatter(F, F[1:] + 1, 0, 1)
torch.flip(F, [0])[S] | T.index_select(0, {4:i1}) | T[{3, 2:i1}] | T[:, {5:i1}]
torch.gather(T, D, {*X.shape:i1}) | F.scatter_add(0, {*X.shape:i1}, {*X.shape:f})
F.index_reduce(0, {5:i1}, {5, *X.shape[1:]:f}, "mean") | F.index_add(0, {5:i1}, {5, *X.shape[1:]:f})
 F.scatter_reduce(0, {*X.shape:i1}, {*X.shape:f}, "amax")
torch.diag_embed(F) | nn.one_hot({6:i4}, 5) | F.index_put(({3:i1},), {3, *X.shape[1:]:f}, accumulate=True)
torch.take_along_dim(F, F.argsort(D, stable=True), D) | F.flip(0)[5:5] | T.narrow(0, 1, 0)
"""
PRODUCTS = """
F @ {X.shape[-1], 7:f} | nn.linear(F, {5, X.shape[-1]:f}, {5:f}) | F @ F.transpose(-1, -2) | F.mT @ F
torch.where(B, F, 0) @ {X.shape[-1], 3:f} | torch.einsum("ij,kj->ki", F, {3, X.shape[-1]:f})
torch.cdist(F, F) | nn.conv1d(F, {4, X.shape[1], 3:f}, padding=N)
nn.conv2d(F, {4, X.shape[1], 3, 3:f}, {4:f}, P, N)
nn.conv2d(F, {X.shape[1], 1, 3, 3:f}, None, 1, P, groups=X.shape[1])
nn.conv2d(F, {2, X.shape[1], 2, 3:f}, padding=2) | nn.conv2d(F.tril(), {2, X.shape[1], 3, 3:f}, padding=1)
nn.conv3d(F, {2, X.shape[0], 2, 3, 3:f}, padding=2)
nn.conv_transpose2d(F, {X.shape[1], 3, 3, 3:f}, None, P, N) | nn.max_pool2d(F, 2, P, ceil_mode=True)
nn.avg_pool2d(F, 3, P, 1, ceil_mode=True) | nn.adaptive_avg_pool2d(F, (3, 2))
nn.interpolate(F, scale_factor=2, mode="nearest") | nn.interpolate(F, size=(5, 7), mode="bilinear")
nn.scaled_dot_product_attention(F, {*X.shape[:-2], 5, X.shape[-1]:f}, {*X.shape[:-2], 5, 6:f})
nn.interpolate(F, scale_factor=1.5, mode="nearest") | nn.interpolate(F, scale_factor=(0.5, 0.7))
nn.interpolate(nn.avg_pool2d(F, 4), scale_factor=2) + nn.max_pool2d(F, 2)
nn.embedding_bag({9:i5}, {5, 4:f}, {4:i1}, mode="max") | nn.embedding_bag({3, 4:i5}, {5, 6:f}, padding_idx=2)
nn.scaled_dot_product_attention(F, F, F, is_causal=True)
F.sum() + nn.scaled_dot_product_attention({2, 4, 3, 5:f}, {2, 2, 5, 5:f}, {2, 2, 5, 5:f}, enable_gqa=True)
nn.scaled_dot_product_attention(F, F, F, attn_mask={X.shape[-2], X.shape[-2]:b})
nn.cross_entropy(F, {X.shape[0], *X.shape[2:]:i1}, reduction="none") | nn.mse_loss(F, {*X.shape:f})
"""
CHANGES = """
V.add_(C) | V.mul_(F) | V.clamp_(-1, 1) | V[S] = C | V[S] *= 2 | V.copy_(F) | V[0] = V[-1]
V.masked_fill_(V > 0, C) | V.transpose(0, -1).add_(1) | V.index_add_(0, {3:i1}, {3, *X.shape[1:]:f})
"""
WEIGHTS = [(ELEMENTS, 5), (VIEWS, 5), (FOLDS, 4), (PLACES, 3), (PRODUCTS, 4), (CHANGES, 2)]
TABLES = [[p.strip() for line in text.strip().splitlines() for p in line.split(" | ")] for text, _ in WEIGHTS]
NUMBERS = {"D": [0, 1, -1, -1, -2, 2], "N": [0, 1, 2], "P": [1, 2, 3], "C": [0, 2, -0.5, 1.5]}
SUBSCRIPTS = ["1:", ":-1", "::2", "0", "-1", "1:3", ":2", "2:", ":", "None"]
SIZES = [1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33]
LETTER = re.compile(r"(?<![\w'\"])[FTBVSDNPC](?!\w)")
INPUT = re.compile(r"\{([^{}]*):(f|b|i\d)\}")


class Program:
    """Call `make()`, then `function(dtype)` and `values(dtype)`; `source()` is its text."""

    def __init__(self, torch, seed):
        self.torch, self.seed, self.random = torch, seed, random.Random(seed)
        self.inputs, self.lines, self.outputs = [], [], []
        self.names = {"torch": torch, "nn": torch.nn.functional, "inf": float("inf")}

    # ---- inputs ----
    def value(self, place, dtype=None):
        shape, kind = self.inputs[place]
        generator = self.torch.Generator().manual_seed(1000 * self.seed + place)
        if kind == "b":
            return self.torch.rand(shape, generator=generator) < 0.5
        if kind[0] == "i":
            return self.torch.randint(0, int(kind[1:]), shape, generator=generator)
        x = self.torch.randn(shape, generator=generator)
        x = (2 * x).round() if place % 4 == 3 else x
        return x if dtype is None else x.to(dtype)

    def values(self, dtype=None):
        return [self.value(place, dtype) for place in range(len(self.inputs))]

    def add(self, shape, kind):
        self.inputs.append(([int(n) for n in shape], kind))
        name = f"x{len(self.inputs) - 1}"
        self.names[name] = self.value(len(self.inputs) - 1)
        return name

    # ---- lines ----
    def pick(self, letter):
        """What stands in the place of a letter."""
        if letter in NUMBERS:
            return str(self.random.choice(NUMBERS[letter]))
        if letter == "S":
            return self.random.choice(SUBSCRIPTS)
        found = [
            name
            for name, value in self.names.items()
            if isinstance(value, self.torch.Tensor)
            and (letter != "B" or value.dtype == self.torch.bool)
            and (letter not in "FV" or value.dtype.is_floating_point)
            and (letter != "V" or name[0] == "v")
        ]
        return self.random.choice(found[-4:] if self.random.random() < 0.7 else found)

    def filled(self, pattern):
        first = []

        def put(match):
            made = self.pick(match[0])
            if match[0] in "FTBV":
                first.append(made)
            return made

        def shape(match):
            sizes = eval(f"({match[1]},)", {"X": self.names[first[0]]})
            return self.add(sizes, match[2])

        text = INPUT.sub(shape, LETTER.sub(put, pattern))
        return text.replace("X.", f"{first[0]}.") if first else text

    def step(self):
        """One line more, if the pattern that chance gives goes with these tensors."""
        table = self.random.choices(TABLES, [weight for _, weight in WEIGHTS])[0]
        pattern = self.random.choice(table)
        before = len(self.inputs)
        try:
            text = self.filled(pattern)
            if table is not TABLES[-1]:
                made = eval(text, dict(self.names))
                if made.numel() > 20000 or not bool((made.double().abs() <= 1e4).all()):
                    raise ValueError("too large")
                name = f"v{len(self.lines)}"
                self.names[name], text = made, f"{name} = {text}"
            else:
                copies = {
                    name: value.clone() if isinstance(value, self.torch.Tensor) else value
                    for name, value in self.names.items()
                }
                exec(text, copies)
                exec(text, self.names)
        except Exception:  # a pattern that does not fit
            for place in range(before, len(self.inputs)):
                del self.names[f"x{place}"]
            del self.inputs[before:]
            return
        self.lines.append(text)

    def make(self, lines=6):
        for _ in range(self.random.choice([1, 2, 3])):
            rank = self.random.choice([1, 2, 2, 3, 3, 4])
            self.add([self.random.choice(SIZES[:10] if rank > 2 else SIZES) for _ in range(rank)], "f")
        self.add(self.inputs[0][0], "b")
        for _ in range(400):
            if len(self.lines) < lines:
                self.step()
        made = [line.split(" = ")[0] for line in self.lines if re.match(r"v\d+ = ", line)]
        read = set(re.findall(r"v\d+", " ".join(line.split(" = ", 1)[-1] for line in self.lines)))
        self.outputs = [name for name in made if name not in read or self.random.random() < 0.2] or made[-1:]
        return self

    def source(self):
        lines = "".join(f"    {line}\n" for line in self.lines)
        arguments = ", ".join(f"x{place}" for place in range(len(self.inputs)))
        return f"def program({arguments}):\n{lines}    return [{', '.join(self.outputs)}]\n"

    def function(self):
        names = {"torch": self.torch, "nn": self.torch.nn.functional, "inf": float("inf")}
        exec(self.source(), names)
        return names["program"]
