#!/usr/bin/env python3
# tools/whisper_goldens.py -- makes tests/models/whisper/: a small Whisper, by transformers.
"""Random weights in a folder as Hugging Face has it (config.json, tokenizer.json, model.safetensors; windows
of one second) and golden.safetensors: a spectrum, logits of given tokens, and greedy tokens with time stamps
by `generate`. Needs: pip install transformers torch safetensors. Usage: whisper_goldens.py"""

import json
import pathlib
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "models" / "whisper"
WINDOW = 50  # places of the encoder, 20 ms each


def byte_letters():
    """The letters of byte-level BPE (Radford et al. 2019)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for b in range(256):
        letters.setdefault(b, chr(256 + sum(1 for c in letters if c not in plain)))
    return [letters[b] for b in range(256)]


def tokenizer():
    vocabulary = {letter: i for i, letter in enumerate(byte_letters())}
    space = byte_letters()[32]
    merges = [f"{space} {letter}" for letter in "abcdefghijklmnop"]
    for merge in merges:
        vocabulary[merge.replace(" ", "")] = len(vocabulary)
    names = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>",
             "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    names += [f"<|{i * 0.02:.2f}|>" for i in range(WINDOW + 1)]
    first = len(vocabulary)
    added = [dict(id=first + i, content=name, single_word=False, lstrip=False, rstrip=False,
                  normalized=i > 10, special=i <= 10) for i, name in enumerate(names)]
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    return first, dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
                       pre_tokenizer=level, post_processor=None, decoder=level,
                       model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix="",
                                  end_of_word_suffix="", fuse_unk=False, vocab=vocabulary, merges=merges))


def main():
    FOLDER.mkdir(exist_ok=True)
    first, words = tokenizer()
    (FOLDER / "tokenizer.json").write_text(json.dumps(words, ensure_ascii=False))
    end, start, english, german = first, first + 1, first + 2, first + 3
    transcribe, no_times, time = first + 6, first + 10, first + 11
    config = transformers.WhisperConfig(
        vocab_size=time + WINDOW + 1, num_mel_bins=8, encoder_layers=2, encoder_attention_heads=2,
        decoder_layers=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, d_model=16,
        max_source_positions=WINDOW, max_target_positions=48, pad_token_id=end, bos_token_id=end,
        eos_token_id=end, decoder_start_token_id=start, suppress_tokens=None, begin_suppress_tokens=None)
    config._attn_implementation = "eager"
    torch.manual_seed(11)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            plain = "layer_norm" in key
            p.copy_(torch.randint(-8, 9, p.shape) / (32 if plain else 8))
            if plain and key.endswith("weight"):
                p.add_(1)
        p = model.model.decoder.embed_tokens.weight
        p.copy_(torch.randint(-8, 9, p.shape) / 4)
    with tempfile.TemporaryDirectory() as folder:
        model.to(torch.float16).save_pretrained(folder)
        save_file(load_file(f"{folder}/model.safetensors"), FOLDER / "model.safetensors")
        text = json.loads(pathlib.Path(f"{folder}/config.json").read_text())
        (FOLDER / "config.json").write_text(json.dumps(text, indent=1) + "\n")
    model.float()
    mel = torch.randint(-16, 17, (1, 8, 2 * WINDOW)) / 8.0
    tokens = torch.tensor([[start, german, transcribe, time, 5, 70, 261, time + 9, time + 9, 300 - 40, 12]])
    with torch.no_grad():
        heard = model.model.encoder(mel).last_hidden_state[0]
        logits = model(input_features=mel, decoder_input_ids=tokens).logits[0]
    said = model.generate(
        mel, return_timestamps=True, num_beams=1, do_sample=False, max_new_tokens=20, language="de",
        task="transcribe", return_dict_in_generate=True, suppress_tokens=None, begin_suppress_tokens=None,
        generation_config=transformers.GenerationConfig(
            no_timestamps_token_id=no_times, max_initial_timestamp_index=50, eos_token_id=end,
            pad_token_id=end, bos_token_id=end, decoder_start_token_id=start,
            is_multilingual=True, return_timestamps=True,
            prev_sot_token_id=first + 8, max_length=48,
            lang_to_id={"<|en|>": english, "<|de|>": german, "<|fr|>": first + 4},
            task_to_id={"transcribe": transcribe, "translate": first + 5}))
    said = getattr(said, "sequences", said)
    if isinstance(said, dict):
        said = said["sequences"]
    print("greedy:", said[0].tolist())
    save_file({"mel": mel[0].contiguous(), "heard": heard.contiguous(), "tokens": tokens[0].to(torch.int32),
               "logits": logits.contiguous(), "greedy": said[0].to(torch.int32).contiguous()},
              FOLDER / "golden.safetensors")


if __name__ == "__main__":
    main()
