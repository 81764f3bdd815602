#!/usr/bin/env python3
# tools/discovery_page.py -- docs/discovery.md: what the rules find for the naive formulas of bench/forms, as
# `luminal opt` prints it.
"""Writes the page, or with --check compares it with what the program prints now.

    tools/discovery_page.py build/luminal [--check]

Numbers of kernels, stored bytes and rules are the same on every run on a processor of one kind; on another
one --check is skipped (exit code 77). Times are left out.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMS = ROOT / "bench" / "forms"
PAGE = ROOT / "docs" / "discovery.md"
HEAD = """# What the rules find

Each program below is a formula as a textbook writes it, from `bench/forms`; none of its terms has a name
that the compiler knows. The rules ([rules.md](rules.md)) make programs that equal it, and the one that takes
least by estimate is built. Kernels are launches of a step; stored bytes are written by one kernel for
another. Least time and fewest bytes are different plans of some: the last column has the plan that a limit
of memory asks for, where it is another one. This page is what `tools/discovery_page.py` prints;
`./bench.sh discover` measures the plans without rules and with them.

"""
KIND = "Chosen for one worker of "


def opt(program, form, *options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LUMINAL_")}
    done = subprocess.run([program, "opt", str(form), "-t", "1", "--no-cache", "--json", *options],
                          check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(done.stdout)


def kind(program):
    """What the choice depends on beside the terms: the vectors of the processor, sizes of its caches."""
    done = subprocess.run([program, "doctor", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    checks = {check["check"]: check["detail"] for check in json.loads(done.stdout)["checks"]}
    caches = sorted({(cache / "level").read_text().strip() + " " + (cache / "size").read_text().strip()
                     for cache in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")
                     if (cache / "type").read_text().strip() != "Instruction"})
    return f"{KIND}{checks['processor']}, caches {', '.join(caches)}.\n\n"


def size(count):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count:.0f} bytes"


def lines(text, indent="      "):
    """Lines of the page: longer ones go on below."""
    return "".join(f"{part.rstrip()}\n" for line in text.splitlines() for part in
                   textwrap.wrap(line, 108, subsequent_indent=indent, break_long_words=False,
                                 break_on_hyphens=False, drop_whitespace=False) or [""])


def page(program):
    rows, sections = [], []
    for form in sorted(FORMS.glob("*.apart.lum")):
        name = form.name.removesuffix(".apart.lum")
        before, after = opt(program, form, "--no-rules"), opt(program, form, "--terms")
        changed = [region for region in after["regions"] if region["outcome"] == "replaced"]
        title = f"[{name}](#{name})" if changed else name
        then = f"{after['kernels']} |" if changed else "as it is |"
        stored = size(after["stored_bytes"]) if changed else ""
        sparing = opt(program, form, "--fewest-bytes", "--terms")
        other = sparing["stored_bytes"] < after["stored_bytes"]
        fewest = f"{sparing['kernels']} kernels, {size(sparing['stored_bytes'])}" if other else ""
        if other and not changed:
            title = f"[{name}](#{name})"
        rows.append(f"| {title} | {before['kernels']} | {then} {size(before['stored_bytes'])} | {stored} | "
                    f"{fewest} |\n")
        if changed or other:
            rules = " ".join(f"`{rule}`" for rule in after["rules"])
            sections.append(f"## {name}\n\nAs it is written:\n\n```text\n{lines(form.read_text())}```\n\n"
                            f"{lines(f'Rules, in their order: {rules}.', '')}\n")
            for what, plan in ([("What is built", after)] if changed else []) + \
                              ([("With fewest bytes", sparing)] if other else []):
                sections.append(f"{what}:\n\n```text\n{lines(plan['terms'])}```\n\n")
    table = "| formula | kernels | with rules | stored | with rules | fewest bytes |\n" \
            "| --- | --- | --- | --- | --- | --- |\n"
    return HEAD + kind(program) + table + "".join(rows) + "\n" + "".join(sections).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if not args.check:
        PAGE.write_text(page(args.program))
        return 0
    there = PAGE.read_text()
    if kind(args.program) not in there:
        print("docs/discovery.md is of a processor of another kind")
        return 77
    if there != page(args.program):
        print("docs/discovery.md is not what the program prints; without --check it is written again")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
