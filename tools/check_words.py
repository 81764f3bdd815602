#!/usr/bin/env python3
# tools/check_words.py -- terms that the field does not use, in names, comments, texts and pages,
# with what to write instead. CONTRIBUTING.md has the glossary. A line may hold such a word in
# another sense where it says `words: allow`.
import argparse
import pathlib
import re
import sys

import tree

TERMS = [
    (r"\b(?:moves?|moving) along\b", "varies with (does not: is invariant in)"),
    (r"\b(?:lies?|lying|stands?) (?:side by side|beside each other)\b", "is contiguous"),
    (r"\bside by side in memory\b", "contiguous in memory"),
    (r"\bturned (?:over|panels)\b|_turned\b|\bturned_", "transposed"),
    (r"\bdealt\b|\bdeal(?:s|ing)? (?:\w+ ){0,2}out\b", "distributed (over workers), de-interleaved (stores)"),
    (r"\bask(?:s|ed|ing)? (?:for )?ahead\b|\w_ahead\b", "prefetched"),
    (r"\bDirectiveKind::(?:frame|pieces|cut)\b", "padded_copy, segments, split_at"),
    (r"\bAmbition\b", "Fallback"),
    (r"\bPace\b", "WorkerCount"),
    (r"\bRoom\b", "RegisterFile"),
    (r"\bBorder\b|\bborders_of\b", "PaddingRegion, padding_regions_of"),
    (r"\b(?:Kernel)?Chooser\b", "KernelPlanner, DefaultScheduler"),
    (r"\bto and fro\b", "forward and backward by turns"),
    (r"(?<!here )(?<!re )\bis no "
     r"(?!longer\b|more\b|less\b|fewer\b|larger\b|smaller\b|better\b|faster\b|slower\b|matter\b|"
     r"such\b|harm\b|trap\b|need\b|way\b|point\b|use\b|reason\b|accident\b|question\b|wider\b|deeper\b|"
     r"shorter\b|different\b)",
     "is not a"),
]
EXEMPT = ("tools/check_words.py", "tools/builtin_model/", "models/",
          "tests/tree/tools_test.py")
KINDS = {".cpp", ".h", ".py", ".sh", ".md", ".cmake", ".txt"}


def check(root):
    terms = [(re.compile(pattern), instead) for pattern, instead in TERMS]
    bad = []
    for path in tree.files(root, KINDS):
        if str(path).startswith(EXEMPT):
            continue
        for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
            for pattern, instead in terms:
                if (match := pattern.search(line)) and "words: allow" not in line:
                    bad.append(f"{path}:{number}: '{match.group(0)}': write {instead}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=tree.default_root())
    bad = check(parser.parse_args().root)
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
