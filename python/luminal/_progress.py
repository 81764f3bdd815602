# python/luminal/_progress.py -- a line that shows where a search stands: in a terminal, in a
# notebook, in a log.
import os
import sys
import time
import typing

if typing.TYPE_CHECKING:
    from ._core import SearchProgress


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds > 0 else "-"


class Line:
    """Called with a SearchProgress; writes to stderr. A terminal and a notebook have one line, a
    file one every ten seconds."""

    def __init__(self, stream: typing.Optional[typing.TextIO] = None) -> None:
        self.stream = stream or sys.stderr
        self.rewrites = getattr(self.stream, "isatty", lambda: False)() or "ipykernel" in sys.modules
        self.written, self.width = 0.0, 0

    def text(self, progress: "SearchProgress") -> str:
        rejected = sum(progress.rejected.values())
        parts = [f"search: kernel {progress.number} of {progress.kernels}" if progress.kernels
                 else f"search: {progress.phase}"]
        if progress.phase == "confirming":
            parts = [f"search: whole program {_milliseconds(progress.program_before)} -> "
                     f"{_milliseconds(progress.program)}"]
        elif progress.kernel:
            parts.append(f"{progress.kernel}: best {_milliseconds(progress.best)}, default "
                         f"{_milliseconds(progress.usual)}")
        parts.append(f"{progress.tried} tried, {rejected} rejected")
        if progress.left >= 0:
            parts.append(f"{progress.left:.0f} s left, Ctrl-C keeps the best")
        return "; ".join(parts)

    def __call__(self, progress: "SearchProgress") -> None:
        now = time.monotonic()
        if now - self.written < (0.1 if self.rewrites else 10):
            return
        self.written = now
        text = self.text(progress)
        if self.rewrites:
            columns = 100
            try:
                columns = os.get_terminal_size(self.stream.fileno()).columns - 1
            except (OSError, ValueError, AttributeError):
                pass
            text = text[:columns]
            self.stream.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def __del__(self) -> None:
        if self.rewrites and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
