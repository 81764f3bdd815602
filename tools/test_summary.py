#!/usr/bin/env python3
# tools/test_summary.py -- what ctest's XML report says in a few lines: skipped tests by reason, the
# slowest ones, what failed ones printed.
import collections
import re
import sys
import xml.etree.ElementTree as ElementTree


def reason(output):
    """What a skipped test printed: the text of GTEST_SKIP, or a line 'skipped: ...'."""
    for line in output.splitlines():
        if line.startswith("skipped: "):
            return line.removeprefix("skipped: ")
    found = re.search(r"Skipped\n(.+?)\n(?:\n|\[)", output, re.DOTALL)
    return found.group(1).strip().splitlines()[0] if found else "no reason given"


def failures(output):
    """The failed checks of a test with their lines; else the end of what it printed."""
    lines = output.splitlines()
    at = [i for i, line in enumerate(lines) if re.search(r": Failure$|^FAIL|ERROR: |Assertion", line)]
    return "\n".join(lines[at[0] : at[0] + 40] if at else lines[-20:])


def main():
    suite = ElementTree.parse(sys.argv[1]).getroot()
    skipped, failed, times, count = collections.defaultdict(list), [], [], 0
    for case in suite.iter("testcase"):
        count += 1
        if case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None:
            skipped[reason(case.findtext("system-out") or "")].append(case.get("name"))
        else:
            if case.get("status") == "fail":
                failed.append((case.get("name"), case.findtext("system-out") or ""))
            times.append((float(case.get("time") or 0), case.get("name")))
    for text, names in sorted(skipped.items()):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"skipped: {', '.join(names[:3])}{more}: {text}")
    slow = [f"{name} {seconds:.1f} s" for seconds, name in sorted(times, reverse=True)[:5] if seconds >= 1.0]
    if slow:
        print("slowest: " + ", ".join(slow))
    print(f"{count} tests, {count - sum(map(len, skipped.values()))} run, {sum(map(len, skipped.values()))} "
          f"skipped")
    for name, output in failed:
        print(f"failed: {name}\n{failures(output)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
