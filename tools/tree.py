# tools/tree.py -- the source tree as the checkers see it: its files, its includes, results kept by content.
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import time

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<([^>\n]+)>|"([^"\n]+)")', re.MULTILINE)
SKIPPED = 77  # exit code that ctest counts as a skipped test


def default_root():
    return pathlib.Path(__file__).resolve().parent.parent


def files(root, suffixes=None):
    """Paths relative to root, sorted: what git tracks or would track; without git, all but builds
    and hidden folders."""
    root = pathlib.Path(root)
    names = None
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z",
                                 "-co",
                                 "--exclude-standard"], capture_output=True, text=True)
        if listed.returncode == 0:
            names = [pathlib.PurePosixPath(name) for name in listed.stdout.split("\0") if name]
    if names is None:
        names = []
        for folder, folders, found in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith((".", "build")) and f != "__pycache__"]
            names += [pathlib.PurePosixPath(os.path.relpath(os.path.join(folder, name), root))
                      for name in found]
    kept = {n for n in names if (suffixes is None or n.suffix in suffixes) and (root / n).is_file()}
    return sorted(kept, key=str)


def includes(text):
    """[(line, name, angled)] of the #include lines of a C++ text."""
    found = []
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append((line, match.group(2) or match.group(3), match.group(2) is not None))
    return found


class Closure:
    """Content hashes of a file together with every header of the tree that it reaches."""

    def __init__(self, root, folders=("src", "include", "tests", "bench")):
        self.root = pathlib.Path(root)
        self.folders = folders
        self.read = {}

    def _load(self, path):
        if path not in self.read:
            text = path.read_text(errors="replace")
            reached = []
            for _, name, _ in includes(text):
                for folder in (path.parent, *(self.root / f for f in self.folders)):
                    if (folder / name).is_file():
                        reached.append((folder / name).resolve())
                        break
            self.read[path] = (hashlib.sha256(text.encode()).hexdigest(), reached)
        return self.read[path]

    def reached(self, path):
        """{file of the tree: hash of its text} of the file and all headers that it reaches."""
        todo, seen = [pathlib.Path(path).resolve()], {}
        while todo:
            current = todo.pop()
            if current not in seen:
                digest, reached = self._load(current)
                seen[current] = digest
                todo += reached
        return seen

    def key(self, path, *extra):
        seen = self.reached(path)
        text = "\n".join([*map(str, extra), *(f"{os.path.relpath(p, self.root)} {d}"
                                              for p, d in sorted(seen.items()))])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def run_cached(cache, items, jobs, seconds=None, always=0):
    """Runs the commands of items [(name, key, command, stdin)] whose key is not in the folder
    `cache`; a command that succeeds is not run again for the same key. After `seconds` none is
    begun any more, but for the first `always` items. Returns ([(name, output)] of the failures,
    number run, names of those left)."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    for entry in cache.iterdir():
        if time.time() - entry.stat().st_mtime > 30 * 24 * 3600:
            entry.unlink(missing_ok=True)
    todo = []
    for place, item in enumerate(items):
        if (cache / item[1]).exists():
            (cache / item[1]).touch()
        else:
            todo.append((place < always, item))

    end = None if seconds is None else time.monotonic() + seconds

    left = []

    def run(entry):
        must, (name, key, command, stdin) = entry
        if not must and end is not None and time.monotonic() > end:
            left.append(str(name))
            return None
        done = subprocess.run(command, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode == 0:
            (cache / key).touch()
            return None
        return name, done.stdout

    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        results = list(pool.map(run, todo))
    return [result for result in results if result], len(todo) - len(left), sorted(left)


def changed(root, since="HEAD~1"):
    """Names of the files that differ from that commit."""
    listed = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", str(root), "diff", "--name-only",
                             since],
                            capture_output=True, text=True)
    return set(listed.stdout.split("\n")) - {""} if listed.returncode == 0 else set()


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
