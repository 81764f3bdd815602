# formats/golden/make_special_tokens.py -- makes special_tokens.json: prompts with special tokens as
# Hugging Face tokenizers reads them, and plain texts as sentencepiece reads them, for tokenizers in
# ../shared/data/tokenizers (the tests skip where that folder is absent). Needs: pip install
# tokenizers==0.23.3 sentencepiece==0.2.3. Usage: python make_special_tokens.py
# ../shared/data/tokenizers special_tokens.json
import json
import sys
import sentencepiece
import tokenizers
from tokenizers import Tokenizer

folder, out = sys.argv[1:]
prompts = {
    "phi-3-mini.tokenizer.json": [
        "<|user|>\nHello!<|end|>\n<|assistant|>\n", "<s>hi</s>",
        "<s><|system|>\n\n You are  kind. <|end|>\n<|user|>\nWhy?<|end|><|assistant|>",
        "a<|end|>b", "a <|end|> b", " <|end|>  <|end|>\t", "<|end", "<|end|", "|end|>", "<unk> unknown <unk>",
        "<|user|><|user|> x", "x</s>y", "x</s> y</s>\nz", "<|endoftext|>\n\nnext", "é<|end|>日本 <|user|>🙂",
        "<|placeholder1|>  two  spaces", "<|USER|>", "<0x0A>", "▁<|end|>▁a"],
    "whisper-tiny.tokenizer.json": [
        "<|startoftranscript|><|en|><|transcribe|><|notimestamps|> Hello there.<|endoftext|>",
        "<|0.00|> And so<|2.50|>", "a<|en|>b", "<|en|> <|de|>",
        "<|endoftext|>\n", "<|en", "<|nospeech|>x <|startofprev|> y"],
}
plain = ["Hello world", " Hello", "  two  spaces ", "", "a\nb\tc", "日本語のテキスト", "é è ê", "🙂🙃",
         "x = y + 1; // code", "1234567890", "▁", "don't", "\u00a0nbsp", "end "]
answer = {"made by": f"make_special_tokens.py, tokenizers {tokenizers.__version__}, sentencepiece "
                     f"{sentencepiece.__version__}"}
for name, texts in prompts.items():
    tokenizer = Tokenizer.from_file(f"{folder}/{name}")
    rows = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append([text, ids, tokenizer.decode(ids, skip_special_tokens=True)])
    answer[name] = rows
processor = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/mistral-v1.tokenizer.model")
answer["mistral-v1.tokenizer.model"] = [[t, processor.encode(t), processor.decode(processor.encode(t))]
                                        for t in plain]
lines = [f"{json.dumps(key)}: " + ("[\n" + ",\n".join(json.dumps(row) for row in value) + "]"
                                   if isinstance(value, list) else json.dumps(value))
         for key, value in answer.items()]
with open(out, "w") as file:
    file.write("{" + ",\n".join(lines) + "}\n")
