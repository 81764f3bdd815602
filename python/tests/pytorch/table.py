# python/tests/pytorch/table.py -- docs/torch.md from the rows of op_db.py: operators and passed samples,
# what was handed to PyTorch, failures by reason.
import collections
import datetime
import json
import pathlib
import textwrap

KINDS = ("passed", "handed", "wrong", "error", "trace")
HEAD = (
    "# PyTorch's operators",
    "Samples of PyTorch's own operator data base (`torch.testing._internal.common_methods_invocations.op_db`,"
    " PyTorch {torch}), each run through the back end of `torch.compile` and compared with eager: {date}, "
    "{samples} samples{part}. Made by `python/tests/pytorch/op_db.py --table ROWS`.",
    "*passed*: equal to eager within PyTorch's tolerances (or as near to the result in double as eager is, "
    "within twice its error), and nothing stayed in PyTorch. *handed*: equal, and some operator of the sample"
    " was computed by PyTorch, which stderr and `luminal.report()` name. *wrong*: not equal. *error*: an "
    "exception where eager has none. *trace*: PyTorch's own tracing refused the sample, the back end never "
    "saw it.",
    "An operator is *reached* by the core decompositions where everything that stayed in PyTorch carries its "
    "tag `core`. Random numbers are PyTorch's. Decompositions of matrices, complex numbers and special "
    "functions are not core operators; they make most of *handed*.",
    "",
)


def read(files):
    rows = {}
    for file in files:
        for line in pathlib.Path(file).read_text().splitlines():
            row = json.loads(line)
            rows[tuple(row["key"])] = row
    return rows


def head(**words):
    return "\n\n".join("\n".join(textwrap.wrap(part.format(**words), 108)) for part in HEAD)


def percent(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def group_of(reason):
    """The operator that stayed, or the sort of failure."""
    return reason.split("; ")[0].split(", so that")[0][:110].replace("|", "\\|")


def page(files, torch="2.13.0", part=""):
    rows = {key: row for key, row in read(files).items() if row["status"] != "skipped"}
    text = [head(torch=torch, date=datetime.date.today().isoformat(), samples=len(rows), part=part)]
    text.append(
        "| samples | "
        + " | ".join(KINDS)
        + " | of those that the core decompositions reach, without random numbers |"
    )
    text.append("|---|" + "---|" * (len(KINDS) + 1))
    for gradients in (False, True):
        for dtype in ("f32", "i64", "bool", "bf16"):
            own = [row for key, row in rows.items() if key[1] == dtype and key[3] == gradients]
            if own:
                counts = collections.Counter(row["status"] for row in own)
                reach = [row for row in own if is_reached(row)]
                text.append(
                    f"| {dtype}{' gradients' if gradients else ''}: {len(own)} | "
                    + " | ".join(str(counts[kind]) for kind in KINDS)
                    + f" | {percent(sum(row['status'] == 'passed' for row in reach), len(reach))} passed |"
                )
    text.append("\n## What was handed to PyTorch\n\n| samples | operator and reason |\n|---|---|")
    reasons = collections.Counter(
        group_of(row["reason"]) for row in rows.values() if row["status"] == "handed"
    )
    text += [f"| {count} | {reason} |" for reason, count in reasons.most_common()]
    text.append("\n## What failed\n\n| samples | operators | reason |\n|---|---|---|")
    failed = collections.defaultdict(list)
    for key, row in rows.items():
        if row["status"] in ("wrong", "error"):
            failed[(key[0], row["status"])].append(row["reason"])
    text += [
        f"| {len(list_)} | {name}: {status} | {group_of(list_[0])} |"
        for (name, status), list_ in sorted(failed.items())
    ]
    text.append("\n## Operators\n\n| operator | " + " | ".join(KINDS) + " |\n|---|" + "---|" * len(KINDS))
    by_op = collections.defaultdict(collections.Counter)
    for key, row in rows.items():
        by_op[key[0]][row["status"]] += 1
    text += [
        f"| {name} | " + " | ".join(str(counts[kind]) for kind in KINDS) + " |"
        for name, counts in sorted(by_op.items())
    ]
    return "\n".join(text) + "\n"


def is_reached(row):
    """Whether PyTorch's decompositions lead to core operators that are not random."""
    return row["status"] != "trace" and row["core"] and "random numbers" not in row["reason"]
