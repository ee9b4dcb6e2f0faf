"""What the check found: counts per phase, verdicts, and the two ways to show them (a table and one JSON object)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tests_vllm.equality import Equality
from tests_vllm.exchange import Exchange
from tests_vllm.load import Phase
from tests_vllm.parity import FamilyParity

_SHOWN_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class PhaseCounts:
    """Predicted against reported cached tokens over one phase. `under`: the worker had more cached than predicted."""

    name: str
    exact: bool
    requests: int
    failed: int
    compared: int
    equal: int
    under: int
    over: int
    prompt_tokens: int
    predicted_tokens: int
    reported_tokens: int
    per_worker: dict[str, int]

    @property
    def cached_share(self) -> float:
        """Share of the prompt tokens that the workers took from their caches."""
        return self.reported_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def count(phase: Phase) -> PhaseCounts:
    """Count `phase`. Requests without a prediction or a report are not compared."""
    answered = [exchange for exchange in phase.exchanges if not exchange.failed]
    differences = [_difference(exchange) for exchange in answered if exchange.predicted is not None]
    return PhaseCounts(
        name=phase.name,
        exact=phase.exact,
        requests=len(phase.exchanges),
        failed=len(phase.exchanges) - len(answered),
        compared=len(differences),
        equal=sum(difference == 0 for difference in differences),
        under=sum(difference < 0 for difference in differences),
        over=sum(difference > 0 for difference in differences),
        prompt_tokens=sum(exchange.prompt_tokens for exchange in answered),
        predicted_tokens=sum(exchange.predicted or 0 for exchange in answered),
        reported_tokens=sum(exchange.reported or 0 for exchange in answered),
        per_worker=dict(Counter(exchange.worker for exchange in answered if exchange.worker)),
    )


@dataclass(slots=True)
class Report:
    """Everything found, gathered as the check goes along."""

    versions: dict[str, str]
    routed: bool
    phases: list[Phase] = field(default_factory=list)
    equality: Equality | None = None
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    parity: list[FamilyParity] = field(default_factory=list)

    def problems(self) -> list[str]:
        """Why the check fails; empty when it passes."""
        exchanges = [exchange for phase in self.phases for exchange in phase.exchanges]
        problems = [f"request failed: {e.label} ({e.dialect}): {e.problem}" for e in exchanges if e.failed]
        if self.routed:
            problems += [
                _mismatch(phase, exchange) for phase in self.phases if phase.exact for exchange in _wrong(phase)
            ]
        if self.equality:
            problems += [f"answers differ: {problem}" for problem in self.equality.problems]
        problems += [f"tokens differ: {p.family}: {problem}" for p in self.parity for problem in p.problems]
        return problems + self._event_problems()

    def as_json(self) -> dict[str, Any]:
        """One object with the same facts as the tables."""
        counts = [count(phase) for phase in self.phases]
        compared = [c for c in counts if c.exact]
        return {
            "passed": not self.problems(),
            "problems": self.problems(),
            "versions": self.versions,
            "requests": sum(c.requests for c in counts),
            "failed": sum(c.failed for c in counts),
            "predictions": {"compared": sum(c.compared for c in compared), "equal": sum(c.equal for c in compared)},
            "dialects": self._dialects(),
            "phases": [
                {field: getattr(c, field) for field in c.__slots__} | {"cached_share": c.cached_share} for c in counts
            ],
            "outputs": self._outputs(),
            "events": self.events,
            "tokens": self._tokens() | {"families": [parity.as_json() for parity in self.parity]},
        }

    def show(self, console: Console) -> None:
        """Print tables, then what is wrong, then one line of verdict."""
        console.print(_phase_table([count(phase) for phase in self.phases]))
        problems = self.problems()
        lines = [
            f"outputs: {_plain(self._outputs())}",
            f"tokens: {_plain(self._tokens())}",
            *(f"events of {name}: {_plain(numbers)}" for name, numbers in self.events.items()),
            f"versions: {_plain(self.versions)}",
            *problems[:_SHOWN_PROBLEMS],
            f"FAILED: {len(problems)} problems" if problems else f"passed: {self._verdict()}",
        ]
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _verdict(self) -> str:
        facts = self.as_json()
        predictions, outputs, tokens = facts["predictions"], facts["outputs"], facts["tokens"]
        return (
            f"{facts['requests']} requests, none failed; {predictions['equal']} of {predictions['compared']} "
            f"predictions equal what vLLM reported; {outputs['equal']} of {outputs['prompts']} prompts answered "
            f"equally on cold and warm workers; {tokens['equal']} of {tokens['answers']} lists of token ids equal ours"
        )

    def _tokens(self) -> dict[str, int]:
        """Over all families; `refused` bodies are no problem, as vLLM would refuse the requests as well.

        `deviating`: equal as the endpoint computes them, though /tokenize says otherwise.
        """
        parities = self.parity
        return {
            "bodies": sum(parity.bodies for parity in parities),
            "answers": sum(parity.answers for parity in parities),
            "equal": sum(parity.equal for parity in parities),
            "deviating": sum(len(parity.deviating) for parity in parities),
            "refused": sum(len(parity.refused) for parity in parities),
        }

    def _outputs(self) -> dict[str, Any]:
        e = self.equality or Equality()
        return {"prompts": e.prompts, "equal": e.equal, "largest_logprob_difference": e.largest_difference}

    def _dialects(self) -> dict[str, dict[str, int]]:
        exchanges = [e for phase in self.phases if phase.exact for e in phase.exchanges if e.predicted is not None]
        compared, equal = (
            Counter(e.dialect for e in exchanges),
            Counter(e.dialect for e in exchanges if not _difference(e)),
        )
        return {dialect.value: {"compared": n, "equal": equal[dialect]} for dialect, n in compared.items()}

    def _event_problems(self) -> list[str]:
        bad = ("rejected", "undecodable", "lost")
        found = [f"events of {n}: {counts[b]} {b}" for n, counts in self.events.items() for b in bad if counts[b]]
        silent = [
            f"events of {n}: no block was stored" for n, c in self.events.items() if not c["blocks"].get("BlockStored")
        ]
        return found + silent + (self._router_event_problems() if self.routed else [])

    def _router_event_problems(self) -> list[str]:
        """The router must have taken in every batch that was published, those before its own start included."""
        problems = []
        for name, counts in self.events.items():
            router = counts["router"] or {"batches": 0, "complete": False}
            if not router["complete"] or router["batches"] != counts["batches"]:
                problems.append(
                    f"events of {name}: {counts['batches']} batches published, the router has {_plain(router)}"
                )
        return problems


def _plain(facts: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{k} ({_plain(v)})" if isinstance(v, Mapping) else f"{k} {v}" for k, v in facts.items() if v not in ({}, None)
    )


def _difference(exchange: Exchange) -> int:
    return (exchange.predicted or 0) - (exchange.reported or 0)


def _wrong(phase: Phase) -> list[Exchange]:
    """A routed answer without a prediction is wrong too."""
    return [e for e in phase.exchanges if not e.failed and (e.predicted is None or _difference(e) != 0)]


def _mismatch(phase: Phase, e: Exchange) -> str:
    numbers = f"predicted {e.predicted}, reported {e.reported} of {e.prompt_tokens} tokens on {e.worker}"
    return f"prediction differs: {phase.name}: {e.label} ({e.dialect}): {numbers}"


def _phase_table(phases: Sequence[PhaseCounts]) -> Table:
    table = Table(title="predicted against reported cached tokens", title_justify="left", box=SIMPLE, pad_edge=False)
    for column in ("phase", "requests", "failed", "equal", "under", "over", "cached", "per worker"):
        table.add_column(column, justify="left" if column.startswith(("phase", "per")) else "right")
    for c in phases:
        numbers = (c.requests, c.failed, f"{c.equal}/{c.compared}", c.under, c.over, f"{c.cached_share:.0%}")
        split = " + ".join(str(n) for _, n in sorted(c.per_worker.items())) or "-"
        table.add_row(c.name, *(str(number) for number in numbers), split)
    return table
