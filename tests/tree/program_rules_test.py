#!/usr/bin/env python3
# tests/tree/program_rules_test.py -- `luminal rules`: rules that are built in, files of rules, mistakes in
# them.
import json
import pathlib
import sys
import tempfile

from program import Luminal, check, documented_words, failures

GOOD = """(rewrite (Tanh (Neg a)) (Neg (Tanh a)) :ruleset scalar :name "tanh-odd" :exact)
(rule ((= x (Mul a b)) (varies (info a))) ((union x (Mul b a))) :ruleset scalar :name "mine-swap" :exact)
"""
WRONG = '(rewrite (Tanh (Neg a)) (Tanh a) :ruleset scalar :name "tanh-even" :exact)\n'
NEVER = """(rewrite (Tanh (Const n)) (Const n) :when ((is n 0.0) (is n 1.0))
         :ruleset scalar :name "never" :exact)
"""
BY_GUARD = """(rule ((= x (Mul a b)) (= i (info a)) (fixed i) (varies i)) ((union x a))
      :ruleset scalar :name "by-guard" :range)
"""


def listed(luminal):
    shown = luminal("rules", "list")[0].decode().splitlines()
    rules = json.loads(luminal("rules", "list", "--json")[0])
    words = documented_words("luminal rules list")
    check(len(shown) == len(rules) > 100, f"rules list: {len(shown)} lines, {len(rules)} rules")
    check(all(set(rule) <= words for rule in rules), f"keys of rules list: {rules[0]}")
    check(all(rule["phase"] and rule["line"] > 0 and rule["file"].endswith(".egg") for rule in rules),
          "rules without a place")
    check({rule["class"] for rule in rules} == {"exact", "reassoc", "range", "approx"}, "classes of rules")
    check(len(luminal("rules", "list", "--all")[0].splitlines()) > len(rules), "rules list --all")


def shown(luminal):
    text = luminal("rules", "show", "neg-sub")[0].decode()
    check("(rewrite (Neg (Sub a b)) (Sub b a)" in text and "before:\nfn @main(" in text
          and "after:\nfn @main(" in text, f"rules show: {text}")
    answer = json.loads(luminal("rules", "show", "F1", "--json")[0])
    words = documented_words("luminal rules list")
    check(set(answer) <= words and set(answer["example"]) <= words, f"rules show --json: {answer}")
    check(answer["example"]["before"] != answer["example"]["after"], f"rules show F1: {answer}")
    luminal.refuses("rules", "show", "neg-nag", says="there is no rule 'neg-nag', did you mean 'neg-neg'")
    luminal.refuses("rules", "show", "zzzzzzzz",
                    says="there is no rule 'zzzzzzzz'; luminal rules list names all")
    luminal.refuses("rules", "show", code=2, says="NAME")
    luminal.refuses("rules", code=2, says="a verb of luminal rules is missing: list, show, test, lint")


def own(luminal, folder):
    for name, text in dict(good=GOOD, wrong=WRONG, never=NEVER, broken="(rewrite (Nag a) a", run="(run 3)",
                           nameless="(rewrite (Neg a) a :ruleset scalar :exact)").items():
        (folder / f"{name}.egg").write_text(text)
    listing = luminal("rules", "list", "--rules", folder / "good.egg")[0].decode()
    check("tanh-odd" in listing and "good.egg:2" in listing, f"rules list --rules: {listing[-300:]}")
    text = luminal("rules", "show", "tanh-odd", "--rules", folder / "good.egg")[0].decode()
    check("after:" in text, f"rules show --rules: {text}")
    words = documented_words("luminal rules list")
    answer = json.loads(luminal("rules", "test", folder / "good.egg", "--programs", "10", "--json")[0])
    check(set(answer) <= words and answer["wrong"] is None and answer["unmet"] == [], f"rules test: {answer}")
    check(all(rule["matches"] > 0 for rule in answer["rules"]) and len(answer["rules"]) == 2,
          f"rules test: {answer}")
    text = luminal("rules", "test", folder / "wrong.egg", "--programs", "10", code=1)[0].decode()
    check("WRONG " in text and "fn @main(" in text and "tanh" in text, f"a wrong rule: {text}")
    answer = json.loads(luminal("rules", "test", folder / "wrong.egg", "--json", code=1)[0])
    check("fn @main(" in answer["program"] and answer["wrong"], f"a wrong rule: {answer}")
    text = luminal("rules", "test", folder / "never.egg", "--programs", "10", code=1)[0].decode()
    check("NOT MET never: no program satisfied it, so nothing is known of it" in text, f"never met: {text}")
    luminal.refuses("rules", "test", folder / "none.egg", says="none.egg")
    luminal.refuses("rules", "test", folder / "broken.egg", says="broken.egg:1:")
    luminal.refuses("rules", "test", folder / "run.egg",
                    says="run.egg:1:1: a file of rules holds rule, rewrite, ")
    luminal.refuses("rules", "lint", folder / "nameless.egg",
                    says="a rule needs a name, as in :name \"my rule\"")
    luminal.refuses("rules", "test", folder / "good.egg", "--programs", "0", code=2, says="--programs")


def linted(luminal, folder):
    for name, text in dict(
            good=GOOD, guard=BY_GUARD,
            field='(rewrite (Add a (Const n)) a :ruleset scalar :name "drops" :exact)\n').items():
        (folder / f"lint_{name}.egg").write_text(text)
    out, errors = luminal("rules", "lint", folder / "lint_good.egg")
    check(out == b"" and "2 rules, 0 findings" in errors, f"rules lint: {out} {errors}")
    text = luminal("rules", "lint", folder / "lint_field.egg", code=1)[0].decode()
    check("lint_field.egg:1: drops: matches n, a Number of Const, and ignores it" in text,
          f"rules lint: {text}")
    found = json.loads(luminal("rules", "lint", folder / "lint_field.egg", "--json", code=1)[0])
    check(set(found[0]) <= documented_words("luminal rules list"), f"rules lint --json: {found}")
    text = luminal("rules", "lint", folder / "lint_guard.egg", code=1)[0].decode()
    check("lint_guard.egg: right only because of a guard that a further union can make false; without such "
          "guards " in text and "fn @main(" in text, f"rules lint: {text}")
    check(luminal("rules", "lint")[0] == b"", "the rules that are built in have findings")


def main():
    with tempfile.TemporaryDirectory(prefix="luminal rules ") as scratch:
        folder = pathlib.Path(scratch)
        luminal = Luminal(sys.argv[1], folder / "cache")
        listed(luminal)
        shown(luminal)
        own(luminal, folder)
        linted(luminal, folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
