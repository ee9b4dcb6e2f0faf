"""Draws the plots of docs/images from bench/results. Runs in .venv-dynamo, which has matplotlib.

The same results give the same bytes, and a plot says in its description what it was drawn from.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.render_results import IMAGES, drawn_from, load

_matplotlib: Any = import_module("matplotlib")
_matplotlib.use("svg")
_pyplot: Any = import_module("matplotlib.pyplot")

STYLE = {
    "svg.hashsalt": "warmroute",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8a8a",
    "axes.labelcolor": "#444444",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
}
COLOURS = ("#1f6fb2", "#d1701f", "#5b8f3a")


def lookup_scaling(scaling: dict[str, Any], path: Path, description: str) -> None:
    """Beside each other: the time of a lookup over the number of workers, and over the length of the prompt."""
    with _pyplot.rc_context(STYLE):
        figure, (left, right) = _pyplot.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
        _workers(left, scaling["workers"])
        _tokens(right, scaling["prompt_tokens"])
        for axes in (left, right):
            axes.set_ylabel("microseconds, p50")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            axes.grid(visible=True, which="major")
            axes.minorticks_off()
            axes.legend(loc="upper left")
        figure.savefig(path, metadata={"Date": None, "Description": description})


def _workers(axes: Any, rows: list[dict[str, Any]]) -> None:
    fleets = sorted({row["workers"] for row in rows})
    lines = {"held by all": None, "held by 8": 8, "held by one": 1}
    for (label, held_by), colour in zip(lines.items(), COLOURS, strict=True):
        found = {row["workers"]: row["us"] for row in rows if row["held_by"] == (held_by or row["workers"])}
        axes.plot(fleets, [found[fleet] for fleet in fleets], "o-", color=colour, label=label, markersize=4)
    axes.set_xticks(fleets, [f"{fleet:,}" for fleet in fleets])
    axes.set_xlabel("workers")
    axes.set_title(f"a prompt of {rows[0]['blocks']:,} blocks", loc="left", fontsize=10)


def _tokens(axes: Any, rows: list[dict[str, Any]]) -> None:
    lengths = sorted({row["tokens"] for row in rows})
    most = max(row["held_by"] for row in rows)
    shown = {(row["tokens"], row["held_by"]): row for row in rows}
    lines = (
        ("hashing and match", "us_hashing_included", most, COLOURS[0]),
        (f"match alone, held by {most}", "us_match", most, COLOURS[1]),
        ("match alone, held by one", "us_match", 1, COLOURS[2]),
    )
    for label, name, held_by, colour in lines:
        times = [shown[length, held_by][name] for length in lengths]
        axes.plot(lengths, times, "o-", color=colour, label=label, markersize=4)
    axes.set_xticks(lengths, [f"{length >> 10}k" if length < 1 << 20 else f"{length >> 20}M" for length in lengths])
    axes.set_xlabel("tokens of the prompt")
    axes.set_title(f"{most} workers", loc="left", fontsize=10)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    name = "lookup_scaling.svg"
    lookup_scaling(load("prefix_index.json")["scaling"], IMAGES / name, drawn_from(name))
    print(f"drew {IMAGES / name}")


if __name__ == "__main__":
    main()
