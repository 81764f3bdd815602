#!/usr/bin/env python3
# tests/tree/program_rules_test.py -- `luminal rules`: rules that are built in, files of rules, mistakes in
# them.
import json
import pathlib
import re
import sys
import tempfile

from program import SOURCE, Luminal, check, documented_words, failures

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


def taken(luminal, folder):
    """Files and forbidden rules of a verb that compiles, by options and by settings."""
    module = folder / "odd.lum"
    module.write_text("fn @main(%x: f32[64]) {\n  %0 = neg %x\n  %1 = tanh %0\n  %2 = neg %1\n"
                      "  return y = %2\n}\n")
    good, wrong = folder / "good.egg", folder / "wrong.egg"

    def used(*args, **variables):
        return json.loads(luminal("opt", module, "--json", *args, **variables)[0])["rules"]

    check("tanh-odd" not in used(), "a rule of a file that nobody named")
    both = used("--rules", good)
    check({"tanh-odd", "neg-neg"} <= set(both), f"opt --rules: {both}")
    check(used(LUMINAL_RULES=str(good)) == both, "LUMINAL_RULES")
    check("neg-neg" not in used("--rules", good, "--forbid-rule", "neg-neg"), "opt --forbid-rule")
    check("tanh-odd" not in used("--rules", good, LUMINAL_FORBID_RULES="F1,tanh-odd"), "LUMINAL_FORBID_RULES")
    out, errors = luminal("opt", module, "--rules", wrong, code=1)
    check(out == b"" and f"the rules of {wrong} are not used: " in errors and "fn @main(" in errors,
          f"opt with a wrong rule: {errors}")
    for verb in ("run", "chat", "serve", "logits", "perplexity", "embed", "transcribe", "classify", "detect",
                 "tune", "bench", "train", "eval", "export", "opt", "explain"):
        text = luminal(verb, "--help")[0].decode()
        check("--rules" in text and "--forbid-rule" in text, f"{verb} takes no rules")
    luminal.refuses("explain", module, "--forbid-rule", "neg-nag",
                    says="there is no rule 'neg-nag', did you mean 'neg-neg'")
    names = luminal("rules", "list", "--forbid-rule", "neg-neg")[0].decode().split()
    check("neg-sub" in names and "neg-neg" not in names, "rules list --forbid-rule")


def emitted(luminal, folder):
    """The search of a region as a program of rules makes the e-graph that the search makes."""
    forms = SOURCE / "bench" / "forms"
    names = ["linear_attention_8x1024x64.apart", "cross_entropy_2048x64x1024.apart",
             "layer_norm_product_512x768x3072.apart"]
    for name, forbidden in [(name, "") for name in names] + [(names[0], "prefix,F1")]:
        module, program = forms / f"{name}.lum", folder / f"{name}.egg"
        found = json.loads(luminal("opt", module, "--json", "--no-cache", LUMINAL_FORBID_RULES=forbidden)[0])
        program.write_bytes(luminal("opt", module, "--emit-egg", LUMINAL_FORBID_RULES=forbidden)[0])
        sizes = re.findall(r"\((\S+) (\d+)\)", luminal("egg", program)[0].decode())
        rows = sum(int(count) for _, count in sizes)
        wanted = found["regions"][0]["rows"]
        check(rows == wanted > 100, f"{name}: {rows} rows, {wanted} wanted")
    text = program.read_text()
    program.write_text(text.replace(";- kinds 1", ";- kinds 99"))
    luminal.refuses("egg", program, says="kinds '99' is not a number below")
    luminal.refuses("opt", module, "--emit-egg", "--region", "7",
                    says=f"{module}: there is no region 7, they are numbered from 0 to 0")


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
        taken(luminal, folder)
        emitted(luminal, folder)
        linted(luminal, folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
