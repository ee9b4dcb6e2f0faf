"""What the renderings of results share: tables, numbers with the digits that mean something, and the machine."""

from collections.abc import Iterable, Sequence
from typing import Any

Result = dict[str, Any]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, the first column to the left and the others to the right."""
    lines = [heads, ["---", *("---:" for _ in heads[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine(result: Result) -> str:
    """On what a result was measured."""
    where = result["environment"]
    return (
        f"{where['cores']} cores ({where['cpu']}), {where['python']}, a {where['native_build']} build at "
        f"{where['commit']}, load {where['load_1min']:g} at the start"
    )


def us(value: float) -> str:
    """A time in microseconds, with three digits that mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def millions(value: float) -> str:
    return f"{value / 1e6:.2f} M"
