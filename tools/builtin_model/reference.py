# tools/builtin_model/reference.py -- the model in plain numpy float64, with a key-value cache: the
# arithmetic the tests compare with.
import numpy as np


class Reference:
    """`tensors`: Hugging Face names -> arrays (any float type; converted to float64); `config`: the
    contents of config.json."""

    def __init__(self, tensors, config):
        self.w = {k: v.astype(np.float64) for k, v in tensors.items()}
        self.c = config
        self.reset()

    def reset(self):
        self.position = 0
        self.cache = [([], []) for _ in range(self.c["num_hidden_layers"])]

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x) + self.c["rms_norm_eps"]) * self.w[name]

    def rotate(self, x):
        """Rotary embedding in rotate-half order; x: [heads, head_dim] at the current position."""
        size = self.c["head_dim"]
        angle = self.position * self.c["rope_theta"] ** (-np.arange(0, size, 2) / size)
        cos, sin = np.cos(angle), np.sin(angle)
        low, high = x[:, :size // 2], x[:, size // 2:]
        return np.concatenate((low * cos - high * sin, high * cos + low * sin), axis=1)

    def step(self, token):
        """Feeds one token; returns the logits of the next one, float64 [vocab]."""
        c, w = self.c, self.w
        size, group = c["head_dim"], c["num_attention_heads"] // c["num_key_value_heads"]
        x = w["model.embed_tokens.weight"][token]
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            h = self.norm(x, p + "input_layernorm.weight")
            q = self.rotate((w[p + "self_attn.q_proj.weight"] @ h).reshape(-1, size))
            k = self.rotate((w[p + "self_attn.k_proj.weight"] @ h).reshape(-1, size))
            self.cache[i][0].append(k)
            self.cache[i][1].append((w[p + "self_attn.v_proj.weight"] @ h).reshape(-1, size))
            # [heads, time, head_dim]
            keys, values = (np.stack(t, axis=1).repeat(group, axis=0) for t in self.cache[i])
            score = np.einsum("hd,htd->ht", q, keys) / np.sqrt(size)
            score = np.exp(score - score.max(axis=1, keepdims=True))
            out = np.einsum("ht,htd->hd", score / score.sum(axis=1, keepdims=True), values)
            x = x + w[p + "self_attn.o_proj.weight"] @ out.reshape(-1)
            h = self.norm(x, p + "post_attention_layernorm.weight")
            gate = w[p + "mlp.gate_proj.weight"] @ h
            x = x + w[p + "mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * (
                w[p + "mlp.up_proj.weight"] @ h))
        self.position += 1
        return w["model.embed_tokens.weight"] @ self.norm(x, "model.norm.weight")

    def prompt(self, ids):
        """Feeds a prompt from an empty cache; returns the logits after its last token."""
        self.reset()
        for token in ids:
            logits = self.step(token)
        return logits

    def generate(self, ids, count, end, choose=None):
        """(new ids, smallest lead of the best logit). Stops after `end` (which is part of the
        result), after `count` tokens or when the context is full. `choose(logits)` picks a token;
        without it the best one is taken."""
        logits, out, lead = self.prompt(ids), [], np.inf
        while len(out) < count:
            best = np.partition(logits, -2)[-2:]
            lead = min(lead, best[1] - best[0])
            out.append(int(np.argmax(logits)) if choose is None else choose(logits))
            if out[-1] == end or self.position >= self.c["max_position_embeddings"]:
                break
            logits = self.step(out[-1])
        return out, lead
