"""What a run came to, for people and as JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chaos.options import ChaosOptions
from chaos.story import Violation

_SHOWN = 10
Counts = dict[str, float]


@dataclass(slots=True)
class Report:
    """Tables of counts by their titles, and what must never have been."""

    options: ChaosOptions
    log: Path
    tables: dict[str, Counts] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.violations

    def as_json(self) -> str:
        """Everything, with the story of each violation."""
        options: dict[str, Any] = {key: value for key, value in asdict(self.options).items() if key != "log"}
        violations = [violation.as_json() for violation in self.violations]
        return json.dumps({"options": options, "log": str(self.log), **self.tables, "violations": violations}, indent=1)

    def as_text(self) -> str:
        """The tables, then the first violations in full."""
        lines = []
        for title, counts in self.tables.items():
            lines += ["", title, *(f"  {_number(value):>10}  {name}" for name, value in counts.items())]
        lines += ["", f"{len(self.violations)} violations" if self.violations else "no violation"]
        for violation in self.violations[:_SHOWN]:
            lines += ["", f"VIOLATION: {violation.what}"]
            lines += [] if violation.story is None else [f"  {key}: {value}" for key, value in violation.story.items()]
        if self.violations:
            flags = f"--seconds {self.options.seconds:g} --seed {self.options.seed}"
            lines += ["", f"again: .venv/bin/python -m chaos {flags}    (the router's log: {self.log})"]
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
