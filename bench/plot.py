#!/usr/bin/env python3
# bench/plot.py -- rows of benchmarks (--json FILE) as one SVG: the share of the machine's limit,
# the ratio to the best peer.
"""Draws the rows that benchmarks write with --json as one SVG.

  ./bench.sh gemm --threads 1 --json gemm.json
  bench/plot.py gemm.json --out gemm.svg [--title TEXT] [--threads N] [--group]

Left: the part of the limit that was reached, as a bar. Right: our rate by that of the best peer on
a logarithmic axis; right of the line at 1 ours is faster. --group draws one line for all rows whose
names agree up to the first digit: the geometric mean and, thin, the least and the greatest. Rows
without a peer have no mark on the right.

  bench/plot.py --page docs/performance.md

draws each picture that the page shows from the tables in front of it, which state spans such as
"93-97 %, 0.97-1.03 x". --check says whether the pictures are those of the tables.
"""
import argparse
import html
import json
import math
import pathlib
import re
import sys

LABEL, BAR, GAP, RATIO, LINE, TOP = 390, 200, 60, 260, 18, 64
OURS, MARK, FAINT, TEXT = "#4878a8", "#c05020", "#d8d8d8", "#222222"


def rows_of(paths, threads):
    rows = []
    for path in paths:
        with open(path) as file:
            rows += [row for row in json.load(file)["rows"] if threads in (None, row["threads"])]
    return rows


def mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def spans(rows, group):
    """[(label, (least, mean, greatest) of the share, the same of the ratio)]; None where there is
    no number."""
    named = {}
    for row in rows:
        name = re.split(r"\s*\d", row["work"], maxsplit=1)[0] if group else row["work"]
        if len({other["threads"] for other in rows}) > 1:
            name += f", {row['threads']} thread" + "s" * (row["threads"] != 1)
        named.setdefault(name, []).append(row)
    out = []
    for name, members in named.items():
        span = []
        for key in ("fraction_of_limit", "ratio_to_best"):
            values = [row[key] for row in members if row.get(key)]
            span.append((min(values), mean(values), max(values)) if values else None)
        count = f" ({len(members)})" if len(members) > 1 else ""
        out.append((name + count, *span))
    return out


def span_of(cell, pattern, scale):
    found = re.search(r"([\d.]+)(?:-([\d.]+))? ?" + pattern, cell)
    if not found:
        return None
    least, most = float(found[1]) * scale, float(found[2] or found[1]) * scale
    return least, math.sqrt(least * most), most


def table_lines(table):
    """The lines of a Markdown table: one for each work and column, `a; b` are two works."""
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    lines = []
    for row in rows:
        works = row[0].split("; ")
        for column, cell in zip(head[1:], row[1:]):
            parts = cell.split("; ") if len(works) > 1 else [cell]
            for work, part in zip(works, parts):
                share, ratio = span_of(part, "%", 0.01), span_of(part, "x(?: |$|,)", 1)
                if share or ratio:
                    lines.append((f"{work}, {column}", share, ratio))
    return lines


def draw_page(page, check):
    """Draws each picture `![Title](FILE)` from the tables between its `###` heading and the next."""
    text, wrong = page.read_text(), []
    for title, file in re.findall(r"!\[(.*?)\]\((.*?\.svg)\)", text):
        section = re.search(rf"^### {re.escape(title)}.*?(?=^##)", text, re.M | re.S)
        if not section:
            sys.exit(f"plot: {page} has no section {title}")
        lines = [line for table in re.findall(r"(?:^\|.*\n)+", section[0], re.M)
                 for line in table_lines(table.strip())]
        wanted, path = svg(title, lines), page.parent / file
        if check and (not path.exists() or path.read_text() != wanted):
            wrong.append(f"plot: {path} is not drawn from {page}: bench/plot.py --page {page}")
        elif not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted)
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


def svg(title, lines):
    ratios = [value for _, _, ratio in lines if ratio for value in (ratio[0], ratio[2])] or [1]
    low = min(-1.0, math.floor(math.log2(min(ratios))))
    high = max(1.0, math.ceil(math.log2(max(ratios))))
    left, right = LABEL + 10, LABEL + 10 + BAR + GAP
    height = TOP + LINE * len(lines) + 14

    def at(ratio):
        return right + (math.log2(ratio) - low) / (high - low) * RATIO

    def text(x, y, words, anchor="start", weight="normal"):
        return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{TEXT}">'
                f"{html.escape(words)}</text>")

    def rule(x, colour=FAINT):
        return f'<path d="M{x:.1f} {TOP - 6}V{height - 12}" stroke="{colour}"/>'

    width = right + RATIO + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
           f'height="{height}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           text(10, 20, title, weight="bold"), text(left, 38, "share of the limit"),
           text(right, 38, "ratio to the best peer")]
    for percent in (0, 50, 100):
        out += [rule(left + BAR * percent / 100), text(left + BAR * percent / 100, TOP - 10, f"{percent} %",
                                                       "middle")]
    for power in range(int(low), int(high) + 1):
        out += [rule(at(2.0**power), "#555555" if power == 0 else FAINT),
                text(at(2.0**power), TOP - 10, f"{2.0**power:g} x", "middle")]
    for place, (name, share, ratio) in enumerate(lines):
        y = TOP + LINE * place + LINE / 2
        out.append(text(LABEL, y + 4, name, "end"))
        if share:
            out.append(f'<rect x="{left}" y="{y - 5}" width="{BAR * min(share[1], 1.2):.1f}" height="10" '
                       f'fill="{OURS}"/>')
            out.append(text(left + BAR * min(share[1], 1.2) + 4, y + 4, f"{100 * share[1]:.0f}"))
        if ratio:
            out.append(f'<path d="M{at(ratio[0]):.1f} {y}H{at(ratio[2]):.1f}" stroke="{MARK}"/>')
            out.append(f'<circle cx="{at(ratio[1]):.1f}" cy="{y}" r="4" fill="{MARK}"/>')
            out.append(text(at(ratio[2]) + 8, y + 4, f"{ratio[1]:.2f}"))
    return "\n".join([*out, "</svg>\n"])


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="*")
    arguments.add_argument("--out")
    arguments.add_argument("--page", type=pathlib.Path)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--title", default="")
    arguments.add_argument("--threads", type=int)
    arguments.add_argument("--group", action="store_true")
    arguments = arguments.parse_args()
    if arguments.page:
        return draw_page(arguments.page, arguments.check)
    if not arguments.files or not arguments.out:
        sys.exit("plot: files of rows and --out FILE are expected, or --page FILE")
    rows = rows_of(arguments.files, arguments.threads)
    if not rows:
        sys.exit("plot: no rows" + (f" with {arguments.threads} threads" if arguments.threads else ""))
    wrong = [row["work"] for row in rows if not row.get("correct", True)]
    if wrong:
        sys.exit(f"plot: wrong results are not drawn: {', '.join(wrong[:5])}")
    with open(arguments.out, "w") as file:
        file.write(svg(arguments.title, spans(rows, arguments.group)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
