"""What `warmroute simulate` can put on what."""

import sys

from rich import box
from rich.console import Console
from rich.table import Table

from warmroute.simulator.comparison import Values
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.workloads import WORKLOADS

_WIDTH_OF_A_FILE = 200


def print_list() -> None:
    """Workloads, then policies, with one line each."""
    output = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    output.print(_table("workload", {listed.name: listed.about for listed in WORKLOADS}))
    output.print(_table("policy", {name: arm.about for name, arm in ARMS.items()}))


def as_json() -> Values:
    """The same, with what each policy's main setting is."""
    return {
        "workloads": [{"name": listed.name, "about": listed.about} for listed in WORKLOADS],
        "policies": [
            {
                "name": name,
                "about": arm.about,
                "source": arm.source,
                "knob": arm.knob and {"name": arm.knob.name, "default": arm.knob.default, "values": [*arm.knob.values]},
            }
            for name, arm in ARMS.items()
        ],
    }


def _table(title: str, abouts: dict[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(title, no_wrap=True)
    table.add_column("")
    for name, about in abouts.items():
        table.add_row(name, about)
    return table
