#!/usr/bin/env python3
# tools/decoder_goldens.py -- makes tests/models/decoders/*: small models of every family, by transformers.
"""Each is a Hugging Face model with random weights of few bits (bf16 holds them, and they compress), and in
golden.safetensors the logits of 12 tokens in f32. tests/models/decoders_test.cpp runs them from these files.
Needs: pip install transformers torch safetensors. Usage: decoder_goldens.py [NAME...]: all, or these anew."""

import json
import pathlib
import shutil
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models" / "decoders"
SMALL = dict(
    vocab_size=32,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    head_dim=8,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
HALVES = [1.0, 1.1, 1.5, 2.0]
YARN = dict(
    rope_type="yarn",
    factor=4.0,
    original_max_position_embeddings=16,
    beta_fast=32,
    beta_slow=1,
    mscale=0.707,
    mscale_all_dim=0.707,
)
CASES = {
    "llama": dict(
        model_type="llama",
        rope_scaling=dict(
            rope_type="llama3",
            factor=4.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=16,
        ),
    ),
    "mistral": dict(model_type="mistral", sliding_window=5),
    "mixtral": dict(model_type="mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen2": dict(
        model_type="qwen2",
        tie_word_embeddings=True,
        use_sliding_window=True,
        sliding_window=4,
        max_window_layers=1,
    ),
    "qwen3": dict(model_type="qwen3", head_dim=16),
    "qwen3_moe": dict(
        model_type="qwen3_moe",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        norm_topk_prob=True,
        decoder_sparse_step=1,
    ),
    "phi3": dict(
        model_type="phi3", sliding_window=None, original_max_position_embeddings=64, partial_rotary_factor=1.0
    ),
    "phi3_long": dict(
        model_type="phi3",
        sliding_window=None,
        original_max_position_embeddings=16,
        max_position_embeddings=64,
        rope_scaling=dict(rope_type="longrope", short_factor=HALVES, long_factor=[2 * f for f in HALVES]),
    ),
    "gemma": dict(model_type="gemma"),
    "gemma2": dict(
        model_type="gemma2",
        sliding_window=4,
        query_pre_attn_scalar=16,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=3.0,
    ),
    "gemma3": dict(
        model_type="gemma3_text",
        num_hidden_layers=3,
        sliding_window=4,
        query_pre_attn_scalar=16,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "gpt2": dict(
        model_type="gpt2",
        vocab_size=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=2,
    ),
    "olmo2": dict(model_type="olmo2"),
    "deepseek2": dict(
        model_type="deepseek_v2",
        num_key_value_heads=4,
        num_hidden_layers=3,
        first_k_dense_replace=1,
        q_lora_rank=None,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=6,
        n_routed_experts=8,
        n_shared_experts=2,
        num_experts_per_tok=3,
        moe_intermediate_size=16,
        routed_scaling_factor=1.0,
        rope_scaling=YARN,
    ),
    "deepseek2_groups": dict(
        model_type="deepseek_v2",
        num_key_value_heads=4,
        q_lora_rank=12,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        v_head_dim=8,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        routed_scaling_factor=4.0,
        topk_method="group_limited_greedy",
        n_group=4,
        topk_group=2,
    ),
    "deepseek3": dict(
        model_type="deepseek_v3",
        head_dim=4,
        num_key_value_heads=4,
        num_hidden_layers=3,
        first_k_dense_replace=1,
        q_lora_rank=12,
        kv_lora_rank=16,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=6,
        n_routed_experts=8,
        n_shared_experts=1,
        num_experts_per_tok=3,
        moe_intermediate_size=16,
        routed_scaling_factor=2.5,
        n_group=4,
        topk_group=2,
        rope_scaling=YARN,
    ),
}


def main():
    FOLDER.mkdir(exist_ok=True)
    goldens = load_file(FOLDER / "golden.safetensors") if sys.argv[1:] else {}
    for name, wanted in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        wanted = dict(wanted)
        kind = wanted.pop("model_type")
        settings = wanted if kind == "gpt2" else {**SMALL, **wanted}
        config = transformers.AutoConfig.for_model(kind, **settings)
        torch.manual_seed(len(name) + sum(map(ord, name)))
        config._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        with torch.no_grad():
            biases = [b for b in model.named_buffers() if b[0].endswith("e_score_correction_bias")]
            for key, p in [*model.named_parameters(), *biases]:
                plain = "norm" in key or "ln_" in key
                p.copy_(torch.randint(-8, 9, p.shape) / (32 if plain else 16))
                if plain and key.endswith("weight") and "gemma" not in kind:
                    p.add_(1)
            tokens = torch.randint(0, 32, (1, 12))
            logits = model(tokens).logits[0].float()
        with tempfile.TemporaryDirectory() as folder:
            model.to(torch.bfloat16).save_pretrained(folder)
            tensors = load_file(f"{folder}/model.safetensors")
            save_file(tensors, FOLDER / f"{name}.safetensors")
            shutil.copy(f"{folder}/config.json", FOLDER / f"{name}.config.json")
        if name == "phi3_long":  # beyond the original context all frequencies are others
            with torch.no_grad():
                more = torch.randint(0, 32, (1, 24))
                goldens["phi3_longer.tokens"] = more[0].to(torch.int32)
                goldens["phi3_longer.logits"] = model.float()(more).logits[0].contiguous()
        goldens[f"{name}.tokens"] = tokens[0].to(torch.int32)
        goldens[f"{name}.logits"] = logits.contiguous()
        print(name, json.dumps(sorted(tensors)[:4]), float(logits.abs().max()))
    save_file(goldens, FOLDER / "golden.safetensors")


if __name__ == "__main__":
    main()
