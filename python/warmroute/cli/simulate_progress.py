"""What is seen on stderr while simulations run: a line for each one under way; on no terminal for each that ended."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from warmroute.simulator.many import Watcher


@contextmanager
def shown(console: Console, names: Sequence[str]) -> Iterator[Watcher]:
    """A watcher of tasks with these names."""
    if not console.is_terminal:
        yield _Lines(console, names)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bars(progress, names)


class _Lines(Watcher):
    def __init__(self, console: Console, names: Sequence[str]) -> None:
        self._console, self._names = console, names
        self._began_at = time.monotonic()
        self._ended = 0

    def ended(self, position: int) -> None:
        self._ended += 1
        seconds = time.monotonic() - self._began_at
        line = f"{self._ended} of {len(self._names)} after {seconds:.0f} s: {self._names[position]}"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


class _Bars(Watcher):
    """One bar for all, and one for each task under way."""

    def __init__(self, progress: Progress, names: Sequence[str]) -> None:
        self._progress, self._names = progress, names
        self._bars: dict[int, TaskID] = {}
        self._ended = 0
        self._all = progress.add_task("all", total=len(names), detail=f"0 of {len(names)}")

    def progress(self, position: int, stage: str, sent: int, total: int) -> None:
        if position not in self._bars:
            self._bars[position] = self._progress.add_task(self._names[position], total=total, detail="")
        detail = f"{stage}: {sent:,} of {total:,} requests"
        self._progress.update(self._bars[position], completed=sent, total=total, detail=detail)

    def ended(self, position: int) -> None:
        if position in self._bars:
            self._progress.remove_task(self._bars[position])
        self._ended += 1
        self._progress.update(self._all, completed=self._ended, detail=f"{self._ended} of {len(self._names)}")
