# formats/golden/make_rope.py -- makes rope.json: rotary frequencies of each kind of scaling by
# Hugging Face transformers. Needs: pip install torch transformers (5.23.0 was used). Usage: python
# make_rope.py rope.json
import json
import sys
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

cases = [
    ({"rope_type": "default", "rope_theta": 10000.0}, 64, 2048, None),
    ({"rope_type": "default", "rope_theta": 500000.0}, 128, 8192, None),
    ({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}, 64, 8192, None),
    ({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}, 64, 2048, 1000),
    ({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}, 64, 2048, 5000),
    ({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}, 128, 131072, None),
    ({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192}, 64, 131072, None),
    ({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768},
     128, 131072, None),
    ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "original_max_position_embeddings": 4096,
      "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.25}, 64, 65536, None),
    ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096,
      "mscale": 1.0, "mscale_all_dim": 0.707}, 64, 163840, None),
    ({"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 4096,
      "truncate": False}, 64, 131072, None),
]
out = []
for rope, head_dim, context, length in cases:
    config = LlamaConfig(hidden_size=head_dim * 4, num_attention_heads=4, head_dim=head_dim,
                         max_position_embeddings=context,
                         rope_parameters=dict(rope))
    kind = rope["rope_type"]
    if kind == "default":
        dim = head_dim
        inv, factor = 1.0 / (rope["rope_theta"] ** (torch.arange(0, dim, 2,
                                                                 dtype=torch.int64).to(
                                                                     torch.float) / dim)), 1.0
    else:
        inv, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    out.append({"rope": rope, "head_dim": head_dim, "context": context, "length": length or 0,
                "inverse_frequencies": [float(f"{v:.8g}") for v in inv.double().tolist()],
                "magnitude": factor})
json.dump(out, open(sys.argv[1], "w"))
open(sys.argv[1], "a").write("\n")
