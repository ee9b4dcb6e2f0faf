"""What a person sees on stderr while the load runs: a bar on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_PLAIN_STEPS = 4


@contextmanager
def progress(console: Console, title: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call once for each of `total` finished requests."""
    if console.is_terminal:
        with _bar(console) as bar:
            task = bar.add_task(title, total=total)
            yield lambda: bar.advance(task)
    else:
        yield _plain(console, title, total)


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _plain(console: Console, title: str, total: int) -> Callable[[], None]:
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if done * _PLAIN_STEPS // total > (done - 1) * _PLAIN_STEPS // total:
            console.print(f"{title}: {done} of {total} requests", highlight=False)

    return advance
