# tools/builtin_model/grammar.py -- a seeded grammar that tells tales of Lantern Bay, one document per draw.
"""A document is a prompt (which may be empty) and a text; in training they are joined by an empty
line. `stream(seed)` yields documents for ever. Run as a program to read some:  python3 grammar.py
--seed 1 --count 3

Only the standard library; the same seed gives the same text on every Python from 3.9 to 3.13."""
import argparse
import random
from dataclasses import dataclass

import shorts
from tales import Tale


@dataclass
class Document:
    prompt: str  # empty: the text starts by itself
    text: str
    made_up: bool = False  # the prompt holds invented words, which are nothing to learn

    @property
    def full(self):
        return self.prompt + "\n\n" + self.text if self.prompt else self.text


def tale(rng):
    teller = Tale(rng)
    text = teller.tell()
    return teller.prompt(), text


FORMS = [(tale, 54), (shorts.dream, 7), (shorts.why, 6), (shorts.letter, 5), (shorts.sketch, 6),
         (shorts.place, 3), (shorts.poem, 5), (shorts.talk, 4),
         (shorts.topic, 10)]


def document(rng):
    """One document. 6 % of the prompts are in lower case or lack their final mark, as people type them."""
    form = rng.choices([f for f, _ in FORMS], [weight for _, weight in FORMS])[0]
    prompt, text = form(rng)
    slip = rng.random()
    if slip < 0.03:
        prompt = prompt.lower()
    elif slip < 0.06:
        prompt = prompt.rstrip(".?")
    return Document(prompt, text, form is shorts.topic)


def stream(seed):
    rng = random.Random(seed)
    while True:
        yield document(rng)


def main():
    parser = argparse.ArgumentParser(description="print tales of Lantern Bay")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    args = parser.parse_args()
    for _, doc in zip(range(args.count), stream(args.seed)):
        print(doc.full, end="\n\n" + "-" * 60 + "\n\n")


if __name__ == "__main__":
    main()
