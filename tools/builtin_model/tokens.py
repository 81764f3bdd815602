# tools/builtin_model/tokens.py -- tales as files of tokens for `luminal train` (standard library only).
r"""    python3 tokens.py --out tales --documents 60000
    luminal train train.toml --set data.file=tales/train.bin \
        --set validation.file=tales/held_out.bin

Every document is written as begin token, prompt, text, end token; 16 bits a token."""
import argparse
import array
import os
from itertools import islice

import bpe
from grammar import stream

HERE = os.path.dirname(os.path.abspath(__file__))


def write(path, tokenizer, seed, documents):
    ids = array.array("H")
    for doc in islice(stream(seed), documents):
        ids.append(0)
        ids.extend(tokenizer.encode(doc.full))
        ids.append(1)
    with open(path, "wb") as out:
        ids.tofile(out)
    print(f"{path}: {documents} documents, {len(ids)} tokens")


def main():
    parser = argparse.ArgumentParser(description="write tales as tokens")
    parser.add_argument("--out", required=True, help="folder for train.bin and held_out.bin")
    parser.add_argument("--documents", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--tokenizer", default=os.path.join(HERE, "../../models/builtin/hf/tokenizer.json"))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    tokenizer = bpe.Tokenizer.load(args.tokenizer)
    write(os.path.join(args.out, "train.bin"), tokenizer, args.seed, args.documents)
    write(os.path.join(args.out, "held_out.bin"), tokenizer, args.seed + 5000, max(1, args.documents // 50))


if __name__ == "__main__":
    main()
